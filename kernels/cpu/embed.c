/*
 * embed.c - what stands for tokens and positions: EMBED, EMBED_GRAD, POS_GRAD; PROMPT, PROMPT_DX, PROMPT_DW.
 *
 * Ids are checked where they are read (the data layer); here one that is not among the rows of the
 * table is another rank's.
 */
#include "kernels/cpu/rows.h"
#include "kernels/position.h"

/* The row of `table` that has row r's word, -1 when another rank has it. */
static int64_t row_of_word(const struct sn_args *a, const struct sn_mat *table, int64_t r)
{
    int64_t id = *(const int32_t *)sn_at(&a->in[SN_EMBED_IDS], r, 0) - a->attr.vocab.first;
    return id >= 0 && id < table->rows ? id : -1;
}

static void embed_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    static const float zeros[SN_TILE_COLS];
    const struct sn_mat *w = &a->in[SN_EMBED_W], *pos = &a->in[SN_EMBED_P],
                        *y = &a->out[SN_EMBED_Y];
    int64_t id = row_of_word(a, w, r);
    if (!pos->p && id < 0) {
        memset(sn_at(y, r, c), 0, (size_t)n * sn_dtype_size(y->dtype));
        return;
    }
    if (!pos->p && w->dtype == y->dtype) {
        memcpy(sn_at(y, r, c), sn_at(w, id, c), (size_t)n * sn_dtype_size(y->dtype));
        return;
    }
    float w_buf[SN_TILE_COLS], p_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    const float *from = id < 0 ? zeros : sn_get(w, id, c, n, w_buf);
    float *to = sn_dst(y, r, c, y_buf);
    if (pos->p) {
        const float *p = sn_get(pos, sn_row_position(&a->attr.position, r), c, n, p_buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i] + p[i];
    } else {
        memcpy(to, from, (size_t)n * sizeof(float));
    }
    sn_put(y, r, c, n, to);
}

SN_KERNEL(sn_embed)
{
    sn_each_tile(a, threads, &a->out[SN_EMBED_Y], SN_TILE_COLS, embed_tile);
    return 0;
}

static void add_exactly(double *to, const float *from, int64_t n, double shift)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] += sn_exact_round((double)from[i], shift);
}

/* Rows in order within each column: repeated ids add up in one order for every thread count. */
static void embed_grad_strip(const struct sn_args *a, int64_t c, int64_t n)
{
    const struct sn_mat *dy = &a->in[SN_EMBED_GRAD_DY], *dw = &a->out[SN_EMBED_GRAD_DW];
    double shift = sn_exact_shift(a->attr.exact.of, a->scalars);
    float buf[SN_TILE_COLS];
    for (int64_t r = 0; r < dy->rows; r++) {
        int64_t id = row_of_word(a, dw, r);
        if (id < 0)
            continue;
        const float *from = sn_get(dy, r, c, n, buf);
        float *to = sn_at(dw, id, c);
        if (shift != 0) {
            add_exactly(sn_at(dw, id, c), from, n, shift);
            continue;
        }
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] += from[i];
    }
}

SN_KERNEL(sn_embed_grad)
{
    sn_each_strip(a, threads, a->in[SN_EMBED_GRAD_DY].rows, a->in[SN_EMBED_GRAD_DY].cols,
                  embed_grad_strip);
    return 0;
}

/* dP[s] = sum over the rows r of dy at position s, sample after sample. */
static void pos_grad_tile(const struct sn_args *a, int64_t s, int64_t c, int64_t n)
{
    const struct sn_mat *dy = &a->in[SN_POS_GRAD_DY];
    const struct sn_mat *to = &a->out[SN_POS_GRAD_DP];
    bool wide = to->dtype == SN_F64;
    float *dp = sn_at(to, s, c), buf[SN_TILE_COLS];
    double sum[SN_TILE_COLS], *wide_dp = sn_at(to, s, c);
    double shift = sn_exact_shift(a->attr.exact.of, a->scalars);
    int64_t at = sn_first_row_at(&a->attr.position, s), first = at < 0 ? dy->rows : at;
    int64_t rows = sn_rows_per_sample(&a->attr.position);
    if (first >= dy->rows && a->acc[SN_POS_GRAD_DP] == SN_ADD)
        return;
    for (int64_t i = 0; i < n; i++)
        sum[i] = a->acc[SN_POS_GRAD_DP] != SN_ADD ? 0.0 : wide ? wide_dp[i] : (double)dp[i];
    for (int64_t r = first; r < dy->rows; r += rows) {
        const float *from = sn_get(dy, r, c, n, buf);
        if (shift != 0) {
            add_exactly(sum, from, n, shift);
            continue;
        }
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)from[i];
    }
    for (int64_t i = 0; i < n; i++) {
        if (wide)
            wide_dp[i] = sum[i];
        else
            dp[i] = (float)sum[i];
    }
}

