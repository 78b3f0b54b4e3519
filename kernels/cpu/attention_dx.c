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
 * five heads of one sample in fp32 (S (3 d + 2 e) floats, e of a head of v) and a few blocks; each run has its own place
 * there, whole blocks long, because products spill into the rows that round it up.
 *
 * Where products are of bf16, attention_dx_bf16.c computes the same.
 */
#include "kernels/cpu/attention_bf16.h"
#include "kernels/cpu/attention_gradient.h"

#include <omp.h>

struct job {
    const struct sn_args *a;
    int64_t rows, d, ld, heads, kv_heads, group; /* rows of a sample here */
    int64_t e, ldv;                              /* of v, o and do */
    struct sn_runs queries, keys;
    int64_t samples, place; /* place: rows of scratch for a run */
    struct sn_mask mask;
    struct sn_attn_dropout dropout;
};

struct work {
    float *q, *g, *dq, *dk, *dv; /* a place for each run, x ld or ldv; q is scaled, g is do */
    float *lse, *delta;          /* a place for each run */
    float *k, *kt, *vt;          /* one block: rows, transposed panels */
    float *p, *ds, *factor;      /* SN_BQ x SN_KEYS twice; SN_BK */
    int64_t sample, kv_head, head;
};

/* `n` queries or keys of a run from its row `first` on, and the run's place in scratch. */
struct piece {
    const struct sn_run *run;
    int64_t place, first, n;
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
    j.queries = sn_runs_of(t, t->position.context_rank);
    j.keys = sn_runs_of(t, t->position.key_rank);
    j.place = sn_round_up(j.queries.run[0].n, SN_BK);
    j.kv_heads = t->attention.kv_heads;
    j.ld = sn_head_stride(j.d);
    j.ldv = sn_head_stride(j.e);
    j.group = t->attention.heads / t->attention.kv_heads;
    j.samples = a->in[SN_ATTENTION_DX_Q].rows / j.rows;
    return j;
}

static int64_t layout(const struct job *j, float *base, struct work *w)
{
    int64_t used = 0, rows = j->queries.count * j->place, wider = j->ld > j->ldv ? j->ld : j->ldv;
    w->q = sn_take(base, &used, rows * j->ld);
    w->g = sn_take(base, &used, rows * j->ldv);
    w->dq = sn_take(base, &used, rows * wider); /* where o comes by first */
    w->dk = sn_take(base, &used, rows * j->ld);
    w->dv = sn_take(base, &used, rows * j->ldv);
    w->lse = sn_take(base, &used, rows);
    w->delta = sn_take(base, &used, rows);
    w->k = sn_take(base, &used, SN_BK * wider); /* and v */
    w->kt = sn_take(base, &used, SN_BK * j->d);
    w->vt = sn_take(base, &used, SN_BK * j->e);
    w->p = sn_take(base, &used, SN_BQ * SN_KEYS);
    w->ds = sn_take(base, &used, SN_BQ * SN_KEYS);
    w->factor = sn_take(base, &used, sn_attn_factors(SN_BK));
    return used;
}

static int64_t position(const struct piece *p)
{
    return p->run->first + p->first;
}

static void block_rows(const struct job *j, struct work *w, const struct piece *q,
                       const struct piece *k)
{
    for (int64_t i = 0; i < q->n; i++) {
        int64_t visible = sn_keys_upto(&j->mask, w->sample, position(q) + i, position(k), k->n);
        struct sn_attn_row row = {w->sample, w->head, position(q) + i, position(k), visible};
        float *factor = NULL;
        if (j->dropout.drop > 0) {
            factor = sn_attn_dropout_row(&j->dropout, &row, w->factor);
            (void)sn_whole_step(factor, visible, 0.0f);
        }
        int64_t at = i * SN_KEYS;
        struct sn_attn_gradient of = {.scale = 1.0f, /* q is scaled */
                                      .lse = w->lse[q->place + q->first + i],
                                      .delta = w->delta[q->place + q->first + i],
                                      .cap = j->a->attr.attention.cap,
                                      .factor = factor,
                                      .before =
                                          sn_keys_before(&j->mask, w->sample, row.query, row.key)};
        sn_attn_gradient_row(&of, visible, w->p + at, w->ds + at);
        sn_clear_rest(&j->mask, w->p + at, visible, k->n);
        sn_clear_rest(&j->mask, w->ds + at, visible, k->n);
    }
}

