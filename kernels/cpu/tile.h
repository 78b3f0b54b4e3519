/*
 * tile.h - the register-blocked product that GEMM and ATTENTION are made of.
 *
 * C[MR, NV vectors] (+)= A[MR, k] B[k, NV vectors] with C held in registers: each step loads one
 * row of B and broadcasts MR elements of A. Written with the vector types that gcc and clang share,
 * so the compiler keeps every accumulator in a register: 8x3 vectors with 32 registers, AVX-512's
 * and NEON's (24 sums, 3 of B, 1 of A), 8x4 with VSX's 64, 4x3 and 4x2 with 16. How many there are
 * is in a file of kernels/cpu/registers, which the Makefile picks by the architecture.
 *
 * Each element of C is one chain of multiply-adds in the order of k: its bits do not depend on
 * where in a tile it lies.
 */
#ifndef SN_TILE_H
#define SN_TILE_H

#include "kernels/cpu/cpu.h"
#include SN_REGISTERS_H

#include <stdbool.h>

/* A hardware vector of floats: 64, 32 or 16 bytes, what -march allows; any address. */
typedef float sn_vec __attribute__((vector_size(__BIGGEST_ALIGNMENT__), aligned(4), may_alias));

enum { SN_VL = __BIGGEST_ALIGNMENT__ / 4, SN_LINE = 16 }; /* floats of a vector, of a cache line */

/* Interleave the lower, or upper, halves of two vectors; one macro for each vector size. */
#define SN_ZIP_LOW_16(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define SN_ZIP_HIGH_16(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define SN_ZIP_LOW_32(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define SN_ZIP_HIGH_32(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define SN_ZIP_LOW_64(a, b)                                                                        \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define SN_ZIP_HIGH_64(a, b)                                                                       \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define SN_ZIP_LOW(a, b)  SN_PASTE(SN_ZIP_LOW, __BIGGEST_ALIGNMENT__)(a, b)
#define SN_ZIP_HIGH(a, b) SN_PASTE(SN_ZIP_HIGH, __BIGGEST_ALIGNMENT__)(a, b)

/* Of each lane the larger; a NaN in b is lost, one in a stays. */
static inline sn_vec sn_vec_max(sn_vec a, sn_vec b)
{
    typedef int32_t mask __attribute__((vector_size(__BIGGEST_ALIGNMENT__), aligned(4)));
    mask larger = (mask)(b > a);
    return (sn_vec)(((mask)b & larger) | ((mask)a & ~larger));
}

/* Over all lanes, as a tree. */
static inline float sn_vec_top(sn_vec v)
{
    for (int lanes = 1; lanes < SN_VL; lanes *= 2)
        v = sn_vec_max(SN_ZIP_LOW(v, v), SN_ZIP_HIGH(v, v));
    return v[0];
}

static inline float sn_vec_sum(sn_vec v)
{
    for (int lanes = 1; lanes < SN_VL; lanes *= 2)
        v = SN_ZIP_LOW(v, v) + SN_ZIP_HIGH(v, v);
    return v[0];
}

/*
 * Transpose SN_VL x SN_VL floats in registers: interleaving rows i and i + VL/2 into rows 2i and
 * 2i + 1, log2(VL) times.
 */
