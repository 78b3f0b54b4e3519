/*
 * amx.c - products of bf16 with AMX: TDPBF16PS adds the product of 16 rows x 32 of depth and
 * 32 x 16 columns to 16 x 16 sums.
 *
 * A tile is 2 x 2 such registers of sums, with two of A and two of B: four loads for four products.
 * A's rows may lie anywhere; B's panel is 32 columns wide, pairs of the depth side by side. Of a
 * step of 32 the products of even and of odd places are summed apart, each in order from zero, then
 * both join the sum (Intel SDM, TDPBF16PS), each rounded to nearest even. Denormal operands and
 * sums are zero.
 */
#include "kernels/cpu/bf16.h"

#include <immintrin.h>

enum { SIDE = 16, STEP = 32, ROWS = 2 * SIDE, COLS = 2 * SIDE, NEAR = 256 };

/* The registers: sums 0 to 3, A 4 and 5, B 6 and 7. All are 16 rows of 64 bytes. */
static void begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64))) = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = 64;
        config.rows[i] = SIDE;
    }
    /* gcc's _tile_loadconfig (12 at least) claims to read 8 bytes alone, so that the compiler drops
     * what is stored behind them. */
    __asm__ volatile("" : : "m"(config));
    _tile_loadconfig(&config);
}

static void end(void)
{
    _mm_sfence(); /* after stores past the caches */
    _tile_release();
}

/* Sums that are added to C, or take its place: one of 2 x 2. */
#define FINISH(register, t, i, j)                                                                  \
    do {                                                                                           \
        float sums_[SIDE][SIDE] __attribute__((aligned(64)));                                      \
        float *c_ = (t)->c + (i)*SIDE * (t)->c_row + (j)*SIDE;                                     \
        if ((t)->add) {                                                                            \
            _tile_stored(register, sums_, sizeof(sums_[0]));                                       \
            add_rows(&sums_[0][0], c_, (t)->c_row);                                                \
        } else if ((t)->streams) {                                                                 \
            _tile_stored(register, sums_, sizeof(sums_[0]));                                       \
            for (int i_ = 0; i_ < SIDE; i_++)                                                      \
                _mm512_stream_ps(c_ + i_ * (t)->c_row, _mm512_loadu_ps(sums_[i_]));                \
        } else {                                                                                   \
            _tile_stored(register, c_, (size_t)(t)->c_row * sizeof(float));                        \
        }                                                                                          \
    } while (0)

static inline void add_rows(const float *sums, float *c, int64_t c_row)
{
    for (int i = 0; i < SIDE; i++, sums += SIDE, c += c_row)
        _mm512_storeu_ps(c, _mm512_add_ps(_mm512_loadu_ps(sums), _mm512_loadu_ps(c)));
}

#define BEGIN(register, t, i, j)                                                                   \
    do {                                                                                           \
        if ((t)->from)                                                                             \
            _tile_loadd(register, (t)->from + (i)*SIDE * COLS + (j)*SIDE, COLS * sizeof(float));   \
        else                                                                                       \
            _tile_zero(register);                                                                  \
    } while (0)

/* Fewer rows or columns than one register's leave the others out. */
static void tile(const struct sn_bf16_tile *t)
{
    const uint16_t *a = t->a, *below = a + SIDE * t->a_row, *b = t->b;
    const size_t a_bytes = (size_t)t->a_row * sizeof(uint16_t), b_bytes = COLS * 2 * sizeof(*b);
    bool two_rows = t->rows > SIDE, two_cols = t->cols > SIDE;
    BEGIN(0, t, 0, 0);
    BEGIN(1, t, 0, 1);
    BEGIN(2, t, 1, 0);
    BEGIN(3, t, 1, 1);
    for (int64_t l = 0; l < t->depth; l += STEP) {
        _tile_loadd(4, a, a_bytes);
        _tile_loadd(6, b, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        if (two_cols) {
            _tile_loadd(7, b + 2 * SIDE, b_bytes);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (two_rows) {
            _tile_loadd(5, below, a_bytes);
            _tile_dpbf16ps(2, 5, 6);
            if (two_cols)
                _tile_dpbf16ps(3, 5, 7);
        }
        a += t->a_step;
        below += t->a_step;
        b += STEP * COLS;
    }
    FINISH(0, t, 0, 0);
    if (two_cols)
        FINISH(1, t, 0, 1);
    if (two_rows)
        FINISH(2, t, 1, 0);
    if (two_rows && two_cols)
        FINISH(3, t, 1, 1);
}

static const struct sn_bf16_products products = {.rows = ROWS,
                                                 .cols = COLS,
                                                 .a_group = STEP,
                                                 .b_group = 2,
                                                 .step = STEP,
                                                 .near = NEAR,
                                                 .reads_rows = true,
                                                 .streams = true,
                                                 .begin = begin,
                                                 .end = end,
                                                 .tile = tile};

const struct sn_bf16_products *const SN_K(sn_bf16) = &products;
