/*
 * ATTENTION and ATTENTION_DX against double loops that hold the whole matrix of scores.
 *
 * usage: test_attention [TYPES]: shapes and integers in those types alone (bf16,fp16)
 */
#include "tests/lib/attention_ref.h"

static struct kt prepare(const struct attn *p, enum sn_dtype t, double magnitude)
{
    struct kt k = {.magnitude = magnitude};
    int64_t rows = p->seq * p->samples;
    kt_in(&k, 0, (struct kt_shape){t, rows, p->heads * p->d, p->pad});
    kt_in(&k, 1, (struct kt_shape){t, rows, p->kv_heads * p->d, p->pad});
    kt_in(&k, 2, (struct kt_shape){t, rows, p->kv_heads * attn_e(p), p->pad});
    k.a.attr = (struct sn_attr){.attention.heads = p->heads,
                                .attention.kv_heads = p->kv_heads,
                                .attention.head_dim = p->d,
                                .attention.v_dim = p->e,
                                .position.seq = p->seq,
                                .random.site = SITE,
                                .random.drop = p->drop,
                                .attention.scale = 1.0f / sqrtf((float)p->d),
                                .attention.head0 = p->head0,
                                .attention.window = p->window,
                                .attention.cap = p->cap};
    k.scalars = (struct sn_scalars){.seed = SEED, .step = STEP, .first_sample = FIRST_SAMPLE};
    return k;
}

static bool forward_case(const struct attn *p, enum sn_dtype t)
{
    struct kt k = prepare(p, t, 1.0);
    int64_t rows = p->seq * p->samples;
    kt_out(&k, 0, (struct kt_shape){t, rows, p->heads * attn_e(p), p->pad}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_F32, rows, p->heads, 0}, SN_WRITE);
    head_starts(&k, SN_ATTENTION_STARTS, p);
    double *o = kt_ref(&k, 0), *lse = kt_ref(&k, 1);
    struct head h;
    double *memory = head_alloc(&h, p);
    for (int64_t n = 0; n < p->samples; n++)
        for (int64_t head = 0; head < p->heads; head++) {
            int64_t kv = head * p->kv_heads / p->heads;
            head_get(h.q, &k.a.in[0], p->seq, n, head, h.d);
            head_get(h.k, &k.a.in[1], p->seq, n, kv, h.d);
            head_get(h.v, &k.a.in[2], p->seq, n, kv, h.e);
            head_mask(&h, p, n, head);
            head_forward(&h, (double)k.a.attr.attention.scale);
            for (int64_t i = 0; i < p->seq; i++) {
                int64_t row = n * p->seq + i;
                lse[row * p->heads + head] = h.lse[i];
                memcpy(o + (row * p->heads + head) * h.e, h.o + i * h.e,
                       (size_t)h.e * sizeof(double));
            }
        }
    bool good = kt_check(&k, SN_OP_ATTENTION, 2e-6);
    free(memory);
    kt_free(&k);
    return good;
}

/* Rows of d columns. */
static void put_rows(double *ref, const double *from, int64_t seq, int64_t sample, int64_t head,
                     int64_t heads, int64_t d)
{
    for (int64_t i = 0; i < seq; i++)
        for (int64_t c = 0; c < d; c++)
            ref[((sample * seq + i) * heads + head) * d + c] += from[i * d + c];
}

/* Inputs o and lse of the backward: the reference's, rounded to storage. */
static void give(struct kt *k, const struct head *h, int64_t sample, int64_t head)
{
    for (int64_t i = 0; i < h->s; i++) {
        kt_set(&k->a.in[5], sample * h->s + i, head, h->lse[i]);
        for (int64_t c = 0; c < h->e; c++)
            kt_set(&k->a.in[3], sample * h->s + i, head * h->e + c, h->o[i * h->e + c]);
    }
}

/*
 * Tolerance: gradients are sums over up to S keys or queries of terms of size up to 1, in fp32;
 * 1e-5 of magnitude 1 leaves a factor of four. o enters rounded to storage, and delta with it:
 * the reference rounds it too.
 */
