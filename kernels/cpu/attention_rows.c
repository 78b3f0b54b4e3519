/*
 * attention_rows.c - ATTENTION_ROWS: attention of a few queries over keys and values that were kept, as
 * when text is generated token by token.
 *
 * A query of a head takes its keys in blocks of KEYS, with an online softmax (attention.c has the
 * formulas): scores are sums along a head, what is summed of values lies along it too. Memory is what
 * bounds it: keys and values are read once, and scratch does not grow with them. Threads share heads of
 * rows out; a head is summed in one order whatever their number.
 */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vmath.h"

enum { KEYS = 128 };

/* A thread's scratch, and the largest score and the sum of one query so far. */
struct work {
    float *q, *o, *k, *v, *p; /* of a head; p: of a block */
    float m, l;
};

/* Floats of a thread's scratch. */
static int64_t layout(const struct sn_attention_attr *t, float *base, struct work *w)
{
    int64_t used = 0;
    w->q = sn_take(base, &used, t->head_dim);
    w->k = sn_take(base, &used, t->head_dim);
    w->o = sn_take(base, &used, sn_v_dim(t));
    w->v = sn_take(base, &used, sn_v_dim(t));
    w->p = sn_take(base, &used, KEYS);
    return used;
}

size_t SN_K(sn_attention_rows_scratch)(const struct sn_args *a, int threads)
{
    struct work w;
    return (size_t)(layout(&a->attr.attention, NULL, &w) * threads) * sizeof(float);
}

/* Scores of n keys become their weights; what earlier ones gave shrinks. */
static void soften(const struct sn_attention_attr *t, struct work *w, int64_t n)
{
    float *restrict p = w->p, *restrict o = w->o, m = w->m, sum = 0;
    if (t->cap > 0) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            p[j] = t->cap * sn_tanhf(p[j] / t->cap);
    }
#pragma omp simd reduction(max : m)
    for (int64_t j = 0; j < n; j++)
        m = p[j] > m ? p[j] : m;
    float shrink = sn_expf_low(w->m - m);
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        p[j] = sn_expf_low(p[j] - m);
        sum += p[j];
    }
#pragma omp simd
    for (int64_t c = 0; c < sn_v_dim(t); c++)
        o[c] *= shrink;
    w->l = w->l * shrink + sum;
    w->m = m;
}

/* Keys from .. from + n - 1 of the cache. */
static void block(const struct sn_args *a, struct work *w, int64_t kv_head, int64_t from, int64_t n)
{
    const struct sn_attention_attr *t = &a->attr.attention;
    const struct sn_mat *k = &a->in[SN_ATTENTION_ROWS_K], *v = &a->in[SN_ATTENTION_ROWS_V];
    int64_t d = t->head_dim, e = sn_v_dim(t);
    for (int64_t j = 0; j < n; j++)
        w->p[j] = SN_K(sn_attention_dot)(w->q, sn_get(k, from + j, kv_head * d, d, w->k), d);
    soften(t, w, n);
    float *restrict o = w->o;
    for (int64_t j = 0; j < n; j++) {
        const float *restrict row = sn_get(v, from + j, kv_head * e, e, w->v);
        float p = w->p[j];
#pragma omp simd
        for (int64_t c = 0; c < e; c++)
            o[c] += p * row[c];
    }
}

static void query(const struct sn_args *a, struct work *w, int64_t r, int64_t head)
{
    const struct sn_attention_attr *t = &a->attr.attention;
    const struct sn_mask mask = {a->attr.position.seq, t->window, NULL};
    int64_t d = t->head_dim, e = sn_v_dim(t), at = sn_row_position(&a->attr.position, r);
    sn_row_load(w->q, sn_at(&a->in[SN_ATTENTION_ROWS_Q], r, head * d),
                a->in[SN_ATTENTION_ROWS_Q].dtype, d);
    for (int64_t c = 0; c < d; c++)
        w->q[c] *= t->scale;
    memset(w->o, 0, (size_t)e * sizeof(float));
    w->m = -INFINITY;
    w->l = 0;
    for (int64_t from = sn_mask_first(&mask, 0, at); from <= at; from += KEYS)
        block(a, w, head / (t->heads / t->kv_heads), from, at + 1 - from < KEYS ? at + 1 - from : KEYS);
    for (int64_t c = 0; c < e; c++)
        w->o[c] /= w->l;
    sn_row_store(sn_at(&a->out[SN_ATTENTION_ROWS_O], r, head * e),
                 a->out[SN_ATTENTION_ROWS_O].dtype, w->o, e);
}

SN_KERNEL(sn_attention_rows)
{
    const struct sn_attention_attr *t = &a->attr.attention;
    int64_t rows = a->in[SN_ATTENTION_ROWS_Q].rows, heads = rows * t->heads;
    int64_t keys = a->attr.position.row0 % a->attr.position.seq + rows;
    struct work sizes;
    int64_t each = layout(t, NULL, &sizes);
#pragma omp parallel num_threads(sn_team(threads, heads *keys *t->head_dim))
    {
        struct work w;
        int64_t i, end;
        (void)layout(t, (float *)a->scratch + each * omp_get_thread_num(), &w);
        sn_share(heads, 1, omp_get_thread_num(), omp_get_num_threads(), &i, &end);
        for (; i < end; i++)
            query(a, &w, i / t->heads, i % t->heads);
    }
    return 0;
}