SN_KERNEL(sn_pos_grad)
{
    sn_each_tile(a, threads, &a->out[SN_POS_GRAD_DP], SN_TILE_COLS, pos_grad_tile);
    return 0;
}

/* --- positions that are filled --------------------------------------------------------------- */

static float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

/* Elements c .. c + n - 1 of W times a row of features; without features of a column of W. */
static void filled(const struct sn_args *a, int64_t r, int64_t i, int64_t c, int64_t n, float *to)
{
    const struct sn_mat *w = &a->in[SN_PROMPT_W], *f = &a->in[SN_PROMPT_F];
    int64_t row = f->p ? sn_prompt_row(&a->attr, r, i) : 0;
    float buf[SN_TILE_COLS];
    for (int64_t j = 0; j < n; j++) {
        if (!f->p) {
            to[j] = *sn_get(w, c + j, i, 1, buf);
            continue;
        }
        float sum = 0;
        for (int64_t k = 0; k < w->cols; k += SN_TILE_COLS) {
            int64_t m = sn_piece(w->cols, k);
            sum += dot(sn_get(w, c + j, k, m, buf), sn_at(f, row, k), m);
        }
        to[j] = sum;
    }
}

static void copied(const struct sn_mat *x, const struct sn_mat *y, int64_t r, int64_t c, int64_t n)
{
    if (sn_at(x, r, c) != sn_at(y, r, c))
        memcpy(sn_at(y, r, c), sn_at(x, r, c), (size_t)n * sn_dtype_size(y->dtype));
}

static void prompt_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    const struct sn_mat *y = &a->out[SN_PROMPT_Y];
    int64_t i = sn_prompt_at(&a->attr, r);
    float buf[SN_TILE_COLS];
    if (i < 0) {
        copied(&a->in[SN_PROMPT_X], y, r, c, n);
        return;
    }
    float *to = sn_dst(y, r, c, buf);
    filled(a, r, i, c, n, to);
    sn_put(y, r, c, n, to);
}

SN_KERNEL(sn_prompt)
{
    sn_each_tile(a, threads, &a->out[SN_PROMPT_Y], SN_TILE_COLS, prompt_tile);
    return 0;
}

static void prompt_dx_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    const struct sn_mat *dx = &a->out[SN_PROMPT_DX_DX];
    if (sn_prompt_at(&a->attr, r) < 0)
        copied(&a->in[SN_PROMPT_DX_DY], dx, r, c, n);
    else
        memset(sn_at(dx, r, c), 0, (size_t)n * sn_dtype_size(dx->dtype));
}

SN_KERNEL(sn_prompt_dx)
{
    sn_each_tile(a, threads, &a->out[SN_PROMPT_DX_DX], SN_TILE_COLS, prompt_dx_tile);
    return 0;
}

/* What position i adds to dW[d, k .. k + n - 1]. */
static void add_position(const struct sn_args *a, int64_t i, int64_t d, int64_t k, int64_t n,
                         double *sum)
{
    const struct sn_mat *dy = &a->in[SN_PROMPT_DW_DY], *f = &a->in[SN_PROMPT_DW_F];
    int64_t first = sn_first_row_at(&a->attr.position, a->attr.prompt.first + i);
    int64_t step = sn_rows_per_sample(&a->attr.position);
    float buf[1];
    for (int64_t r = first < 0 ? dy->rows : first; r < dy->rows; r += step) {
        double g = *sn_get(dy, r, d, 1, buf);
        if (!f->p) {
            sum[i - k] += g;
            continue;
        }
        const float *row = sn_at(f, sn_prompt_row(&a->attr, r, i), k);
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            sum[j] += g * (double)row[j];
    }
}

static void prompt_dw_tile(const struct sn_args *a, int64_t d, int64_t k, int64_t n)
{
    const struct sn_mat *dw = &a->out[SN_PROMPT_DW_DW];
    bool adds = a->acc[SN_PROMPT_DW_DW] == SN_ADD, is_column = !a->in[SN_PROMPT_DW_F].p;
    float *to = sn_at(dw, d, k);
    double sum[SN_TILE_COLS];
    for (int64_t j = 0; j < n; j++)
        sum[j] = adds ? (double)to[j] : 0.0;
    for (int64_t i = 0; i < a->attr.prompt.rows; i++)
        if (!is_column || (i >= k && i < k + n))
            add_position(a, i, d, k, n, sum);
    for (int64_t j = 0; j < n; j++)
        to[j] = (float)sum[j];
}

SN_KERNEL(sn_prompt_dw)
{
    sn_each_tile(a, threads, &a->out[SN_PROMPT_DW_DW], SN_TILE_COLS, prompt_dw_tile);
    return 0;
}
