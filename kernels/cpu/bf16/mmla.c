/*
 * mmla.c - products of bf16 with Arm's BFMMLA: 2 rows x 4 of depth times 4 x 2 columns are added to
 * 2 x 2 sums, which are one register.
 *
 * A tile is 8 x 12: 24 such registers, four of A, one of B at a time. Both operands lie by groups
 * of four along the depth, so that two rows, or two columns, are one load.
 *
 * How an instruction rounds is the processor's: without FEAT_EBF16, and with it while FPCR.EBF is
 * 0, which is how Linux starts a process, it adds the first two products to each other and to the
 * sum, then the other two, each time rounding to odd (an inexact result takes the neighbour whose
 * last bit is one: up to one unit in the last place, where rounding to nearest is off by half) and
 * taking denormal numbers for zeros. With FPCR.EBF set pairs are fused and FPCR rounds. So the bits
 * of C are those of one kind of processor, and the same there for every number of threads.
 */
#include "kernels/cpu/bf16.h"

#include <arm_neon.h>

enum { ROWS = 8, COLS = 12, GROUP = 4, PAIRS = ROWS / 2 };
enum { AHEAD = 8 }; /* groups: a panel of B is too large for L1 */

/* Two lines of a strip, four of the depth each. */
static inline bfloat16x8_t two_lines(const uint16_t *p)
{
    return vreinterpretq_bf16_u16(vld1q_u16(p));
}

static inline void put(float *c, bool add, float32x2_t left, float32x2_t right)
{
    float32x4_t v = vcombine_f32(left, right);
    vst1q_f32(c, add ? vaddq_f32(v, vld1q_f32(c)) : v);
}

/* NP pairs of columns. */
#define TILE(name, NP)                                                                             \
    static __attribute__((noinline)) void name(const struct sn_bf16_tile *t)                       \
    {                                                                                              \
        const uint16_t *a = t->a, *b = t->b;                                                       \
        float32x4_t sum[PAIRS][NP];                                                                \
        _Pragma("GCC unroll 8") for (int i = 0; i < PAIRS; i++)                                    \
        {                                                                                          \
            _Pragma("GCC unroll 8") for (int j = 0; j < (NP); j++) sum[i][j] = vdupq_n_f32(0);     \
        }                                                                                          \
        for (int64_t l = t->depth; l > 0; l -= GROUP, a += GROUP * ROWS, b += GROUP * COLS) {      \
            bfloat16x8_t x[PAIRS];                                                                 \
            _Pragma("GCC unroll 8") for (int i = 0; i < PAIRS; i++) x[i] =                         \
                two_lines(a + 2 * GROUP * i);                                                      \
            __builtin_prefetch(b + AHEAD * GROUP * COLS);                                          \
            __builtin_prefetch(b + AHEAD * GROUP * COLS + 32);                                     \
            _Pragma("GCC unroll 8") for (int j = 0; j < (NP); j++)                                 \
            {                                                                                      \
                bfloat16x8_t y = two_lines(b + 2 * GROUP * j);                                     \
                _Pragma("GCC unroll 8") for (int i = 0; i < PAIRS; i++) sum[i][j] =                \
                    vbfmmlaq_f32(sum[i][j], x[i], y);                                              \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 8") for (int i = 0; i < PAIRS; i++)                                    \
        {                                                                                          \
            float *upper = t->c + 2 * i * t->c_row, *lower = upper + t->c_row;                     \
            _Pragma("GCC unroll 8") for (int j = 0; j < (NP); j += 2)                              \
            {                                                                                      \
                float32x4_t left = sum[i][j], right = sum[i][j + 1];                               \
                put(upper + 2 * j, t->add, vget_low_f32(left), vget_low_f32(right));               \
                put(lower + 2 * j, t->add, vget_high_f32(left), vget_high_f32(right));             \
            }                                                                                      \
        }                                                                                          \
    }

TILE(tile_4, 2)
TILE(tile_8, 4)
TILE(tile_12, 6)

static void tile(const struct sn_bf16_tile *t)
{
    if (t->cols > 8)
        tile_12(t);
    else if (t->cols > 4)
        tile_8(t);
    else
        tile_4(t);
}

static const struct sn_bf16_products products = {
    .rows = ROWS, .cols = COLS, .a_group = GROUP, .b_group = GROUP, .step = GROUP, .tile = tile};

const struct sn_bf16_products *const SN_K(sn_bf16) = &products;
