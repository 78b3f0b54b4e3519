/*
 * test_meaning_faults.c - faults planted at random in sound programs are refuted, by name.
 *
 * Each is of a kind that a compiler could make, and changes what is computed: an operation is
 * missing, or runs twice where it adds; it stands before what it depends on; an operand is another
 * buffer of the same shape, another slice of its own, or of another micro-batch; a number is wrong.
 */
#include "tests/lib/dice.h"
#include "tests/lib/layouts.h"
#include "tests/lib/meaning_test.h"
#include "tests/lib/tap.h"

#include "lib/program/opinfo.h"

#include <stdlib.h>
#include <string.h>

/* ALL=1: so many that a gap in the rules would show; else some of each kind. SEED=N:
 * others. */
enum { FAULTS = 200, ALL_FAULTS = 1000 };

/* A fault in the text of one rank: false if it cannot be planted at this operation. */
typedef bool plant(struct sn_program *p, int at, struct dice *d);

/* Take an operation out. */
static void take_out(struct sn_program *p, int at)
{
    for (int g = 0; g < p->n_segments; g++) {
        struct sn_segment *s = &p->segments[g];
        s->n -= at >= s->first && at < s->first + s->n;
        s->first -= s->first > at;
    }
    memmove(&p->ops[at], &p->ops[at + 1], (size_t)(p->n_ops - at - 1) * sizeof(*p->ops));
    p->n_ops--;
}

static bool computes(const struct sn_op *op)
{
    return !sn_op_communicates(op) && op->kind != SN_OP_ALIAS;
}

static bool missing(struct sn_program *p, int at, struct dice *d)
{
    (void)d;
    const struct sn_op *op = &p->ops[at];
    if (op->kind == SN_OP_AGREE || op->kind == SN_OP_ALIAS)
        return false;
    if (op->kind == SN_OP_WAIT) /* for what nothing is read of, and nothing overwritten */
        return false;
    take_out(p, at);
    return true;
}

static bool missing_weight_gradient(struct sn_program *p, int at, struct dice *d)
{
    (void)d;
    if (!p->ops[at].is_weight_grad || !computes(&p->ops[at]))
        return false;
    take_out(p, at);
    return true;
}

/* A sum gets a summand on every micro-batch, or on all but the first, whatever it was. */
static bool twice(struct sn_program *p, int at, struct dice *d)
{
    (void)d;
    struct sn_op *op = &p->ops[at];
    for (int o = 0; o < SN_MAX_OUT; o++)
        if (op->out[o].buf >= 0 && op->acc[o] == SN_ACC_FIRST_WRITES && p->micros > 1) {
            op->acc[o] = SN_ACC_WRITE;
            return true;
        }
    return false;
}

/* It runs before what it depends on. */
static bool too_early(struct sn_program *p, int at, struct dice *d)
{
    (void)d;
    struct sn_op *op = &p->ops[at];
    if (at == 0 || !computes(op))
        return false;
    for (int k = 0; k < SN_MAX_IN; k++)
        for (int o = 0; o < SN_MAX_OUT; o++)
            if (op->in[k].buf >= 0 && op->in[k].buf == op[-1].out[o].buf && computes(&op[-1]) &&
                op->in[k].offset == op[-1].out[o].offset) {
                struct sn_op t = *op;
                *op = op[-1];
                op[-1] = t;
                return true;
            }
    return false;
}

/* The operation that writes a buffer first. */
static const struct sn_op *maker_of(const struct sn_program *p, int buf)
{
    for (int i = 0; i < p->n_ops; i++)
        for (int k = 0; k < SN_MAX_OUT; k++)
            if (p->ops[i].out[k].buf == buf)
                return &p->ops[i];
    return NULL;
}

