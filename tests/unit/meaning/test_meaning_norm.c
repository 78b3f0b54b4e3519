/*
 * test_meaning_norm.c - norms over slices of features mean what those over whole rows do, exactly
 * where their parts are those of all slices, each once.
 *
 * The programs are written by hand: one operation of whole rows, and one for each slice, each with
 * parts in a buffer where they lie as if they had been gathered.
 */
#include "tests/lib/tap.h"

#include "lib/meaning/inner.h"

/* Tokens of a micro-batch, features, and the most slices. */
enum { T = 6, D = 8, SLICES = 4 };
/* Where the features stand: a space that is of no parameter. */
enum { FEATURES = SN_SPACE_HEADS };

/* clang-format off */
enum {
    X, HALF_X, MORE_X, LATER_X, DY, HALF_DY, MORE_DY, W, B, ADDEND, /* inputs */
    Y, STATS, DX,                                                   /* of whole rows */
    PARTS, CUT_Y, CUT_STATS, DX_PARTS, CUT_DX,                      /* of slices */
    BUFS
};
/* clang-format on */

/* --- a rank with these buffers ---------------------------------------------------------------- */

struct bench {
    struct sn_err err;
    struct sn_job job;
    struct sn_program program;
    struct sn_buffer bufs[BUFS];
    int parent[SN_NSPACES], first_held[BUFS];
    int64_t share_of[BUFS];
    struct sn_slabs held[BUFS];
    struct sn_rank rank;
    struct sn_meaning m;
    bool is_layernorm;
    int width; /* of statistics */
};

static void hold(struct bench *b, int buf, uint64_t value, int space, int64_t token)
{
    struct sn_slab t = {.rows = b->bufs[buf].rows,
                        .cols = D,
                        .ld = D,
                        .value = value,
                        .space = {space, FEATURES},
                        .first = {token, 0}};
    sn_slabs_put(&b->held[buf], &b->m.spaces, &t);
}

/* x and dy are each two halves, of which three make more. */
static void hold_inputs(struct bench *b)
{
    uint64_t x = sn_field_of(11), dy = sn_field_of(12);
    hold(b, HALF_X, x, SN_SPACE_TOKENS, T);
    hold(b, X, sn_field_mul(x, 2), SN_SPACE_TOKENS, T);
    hold(b, MORE_X, sn_field_mul(x, 3), SN_SPACE_TOKENS, T);
    hold(b, LATER_X, sn_field_mul(x, 2), SN_SPACE_TOKENS, 2 * T);
    hold(b, HALF_DY, dy, SN_SPACE_TOKENS, T);
    hold(b, DY, sn_field_mul(dy, 2), SN_SPACE_TOKENS, T);
    hold(b, MORE_DY, sn_field_mul(dy, 3), SN_SPACE_TOKENS, T);
    hold(b, ADDEND, sn_field_of(13), SN_SPACE_TOKENS, T);
    hold(b, W, sn_field_of(21), SN_SPACE_ONE, 0);
    hold(b, B, sn_field_of(22), SN_SPACE_ONE, 0);
}

static void begin(struct bench *b, bool is_layernorm)
{
    *b = (struct bench){.is_layernorm = is_layernorm, .width = is_layernorm ? 2 : 1};
    for (int i = 0; i < SN_NGRID_AXES; i++)
        b->job.grid.size[i] = b->job.grid.stride[i] = 1;
    for (int i = 0; i < SN_NSPACES; i++)
        b->parent[i] = i;
    for (int i = 0; i < BUFS; i++) {
        bool is_vector = i == W || i == B, is_parts = i == PARTS || i == DX_PARTS;
        bool is_known = is_parts || i == STATS || i == CUT_STATS;
        b->bufs[i] = (struct sn_buffer){.cls = SN_CLASS_TEMP,
                                        .rows = is_vector  ? 1
                                                : is_parts ? SLICES * T
                                                           : T,
                                        .cols = is_known ? b->width : D};
        (void)snprintf(b->bufs[i].name, sizeof(b->bufs[i].name), "buffer %d", i);
        b->first_held[i] = i;
    }
    b->program = (struct sn_program){.name = "bench", .bufs = b->bufs, .n_bufs = BUFS};
    b->rank = (struct sn_rank){.job = &b->job,
                               .program = &b->program,
                               .held = b->held,
                               .first_held = b->first_held,
                               .share_of = b->share_of};
    b->m = (struct sn_meaning){.rank = &b->rank,
                               .ranks = 1,
                               .spaces = {b->parent, SN_NSPACES},
                               .tokens = 4 * T,
                               .err = &b->err};
    hold_inputs(b);
}

