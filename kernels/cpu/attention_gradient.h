/*
 * attention_gradient.h - the row of probabilities and of scores' gradients that both ways of
 * ATTENTION_DX compute: attention_dx.c and attention_dx_bf16.c.
 */
#ifndef SN_ATTENTION_GRADIENT_H
#define SN_ATTENTION_GRADIENT_H

#include "kernels/cpu/attention.h"
#include "kernels/cpu/vmath.h"

/* Of one query: scores are multiplied by scale; factors of dropout, NULL without; keys before the
 * first that it sees. */
struct sn_attn_gradient {
    float scale, lse, delta, cap;
    const float *factor;
    int64_t before;
};

/* The same with capped scores, s = cap tanh(scale q.k / cap): ds is times 1 - tanh^2. */
static inline void sn_attn_gradient_capped(const struct sn_attn_gradient *of, int64_t visible,
                                           float *restrict p, float *restrict ds)
{
    const float inner = of->scale / of->cap, lse = of->lse, delta = of->delta, cap = of->cap;
    const float *factor = of->factor;
#pragma omp simd
    for (int64_t k = 0; k < visible; k++) {
        float t = sn_tanhf(inner * p[k]), prob = sn_expf_low(cap * t - lse);
        float f = factor ? factor[k] : 1.0f;
        ds[k] = prob * (f * ds[k] - delta) * (1 - t * t);
        p[k] = prob * f;
    }
}

/* The visible part of one row: p from scores, ds from do.v (in `ds`); zero beyond, to a whole
 * SN_STEP. */
static inline __attribute__((always_inline)) void
sn_attn_gradient_row(const struct sn_attn_gradient *of, int64_t visible, float *restrict p,
                     float *restrict ds)
{
    const float scale = of->scale, lse = of->lse, delta = of->delta, *factor = of->factor;
    if (of->before >= visible) {
        sn_clear_step(p, visible);
        sn_clear_step(ds, visible);
        return;
    }
    int64_t whole = sn_whole_step(p, visible, -INFINITY);
    (void)sn_whole_step(ds, visible, 0.0f);
    if (of->cap > 0) {
        sn_attn_gradient_capped(of, visible, p, ds);
        (void)sn_whole_step(p, visible, 0.0f);
    } else if (factor) {
#pragma omp simd
        for (int64_t k = 0; k < whole; k++) {
            float prob = sn_expf_low(scale * p[k] - lse);
            ds[k] = prob * (factor[k] * ds[k] - delta);
            p[k] = prob * factor[k];
        }
    } else {
#pragma omp simd
        for (int64_t k = 0; k < whole; k++) {
            p[k] = sn_expf_low(scale * p[k] - lse);
            ds[k] = p[k] * (ds[k] - delta);
        }
    }
    for (int64_t k = 0; k < of->before; k++)
        p[k] = ds[k] = 0;
}

#endif
