/*
 * attention_dx_bf16.c - gradients of causal attention with products of bf16; the formulas are
 * attention_dx.c's, what is rounded attention_bf16.h's. For a block of queries and one of keys:
 *
 *   s = q k^T      do v^T      p and ds, row by row, in fp32; then in bf16
 *   dv += p^T do   dk += ds^T q   dq += ds k
 *
 * A thread takes a whole kv head of a sample and packs its keys and values once: k for s (columns
 * are keys) and for dq (columns are the head's), v for do v^T. Its query heads pass one after
 * another, block of queries by block, each by all keys that it sees: a block of q and of do is
 * packed once, and dq of no more than a block is in scratch. dk and dv are summed in fp32 over the
 * heads, in each over its blocks of queries in order; dq over the blocks of keys in order: the
 * same bits for any number of threads.
 */
#include "kernels/cpu/attention_bf16.h"
#include "kernels/cpu/attention_gradient.h"

#include <omp.h>

struct job {
    const struct sn_args *a;
    struct sn_attn_bf16 bf16;
    int64_t rows, d, ld, heads, kv_heads, group; /* rows of a sample here */
    int64_t e, ldv;                              /* of v, o and do */
    struct sn_runs queries, keys;
    int64_t samples, place; /* place: keys of scratch for a run, whole blocks */
    int64_t score_row;      /* floats between the rows of a block of scores */
    struct sn_mask mask;
    struct sn_attn_dropout dropout;
};

struct work {
    uint16_t *k, *k_across, *v;              /* a place for each run of keys; packed */
    float *dk, *dv;                          /* the same, x ld and ldv */
    uint16_t *q, *q_across, *g, *g_across;   /* a block of queries, g is do; packed */
    float *dq, *lse, *delta, *o_row, *g_row; /* of a block; of one row */
    float *p, *ds, *factor;                  /* a block of scores; of one row */
    uint16_t *p16, *ds16, *left, *line;      /* rounded; one of them packed */
    int64_t sample, kv_head, head;
};

/* `n` queries or keys of run r of theirs, from the run's row `first` on. */
struct piece {
    const struct sn_run *run;
    int64_t r, first, n;
};

static struct job job_of(const struct sn_args *a)
{
    const struct sn_attr *t = &a->attr;
    struct job j = {.a = a,
                    .rows = sn_rows_per_sample(&t->position),
                    .d = t->attention.head_dim,
                    .e = sn_v_dim(&t->attention),
                    .heads = t->attention.heads,
                    .mask = sn_mask_of(t, &a->in[SN_ATTENTION_DX_STARTS])};
    j.bf16 = sn_attn_bf16_of(a, SN_BACKWARD_BF16);
    j.queries = sn_runs_of(t, t->position.context_rank);
    j.keys = sn_runs_of(t, t->position.key_rank);
    j.place = sn_round_up(j.keys.run[0].n, j.bf16.keys);
    j.kv_heads = t->attention.kv_heads;
    j.ld = sn_attn_stride(j.bf16.wide);
    j.ldv = sn_attn_stride(j.bf16.wide_v);
    j.score_row = j.bf16.keys + SN_VL;
    j.group = t->attention.heads / t->attention.kv_heads;
    j.samples = a->in[SN_ATTENTION_DX_Q].rows / j.rows;
    return j;
}

/* Floats of a thread's scratch. */
static int64_t layout(const struct job *j, float *base, struct work *w)
{
    const struct sn_attn_bf16 *f = &j->bf16;
    int64_t used = 0, keys = j->keys.count * j->place, pairs = f->queries * f->keys;
    int64_t deeper = f->deep > f->deep_v ? f->deep : f->deep_v;
    int64_t deepest = deeper > f->keys ? deeper : f->keys;
    w->k = sn_take_bf16(base, &used, keys * f->deep);
    w->k_across = sn_take_bf16(base, &used, keys * f->wide);
    w->v = sn_take_bf16(base, &used, keys * f->deep_v);
    w->dk = sn_take(base, &used, keys * j->ld);
    w->dv = sn_take(base, &used, keys * j->ldv);
    w->q = sn_take_bf16(base, &used, f->queries * f->deep);
    w->q_across = sn_take_bf16(base, &used, f->queries * f->wide);
    w->g = sn_take_bf16(base, &used, f->queries * f->deep_v);
    w->g_across = sn_take_bf16(base, &used, f->queries * f->wide_v);
    w->dq = sn_take(base, &used, f->queries * j->ld);
    w->lse = sn_take(base, &used, f->queries);
    w->delta = sn_take(base, &used, f->queries);
    w->o_row = sn_take(base, &used, j->e);
    w->g_row = sn_take(base, &used, j->e);
    w->p = sn_take(base, &used, f->queries * j->score_row);
    w->ds = sn_take(base, &used, f->queries * j->score_row);
    w->factor = sn_take(base, &used, sn_attn_factors(f->keys));
    w->p16 = sn_take_bf16(base, &used, pairs);
    w->ds16 = sn_take_bf16(base, &used, pairs);
    w->left = sn_take_bf16(base, &used, pairs);
    w->line = sn_take_bf16(base, &used, SN_BF16_LINES * deepest);
    return used;
}

