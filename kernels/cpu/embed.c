/*
 * embed.c - EMBED, EMBED_GRAD, POS_GRAD.
 *
 * Ids are checked where they are read (the data layer); here they are indices.
 */
#include "kernels/cpu/rows.h"

static void embed_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    const struct sn_mat *w = &a->in[1], *pos = &a->in[2], *y = &a->out[0];
    int64_t id = *(const int32_t *)sn_at(&a->in[0], r, 0);
    if (!pos->p && w->dtype == y->dtype) {
        memcpy(sn_at(y, r, c), sn_at(w, id, c), (size_t)n * sn_dtype_size(y->dtype));
        return;
    }
    float w_buf[SN_CHUNK], p_buf[SN_CHUNK], y_buf[SN_CHUNK];
    const float *from = sn_get(w, id, c, n, w_buf);
    float *to = sn_dst(y, r, c, y_buf);
    if (pos->p) {
        const float *p = sn_get(pos, r % a->attr.seq, c, n, p_buf);
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
    sn_each_tile(a, threads, &a->out[0], SN_CHUNK, embed_tile);
    return 0;
}

/* Rows in order within each column: repeated ids add up in one order for every thread count. */
static void embed_grad_strip(const struct sn_args *a, int64_t c, int64_t n)
{
    const struct sn_mat *ids = &a->in[0], *dy = &a->in[1], *dw = &a->out[0];
    float buf[SN_CHUNK];
    for (int64_t r = 0; r < dy->rows; r++) {
        int64_t id = *(const int32_t *)sn_at(ids, r, 0);
        const float *from = sn_get(dy, r, c, n, buf);
        float *to = sn_at(dw, id, c);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] += from[i];
    }
}

SN_KERNEL(sn_embed_grad)
{
    sn_each_strip(a, threads, a->in[1].rows, a->in[1].cols, embed_grad_strip);
    return 0;
}

/* dP[s] = sum over samples b of dy[b S + s]. */
static void pos_grad_tile(const struct sn_args *a, int64_t s, int64_t c, int64_t n)
{
    const struct sn_mat *dy = &a->in[0];
    float *dp = sn_at(&a->out[0], s, c), buf[SN_CHUNK];
    double sum[SN_CHUNK];
    if (s >= a->attr.seq && a->acc[0] == SN_ADD)
        return;
    for (int64_t i = 0; i < n; i++)
        sum[i] = a->acc[0] == SN_ADD ? (double)dp[i] : 0.0;
    for (int64_t r = s; s < a->attr.seq && r < dy->rows; r += a->attr.seq) {
        const float *from = sn_get(dy, r, c, n, buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)from[i];
    }
    for (int64_t i = 0; i < n; i++)
        dp[i] = (float)sum[i];
}

SN_KERNEL(sn_pos_grad)
{
    sn_each_tile(a, threads, &a->out[0], SN_CHUNK, pos_grad_tile);
    return 0;
}
