/*
 * ATTENTION and ATTENTION_DX of ranks that share each sequence: every rank passes the keys of one
 * rank after another, as a ring brings them. After each operation its outputs must be what the
 * whole matrix of scores gives over the keys so far, hence in the end whole attention; kt_check
 * also runs every instruction set with 1 to 4 threads.
 */
#include "kernels/position.h"
#include "tests/lib/attention_ref.h"

struct ring {
    struct attn whole;
    int context;
    bool zigzag;
    int first; /* the ring begins with the keys of rank (own + first) */
};

/* Storage of inputs, of o (out and in), and of dq, dk, dv. */
struct types {
    const char *name;
    enum sn_dtype in, o, gradient[3];
    double forward, backward; /* tolerances */
};

enum { MAX_HEADS = 8 };

/*
 * The whole: operands and running results as one rank would have them, in slots of `all` as the
 * operation has them, with the reference of each result in all.ref.
 */
struct world {
    const struct ring *ring;
    struct kt all;
    struct head head[MAX_HEADS]; /* sample after sample */
    double *memory[MAX_HEADS];
};

static int64_t heads_of(const struct world *w)
{
    return w->ring->whole.samples * w->ring->whole.heads;
}

static void world_init(struct world *w, const struct ring *ring, const struct types *t)
{
    const struct attn *p = &ring->whole;
    int64_t rows = p->seq * p->samples, q_cols = p->heads * p->d, kv_cols = p->kv_heads * p->d;
    *w = (struct world){.ring = ring, .all = {.magnitude = 1.0}};
    struct kt *k = &w->all;
    kt_in(k, 0, (struct kt_shape){t->in, rows, q_cols, p->pad});
    kt_in(k, 1, (struct kt_shape){t->in, rows, kv_cols, p->pad});
    kt_in(k, 2, (struct kt_shape){t->in, rows, p->kv_heads * attn_e(p), p->pad});
    k->a.attr = (struct sn_attr){.attention.heads = p->heads,
                                 .attention.kv_heads = p->kv_heads,
                                 .attention.head_dim = p->d,
                                 .attention.v_dim = p->e,
                                 .position.seq = p->seq,
                                 .random.site = SITE,
                                 .random.drop = p->drop,
                                 .attention.scale = 1.0f / sqrtf((float)p->d),
                                 .position.context = ring->context,
                                 .position.zigzag = ring->zigzag,
                                 .attention.head0 = p->head0,
                                 .attention.window = p->window,
                                 .attention.cap = p->cap};
    k->scalars = (struct sn_scalars){.seed = SEED, .step = STEP, .first_sample = FIRST_SAMPLE};
    for (int64_t i = 0; i < heads_of(w); i++) {
        struct head *h = &w->head[i];
        int64_t n = i / p->heads, head = i % p->heads, kv = head * p->kv_heads / p->heads;
        w->memory[i] = head_alloc(h, p);
        head_get(h->q, &k->a.in[0], p->seq, n, head, h->d);
        head_get(h->k, &k->a.in[1], p->seq, n, kv, h->d);
        head_get(h->v, &k->a.in[2], p->seq, n, kv, h->e);
        head_mask(h, p, n, head);
    }
}

static void world_fini(struct world *w)
{
    for (int64_t i = 0; i < heads_of(w); i++)
        free(w->memory[i]);
    kt_free(&w->all);
}

static int64_t whole_row(const struct sn_attr *a, int rank, int64_t row)
{
    int64_t n = sn_rows_per_sample(&a->position);
    return row / n * a->position.seq + sn_position(&a->position, rank, row % n);
}

