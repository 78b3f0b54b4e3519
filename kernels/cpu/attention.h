/*
 * attention.h - what the forward and the backward of ATTENTION share: block sizes, loading of
 * heads into fp32 scratch, products of blocks that skip what the causal mask hides, dropout.
 *
 * Runs: the rows of one sample on one context rank are one or two runs of consecutive positions.
 * Runs of queries and of keys are cut from the sample at the same places, so two of them are the
 * same positions, or the one lies wholly before the other: the mask needs care only inside a run
 * or, with prefixes, where keys lie behind queries.
 *
 * Blocks: BQ queries of a run x BK keys of a run. With diag = (position of the first query) - (that
 * of the first key), query i of a block sees its keys j <= i + diag. Either diag is a multiple of
 * BQ (the same run), which the rounding of rows and keys to SN_STEP relies on, or all is seen. With
 * prefixes the products leave out nothing of a block: what a query does not see is zero in p and ds.
 */
#ifndef SN_ATTENTION_H
#define SN_ATTENTION_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/tile.h"
#include "kernels/dropout.h"
#include "kernels/mask.h"
#include "kernels/position.h"
#include "kernels/round.h"

enum {
    SN_BQ = 64,
    SN_BK = 128,
    SN_AR = 8,                        /* rows that a product takes at a time */
    SN_AV = SN_VL == 16 ? 4 : 2,      /* and its vectors */
    SN_PANEL = SN_AV * SN_VL,         /* columns of a panel of B */
    SN_KEYS = SN_BK + SN_VL,          /* row stride of a block of scores */
    SN_STEP = SN_VL == 4 ? 8 : SN_VL, /* whole vectors, and whole strips of SN_AR */
};

/* Which part of a product the mask leaves. */
enum sn_visible {
    SN_ALL,
    SN_COLS,  /* rows are queries, columns keys: columns up to the diagonal */
    SN_UPTO,  /* rows are queries, depth keys: depth up to the diagonal */
    SN_SINCE, /* rows are keys, depth queries: depth from the diagonal on */
};

/* C[rows, cols] (+)= A[rows, depth] B[depth, cols]; rows are rounded up to SN_AR, cols to SN_VL. */
struct sn_product {
    int64_t rows, cols, depth;
    const float *a;
    int64_t a_row, a_step;
    const float *b;
    int64_t b_step, b_panel; /* distances of rows, and of panels of SN_PANEL columns */
    float *c;
    int64_t c_row;
    bool add;
    enum sn_visible visible;
    int64_t diag;
};
void SN_K(sn_product)(const struct sn_product *p);
float SN_K(sn_attention_dot)(const float *a, const float *b, int64_t n);

/* The mask `partial` where it hides something of rows x keys at `diag`, none elsewhere. */
static inline enum sn_visible sn_visible(const struct sn_mask *m, enum sn_visible partial,
                                         int64_t diag, int64_t keys)
{
    return diag >= keys - 1 || sn_mask_has_prefix(m) ? SN_ALL : partial;
}

enum { SN_RUNS = 2 }; /* of one rank, at most */

/* Consecutive positions from `first` on: `n` rows of each sample, beginning with its row `row`. */
struct sn_run {
    int64_t row, n, first;
};

/* The runs of context rank k, all of the same length, positions increasing. */
struct sn_runs {
    struct sn_run run[SN_RUNS];
    int count;
};

static inline struct sn_runs sn_runs_of(const struct sn_attr *a, int k)
{
    struct sn_runs r = {.count = a->position.context > 1 && a->position.zigzag ? 2 : 1};
    int64_t n = sn_rows_per_sample(&a->position) / r.count;
    for (int i = 0; i < r.count; i++)
        r.run[i] = (struct sn_run){i * n, n, sn_position(&a->position, k, i * n)};
    return r;
}

/* May queries of run q see keys of run k at all? Then from row sn_first_query() on, for keys from
 * row k0 of their run on. */
static inline bool sn_run_sees(const struct sn_mask *m, const struct sn_run *q,
                               const struct sn_run *k)
{
    return q->first >= k->first || sn_mask_has_prefix(m);
}

