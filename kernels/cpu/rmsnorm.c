/*
 * rmsnorm.c - RMSNORM and its gradients.
 *
 *   s = 1/sqrt(mean(x^2) + eps),  y_i = x_i s w_i,  w_i = shift + the weight
 *   of x + g, rounded, where there is an addend g
 *   dx_i = s (w_i dy_i - x_i s^2 mean_j(w_j dy_j x_j)),  dw_i = sum over rows of dy_i x_i s
 *
 * Where x is a slice of a row, its parts give the means over all of it (norm_parts.h).
 */
#include "kernels/cpu/norm.h"

#include <math.h>

/* 1/sqrt(mean(x^2) + eps) of row r: of its parts, where x is a slice. */
static float inverse_rms(const struct sn_args *a, const struct sn_mat *x, int64_t r)
{
    const struct sn_mat *parts = &a->in[SN_NORM_PARTS];
    double square = parts->p ? sn_parts_mean(parts, x->rows, r, 0) : sn_row_mean_square(x, r);
    return (float)(1.0 / sqrt(square + (double)a->attr.eps));
}

static void forward_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *x = sn_norm_input(a, r), *w = &a->in[SN_NORM_W], *y = &a->out[SN_NORM_Y];
    float x_buf[SN_TILE_COLS], w_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    float s = inverse_rms(a, x, r), shift = a->attr.shift;
    *(float *)sn_at(&a->out[SN_NORM_STATS], r, 0) = s;
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *xp = sn_get(x, r, c, n, x_buf), *wp = sn_get(w, 0, c, n, w_buf);
        float *yp = sn_dst(y, r, c, y_buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            yp[i] = xp[i] * s * (shift + wp[i]);
        sn_put(y, r, c, n, yp);
    }
}

SN_KERNEL(sn_rmsnorm)
{
    sn_each_row(a, threads, a->in[SN_NORM_X].rows, a->in[SN_NORM_X].cols, forward_row);
    return 0;
}

static void dx_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *dy = &a->in[SN_NORM_DX_DY], *x = &a->in[SN_NORM_DX_X],
                        *w = &a->in[SN_NORM_DX_W], *g = &a->in[SN_NORM_DX_ADDEND],
                        *parts = &a->in[SN_NORM_DX_PARTS];
    const struct sn_mat *dx = &a->out[SN_NORM_DX_DX];
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS], w_buf[SN_TILE_COLS], g_buf[SN_TILE_COLS],
        dx_buf[SN_TILE_COLS];
    float s = *(const float *)sn_at(&a->in[SN_NORM_DX_STATS], r, 0);
    double s3 = (double)s * (double)s * (double)s;
    double mean = parts->p ? sn_parts_mean(parts, x->rows, r, 0) : sn_weighted_mean(a, r);
    float k = (float)(s3 * mean), shift = a->attr.shift;
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *dyp = sn_get(dy, r, c, n, dy_buf), *xp = sn_get(x, r, c, n, x_buf);
        const float *wp = sn_get(w, 0, c, n, w_buf);
        const float *gp = g->p ? sn_get(g, r, c, n, g_buf) : NULL;
        float *dxp = sn_dst(dx, r, c, dx_buf);
        if (gp) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                dxp[i] = gp[i] + (s * (dyp[i] * (shift + wp[i])) - k * xp[i]);
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                dxp[i] = s * (dyp[i] * (shift + wp[i])) - k * xp[i];
        }
        sn_put(dx, r, c, n, dxp);
    }
}

/* Of columns c .. c + n - 1: dw to out[o]. */
static void sum_strip(const struct sn_args *a, const struct sn_mat *stats, int o, int64_t c,
                      int64_t n)
{
    const struct sn_mat *dy = &a->in[SN_NORM_DW_DY], *x = &a->in[SN_NORM_DW_X];
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS];
    struct sn_colsum dw;
    sn_colsum_start(&dw, a, n);
    for (int64_t r = 0; r < x->rows; r++) {
        const float *dyp = sn_get(dy, r, c, n, dy_buf), *xp = sn_get(x, r, c, n, x_buf);
        float s = *(const float *)sn_at(stats, r, 0);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dw.sub[i] += dyp[i] * (xp[i] * s);
        sn_colsum_row_done(&dw, r, n);
    }
    sn_colsum_store(&dw, &a->out[o], a->acc[o], c, n);
}

static void dw_strip(const struct sn_args *a, int64_t c, int64_t n)
{
    sum_strip(a, &a->in[SN_NORM_DW_STATS], SN_NORM_DW_DW, c, n);
}

static void dx_strip(const struct sn_args *a, int64_t c, int64_t n)
{
    sum_strip(a, &a->in[SN_NORM_DX_STATS], SN_NORM_DX_DW, c, n);
}

/* The sum first: dx may take the place of dy. */
SN_KERNEL(sn_rmsnorm_dx)
{
    if (a->out[SN_NORM_DX_DW].p)
        sn_each_strip(a, threads, a->in[SN_NORM_DX_X].rows, a->in[SN_NORM_DX_X].cols, dx_strip);
    sn_each_row(a, threads, a->in[SN_NORM_DX_X].rows, a->in[SN_NORM_DX_X].cols, dx_row);
    return 0;
}

SN_KERNEL(sn_rmsnorm_dw)
{
    sn_each_strip(a, threads, a->in[SN_NORM_DW_X].rows, a->in[SN_NORM_DW_X].cols, dw_strip);
    return 0;
}