static int64_t position(const struct piece *p)
{
    return p->run->first + p->first;
}

/* Where the keys of a piece begin in scratch. */
static int64_t place_of(const struct job *j, const struct piece *k)
{
    return k->r * j->place + k->first;
}

/* The rows of a piece, of a query head or a kv head of d columns; `first`: of the sample. */
static struct sn_head rows_of(const struct sn_mat *x, int64_t first, const struct piece *p,
                              int64_t head, int64_t d)
{
    return (struct sn_head){x, first + p->run->row + p->first, p->n, head * d, d};
}

/* Scores and do.v of a block become p and ds, and both are rounded. */
static void block_rows(const struct job *j, struct work *w, const struct piece *q,
                       const struct piece *k)
{
    int64_t whole = sn_bf16_depth(j->bf16.set, k->n);
    for (int64_t i = 0; i < q->n; i++) {
        int64_t visible = sn_keys_upto(&j->mask, w->sample, position(q) + i, position(k), k->n);
        struct sn_attn_row row = {w->sample, w->head, position(q) + i, position(k), visible};
        struct sn_attn_gradient of = {.scale = j->a->attr.attention.scale,
                                      .lse = w->lse[i],
                                      .delta = w->delta[i],
                                      .cap = j->a->attr.attention.cap,
                                      .before =
                                          sn_keys_before(&j->mask, w->sample, row.query, row.key)};
        if (j->dropout.drop > 0) {
            float *factor = sn_attn_dropout_row(&j->dropout, &row, w->factor);
            (void)sn_whole_step(factor, visible, 0.0f);
            of.factor = factor;
        }
        float *p = w->p + i * j->score_row, *ds = w->ds + i * j->score_row;
        sn_attn_gradient_row(&of, visible, p, ds);
        sn_attn_round(p, visible, whole, w->p16 + i * j->bf16.keys);
        sn_attn_round(ds, visible, whole, w->ds16 + i * j->bf16.keys);
    }
    sn_attn_zero_rows(&j->bf16, q->n, w->ds16);
}

/* C += x^T B, x being p or ds of a block. */
static void add_by_key(const struct job *j, struct work *w, uint16_t *x,
                       const struct sn_product_bf16 *product)
{
    const struct sn_attn_bf16 *f = &j->bf16;
    struct sn_mat m = {x, SN_BF16, f->queries, f->keys, f->keys};
    struct sn_head h = {&m, 0, product->depth, 0, product->rows};
    struct sn_product_bf16 by_key = *product;
    sn_attn_pack(f, &(struct sn_attn_operand){&h, false, true}, w->line, w->left);
    by_key.a = sn_attn_strips(f, w->left, sn_bf16_depth(f->set, by_key.depth));
    SN_K(sn_product_bf16)(f, &by_key);
}

/* ds of a block as the left of a product: as it lies, or packed. */
static struct sn_attn_left by_query(const struct job *j, struct work *w, const struct piece *q,
                                    const struct piece *k)
{
    const struct sn_attn_bf16 *f = &j->bf16;
    if (f->set->reads_rows)
        return sn_attn_rows(f, w->ds16, f->keys);
    struct sn_mat m = {w->ds16, SN_BF16, f->queries, f->keys, f->keys};
    struct sn_head h = {&m, 0, q->n, 0, k->n};
    sn_attn_pack(f, &(struct sn_attn_operand){&h, false, false}, w->line, w->left);
    return sn_attn_strips(f, w->left, sn_bf16_depth(f->set, k->n));
}