static inline int64_t sn_first_query(const struct sn_mask *m, int64_t sample,
                                     const struct sn_run *q, const struct sn_run *k, int64_t k0)
{
    int64_t low = 0, high = q->first == k->first ? k0 : q->first > k->first ? 0 : q->n;
    while (sn_mask_has_prefix(m) && low < high) { /* rows before low see none of them */
        int64_t middle = low + (high - low) / 2;
        if (sn_mask_last(m, sample, q->first + middle) >= k->first + k0)
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

/* `n` queries of a run from its row `first` on, of a sample here. */
struct sn_queries {
    const struct sn_run *run;
    int64_t sample, first, n;
};

/* The keys of a run that any of them sees: its rows from .. end - 1; 0 .. - 1: none. */
struct sn_key_range {
    int64_t from, end;
};

static inline struct sn_key_range sn_keys_seen(const struct sn_mask *m, const struct sn_queries *q,
                                               const struct sn_run *k)
{
    int64_t at = q->run->first + q->first;
    int64_t end = sn_mask_last(m, q->sample, at + q->n - 1) + 1 - k->first;
    int64_t from = sn_mask_first(m, q->sample, at) - k->first;
    struct sn_key_range seen = {from > 0 ? from : 0, end < k->n ? end : k->n};
    return seen.from < seen.end ? seen : (struct sn_key_range){0, 0};
}

/* Are keys up to position `last` all before those that queries from position p on see? */
static inline bool sn_keys_are_past(const struct sn_mask *m, int64_t sample, int64_t p,
                                    int64_t last)
{
    return sn_mask_first(m, sample, p) > last;
}

/* How many keys from position `key` on are before the first that the query at p sees. */
static inline int64_t sn_keys_before(const struct sn_mask *m, int64_t sample, int64_t p,
                                     int64_t key)
{
    int64_t before = sn_mask_first(m, sample, p) - key;
    return before > 0 ? before : 0;
}

/* How many of n keys from position `key` on are not behind the last that it sees. */
static inline int64_t sn_keys_upto(const struct sn_mask *m, int64_t sample, int64_t p, int64_t key,
                                   int64_t n)
{
    int64_t upto = sn_mask_last(m, sample, p) + 1 - key;
    return upto < 0 ? 0 : upto < n ? upto : n;
}

/* What a head of a sample is: `rows` rows from first_row on, d columns from first_col on. */
struct sn_head {
    const struct sn_mat *x;
    int64_t first_row, rows, first_col, d;
};

static inline char *sn_head_row(const struct sn_head *h, int64_t r)
{
    return (char *)sn_mat_row(h->x, h->first_row + r) +
           (size_t)h->first_col * sn_dtype_size(h->x->dtype);
}

/* Row stride of a head in scratch: whole vectors, off the powers of two when there are panels. */
static inline int64_t sn_head_stride(int64_t d)
{
    int64_t whole = sn_round_up(d, SN_VL);
    return whole <= SN_PANEL ? whole : whole + SN_VL;
}

/* To fp32 times `scale`, rows at stride `ld`; columns and rows (up to `padded`) beyond are zero. */
static inline void sn_head_load(const struct sn_head *h, float scale, int64_t padded, float *out,
                                int64_t ld)
{
    for (int64_t r = 0; r < h->rows; r++, out += ld) {
        sn_row_load(out, sn_head_row(h, r), h->x->dtype, h->d);
        if (scale != 1.0f) {
#pragma omp simd
            for (int64_t c = 0; c < h->d; c++)
                out[c] *= scale;
        }
        if (ld > h->d)
            memset(out + h->d, 0, (size_t)(ld - h->d) * sizeof(float));
    }
    if (padded > h->rows)
        memset(out, 0, (size_t)((padded - h->rows) * ld) * sizeof(float));
}

static inline void sn_head_store(const struct sn_head *h, int64_t r, const float *in)
{
    sn_row_store(sn_head_row(h, r), h->x->dtype, in, h->d);
}

/* Row r of the head becomes, or grows by, `in`. */
static inline void sn_head_put(const struct sn_head *h, int64_t r, enum sn_acc acc, float *in)
{
    float old[64];
    const char *row = sn_head_row(h, r);
    for (int64_t c = 0; acc == SN_ADD && c < h->d; c += 64) {
        int64_t n = h->d - c < 64 ? h->d - c : 64;
        sn_row_load(old, row + (size_t)c * sn_dtype_size(h->x->dtype), h->x->dtype, n);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            in[c + i] += old[i];
    }
    sn_head_store(h, r, in);
}

/* Rows at stride ld, transposed into panels: element (c, key) of a panel at [c][key]. Rows are
 * read up to a whole SN_STEP: load them padded so. */
static inline void sn_head_transpose(const float *in, int64_t ld, int64_t rows, int64_t d,
                                     float *out)
{
    rows = sn_round_up(rows, SN_STEP);
    for (int64_t key = 0; key < rows; key += SN_PANEL, out += d * SN_PANEL) {
        int64_t n = rows - key < SN_PANEL ? rows - key : SN_PANEL;
        sn_transpose(in + key * ld, ld, n, d, out, SN_PANEL);
    }
}

/* The keys of a block that are not beyond a query, rounded up to SN_STEP; those beyond get `fill`. */
static inline int64_t sn_whole_step(float *row, int64_t visible, float fill)
{
    int64_t whole = (visible + SN_STEP - 1) / SN_STEP * SN_STEP;
    for (int64_t k = visible; k < whole; k++)
        row[k] = fill;
    return whole;
}

/* With prefixes products read all n keys of a row: zeros behind what sn_whole_step() filled. */
static inline void sn_clear_rest(const struct sn_mask *m, float *row, int64_t visible, int64_t n)
{
    int64_t whole = sn_round_up(visible, SN_STEP);
    if (sn_mask_has_prefix(m) && whole < n)
        memset(row + whole, 0, (size_t)(n - whole) * sizeof(*row));
}

/* A row of zeros, where the query sees none of them. */
static inline void sn_clear_step(float *row, int64_t visible)
{
    memset(row, 0, (size_t)sn_round_up(visible, SN_STEP) * sizeof(*row));
}

/* The mask of one ATTENTION operation in one micro-batch. */
struct sn_attn_dropout {
    uint64_t key;
    uint32_t site;
    float drop, scale;
    int64_t first_sample, head0, seq;
};

static inline struct sn_attn_dropout sn_attn_dropout_of(const struct sn_args *a)
{
    struct sn_attn_dropout m = {.site = a->attr.random.site, .drop = a->attr.random.drop};
    if (m.drop > 0) {
        m.first_sample = a->scalars->first_sample;
        m.head0 = a->attr.attention.head0;
        m.seq = a->attr.position.seq;
        m.key = sn_dropout_key(a->scalars->seed, a->scalars->step);
        m.scale = 1.0f / (1.0f - m.drop);
    }
    return m;
}

/* A query and the keys that it meets: the sample and head here, positions in the whole sample. */
struct sn_attn_row {
    int64_t sample, head, query, key, keys;
};

/* A row of factors needs room for the groups of four that it begins and ends in, and, to be filled
 * up (sn_whole_step), for a whole step beyond. */
static inline int64_t sn_attn_factors(int64_t keys)
{
    return keys + 3 + SN_STEP;
}

/* Of the row's elements (dropout.h); returns the first of them, in `room`. */
static inline float *sn_attn_dropout_row(const struct sn_attn_dropout *m,
                                         const struct sn_attn_row *r, float *room)
{
    const uint64_t key = m->key;
    const uint32_t site = m->site;
    const float drop = m->drop, scale = m->scale;
    int64_t sample = m->first_sample + r->sample;
    int64_t first = ((m->head0 + r->head) * m->seq + r->query) * m->seq + r->key;
    int64_t group = first / 4, groups = (first + r->keys + 3) / 4 - group;
#pragma omp simd
    for (int64_t j = 0; j < groups; j++) {
        struct sn_philox w = sn_dropout_words(key, site, sample, group + j);
        room[4 * j] = sn_dropout_factor(w.v[0], drop, scale);
        room[4 * j + 1] = sn_dropout_factor(w.v[1], drop, scale);
        room[4 * j + 2] = sn_dropout_factor(w.v[2], drop, scale);
        room[4 * j + 3] = sn_dropout_factor(w.v[3], drop, scale);
    }
    return room + first % 4;
}

/* The next piece of a thread's scratch, on a cache line of its own;
 * without a base, its size only. */
static inline float *sn_take(float *base, int64_t *used, int64_t n)
{
    int64_t at = *used;
    *used += sn_round_up(n, 16);
    return base ? base + at : NULL;
}

#endif
