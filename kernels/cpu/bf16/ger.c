/*
 * ger.c - products with POWER10's MMA: one instruction adds 4 rows x 4 columns to an accumulator of
 * 4 x 4 sums: XVF32GERPP a column of A times a row of B in fp32, XVBF16GER2PP two of each in bf16.
 * Tiles of fp32 and of bf16 are one code, since a pair of bf16 is as large as a float.
 *
 * A tile is 8 x 16, all eight accumulators: two loads of A and four of B for eight products. Both
 * operands are packed by steps of the depth.
 *
 * XVF32GERPP is a multiply-add, rounded once. XVBF16GER2PP adds the two products to each other,
 * then to the sum, each rounded to fp32 (Power ISA 3.1).
 */
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/gemm/gemm_pack.h"

enum { ROWS = 2, VECTORS = 4 };                     /* of accumulators */
enum { A_STEP = ROWS * 16, B_STEP = VECTORS * 16 }; /* bytes */
enum { AHEAD = 16 };                                /* steps */

typedef unsigned char bytes __attribute__((vector_size(16), aligned(4), may_alias));
typedef float row_of_4 __attribute__((vector_size(16), aligned(4), may_alias));

struct tile {
    const char *a, *b;
    int64_t steps;
    float *c;
    int64_t c_row;
    bool add;
};

static inline void put(float *c, bool add, row_of_4 v)
{
    row_of_4 *at = (row_of_4 *)c;
    if (add)
        v += *at;
    *at = v;
}

#define STORE(sums, out, t)                                                                        \
    do {                                                                                           \
        row_of_4 rows_[4];                                                                         \
        float *c_ = (out);                                                                         \
        __builtin_mma_disassemble_acc(rows_, &(sums));                                             \
        _Pragma("GCC unroll 4") for (int r_ = 0; r_ < 4; r_++)                                     \
            put(c_ + r_ * (t)->c_row, (t)->add, rows_[r_]);                                        \
    } while (0)

#define TILE(name, NV, GER)                                                                        \
    static __attribute__((noinline)) void name(const struct tile *t)                               \
    {                                                                                              \
        const char *a = t->a, *b = t->b;                                                           \
        __vector_quad sums[ROWS][NV];                                                              \
        _Pragma("GCC unroll 4") for (int j = 0; j < (NV); j++)                                     \
        {                                                                                          \
            __builtin_mma_xxsetaccz(&sums[0][j]);                                                  \
            __builtin_mma_xxsetaccz(&sums[1][j]);                                                  \
        }                                                                                          \
        for (int64_t l = t->steps; l > 0; l--, a += A_STEP, b += B_STEP) {                         \
            bytes upper = *(const bytes *)a, lower = *(const bytes *)(a + 16);                     \
            __builtin_prefetch(b + AHEAD * B_STEP);                                                \
            _Pragma("GCC unroll 4") for (int j = 0; j < (NV); j++)                                 \
            {                                                                                      \
                bytes row = *(const bytes *)(b + 16 * j);                                          \
                GER(&sums[0][j], upper, row);                                                      \
                GER(&sums[1][j], lower, row);                                                      \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 4") for (int j = 0; j < (NV); j++)                                     \
        {                                                                                          \
            STORE(sums[0][j], t->c + 4 * j, t);                                                    \
            STORE(sums[1][j], t->c + 4 * t->c_row + 4 * j, t);                                     \
        }                                                                                          \
    }

TILE(fp32_4, 1, __builtin_mma_xvf32gerpp)
TILE(fp32_8, 2, __builtin_mma_xvf32gerpp)
TILE(fp32_16, 4, __builtin_mma_xvf32gerpp)
TILE(bf16_4, 1, __builtin_mma_xvbf16ger2pp)
TILE(bf16_8, 2, __builtin_mma_xvbf16ger2pp)
TILE(bf16_16, 4, __builtin_mma_xvbf16ger2pp)

const bool SN_K(sn_gemm_by_steps) = true;

void SN_K(sn_gemm_tile)(const struct sn_tile *f, int64_t cols)
{
    const struct tile t = {(const char *)f->a, (const char *)f->b, f->k, f->c, f->c_row, f->add};
    if (cols > 8)
        fp32_16(&t);
    else if (cols > 4)
        fp32_8(&t);
    else
        fp32_4(&t);
}

static void tile(const struct sn_bf16_tile *h)
{
    const struct tile t = {
        (const char *)h->a, (const char *)h->b, h->depth / 2, h->c, h->c_row, h->add};
    if (h->cols > 8)
        bf16_16(&t);
    else if (h->cols > 4)
        bf16_8(&t);
    else
        bf16_4(&t);
}

static const struct sn_bf16_products products = {
    .rows = SN_MR, .cols = SN_NR, .a_group = 2, .b_group = 2, .step = 2, .tile = tile};

const struct sn_bf16_products *const SN_K(sn_bf16) = &products;
