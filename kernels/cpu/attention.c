/*
 * attention.c - blocked causal attention with an online softmax (Dao et al. 2022; Milakov and
 * Gimelshein 2018). For query i of a head, over blocks of keys j in order:
 *
 *   s_j = scale q_i . k_j      m' = max(m, s_j)      p_j = e^(s_j - m')
 *   l = l e^(m - m') + sum p_j      o = o e^(m - m') + sum mask_j p_j v_j
 *
 * and at the end o / l and lse = m + ln l. What earlier keys gave is continued with m = lse,
 * l = 1. A thread takes a chunk of queries of one run of one head with its running o, m and l in
 * scratch, packs each block of keys once and passes it by all its queries: scratch does not grow
 * with S. A query meets the blocks of keys in the same order whatever the chunk or the number of
 * threads, so results are bit-identical for any number.
 */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/vmath.h"

#include <omp.h>

enum { CHUNK = 512 }; /* queries, at most */

struct job {
    const struct sn_args *a;
    int64_t rows, d, ld, heads, group; /* rows of a sample here; query heads of a kv head */
    struct sn_runs queries, keys;
    int64_t samples, chunk, chunks; /* chunks of a run */
    struct sn_attn_dropout dropout;
};

/* A thread's scratch, and the chunk it works on. */
struct work {
    float *q, *o, *m, *l; /* CHUNK x ld; CHUNK */
    float *keys, *kt, *v; /* one block: rows, transposed panels, rows */
    float *p, *factor;    /* SN_BQ x SN_KEYS; SN_BK */
    int64_t sample, head;
    const struct sn_run *run;
    int64_t q0, queries; /* q0: of the run, the first query */
};

/* `n` keys of a run from its row k0 on. */
struct keys {
    const struct sn_run *run;
    int64_t k0, n;
};

static struct job job_of(const struct sn_args *a, int threads)
{
    const struct sn_attr *t = &a->attr;
    struct job j = {.a = a, .rows = sn_rows_per_sample(t), .d = t->head_dim, .heads = t->heads};
    j.queries = sn_runs_of(t, t->context_rank);
    j.keys = sn_runs_of(t, t->key_rank);
    j.ld = sn_head_stride(j.d);
    j.group = t->heads / t->kv_heads;
    j.samples = a->in[0].rows / j.rows;
    j.chunk = CHUNK;
    /* enough chunks for every thread */
    int64_t n = j.queries.run[0].n, runs = j.samples * j.heads * j.queries.count;
    while (j.chunk > SN_BQ && runs * ((n + j.chunk - 1) / j.chunk) < 3 * threads)
        j.chunk /= 2;
    j.chunks = (n + j.chunk - 1) / j.chunk;
    return j;
}

static int64_t layout(const struct job *j, float *base, struct work *w)
{
    int64_t used = 0;
    w->q = sn_take(base, &used, CHUNK * j->ld);
    w->o = sn_take(base, &used, CHUNK * j->ld);
    w->m = sn_take(base, &used, CHUNK);
    w->l = sn_take(base, &used, CHUNK);
    w->keys = sn_take(base, &used, SN_BK * j->ld);
    w->kt = sn_take(base, &used, SN_BK * j->d);
    w->v = sn_take(base, &used, SN_BK * j->ld);
    w->p = sn_take(base, &used, SN_BQ * SN_KEYS);
    w->factor = sn_take(base, &used, SN_BK);
    return used;
}

/*
 * One row of scores against `visible` keys from k0 on: p in place, m and l updated, o rescaled.
 * Sums are written out as vectors: left to the compiler, two inlined copies may add in two orders.
 */
