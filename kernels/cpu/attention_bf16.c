/*
 * attention_bf16.c - products of blocks in bf16; see attention_bf16.h.
 */
#include "kernels/cpu/attention_bf16.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Narrow the tile at (row, col) to what is visible; is anything left? */
static bool clip(const struct sn_bf16_products *set, const struct sn_product_bf16 *p,
                 struct sn_bf16_tile *t, const int64_t at[2])
{
    int64_t edge = at[0] + set->rows + p->diag, from = at[0] - p->diag;
    switch (p->visible) {
    case SN_COLS:
        t->cols = least(t->cols, edge - at[1]);
        break;
    case SN_UPTO:
        t->depth = least(t->depth, sn_bf16_depth(set, edge));
        break;
    case SN_SINCE:
        from = from > 0 ? from / set->step * set->step : 0;
        t->depth -= from;
        t->a += from / set->a_group * t->a_step;
        t->b += from * set->cols;
        break;
    case SN_ALL:
        break;
    }
    return t->cols > 0 && t->depth > 0;
}

void SN_K(sn_product_bf16)(const struct sn_attn_bf16 *f, const struct sn_product_bf16 *p)
{
    const struct sn_bf16_products *set = f->set;
    int64_t whole = sn_bf16_depth(set, p->depth);
    for (int64_t col = 0; col < p->cols; col += set->cols) {
        for (int64_t row = 0; row < p->rows; row += set->rows) {
            struct sn_bf16_tile t = {.depth = whole,
                                     .a = p->a.p + row / set->rows * p->a.strip,
                                     .b = p->b + col * whole,
                                     .a_row = p->a.row,
                                     .a_step = p->a.step,
                                     .rows = least(set->rows, p->rows - row),
                                     .cols = least(set->cols, p->cols - col),
                                     .c = p->c + row * p->c_row + col,
                                     .c_row = p->c_row,
                                     .add = p->add};
            if (clip(set, p, &t, (int64_t[2]){row, col}))
                set->tile(&t);
        }
    }
}
