/*
 * dispatch.c - DISPATCH, COMBINE and COMBINE_DW: rows of tokens to rows of experts and back.
 *
 * A token belongs to one thread, which adds its k experts up in the order of choice: results do not
 * depend on the number of threads.
 */
#include "kernels/cpu/rows.h"

static int32_t place_of(const struct sn_mat *place, int64_t t, int64_t j)
{
    return ((const int32_t *)sn_mat_row(place, t))[j];
}

static float weight_of(const struct sn_mat *w, int64_t t, int64_t j)
{
    return w->p ? ((const float *)sn_mat_row(w, t))[j] : 1.0f;
}

static void dispatch_tile(const struct sn_args *a, int64_t t, int64_t c, int64_t n)
{
    const struct sn_mat *x = &a->in[SN_DISPATCH_X], *place = &a->in[SN_DISPATCH_PLACE],
                        *w = &a->in[SN_DISPATCH_W], *y = &a->out[SN_DISPATCH_Y];
    float x_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    const float *from = sn_get(x, t, c, n, x_buf);
    for (int64_t j = 0; j < place->cols; j++) {
        int32_t to = place_of(place, t, j);
        if (to < 0)
            continue;
        float weight = weight_of(w, t, j);
        float *out = sn_dst(y, to, c, y_buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = weight * from[i];
        sn_put(y, to, c, n, out);
    }
}

SN_KERNEL(sn_dispatch)
{
    sn_each_tile(a, threads, &a->in[SN_DISPATCH_X], SN_TILE_COLS, dispatch_tile);
    return 0;
}

static void combine_tile(const struct sn_args *a, int64_t t, int64_t c, int64_t n)
{
    const struct sn_mat *x = &a->in[SN_COMBINE_X], *place = &a->in[SN_COMBINE_PLACE],
                        *w = &a->in[SN_COMBINE_W], *g = &a->in[SN_COMBINE_ADDEND];
    float sum[SN_TILE_COLS] = {0}, buf[SN_TILE_COLS];
    for (int64_t j = 0; j < place->cols; j++) {
        int32_t from = place_of(place, t, j);
        if (from < 0)
            continue;
        float weight = weight_of(w, t, j);
        const float *row = sn_get(x, from, c, n, buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += weight * row[i];
    }
    const float *more = g->p ? sn_get(g, t, c, n, buf) : NULL;
    for (int64_t i = 0; more && i < n; i++)
        sum[i] += more[i];
    sn_row_store(sn_at(&a->out[SN_COMBINE_Y], t, c), a->out[SN_COMBINE_Y].dtype, sum, n);
}

SN_KERNEL(sn_combine)
{
    sn_each_tile(a, threads, &a->out[SN_COMBINE_Y], SN_TILE_COLS, combine_tile);
    return 0;
}

static double dot(const struct sn_mat *x, int64_t r, const struct sn_mat *y, int64_t s)
{
    float x_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    double sum = 0;
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *u = sn_get(x, r, c, n, x_buf), *v = sn_get(y, s, c, n, y_buf);
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += (double)u[i] * (double)v[i];
    }
    return sum;
}

static void dw_row(const struct sn_args *a, int64_t t)
{
    const struct sn_mat *place = &a->in[SN_COMBINE_DW_PLACE];
    float *dw = sn_mat_row(&a->out[SN_COMBINE_DW_DW], t);
    for (int64_t j = 0; j < place->cols; j++) {
        int32_t from = place_of(place, t, j);
        dw[j] = from < 0 ? 0.0f
                         : (float)dot(&a->in[SN_COMBINE_DW_DY], t, &a->in[SN_COMBINE_DW_X], from);
    }
}

SN_KERNEL(sn_combine_dw)
{
    sn_each_row(a, threads, a->in[SN_COMBINE_DW_DY].rows, a->in[SN_COMBINE_DW_DY].cols, dw_row);
    return 0;
}