/* What `rank` has of an operand of the whole, with its reference. */
static void gather(struct world *w, struct kt *k, int slot, int rank)
{
    const struct sn_mat *from = kt_mat(&w->all, slot);
    int64_t rows = from->rows / w->ring->context, pad = from->ld - from->cols;
    struct sn_mat *to = kt_new(k, slot, (struct kt_shape){from->dtype, rows, from->cols, pad});
    int o = slot - SN_MAX_IN;
    bool written = o >= 0 && k->a.acc[o] == SN_WRITE;
    double *ref = o >= 0 ? kt_ref(k, o) : NULL;
    for (int64_t i = 0; i < rows * from->cols; i++) {
        int64_t r = i / from->cols, c = i % from->cols, row = whole_row(&k->a.attr, rank, r);
        if (!written)
            kt_set(to, r, c, kt_get(from, row, c));
        if (ref)
            ref[i] = w->all.ref[o][row * from->cols + c];
    }
}

static void scatter(struct world *w, const struct kt *k, int o, int rank)
{
    const struct sn_mat *from = &k->a.out[o], *to = &w->all.a.out[o];
    for (int64_t r = 0; r < from->rows; r++)
        for (int64_t c = 0; c < from->cols; c++)
            kt_set(to, whole_row(&k->a.attr, rank, r), c, kt_get(from, r, c));
}

/* Sums begun, but for the log of the sum, are as the last table left them, which may have rounded what
 * another does not. */
static void carry(struct kt *k, enum sn_op_kind kind)
{
    const struct sn_ops *table[KT_TABLES], *last = table[kt_tables(table) - 1];
    enum sn_dtype t = k->a.in[0].dtype;
    bool rounds = last->multiplies && last->multiplies(t);
    for (int o = 0; o < SN_MAX_OUT; o++)
        if (rounds && k->a.acc[o] == SN_ADD && !(kind == SN_OP_ATTENTION && o > 0))
            k->carried[o] = kt_slack_of(kind, t);
}

/* One operation: queries of `rank`, keys of `key_rank`; its results go back into the whole. */
static bool part(struct world *w, enum sn_op_kind kind, int rank, int key_rank, double tol)
{
    bool backward = kind == SN_OP_ATTENTION_DX;
    int ins = backward ? 6 : 3, outs = backward ? 3 : 2;
    struct kt k = {.magnitude = 1.0, .scalars = w->all.scalars};
    k.a.attr = w->all.a.attr;
    k.a.attr.position.context_rank = rank;
    k.a.attr.position.key_rank = key_rank;
    memcpy(k.a.acc, w->all.a.acc, sizeof(k.a.acc));
    for (int i = 0; i < ins; i++)
        gather(w, &k, i, i == 1 || i == 2 ? key_rank : rank);
    for (int o = 0; o < outs; o++)
        gather(w, &k, SN_MAX_IN + o, backward && o > 0 ? key_rank : rank);
    head_starts(&k, backward ? SN_ATTENTION_DX_STARTS : SN_ATTENTION_STARTS, &w->ring->whole);
    carry(&k, kind);
    bool good = kt_check(&k, kind, tol);
    for (int o = 0; o < outs; o++)
        scatter(w, &k, o, backward && o > 0 ? key_rank : rank);
    if (!good)
        printf("# queries of rank %d, keys of rank %d\n", rank, key_rank);
    kt_free(&k);
    return good;
}

/* Mark the positions of a rank, in all heads. */
static void mark(struct world *w, int rank, bool asks, bool gives)
{
    const struct sn_attr *a = &w->all.a.attr;
    for (int64_t i = 0; i < heads_of(w) * sn_rows_per_sample(&a->position); i++) {
        int64_t at = sn_position(&a->position, rank, i % sn_rows_per_sample(&a->position));
        struct head *h = &w->head[i / sn_rows_per_sample(&a->position)];
        h->asks[at] = h->asks[at] || asks;
        h->gives[at] = h->gives[at] || gives;
    }
}

static void unmark(struct world *w, bool asks, bool gives)
{
    for (int64_t i = 0; i < heads_of(w); i++) {
        memset(w->head[i].asks, !asks, (size_t)w->head[i].s);
        if (gives)
            memset(w->head[i].gives, false, (size_t)w->head[i].s);
    }
}

