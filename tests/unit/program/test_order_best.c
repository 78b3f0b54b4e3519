/*
 * The pass that orders operations (lib/program/order.c) against the best order of small programs,
 * which is found by trying all that keep what touches the same buffer in its order.
 */
#include "lib/base/mem.h"
#include "lib/program/build.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <string.h>

enum { OPS = 14, BUFFER = 1 << 16 };

struct small {
    struct sn_config config;
    struct sn_job job;
    unsigned before[OPS]; /* of operation i of the text: those that have to come before it */
    double seconds[OPS], message[OPS];
    int waits_for[OPS]; /* operation of the text; -1 */
    double computing, best;
};

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (*state >> 33) % below;
}

/* --- a program -------------------------------------------------------------------------------- */

static int add_buffer(struct sn_program *p)
{
    return sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, 1, BUFFER, "b");
}

/* So large that no order takes twice the memory. */
static int add_large(struct sn_program *p)
{
    return sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, OPS, BUFFER, "large");
}

/* From one buffer to a new one, in so many microseconds at a gigaflop a second. */
static int add_product(struct sn_program *p, int from, int64_t us)
{
    int to = add_buffer(p);
    struct sn_op *op = sn_op_add(p, SN_OP_GEMM, "product");
    op->in[0] = op->in[1] = sn_view_all(p, from);
    op->out[0] = sn_view_all(p, to);
    op->in[0].rows = op->in[1].rows = 1;
    op->in[0].cols = op->in[1].cols = us * 500;
    op->in[1].ld = op->in[1].cols;
    op->out[0].cols = 1;
    return to;
}

/* The same as a message of two ranks that both send all, and its WAIT. */
static int add_message(struct sn_program *p, int from, int64_t us)
{
    int to = add_buffer(p);
    struct sn_op op = sn_comm_op(SN_OP_ALL_REDUCE, SN_GROUP_TENSOR, "message");
    op.in[0] = sn_view_all(p, from);
    op.out[0] = sn_view_all(p, to);
    op.in[0].rows = 1;
    op.in[0].cols = op.out[0].cols = us * 250; /* fp32 */
    sn_wait_add(p, sn_op_append(p, &op));
    return to;
}

/* Two chains of products and messages, and products whose results nobody waits for. */
static void fill(struct small *s, uint64_t *seed)
{
    struct sn_program *p = &s->job.train;
    int at[2] = {add_large(p), add_large(p)};
    sn_segment_begin(p, SN_SEGMENT_BACKWARD);
    while (p->n_ops < OPS) {
        int64_t us = 20 + (int64_t)draw(seed, 100);
        int chain = draw(seed, 4) == 0;
        switch (draw(seed, 3)) {
        case 0:
            at[chain] = add_product(p, at[chain], us);
            break;
        case 1:
            (void)add_product(p, (int)draw(seed, (uint64_t)p->n_bufs), us);
            break;
        default:
            if (p->n_ops + 2 <= OPS)
                at[chain] = add_message(p, at[chain], us);
        }
    }
    sn_segments_close(p);
}

static bool touches(const struct sn_program *p, const struct sn_op *op, int buf, bool writes)
{
    const struct sn_op *x = op->kind == SN_OP_WAIT ? sn_op_find(p, op->waits_for) : op;
    bool all = op->kind == SN_OP_WAIT;
    for (int k = 0; k < SN_MAX_IN; k++)
        if (x->in[k].buf == buf && (!writes || all))
            return true;
    for (int k = 0; k < SN_MAX_OUT; k++)
        if (x->out[k].buf == buf)
            return true;
    return false;
}

static bool in_conflict(const struct sn_program *p, const struct sn_op *a, const struct sn_op *b)
{
    for (int buf = 0; buf < p->n_bufs; buf++)
        if (touches(p, a, buf, false) && touches(p, b, buf, false) &&
            (touches(p, a, buf, true) || touches(p, b, buf, true)))
            return true;
    return false;
}

static void small_init(struct small *s, uint64_t seed)
{
    struct sn_program *p = &s->job.train;
    *s = (struct small){.best = INFINITY};
    s->config.layout.overlap = SN_OVERLAP_AUTO;
    s->config.overlap_rates = (struct sn_overlap_rates){.flops = 1e9, .bytes = 1e12};
    for (int q = 0; q < SN_NGROUPS; q++) {
        s->config.overlap_rates.link[q] = 1e9;
        s->job.group_size[q] = 2;
    }
    s->job.config = &s->config;
    p->micros = 1;
    fill(s, &seed);
    for (int i = 0; i < OPS; i++) {
        const struct sn_op *op = &p->ops[i];
        s->seconds[i] = sn_order_kernel(&s->job, p, op);
        s->message[i] = sn_op_is_posted(op) ? sn_order_message(&s->job, p, op) : 0;
        s->waits_for[i] = op->kind == SN_OP_WAIT ? p->op_of_id[op->waits_for] : -1;
        s->computing += s->seconds[i];
        for (int k = 0; k < i; k++)
            if (in_conflict(p, &p->ops[k], op))
                s->before[i] |= 1u << k;
    }
}

static void small_fini(struct small *s)
{
    struct sn_program *p = &s->job.train;
    void *const owned[] = {p->bufs, p->ops, p->op_of_id, p->segments, p->sched};
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        sn_free(owned[i]);
}

/* --- all orders ------------------------------------------------------------------------------- */

struct play {
    double now, free, computed, done[OPS];
};

static void play_op(const struct small *s, struct play *y, int i)
{
    if (s->waits_for[i] >= 0)
        y->now = fmax(y->now, y->done[s->waits_for[i]]);
    y->now += s->seconds[i];
    y->computed += s->seconds[i];
    if (s->message[i] > 0)
        y->done[i] = y->free = fmax(y->free, y->now) + s->message[i];
}

static void try_all(struct small *s, const struct play *y, unsigned placed)
{
    if (y->now + s->computing - y->computed >= s->best)
        return;
    if (placed == (1u << OPS) - 1)
        s->best = y->now;
    for (int i = 0; i < OPS; i++) {
        struct play next = *y;
        if (placed >> i & 1u || (s->before[i] & ~placed))
            continue;
        play_op(s, &next, i);
        try_all(s, &next, placed | 1u << i);
    }
}

/* As the program has its operations now, by their ids, which are their numbers in the text. */
static double play_program(const struct small *s)
{
    struct play y = {0};
    for (int i = 0; i < OPS; i++)
        play_op(s, &y, s->job.train.ops[i].id);
    return y.now;
}

static void orders_are_as_good_as_any(void)
{
    enum { SEEDS = 200 };
    int far = 0, won = 0;
    double worst = 1, sum = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct small s;
        small_init(&s, seed);
        double before = play_program(&s);
        try_all(&s, &(struct play){0}, 0);
        sn_pass_order(&s.job, &s.job.train);
        double found = play_program(&s);
        worst = fmax(worst, found / s.best);
        sum += found / s.best;
        far += found > 1.02 * s.best;
        won += found < 0.98 * before;
        if (found > 1.02 * s.best)
            printf("# seed %llu: %.4g us, the best order takes %.4g, the text's %.4g\n",
                   (unsigned long long)seed, found * 1e6, s.best * 1e6, before * 1e6);
        small_fini(&s);
    }
    tap_ok(far == 0,
           "%d programs: orders within 2 %% of the best (%d are not; mean %.4f, worst %.4f)", SEEDS,
           far, sum / SEEDS, worst);
    tap_ok(won > SEEDS / 4, "%d of them take less than before", won);
}

int main(void)
{
    orders_are_as_good_as_any();
    return tap_done();
}
