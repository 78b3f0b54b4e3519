/*
 * attention_dx.c - gradients of causal attention, recomputing the probabilities block by block.
 * For query i and key j, with the forward's lse, and mask = 0 or 1/(1 - drop):
 *
 *   p = e^(scale q.k - lse)      delta = sum_c do_c o_c
 *   dv += mask p do              ds = p (mask do.v - delta)
 *   dq += scale ds k             dk += scale ds q
 *
 * A thread takes a whole kv head of a sample: its query heads one after another, each passing all
 * its queries by one packed block of keys after another. Sums have one order whatever the number
 * of threads, so results are bit-identical; no two threads write the same gradient. Scratch is
 * five heads of one sample in fp32 (5 S d floats) and a few blocks.
 */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/vmath.h"

#include <omp.h>

struct job {
    const struct sn_args *a;
    int64_t s, d, ld, heads, kv_heads, group;
    int64_t samples;
    struct sn_attn_dropout dropout;
};

struct work {
    float *q, *g, *dq, *dk, *dv; /* S x ld each; q is scaled, g is do */
    float *lse, *delta;          /* S */
    float *k, *kt, *vt;          /* one block: rows, transposed panels */
    float *p, *ds, *factor;      /* SN_BQ x SN_KEYS twice; SN_BK */
    int64_t sample, kv_head, head;
};

static struct job job_of(const struct sn_args *a)
{
    const struct sn_attr *t = &a->attr;
    struct job j = {.a = a, .s = t->seq, .d = t->head_dim, .heads = t->heads};
    j.kv_heads = t->kv_heads;
    j.ld = sn_head_stride(j.d);
    j.group = t->heads / t->kv_heads;
    j.samples = a->in[0].rows / j.s;
    return j;
}

static int64_t layout(const struct job *j, float *base, struct work *w)
{
    int64_t used = 0, rows = sn_round_up(j->s, SN_BK);
    w->q = sn_take(base, &used, rows * j->ld);
    w->g = sn_take(base, &used, rows * j->ld);
    w->dq = sn_take(base, &used, rows * j->ld);
    w->dk = sn_take(base, &used, rows * j->ld);
    w->dv = sn_take(base, &used, rows * j->ld);
    w->lse = sn_take(base, &used, rows);
    w->delta = sn_take(base, &used, rows);
    w->k = sn_take(base, &used, SN_BK * j->ld);
    w->kt = sn_take(base, &used, SN_BK * j->d);
    w->vt = sn_take(base, &used, SN_BK * j->d);
    w->p = sn_take(base, &used, SN_BQ * SN_KEYS);
    w->ds = sn_take(base, &used, SN_BQ * SN_KEYS);
    w->factor = sn_take(base, &used, SN_BK);
    return used;
}

/* The visible part of one row: p from scores, ds from do.v (in `ds`); zero beyond. */
static void row_gradient(const struct work *w, int64_t i, int64_t visible, const float *factor,
                         float *restrict p, float *restrict ds)
{
    float lse = w->lse[i], delta = w->delta[i];
    int64_t whole = sn_whole_step(p, visible, -INFINITY);
    (void)sn_whole_step(ds, visible, 0.0f);
    if (factor) {
#pragma omp simd
        for (int64_t k = 0; k < whole; k++) {
            float prob = sn_expf_low(p[k] - lse);
            ds[k] = prob * (factor[k] * ds[k] - delta);
            p[k] = prob * factor[k];
        }
    } else {
#pragma omp simd
        for (int64_t k = 0; k < whole; k++) {
            p[k] = sn_expf_low(p[k] - lse);
            ds[k] = p[k] * (ds[k] - delta);
        }
    }
}

static void block_rows(const struct job *j, struct work *w, const int64_t queries[2], int64_t k0)
{
    int64_t sample = j->a->scalars ? j->a->scalars->first_sample + w->sample : 0;
    for (int64_t i = queries[0]; i < queries[0] + queries[1]; i++) {
        int64_t visible = i - k0 + 1 < SN_BK ? i - k0 + 1 : SN_BK;
        const float *factor = NULL;
        if (j->dropout.drop > 0) {
            int64_t first = (w->head * j->s + i) * j->s + k0;
            sn_attn_dropout_row(&j->dropout, sample, first, visible, w->factor);
            (void)sn_whole_step(w->factor, visible, 0.0f);
            factor = w->factor;
        }
        int64_t row = (i - queries[0]) * SN_KEYS;
        row_gradient(w, i, visible, factor, w->p + row, w->ds + row);
    }
}

