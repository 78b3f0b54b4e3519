/*
 * transpose.c - TRANSPOSE: y[b][a][:] = x[a][b][:], blocks of n elements that are moved as they are.
 *
 * Both matrices are read row after row. A block lies in runs that end where a row of either does;
 * a matrix without gaps is one row.
 */
#include "kernels/cpu/rows.h"

static struct sn_mat joined(const struct sn_mat *m)
{
    struct sn_mat one = {m->p, m->dtype, 1, m->rows * m->cols, m->rows * m->cols};
    return m->ld == m->cols || m->rows == 1 ? one : *m;
}

/* n elements from element x0 of x to element y0 of y. */
static void move(const struct sn_mat *x, int64_t x0, const struct sn_mat *y, int64_t y0, int64_t n)
{
    int64_t xr = x0 / x->cols, xc = x0 % x->cols, yr = y0 / y->cols, yc = y0 % y->cols;
    size_t size = sn_dtype_size(x->dtype);
    while (n > 0) {
        int64_t run = x->cols - xc < y->cols - yc ? x->cols - xc : y->cols - yc;
        run = run < n ? run : n;
        memcpy(sn_at(y, yr, yc), sn_at(x, xr, xc), (size_t)run * size);
        n -= run;
        xc += run;
        yc += run;
        xr += xc == x->cols;
        yr += yc == y->cols;
        xc = xc == x->cols ? 0 : xc;
        yc = yc == y->cols ? 0 : yc;
    }
}

/* A block, or the piece of it from element c on. */
static void tile(const struct sn_args *a, int64_t block, int64_t c, int64_t n)
{
    int64_t nb = a->attr.blocks_b, i = block / nb, j = block % nb;
    int64_t width =
        a->in[SN_TRANSPOSE_X].rows * a->in[SN_TRANSPOSE_X].cols / (a->attr.blocks_a * nb);
    move(&a->in[SN_TRANSPOSE_X], block * width + c, &a->out[SN_TRANSPOSE_Y],
         (j * a->attr.blocks_a + i) * width + c, n);
}

SN_KERNEL(sn_transpose)
{
    struct sn_args flat = *a;
    flat.in[SN_TRANSPOSE_X] = joined(&a->in[SN_TRANSPOSE_X]);
    flat.out[SN_TRANSPOSE_Y] = joined(&a->out[SN_TRANSPOSE_Y]);
    struct sn_mat blocks = {.rows = a->attr.blocks_a * a->attr.blocks_b};
    blocks.cols = a->in[SN_TRANSPOSE_X].rows * a->in[SN_TRANSPOSE_X].cols / blocks.rows;
    sn_each_tile(&flat, threads, &blocks, SN_COPIED, tile);
    return 0;
}
