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
 * with S. Where products are of bf16 (attention_bf16.h), all threads first pack every key and value
 * once, for all queries and all heads that share them. A query meets the blocks of keys in the same
 * order whatever the chunk or the number of threads, so results are bit-identical for any number.
 */
#include "kernels/cpu/attention_bf16.h"
#include "kernels/cpu/vmath.h"

#include <omp.h>

enum { CHUNK = 8 }; /* blocks of queries, at most */

struct job {
    const struct sn_args *a;
    int64_t rows, d, ld, heads, group; /* rows of a sample here; query heads of a kv head */
    int64_t e, ldv;                    /* of v and o */
    struct sn_runs queries, keys;
    int64_t samples, chunk, chunks; /* chunks of a run */
    int64_t q_block, k_block;
    struct sn_mask mask;
    struct sn_attn_dropout dropout;
    struct sn_attn_bf16 bf16; /* its set is NULL: products are of fp32 */
    int64_t place;            /* room for the keys of a run, whole blocks */
    uint16_t *packed;         /* of each kv head of each sample: its runs, of each k and v */
};

/* A thread's scratch, and the chunk it works on. */
struct work {
    float *q, *o, *m, *l; /* CHUNK x ld, x ldv; CHUNK */
    float *keys, *kt, *v; /* one block: rows, transposed panels, rows */
    float *p, *factor;    /* a block of scores; of one row */
    uint16_t *q16;        /* in bf16: chunk x deep, packed; q, keys, kt and v are fp32's */
    uint16_t *p16, *left; /* a block, rounded; the same, packed, for sets that do not read rows */
    uint16_t *line;
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
    struct job j = {.a = a,
                    .rows = sn_rows_per_sample(&t->position),
                    .d = t->attention.head_dim,
                    .e = sn_v_dim(&t->attention),
                    .heads = t->attention.heads,
                    .mask = sn_mask_of(t, &a->in[SN_ATTENTION_STARTS])};
    j.queries = sn_runs_of(t, t->position.context_rank);
    j.keys = sn_runs_of(t, t->position.key_rank);
    j.bf16 = sn_attn_bf16_of(a, SN_FORWARD_BF16);
    bool bf16 = j.bf16.set;
    j.ld = sn_head_stride(j.d);
    j.ldv = bf16 ? sn_attn_stride(j.bf16.wide_v) : sn_head_stride(j.e);
    j.q_block = bf16 ? j.bf16.queries : SN_BQ;
    j.k_block = bf16 ? j.bf16.keys : SN_BK;
    j.place = sn_round_up(j.keys.run[0].n, j.k_block);
    j.group = t->attention.heads / t->attention.kv_heads;
    j.samples = a->in[SN_ATTENTION_Q].rows / j.rows;
    j.chunk = CHUNK * j.q_block;
    /* enough chunks for every thread */
    int64_t n = j.queries.run[0].n, runs = j.samples * j.heads * j.queries.count;
    while (j.chunk > j.q_block && runs * ((n + j.chunk - 1) / j.chunk) < 3 * threads)
        j.chunk /= 2;
    j.chunks = (n + j.chunk - 1) / j.chunk;
    return j;
}

/* Floats between the rows of a block of scores. */
static int64_t score_row(const struct job *j)
{
    return j->k_block + SN_VL;
}

/* Floats of a thread's scratch. */
static int64_t layout(const struct job *j, float *base, struct work *w)
{
    const struct sn_attn_bf16 *f = &j->bf16;
    int64_t used = 0, most = CHUNK * j->q_block;
    w->o = sn_take(base, &used, most * j->ldv);
    w->m = sn_take(base, &used, most);
    w->l = sn_take(base, &used, most);
    w->p = sn_take(base, &used, j->q_block * score_row(j));
    w->factor = sn_take(base, &used, sn_attn_factors(j->k_block));
    if (f->set) {
        w->q16 = sn_take_bf16(base, &used, most * f->deep);
        w->p16 = sn_take_bf16(base, &used, f->queries * f->keys);
        w->left = sn_take_bf16(base, &used, f->set->reads_rows ? 0 : f->queries * f->keys);
        w->line = sn_take_bf16(base, &used, SN_BF16_LINES * (f->deep + f->keys));
    } else {
        w->q = sn_take(base, &used, most * j->ld);
        w->keys = sn_take(base, &used, SN_BK * j->ld);
        w->kt = sn_take(base, &used, SN_BK * j->d);
        w->v = sn_take(base, &used, SN_BK * j->ldv);
    }
    return used;
}

