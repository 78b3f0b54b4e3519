/*
 * Segments that take turns (lib/program/turns.c): on every layout of the table whose schedule has
 * them do so each run of a segment is whole and in order; and of small programs the turns are within
 * 2 % of the best ones, which are found by trying all.
 */
#include "lib/base/mem.h"
#include "lib/config/config.h"
#include "lib/program/build.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <string.h>

static void set_rates(struct sn_config *c, double dear)
{
    c->layout.overlap = SN_OVERLAP_AUTO;
    c->overlap_rates = (struct sn_overlap_rates){.flops = 1e9, .bytes = 1e9};
    for (int q = 0; q < SN_NGROUPS; q++) {
        c->overlap_rates.start[q] = 1e-6 * dear;
        c->overlap_rates.link[q] = 1e9 / dear;
    }
}

/* --- a schedule with pieces ------------------------------------------------------------------- */

struct count {
    int lines, turns, torn, runs, expected, apart;
};

/* Each run's pieces follow one another, and a segment is run but by one at a time. */
static void count_runs(struct count *n, const struct sn_program *p)
{
    int *next = sn_alloc_n((size_t)p->n_segments, sizeof(*next)),
        *micro = sn_alloc_n((size_t)p->n_segments, sizeof(*micro));
    for (int s = 0; next && micro && s < p->n_segments; s++)
        next[s] = p->segments[s].first;
    for (int i = 0; next && micro && i < p->n_sched; i++) {
        const struct sn_sched *e = &p->sched[i];
        const struct sn_segment *s = &p->segments[e->segment];
        bool begins = e->first == s->first;
        n->turns += e->n < s->n;
        n->torn += next[e->segment] != e->first || (!begins && micro[e->segment] != e->micro);
        micro[e->segment] = e->micro;
        next[e->segment] = e->first + e->n;
        if (next[e->segment] == s->first + s->n) {
            next[e->segment] = s->first;
            n->runs++;
        }
    }
    for (int s = 0; s < p->n_segments; s++) {
        n->torn += !next || next[s] != p->segments[s].first;
        n->expected += sn_program_runs(p, s, SN_EVERY);
    }
    sn_free(next);
    sn_free(micro);
}

static void try_line(struct count *n, struct layouts_line *line)
{
    int ranks = sn_config_ranks(&line->config);
    uint64_t hash[16] = {0};
    struct sn_err err;
    set_rates(&line->config, 10);
    n->lines++;
    for (int r = 0; r < ranks; r++) {
        struct sn_model *model = NULL;
        struct sn_job *job = NULL;
        struct sn_job_env env = {.config = &line->config, .ops = sn_ops_cpu(), .threads = 1, .rank = r};
        bool good =
            sn_model_create(&model, &line->config.model, &line->config.train, &err) == SN_OK;
        env.model = model;
        if (good && sn_job_create(&job, &env, &err) == SN_OK) {
            uint64_t mine = sn_program_hash(&job->train), *all = &hash[job->stage % 16];
            n->apart += *all != 0 && *all != mine;
            *all = mine;
            count_runs(n, &job->train);
        } else
            n->torn++;
        sn_job_destroy(job);
        sn_model_destroy(model);
    }
}

static void runs_are_whole(void)
{
    struct count n = {0};
    struct sn_err err;
    struct layouts_line *line = sn_alloc(sizeof(*line));
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && line && layouts_next(f, line, &err) == 1)
        if (sn_schedule_traits(line->config.layout.schedule)->takes_turns)
            try_line(&n, line);
    if (f)
        (void)fclose(f);
    sn_free(line);
    tap_ok(n.lines >= 10 && n.turns > 1000, "%d layouts, %d pieces", n.lines, n.turns);
    tap_ok(n.torn == 0, "pieces of a run follow one another (%d do not)", n.torn);
    tap_ok(n.runs == n.expected, "%d runs, and as many are counted (%d)", n.runs, n.expected);
    tap_ok(n.apart == 0, "ranks of a stage take the same turns (%d do not)", n.apart);
}

/* --- the best turns of small programs --------------------------------------------------------- */

enum { OPS = 10 }; /* of each side */

struct small {
    struct sn_config config;
    struct sn_job job;
    int first[2], n[2];
    double best;
};

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (*state >> 33) % below;
}

