/*
 * norm.h - what the norms take of a row, whole or a slice of its features: moments of x, and what
 * their gradients need of dy w.
 *
 * Sums along a row are in double: the conversions hide behind the loads.
 */
#ifndef SN_NORM_H
#define SN_NORM_H

#include "kernels/cpu/rows.h"
#include "kernels/norm_parts.h"

struct sn_moments {
    double mean, variance;
};

/* As they are stored. */
struct sn_layer_stats {
    float mean, scale;
};

static inline struct sn_layer_stats sn_layer_stats_at(const struct sn_mat *stats, int64_t r)
{
    struct sn_layer_stats st;
    memcpy(&st, sn_at(stats, r, 0), sizeof(st));
    return st;
}

/* mean(x^2) of row r */
static inline double sn_row_mean_square(const struct sn_mat *x, int64_t r)
{
    float buf[SN_TILE_COLS];
    double sum = 0.0;
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *xp = sn_get(x, r, c, n, buf);
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += (double)xp[i] * (double)xp[i];
    }
    return sum / (double)x->cols;
}

/* Of row r; the variance around the mean, in a second pass. */
static inline struct sn_moments sn_row_moments(const struct sn_mat *x, int64_t r)
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
    return (struct sn_moments){mean, squares / width};
}

/* mean_j(w_j dy_j x_j) of row r; operands are those of NORM_DX_PART. */
static inline double sn_weighted_mean(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *dy = &a->in[SN_NORM_DX_PART_DY], *x = &a->in[SN_NORM_DX_PART_X],
                        *w = &a->in[SN_NORM_DX_PART_W];
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS], w_buf[SN_TILE_COLS];
    float shift = a->attr.shift;
    double sum = 0.0;
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *dyp = sn_get(dy, r, c, n, dy_buf), *xp = sn_get(x, r, c, n, x_buf);
        const float *wp = sn_get(w, 0, c, n, w_buf);
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += (double)(dyp[i] * (shift + wp[i])) * (double)xp[i];
    }
    return sum / (double)x->cols;
}

/* mean_j(w_j dy_j) and mean_j(w_j dy_j h_j) of row r, h = (x - st.mean) st.scale; operands are
 * those of NORM_DX_PART. */
static inline void sn_weighted_means(const struct sn_args *a, int64_t r, struct sn_layer_stats st,
                                     double mean[2])
{
    const struct sn_mat *dy = &a->in[SN_NORM_DX_PART_DY], *x = &a->in[SN_NORM_DX_PART_X],
                        *w = &a->in[SN_NORM_DX_PART_W];
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

#endif