/* bf16 elements of a packed kv head of a sample: its keys in every run, then their values. */
static int64_t packed_head(const struct job *j)
{
    return j->bf16.set ? j->keys.count * j->place * (j->bf16.deep + j->bf16.wide_v) : 0;
}

/* Floats before the threads' scratch: what all of them share. */
static int64_t shared(const struct job *j)
{
    return sn_round_up(j->samples * j->a->attr.attention.kv_heads * packed_head(j), 32) / 2;
}

/* Where keys of run r lie from its row k0 on, and their values. */
static uint16_t *packed_keys(const struct job *j, int64_t sample, int64_t kv_head, int64_t r,
                             int64_t k0)
{
    int64_t head = sample * j->a->attr.attention.kv_heads + kv_head;
    return j->packed + head * packed_head(j) + (r * j->place + k0) * j->bf16.deep;
}

static uint16_t *packed_values(const struct job *j, int64_t sample, int64_t kv_head, int64_t r,
                               int64_t k0)
{
    int64_t keys = j->keys.count * j->place * j->bf16.deep;
    return packed_keys(j, sample, kv_head, 0, 0) + keys + (r * j->place + k0) * j->bf16.wide_v;
}

/* Scores times `scale` to cap tanh(s / cap). */
static void cap_row(const struct job *j, float scale, int64_t visible, float *restrict p)
{
    float cap = j->a->attr.attention.cap, inner = scale / cap;
#pragma omp simd
    for (int64_t k = 0; k < visible; k++)
        p[k] = cap * sn_tanhf(inner * p[k]);
}

/*
 * One row of scores times `scale` against `visible` keys from k0 on: p in place, m and l updated, o
 * rescaled. Sums are written out as vectors: left to the compiler, two inlined copies may add in
 * two orders.
 */
static inline __attribute__((always_inline)) void
soften_row(const struct job *j, struct work *w, float scale, int64_t i, int64_t visible, float *p)
{
    int64_t whole = sn_whole_step(p, visible, -INFINITY);
    sn_vec top = -INFINITY - (sn_vec){0}, sum = {0};
    for (int64_t k = 0; k < whole; k += SN_VL)
        top = sn_vec_max(top, *(const sn_vec *)(p + k));
    float here = scale * sn_vec_top(top), m = here > w->m[i] ? here : w->m[i];
    for (int64_t k = 0; k < whole; k += SN_VL) {
#pragma omp simd
        for (int64_t e = k; e < k + SN_VL; e++)
            p[e] = sn_expf_low(scale * p[e] - m);
        sum += *(const sn_vec *)(p + k);
    }
    if (m != w->m[i]) {
        float shrink = sn_expf_low(w->m[i] - m);
        float *restrict o = w->o + i * j->ldv;
#pragma omp simd
        for (int64_t c = 0; c < j->ldv; c++)
            o[c] *= shrink;
        w->l[i] *= shrink;
        w->m[i] = m;
    }
    w->l[i] += sn_vec_sum(sum);
}

/* The same, of the keys of a block that the query sees; there are some. In fp32 q is scaled. */
static void see_row(const struct job *j, struct work *w, int64_t i, struct sn_key_range seen,
                    float *p)
{
    float scale = j->bf16.set ? j->a->attr.attention.scale : 1.0f;
    bool capped = j->a->attr.attention.cap > 0;
    if (capped)
        cap_row(j, scale, seen.end, p);
    for (int64_t k = 0; k < seen.from; k++)
        p[k] = -INFINITY;
    if (capped || !j->bf16.set)
        soften_row(j, w, 1.0f, i, seen.end, p);
    else
        soften_row(j, w, scale, i, seen.end, p);
}

static void drop_row(const struct job *j, const struct work *w, const struct sn_attn_row *row,
                     float *p)
{
    const float *factor = sn_attn_dropout_row(&j->dropout, row, w->factor);
#pragma omp simd
    for (int64_t k = 0; k < row->keys; k++)
        p[k] *= factor[k];
}

