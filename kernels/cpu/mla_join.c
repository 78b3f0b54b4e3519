/*
 * mla_join.c - MLA_JOIN and MLA_JOIN_DX: the operands of multi-head latent attention side by side, and
 * back.
 */
#include "kernels/cpu/rows.h"

/* Columns: d of a head of q and k, of which r has the last ones and kv the first n; e of one of v. */
struct widths {
    int64_t heads, d, n, e;
};

static struct widths widths_of(const struct sn_args *a, const struct sn_mat *r)
{
    const struct sn_attention_attr *t = &a->attr.attention;
    return (struct widths){t->heads, t->head_dim, t->head_dim - r->cols, sn_v_dim(t)};
}

/* n elements of row r, from one column to another. */
static void move(const struct sn_mat *to, int64_t to_col, const struct sn_mat *from, int64_t col,
                 int64_t r, int64_t n)
{
    memcpy(sn_at(to, r, to_col), sn_at(from, r, col), (size_t)n * sn_dtype_size(from->dtype));
}

static void join_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *q = &a->in[SN_MLA_JOIN_Q], *kv = &a->in[SN_MLA_JOIN_KV],
                        *shared = &a->in[SN_MLA_JOIN_R], *y = &a->out[SN_MLA_JOIN_Y];
    struct widths w = widths_of(a, shared);
    int64_t k = w.heads * w.d, v = 2 * k;
    move(y, 0, q, 0, r, k);
    for (int64_t h = 0; h < w.heads; h++) {
        move(y, k + h * w.d, kv, h * (w.n + w.e), r, w.n);
        move(y, k + h * w.d + w.n, shared, 0, r, w.d - w.n);
        move(y, v + h * w.e, kv, h * (w.n + w.e) + w.n, r, w.e);
    }
}

SN_KERNEL(sn_mla_join)
{
    sn_each_row(a, threads, a->out[SN_MLA_JOIN_Y].rows, a->out[SN_MLA_JOIN_Y].cols, join_row);
    return 0;
}

/* The sum over heads of what is theirs of r, columns c .. c + n - 1. */
static void sum_heads(const struct sn_args *a, const struct widths *w, int64_t r, int64_t c,
                      int64_t n)
{
    const struct sn_mat *dy = &a->in[SN_MLA_JOIN_DX_DY], *dr = &a->out[SN_MLA_JOIN_DX_DR];
    float buf[SN_TILE_COLS], room[SN_TILE_COLS], *sum = sn_dst(dr, r, c, room);
    for (int64_t h = 0; h < w->heads; h++) {
        const float *x = sn_get(dy, r, (w->heads + h) * w->d + w->n + c, n, buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] = h > 0 ? sum[i] + x[i] : x[i];
    }
    sn_put(dr, r, c, n, sum);
}

static void join_dx_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *dy = &a->in[SN_MLA_JOIN_DX_DY], *dq = &a->out[SN_MLA_JOIN_DX_DQ],
                        *dkv = &a->out[SN_MLA_JOIN_DX_DKV], *dr = &a->out[SN_MLA_JOIN_DX_DR];
    struct widths w = widths_of(a, dr);
    int64_t k = w.heads * w.d, v = 2 * k;
    move(dq, 0, dy, 0, r, k);
    for (int64_t h = 0; h < w.heads; h++) {
        move(dkv, h * (w.n + w.e), dy, k + h * w.d, r, w.n);
        move(dkv, h * (w.n + w.e) + w.n, dy, v + h * w.e, r, w.e);
    }
    for (int64_t c = 0; c < dr->cols; c += SN_TILE_COLS)
        sum_heads(a, &w, r, c, sn_piece(dr->cols, c));
}

SN_KERNEL(sn_mla_join_dx)
{
    const struct sn_mat *dy = &a->in[SN_MLA_JOIN_DX_DY];
    sn_each_row(a, threads, dy->rows, dy->cols, join_dx_row);
    return 0;
}
