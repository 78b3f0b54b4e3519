/*
 * attention_gradient.h - the row of probabilities and of scores' gradients that both ways of
 * ATTENTION_DX compute: attention_dx.c and attention_dx_bf16.c.
 */
#ifndef SN_ATTENTION_GRADIENT_H
#define SN_ATTENTION_GRADIENT_H

#include "kernels/cpu/attention.h"
#include "kernels/cpu/vmath.h"

/* Of one query: scores are multiplied by scale; factors of dropout, NULL without. */
struct sn_attn_gradient {
    float scale, lse, delta;
    const float *factor;
};

/* The visible part of one row: p from scores, ds from do.v (in `ds`); zero beyond, to a whole
 * SN_STEP. */
static inline __attribute__((always_inline)) void
sn_attn_gradient_row(const struct sn_attn_gradient *of, int64_t visible, float *restrict p,
                     float *restrict ds)
{
    const float scale = of->scale, lse = of->lse, delta = of->delta, *factor = of->factor;
    int64_t whole = sn_whole_step(p, visible, -INFINITY);
    (void)sn_whole_step(ds, visible, 0.0f);
    if (factor) {
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
}

#endif
