/*
 * cross_entropy.h - what CROSS_ENTROPY and CE_PART share: which columns are words, pieces of rows
 * as fp32, and the running sum of a row.
 */
#ifndef SN_CROSS_ENTROPY_H
#define SN_CROSS_ENTROPY_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

enum {
    SN_CE_PIECE = 1024, /* columns that are summed in fp32 */
    SN_CE_PARTS = 64    /* parts of a row here, at most */
};

/* How many columns of the logits are words; the others, at the end, are padding. */
static inline int64_t sn_ce_words(const struct sn_args *a)
{
    int64_t cols = a->in[SN_CROSS_ENTROPY_LOGITS].cols,
            left = a->attr.vocab.words - a->attr.vocab.first;
    if (a->attr.vocab.words == 0)
        return cols;
    return left < 0 ? 0 : left < cols ? left : cols;
}

static inline int32_t sn_ce_target(const struct sn_args *a, int64_t r)
{
    return *(const int32_t *)sn_mat_row(&a->in[SN_CROSS_ENTROPY_TARGETS], r);
}

/* The column of row r's target, -1 when it is another rank's word or none. */
static inline int64_t sn_ce_column(const struct sn_args *a, int64_t r)
{
    int64_t c = sn_ce_target(a, r) - a->attr.vocab.first;
    return c >= 0 && c < sn_ce_words(a) ? c : -1;
}

/* Columns of a part, and how many parts the columns here are. */
static inline int64_t sn_ce_depth(const struct sn_args *a)
{
    return a->attr.exact.depth ? a->attr.exact.depth : a->in[SN_CROSS_ENTROPY_LOGITS].cols;
}

static inline int64_t sn_ce_parts(const struct sn_args *a)
{
    return a->in[SN_CROSS_ENTROPY_LOGITS].cols / sn_ce_depth(a);
}

/* Columns c .. c + n - 1 of row r as fp32: in place, or converted to `wide`. */
static inline const float *sn_ce_piece(const struct sn_mat *x, int64_t r, int64_t c, int64_t n,
                                       float *wide)
{
    const char *at = (const char *)sn_mat_row(x, r) + (size_t)c * sn_dtype_size(x->dtype);
    if (x->dtype == SN_F32)
        return (const float *)at;
    sn_row_load(wide, at, x->dtype, n);
    return wide;
}

/* The same capped, c tanh(x / c), where there is a cap c. Not inlined: gcc copies it for each storage
 * type and then vectorises one of the copies. */
static __attribute__((noinline, unused)) const float *
sn_ce_logits(const struct sn_args *a, int64_t r, int64_t c, int64_t n, float *wide)
{
    const float *x = sn_ce_piece(&a->in[SN_CROSS_ENTROPY_LOGITS], r, c, n, wide);
    float cap = a->attr.vocab.cap;
    if (!(cap > 0))
        return x;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        wide[i] = cap * sn_tanhf(x[i] / cap);
    return wide;
}

/* m and sum e^(x - m) of a row of logits: lse = m + ln sum. */
struct sn_ce_sum {
    double sum;
    float max;
};

/* Over the words of part p of row r, in pieces whose sums add up in double; (-infinity, 0) when there
 * are none. `wide` has room for a piece. */
struct sn_ce_sum SN_K(sn_ce_row)(const struct sn_args *a, int64_t r, int64_t p, float *wide);

#endif