/* Queries [i0, i0 + n) of the chunk against a block of keys: their scores are in w->p. */
static void soften_block(const struct job *j, struct work *w, int64_t i0, int64_t n,
                         const struct keys *k)
{
    int64_t query = w->run->first + w->q0 + i0, key = k->run->first + k->k0;
    int64_t whole = j->bf16.set ? sn_bf16_depth(j->bf16.set, k->n) : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t visible = sn_keys_upto(&j->mask, w->sample, query + i, key, k->n);
        int64_t before = sn_keys_before(&j->mask, w->sample, query + i, key);
        struct sn_attn_row row = {w->sample, w->head, query + i, key, visible};
        float *p = w->p + i * score_row(j);
        if (before < visible)
            see_row(j, w, i0 + i, (struct sn_key_range){before, visible}, p);
        else
            sn_clear_step(p, visible);
        if (j->dropout.drop > 0)
            drop_row(j, w, &row, p);
        if (j->bf16.set)
            sn_attn_round(p, visible, whole, w->p16 + i * j->k_block);
        else
            sn_clear_rest(&j->mask, p, visible, k->n);
    }
}

/* The same queries against a packed block of keys. */
static void block(const struct job *j, struct work *w, int64_t i0, int64_t n, const struct keys *k)
{
    int64_t diag = w->run->first + w->q0 + i0 - (k->run->first + k->k0);
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
                                .visible = sn_visible(&j->mask, SN_COLS, diag, k->n),
                                .diag = diag};
    SN_K(sn_product)(&scores);
    soften_block(j, w, i0, n, k);
    struct sn_product sums = {.rows = n,
                              .cols = j->e,
                              .depth = k->n,
                              .a = w->p,
                              .a_row = SN_KEYS,
                              .a_step = 1,
                              .b = w->v,
                              .b_step = j->ldv,
                              .b_panel = SN_PANEL,
                              .c = w->o + i0 * j->ldv,
                              .c_row = j->ldv,
                              .add = true,
                              .visible = sn_visible(&j->mask, SN_UPTO, diag, k->n),
                              .diag = diag};
    SN_K(sn_product)(&sums);
}

/* p, rounded, as the left of a product: as it lies, or packed. */
static struct sn_attn_left rounded(const struct job *j, const struct work *w, int64_t n,
                                   int64_t keys)
{
    const struct sn_attn_bf16 *f = &j->bf16;
    sn_attn_zero_rows(f, n, w->p16);
    if (f->set->reads_rows)
        return sn_attn_rows(f, w->p16, f->keys);
    struct sn_mat x = {w->p16, SN_BF16, f->queries, f->keys, f->keys};
    struct sn_head h = {&x, 0, n, 0, keys};
    sn_attn_pack(f, &(struct sn_attn_operand){&h, false, false}, w->line, w->left);
    return sn_attn_strips(f, w->left, sn_bf16_depth(f->set, keys));
}

/* What block() does, with products of bf16. */
static void block_bf16(const struct job *j, struct work *w, int64_t i0, int64_t n,
                       const struct keys *k)
{
    const struct sn_attn_bf16 *f = &j->bf16;
    int64_t diag = w->run->first + w->q0 + i0 - (k->run->first + k->k0);
    int64_t r = k->run - j->keys.run, kv_head = w->head / j->group;
    struct sn_product_bf16 scores = {.rows = n,
                                     .cols = k->n,
                                     .depth = j->d,
                                     .a = sn_attn_packed(f, w->q16 + i0 * f->deep, f->deep),
                                     .b = packed_keys(j, w->sample, kv_head, r, k->k0),
                                     .c = w->p,
                                     .c_row = score_row(j),
                                     .visible = sn_visible(&j->mask, SN_COLS, diag, k->n),
                                     .diag = diag};
    SN_K(sn_product_bf16)(f, &scores);
    soften_block(j, w, i0, n, k);
    struct sn_product_bf16 sums = {.rows = n,
                                   .cols = j->e,
                                   .depth = k->n,
                                   .a = rounded(j, w, n, k->n),
                                   .b = packed_values(j, w->sample, kv_head, r, k->k0),
                                   .c = w->o + i0 * j->ldv,
                                   .c_row = j->ldv,
                                   .add = true,
                                   .visible = sn_visible(&j->mask, SN_UPTO, diag, k->n),
                                   .diag = diag};
    SN_K(sn_product_bf16)(f, &sums);
}