/* A packed block of queries against one of keys. */
static void block(const struct job *j, struct work *w, const struct piece *q, const struct piece *k)
{
    const struct sn_attn_bf16 *f = &j->bf16;
    int64_t diag = position(q) - position(k), at = place_of(j, k);
    struct sn_product_bf16 scores = {.rows = q->n,
                                     .cols = k->n,
                                     .depth = j->d,
                                     .a = sn_attn_packed(f, w->q, f->deep),
                                     .b = w->k + at * f->deep,
                                     .c = w->p,
                                     .c_row = j->score_row,
                                     .visible = sn_visible(&j->mask, SN_COLS, diag, k->n),
                                     .diag = diag};
    SN_K(sn_product_bf16)(f, &scores);
    scores.depth = j->e;
    scores.a = sn_attn_packed(f, w->g, f->deep_v);
    scores.b = w->v + at * f->deep_v;
    scores.c = w->ds;
    SN_K(sn_product_bf16)(f, &scores);
    block_rows(j, w, q, k);
    struct sn_product_bf16 sums = {.rows = k->n,
                                   .cols = j->e,
                                   .depth = q->n,
                                   .b = w->g_across,
                                   .c = w->dv + at * j->ldv,
                                   .c_row = j->ldv,
                                   .add = true,
                                   .visible = sn_visible(&j->mask, SN_SINCE, diag, k->n),
                                   .diag = diag};
    add_by_key(j, w, w->p16, &sums);
    sums.cols = j->d;
    sums.b = w->q_across;
    sums.c = w->dk + at * j->ld;
    sums.c_row = j->ld;
    add_by_key(j, w, w->ds16, &sums);
    sums.rows = q->n;
    sums.depth = k->n;
    sums.a = by_query(j, w, q, k);
    sums.b = w->k_across + at * f->wide;
    sums.c = w->dq;
    sums.visible = sn_visible(&j->mask, SN_UPTO, diag, k->n);
    SN_K(sn_product_bf16)(f, &sums);
}

/* q and do of a block, packed; lse and delta; dq = 0. */
static void load_queries(const struct job *j, struct work *w, const struct piece *p)
{
    const struct sn_mat *in = j->a->in;
    const struct sn_attn_bf16 *f = &j->bf16;
    int64_t first = w->sample * j->rows;
    struct sn_head q = rows_of(&in[SN_ATTENTION_DX_Q], first, p, w->head, j->d),
                   o = rows_of(&in[SN_ATTENTION_DX_O], first, p, w->head, j->e),
                   g = rows_of(&in[SN_ATTENTION_DX_DO], first, p, w->head, j->e);
    sn_attn_pack(f, &(struct sn_attn_operand){&q, false, false}, w->line, w->q);
    sn_attn_pack(f, &(struct sn_attn_operand){&q, true, true}, w->line, w->q_across);
    sn_attn_pack(f, &(struct sn_attn_operand){&g, false, false}, w->line, w->g);
    sn_attn_pack(f, &(struct sn_attn_operand){&g, true, true}, w->line, w->g_across);
    for (int64_t i = 0; i < p->n; i++) {
        sn_row_load(w->o_row, sn_head_row(&o, i), o.x->dtype, j->e);
        sn_row_load(w->g_row, sn_head_row(&g, i), g.x->dtype, j->e);
        w->delta[i] = SN_K(sn_attention_dot)(w->o_row, w->g_row, j->e);
        w->lse[i] = ((const float *)sn_mat_row(&in[5], q.first_row + i))[w->head];
    }
    memset(w->dq, 0, (size_t)(f->queries * j->ld) * sizeof(float));
}

static void scale_row(const struct job *j, float *restrict row)
{
#pragma omp simd
    for (int64_t c = 0; c < j->d; c++)
        row[c] *= j->a->attr.attention.scale;
}

/* A block that sees none of the keys has dq = 0 here, and adding that is left out. */
static void store_queries(const struct job *j, struct work *w, const struct piece *q, bool sees)
{
    struct sn_head dq = rows_of(&j->a->out[SN_ATTENTION_DX_DQ], w->sample * j->rows, q, w->head,
                                j->d);
    for (int64_t i = 0; i < q->n && (sees || j->a->acc[SN_ATTENTION_DX_DQ] == SN_WRITE); i++) {
        scale_row(j, w->dq + i * j->ld);
        sn_head_put(&dq, i, j->a->acc[SN_ATTENTION_DX_DQ], w->dq + i * j->ld);
    }
}

/* The keys of a run that a block of queries sees. */
static struct sn_key_range seen_of(const struct job *j, const struct work *w, const struct piece *q,
                                   const struct sn_run *run)
{
    struct sn_queries queries = {q->run, w->sample, q->first, q->n};
    return sn_keys_seen(&j->mask, &queries, run);
}

/* Block of queries q, by all keys that it sees. */
static void query_block(const struct job *j, struct work *w, const struct piece *q)
{
    bool sees = false;
    for (int r = 0; r < j->keys.count; r++) {
        sees = sees || seen_of(j, w, q, &j->keys.run[r]).end > 0;
    }
    if (sees)
        load_queries(j, w, q);
    else
        memset(w->dq, 0, (size_t)(q->n * j->ld) * sizeof(float));
    for (int r = 0; r < j->keys.count; r++) {
        const struct sn_run *run = &j->keys.run[r];
        struct sn_key_range seen = seen_of(j, w, q, run);
        struct piece k = {run, r, seen.from / j->bf16.keys * j->bf16.keys, 0};
        for (; k.first < seen.end; k.first += j->bf16.keys) {
            k.n = run->n - k.first < j->bf16.keys ? run->n - k.first : j->bf16.keys;
            block(j, w, q, &k);
        }
    }
    store_queries(j, w, q, sees);
}