static void fini(struct bench *b)
{
    for (int i = 0; i < BUFS; i++)
        sn_slabs_fini(&b->held[i]);
}

/* --- operations ------------------------------------------------------------------------------- */

/* Columns of a buffer. */
struct slice {
    int64_t first, n;
};
static const struct slice everything = {0, D};

static struct sn_view cut(const struct bench *b, int buf, struct slice c)
{
    return (struct sn_view){buf,         c.first, b->bufs[buf].rows, c.n, b->bufs[buf].cols,
                            SN_AT_FIXED, 0};
}

/* Block `first` of statistics, and those after it. */
static struct sn_view blocks(const struct bench *b, int buf, int first, int n)
{
    return (struct sn_view){
        buf, (int64_t)first * T * b->width, (int64_t)n * T, b->width, b->width, SN_AT_FIXED, 0};
}

static struct sn_op op_of(const struct bench *b, int layernorm, int rmsnorm)
{
    struct sn_op op = {.kind = b->is_layernorm ? layernorm : rmsnorm, .label = "norm"};
    op.attr.eps = 1e-5f;
    for (int i = 0; i < SN_MAX_IN; i++)
        op.in[i].buf = -1;
    for (int i = 0; i < SN_MAX_OUT; i++)
        op.out[i].buf = -1;
    return op;
}

static enum sn_status run(struct bench *b, const struct sn_op *op)
{
    const struct sn_visit s = {&b->m, &b->rank, op, 0, 0, 0, 0};
    return sn_rule_of(op->kind)(&s);
}

/* n_parts 0: the norm finds all that it needs itself. */
static enum sn_status norm(struct bench *b, struct slice c, int y, int stats, int n_parts)
{
    struct sn_op op = op_of(b, SN_OP_LAYERNORM, SN_OP_RMSNORM);
    op.in[SN_NORM_X] = cut(b, X, c);
    op.in[SN_NORM_W] = cut(b, W, c);
    if (b->is_layernorm)
        op.in[SN_NORM_B] = cut(b, B, c);
    if (n_parts > 0)
        op.in[SN_NORM_PARTS] = blocks(b, PARTS, 0, n_parts);
    op.out[SN_NORM_Y] = cut(b, y, c);
    op.out[SN_NORM_STATS] = blocks(b, stats, 0, 1);
    return run(b, &op);
}

static enum sn_status norm_dx(struct bench *b, struct slice c, int dx, int n_parts)
{
    struct sn_op op = op_of(b, SN_OP_LAYERNORM_DX, SN_OP_RMSNORM_DX);
    op.in[SN_NORM_DX_DY] = cut(b, DY, c);
    op.in[SN_NORM_DX_X] = cut(b, X, c);
    op.in[SN_NORM_DX_W] = cut(b, W, c);
    op.in[SN_NORM_DX_STATS] = blocks(b, STATS, 0, 1);
    op.in[SN_NORM_DX_ADDEND] = cut(b, ADDEND, c);
    if (n_parts > 0)
        op.in[SN_NORM_DX_PARTS] = blocks(b, DX_PARTS, 0, n_parts);
    op.out[SN_NORM_DX_DX] = cut(b, dx, c);
    return run(b, &op);
}

static enum sn_status part(struct bench *b, struct slice c, int x, int block)
{
    struct sn_op op = op_of(b, SN_OP_NORM_PART, SN_OP_NORM_PART);
    op.in[SN_NORM_PART_X] = cut(b, x, c);
    op.out[SN_NORM_PART_PART] = blocks(b, PARTS, block, 1);
    return run(b, &op);
}

