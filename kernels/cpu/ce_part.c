/*
 * ce_part.c - CE_PART: what one rank's columns contribute to the softmax of a row.
 *
 *   part = (m, sum_c e^(x_c - m), x_target or 0),   m = max_c x_c
 *
 * CROSS_ENTROPY merges the parts of all ranks. With one rank it takes its sums from here too.
 */
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/vmath.h"

static inline sn_vec powers(const float *v, float base)
{
    float e[SN_VL];
#pragma omp simd
    for (int i = 0; i < SN_VL; i++)
        e[i] = sn_expf_low(v[i] - base);
    return *(const sn_vec *)e;
}

/*
 * Add n elements to a running (max, sum of e^(x - max)). Not inlined: gcc copies it for
 * each storage type and then vectorises one of the copies.
 */
static __attribute__((noinline)) void add_piece(const float *v, int64_t n, float *max, double *sum)
{
    int64_t whole = n / SN_VL * SN_VL;
    float rest[SN_VL];
    for (int i = 0; i < SN_VL; i++)
        rest[i] = whole + i < n ? v[whole + i] : -INFINITY;
    sn_vec top = *max - (sn_vec){0}, part = {0};
    for (int64_t i = 0; i < whole; i += SN_VL)
        top = sn_vec_max(top, *(const sn_vec *)(v + i));
    float m = sn_vec_top(sn_vec_max(top, *(const sn_vec *)rest));
    float base = m == -INFINITY ? 0.0f : m; /* nothing but -infinity yet */
    for (int64_t i = 0; i < whole; i += SN_VL)
        part += powers(v + i, base);
    part += powers(rest, base);
    if (m > *max)
        *sum *= exp((double)*max - (double)m);
    *sum += (double)sn_vec_sum(part);
    *max = m;
}

struct sn_ce_sum SN_K(sn_ce_row)(const struct sn_args *a, int64_t r, int64_t p, float *wide)
{
    struct sn_ce_sum s = {0, -INFINITY};
    int64_t words = sn_ce_words(a), depth = sn_ce_depth(a), end = (p + 1) * depth;
    end = end < words ? end : words;
    for (int64_t c = p * depth; c < end; c += SN_CE_PIECE) {
        int64_t n = end - c < SN_CE_PIECE ? end - c : SN_CE_PIECE;
        add_piece(sn_ce_logits(a, r, c, n, wide), n, &s.max, &s.sum);
    }
    return s;
}

SN_KERNEL(sn_ce_part)
{
    const struct sn_mat *x = &a->in[SN_CE_PART_LOGITS];
    int64_t depth = sn_ce_depth(a), items = sn_ce_parts(a) * x->rows;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < items; i++) {
        float wide[SN_CE_PIECE], *part = sn_mat_row(&a->out[SN_CE_PART_PART], i);
        int64_t p = i / x->rows, r = i % x->rows, target = sn_ce_column(a, r);
        struct sn_ce_sum s = SN_K(sn_ce_row)(a, r, p, wide);
        bool here = target >= p * depth && target < (p + 1) * depth;
        part[0] = s.max;
        part[1] = (float)s.sum;
        part[2] = here ? *sn_ce_logits(a, r, target, 1, wide) : 0.0f;
    }
    return 0;
}
