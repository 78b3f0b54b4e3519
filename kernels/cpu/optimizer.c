/*
 * optimizer.c - optimizers: a rule for one piece each, and the pass that all share, bound by
 * memory.
 */
#include "kernels/cpu/rows.h"

#include <math.h>
#include <string.h>

/* What all elements share. */
struct rates {
    float grad, b1, c1, b2, c2; /* c = 1 - b */
    float shrink, lr, step, root_scale, eps, momentum;
};

static struct rates rates_of(const struct sn_args *a)
{
    const struct sn_scalars *s = a->scalars;
    double b1 = (double)a->attr.optimizer.beta1, b2 = (double)a->attr.optimizer.beta2,
           t = (double)s->adam_count;
    float lr32 = s->lr * (a->attr.optimizer.rate > 0 ? a->attr.optimizer.rate : 1.0f);
    double lr = (double)lr32;
    return (struct rates){.grad = s->grad_scale,
                          .b1 = (float)b1,
                          .c1 = (float)(1.0 - b1),
                          .b2 = (float)b2,
                          .c2 = (float)(1.0 - b2),
                          .shrink = (float)(1.0 - lr * (double)a->attr.optimizer.decay),
                          .lr = lr32,
                          .step = (float)(lr / (1.0 - pow(b1, t))),
                          .root_scale = (float)(1.0 / sqrt(1.0 - pow(b2, t))),
                          .eps = a->attr.optimizer.eps,
                          .momentum = a->attr.optimizer.momentum};
}

/* Elements first .. first + n - 1. */
typedef void rule(const struct sn_args *a, const struct rates *k, int64_t first, int64_t n);

static int update(const struct sn_args *a, int threads, rule *piece)
{
    int64_t n = a->in[SN_UPDATE_G].cols;
    const struct sn_mat *w = &a->out[SN_UPDATE_W];
    if (!a->scalars->ok)
        return 0;
    struct rates k = rates_of(a);
#pragma omp parallel num_threads(sn_team(threads, n))
    {
        int64_t i, end;
        sn_share(n, SN_TILE_COLS, omp_get_thread_num(), omp_get_num_threads(), &i, &end);
        for (; i < end; i += SN_TILE_COLS) {
            int64_t some = sn_piece(end, i);
            piece(a, &k, i, some);
            if (w->p)
                sn_row_store(sn_at(w, 0, i), w->dtype, (float *)a->out[SN_UPDATE_P].p + i, some);
        }
    }
    return 0;
}

/* Loshchilov & Hutter 2019, with the order of operations of torch.optim.AdamW:
 *
 *   g' = g grad_scale;  m = b1 m + (1-b1) g';  v = b2 v + (1-b2) g'^2
 *   p = p (1 - lr decay) - lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps)
 *
 * 28 bytes a parameter, and the storage copy. */
static void adamw(const struct sn_args *a, const struct rates *shared, int64_t first, int64_t n)
{
    const struct rates k = *shared;
    const float *restrict g = (const float *)a->in[SN_UPDATE_G].p + first;
    float *restrict p = (float *)a->out[SN_UPDATE_P].p + first;
    float *restrict m = (float *)a->out[SN_UPDATE_M].p + first;
    float *restrict v = (float *)a->out[SN_UPDATE_V].p + first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float gi = g[i] * k.grad;
        float mi = k.b1 * m[i] + k.c1 * gi;
        float vi = k.b2 * v[i] + k.c2 * (gi * gi);
        m[i] = mi;
        v[i] = vi;
        p[i] = p[i] * k.shrink - k.step * mi / (sqrtf(vi) * k.root_scale + k.eps);
    }
}

SN_KERNEL(sn_adamw)
{
    return update(a, threads, adamw);
}

/* Chen et al. 2023 (arXiv 2302.06675, algorithm 2): 20 bytes a parameter, and the storage copy.
 *
 *   p = p (1 - lr decay) - lr sign(b1 m + (1-b1) g');  m = b2 m + (1-b2) g' */