static bool backward_case(const struct attn *p, enum sn_dtype t)
{
    struct kt k = prepare(p, t, 1.0);
    int64_t rows = p->seq * p->samples, o_cols = p->heads * attn_e(p);
    kt_in(&k, 3, (struct kt_shape){t, rows, o_cols, p->pad});
    kt_in(&k, 4, (struct kt_shape){t, rows, o_cols, p->pad});
    kt_in(&k, 5, (struct kt_shape){SN_F32, rows, p->heads, 0});
    head_starts(&k, SN_ATTENTION_DX_STARTS, p);
    for (int o = 0; o < 3; o++)
        kt_out(&k, o, (struct kt_shape){t, rows, k.a.in[o].cols, p->pad}, SN_WRITE);
    double *dq = kt_ref(&k, 0), *dk = kt_ref(&k, 1), *dv = kt_ref(&k, 2);
    struct head h;
    double *memory = head_alloc(&h, p);
    for (int64_t n = 0; n < p->samples; n++)
        for (int64_t head = 0; head < p->heads; head++) {
            int64_t kv = head * p->kv_heads / p->heads;
            head_get(h.q, &k.a.in[0], p->seq, n, head, h.d);
            head_get(h.k, &k.a.in[1], p->seq, n, kv, h.d);
            head_get(h.v, &k.a.in[2], p->seq, n, kv, h.e);
            head_get(h.go, &k.a.in[4], p->seq, n, head, h.e);
            head_mask(&h, p, n, head);
            head_forward(&h, (double)k.a.attr.attention.scale);
            give(&k, &h, n, head);
            head_get(h.o, &k.a.in[3], p->seq, n, head, h.e);
            head_clear_gradients(&h);
            head_backward(&h, (double)k.a.attr.attention.scale);
            put_rows(dq, h.dq, p->seq, n, head, p->heads, h.d);
            put_rows(dk, h.dk, p->seq, n, kv, p->kv_heads, h.d);
            put_rows(dv, h.dv, p->seq, n, kv, p->kv_heads, h.e);
        }
    bool good = kt_check(&k, SN_OP_ATTENTION_DX, 1e-5);
    free(memory);
    kt_free(&k);
    return good;
}

