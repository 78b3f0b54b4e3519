/*
 * layernorm.c - LAYERNORM and its gradients.
 *
 *   m = mean(x), s = 1/sqrt(mean((x - m)^2) + eps), h_i = (x_i - m) s, y_i = h_i w_i + b_i
 *   of x + g, rounded, where there is an addend g
 *   dx_i = s (w_i dy_i - mean_j(w_j dy_j) - h_i mean_j(w_j dy_j h_j))
 *   dw_i = sum over rows of dy_i h_i, db_i = sum over rows of dy_i
 *
 * Where x is a slice of a row, its parts give the means over all of it (norm_parts.h).
 */
#include "kernels/cpu/norm.h"

#include <math.h>

/* Of row r: of its parts, where x is a slice. */
static struct sn_layer_stats row_stats(const struct sn_args *a, const struct sn_mat *x, int64_t r)
{
    const struct sn_mat *parts = &a->in[SN_NORM_PARTS];
    struct sn_moments m;
    if (parts->p) {
        m.mean = sn_parts_mean(parts, x->rows, r, 0);
        m.variance = sn_parts_variance(parts, x->rows, r, m.mean);
    } else {
        m = sn_row_moments(x, r);
    }
    return (struct sn_layer_stats){(float)m.mean,
                                   (float)(1.0 / sqrt(m.variance + (double)a->attr.eps))};
}

static void forward_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *w = &a->in[SN_NORM_W], *b = &a->in[SN_NORM_B], *y = &a->out[SN_NORM_Y];
    const struct sn_mat *x = sn_norm_input(a, r);
    float x_buf[SN_TILE_COLS], w_buf[SN_TILE_COLS], b_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    struct sn_layer_stats st = row_stats(a, x, r);
    memcpy(sn_at(&a->out[SN_NORM_STATS], r, 0), &st, sizeof(st));
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *xp = sn_get(x, r, c, n, x_buf), *wp = sn_get(w, 0, c, n, w_buf);
        const float *bp = sn_get(b, 0, c, n, b_buf);
        float *yp = sn_dst(y, r, c, y_buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            yp[i] = (xp[i] - st.mean) * st.scale * wp[i] + bp[i];
        sn_put(y, r, c, n, yp);
    }
}

SN_KERNEL(sn_layernorm)
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
    struct sn_layer_stats st = sn_layer_stats_at(&a->in[SN_NORM_DX_STATS], r);
    double mean[2];
    if (parts->p) {
        mean[0] = sn_parts_mean(parts, x->rows, r, 0);
        mean[1] = sn_parts_mean(parts, x->rows, r, 1);
    } else {
        sn_weighted_means(a, r, st, mean);
    }
    float s = st.scale, m0 = (float)mean[0], m1 = (float)mean[1];
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *dyp = sn_get(dy, r, c, n, dy_buf), *xp = sn_get(x, r, c, n, x_buf);
        const float *wp = sn_get(w, 0, c, n, w_buf);
        const float *gp = g->p ? sn_get(g, r, c, n, g_buf) : NULL;
        float *dxp = sn_dst(dx, r, c, dx_buf);
        if (gp) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                dxp[i] = gp[i] + s * (dyp[i] * wp[i] - m0 - (xp[i] - st.mean) * s * m1);
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                dxp[i] = s * (dyp[i] * wp[i] - m0 - (xp[i] - st.mean) * s * m1);
        }
        sn_put(dx, r, c, n, dxp);
    }
}

/* Of columns c .. c + n - 1: dw to out[o], db to out[o + 1]; statistics are in[stats]. */
static void sum_strip(const struct sn_args *a, int stats, int o, int64_t c, int64_t n)
{
    const struct sn_mat *dy = &a->in[SN_NORM_DW_DY], *x = &a->in[SN_NORM_DW_X];
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS];
    struct sn_colsum dw, db;
    sn_colsum_start(&dw, a, n);
    sn_colsum_start(&db, a, n);
    for (int64_t r = 0; r < x->rows; r++) {
        const float *dyp = sn_get(dy, r, c, n, dy_buf), *xp = sn_get(x, r, c, n, x_buf);
        struct sn_layer_stats st = sn_layer_stats_at(&a->in[stats], r);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            dw.sub[i] += dyp[i] * ((xp[i] - st.mean) * st.scale);
            db.sub[i] += dyp[i];
        }
        sn_colsum_row_done(&dw, r, n);
        sn_colsum_row_done(&db, r, n);
    }
    if (a->out[o].p)
        sn_colsum_store(&dw, &a->out[o], a->acc[o], c, n);
    if (a->out[o + 1].p)
        sn_colsum_store(&db, &a->out[o + 1], a->acc[o + 1], c, n);
}

static void dw_strip(const struct sn_args *a, int64_t c, int64_t n)
{
    sum_strip(a, SN_NORM_DW_STATS, SN_NORM_DW_DW, c, n);
}

static void dx_strip(const struct sn_args *a, int64_t c, int64_t n)
{
    sum_strip(a, SN_NORM_DX_STATS, SN_NORM_DX_DW, c, n);
}

/* The sums first: dx may take the place of dy. */
SN_KERNEL(sn_layernorm_dx)
{
    if (a->out[SN_NORM_DX_DW].p || a->out[SN_NORM_DX_DB].p)
        sn_each_strip(a, threads, a->in[SN_NORM_DX_X].rows, a->in[SN_NORM_DX_X].cols, dx_strip);
    sn_each_row(a, threads, a->in[SN_NORM_DX_X].rows, a->in[SN_NORM_DX_X].cols, dx_row);
    return 0;
}

SN_KERNEL(sn_layernorm_dw)
{
    sn_each_strip(a, threads, a->in[SN_NORM_DW_X].rows, a->in[SN_NORM_DW_X].cols, dw_strip);
    return 0;
}