/* Queries [i0, i0 + n) against the packed block of `keys` keys from k0 on. */
static void block(const struct job *j, struct work *w, const int64_t queries[2],
                  const int64_t keys[2])
{
    int64_t i0 = queries[0], n = queries[1], k0 = keys[0], diag = i0 - k0;
    struct sn_product scores = {.rows = n,
                                .cols = SN_BK,
                                .depth = j->d,
                                .a = w->q + i0 * j->ld,
                                .a_row = j->ld,
                                .a_step = 1,
                                .b = w->kt,
                                .b_step = SN_PANEL,
                                .b_panel = j->d * SN_PANEL,
                                .c = w->p,
                                .c_row = SN_KEYS,
                                .visible = SN_COLS,
                                .diag = diag};
    SN_K(sn_product)(&scores);
    scores.a = w->g + i0 * j->ld;
    scores.b = w->vt;
    scores.c = w->ds;
    SN_K(sn_product)(&scores);
    block_rows(j, w, queries, k0);
    struct sn_product by_key = {.rows = keys[1],
                                .cols = j->d,
                                .depth = n,
                                .a = w->p,
                                .a_row = 1,
                                .a_step = SN_KEYS,
                                .b = w->g + i0 * j->ld,
                                .b_step = j->ld,
                                .b_panel = SN_PANEL,
                                .c = w->dv + k0 * j->ld,
                                .c_row = j->ld,
                                .add = true,
                                .visible = SN_SINCE,
                                .diag = diag};
    SN_K(sn_product)(&by_key);
    by_key.a = w->ds;
    by_key.b = w->q + i0 * j->ld;
    by_key.c = w->dk + k0 * j->ld;
    SN_K(sn_product)(&by_key);
    struct sn_product by_query = {.rows = n,
                                  .cols = j->d,
                                  .depth = SN_BK,
                                  .a = w->ds,
                                  .a_row = SN_KEYS,
                                  .a_step = 1,
                                  .b = w->k,
                                  .b_step = j->ld,
                                  .b_panel = SN_PANEL,
                                  .c = w->dq + i0 * j->ld,
                                  .c_row = j->ld,
                                  .add = true,
                                  .visible = SN_UPTO,
                                  .diag = diag};
    SN_K(sn_product)(&by_query);
}

/* Not inlined: two copies of a vectorised sum may add in two orders. */
static __attribute__((noinline)) float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < n; c++)
        sum += a[c] * b[c];
    return sum;
}

/* q (scaled), do, lse and delta of the current head; dq zero. */
static void load_head(const struct job *j, struct work *w)
{
    const struct sn_mat *in = j->a->in;
    int64_t base = w->sample * j->s, padded = sn_round_up(j->s, SN_AR);
    struct sn_head q = {&in[0], base, j->s, w->head * j->d, j->d}, o = q, g = q;
    o.x = &in[3];
    g.x = &in[4];
    sn_head_load(&q, j->a->attr.scale, padded, w->q, j->ld);
    sn_head_load(&g, 1.0f, padded, w->g, j->ld);
    sn_head_load(&o, 1.0f, padded, w->dq, j->ld);
    for (int64_t i = 0; i < j->s; i++) {
        w->delta[i] = dot(w->dq + i * j->ld, w->g + i * j->ld, j->d);
        w->lse[i] = ((const float *)sn_mat_row(&in[5], base + i))[w->head];
    }
    memset(w->dq, 0, (size_t)(padded * j->ld) * sizeof(float));
}

static void query_head(const struct job *j, struct work *w)
{
    int64_t base = w->sample * j->s;
    load_head(j, w);
    for (int64_t k0 = 0; k0 < j->s; k0 += SN_BK) {
        int64_t keys = j->s - k0 < SN_BK ? j->s - k0 : SN_BK;
        struct sn_head k = {&j->a->in[1], base + k0, keys, w->kv_head * j->d, j->d}, v = k;
        v.x = &j->a->in[2];
        int64_t padded = sn_round_up(keys, SN_STEP);
        sn_head_load(&v, 1.0f, padded, w->k, j->ld);
        sn_head_transpose(w->k, j->ld, keys, j->d, w->vt);
        sn_head_load(&k, 1.0f, padded, w->k, j->ld);
        sn_head_transpose(w->k, j->ld, keys, j->d, w->kt);
        for (int64_t i = k0; i < j->s; i += SN_BQ) {
            int64_t n = j->s - i < SN_BQ ? j->s - i : SN_BQ;
            block(j, w, (int64_t[2]){i, n}, (int64_t[2]){k0, keys});
        }
    }
    struct sn_head dq = {&j->a->out[0], base, j->s, w->head * j->d, j->d};
    for (int64_t i = 0; i < j->s; i++) {
        float *restrict row = w->dq + i * j->ld;
#pragma omp simd
        for (int64_t c = 0; c < j->d; c++)
            row[c] *= j->a->attr.scale;
        sn_head_store(&dq, i, row);
    }
}

static void kv_head(const struct job *j, struct work *w)
{
    size_t bytes = (size_t)(sn_round_up(j->s, SN_BK) * j->ld) * sizeof(float);
    memset(w->dk, 0, bytes);
    memset(w->dv, 0, bytes);
    for (w->head = w->kv_head * j->group; w->head < (w->kv_head + 1) * j->group; w->head++)
        query_head(j, w);
    struct sn_head dk = {&j->a->out[1], w->sample * j->s, j->s, w->kv_head * j->d, j->d}, dv = dk;
    dv.x = &j->a->out[2];
    for (int64_t i = 0; i < j->s; i++) {
        sn_head_store(&dk, i, w->dk + i * j->ld);
        sn_head_store(&dv, i, w->dv + i * j->ld);
    }
}

int SN_K(sn_attention_dx)(const struct sn_args *a, int threads)
{
    struct job j = job_of(a);
    j.dropout = sn_attn_dropout_of(a);
    struct work sizes;
    int64_t each = layout(&j, a->scratch, &sizes);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t i = 0; i < j.samples * j.kv_heads; i++) {
        struct work w = {.sample = i / j.kv_heads, .kv_head = i % j.kv_heads};
        (void)layout(&j, (float *)a->scratch + each * omp_get_thread_num(), &w);
        kv_head(&j, &w);
    }
    return 0;
}

size_t SN_K(sn_attention_dx_scratch)(const struct sn_args *a, int threads)
{
    struct job j = job_of(a);
    struct work w;
    return (size_t)layout(&j, NULL, &w) * sizeof(float) * (size_t)threads;
}