/* The keys of the kv head that queries see, packed. */
static void pack_keys(const struct job *j, struct work *w)
{
    const struct sn_attn_bf16 *f = &j->bf16;
    const struct sn_run *last = &j->queries.run[j->queries.count - 1];
    for (int r = 0; r < j->keys.count && sn_run_sees(&j->mask, last, &j->keys.run[r]); r++) {
        struct piece p = {&j->keys.run[r], r, 0, 0};
        for (; p.first < p.run->n; p.first += f->keys) {
            p.n = p.run->n - p.first < f->keys ? p.run->n - p.first : f->keys;
            int64_t at = place_of(j, &p), first = w->sample * j->rows;
            const struct sn_mat *in = j->a->in;
            struct sn_head k = rows_of(&in[SN_ATTENTION_DX_K], first, &p, w->kv_head, j->d),
                           v = rows_of(&in[SN_ATTENTION_DX_V], first, &p, w->kv_head, j->e);
            sn_attn_pack(f, &(struct sn_attn_operand){&k, true, false}, w->line,
                         w->k + at * f->deep);
            sn_attn_pack(f, &(struct sn_attn_operand){&k, true, true}, w->line,
                         w->k_across + at * f->wide);
            sn_attn_pack(f, &(struct sn_attn_operand){&v, true, false}, w->line,
                         w->v + at * f->deep_v);
        }
    }
}

static void store_keys(const struct job *j, struct work *w)
{
    for (int r = 0; r < j->keys.count; r++) {
        struct piece p = {&j->keys.run[r], r, 0, j->keys.run[r].n};
        const struct sn_mat *out = j->a->out;
        int64_t first = w->sample * j->rows;
        struct sn_head dk = rows_of(&out[SN_ATTENTION_DX_DK], first, &p, w->kv_head, j->d),
                       dv = rows_of(&out[SN_ATTENTION_DX_DV], first, &p, w->kv_head, j->e);
        for (int64_t i = 0; i < dk.rows; i++) {
            int64_t at = place_of(j, &p) + i;
            scale_row(j, w->dk + at * j->ld);
            sn_head_put(&dk, i, j->a->acc[SN_ATTENTION_DX_DK], w->dk + at * j->ld);
            sn_head_put(&dv, i, j->a->acc[SN_ATTENTION_DX_DV], w->dv + at * j->ldv);
        }
    }
}

static void kv_head(const struct job *j, struct work *w)
{
    size_t keys = (size_t)(j->keys.count * j->place);
    memset(w->dk, 0, keys * (size_t)j->ld * sizeof(float));
    memset(w->dv, 0, keys * (size_t)j->ldv * sizeof(float));
    pack_keys(j, w);
    for (w->head = w->kv_head * j->group; w->head < (w->kv_head + 1) * j->group; w->head++) {
        for (int r = 0; r < j->queries.count; r++) {
            struct piece q = {&j->queries.run[r], r, 0, 0};
            for (; q.first < q.run->n; q.first += j->bf16.queries) {
                int64_t left = q.run->n - q.first;
                q.n = left < j->bf16.queries ? left : j->bf16.queries;
                query_block(j, w, &q);
            }
        }
    }
    store_keys(j, w);
}

int SN_K(sn_attention_dx_bf16)(const struct sn_args *a, int threads)
{
    struct job j = job_of(a);
    j.dropout = sn_attn_dropout_of(a);
    struct work sizes;
    int64_t each = layout(&j, a->scratch, &sizes);
#pragma omp parallel num_threads(threads)
    {
        struct work w = {0};
        (void)layout(&j, (float *)a->scratch + each * omp_get_thread_num(), &w);
        if (j.bf16.set->begin)
            j.bf16.set->begin();
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < j.samples * j.kv_heads; i++) {
            w.sample = i / j.kv_heads;
            w.kv_head = i % j.kv_heads;
            kv_head(&j, &w);
        }
        if (j.bf16.set->end)
            j.bf16.set->end();
    }
    return 0;
}

size_t SN_K(sn_attention_dx_bf16_scratch)(const struct sn_args *a, int threads)
{
    struct job j = job_of(a);
    struct work w;
    return (size_t)layout(&j, NULL, &w) * sizeof(float) * (size_t)threads;
}