static void lion(const struct sn_args *a, const struct rates *shared, int64_t first, int64_t n)
{
    const struct rates k = *shared;
    const float *restrict g = (const float *)a->in[SN_UPDATE_G].p + first;
    float *restrict p = (float *)a->out[SN_UPDATE_P].p + first;
    float *restrict m = (float *)a->out[SN_UPDATE_M].p + first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float gi = g[i] * k.grad;
        float ci = k.b1 * m[i] + k.c1 * gi;
        float step = ci > 0.0f ? k.lr : ci < 0.0f ? -k.lr : 0.0f;
        m[i] = k.b2 * m[i] + k.c2 * gi;
        p[i] = p[i] * k.shrink - step;
    }
}

SN_KERNEL(sn_lion)
{
    return update(a, threads, lion);
}

/* torch.optim.SGD with the decay decoupled: 20 bytes a parameter, and the storage copy.
 *
 *   m = momentum m + g';  p = p (1 - lr decay) - lr m */
static void sgd(const struct sn_args *a, const struct rates *shared, int64_t first, int64_t n)
{
    const struct rates k = *shared;
    const float *restrict g = (const float *)a->in[SN_UPDATE_G].p + first;
    float *restrict p = (float *)a->out[SN_UPDATE_P].p + first;
    float *restrict m = (float *)a->out[SN_UPDATE_M].p + first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float mi = k.momentum * m[i] + g[i] * k.grad;
        m[i] = mi;
        p[i] = p[i] * k.shrink - k.lr * mi;
    }
}

SN_KERNEL(sn_sgd)
{
    return update(a, threads, sgd);
}

/* 12 bytes a parameter. */
SN_KERNEL(sn_average)
{
    const float *restrict p = a->in[SN_AVERAGE_P].p;
    float *restrict e = a->out[SN_AVERAGE_E].p;
    int64_t n = a->in[SN_AVERAGE_P].cols;
    float c = (float)(1.0 - (double)a->attr.optimizer.beta1);
    bool begins = a->scalars->adam_count <= 1;
    if (!a->scalars->ok)
        return 0;
#pragma omp parallel num_threads(sn_team(threads, n))
    {
        int64_t first, end;
        sn_share(n, SN_TILE_COLS, omp_get_thread_num(), omp_get_num_threads(), &first, &end);
        if (begins && first < end)
            memcpy(e + first, p + first, (size_t)(end - first) * sizeof(*e));
#pragma omp simd
        for (int64_t i = begins ? end : first; i < end; i++)
            e[i] += c * (p[i] - e[i]);
    }
    return 0;
}

/* Gradients as words of their size: 0 is 0 in all of them. */
#define PRUNE(word, bits)                                                                          \
    static void prune_##bits(const float *restrict p, word *restrict g, int64_t first,             \
                             int64_t end)                                                          \
    {                                                                                              \
        _Pragma("omp simd") for (int64_t i = first; i < end; i++) g[i] = p[i] == 0.0f ? 0 : g[i];  \
    }
PRUNE(uint16_t, 16)
PRUNE(uint32_t, 32)
PRUNE(uint64_t, 64)
#undef PRUNE

/* 12 bytes a parameter of fp32. */
SN_KERNEL(sn_prune)
{
    const struct sn_mat *g = &a->out[SN_PRUNE_G];
    const float *p = a->in[SN_PRUNE_P].p;
#pragma omp parallel num_threads(sn_team(threads, g->cols))
    {
        int64_t first, end;
        sn_share(g->cols, SN_TILE_COLS, omp_get_thread_num(), omp_get_num_threads(), &first, &end);
        switch (sn_dtype_size(g->dtype)) {
        case 2:
            prune_16(p, g->p, first, end);
            break;
        case 4:
            prune_32(p, g->p, first, end);
            break;
        default:
            prune_64(p, g->p, first, end);
        }
    }
    return 0;
}