/* Blocks are 64 queries by 128 keys, panels 64, 16 or 8 wide. */
static const struct attn cases[] = {
    {1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0},
    {1, 3, 2, 1, 64, 5, 0, 0, 0, 0, 0, 0, 0},
    {7, 2, 3, 3, 5, 0, 0, 0, 0, 0, 0, 0, 0},
    {64, 1, 2, 2, 64, 0, 0, 0, 0, 0, 0, 0, 0},
    {128, 1, 1, 1, 128, 64, 0, 0, 0, 0, 0, 0, 0},
    {100, 2, 4, 2, 16, 16, 0, 0, 0, 0, 0, 0, 0},
    {257, 1, 2, 1, 80, 3, 0, 0, 0, 0, 0, 0, 0},
    {130, 1, 6, 2, 48, 0, 0, 0, 0, 0, 0, 0, 0},
    {63, 2, 1, 1, 96, 1, 0, 0, 0, 0, 0, 0, 0},
    {640, 1, 1, 1, 32, 0, 0, 0, 0, 0, 0, 0, 0},
    {129, 1, 2, 2, 20, 7, 0.25f, 0, 0, 0, 0, 0, 0},
    {66, 2, 2, 1, 64, 0, 0.5f, 3, 0, 0, 0, 0, 0},
    {5, 1, 1, 1, 8, 0, 0.1f, 0, 0, 0, 0, 0, 0},
    {200, 1, 2, 1, 128, 0, 0, 0, 0, 0, 0, 0, 0},
    {100, 1, 1, 1, 256, 0, 0, 0, 0, 0, 0, 0, 0},
    {140, 1, 1, 1, 32, 0, 0.2f, 0, 0, 0, 0, 0, 0},
    /* windows, documents, caps */
    {300, 1, 2, 1, 32, 0, 0, 0, 1, 0, 0, 0, 0},
    {300, 2, 2, 1, 16, 3, 0, 0, 70, 0, 0, 0, 0},
    {513, 1, 1, 1, 24, 0, 0, 0, 129, 0, 0, 0, 0},
    {330, 1, 1, 1, 64, 0, 0.5f, 2, 200, 0, 0, 0, 0},
    {130, 1, 1, 1, 16, 0, 0, 0, 500, 0, 0, 0, 0},
    {300, 3, 2, 2, 16, 0, 0, 0, 0, 37, 0, 0, 0},
    {520, 2, 1, 1, 32, 0, 0, 0, 0, 131, 0, 0, 0},
    {150, 2, 2, 1, 8, 1, 0.5f, 0, 0, 1, 0, 0, 0},
    {300, 2, 2, 1, 40, 0, 0, 0, 50, 90, 0, 0, 0},
    {200, 1, 2, 1, 64, 0, 0, 0, 0, 0, 1.5f, 0, 0},
    {280, 2, 2, 2, 32, 3, 0.25f, 0, 60, 100, 0.75f, 0, 0},
    /* v narrower than k, and wider */
    {70, 1, 2, 2, 192, 0, 0, 0, 0, 0, 0, 128, 0},
    {200, 1, 2, 1, 40, 0, 0.5f, 1, 90, 70, 1.25f, 24, 0},
    {131, 2, 2, 2, 7, 3, 0, 0, 0, 0, 0, 5, 0},
    {66, 1, 1, 1, 16, 8, 0, 0, 0, 0, 0, 80, 0},
    /* prefixes: of samples, of documents shorter and longer than blocks, in windows */
    {300, 1, 2, 1, 24, 3, 0, 0, 0, 0, 0, 0, 140},
    {129, 1, 1, 1, 64, 0, 0.5f, 1, 0, 0, 0, 0, 129},
    {200, 2, 2, 2, 16, 1, 0, 0, 0, 37, 0, 0, 9},
    {390, 1, 1, 1, 32, 0, 0, 0, 0, 231, 0, 0, 200},
    {280, 1, 4, 2, 40, 0, 0.25f, 2, 60, 170, 1.5f, 0, 120},
    {210, 1, 1, 1, 8, 0, 0, 0, 1, 0, 0, 0, 100},
    {131, 2, 2, 2, 7, 3, 0, 0, 0, 50, 0, 5, 45},
};
enum { NCASES = sizeof(cases) / sizeof(cases[0]) };

/* What a word of the command line names, or all. */
static const char *asked_for;
static bool wanted(enum sn_dtype t)
{
    return !asked_for || strstr(asked_for, sn_dtype_name(t));
}

static void all_shapes_are_right(bool (*one)(const struct attn *, enum sn_dtype), const char *what)
{
    static const enum sn_dtype types[] = {SN_F32, SN_BF16, SN_F16};
    for (int d = 0; d < 3; d++) {
        if (!wanted(types[d]))
            continue;
        bool good = true;
        for (int c = 0; c < NCASES; c++) {
            const struct attn *p = &cases[c];
            bool this_one = one(p, types[d]);
            if (!this_one)
                printf("# S %ld samples %ld heads %d/%d d %d/%d drop %g window %d document %d cap "
                       "%g prefix %d\n",
                       (long)p->seq, (long)p->samples, p->heads, p->kv_heads, p->d, (int)attn_e(p),
                       (double)p->drop, p->window, p->document, (double)p->cap, p->prefix);
            good = good && this_one;
        }
        tap_ok(good, "%s, %s: all shapes", what, sn_dtype_name(types[d]));
    }
}

/* -1, 0 or 1 in columns [first, end) of each head of d columns, 0 in the others. */
static void fill_integers(struct kt *k, const struct sn_mat *m, int64_t d, int64_t first,
                          int64_t end)
{
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t c = 0; c < m->cols; c++) {
            double v = (double)(sn_rng_bits(0x1e7, k->draws++) % 3) - 1.0;
            kt_set(m, r, c, c % d >= first && c % d < end ? v : 0.0);
        }
}