/* The chunk's rows of an operand that has query heads of d columns. */
static struct sn_head queries_of(const struct job *j, const struct work *w, const struct sn_mat *x,
                                 int64_t d)
{
    int64_t row = w->sample * j->rows + w->run->row + w->q0;
    return (struct sn_head){x, row, w->queries, w->head * d, d};
}

/*
 * q, and what earlier keys gave. Where that is nothing, m = -inf: the first key shrinks l = 1 to 0,
 * and without one o = 0 and lse = -inf come out.
 */
static void start(const struct job *j, struct work *w)
{
    int64_t padded = sn_round_up(w->queries, j->bf16.set ? j->bf16.set->rows : SN_AR);
    struct sn_head q = queries_of(j, w, &j->a->in[SN_ATTENTION_Q], j->d),
                   o = queries_of(j, w, &j->a->out[SN_ATTENTION_O], j->e);
    if (j->bf16.set)
        sn_attn_pack(&j->bf16, &(struct sn_attn_operand){&q, false, false}, w->line, w->q16);
    else
        sn_head_load(&q, j->a->attr.attention.scale, padded, w->q, j->ld);
    if (j->a->acc[SN_ATTENTION_O] == SN_ADD)
        sn_head_load(&o, 1.0f, padded, w->o, j->ldv);
    else
        memset(w->o, 0, (size_t)(padded * j->ldv) * sizeof(float));
    for (int64_t i = 0; i < w->queries; i++) {
        const float *lse = sn_mat_row(&j->a->out[SN_ATTENTION_LSE], o.first_row + i);
        w->m[i] = j->a->acc[SN_ATTENTION_O] == SN_ADD ? lse[w->head] : -INFINITY;
        w->l[i] = 1;
    }
}

static void finish(const struct job *j, const struct work *w)
{
    struct sn_head o = queries_of(j, w, &j->a->out[SN_ATTENTION_O], j->e);
    for (int64_t i = 0; i < w->queries; i++) {
        float *restrict row = w->o + i * j->ldv;
        float inverse = 1.0f / w->l[i];
#pragma omp simd
        for (int64_t c = 0; c < j->e; c++)
            row[c] *= inverse;
        sn_head_store(&o, i, row);
        float *lse = sn_mat_row(&j->a->out[SN_ATTENTION_LSE], o.first_row + i);
        lse[w->head] = w->m[i] + logf(w->l[i]);
    }
}

/* Head kv_head of sample `sample` of k or v (`in`), those keys. */
static struct sn_head keys_of(const struct job *j, int64_t sample, int64_t kv_head,
                              const struct keys *k, int in)
{
    int64_t row = sample * j->rows + k->run->row + k->k0, d = in == SN_ATTENTION_V ? j->e : j->d;
    return (struct sn_head){&j->a->in[in], row, k->n, kv_head * d, d};
}

static void pack(const struct job *j, struct work *w, const struct keys *keys)
{
    int64_t kv_head = w->head / j->group;
    struct sn_head k = keys_of(j, w->sample, kv_head, keys, SN_ATTENTION_K),
                   v = keys_of(j, w->sample, kv_head, keys, SN_ATTENTION_V);
    int64_t padded = sn_round_up(keys->n, SN_STEP);
    sn_head_load(&k, 1.0f, padded, w->keys, j->ld);
    sn_head_transpose(w->keys, j->ld, keys->n, j->d, w->kt);
    sn_head_load(&v, 1.0f, padded, w->v, j->ldv);
}

/* The keys of a run that the chunk sees. */
static struct sn_key_range seen_of(const struct job *j, const struct work *w,
                                   const struct sn_run *run)
{
    struct sn_queries q = {w->run, w->sample, w->q0, w->queries};
    return sn_keys_seen(&j->mask, &q, run);
}

/* The chunk against those keys of a run that it sees. */
static void pass(const struct job *j, struct work *w, const struct sn_run *run)
{
    struct sn_key_range seen = seen_of(j, w, run);
    for (int64_t k0 = seen.from / j->k_block * j->k_block; k0 < seen.end; k0 += j->k_block) {
        int64_t last = j->bf16.set ? run->n : seen.end; /* packed bf16 is the run's */
        struct keys keys = {run, k0, last - k0 < j->k_block ? last - k0 : j->k_block};
        if (!j->bf16.set)
            pack(j, w, &keys);
        int64_t from = sn_first_query(&j->mask, w->sample, w->run, run, k0);
        int64_t i0 = from > w->q0 ? (from - w->q0) / j->q_block * j->q_block : 0;
        for (; i0 < w->queries; i0 += j->q_block) {
            int64_t n = w->queries - i0 < j->q_block ? w->queries - i0 : j->q_block;
            int64_t query = w->run->first + w->q0 + i0, key = run->first + k0 + keys.n - 1;
            if (sn_keys_are_past(&j->mask, w->sample, query, key))
                break;
            if (j->bf16.set)
                block_bf16(j, w, i0, n, &keys);
            else
                block(j, w, i0, n, &keys);
        }
    }
}

