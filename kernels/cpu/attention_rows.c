/*
 * attention_rows.c - ATTENTION_ROWS: attention of a few queries over keys and values that were kept, as
 * when text is generated token by token.
 *
 * A query takes its keys in blocks of KEYS, with an online softmax (attention.c has the formulas). Memory
 * is what bounds it: of each row of keys, then of values, a thread takes all of its heads, one after the
 * other, so that it reads on; each is read once, and scratch does not grow with them. Threads share heads
 * of rows out; a head is summed in one order whatever their number.
 */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vmath.h"

enum { KEYS = 128 };

/* A thread's scratch: of heads first .. first + n - 1 of a query. */
struct work {
    float *q, *o, *k, *v; /* heads x d, heads x e; one row of a head */
    float *p, *m, *l;     /* heads x KEYS, heads: scores, the largest so far, the sum */
    int64_t first, n;
};

/* Floats of a thread's scratch. */
static int64_t layout(const struct sn_attention_attr *t, float *base, struct work *w)
{
    int64_t used = 0;
    w->q = sn_take(base, &used, t->heads * t->head_dim);
    w->o = sn_take(base, &used, t->heads * sn_v_dim(t));
    w->k = sn_take(base, &used, t->head_dim);
    w->v = sn_take(base, &used, sn_v_dim(t));
    w->p = sn_take(base, &used, (int64_t)t->heads * KEYS);
    w->m = sn_take(base, &used, t->heads);
    w->l = sn_take(base, &used, t->heads);
    return used;
}

size_t SN_K(sn_attention_rows_scratch)(const struct sn_args *a, int threads)
{
    struct work w;
    return (size_t)(layout(&a->attr.attention, NULL, &w) * threads) * sizeof(float);
}

/* Scores of n keys of the i-th head become their weights; what earlier ones gave shrinks. */
static void soften(const struct sn_attention_attr *t, struct work *w, int64_t i, int64_t n)
{
    float *restrict p = w->p + i * KEYS, *restrict o = w->o + i * sn_v_dim(t), m = w->m[i], sum = 0;
    if (t->cap > 0) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            p[j] = t->cap * sn_tanhf(p[j] / t->cap);
    }
#pragma omp simd reduction(max : m)
    for (int64_t j = 0; j < n; j++)
        m = p[j] > m ? p[j] : m;
    float shrink = sn_expf_low(w->m[i] - m);
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        p[j] = sn_expf_low(p[j] - m);
        sum += p[j];
    }
#pragma omp simd
    for (int64_t c = 0; c < sn_v_dim(t); c++)
        o[c] *= shrink;
    w->l[i] = w->l[i] * shrink + sum;
    w->m[i] = m;
}

static float dot(const float *a, const float *b, int64_t n)
{
    sn_vec sum = {0};
    int64_t c = 0;
    for (; c + SN_VL <= n; c += SN_VL)
        sum += *(const sn_vec *)(a + c) * *(const sn_vec *)(b + c);
    float rest = 0;
    for (; c < n; c++)
        rest += a[c] * b[c];
    return sn_vec_sum(sum) + rest;
}

/* Keys from .. from + n - 1 of what was kept. */
static void block(const struct sn_args *a, struct work *w, int64_t from, int64_t n)
{
    const struct sn_attention_attr *t = &a->attr.attention;
    const struct sn_mat *k = &a->in[SN_ATTENTION_ROWS_K], *v = &a->in[SN_ATTENTION_ROWS_V];
    int64_t d = t->head_dim, e = sn_v_dim(t), group = t->heads / t->kv_heads, had = -1;
    const float *row = NULL;
    for (int64_t j = 0; j < n; j++, had = -1)
        for (int64_t i = 0; i < w->n; i++) {
            int64_t head = (w->first + i) / group;
            if (head != had)
                row = sn_get(k, from + j, head * d, d, w->k);
            had = head;
            w->p[i * KEYS + j] = dot(w->q + i * d, row, d);
        }
    for (int64_t i = 0; i < w->n; i++)
        soften(t, w, i, n);
    for (int64_t j = 0; j < n; j++, had = -1)
        for (int64_t i = 0; i < w->n; i++) {
            int64_t head = (w->first + i) / group;
            if (head != had)
                row = sn_get(v, from + j, head * e, e, w->v);
            had = head;
            float *restrict o = w->o + i * e, p = w->p[i * KEYS + j];
#pragma omp simd
            for (int64_t c = 0; c < e; c++)
                o[c] += p * row[c];
        }
}

/* Heads w->first .. of row r. */
static void query(const struct sn_args *a, struct work *w, int64_t r)
{
    const struct sn_attention_attr *t = &a->attr.attention;
    const struct sn_mask mask = {a->attr.position.seq, t->window, NULL, 0};
    const struct sn_mat *q = &a->in[SN_ATTENTION_ROWS_Q], *o = &a->out[SN_ATTENTION_ROWS_O];
    int64_t d = t->head_dim, e = sn_v_dim(t), at = sn_row_position(&a->attr.position, r);
    sn_row_load(w->q, sn_at(q, r, w->first * d), q->dtype, w->n * d);
    for (int64_t c = 0; c < w->n * d; c++)
        w->q[c] *= t->scale;
    memset(w->o, 0, (size_t)(w->n * e) * sizeof(float));
    for (int64_t i = 0; i < w->n; i++) {
        w->m[i] = -INFINITY;
        w->l[i] = 0;
    }
    for (int64_t from = sn_mask_first(&mask, 0, at); from <= at; from += KEYS)
        block(a, w, from, at + 1 - from < KEYS ? at + 1 - from : KEYS);
    for (int64_t i = 0; i < w->n; i++)
        for (int64_t c = 0; c < e; c++)
            w->o[i * e + c] /= w->l[i];
    sn_row_store(sn_at(o, r, w->first * e), o->dtype, w->o, w->n * e);
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
        for (; i < end; i += w.n) {
            w.first = i % t->heads;
            w.n = t->heads - w.first < end - i ? t->heads - w.first : end - i;
            query(a, &w, i / t->heads);
        }
    }
    return 0;
}