static enum sn_status dx_part(struct bench *b, struct slice c, int dy, int block)
{
    struct sn_op op = op_of(b, SN_OP_NORM_DX_PART, SN_OP_NORM_DX_PART);
    op.in[SN_NORM_DX_PART_DY] = cut(b, dy, c);
    op.in[SN_NORM_DX_PART_X] = cut(b, X, c);
    op.in[SN_NORM_DX_PART_W] = cut(b, W, c);
    op.in[SN_NORM_DX_PART_STATS] = blocks(b, STATS, 0, 1);
    op.out[SN_NORM_DX_PART_PART] = blocks(b, DX_PARTS, block, 1);
    return run(b, &op);
}

/* --- programs of slices ----------------------------------------------------------------------- */

/* Which slices have a part, one after the other, and of which x and dy. */
struct text {
    const char *name;
    int x, dy;
    int n;
    struct slice block[SLICES];
    bool is_sound;
};

/* clang-format off */
static const struct text texts[] = {
    {"two slices", X, DY, 2, {{0, 4}, {4, 4}}, true},
    {"four slices, in another order", X, DY, 4, {{2, 2}, {0, 2}, {6, 2}, {4, 2}}, true},
    {"one slice of all features", X, DY, 1, {{0, 8}}, true},
    {"one slice of two", X, DY, 1, {{0, 4}}, false},
    {"the first slice twice", X, DY, 2, {{0, 4}, {0, 4}}, false},
    {"two slices, and the second again", X, DY, 3, {{0, 4}, {4, 4}, {4, 4}}, false},
    {"slices that overlap", X, DY, 2, {{0, 4}, {3, 4}}, false},
    {"slices of unequal length", X, DY, 2, {{0, 6}, {6, 2}}, false},
    {"three slices of four", X, DY, 3, {{0, 2}, {2, 2}, {4, 2}}, false},
    {"summands of all features", HALF_X, HALF_DY, 2, {{0, 8}, {0, 8}}, false},
};
/* clang-format on */

/* Do two buffers hold the same? */
static bool same(const struct bench *b, int one, int other)
{
    const struct sn_slabs *p = &b->held[one], *q = &b->held[other];
    if (p->n != 1 || q->n != 1)
        return false;
    const struct sn_slab *s = p->t, *t = q->t;
    bool good = s->at == t->at && s->rows == t->rows && s->cols == t->cols && s->value == t->value;
    for (int d = 0; d < SN_SLAB_DIMS; d++)
        good = good && s->space[d] == t->space[d] && s->first[d] == t->first[d];
    return good;
}

static enum sn_status forward(struct bench *b, const struct text *t)
{
    SN_TRY(norm(b, everything, Y, STATS, 0));
    for (int i = 0; i < t->n; i++)
        SN_TRY(part(b, t->block[i], t->x, i));
    for (int i = 0; i < 2; i++)
        SN_TRY(norm(b, (struct slice){i * D / 2, D / 2}, CUT_Y, CUT_STATS, t->n));
    return SN_OK;
}

static enum sn_status backward(struct bench *b, const struct text *t)
{
    SN_TRY(norm_dx(b, everything, DX, 0));
    for (int i = 0; i < t->n; i++)
        SN_TRY(dx_part(b, t->block[i], t->dy, i));
    for (int i = 0; i < 2; i++)
        SN_TRY(norm_dx(b, (struct slice){i * D / 2, D / 2}, CUT_DX, t->n));
    return SN_OK;
}

static void parts_are_those_of_all_slices_once(bool is_layernorm)
{
    const char *of = is_layernorm ? "layernorm" : "rmsnorm";
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        const struct text *t = &texts[i];
        const char *verdict = t->is_sound ? "proven" : "refuted";
        struct bench b;
        begin(&b, is_layernorm);
        bool ran = forward(&b, t) == SN_OK;
        tap_ok(ran && same(&b, Y, CUT_Y) == t->is_sound &&
                   same(&b, STATS, CUT_STATS) == t->is_sound,
               "%s of %s: %s", of, t->name, verdict);
        ran = backward(&b, t) == SN_OK;
        tap_ok(ran && same(&b, DX, CUT_DX) == t->is_sound, "gradient of %s of %s: %s", of, t->name,
               verdict);
        if (!ran)
            printf("# %s\n", b.err.text);
        fini(&b);
    }
}

