/*
 * Operations whose rows are a part of the whole: what the ranks of a context group, and of a cut of
 * their rows, compute equals the rows of the whole bit for bit. TRANSPOSE, which deals blocks to them.
 */
#include "tests/lib/kernel_test.h"

enum { SAMPLES = 2, SEQ = 24, ROWS = SAMPLES * SEQ, COLS = 2500, CUTS = 3, WORDS = 11 };

/* One rank's part: rows first .. first + n - 1 of those that its context rank holds. */
struct part {
    int context, rank;
    bool zigzag;
    int64_t first, n;
};

/* The whole's row of each row of a context rank; returns how many. Dealt chunk by chunk. */
static int64_t deal(const struct part *p, int64_t row[ROWS])
{
    int64_t chunks = p->zigzag ? 2 * p->context : p->context, size = SEQ / chunks, n = 0;
    for (int64_t r = 0; r < ROWS; r++) {
        int64_t chunk = r % SEQ / size;
        int64_t owner = p->zigzag && chunk >= p->context ? chunks - 1 - chunk : chunk;
        if (owner == p->rank)
            row[n++] = r;
    }
    return n;
}

static struct sn_attr attr_of(const struct part *p)
{
    return (struct sn_attr){.position.seq = SEQ,
                            .position.context = p->context,
                            .position.context_rank = p->rank,
                            .position.zigzag = p->zigzag,
                            .position.row0 = p->first,
                            .random.site = 5,
                            .random.drop = 0.3f,
                            .attention.heads = COLS / 100,
                            .attention.head_dim = 100,
                            .attention.rotary_dim = 64,
                            .attention.theta = 10000.0f};
}

/* fn for every part of every way to cut; the ranks of one way in order. */
static bool every_part(bool (*fn)(const struct part *p, void *arg), void *arg)
{
    bool good = true;
    for (int way = 0; way < 3 * 2 * 2; way++) {
        struct part p = {.context = 1 + way % 3, .zigzag = way / 3 % 2};
        int64_t row[ROWS], cuts = way / 6 ? CUTS : 1;
        for (int64_t i = 0; i < p.context * cuts; i++) {
            p.rank = (int)(i / cuts);
            int64_t n = deal(&p, row);
            p.first = n * (i % cuts) / cuts;
            p.n = n * (i % cuts + 1) / cuts - p.first;
            good = fn(&p, arg) && good;
        }
    }
    return good;
}

static const void *row_at(const struct sn_mat *m, int64_t r)
{
    return (const char *)m->p + (size_t)(r * m->ld) * sn_dtype_size(m->dtype);
}

/* Operand i of a part: its rows of the whole's. */
static void take_rows(struct kt *k, int i, const struct kt *whole, const struct part *p)
{
    const struct sn_mat *from = &whole->a.in[i];
    struct sn_mat *to = kt_new(k, i, (struct kt_shape){from->dtype, p->n, from->cols, 3});
    int64_t row[ROWS];
    deal(p, row);
    for (int64_t r = 0; r < p->n; r++)
        memcpy((void *)row_at(to, r), row_at(from, row[p->first + r]),
               (size_t)to->cols * sn_dtype_size(to->dtype));
}

/* --- operations that give a row for a row ----------------------------------------------------- */

struct whole {
    struct kt kt;
    enum sn_op_kind kind;
    const struct sn_ops *ops;
};

static bool part_equals_whole(const struct part *p, void *arg)
{
    struct whole *w = arg;
    const struct sn_mat *all = &w->kt.a.out[0];
    struct kt k = {.scalars = w->kt.scalars};
    bool good = true;
    int64_t row[ROWS];
    deal(p, row);
    for (int i = 0; i < 2 && w->kt.a.in[i].p; i++) /* a table of words or positions is whole */
        if (w->kt.a.in[i].rows == ROWS)
            take_rows(&k, i, &w->kt, p);
        else
            k.a.in[i] = w->kt.a.in[i];
    k.a.in[2] = w->kt.a.in[2];
    const struct sn_mat *y = kt_out(&k, 0, (struct kt_shape){all->dtype, p->n, COLS, 3}, SN_WRITE);
    k.a.attr = attr_of(p);
    k.a.attr.random.jitter = w->kt.a.attr.random.jitter;
    for (int threads = 1; threads <= 4; threads++) {
        memset(k.image[SN_MAX_IN], 0xfb, k.bytes[SN_MAX_IN]);
        good = kt_run(&k, w->ops, w->kind, threads) && good;
        for (int64_t r = 0; r < p->n; r++)
            good = good && memcmp(row_at(y, r), row_at(all, row[p->first + r]),
                                  COLS * sn_dtype_size(y->dtype)) == 0;
    }
    kt_free(&k);
    if (!good)
        printf("# %s: context %d of %d, zigzag %d, rows from %ld\n", w->ops->name, p->rank,
               p->context, p->zigzag, (long)p->first);
    return good;
}