/* Queries against a packed block of keys. */
static void block(const struct job *j, struct work *w, const struct piece *q, const struct piece *k)
{
    int64_t i0 = q->place + q->first, k0 = k->place + k->first, n = q->n;
    int64_t diag = position(q) - position(k);
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
    scores.depth = j->e;
    scores.a = w->g + i0 * j->ldv;
    scores.a_row = j->ldv;
    scores.b = w->vt;
    scores.b_panel = j->e * SN_PANEL;
    scores.c = w->ds;
    SN_K(sn_product)(&scores);
    block_rows(j, w, q, k);
    struct sn_product by_key = {.rows = k->n,
                                .cols = j->e,
                                .depth = n,
                                .a = w->p,
                                .a_row = 1,
                                .a_step = SN_KEYS,
                                .b = w->g + i0 * j->ldv,
                                .b_step = j->ldv,
                                .b_panel = SN_PANEL,
                                .c = w->dv + k0 * j->ldv,
                                .c_row = j->ldv,
                                .add = true,
                                .visible = sn_visible(&j->mask, SN_SINCE, diag, k->n),
                                .diag = diag};
    SN_K(sn_product)(&by_key);
    by_key.cols = j->d;
    by_key.a = w->ds;
    by_key.b = w->q + i0 * j->ld;
    by_key.b_step = j->ld;
    by_key.c = w->dk + k0 * j->ld;
    by_key.c_row = j->ld;
    SN_K(sn_product)(&by_key);
    struct sn_product by_query = {.rows = n,
                                  .cols = j->d,
                                  .depth = k->n,
                                  .a = w->ds,
                                  .a_row = SN_KEYS,
                                  .a_step = 1,
                                  .b = w->k,
                                  .b_step = j->ld,
                                  .b_panel = SN_PANEL,
                                  .c = w->dq + i0 * j->ld,
                                  .c_row = j->ld,
                                  .add = true,
                                  .visible = sn_visible(&j->mask, SN_UPTO, diag, k->n),
                                  .diag = diag};
    SN_K(sn_product)(&by_query);
}

/* The rows of a run, of a query head or a kv head of d columns. */
static struct sn_head rows_of(const struct sn_mat *x, int64_t first, const struct sn_run *run,
                              int64_t head, int64_t d)
{
    return (struct sn_head){x, first + run->row, run->n, head * d, d};
}

/* q (scaled), do, lse and delta of a run of the current head. */
static void load_run(const struct job *j, struct work *w, const struct sn_run *run, int64_t place)
{
    const struct sn_mat *in = j->a->in;
    int64_t first = w->sample * j->rows, head = w->head, padded = sn_round_up(run->n, SN_AR);
    struct sn_head q = rows_of(&in[SN_ATTENTION_DX_Q], first, run, head, j->d),
                   o = rows_of(&in[SN_ATTENTION_DX_O], first, run, head, j->e),
                   g = rows_of(&in[SN_ATTENTION_DX_DO], first, run, head, j->e);
    float *sums = w->dq + place * (j->ld > j->ldv ? j->ld : j->ldv), *do_ = w->g + place * j->ldv;
    sn_head_load(&q, j->a->attr.attention.scale, padded, w->q + place * j->ld, j->ld);
    sn_head_load(&g, 1.0f, padded, do_, j->ldv);
    sn_head_load(&o, 1.0f, padded, sums, j->ldv);
    for (int64_t i = 0; i < run->n; i++) {
        w->delta[place + i] = SN_K(sn_attention_dot)(sums + i * j->ldv, do_ + i * j->ldv, j->e);
        w->lse[place + i] = ((const float *)sn_mat_row(&in[5], q.first_row + i))[w->head];
    }
}

static void pack(const struct job *j, struct work *w, const struct piece *keys)
{
    int64_t row = w->sample * j->rows + keys->run->row + keys->first;
    struct sn_head k = {&j->a->in[SN_ATTENTION_DX_K], row, keys->n, w->kv_head * j->d, j->d},
                   v = {&j->a->in[SN_ATTENTION_DX_V], row, keys->n, w->kv_head * j->e, j->e};
    int64_t padded = sn_round_up(keys->n, SN_STEP);
    sn_head_load(&v, 1.0f, padded, w->k, j->ldv);
    sn_head_transpose(w->k, j->ldv, keys->n, j->e, w->vt);
    sn_head_load(&k, 1.0f, padded, w->k, j->ld);
    sn_head_transpose(w->k, j->ld, keys->n, j->d, w->kt);
}