static void soften_row(const struct job *j, struct work *w, int64_t i, int64_t visible, float *p)
{
    int64_t whole = sn_whole_step(p, visible, -INFINITY);
    sn_vec top = w->m[i] - (sn_vec){0}, sum = {0};
    for (int64_t k = 0; k < whole; k += SN_VL)
        top = sn_vec_max(top, *(const sn_vec *)(p + k));
    float m = sn_vec_top(top);
    for (int64_t k = 0; k < whole; k += SN_VL) {
#pragma omp simd
        for (int64_t e = k; e < k + SN_VL; e++)
            p[e] = sn_expf_low(p[e] - m);
        sum += *(const sn_vec *)(p + k);
    }
    if (m != w->m[i]) {
        float shrink = sn_expf_low(w->m[i] - m);
        float *restrict o = w->o + i * j->ld;
#pragma omp simd
        for (int64_t c = 0; c < j->ld; c++)
            o[c] *= shrink;
        w->l[i] *= shrink;
        w->m[i] = m;
    }
    w->l[i] += sn_vec_sum(sum);
}

static void drop_row(const struct job *j, const struct work *w, const struct sn_attn_row *row,
                     float *p)
{
    sn_attn_dropout_row(&j->dropout, row, w->factor);
#pragma omp simd
    for (int64_t k = 0; k < row->keys; k++)
        p[k] *= w->factor[k];
}

/* Queries [i0, i0 + n) of the chunk against a packed block of keys. */
static void block(const struct job *j, struct work *w, int64_t i0, int64_t n, const struct keys *k)
{
    int64_t query = w->run->first + w->q0 + i0, key = k->run->first + k->k0, diag = query - key;
    struct sn_product scores = {.rows = n,
                                .cols = k->n,
                                .depth = j->d,
                                .a = w->q + i0 * j->ld,
                                .a_row = j->ld,
                                .a_step = 1,
                                .b = w->kt,
                                .b_step = SN_PANEL,
                                .b_panel = j->d * SN_PANEL,
                                .c = w->p,
                                .c_row = SN_KEYS,
                                .visible = sn_visible(SN_COLS, diag, k->n),
                                .diag = diag};
    SN_K(sn_product)(&scores);
    for (int64_t i = 0; i < n; i++) {
        int64_t visible = i + diag + 1 < k->n ? i + diag + 1 : k->n;
        struct sn_attn_row row = {w->sample, w->head, query + i, key, visible};
        soften_row(j, w, i0 + i, visible, w->p + i * SN_KEYS);
        if (j->dropout.drop > 0)
            drop_row(j, w, &row, w->p + i * SN_KEYS);
    }
    struct sn_product sums = {.rows = n,
                              .cols = j->d,
                              .depth = k->n,
                              .a = w->p,
                              .a_row = SN_KEYS,
                              .a_step = 1,
                              .b = w->v,
                              .b_step = j->ld,
                              .b_panel = SN_PANEL,
                              .c = w->o + i0 * j->ld,
                              .c_row = j->ld,
                              .add = true,
                              .visible = sn_visible(SN_UPTO, diag, k->n),
                              .diag = diag};
    SN_K(sn_product)(&sums);
}

/* The chunk's rows of an operand that has query heads. */
static struct sn_head queries_of(const struct job *j, const struct work *w, const struct sn_mat *x)
{
    int64_t row = w->sample * j->rows + w->run->row + w->q0;
    return (struct sn_head){x, row, w->queries, w->head * j->d, j->d};
}

/*
 * q, and what earlier keys gave. Where that is nothing, m = -inf: the first key shrinks l = 1 to 0,
 * and without one o = 0 and lse = -inf come out.
 */
static void start(const struct job *j, struct work *w)
{
    int64_t padded = sn_round_up(w->queries, SN_AR);
    struct sn_head q = queries_of(j, w, &j->a->in[0]), o = queries_of(j, w, &j->a->out[0]);
    sn_head_load(&q, j->a->attr.scale, padded, w->q, j->ld);
    if (j->a->acc[0] == SN_ADD)
        sn_head_load(&o, 1.0f, padded, w->o, j->ld);
    else
        memset(w->o, 0, (size_t)(padded * j->ld) * sizeof(float));
    for (int64_t i = 0; i < w->queries; i++) {
        const float *lse = sn_mat_row(&j->a->out[1], o.first_row + i);
        w->m[i] = j->a->acc[0] == SN_ADD ? lse[w->head] : -INFINITY;
        w->l[i] = 1;
    }
}

