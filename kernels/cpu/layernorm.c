/*
 * layernorm.c - LAYERNORM and its gradients.
 *
 *   m = mean(x), s = 1/sqrt(mean((x - m)^2) + eps), h_i = (x_i - m) s, y_i = h_i w_i + b_i
 *   of x + g, rounded, where there is an addend g
 *   dx_i = s (w_i dy_i - mean_j(w_j dy_j) - h_i mean_j(w_j dy_j h_j))
 *   dw_i = sum over rows of dy_i h_i, db_i = sum over rows of dy_i
 *
 * Sums along a row are in double: the conversions hide behind the loads.
 */
#include "kernels/cpu/rows.h"

#include <math.h>

struct stats {
    float mean, scale;
};

static struct stats row_stats(const struct sn_mat *x, int64_t r, float eps)
{
    float buf[SN_TILE_COLS];
    double sum = 0.0, squares = 0.0, width = (double)x->cols;
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *xp = sn_get(x, r, c, n, buf);
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += (double)xp[i];
    }
    double mean = sum / width;
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *xp = sn_get(x, r, c, n, buf);
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < n; i++)
            squares += ((double)xp[i] - mean) * ((double)xp[i] - mean);
    }
    return (struct stats){(float)mean, (float)(1.0 / sqrt(squares / width + (double)eps))};
}

static void forward_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *w = &a->in[SN_NORM_W], *b = &a->in[SN_NORM_B], *y = &a->out[SN_NORM_Y];
    const struct sn_mat *x = sn_norm_input(a, r);
    float x_buf[SN_TILE_COLS], w_buf[SN_TILE_COLS], b_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    struct stats st = row_stats(x, r, a->attr.eps);
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

/* mean_j(w_j dy_j) and mean_j(w_j dy_j h_j) of row r */
static void weighted_means(const struct sn_args *a, int64_t r, struct stats st, double mean[2])
{
    const struct sn_mat *dy = &a->in[SN_NORM_DX_DY], *x = &a->in[SN_NORM_DX_X],
                        *w = &a->in[SN_NORM_DX_W];
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS], w_buf[SN_TILE_COLS];
    double plain = 0.0, dot = 0.0;
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *dyp = sn_get(dy, r, c, n, dy_buf), *xp = sn_get(x, r, c, n, x_buf);
        const float *wp = sn_get(w, 0, c, n, w_buf);
#pragma omp simd reduction(+ : plain, dot)
        for (int64_t i = 0; i < n; i++) {
            double u = (double)(dyp[i] * wp[i]);
            plain += u;
            dot += u * (double)((xp[i] - st.mean) * st.scale);
        }
    }
    mean[0] = plain / (double)x->cols;
    mean[1] = dot / (double)x->cols;
}

static void dx_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *dy = &a->in[SN_NORM_DX_DY], *x = &a->in[SN_NORM_DX_X],
                        *w = &a->in[SN_NORM_DX_W], *g = &a->in[SN_NORM_DX_ADDEND];
    const struct sn_mat *dx = &a->out[SN_NORM_DX_DX];
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS], w_buf[SN_TILE_COLS], g_buf[SN_TILE_COLS],
        dx_buf[SN_TILE_COLS];
    struct stats st;
    memcpy(&st, sn_at(&a->in[SN_NORM_DX_STATS], r, 0), sizeof(st));
    double mean[2];
    weighted_means(a, r, st, mean);
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
        struct stats st;
        memcpy(&st, sn_at(&a->in[stats], r, 0), sizeof(st));
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