static void rows_equal_those_of_the_whole(enum sn_op_kind kind, enum sn_dtype t, const char *name)
{
    struct whole w = {.kind = kind, .kt.scalars = {.seed = 77, .step = 9, .first_sample = 1000}};
    struct kt_shape shape = {t, ROWS, COLS, 0};
    const struct sn_ops *table[KT_TABLES];
    bool good = true;
    if (kind == SN_OP_EMBED) {
        const struct sn_mat *ids = kt_new(&w.kt, 0, (struct kt_shape){SN_I32, ROWS, 1, 0});
        for (int64_t r = 0; r < ROWS; r++)
            kt_set(ids, r, 0, (double)(sn_rng_bits(3, (uint64_t)r) % WORDS));
        kt_in(&w.kt, 1, (struct kt_shape){t, WORDS, COLS, 0});
        kt_in(&w.kt, 2, (struct kt_shape){t, SEQ, COLS, 0});
    } else {
        kt_in(&w.kt, 0, shape);
    }
    kt_out(&w.kt, 0, shape, SN_WRITE);
    w.kt.a.attr = attr_of(&(struct part){0});
    w.kt.a.attr.random.jitter = kind == SN_OP_JITTER ? 0.2f : 0;
    for (int i = 0, n = kt_tables(table); i < n; i++) {
        w.ops = table[i];
        good = kt_run(&w.kt, w.ops, kind, 1) && every_part(part_equals_whole, &w) && good;
    }
    kt_free(&w.kt);
    tap_ok(good, "%s of %s: every part equals its rows of the whole", name, sn_dtype_name(t));
}

/* --- POS_GRAD: a sum over rows ---------------------------------------------------------------- */

enum { TABLE = SEQ + 3 /* rows of the table of positions: some are never used */ };

struct pos_grad {
    struct kt whole;
    const struct sn_ops *ops;
    double written[TABLE * COLS], added[TABLE * COLS]; /* sums over the parts so far */
    int64_t rows;                                      /* in them */
    bool good;
};

static void add_part(struct pos_grad *g, struct kt *k, enum sn_acc acc, double *sum)
{
    const struct sn_mat *dp = &k->a.out[0];
    k->a.acc[0] = acc;
    for (int64_t i = 0; i < TABLE * COLS; i++)
        kt_set(dp, i / COLS, i % COLS, acc == SN_ADD ? 1.0 : -777.0);
    g->good = kt_run(k, g->ops, SN_OP_POS_GRAD, 1 + (int)(g->rows % 4)) && g->good;
    for (int64_t i = 0; i < TABLE * COLS; i++)
        sum[i] += kt_get(dp, i / COLS, i % COLS) - (acc == SN_ADD ? 1.0 : 0.0);
}

static bool pos_grad_part(const struct part *p, void *arg)
{
    struct pos_grad *g = arg;
    const struct sn_mat *all = &g->whole.a.out[0];
    struct kt k = {0};
    if (g->rows == 0) {
        memset(g->written, 0, sizeof(g->written));
        memset(g->added, 0, sizeof(g->added));
    }
    take_rows(&k, 0, &g->whole, p);
    kt_out(&k, 0, (struct kt_shape){SN_F32, TABLE, COLS, 0}, SN_WRITE);
    k.a.attr = attr_of(p);
    add_part(g, &k, SN_WRITE, g->written);
    add_part(g, &k, SN_ADD, g->added);
    kt_free(&k);
    g->rows = (g->rows + p->n) % ROWS;
    for (int64_t i = 0; i < TABLE * COLS && g->rows == 0; i++) { /* the last part of a way */
        double want = kt_get(all, i / COLS, i % COLS);
        g->good = g->good && g->written[i] == want && g->added[i] == want;
    }
    return g->good;
}