/*
 * Small integers, which no 16-bit type rounds, so that a key or a query too many or too few shows
 * whatever a table rounds: q has its values in the first half of a head and k in the second, so
 * scores are 0 and every p of a visible key is 1 (of the backward too: its lse is given as 0).
 */
static struct kt integers(const struct attn *p, enum sn_dtype t)
{
    struct kt k = prepare(p, t, 1.0);
    k.exact = true;
    k.a.attr.attention.scale = 0.25f;
    fill_integers(&k, &k.a.in[0], p->d, 0, p->d / 2);
    fill_integers(&k, &k.a.in[1], p->d, p->d / 2, p->d);
    fill_integers(&k, &k.a.in[2], attn_e(p), 0, attn_e(p));
    return k;
}

static bool forward_integers(const struct attn *p, enum sn_dtype t)
{
    struct kt k = integers(p, t);
    int64_t rows = p->seq * p->samples;
    kt_out(&k, 0, (struct kt_shape){SN_F32, rows, p->heads * attn_e(p), p->pad}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_F32, rows, p->heads, 0}, SN_WRITE);
    head_starts(&k, SN_ATTENTION_STARTS, p);
    double *o = kt_ref(&k, 0), *lse = kt_ref(&k, 1);
    struct head h;
    double *memory = head_alloc(&h, p);
    for (int64_t n = 0; n < p->samples; n++)
        for (int64_t head = 0; head < p->heads; head++) {
            head_get(h.v, &k.a.in[2], p->seq, n, head * p->kv_heads / p->heads, h.e);
            head_mask(&h, p, n, head);
            head_forward(&h, 0.25); /* h.q and h.k are 0 */
            put_rows(o, h.o, p->seq, n, head, p->heads, h.e);
            for (int64_t i = 0; i < p->seq; i++)
                lse[(n * p->seq + i) * p->heads + head] = h.lse[i];
        }
    bool good = kt_check(&k, SN_OP_ATTENTION, 1e-6);
    free(memory);
    kt_free(&k);
    return good;
}

static bool backward_integers(const struct attn *p, enum sn_dtype t)
{
    struct kt k = integers(p, t);
    int64_t rows = p->seq * p->samples, o_cols = p->heads * attn_e(p);
    for (int i = 3; i < 5; i++)
        fill_integers(&k, kt_in(&k, i, (struct kt_shape){t, rows, o_cols, p->pad}), attn_e(p), 0,
                      attn_e(p));
    struct sn_mat *lse = kt_in(&k, 5, (struct kt_shape){SN_F32, rows, p->heads, 0});
    memset(lse->p, 0, (size_t)(rows * p->heads) * sizeof(float));
    head_starts(&k, SN_ATTENTION_DX_STARTS, p);
    for (int o = 0; o < 3; o++)
        kt_out(&k, o, (struct kt_shape){SN_F32, rows, k.a.in[o].cols, p->pad}, SN_WRITE);
    double *dq = kt_ref(&k, 0), *dk = kt_ref(&k, 1), *dv = kt_ref(&k, 2);
    struct head h;
    double *memory = head_alloc(&h, p);
    for (int64_t i = 0; i < p->seq * p->seq; i++)
        h.p[i] = 1.0;
    for (int64_t n = 0; n < p->samples; n++)
        for (int64_t head = 0; head < p->heads; head++) {
            int64_t kv = head * p->kv_heads / p->heads;
            head_get(h.q, &k.a.in[0], p->seq, n, head, h.d);
            head_get(h.k, &k.a.in[1], p->seq, n, kv, h.d);
            head_get(h.v, &k.a.in[2], p->seq, n, kv, h.e);
            head_get(h.o, &k.a.in[3], p->seq, n, head, h.e);
            head_get(h.go, &k.a.in[4], p->seq, n, head, h.e);
            head_mask(&h, p, n, head);
            head_clear_gradients(&h);
            head_backward(&h, 0.25);
            put_rows(dq, h.dq, p->seq, n, head, p->heads, h.d);
            put_rows(dk, h.dk, p->seq, n, kv, p->kv_heads, h.d);
            put_rows(dv, h.dv, p->seq, n, kv, p->kv_heads, h.e);
        }
    bool good = kt_check(&k, SN_OP_ATTENTION_DX, 0.0);
    free(memory);
    kt_free(&k);
    return good;
}

