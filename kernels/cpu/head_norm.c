/*
 * head_norm.c - HEAD_NORM and its gradients: RMS norms of heads, each by itself.
 *
 *   of a head x of d features: s = 1/sqrt(mean(x^2) + eps),  y_i = x_i s w_i,  w_i = shift + the weight
 *   dx_i = s (w_i dy_i - x_i s^2 mean_j(w_j dy_j x_j)),  dw_i = sum over rows and heads of dy_i x_i s
 *
 * The first `heads` blocks of a row have the first d weights, the kv_heads blocks behind them the other d;
 * further columns are copied.
 */
#include "kernels/cpu/rows.h"

#include <math.h>

struct blocks {
    int64_t query, all, d;
};

static struct blocks blocks_of(const struct sn_args *a)
{
    const struct sn_attention_attr *at = &a->attr.attention;
    return (struct blocks){at->heads, at->heads + at->kv_heads, at->head_dim};
}

/* The first weight of block h. */
static int64_t weights_of(const struct blocks *b, int64_t h)
{
    return h < b->query ? 0 : b->d;
}

static void copy_rest(const struct sn_mat *x, const struct sn_mat *y, const struct blocks *b,
                      int64_t r)
{
    int64_t c = b->all * b->d;
    if (x->p != y->p && c < x->cols)
        memcpy(sn_at(y, r, c), sn_at(x, r, c), (size_t)(x->cols - c) * sn_dtype_size(x->dtype));
}

static double mean_square(const struct sn_mat *x, int64_t r, int64_t first, int64_t d)
{
    float buf[SN_TILE_COLS];
    double sum = 0.0;
    for (int64_t c = 0; c < d; c += SN_TILE_COLS) {
        int64_t n = sn_piece(d, c);
        const float *xp = sn_get(x, r, first + c, n, buf);
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += (double)xp[i] * (double)xp[i];
    }
    return sum / (double)d;
}

static void forward_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *x = &a->in[SN_NORM_X], *w = &a->in[SN_NORM_W], *y = &a->out[SN_NORM_Y];
    float x_buf[SN_TILE_COLS], w_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    struct blocks b = blocks_of(a);
    float shift = a->attr.shift;
    for (int64_t h = 0; h < b.all; h++) {
        int64_t at = h * b.d, of = weights_of(&b, h);
        float s = (float)(1.0 / sqrt(mean_square(x, r, at, b.d) + (double)a->attr.eps));
        *(float *)sn_at(&a->out[SN_NORM_STATS], r, h) = s;
        for (int64_t c = 0; c < b.d; c += SN_TILE_COLS) {
            int64_t n = sn_piece(b.d, c);
            const float *xp = sn_get(x, r, at + c, n, x_buf), *wp = sn_get(w, 0, of + c, n, w_buf);
            float *yp = sn_dst(y, r, at + c, y_buf);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                yp[i] = xp[i] * s * (shift + wp[i]);
            sn_put(y, r, at + c, n, yp);
        }
    }
    copy_rest(x, y, &b, r);
}

SN_KERNEL(sn_head_norm)
{
    sn_each_row(a, threads, a->in[SN_NORM_X].rows, a->in[SN_NORM_X].cols, forward_row);
    return 0;
}

/* mean_j(w_j dy_j x_j) of block h. */
static double weighted_mean(const struct sn_args *a, const struct blocks *b, int64_t r, int64_t h)
{
    const struct sn_mat *dy = &a->in[SN_NORM_DX_DY], *x = &a->in[SN_NORM_DX_X],
                        *w = &a->in[SN_NORM_DX_W];
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS], w_buf[SN_TILE_COLS];
    float shift = a->attr.shift;
    double sum = 0.0;
    for (int64_t c = 0; c < b->d; c += SN_TILE_COLS) {
        int64_t n = sn_piece(b->d, c), at = h * b->d + c;
        const float *dyp = sn_get(dy, r, at, n, dy_buf), *xp = sn_get(x, r, at, n, x_buf);
        const float *wp = sn_get(w, 0, weights_of(b, h) + c, n, w_buf);
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += (double)(dyp[i] * (shift + wp[i])) * (double)xp[i];
    }
    return sum / (double)b->d;
}