/* Whole numbers: their sums are exact in any order. */
static void positions_gradients_add_up_to_the_whole(void)
{
    static struct pos_grad g;
    const struct sn_ops *table[KT_TABLES];
    bool good = true;
    const struct sn_mat *dy = kt_new(&g.whole, 0, (struct kt_shape){SN_F32, ROWS, COLS, 0});
    for (int64_t i = 0; i < ROWS * COLS; i++)
        kt_set(dy, i / COLS, i % COLS, (double)(i * 7919 % 201 - 100));
    kt_out(&g.whole, 0, (struct kt_shape){SN_F32, TABLE, COLS, 0}, SN_WRITE);
    g.whole.a.attr.position.seq = SEQ;
    g.good = true;
    for (int i = 0, n = kt_tables(table); i < n; i++) {
        g.ops = table[i];
        good = kt_run(&g.whole, g.ops, SN_OP_POS_GRAD, 1) && every_part(pos_grad_part, &g) && good;
    }
    kt_free(&g.whole);
    tap_ok(good, "POS_GRAD: the parts add up to the whole, written and added");
}

/* --- TRANSPOSE ------------------------------------------------------------------------------------- */

struct swap {
    int64_t a, b, n;
    int64_t x_cols, x_pad, y_cols, y_pad;
};

static bool swap_case(const struct swap *s, enum sn_dtype t)
{
    struct kt k = {.a.attr = {.blocks_a = s->a, .blocks_b = s->b}};
    int64_t all = s->a * s->b * s->n;
    const struct sn_mat *x =
        kt_new(&k, 0, (struct kt_shape){t, all / s->x_cols, s->x_cols, s->x_pad});
    for (int64_t i = 0; i < all; i++)
        kt_set(x, i / s->x_cols, i % s->x_cols, (double)(i % 251));
    kt_out(&k, 0, (struct kt_shape){t, all / s->y_cols, s->y_cols, s->y_pad}, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t i = 0; i < all; i++) {
        int64_t block = i / s->n, e = i % s->n;
        y[(block % s->b * s->a + block / s->b) * s->n + e] = (double)(i % 251);
    }
    bool good = kt_check(&k, SN_OP_TRANSPOSE, 0.0);
    kt_free(&k);
    return good;
}

static void swap_exchanges_the_order_of_blocks(void)
{
    static const struct swap cases[] = {
        {1, 1, 1, 1, 0, 1, 0},
        {5, 7, 1, 35, 0, 1, 0},
        {3, 4, 5, 10, 0, 5, 0},
        {3, 4, 5, 10, 1, 15, 2}, /* blocks inside rows */
        {4, 3, 6, 2, 1, 3, 5},
        {2, 3, 8, 4, 0, 24, 3}, /* blocks of several rows */
        {2, 3, 40000, 40000, 0, 80000, 7},
        {2, 2, 70000, 700, 4, 70000, 0},
        {64, 6, 48, 288, 3, 48, 0},
    };
    static const enum sn_dtype types[] = {SN_F32, SN_BF16, SN_F16, SN_I32};
    for (int t = 0; t < 4; t++) {
        bool good = true;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            good = swap_case(&cases[i], types[t]) && good;
        tap_ok(good, "TRANSPOSE of %s: y[b][a] = x[a][b], in rows with and without gaps",
               sn_dtype_name(types[t]));
    }
}

int main(void)
{
    for (enum sn_dtype t = SN_F32; t <= SN_F16; t++) {
        rows_equal_those_of_the_whole(SN_OP_EMBED, t, "EMBED with positions");
        rows_equal_those_of_the_whole(SN_OP_ROPE, t, "ROPE");
        rows_equal_those_of_the_whole(SN_OP_DROPOUT, t, "DROPOUT");
        rows_equal_those_of_the_whole(SN_OP_JITTER, t, "JITTER");
    }
    positions_gradients_add_up_to_the_whole();
    swap_exchanges_the_order_of_blocks();
    return tap_done();
}
