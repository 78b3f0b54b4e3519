/*
 * attention_product.c - products of blocks in scratch, and of two rows; see attention.h.
 */
#include "kernels/cpu/attention.h"

/*
 * Tiles of 8 rows as far as the registers go (32 with AVX-512, else 16: one or three vectors), then
 * twice 4 rows: 4 x SN_AV and 8 x 1 both keep 8 or more sums in flight.
 */
enum { THREE = SN_AV == 4 ? 3 : 1, TALL = SN_AV == 4 ? 8 : 4 };
enum { DEPTH = 64 }; /* of a panel of B: 16 KiB of L1 */

SN_TILE(tile_1, SN_AR, 1)
SN_TILE(tile_2, TALL, 2)
SN_TILE(tile_3, SN_AR, THREE)
SN_TILE(tile_4, 4, SN_AV)

static void twice(void (*tile)(const struct sn_tile *), struct sn_tile *t)
{
    tile(t);
    t->a += 4 * t->a_row;
    t->c += 4 * t->c_row;
    tile(t);
}

static void run_tile(struct sn_tile *t, int64_t vectors)
{
    if (vectors == SN_AV)
        twice(tile_4, t);
    else if (vectors == 1)
        tile_1(t);
    else if (vectors == 2)
        tile_2(t);
    else
        tile_3(t);
}

/* Narrow a tile at (row, col, l) to what is visible; the vectors of it that are. */
static int64_t clip(const struct sn_product *p, struct sn_tile *t, const int64_t at[3])
{
    int64_t row = at[0], cols = p->cols - at[1], l = at[2], from = 0, edge = row + SN_AR + p->diag;
    switch (p->visible) {
    case SN_COLS:
        cols = cols < edge - at[1] ? cols : edge - at[1];
        break;
    case SN_UPTO:
        t->k = t->k < edge - l ? t->k : edge - l;
        break;
    case SN_SINCE:
        from = row - p->diag - l > 0 ? row - p->diag - l : 0;
        break;
    case SN_ALL:
        break;
    }
    t->k -= from;
    t->a += from * t->a_step;
    t->b += from * t->b_step;
    cols = cols < SN_PANEL ? cols : SN_PANEL;
    return cols > 0 && t->k > 0 ? (cols + SN_VL - 1) / SN_VL : 0;
}

/* The products of a panel of B that stays in L1. */
static void panel(const struct sn_product *p, int64_t col, int64_t l)
{
    for (int64_t row = 0; row < p->rows; row += SN_AR) {
        struct sn_tile t = {.k = p->depth - l < DEPTH ? p->depth - l : DEPTH,
                            .a = p->a + row * p->a_row + l * p->a_step,
                            .a_row = p->a_row,
                            .a_step = p->a_step,
                            .b = p->b + col / SN_PANEL * p->b_panel + l * p->b_step,
                            .b_step = p->b_step,
                            .c = p->c + row * p->c_row + col,
                            .c_row = p->c_row,
                            .add = p->add || l > 0};
        int64_t vectors = clip(p, &t, (int64_t[3]){row, col, l});
        if (vectors)
            run_tile(&t, vectors);
    }
}

void SN_K(sn_product)(const struct sn_product *p)
{
    for (int64_t col = 0; col < p->cols; col += SN_PANEL) {
        for (int64_t l = 0; l < p->depth; l += DEPTH)
            panel(p, col, l);
    }
}

/* In a function of its own: two inlined copies of a vectorised sum may add in two orders. */
float SN_K(sn_attention_dot)(const float *a, const float *b, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < n; c++)
        sum += a[c] * b[c];
    return sum;
}
