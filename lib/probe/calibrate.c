/*
 * calibrate.c - kernels of a compiled step, timed where they stand.
 */
#include "lib/probe/calibrate.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/cost/price.h"
#include "lib/exec/exec.h"
#include "lib/program/opinfo.h"
#include "lib/state/weights.h"

#include <math.h>
#include <string.h>

enum { MOST_ROUNDS = 64, COPIES = 7 };

/* --- the other ranks -----------------------------------------------------------------------------
 *
 * They would hold what this rank holds: gathers repeat the own block, sums stay as they are, what
 * is received is what lies there. So numbers stay finite and memory is touched as in a run.
 */

struct stand_in {
    struct sn_comm base;
    const struct sn_job *job;
};

static void repeat(const struct sn_transfer *t, int size, int index, int64_t block)
{
    char *out = t->out;
    const char *own = t->in;
    for (int i = 0; i < size; i++) {
        char *to = out + i * block;
        if (to != own && !(own == out && i == index))
            memmove(to, own, (size_t)block);
    }
}

static sn_request stand_in_post(struct sn_comm *c, const struct sn_transfer *t)
{
    const struct sn_job *j = ((struct stand_in *)(void *)c)->job;
    int size = j->group_size[t->group], index = j->group_index[t->group];
    int64_t block = t->n * (int64_t)sn_dtype_size(t->dtype);
    if (size == 1)
        (void)sn_comm_copy_alone(t); /* what is measured need not be right */
    else if (t->kind == SN_ALL_GATHER)
        repeat(t, size, index, block);
    else if (t->kind == SN_ALL_TO_ALL)
        memmove(t->out, t->in, (size_t)(block * size));
    else if (t->kind == SN_REDUCE_SCATTER && !t->add)
        memmove(t->out, (const char *)t->in + index * block, (size_t)block);
    return 0;
}

static enum sn_status stand_in_wait(struct sn_comm *c, sn_request t, struct sn_err *err)
{
    (void)c, (void)t, (void)err;
    return SN_OK;
}

static enum sn_status stand_in_drain(struct sn_comm *c, struct sn_err *err)
{
    (void)c, (void)err;
    return SN_OK;
}

static enum sn_status stand_in_agree(struct sn_comm *c, enum sn_status mine, struct sn_err *err)
{
    (void)c, (void)err;
    return mine;
}

static void stand_in_take_sent_bytes(struct sn_comm *c, int64_t bytes[SN_NAXES])
{
    (void)c, (void)bytes;
}

static const struct sn_comm_ops stand_in_ops = {.name = "stand-in",
                                                .post = stand_in_post,
                                                .wait = stand_in_wait,
                                                .drain = stand_in_drain,
                                                .agree = stand_in_agree,
                                                .take_sent_bytes = stand_in_take_sent_bytes};

/* --- a round ---------------------------------------------------------------------------------- */

/* Of one operation of the program: this round, and the mean of each round. */
struct watched {
    double seconds;
    int runs;
    double mean[MOST_ROUNDS];
};

struct replay {
    const struct sn_job *job;
    struct stand_in comm;
    struct sn_accelerator place; /* its device may have no channels: the others are made up */
    struct sn_exec *exec;
    int64_t *first_sample;
    struct watched *op; /* by id */
    double *total;      /* seconds of all kernels of a round */
    double now;
    int rounds;
};

static void add_seconds(void *arg, const struct sn_op *op, double seconds)
{
    struct replay *r = arg;
    if (op->kind >= SN_NKERNELS)
        return;
    r->op[op->id].seconds += seconds;
    r->op[op->id].runs++;
    r->now += seconds;
}

static void end_round(struct replay *r)
{
    for (int i = 0; i < r->job->train.next_id; i++) {
        struct watched *w = &r->op[i];
        w->mean[r->rounds] = w->runs ? w->seconds / w->runs : 0;
        w->seconds = 0;
        w->runs = 0;
    }
    r->total[r->rounds++] = r->now;
    r->now = 0;
}

static enum sn_status run_round(struct replay *r, struct sn_err *err)
{
    struct sn_scalars *s = sn_exec_scalars(r->exec);
    s->step++;
    s->loss_sum = s->sq_norm = 0;
    s->nonfinite = 0;
    s->lr = 0; /* the weights stay */
    SN_TRY(sn_exec_run(r->exec, &r->job->train, r->first_sample, err));
    if (!s->ok)
        return sn_fail(
            err, SN_EFAIL,
            "calibrate: the gradients of a made-up step are not finite; this is a defect "
            "of sennit");
    return SN_OK;
}