/* Of the shapes those whose factors of dropout, 1 / (1 - drop), are integers too. */
static void integers_are_exact(bool (*one)(const struct attn *, enum sn_dtype), const char *what)
{
    static const enum sn_dtype types[] = {SN_F32, SN_BF16, SN_F16};
    for (int d = 0; d < 3; d++) {
        if (!wanted(types[d]))
            continue;
        bool good = true;
        for (int c = 0; c < NCASES; c++) {
            float kept = 1.0f / (1.0f - cases[c].drop);
            if (kept == floorf(kept) && !one(&cases[c], types[d])) {
                printf("# S %ld d %d\n", (long)cases[c].seq, cases[c].d);
                good = false;
            }
        }
        tap_ok(good, "%s, %s: of integers, exact", what, sn_dtype_name(types[d]));
    }
}

/* Scores of +-300: without the running maximum they would overflow. */
static void large_scores_do_not_overflow(void)
{
    struct attn p = {200, 1, 1, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0};
    struct kt k = prepare(&p, SN_F32, 1.0);
    kt_out(&k, 0, (struct kt_shape){SN_F32, 200, 16, 0}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_F32, 200, 1, 0}, SN_WRITE);
    k.a.attr.attention.scale = 100;
    bool good = kt_run(&k, sn_ops_cpu(), SN_OP_ATTENTION, 1);
    for (int64_t i = 0; i < 200; i++) {
        good = good && isfinite(kt_get(&k.a.out[1], i, 0));
        for (int64_t c = 0; c < 16; c++)
            good = good && fabs(kt_get(&k.a.out[0], i, c)) < 10;
    }
    tap_ok(good, "scores of several hundred give finite results");
    kt_free(&k);
}

/* A key that is not a number spoils the queries that see it, a query itself; no other row. */
static void nan_is_kept(enum sn_dtype t)
{
    enum { S = 200, D = 64, KEY = 130, QUERY = 7 };
    struct attn p = {S, 1, 1, 1, D, 0, 0, 0, 0, 0, 0, 0, 0};
    struct kt k = prepare(&p, t, 1.0);
    kt_out(&k, 0, (struct kt_shape){t, S, D, 0}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_F32, S, 1, 0}, SN_WRITE);
    kt_set(&k.a.in[1], KEY, 3, NAN);
    kt_set(&k.a.in[0], QUERY, 5, NAN);
    bool good = kt_run(&k, sn_ops_cpu(), SN_OP_ATTENTION, 1);
    for (int64_t i = 0; i < S; i++) {
        bool spoilt = i >= KEY || i == QUERY;
        good = good && spoilt == !isfinite(kt_get(&k.a.out[1], i, 0));
        for (int64_t c = 0; c < D; c++)
            good = good && spoilt == !!isnan(kt_get(&k.a.out[0], i, c));
    }
    tap_ok(good, "forward, %s: a NaN stays in the rows that see it", sn_dtype_name(t));
    kt_free(&k);
}

int main(int argc, char **argv)
{
    asked_for = argc > 1 ? argv[1] : NULL;
    all_shapes_are_right(forward_case, "forward");
    all_shapes_are_right(backward_case, "backward");
    integers_are_exact(forward_integers, "forward");
    integers_are_exact(backward_integers, "backward");
    large_scores_do_not_overflow();
    nan_is_kept(SN_F32);
    nan_is_kept(SN_BF16);
    return tap_done();
}