static void parts_are_no_linear_functions(bool is_layernorm)
{
    struct bench b;
    begin(&b, is_layernorm);
    bool ran = norm(&b, everything, Y, STATS, 0) == SN_OK;
    ran = ran && part(&b, everything, HALF_X, 0) == SN_OK;
    ran = ran && part(&b, everything, MORE_X, 1) == SN_OK;
    ran = ran && norm(&b, everything, CUT_Y, CUT_STATS, 2) == SN_OK;
    tap_ok(ran && !same(&b, STATS, CUT_STATS), "parts whose inputs have x as their mean: refuted");
    ran = norm_dx(&b, everything, DX, 0) == SN_OK;
    ran = ran && dx_part(&b, everything, HALF_DY, 0) == SN_OK;
    ran = ran && dx_part(&b, everything, MORE_DY, 1) == SN_OK;
    ran = ran && norm_dx(&b, everything, CUT_DX, 2) == SN_OK;
    tap_ok(ran && !same(&b, DX, CUT_DX), "parts whose inputs have dy as their mean: refuted");
    fini(&b);
}

static void parts_of_other_rows_are_refuted(bool is_layernorm)
{
    static const struct slice half[] = {{0, D / 2}, {D / 2, D / 2}};
    struct bench b;
    begin(&b, is_layernorm);
    bool ran = part(&b, half[0], X, 0) == SN_OK && part(&b, half[1], LATER_X, 1) == SN_OK;
    tap_ok(ran && norm(&b, half[0], CUT_Y, CUT_STATS, 2) == SN_EFAIL,
           "parts of two micro-batches do not add up");
    printf("# %s\n", b.err.text);
    ran = part(&b, half[0], LATER_X, 0) == SN_OK;
    tap_ok(ran && norm(&b, half[0], CUT_Y, CUT_STATS, 2) == SN_EFAIL,
           "parts of another micro-batch are not the norm's");
    printf("# %s\n", b.err.text);
    fini(&b);
}

static void parts_of_no_rows_are_refuted(void)
{
    struct bench b;
    begin(&b, true);
    struct sn_op op = op_of(&b, SN_OP_LAYERNORM, SN_OP_RMSNORM);
    bool ran = part(&b, everything, X, 0) == SN_OK && part(&b, everything, X, 1) == SN_OK;
    op.in[SN_NORM_X] = cut(&b, X, everything);
    op.in[SN_NORM_W] = cut(&b, W, everything);
    op.in[SN_NORM_PARTS] = blocks(&b, PARTS, 0, 2);
    op.in[SN_NORM_PARTS].rows -= 1;
    op.out[SN_NORM_Y] = cut(&b, CUT_Y, everything);
    op.out[SN_NORM_STATS] = blocks(&b, CUT_STATS, 0, 1);
    tap_ok(ran && run(&b, &op) == SN_EFAIL, "parts are so many for each row");
    printf("# %s\n", b.err.text);
    fini(&b);
}

static void gradients_know_the_whole_row(bool is_layernorm)
{
    static const struct text two = {"", X, DY, 2, {{0, D / 2}, {D / 2, D / 2}}, true};
    struct bench b;
    begin(&b, is_layernorm);
    bool ran = forward(&b, &two) == SN_OK && backward(&b, &two) == SN_OK;
    uint64_t before = b.held[DX].t[0].value;
    tap_ok(ran && same(&b, DX, CUT_DX), "a gradient of two slices is that of the row");

    /* Only the other half of dy changes. */
    struct sn_slab half = b.held[DY].t[0];
    half.at = half.first[SN_SLAB_COLS] = D / 2;
    half.cols = D / 2;
    half.value = sn_field_of(99);
    sn_slabs_put(&b.held[DY], &b.m.spaces, &half);
    ran = norm_dx(&b, everything, DX, 0) == SN_OK;
    for (int i = 0; i < b.held[DX].n; i++)
        ran = ran && b.held[DX].t[i].value != before;
    tap_ok(ran && b.held[DX].n == 2, "a gradient depends on dy at all features of its row");
    fini(&b);
}

int main(void)
{
    for (int layernorm = 0; layernorm < 2; layernorm++) {
        parts_are_those_of_all_slices_once(layernorm);
        parts_are_no_linear_functions(layernorm);
        parts_of_other_rows_are_refuted(layernorm);
        gradients_know_the_whole_row(layernorm);
    }
    parts_of_no_rows_are_refuted();
    return tap_done();
}