/* Statistics of two norms of one residual, as where attention and MLP are side by side. */
static bool hold_the_same(const struct sn_program *p, int a, int b)
{
    const struct sn_op *x = maker_of(p, a), *y = maker_of(p, b);
    return x && y && x->kind == y->kind && (x->kind == SN_OP_LAYERNORM || x->kind == SN_OP_RMSNORM) && x->in[0].buf == y->in[0].buf;
}

/* An input is another buffer of the same shape, in other memory. */
static bool other_buffer(struct sn_program *p, int at, struct dice *d)
{
    struct sn_op *op = &p->ops[at];
    int k = (int)roll(d, SN_MAX_IN);
    if (op->in[k].buf < p->n_state_bufs || !computes(op))
        return false;
    const struct sn_buffer *is = &p->bufs[op->in[k].buf];
    int from = (int)roll(d, p->n_bufs);
    for (int i = 0; i < p->n_bufs; i++) {
        int b = (from + i) % p->n_bufs;
        const struct sn_buffer *other = &p->bufs[b];
        if (b != op->in[k].buf && b >= p->n_state_bufs && other->rows == is->rows &&
            other->cols == is->cols && other->dtype == is->dtype && other->first >= 0 &&
            other->place != is->place && !hold_the_same(p, op->in[k].buf, b)) {
            op->in[k].buf = b;
            return true;
        }
    }
    return false;
}

/* Of a matrix that holds more than the operand, other rows or columns. */
static bool other_slice(struct sn_program *p, int at, struct dice *d)
{
    struct sn_op *op = &p->ops[at];
    int k = (int)roll(d, SN_MAX_IN);
    struct sn_view *v = &op->in[k];
    if (v->buf < 0 || !computes(op) || sn_op_row(op->kind)->cost == SN_COST_UPDATE)
        return false;
    const struct sn_buffer *b = &p->bufs[v->buf];
    if (v->cols < v->ld && v->ld == b->cols && v->rows > 1) {
        int64_t col = v->offset % v->ld;
        v->offset += col + v->cols < v->ld ? 1 : -1;
        return true;
    }
    if (v->rows < b->rows && v->ld == b->cols && v->index == SN_AT_FIXED) {
        v->offset += v->offset >= v->ld ? -v->ld : v->ld;
        return true;
    }
    return false;
}

static bool other_weight(struct sn_program *p, int at, struct dice *d)
{
    (void)d;
    struct sn_op *op = &p->ops[at];
    struct sn_view *v = &op->in[SN_GEMM_B];
    if (op->kind != SN_OP_GEMM || op->attr.gemm.trans_a || v->offset == 0)
        return false;
    v->offset -= v->ld;
    return v->offset >= 0;
}

static bool other_number(struct sn_program *p, int at, struct dice *d)
{
    (void)d;
    int starts;
    struct sn_attr *a = &p->ops[at].attr;
    switch (p->ops[at].kind) {
    case SN_OP_ATTENTION:
    case SN_OP_ATTENTION_DX: /* where documents are apart: they see each other */
        starts = p->ops[at].kind == SN_OP_ATTENTION ? SN_ATTENTION_STARTS : SN_ATTENTION_DX_STARTS;
        if (p->ops[at].in[starts].buf >= 0)
            p->ops[at].in[starts] = (struct sn_view){.buf = -1};
        else
            a->attention.scale *= 2;
        return true;
    case SN_OP_RMSNORM:
    case SN_OP_LAYERNORM:
        a->eps *= 2;
        return true;
    case SN_OP_ROPE:
        a->inverse = !a->inverse;
        return true;
    case SN_OP_ADAMW:
        a->optimizer.decay += 0.5f;
        return true;
    case SN_OP_CROSS_ENTROPY: /* where losses are told by set: rows of one as another's */
        if (p->ops[at].in[SN_CROSS_ENTROPY_SETS].buf >= 0)
            p->ops[at].in[SN_CROSS_ENTROPY_SETS].buf = p->ops[at].in[SN_CROSS_ENTROPY_TARGETS].buf;
        else
            a->vocab.first += 3;
        return true;
    case SN_OP_ACT:
        a->act = !a->act;
        return true;
    default:
        return false;
    }
}