static int key_rank_of(const struct ring *ring, int rank, int hop)
{
    return (rank + ring->first + ring->context - hop) % ring->context;
}

static void refer_forward(struct world *w)
{
    const struct attn *p = &w->ring->whole;
    double *o = w->all.ref[0], *lse = w->all.ref[1];
    for (int64_t n = 0; n < heads_of(w); n++) {
        struct head *h = &w->head[n];
        head_forward(h, (double)w->all.a.attr.attention.scale);
        for (int64_t i = 0; i < p->seq; i++) {
            int64_t at = (n / p->heads * p->seq + i) * p->heads + n % p->heads;
            lse[at] = h->lse[i];
            memcpy(o + at * h->e, h->o + i * h->e, (size_t)h->e * sizeof(double));
        }
    }
}

static bool forward_ring(const struct ring *ring, const struct types *t)
{
    struct world w;
    world_init(&w, ring, t);
    int64_t rows = w.all.a.in[0].rows;
    kt_out(&w.all, 0, (struct kt_shape){t->o, rows, ring->whole.heads * attn_e(&ring->whole), 1}, SN_WRITE);
    kt_out(&w.all, 1, (struct kt_shape){SN_F32, rows, ring->whole.heads, 0}, SN_WRITE);
    (void)kt_ref(&w.all, 0);
    (void)kt_ref(&w.all, 1);
    bool good = true;
    for (int rank = 0; rank < ring->context; rank++) {
        unmark(&w, true, true);
        mark(&w, rank, true, false);
        for (int hop = 0; hop < ring->context; hop++) {
            int from = key_rank_of(ring, rank, hop);
            mark(&w, from, false, true);
            refer_forward(&w);
            w.all.a.acc[0] = w.all.a.acc[1] = hop ? SN_ADD : SN_WRITE;
            good = part(&w, SN_OP_ATTENTION, rank, from, t->forward) && good;
        }
    }
    world_fini(&w);
    return good;
}

/* Whole attention's o and lse, as the backward receives them; delta is of o as stored. dv is always
 * added to: it begins with ones. */
static void prepare_backward(struct world *w, const struct types *t)
{
    const struct attn *p = &w->ring->whole;
    struct kt *k = &w->all;
    int64_t rows = p->seq * p->samples, o_cols = p->heads * attn_e(p);
    kt_in(k, 3, (struct kt_shape){t->o, rows, o_cols, 2});
    kt_in(k, 4, (struct kt_shape){t->in, rows, o_cols, p->pad});
    kt_in(k, 5, (struct kt_shape){SN_F32, rows, p->heads, 0});
    for (int o = 0; o < 3; o++) {
        kt_out(k, o, (struct kt_shape){t->gradient[o], rows, k->a.in[o].cols, o}, SN_WRITE);
        (void)kt_ref(k, o);
    }
    for (int64_t i = 0; i < rows * k->a.out[2].cols; i++)
        kt_set(&k->a.out[2], i / k->a.out[2].cols, i % k->a.out[2].cols, 1.0);
    for (int64_t n = 0; n < heads_of(w); n++) {
        struct head *h = &w->head[n];
        int64_t sample = n / p->heads, head = n % p->heads;
        head_get(h->go, &k->a.in[4], p->seq, sample, head, h->e);
        head_forward(h, (double)k->a.attr.attention.scale);
        for (int64_t i = 0; i < p->seq * h->e; i++)
            kt_set(&k->a.in[3], sample * p->seq + i / h->e, head * h->e + i % h->e, h->o[i]);
        for (int64_t i = 0; i < p->seq; i++)
            kt_set(&k->a.in[5], sample * p->seq + i, head, h->lse[i]);
        head_get(h->o, &k->a.in[3], p->seq, sample, head, h->e);
    }
}