/* All queries of the current head that see a run of keys, against it. */
static void pass(const struct job *j, struct work *w, int r)
{
    const struct sn_run *run = &j->keys.run[r];
    for (int64_t k0 = 0; k0 < run->n; k0 += SN_BK) {
        struct piece keys = {run, r * j->place, k0, run->n - k0 < SN_BK ? run->n - k0 : SN_BK};
        pack(j, w, &keys);
        for (int i = 0; i < j->queries.count; i++) {
            struct piece q = {&j->queries.run[i], i * j->place, 0, 0};
            int64_t end = sn_run_sees(&j->mask, q.run, run) ? q.run->n : 0;
            int64_t from = sn_first_query(&j->mask, w->sample, q.run, run, k0);
            for (q.first = from / SN_BQ * SN_BQ; q.first < end; q.first += SN_BQ) {
                q.n = end - q.first < SN_BQ ? end - q.first : SN_BQ;
                int64_t last = position(&keys) + keys.n - 1;
                if (sn_keys_are_past(&j->mask, w->sample, position(&q), last))
                    break;
                block(j, w, &q, &keys);
            }
        }
    }
}

/* A run that sees none of the keys has dq = 0 here, and adding that is left out. */
static void store_run(const struct job *j, struct work *w, const struct sn_run *run, int64_t place)
{
    enum sn_acc acc = j->a->acc[SN_ATTENTION_DX_DQ];
    struct sn_head dq = rows_of(&j->a->out[SN_ATTENTION_DX_DQ], w->sample * j->rows, run, w->head,
                                j->d);
    if (acc == SN_ADD && !sn_run_sees(&j->mask, run, &j->keys.run[0]))
        return;
    for (int64_t i = 0; i < run->n; i++) {
        float *restrict row = w->dq + (place + i) * j->ld;
#pragma omp simd
        for (int64_t c = 0; c < j->d; c++)
            row[c] *= j->a->attr.attention.scale;
        sn_head_put(&dq, i, acc, row);
    }
}

static void query_head(const struct job *j, struct work *w)
{
    const struct sn_runs *queries = &j->queries, *keys = &j->keys;
    for (int r = 0; r < queries->count; r++) {
        const struct sn_run *run = &queries->run[r];
        if (sn_run_sees(&j->mask, run, &keys->run[0]))
            load_run(j, w, run, r * j->place);
        size_t bytes = (size_t)(sn_round_up(run->n, SN_AR) * j->ld) * sizeof(float);
        memset(w->dq + r * j->place * j->ld, 0, bytes);
    }
    for (int r = 0; r < keys->count; r++)
        if (sn_run_sees(&j->mask, &queries->run[queries->count - 1], &keys->run[r]))
            pass(j, w, r);
    for (int r = 0; r < queries->count; r++)
        store_run(j, w, &queries->run[r], r * j->place);
}

static void kv_head(const struct job *j, struct work *w)
{
    size_t rows = (size_t)(j->keys.count * j->place);
    memset(w->dk, 0, rows * (size_t)j->ld * sizeof(float));
    memset(w->dv, 0, rows * (size_t)j->ldv * sizeof(float));
    for (w->head = w->kv_head * j->group; w->head < (w->kv_head + 1) * j->group; w->head++)
        query_head(j, w);
    for (int r = 0; r < j->keys.count; r++) {
        const struct sn_mat *out = j->a->out;
        const struct sn_run *run = &j->keys.run[r];
        int64_t first = w->sample * j->rows;
        struct sn_head dk = rows_of(&out[SN_ATTENTION_DX_DK], first, run, w->kv_head, j->d),
                       dv = rows_of(&out[SN_ATTENTION_DX_DV], first, run, w->kv_head, j->e);
        for (int64_t i = 0; i < dk.rows; i++) {
            sn_head_put(&dk, i, j->a->acc[SN_ATTENTION_DX_DK], w->dk + (r * j->place + i) * j->ld);
            sn_head_put(&dv, i, j->a->acc[SN_ATTENTION_DX_DV], w->dv + (r * j->place + i) * j->ldv);
        }
    }
}

int SN_K(sn_attention_dx)(const struct sn_args *a, int threads)
{
    if (sn_attn_bf16_of(a, SN_BACKWARD_BF16).set)
        return SN_K(sn_attention_dx_bf16)(a, threads);
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
    if (sn_attn_bf16_of(a, SN_BACKWARD_BF16).set)
        return SN_K(sn_attention_dx_bf16_scratch)(a, threads);
    struct job j = job_of(a);
    struct work w;
    return (size_t)layout(&j, NULL, &w) * sizeof(float) * (size_t)threads;
}
