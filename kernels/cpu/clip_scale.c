/*
 * clip_scale.c - CLIP_SCALE: does this step update, and by what are stored gradients multiplied?
 *
 *   norm = sqrt(sq_norm) / loss_scale,  clipping = min(1, clip / (norm + 1e-6))   (clip > 0)
 *   grad_scale = clipping / loss_scale
 *
 * with the loss scale that the gradients were made with. A dynamic scale doubles after 2,000
 * updates without overflow and halves on each overflow. Without one, a NaN or infinity also stops
 * the update; the step loop reports it.
 */
#include "kernels/cpu/cpu.h"

#include <math.h>

enum { GROW_AFTER = 2000 };
static const float scale_max = 0x1p24f, scale_min = 0x1p-24f;

static void overflow(struct sn_scalars *s, bool dynamic)
{
    s->ok = 0;
    s->grad_scale = 0.0f;
    s->skipped++;
    if (!dynamic)
        return;
    s->loss_scale = s->loss_scale * 0.5f > scale_min ? s->loss_scale * 0.5f : scale_min;
    s->scale_age = 0;
}

static void update(struct sn_scalars *s, bool dynamic)
{
    double clip = (double)s->clip, clipping = 1.0;
    if (clip > 0.0 && s->grad_norm > clip)
        clipping = fmin(1.0, clip / (s->grad_norm + 1e-6));
    s->ok = 1;
    s->adam_count++;
    s->grad_scale = (float)(clipping / (double)s->loss_scale);
    if (!dynamic || ++s->scale_age < GROW_AFTER)
        return;
    s->loss_scale = s->loss_scale * 2.0f < scale_max ? s->loss_scale * 2.0f : scale_max;
    s->scale_age = 0;
}

SN_KERNEL(sn_clip_scale)
{
    (void)threads;
    struct sn_scalars *s = a->scalars;
    s->grad_norm = sqrt(s->sq_norm) / (double)s->loss_scale;
    if (s->nonfinite > 0 || !isfinite(s->sq_norm))
        overflow(s, a->attr.optimizer.dynamic_scale);
    else
        update(s, a->attr.optimizer.dynamic_scale);
    return 0;
}