static void chunk(const struct job *j, struct work *w)
{
    bool sees = false;
    for (int r = 0; r < j->keys.count; r++) {
        sees = sees || seen_of(j, w, &j->keys.run[r]).end > 0;
    }
    if (j->a->acc[SN_ATTENTION_O] == SN_ADD && !sees)
        return;
    start(j, w);
    for (int r = 0; r < j->keys.count; r++)
        pass(j, w, &j->keys.run[r]);
    finish(j, w);
}

/* Blocks of the keys of a run. */
static int64_t key_blocks(const struct job *j)
{
    return j->place / j->k_block;
}

/* Block i of all: packed where the last queries see it, which see the most. */
static void pack_bf16(const struct job *j, const struct work *w, int64_t i)
{
    int64_t b = i % key_blocks(j), r = i / key_blocks(j) % j->keys.count;
    int64_t head = i / key_blocks(j) / j->keys.count;
    int64_t sample = head / j->a->attr.attention.kv_heads,
            kv_head = head % j->a->attr.attention.kv_heads;
    struct keys keys = {&j->keys.run[r], b * j->k_block, j->k_block};
    if (!sn_run_sees(&j->mask, &j->queries.run[j->queries.count - 1], keys.run))
        return;
    keys.n = keys.run->n - keys.k0 < keys.n ? keys.run->n - keys.k0 : keys.n;
    struct sn_head k = keys_of(j, sample, kv_head, &keys, SN_ATTENTION_K),
                   v = keys_of(j, sample, kv_head, &keys, SN_ATTENTION_V);
    sn_attn_pack(&j->bf16, &(struct sn_attn_operand){&k, true, false}, w->line,
                 packed_keys(j, sample, kv_head, r, keys.k0));
    sn_attn_pack(&j->bf16, &(struct sn_attn_operand){&v, true, true}, w->line,
                 packed_values(j, sample, kv_head, r, keys.k0));
}

int SN_K(sn_attention)(const struct sn_args *a, int threads)
{
    struct job j = job_of(a, threads);
    const struct sn_bf16_products *set = j.bf16.set;
    j.dropout = sn_attn_dropout_of(a);
    j.packed = a->scratch;
    int64_t heads = j.samples * j.heads, chunks = j.chunks * j.queries.count;
    int64_t to_pack =
        set ? j.samples * a->attr.attention.kv_heads * j.keys.count * key_blocks(&j) : 0;
    struct work sizes;
    int64_t each = layout(&j, a->scratch, &sizes);
#pragma omp parallel num_threads(threads)
    {
        struct work w = {0};
        (void)layout(&j, (float *)a->scratch + shared(&j) + each * omp_get_thread_num(), &w);
        if (set && set->begin)
            set->begin();
#pragma omp for
        for (int64_t i = 0; i < to_pack; i++)
            pack_bf16(&j, &w, i);
            /* Long chunks (those at the end of a sample) first; who takes which changes no bit. */
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < heads * chunks; i++) {
            int64_t c = chunks - 1 - i / heads;
            w.sample = i % heads / j.heads;
            w.head = i % heads % j.heads;
            w.run = &j.queries.run[c / j.chunks];
            w.q0 = c % j.chunks * j.chunk;
            w.queries = w.run->n - w.q0 < j.chunk ? w.run->n - w.q0 : j.chunk;
            chunk(&j, &w);
        }
        if (set && set->end)
            set->end();
    }
    return 0;
}

size_t SN_K(sn_attention_scratch)(const struct sn_args *a, int threads)
{
    struct job j = job_of(a, threads);
    struct work w;
    int64_t floats = shared(&j) + layout(&j, NULL, &w) * threads;
    return (size_t)floats * sizeof(float);
}