/* Gradients of the pairs that are marked join the references; dv began with ones. */
static void refer_backward(struct world *w)
{
    const struct attn *p = &w->ring->whole;
    for (int o = 0; o < 3; o++) {
        const struct sn_mat *m = &w->all.a.out[o];
        for (int64_t i = 0; i < m->rows * m->cols; i++)
            w->all.ref[o][i] = o == 2 ? 1.0 : 0.0;
    }
    for (int64_t n = 0; n < heads_of(w); n++) {
        struct head *h = &w->head[n];
        int64_t kv = n % p->heads * p->kv_heads / p->heads;
        head_backward(h, (double)w->all.a.attr.attention.scale);
        for (int64_t i = 0; i < p->seq * p->d; i++) {
            int64_t row = n / p->heads * p->seq + i / p->d, c = i % p->d;
            w->all.ref[0][row * p->heads * p->d + n % p->heads * p->d + c] += h->dq[i];
            w->all.ref[1][row * p->kv_heads * p->d + kv * p->d + c] += h->dk[i];
        }
        for (int64_t i = 0; i < p->seq * h->e; i++) {
            int64_t row = n / p->heads * p->seq + i / h->e, c = i % h->e;
            w->all.ref[2][(row * p->kv_heads + kv) * h->e + c] += h->dv[i];
        }
    }
}

static bool backward_ring(const struct ring *ring, const struct types *t)
{
    struct world w;
    world_init(&w, ring, t);
    prepare_backward(&w, t);
    bool good = true;
    for (int rank = 0; rank < ring->context; rank++)
        for (int hop = 0; hop < ring->context; hop++) {
            int from = key_rank_of(ring, rank, hop);
            unmark(&w, true, true);
            mark(&w, rank, true, false);
            mark(&w, from, false, true);
            refer_backward(&w);
            w.all.a.acc[0] = hop ? SN_ADD : SN_WRITE;
            w.all.a.acc[1] = rank ? SN_ADD : SN_WRITE;
            w.all.a.acc[2] = SN_ADD;
            good = part(&w, SN_OP_ATTENTION_DX, rank, from, t->backward) && good;
        }
    world_fini(&w);
    return good;
}