static inline void sn_transpose_square(const float *in, int64_t in_row, float *out, int64_t out_row)
{
    sn_vec r[SN_VL], s[SN_VL];
#pragma GCC unroll 16
    for (int i = 0; i < SN_VL; i++)
        r[i] = *(const sn_vec *)(in + i * in_row);
#pragma GCC unroll 4
    for (int stage = 1; stage < SN_VL; stage *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < SN_VL / 2; i++) {
            s[2 * i] = SN_ZIP_LOW(r[i], r[i + SN_VL / 2]);
            s[2 * i + 1] = SN_ZIP_HIGH(r[i], r[i + SN_VL / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < SN_VL; i++)
            r[i] = s[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < SN_VL; i++)
        *(sn_vec *)(out + i * out_row) = r[i];
}

/* out[l][i] = in[i][l] for any number of rows (columns of out) and columns. */
static inline void sn_transpose(const float *in, int64_t in_row, int64_t rows, int64_t columns,
                                float *out, int64_t out_row)
{
    int64_t whole_rows = rows - rows % SN_VL, whole_columns = columns - columns % SN_VL;
    for (int64_t i = 0; i < whole_rows; i += SN_VL) {
        for (int64_t l = 0; l < whole_columns; l += SN_VL)
            sn_transpose_square(in + i * in_row + l, in_row, out + l * out_row + i, out_row);
    }
    for (int64_t l = 0; l < columns; l++) {
        for (int64_t i = l < whole_columns ? whole_rows : 0; i < rows; i++)
            out[l * out_row + i] = in[i * in_row + l];
    }
}

/* One product. Strides are in elements; A's two are free, so a transposed A needs no copy. */
struct sn_tile {
    int64_t k;
    const float *a;
    int64_t a_row, a_step; /* distance of rows, and of steps along k */
    const float *b;
    int64_t b_step; /* distance of rows of B */
    float *c;
    int64_t c_row;
    bool add; /* C += instead of C = */
    /* With SN_TILE_AHEAD only: a row of NV vectors to ask for every so many steps of k. */
    const char *next;
    int64_t next_step, next_every; /* bytes between such rows; steps */
};

#define SN_TILE(name, MR, NV) SN_TILE_AHEAD(name, MR, NV, 0)

/* The same, asking for the row of B that is AHEAD steps away: for panels too large for L1. */
#define SN_TILE_AHEAD(name, MR, NV, AHEAD)                                                         \
    static __attribute__((noinline)) void name(const struct sn_tile *t)                            \
    {                                                                                              \
        const float *a = t->a, *b = t->b;                                                          \
        const int64_t a_row = t->a_row, a_step = t->a_step, b_step = t->b_step, c_row = t->c_row;  \
        float *c = t->c;                                                                           \
        sn_vec acc[MR][NV] = {{{0}}};                                                              \
        int64_t left = t->k;                                                                       \
        const char *next = t->next;                                                                \
        do {                                                                                       \
            int64_t steps = (AHEAD) > 0 && t->next_every < left ? t->next_every : left;            \
            left -= steps;                                                                         \
            if ((AHEAD) > 0) {                                                                     \
                _Pragma("GCC unroll 8") for (int j = 0; j < (NV)*SN_VL; j += SN_LINE)              \
                    __builtin_prefetch(next + j * 4, 0, 2);                                        \
                next += t->next_step;                                                              \
            }                                                                                      \
            for (int64_t l = steps; l > 0; l--) {                                                  \
                sn_vec row[NV];                                                                    \
                _Pragma("GCC unroll 8") for (int j = 0; j < NV; j++)                               \
                {                                                                                  \
                    row[j] = *(const sn_vec *)(b + j * SN_VL);                                     \
                    if ((AHEAD) > 0 && j * SN_VL % SN_LINE == 0)                                   \
                        __builtin_prefetch(b + (AHEAD) * (NV)*SN_VL + j * SN_VL);                  \
                }                                                                                  \
                _Pragma("GCC unroll 8") for (int i = 0; i < MR; i++)                               \
                {                                                                                  \
                    sn_vec x = a[i * a_row] - (sn_vec){0};                                         \
                    _Pragma("GCC unroll 8") for (int j = 0; j < NV; j++)                           \
                        SN_ADD_PRODUCT(acc[i][j], x, row[j]);                                      \
                }                                                                                  \
                a += a_step;                                                                       \
                b += b_step;                                                                       \
            }                                                                                      \
        } while (left > 0);                                                                        \
        if (t->add) {                                                                              \
            _Pragma("GCC unroll 8") for (int i = 0; i < MR; i++)                                   \
            {                                                                                      \
                _Pragma("GCC unroll 8") for (int j = 0; j < NV; j++) acc[i][j] +=                  \
                    *(const sn_vec *)(c + i * c_row + j * SN_VL);                                  \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 8") for (int i = 0; i < MR; i++)                                       \
        {                                                                                          \
            _Pragma("GCC unroll 8") for (int j = 0; j < NV; j++) *                                 \
                (sn_vec *)(c + i * c_row + j * SN_VL) = acc[i][j];                                 \
        }                                                                                          \
    }

#endif
