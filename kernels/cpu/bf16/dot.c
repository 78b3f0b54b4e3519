/*
 * dot.c - products of bf16 with AVX512-BF16: VDPBF16PS adds two products to each of 16 sums.
 *
 * A tile is 8 rows x 3 vectors, as in fp32 (tile.h): 24 sums, three vectors of B, one pair of A in
 * all lanes. Each sum is a chain over pairs of the depth; in a pair the second product is added
 * first (Intel SDM, VDPBF16PS), each rounded to nearest even. Denormal operands and sums are zero.
 *
 * AVX512-FP16 has no counterpart for fp16: its multiply-adds (VFMADD..PH) round every sum to fp16,
 * eleven bits, where our contract wants sums in fp32. So fp16 has no file here: it is widened while
 * it is packed, and multiplied in fp32.
 */
#include "kernels/cpu/bf16.h"

#include <immintrin.h>

enum { ROWS = 8, VECTORS = 3, LANES = 16, COLS = VECTORS * LANES };
enum { AHEAD = 16 }; /* pairs: a panel of B is too large for L1 */

static inline __m512bh in_all_lanes(const uint16_t *pair)
{
    int bits;
    memcpy(&bits, pair, sizeof(bits));
    return (__m512bh)_mm512_set1_epi32(bits);
}

#define TILE(name, NV)                                                                             \
    static __attribute__((noinline)) void name(const struct sn_bf16_tile *t)                       \
    {                                                                                              \
        const uint16_t *a = t->a, *b = t->b;                                                       \
        const int64_t a_row = t->a_row, a_step = t->a_step;                                        \
        __m512 sum[ROWS][NV];                                                                      \
        _Pragma("GCC unroll 8") for (int i = 0; i < ROWS; i++)                                     \
        {                                                                                          \
            _Pragma("GCC unroll 8") for (int j = 0; j < (NV); j++) sum[i][j] =                     \
                _mm512_setzero_ps();                                                               \
        }                                                                                          \
        for (int64_t l = t->depth; l > 0; l -= 2, a += a_step, b += 2 * COLS) {                    \
            __m512bh row[NV];                                                                      \
            _Pragma("GCC unroll 8") for (int j = 0; j < (NV); j++)                                 \
            {                                                                                      \
                row[j] = (__m512bh)_mm512_loadu_si512(b + 2 * LANES * j);                          \
                __builtin_prefetch(b + 2 * (AHEAD * COLS + LANES * j));                            \
            }                                                                                      \
            _Pragma("GCC unroll 8") for (int i = 0; i < ROWS; i++)                                 \
            {                                                                                      \
                __m512bh x = in_all_lanes(a + i * a_row);                                          \
                _Pragma("GCC unroll 8") for (int j = 0; j < (NV); j++) sum[i][j] =                 \
                    _mm512_dpbf16_ps(sum[i][j], x, row[j]);                                        \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 8") for (int i = 0; i < ROWS; i++)                                     \
        {                                                                                          \
            _Pragma("GCC unroll 8") for (int j = 0; j < (NV); j++)                                 \
            {                                                                                      \
                float *c = t->c + i * t->c_row + LANES * j;                                        \
                if (t->add)                                                                        \
                    sum[i][j] = _mm512_add_ps(sum[i][j], _mm512_loadu_ps(c));                      \
                _mm512_storeu_ps(c, sum[i][j]);                                                    \
            }                                                                                      \
        }                                                                                          \
    }

TILE(tile_1, 1)
TILE(tile_2, 2)
TILE(tile_3, 3)

static void tile(const struct sn_bf16_tile *t)
{
    if (t->cols > 2 * LANES)
        tile_3(t);
    else if (t->cols > LANES)
        tile_2(t);
    else
        tile_1(t);
}

static const struct sn_bf16_products products = {.rows = ROWS,
                                                 .cols = COLS,
                                                 .a_group = 2,
                                                 .b_group = 2,
                                                 .step = 2,
                                                 .reads_rows = true,
                                                 .tile = tile};

const struct sn_bf16_products *const SN_K(sn_bf16) = &products;