static bool other_positions(struct sn_program *p, int at, struct dice *d)
{
    (void)d;
    struct sn_attr *a = &p->ops[at].attr;
    if (a->position.context < 2)
        return false;
    if (p->ops[at].kind == SN_OP_ROPE)
        a->position.context_rank = (a->position.context_rank + 1) % a->position.context;
    else if (p->ops[at].kind == SN_OP_ATTENTION || p->ops[at].kind == SN_OP_ATTENTION_DX)
        a->position.key_rank = (a->position.key_rank + 1) % a->position.context;
    else
        return false;
    return true;
}

static bool other_micro_batch(struct sn_program *p, int at, struct dice *d)
{
    struct sn_view *v = &p->ops[at].in[roll(d, SN_MAX_IN)];
    if (v->buf < 0 || v->index != SN_AT_MICRO || p->micros < 2)
        return false;
    v->stride = 0;
    return true;
}

/* Does what an operation does here tell micro-batch a from b: that it runs, where it reads or writes, whether it adds, or by
 * whose samples it draws? */
static bool tells(const struct sn_op *op, int a, int b, int last)
{
    bool tells = (op->when == SN_FIRST && (a == 0 || b == 0)) ||
                 (op->when == SN_LAST && (a == last || b == last));
    if (op->when != SN_EVERY)
        return tells;
    tells = op->kind == SN_OP_DROPOUT || op->kind == SN_OP_ATTENTION || op->kind == SN_OP_ATTENTION_DX;
    for (int k = 0; k < SN_MAX_IN; k++)
        tells = tells || (op->in[k].buf >= 0 && op->in[k].index == SN_AT_MICRO);
    for (int k = 0; k < SN_MAX_OUT; k++)
        tells = tells || (op->out[k].buf >= 0 && op->out[k].index == SN_AT_MICRO) ||
                (op->acc[k] == SN_ACC_FIRST_WRITES && (a == 0 || b == 0));
    return tells;
}

/* A micro-batch's entry of the schedule is of another one. */
static bool other_entry(struct sn_program *p, int at, struct dice *d)
{
    (void)at;
    struct sn_sched *s = &p->sched[roll(d, p->n_sched)];
    enum sn_segment_kind k = p->segments[s->segment].kind;
    if (p->micros < 2 || (k != SN_SEGMENT_FORWARD && k != SN_SEGMENT_BACKWARD))
        return false;
    int before = s->micro;
    s->micro = (s->micro + 1) % p->micros;
    for (int i = s->first; i < s->first + s->n; i++)
        if (tells(&p->ops[i], before, s->micro, p->micros - 1))
            return true;
    return false; /* a piece of products on temporaries, or of waits */
}

static bool other_group(struct sn_program *p, int at, struct dice *d)
{
    (void)d;
    struct sn_op *op = &p->ops[at];
    if (!sn_op_row(op->kind)->is_sum || op->when != SN_LAST)
        return false;
    op->when = SN_FIRST;
    return p->micros > 1;
}

static bool transposed(struct sn_program *p, int at, struct dice *d)
{
    (void)d;
    struct sn_op *op = &p->ops[at];
    if (op->kind != SN_OP_GEMM || op->in[SN_GEMM_B].rows != op->in[SN_GEMM_B].cols ||
        op->attr.gemm.trans_a)
        return false;
    op->attr.gemm.trans_b = !op->attr.gemm.trans_b;
    return true;
}

