/*
 * gemm_fp8.c - operands of a GEMM, rounded to 8-bit floats (attr.gemm.fp8), as bf16 matrices that hold
 * the rounded values exactly: the product is then that of any bf16 matrices.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/fp8.h"

#include <omp.h>

enum { PART = SN_FP8_PART };

static uint32_t magnitude(uint16_t bf16)
{
    return (uint32_t)(bf16 & 0x7fff) << 16;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint16_t rounded(uint16_t bf16, int e, enum sn_fp8_format t)
{
    return sn_f32_to_bf16(sn_fp8_round(sn_bf16_to_f32(bf16), e, t));
}

/* --- one scale for all ------------------------------------------------------------------------ */

static uint32_t largest(const struct sn_mat *x, int threads)
{
    uint32_t most = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : most)
    for (int64_t r = 0; r < x->rows; r++) {
        const uint16_t *row = (const uint16_t *)x->p + r * x->ld;
        for (int64_t c = 0; c < x->cols; c++)
            most = larger(magnitude(row[c]), most);
    }
    return most;
}

static void round_whole(const struct sn_mat *x, uint16_t *to, enum sn_fp8_format t, int threads)
{
    int e = sn_fp8_exponent(largest(x, threads), t);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < x->rows; r++) {
        const uint16_t *row = (const uint16_t *)x->p + r * x->ld;
        for (int64_t c = 0; c < x->cols; c++)
            to[r * x->cols + c] = rounded(row[c], e, t);
    }
}

/* --- a scale for each part -------------------------------------------------------------------- */

/* Where a scale of a tile is kept: a line along the columns has that of its row, one along the rows
 * that of its column, a block the first. */
static int scale_at(const struct sn_fp8_parts *p, int r, int c)
{
    return p->rows == 1 ? r : p->cols == 1 ? c : 0;
}

/* The tile of 128 x 128 at (r0, c0), which no part crosses. */
static void round_tile(const struct sn_mat *x, uint16_t *to, const struct sn_fp8_parts *p,
                       const int64_t at[2])
{
    int rows = (int)(x->rows - at[0] < PART ? x->rows - at[0] : PART);
    int cols = (int)(x->cols - at[1] < PART ? x->cols - at[1] : PART);
    const uint16_t *from = (const uint16_t *)x->p + at[0] * x->ld + at[1];
    uint32_t most[PART] = {0};
    int e[PART];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++) {
            uint32_t *m = &most[scale_at(p, r, c)];
            *m = larger(magnitude(from[r * x->ld + c]), *m);
        }
    for (int i = 0; i < PART; i++)
        e[i] = sn_fp8_exponent(most[i], p->format);
    to += at[0] * x->cols + at[1];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++)
            to[r * x->cols + c] = rounded(from[r * x->ld + c], e[scale_at(p, r, c)], p->format);
}

static void round_parts(const struct sn_mat *x, uint16_t *to, const struct sn_fp8_parts *p,
                        int threads)
{
    int64_t across = (x->cols + PART - 1) / PART, tiles = (x->rows + PART - 1) / PART * across;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < tiles; i++)
        round_tile(x, to, p, (int64_t[2]){i / across * PART, i % across * PART});
}

/* --- the product ------------------------------------------------------------------------------ */

static size_t room(const struct sn_mat *x)
{
    return ((size_t)(x->rows * x->cols) * sizeof(uint16_t) + 63) / 64 * 64;
}

size_t SN_K(sn_fp8_scratch)(const struct sn_args *a)
{
    return a->attr.gemm.fp8 ? room(&a->in[SN_GEMM_A]) + room(&a->in[SN_GEMM_B]) : 0;
}

struct sn_args SN_K(sn_fp8_operands)(const struct sn_args *a, int threads)
{
    const bool turned[2] = {a->attr.gemm.trans_a, !a->attr.gemm.trans_b};
    struct sn_args b = *a;
    char *at = a->scratch;
    for (int i = 0; i < 2; i++) {
        struct sn_fp8_parts p = sn_fp8_parts_of(a->attr.gemm.fp8, i, turned[i]);
        uint16_t *to = (uint16_t *)(void *)at;
        if (p.rows == 0)
            round_whole(&a->in[i], to, p.format, threads);
        else
            round_parts(&a->in[i], to, &p, threads);
        b.in[i].p = at;
        b.in[i].ld = a->in[i].cols;
        at += room(&a->in[i]);
    }
    b.scratch = at;
    b.attr.gemm.fp8 = SN_FP8_NONE;
    return b;
}