/* --- before and after ------------------------------------------------------------------------- */

static void fill_batch(struct replay *r)
{
    const struct sn_job *j = r->job;
    int32_t *ids = sn_exec_address(r->exec, &j->train, j->ids);
    int32_t *targets = sn_exec_address(r->exec, &j->train, j->targets);
    uint64_t vocab = (uint64_t)j->config->model.vocab;
    for (int64_t i = 0; i < j->rows * j->train.micros; i++) {
        ids[i] = (int32_t)(sn_rng_bits(5, (uint64_t)i) % vocab);
        targets[i] = (int32_t)(sn_rng_bits(6, (uint64_t)i) % vocab);
    }
    struct sn_scalars *s = sn_exec_scalars(r->exec);
    s->seed = j->config->run.seed;
    s->loss_scale = 1;
    s->clip = (float)j->config->train.optimizer.clip;
    s->tokens_in_step = s->targets_in_step = (double)(j->rows * j->train.micros);
}

static enum sn_status make_weights(struct replay *r, struct sn_err *err)
{
    struct sn_state s;
    SN_TRY(sn_state_create(&s, r->exec, r->job, err));
    enum sn_status st = sn_weights_init(&s, r->job, err);
    sn_state_fini(&s);
    SN_TRY(st);
    SN_TRY(sn_exec_push(r->exec, err));
    return sn_weights_publish(r->exec, r->job, &r->comm.base, err);
}

static void fini(struct replay *r)
{
    sn_exec_destroy(r->exec);
    sn_free(r->first_sample);
    sn_free(r->op);
    sn_free(r->total);
}

static enum sn_status init(struct replay *r, const struct sn_job *j, struct sn_accelerator *a,
                           struct sn_err *err)
{
    *r = (struct replay){.job = j,
                         .comm = {{.ops = &stand_in_ops, .rank = j->rank}, j},
                         .first_sample = sn_alloc_n((size_t)j->train.micros, sizeof(int64_t)),
                         .op = sn_alloc_n((size_t)j->train.next_id + 1, sizeof(*r->op)),
                         .total = sn_alloc_n(MOST_ROUNDS, sizeof(*r->total))};
    enum sn_status st = SN_OK;
    if (a)
        r->place = *a;
    r->place.is_shared = true;
    if (!r->first_sample || !r->op || !r->total)
        st = sn_fail(err, SN_ENOMEM, "calibrate: no memory for %d operations", j->train.n_ops);
    if (st == SN_OK)
        st = sn_exec_create_on(&r->exec, j, &r->comm.base, a ? &r->place : NULL, err);
    if (st == SN_OK)
        st = make_weights(r, err);
    if (st == SN_OK)
        st = sn_exec_set_report(r->exec, add_seconds, r, err);
    if (st == SN_OK)
        fill_batch(r);
    else
        fini(r);
    return st;
}

/* --- samples ---------------------------------------------------------------------------------- */

static double median(double *t, int n)
{
    for (int i = 1; i < n; i++) /* few: insertion sort */
        for (int k = i; k > 0 && t[k - 1] > t[k]; k--) {
            double x = t[k];
            t[k] = t[k - 1];
            t[k - 1] = x;
        }
    return n % 2 ? t[n / 2] : (t[n / 2 - 1] + t[n / 2]) / 2;
}

/* How often an operation ran a round is known from the schedule; medians of parts do not add up to
 * the median of the whole, so they are scaled to it. */
static enum sn_status add_samples(struct sn_samples *out, struct replay *r, struct sn_err *err)
{
    const struct sn_program *p = &r->job->train;
    double whole = median(r->total, r->rounds), parts = 0;
    for (int c = 0; c < p->n_segments; c++)
        for (int i = p->segments[c].first; i < p->segments[c].first + p->segments[c].n; i++) {
            struct watched *w = &r->op[p->ops[i].id];
            w->seconds = median(w->mean, r->rounds);
            w->runs = sn_program_runs(p, c, p->ops[i].when);
            parts += w->seconds * w->runs;
        }
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        const struct watched *w = &r->op[op->id];
        bool codes = sn_op_row(op->kind)->codes; /* calibrate_codecs.h */
        if (op->kind >= SN_NKERNELS || codes || w->runs == 0 || !(w->seconds > 0))
            continue;
        struct sn_sample s = {.flops = sn_op_flops(op),
                              .bytes = sn_op_bytes(p, op),
                              .seq = op->attr.position.seq,
                              .weight = w->runs};
        sn_price_key(p, op, &s.what);
        s.what.seconds = w->seconds * whole / parts;
        SN_TRY(sn_samples_add(out, &s, err));
    }
    return SN_OK;
}

