/*
 * gemm_fp8.c - operands of a GEMM, rounded to 8-bit floats (attr.fp8), as bf16 matrices that hold
 * the rounded values exactly: the product is then that of any bf16 matrices.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/fp8.h"

#include <omp.h>

static uint32_t largest(const struct sn_mat *x, int threads)
{
    uint32_t most = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : most)
    for (int64_t r = 0; r < x->rows; r++) {
        const uint16_t *row = (const uint16_t *)x->p + r * x->ld;
        for (int64_t c = 0; c < x->cols; c++) {
            uint32_t bits = (uint32_t)(row[c] & 0x7fff) << 16;
            most = bits > most ? bits : most;
        }
    }
    return most;
}

static void round_all(const struct sn_mat *x, uint16_t *to, enum sn_fp8_format t, int threads)
{
    int e = sn_fp8_exponent(largest(x, threads), t);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < x->rows; r++) {
        const uint16_t *row = (const uint16_t *)x->p + r * x->ld;
        for (int64_t c = 0; c < x->cols; c++)
            to[r * x->cols + c] = sn_f32_to_bf16(sn_fp8_round(sn_bf16_to_f32(row[c]), e, t));
    }
}

static size_t room(const struct sn_mat *x)
{
    return ((size_t)(x->rows * x->cols) * sizeof(uint16_t) + 63) / 64 * 64;
}

size_t SN_K(sn_fp8_scratch)(const struct sn_args *a)
{
    return a->attr.fp8 ? room(&a->in[0]) + room(&a->in[1]) : 0;
}

struct sn_args SN_K(sn_fp8_operands)(const struct sn_args *a, int threads)
{
    struct sn_args b = *a;
    char *at = a->scratch;
    for (int i = 0; i < 2; i++) {
        bool is_gradient = i == 0 && a->attr.fp8 == SN_FP8_BACKWARD;
        round_all(&a->in[i], (uint16_t *)(void *)at, is_gradient ? SN_E5M2 : SN_E4M3, threads);
        b.in[i].p = at;
        b.in[i].ld = a->in[i].cols;
        at += room(&a->in[i]);
    }
    b.scratch = at;
    b.attr.fp8 = SN_FP8_NONE;
    return b;
}