static void finish(const struct job *j, const struct work *w)
{
    struct sn_head o = queries_of(j, w, &j->a->out[0]);
    for (int64_t i = 0; i < w->queries; i++) {
        float *restrict row = w->o + i * j->ld;
        float inverse = 1.0f / w->l[i];
#pragma omp simd
        for (int64_t c = 0; c < j->d; c++)
            row[c] *= inverse;
        sn_head_store(&o, i, row);
        float *lse = sn_mat_row(&j->a->out[1], o.first_row + i);
        lse[w->head] = w->m[i] + logf(w->l[i]);
    }
}

/* The chunk against those keys of a run that it sees. */
static void pass(const struct job *j, struct work *w, const struct sn_run *run)
{
    const struct sn_mat *in = j->a->in;
    int64_t base = w->sample * j->rows + run->row, kv_col = w->head / j->group * j->d;
    int64_t end = w->run->first + w->q0 + w->queries - run->first;
    end = end < run->n ? end : run->n;
    for (int64_t k0 = 0; k0 < end; k0 += SN_BK) {
        struct keys keys = {run, k0, end - k0 < SN_BK ? end - k0 : SN_BK};
        struct sn_head k = {&in[1], base + k0, keys.n, kv_col, j->d}, v = k;
        v.x = &in[2];
        int64_t padded = sn_round_up(keys.n, SN_STEP);
        sn_head_load(&k, 1.0f, padded, w->keys, j->ld);
        sn_head_transpose(w->keys, j->ld, keys.n, j->d, w->kt);
        sn_head_load(&v, 1.0f, padded, w->v, j->ld);
        int64_t from = sn_first_query(w->run, run, k0);
        int64_t i0 = from > w->q0 ? (from - w->q0) / SN_BQ * SN_BQ : 0;
        for (; i0 < w->queries; i0 += SN_BQ)
            block(j, w, i0, w->queries - i0 < SN_BQ ? w->queries - i0 : SN_BQ, &keys);
    }
}

static void chunk(const struct job *j, struct work *w)
{
    if (j->a->acc[0] == SN_ADD && !sn_run_sees(w->run, &j->keys.run[0]))
        return;
    start(j, w);
    for (int r = 0; r < j->keys.count && sn_run_sees(w->run, &j->keys.run[r]); r++)
        pass(j, w, &j->keys.run[r]);
    finish(j, w);
}

int SN_K(sn_attention)(const struct sn_args *a, int threads)
{
    struct job j = job_of(a, threads);
    j.dropout = sn_attn_dropout_of(a);
    int64_t heads = j.samples * j.heads, chunks = j.chunks * j.queries.count;
    struct work sizes;
    int64_t each = layout(&j, a->scratch, &sizes);
    /* Long chunks (those at the end of a sample) first; who takes which changes no bit. */
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t i = 0; i < heads * chunks; i++) {
        int64_t c = chunks - 1 - i / heads;
        struct work w = {.sample = i % heads / j.heads, .head = i % heads % j.heads};
        (void)layout(&j, (float *)a->scratch + each * omp_get_thread_num(), &w);
        w.run = &j.queries.run[c / j.chunks];
        w.q0 = c % j.chunks * j.chunk;
        w.queries = w.run->n - w.q0 < j.chunk ? w.run->n - w.q0 : j.chunk;
        chunk(&j, &w);
    }
    return 0;
}

size_t SN_K(sn_attention_scratch)(const struct sn_args *a, int threads)
{
    struct job j = job_of(a, threads);
    struct work w;
    return (size_t)layout(&j, NULL, &w) * sizeof(float) * (size_t)threads;
}