/* Runs of 1 to 150 positions; blocks are 64 queries by 128 keys. */
static const struct ring rings[] = {
    {{280, 1, 2, 1, 16, 3, 0, 0, 0, 0, 0, 0, 0}, 2, true, 0},
    {{300, 1, 1, 1, 20, 0, 0, 0, 0, 0, 0, 0, 0}, 2, false, 0},
    {{138, 2, 2, 2, 24, 1, 0, 0, 0, 0, 0, 0, 0}, 3, true, 0},
    {{111, 2, 4, 2, 5, 0, 0, 0, 0, 0, 0, 0, 0}, 3, false, 2},
    {{40, 2, 3, 1, 80, 0, 0, 0, 0, 0, 0, 0, 0}, 4, true, 3},
    {{8, 3, 2, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0}, 4, true, 1},
    {{4, 1, 1, 1, 64, 0, 0, 0, 0, 0, 0, 0, 0}, 2, true, 1},
    {{2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 2, false, 1},
    {{132, 1, 4, 2, 16, 5, 0.25f, 6, 0, 0, 0, 0, 0}, 2, true, 1},
    {{102, 1, 2, 1, 12, 0, 0.5f, 1, 0, 0, 0, 0, 0}, 3, false, 0},
    /* windows, documents, caps */
    {{280, 1, 2, 1, 16, 3, 0, 0, 60, 0, 0, 0, 0}, 2, true, 0},
    {{300, 1, 1, 1, 20, 0, 0, 0, 33, 0, 0, 0, 0}, 3, false, 0},
    {{320, 2, 1, 1, 8, 0, 0, 0, 0, 70, 0, 0, 0}, 4, true, 1},
    {{280, 1, 2, 1, 16, 0, 0.5f, 0, 150, 90, 2, 0, 0}, 2, false, 0},
    {{88, 2, 1, 1, 16, 0, 0.1f, 0, 0, 0, 0, 0, 0}, 4, true, 0},
    {{560, 1, 1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0}, 2, true, 1},
    /* v narrower than k */
    {{140, 1, 2, 2, 24, 3, 0.5f, 0, 0, 45, 0, 16, 0}, 2, true, 0},
    /* prefixes: queries see keys of ranks behind theirs */
    {{280, 2, 2, 1, 16, 3, 0, 0, 0, 0, 0, 0, 190}, 2, true, 0},
    {{300, 1, 1, 1, 20, 0, 0.5f, 0, 0, 0, 0, 0, 170}, 3, false, 2},
    {{160, 2, 2, 2, 8, 0, 0, 0, 30, 90, 2, 0, 60}, 4, true, 1},
};
enum { NRINGS = sizeof(rings) / sizeof(rings[0]) };

/*
 * Tolerances where results between operations are fp32: those of test_attention.c. Half types are
 * rounded after each of up to four operations, while values of a few units may yet cancel.
 */
static const struct types types[] = {
    {"fp32", SN_F32, SN_F32, {SN_F32, SN_F32, SN_F32}, 2e-6, 1e-5},
    {"bf16 with fp32 results", SN_BF16, SN_F32, {SN_F32, SN_F32, SN_F32}, 2e-6, 1e-5},
    {"fp16 with fp32 results", SN_F16, SN_F32, {SN_F32, SN_F32, SN_F32}, 2e-6, 1e-5},
    {"bf16", SN_BF16, SN_BF16, {SN_BF16, SN_F32, SN_BF16}, 0x1p-6, 0x1p-6},
    {"fp16", SN_F16, SN_F16, {SN_F32, SN_F16, SN_F16}, 0x1p-9, 0x1p-9},
};
enum { NTYPES = sizeof(types) / sizeof(types[0]) };

static void parts_make_the_whole(bool (*one)(const struct ring *, const struct types *),
                                 const char *what)
{
    for (int t = 0; t < NTYPES; t++) {
        bool good = true;
        for (int i = 0; i < NRINGS; i++) {
            const struct ring *r = &rings[i];
            bool this_one = one(r, &types[t]);
            if (!this_one)
                printf("# S %ld samples %ld heads %d/%d d %d drop %g window %d document %d prefix "
                       "%d, %d "
                       "ranks %s\n",
                       (long)r->whole.seq, (long)r->whole.samples, r->whole.heads,
                       r->whole.kv_heads, r->whole.d, (double)r->whole.drop, r->whole.window,
                       r->whole.document, r->whole.prefix, r->context,
                       r->zigzag ? "zigzag" : "contiguous");
            good = good && this_one;
        }
        tap_ok(good, "%s, %s: parts make the whole", what, types[t].name);
    }
}

/* Operands of one rank of two, outputs full of normals to be added to; every fourth number of the
 * first is -0, every fourth lse -inf. */
static struct kt rank_operands(enum sn_op_kind kind, enum sn_dtype t, int64_t seq, bool zigzag)
{
    struct kt k = {.magnitude = 1.0};
    bool backward = kind == SN_OP_ATTENTION_DX;
    struct kt_shape wide = {t, seq / 2, 16, 3}, lse = {SN_F32, seq / 2, 2, 0};
    for (int i = 0; i < (backward ? 6 : 3); i++)
        kt_in(&k, i, i == 5 ? lse : wide);
    for (int o = 0; o < (backward ? 3 : 2); o++)
        kt_out(&k, o, o == 1 && !backward ? lse : wide, SN_ADD);
    k.a.attr = (struct sn_attr){.attention.heads = 2,
                                .attention.kv_heads = 2,
                                .attention.head_dim = 8,
                                .position.seq = seq,
                                .attention.scale = 0.3f,
                                .position.context = 2,
                                .position.zigzag = zigzag,
                                .position.context_rank = 0,
                                .position.key_rank = 1};
    for (int64_t i = 0; i < seq / 2 * 16; i += 4)
        kt_set(&k.a.out[0], i / 16, i % 16, -0.0);
    for (int64_t i = 0; i < seq / 2 && !backward; i += 4)
        kt_set(&k.a.out[1], i, 1, -INFINITY);
    return k;
}

/* The keys of rank 1 are beyond the first `blind` queries of rank 0: their rows keep every bit. */
static bool blind_rows_stay(enum sn_op_kind kind, enum sn_dtype t, bool zigzag)
{
    enum { SEQ = 2 * 74 };
    int64_t blind = zigzag ? SEQ / 4 : SEQ / 2;
    const struct sn_ops *table[KT_TABLES];
    bool good = true;
    for (int n = kt_tables(table); n > 0; n--) {
        struct kt k = rank_operands(kind, t, SEQ, zigzag);
        int outs = kind == SN_OP_ATTENTION ? 2 : 1; /* dk and dv belong to keys */
        for (int o = 0; o < outs; o++)
            memcpy(k.saved[SN_MAX_IN + o], k.image[SN_MAX_IN + o], k.bytes[SN_MAX_IN + o]);
        good = kt_run(&k, table[n - 1], kind, 2) && good;
        for (int o = 0; o < outs; o++) {
            const struct sn_mat *m = &k.a.out[o];
            const unsigned char *before = k.saved[SN_MAX_IN + o] + KT_GUARD, *after = m->p;
            size_t same = (size_t)(blind * m->ld) * sn_dtype_size(m->dtype);
            size_t all = (size_t)(m->rows * m->ld) * sn_dtype_size(m->dtype);
            good = good && memcmp(before, after, same) == 0;
            good = good && (!zigzag || memcmp(before + same, after + same, all - same) != 0);
        }
        kt_free(&k);
    }
    return good;
}

static void queries_that_see_nothing_stay(void)
{
    bool forward = true, backward = true;
    for (int zigzag = 0; zigzag < 2; zigzag++) {
        forward = forward && blind_rows_stay(SN_OP_ATTENTION, SN_F32, zigzag);
        forward = forward && blind_rows_stay(SN_OP_ATTENTION, SN_BF16, zigzag);
        backward = backward && blind_rows_stay(SN_OP_ATTENTION_DX, SN_F32, zigzag);
        backward = backward && blind_rows_stay(SN_OP_ATTENTION_DX, SN_F16, zigzag);
    }
    tap_ok(forward, "adding leaves o and lse of queries that see nothing bit for bit");
    tap_ok(backward, "adding leaves dq of queries that see nothing bit for bit");
}

/* A grid without context axis names one rank, perhaps with its default order. */
static void one_context_rank_is_none(void)
{
    bool same = true;
    for (int kind = SN_OP_ATTENTION; kind <= SN_OP_ATTENTION_DX; kind++) {
        struct kt k[2];
        for (int i = 0; i < 2; i++) {
            k[i] = rank_operands((enum sn_op_kind)kind, SN_F32, 150, true);
            k[i].a.attr.position.seq = 75;
            k[i].a.attr.position.context = i;
            k[i].a.attr.position.zigzag = i;
            k[i].a.attr.position.key_rank = 0;
            same = kt_run(&k[i], sn_ops_cpu(), (enum sn_op_kind)kind, 2) && same;
        }
        for (int s = SN_MAX_IN; s < KT_SLOTS; s++)
            same = same && (!k[0].image[s] || !memcmp(k[0].image[s], k[1].image[s], k[0].bytes[s]));
        kt_free(&k[0]);
        kt_free(&k[1]);
    }
    tap_ok(same, "one context rank gives the bits of none, zigzag or not");
}

int main(void)
{
    parts_make_the_whole(forward_ring, "forward");
    parts_make_the_whole(backward_ring, "backward");
    queries_that_see_nothing_stay();
    one_context_rank_is_none();
    return tap_done();
}