enum sn_status sn_calibrate_job(struct sn_samples *out, const struct sn_job *job,
                                struct sn_accelerator *a, const struct sn_calibrate_turn *turn,
                                struct sn_err *err)
{
    struct replay r;
    SN_TRY(init(&r, job, a, err));
    enum sn_status st = run_round(&r, err); /* page tables, caches, thread pools */
    r.now = 0;
    for (int i = 0; i < job->train.next_id; i++)
        r.op[i] = (struct watched){0};
    double began = sn_clock();
    for (int n = 0; st == SN_OK && turn->more(turn->arg, n, sn_clock() - began); n++) {
        st = run_round(&r, err);
        if (r.rounds == MOST_ROUNDS) /* enough: keep the machine busy */
            r.rounds--;
        end_round(&r);
    }
    if (st == SN_OK && out && r.rounds > 0)
        st = add_samples(out, &r, err);
    fini(&r);
    return st;
}

/* --- memory ----------------------------------------------------------------------------------- */

enum sn_status sn_calibrate_bandwidth(double *out, const struct sn_ops *ops, int threads,
                                      struct sn_err *err)
{
    size_t half = (size_t)64 << 20;
    char *memory = sn_arena_map(2 * half);
    if (!memory)
        return sn_fail(err, SN_ENOMEM, "calibrate: no memory for a copy of 64 MiB");
    int64_t n = (int64_t)(half / sizeof(float));
    struct sn_args a = {.in = {{memory, SN_F32, 1, n, n}},
                        .out = {{memory + half, SN_F32, 1, n, n}}};
    double t[COPIES];
    int rc = 0;
    for (int i = 0; i < COPIES; i++) {
        double began = sn_clock();
        rc |= ops->run[SN_OP_COPY](&a, threads);
        t[i] = sn_clock() - began;
    }
    sn_arena_unmap(memory, 2 * half);
    if (rc)
        return sn_fail(err, SN_EFAIL, "calibrate: the %s backend cannot copy", ops->name);
    *out = 2 * (double)half / median(t, COPIES);
    return SN_OK;
}

enum { DEVICE_COPY = 256 << 20 }; /* bytes; five times the largest cache */

static enum sn_status time_copies(double *out, struct sn_accelerator *a, const struct sn_args *args,
                                  struct sn_err *err)
{
    double t[COPIES];
    int rc = a->ops->make_clocks(a->device, 2 * COPIES);
    for (int i = 0; i < COPIES && rc == 0; i++) {
        rc = a->ops->stamp(a->device, 0, 2 * i);
        rc = rc ? rc : a->ops->run(a->device, 0, SN_OP_COPY, args);
        rc = rc ? rc : a->ops->stamp(a->device, 0, 2 * i + 1);
    }
    if (rc)
        return sn_fail(err, SN_EFAIL, "calibrate: %s", a->ops->explain(a->device));
    SN_TRY(sn_accelerator_wait(a, "calibrate", err));
    for (int i = 0; i < COPIES; i++)
        if (a->ops->between(a->device, 2 * i, 2 * i + 1, &t[i]) != 0)
            return sn_fail(err, SN_EFAIL, "calibrate: %s", a->ops->explain(a->device));
    *out = median(t, COPIES);
    return SN_OK;
}

enum sn_status sn_calibrate_device_bandwidth(double *out, struct sn_accelerator *a,
                                             struct sn_err *err)
{
    int64_t fitting = a->info.bytes / 16, bytes = fitting < DEVICE_COPY ? fitting : DEVICE_COPY;
    int64_t n = bytes / (int64_t)sizeof(float);
    void *from = NULL, *to = NULL;
    double seconds = 0;
    if (a->ops->alloc(a->device, (size_t)bytes, &from) != 0 ||
        a->ops->alloc(a->device, (size_t)bytes, &to) != 0) {
        sn_accelerator_release(a, from);
        return sn_fail(err, SN_ENOMEM, "calibrate: %s", a->ops->explain(a->device));
    }
    struct sn_args args = {.in = {{from, SN_F32, 1, n, n}}, .out = {{to, SN_F32, 1, n, n}}};
    enum sn_status st = time_copies(&seconds, a, &args, err);
    sn_accelerator_release(a, from);
    sn_accelerator_release(a, to);
    if (st == SN_OK)
        *out = 2 * (double)bytes / seconds;
    return st;
}
