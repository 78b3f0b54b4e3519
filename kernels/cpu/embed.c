/*
 * embed.c - EMBED, EMBED_GRAD, POS_GRAD.
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

/* The first row of dy at a position, were dy without end; INT64_MAX when no row of this rank has
 * it. The inverse of sn_position(). */
static int64_t first_row_at(const struct sn_attr *at, int64_t position)
{
    int64_t rows = sn_rows_per_sample(&at->position), i = position;
    if (position >= at->position.seq)
        return INT64_MAX;
    if (at->position.context > 1) {
        int64_t chunk = at->position.zigzag ? rows / 2 : rows, k = position / chunk;
        bool late =
            at->position.zigzag && k >= at->position.context; /* the second chunk of a rank */
        if ((late ? 2 * at->position.context - 1 - k : k) != at->position.context_rank)
            return INT64_MAX;
        i = position % chunk + (late ? chunk : 0);
    }
    int64_t passed = at->position.row0 > i ? (at->position.row0 - i + rows - 1) / rows
                                           : 0; /* samples before row0 */
    return i + passed * rows - at->position.row0;
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
    int64_t first = first_row_at(&a->attr, s), rows = sn_rows_per_sample(&a->attr.position);
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