/* A codec that takes other shares of the values, or sums others. */
static bool other_streams(struct sn_program *p, int at, struct dice *d)
{
    struct sn_op *op = &p->ops[at];
    bool encodes = op->kind == SN_OP_ENCODE, decodes = op->kind == SN_OP_DECODE;
    if ((!encodes && !decodes) || op->attr.blocks_a < 2)
        return false;
    if (decodes && roll(d, 2)) {
        if (op->out[SN_DECODE_Y].rows * op->out[SN_DECODE_Y].cols <= op->attr.stream.share)
            return false; /* a sum that is a hand-over has no room for more */
        op->attr.inverse = !op->attr.inverse;
        return true;
    }
    if (op->attr.blocks_b <= 1 || (op->attr.blocks_b == op->attr.blocks_a && !op->attr.inverse))
        return false; /* they are in order, however many go to each */
    op->attr.blocks_b = 1;
    return true;
}

/* clang-format off */
static const struct {
    const char *name;
    plant *plant;
    bool everywhere; /* in the text of all ranks alike */
} kinds[] = {
    {"a missing operation", missing, true},
    {"a missing weight gradient", missing_weight_gradient, true},
    {"a sum that forgets", twice, true},
    {"an operation before its input", too_early, true},
    {"another buffer", other_buffer, true},
    {"another slice", other_slice, true},
    {"another weight", other_weight, true},
    {"another number", other_number, true},
    {"other positions", other_positions, false},
    {"another micro-batch", other_micro_batch, true},
    {"another entry of the schedule", other_entry, true},
    {"a sum at another time", other_group, true},
    {"a transposed weight", transposed, true},
    {"other streams", other_streams, true},
};
/* clang-format on */
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/* Does any rank of a stage run this operation? */
static bool is_run(const struct verify_world *w, int stage, const struct sn_op *op)
{
    const struct sn_grid *g = &w->jobs[0]->grid;
    for (int i = 0; i < w->ranks; i++) {
        bool runs = sn_grid_coord(g, i, SN_AXIS_PIPELINE) == stage;
        for (int q = 0; q < SN_NGROUPS; q++)
            runs = runs && !(op->only >> q & 1u && sn_group_index(g, i, (enum sn_group)q) > 0);
        if (runs)
            return true;
    }
    return false;
}

/* The ranks with the text of this one: those of its stage. */
static bool plant_fault(struct verify_world *w, int kind, int rank, struct dice *d, char *where)
{
    struct dice before = *d;
    const struct sn_grid *g = &w->jobs[0]->grid;
    int stage = sn_grid_coord(g, rank, SN_AXIS_PIPELINE);
    int at = (int)roll(d, w->spoilt[rank].n_ops);
    const struct sn_op *op = &w->spoilt[rank].ops[at];
    if (!is_run(w, stage, op))
        return false;
    (void)snprintf(where, 128, "rank %d: %s '%s' (%d)", rank, sn_op_name(op->kind), op->label, at);
    for (int i = 0; i < w->ranks; i++) {
        bool same =
            kinds[kind].everywhere ? sn_grid_coord(g, i, SN_AXIS_PIPELINE) == stage : i == rank;
        if (!same)
            continue;
        *d = before;
        at = (int)roll(d, w->spoilt[i].n_ops);
        if (!kinds[kind].plant(&w->spoilt[i], at, d))
            return false;
    }
    return true;
}

static void restore(struct verify_world *w)
{
    for (int i = 0; i < w->ranks; i++) {
        struct sn_program *p = &w->spoilt[i];
        const struct sn_program *from = &w->jobs[i]->train;
        p->n_ops = from->n_ops;
        memcpy(p->ops, from->ops, (size_t)from->n_ops * sizeof(*p->ops));
        memcpy(p->sched, from->sched, (size_t)from->n_sched * sizeof(*p->sched));
        memcpy(p->segments, from->segments, (size_t)from->n_segments * sizeof(*p->segments));
    }
}

struct count {
    int planted[KINDS], refuted[KINDS], hangs;
};