static void dx_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *dy = &a->in[SN_NORM_DX_DY], *x = &a->in[SN_NORM_DX_X],
                        *w = &a->in[SN_NORM_DX_W], *dx = &a->out[SN_NORM_DX_DX];
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS], w_buf[SN_TILE_COLS], dx_buf[SN_TILE_COLS];
    struct blocks b = blocks_of(a);
    float shift = a->attr.shift;
    for (int64_t h = 0; h < b.all; h++) {
        float s = *(const float *)sn_at(&a->in[SN_NORM_DX_STATS], r, h);
        double s3 = (double)s * (double)s * (double)s;
        float k = (float)(s3 * weighted_mean(a, &b, r, h));
        for (int64_t c = 0; c < b.d; c += SN_TILE_COLS) {
            int64_t n = sn_piece(b.d, c), at = h * b.d + c;
            const float *dyp = sn_get(dy, r, at, n, dy_buf), *xp = sn_get(x, r, at, n, x_buf);
            const float *wp = sn_get(w, 0, weights_of(&b, h) + c, n, w_buf);
            float *dxp = sn_dst(dx, r, at, dx_buf);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                dxp[i] = s * (dyp[i] * (shift + wp[i])) - k * xp[i];
            sn_put(dx, r, at, n, dxp);
        }
    }
    copy_rest(dy, dx, &b, r);
}

/* Of weights c .. c + n - 1, all of the query heads' or of the others': a row for each head. */
static void sum_part(const struct sn_args *a, const struct sn_mat *stats, int o, int64_t c,
                     int64_t n)
{
    const struct sn_mat *dy = &a->in[SN_NORM_DW_DY], *x = &a->in[SN_NORM_DW_X];
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS];
    struct blocks b = blocks_of(a);
    struct sn_colsum dw;
    bool query = c < b.d;
    int64_t first = query ? 0 : b.query, end = query ? b.query : b.all, heads = end - first;
    sn_colsum_start(&dw, a, n);
    for (int64_t k = 0; k < x->rows * heads; k++) {
        int64_t r = k / heads, h = first + k % heads, at = h * b.d + c % b.d;
        const float *dyp = sn_get(dy, r, at, n, dy_buf), *xp = sn_get(x, r, at, n, x_buf);
        float s = *(const float *)sn_at(stats, r, h);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dw.sub[i] += dyp[i] * (xp[i] * s);
        sn_colsum_row_done(&dw, k, n);
    }
    sn_colsum_store(&dw, &a->out[o], a->acc[o], c, n);
}

/* A strip may begin with the query heads' weights and end with the others'. */
static void sum_strip(const struct sn_args *a, const struct sn_mat *stats, int o, int64_t c,
                      int64_t n)
{
    int64_t d = a->attr.attention.head_dim, before = c < d ? d - c : n;
    before = before < n ? before : n;
    sum_part(a, stats, o, c, before);
    if (before < n)
        sum_part(a, stats, o, c + before, n - before);
}

static void dw_strip(const struct sn_args *a, int64_t c, int64_t n)
{
    sum_strip(a, &a->in[SN_NORM_DW_STATS], SN_NORM_DW_DW, c, n);
}

static void dx_strip(const struct sn_args *a, int64_t c, int64_t n)
{
    sum_strip(a, &a->in[SN_NORM_DX_STATS], SN_NORM_DX_DW, c, n);
}

/* Elements that a thread reads for the sums are many for each weight. */
static void each_strip(const struct sn_args *a, int threads, const struct sn_mat *x,
                       void (*fn)(const struct sn_args *, int64_t c, int64_t n))
{
    int64_t weights = 2 * (int64_t)a->attr.attention.head_dim;
    sn_each_strip(a, threads, x->rows * x->cols / weights, weights, fn);
}

/* The sum first: dx may take the place of dy. */
SN_KERNEL(sn_head_norm_dx)
{
    if (a->out[SN_NORM_DX_DW].p)
        each_strip(a, threads, &a->in[SN_NORM_DX_X], dx_strip);
    sn_each_row(a, threads, a->in[SN_NORM_DX_X].rows, a->in[SN_NORM_DX_X].cols, dx_row);
    return 0;
}

SN_KERNEL(sn_head_norm_dw)
{
    each_strip(a, threads, &a->in[SN_NORM_DW_X], dw_strip);
    return 0;
}