/* A product of so many microseconds at a gigaflop a second, or a message as long. */
static void add_product(struct sn_program *p, int buf, int64_t us)
{
    struct sn_op *op = sn_op_add(p, SN_OP_GEMM, "product");
    op->in[0] = op->in[1] = op->out[0] = sn_view_all(p, buf);
    op->in[0].cols = op->in[1].cols = us * 500;
    op->in[1].ld = op->in[1].cols;
    op->out[0].cols = 1;
}

static int add_message(struct sn_program *p, int buf, int64_t us)
{
    struct sn_op op = sn_comm_op(SN_OP_ALL_REDUCE, SN_GROUP_TENSOR, "message");
    op.in[0] = op.out[0] = sn_view_all(p, buf);
    op.in[0].cols = op.out[0].cols = us * 250; /* fp32, of which two ranks send each all */
    return sn_op_append(p, &op);
}

/* Products, and messages that some of them wait for. */
static void add_side(struct small *s, int side, uint64_t *seed)
{
    struct sn_program *p = &s->job.train;
    int posted = -1;
    s->first[side] = p->n_ops;
    sn_segment_begin(p, side ? SN_SEGMENT_BACKWARD : SN_SEGMENT_FORWARD);
    while (p->n_ops < s->first[side] + OPS) {
        int buf = sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, 1, 1 << 20, "b");
        int64_t us = 50 + (int64_t)draw(seed, 200);
        if (posted >= 0 && draw(seed, 3) > 0) {
            sn_wait_add(p, posted);
            posted = -1;
        } else if (posted < 0 && draw(seed, 2) == 0)
            posted = add_message(p, buf, us);
        else
            add_product(p, buf, us);
    }
    sn_segments_close(p);
    s->n[side] = p->n_ops - s->first[side];
}

struct play {
    double now, free, done[2 * OPS + 8];
};

static void play_op(const struct small *s, struct play *y, int i)
{
    const struct sn_op *op = &s->job.train.ops[i];
    if (op->kind == SN_OP_WAIT)
        y->now = fmax(y->now, y->done[s->job.train.op_of_id[op->waits_for]]);
    else if (op->kind == SN_OP_GEMM)
        y->now += sn_order_kernel(&s->job, &s->job.train, op);
    else
        y->done[i] = y->free = fmax(y->free, y->now) + sn_order_message(&s->job, &s->job.train, op);
}

static void try_all(struct small *s, const struct play *y, int forward, int backward)
{
    if (y->now >= s->best)
        return;
    if (forward == s->n[0] && backward == s->n[1])
        s->best = y->now;
    for (int side = 0; side < 2; side++) {
        int done = side ? backward : forward;
        struct play next = *y;
        if (done == s->n[side])
            continue;
        play_op(s, &next, s->first[side] + done);
        try_all(s, &next, forward + !side, backward + side);
    }
}

static double play_pieces(const struct small *s, const struct sn_turns *turns)
{
    struct play y = {0};
    for (int k = 0; k < turns->n; k++)
        for (int i = 0; i < turns->piece[k].n; i++)
            play_op(s, &y, turns->piece[k].first + i);
    return y.now;
}

static void small_fini(struct small *s)
{
    struct sn_program *p = &s->job.train;
    void *const owned[] = {p->bufs, p->ops, p->op_of_id, p->segments, p->sched};
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        sn_free(owned[i]);
}

static void turns_are_as_good_as_any(void)
{
    int far = 0, hidden = 0;
    double worst = 1;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t state = seed;
        struct small s = {.best = INFINITY};
        struct sn_turns turns;
        set_rates(&s.config, 1);
        s.config.overlap_rates.bytes = 1e12;
        s.job.config = &s.config;
        s.job.train.micros = 1;
        for (int q = 0; q < SN_NGROUPS; q++)
            s.job.group_size[q] = 2;
        add_side(&s, 0, &state);
        add_side(&s, 1, &state);
        try_all(&s, &(struct play){0}, 0, 0);
        if (!sn_turns_find(&turns, &s.job, &s.job.train, (const int[]){0, 1}))
            far++;
        double found = play_pieces(&s, &turns);
        worst = fmax(worst, found / s.best);
        hidden += turns.n > 2;
        far += found > 1.02 * s.best;
        sn_free(turns.piece);
        small_fini(&s);
    }
    tap_ok(far == 0, "100 programs of seeds 1 to 100: turns within 2 %% of the best (%d are not)",
           far);
    tap_ok(hidden > 50, "in %d of them turns are taken; the worst is %.4f of the best", hidden,
           worst);
}

int main(void)
{
    runs_are_whole();
    turns_are_as_good_as_any();
    return tap_done();
}
