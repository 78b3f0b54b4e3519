/*
 * clip_scale.cu - CLIP_SCALE, on the device: formulas as in kernels/cpu/clip_scale.c. One thread.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

enum { GROW_AFTER = 2000 };
#define SCALE_MAX 16777216.0f          /* 2^24 */
#define SCALE_MIN (1.0f / 16777216.0f) /* 2^-24 */

static __device__ void overflow(struct sn_scalars *s, bool dynamic)
{
    s->ok = 0;
    s->grad_scale = 0.0f;
    s->skipped++;
    if (!dynamic)
        return;
    s->loss_scale = s->loss_scale * 0.5f > SCALE_MIN ? s->loss_scale * 0.5f : SCALE_MIN;
    s->scale_age = 0;
}

static __device__ void update(struct sn_scalars *s, bool dynamic)
{
    double clip = (double)s->clip, clipping = 1.0;
    if (clip > 0.0 && s->grad_norm > clip)
        clipping = fmin(1.0, clip / (s->grad_norm + 1e-6));
    s->ok = 1;
    s->adam_count++;
    s->grad_scale = (float)(clipping / (double)s->loss_scale);
    if (!dynamic || ++s->scale_age < GROW_AFTER)
        return;
    s->loss_scale = s->loss_scale * 2.0f < SCALE_MAX ? s->loss_scale * 2.0f : SCALE_MAX;
    s->scale_age = 0;
}

static __global__ void clip_scale(const struct sn_args a)
{
    struct sn_scalars *s = a.scalars;
    s->grad_norm = sqrt(s->sq_norm) / (double)s->loss_scale;
    if (s->nonfinite > 0 || !(fabs(s->sq_norm) < (double)INFINITY))
        overflow(s, a.attr.optimizer.dynamic_scale);
    else
        update(s, a.attr.optimizer.dynamic_scale);
}

SN_CUDA_OP(clip_scale)
{
    struct sn_shape one = {1, 1, 1, 1, 1, 0};
    return sn_launch(cx, clip_scale, one, *a);
}