static void try_fault(struct verify_world *w, const char *name, struct dice *d, struct count *c)
{
    char where[128] = "";
    struct sn_err err = {0};
    bool planted = false;
    int kind = (int)roll(d, KINDS), rank = (int)roll(d, w->ranks);
    for (int i = 0; i < 100 && !planted; i++) {
        planted = plant_fault(w, kind, rank, d, where);
        if (!planted)
            restore(w);
    }
    if (planted) {
        c->planted[kind]++;
        bool hangs = verify_all(w, true, &err) == SN_EFAIL;
        bool refuted = meaning_of(w, true, &err) == SN_EFAIL;
        c->hangs += hangs && !refuted;
        c->refuted[kind] += refuted || hangs;
        if (!refuted && !hangs)
            printf("# not refuted: %s: %s: %s\n", name, kinds[kind].name, where);
    }
    restore(w);
}

struct table {
    const char *path;
    bool coded;
};

static int next_of(const struct table *t, FILE *f, struct layouts_line *line, struct sn_err *err)
{
    char kind[LAYOUTS_KIND];
    return t->coded ? layouts_next_coded(f, kind, line, err) : layouts_next(f, line, err);
}

static int planted_in_all(const struct count *c)
{
    int total = 0;
    for (int k = 0; k < KINDS; k++)
        total += c->planted[k];
    return total;
}

/* Three faults in each line of a table, or in every fourth. */
static void try_table(const struct table *t, struct dice *d, struct count *c, int due, bool some)
{
    struct sn_err err = {0};
    struct layouts_line line;
    FILE *f = fopen(t->path, "r");
    while (f && planted_in_all(c) < due && next_of(t, f, &line, &err) > 0) {
        struct verify_world w;
        bool skips = some && roll(d, 4) > 0;
        if (skips || sn_meaning_gap(&line.config))
            continue;
        if (verify_world_compile(&w, &line.config))
            for (int i = 0; i < 3; i++)
                try_fault(&w, line.name, d, c);
        verify_world_fini(&w);
    }
    if (f)
        (void)fclose(f);
}

/* Matrices from hidden to hidden that no rank cuts: rows and columns are told apart by how they are read alone. */
static void squares_are_held(const struct table *t)
{
    struct sn_err err = {0};
    struct layouts_line line;
    int planted = 0, refuted = 0;
    FILE *f = fopen(t->path, "r");
    while (f && planted == 0 && next_of(t, f, &line, &err) > 0) {
        struct verify_world w;
        if (strcmp(line.name, "mtp") != 0)
            continue;
        if (verify_world_compile(&w, &line.config))
            for (int rank = w.ranks - 1, at = 0; at < w.spoilt[rank].n_ops; at++)
                if (transposed(&w.spoilt[rank], at, NULL)) {
                    planted++;
                    refuted += meaning_of(&w, true, &err) == SN_EFAIL;
                    restore(&w);
                }
        verify_world_fini(&w);
    }
    if (f)
        (void)fclose(f);
    tap_ok(planted > 3 && refuted == planted,
           "a transposed matrix that none cuts: %d of %d are refuted", refuted, planted);
}

int main(void)
{
    static const struct table tables[] = {{"tests/equiv/layouts", false},
                                          {"tests/equiv/compress", true}};
    struct count c = {{0}, {0}, 0};
    const char *seed = getenv("SEED");
    struct dice d = {seed ? strtoull(seed, NULL, 10) : 20261126, 0};
    int due = getenv("ALL") ? ALL_FAULTS : FAULTS;
    bool some = due == FAULTS;
    for (int round = 0; planted_in_all(&c) < due && round < 50; round++) {
        try_table(&tables[0], &d, &c, due * 3 / 4, some);
        try_table(&tables[1], &d, &c, due, false);
    }
    for (int k = 0; k < KINDS; k++)
        tap_ok(c.planted[k] > 0 && c.refuted[k] == c.planted[k], "%s: %d of %d are refuted",
               kinds[k].name, c.refuted[k], c.planted[k]);
    squares_are_held(&tables[1]);
    int total = planted_in_all(&c);
    tap_ok(total >= due, "%d faults were planted; %d are hangs and nothing else", total, c.hangs);
    return tap_done();
}
