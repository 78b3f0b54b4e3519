/*
 * exec_host.c - the executor on this processor: what a call does is done when it returns, but for
 * communication, which the communicator moves between its post and its WAIT.
 *
 * The arenas are memory of this process, so that nothing is copied, pulled or pushed. A rank that
 * is paced (pace.h) communicates, and sleeps where it would compute.
 */
#include "lib/exec/exec_inner.h"

#include "kernels/codec.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <string.h>

static enum sn_status create(struct sn_exec *x, struct sn_accelerator *a, struct sn_err *err)
{
    const struct sn_job *job = x->job;
    char size[16];
    (void)a; /* there is none */
    bool fits = true;
    for (int i = 0; i < SN_NARENAS; i++) {
        x->arena[i] = x->here[i] = sn_arena_map((size_t)job->arena_bytes[i]);
        fits = fits && x->arena[i];
    }
    x->small = x->here[SN_ARENA_STATE];
    if (!fits)
        return sn_fail(err, SN_ENOMEM,
                       "executor: this rank cannot map the %s that the plan asks for; lower "
                       "layout.micro_batch or use more ranks",
                       sn_str_bytes(size, sn_job_arena_bytes(job)));
    return SN_OK;
}

static void destroy(struct sn_exec *x)
{
    for (int i = 0; i < SN_NARENAS; i++)
        sn_arena_unmap(x->arena[i], (size_t)x->job->arena_bytes[i]);
}

/* For what is a device's alone. */
static enum sn_status nothing(struct sn_exec *x, struct sn_err *err)
{
    (void)x;
    (void)err;
    return SN_OK;
}

/* --- communication ---------------------------------------------------------------------------- */

/* Whose rows go where. */
static struct sn_exchange exchange_of(const struct sn_exec *x, const struct sn_program *p,
                                      const struct sn_op *op, const struct sn_at *at)
{
    bool balanced = x->pace.on; /* nothing was computed */
    return sn_exec_exchange(x, op, at,
                            balanced ? NULL : sn_exec_resolve(x, p, &op->in[SN_MOVE_BOUNDS], at).p);
}

/* Bytes that go of n streams where they lie, `room` apart. */
static int64_t used(const struct sn_transfer *t, const char *streams, int64_t n, int64_t room)
{
    int64_t bytes = 0, length;
    if (!t->sized)
        return n * room;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&length, streams + i * room, sizeof(length));
        bytes += sn_collective_sized(length);
    }
    return bytes;
}

/* What leaves beside the plan: streams are of another level, or as long as their
 * values let them. */
static void count_coded(struct sn_exec *x, const struct sn_op *op, const struct sn_transfer *t)
{
    enum sn_collective kind;
    int64_t planned, size = x->job->group_size[op->group], mine = x->job->group_index[op->group];
    int64_t room = sn_coded_bytes(&op->attr.stream.codec[sn_exec_codec_level(x, op)],
                                  op->attr.stream.type, op->attr.stream.share);
    if (op->kind == SN_OP_RECV || !sn_op_collective(op, &kind, &planned))
        return;
    int64_t sent = used(t, t->in, t->n / room, room),
            others = op->kind == SN_OP_SEND ? 1 : size - 1;
    if (op->kind == SN_OP_ALL_TO_ALL) {
        const char *own = (const char *)t->in + mine * t->n;
        sent = used(t, t->in, size * t->n / room, room) - used(t, own, t->n / room, room);
        others = 1;
        planned *= size - 1;
    } else {
        planned *= others;
    }
    x->off_plan[sn_group_axis(op->group)] += sent * others - planned;
    x->off_unreported[sn_group_axis(op->group)] += sent * others - planned;
}

/* The communicator takes it from here. */
static void post(struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                 const struct sn_at *at)
{
    struct sn_transfer t = sn_exec_transfer(x, p, op, at);
    struct sn_op_requests *requests = &x->requests[sn_exec_request_place(x, op, op->id, at->slot)];
    *requests = (struct sn_op_requests){.request = {0, 0}};
    if (op->is_coded)
        count_coded(x, op, &t);
    if (sn_exec_has_rows(op)) {
        requests->exchange = exchange_of(x, p, op, at);
        sn_exec_take_rows(x, op, &t, requests);
    }
    if (sn_op_row(op->kind)->takes_input) { /* it may be gone before the wait */
        if (t.in != t.out)
            memcpy(t.out, t.in, (size_t)t.n * sn_dtype_size(t.dtype));
        t.in = NULL;
    }
    sn_exec_post(x, op, &t, requests);
}

/* --- operations ------------------------------------------------------------------------------- */

static enum sn_status run_kernel(struct sn_exec *x, const struct sn_op *op, int kernel,
                                 const struct sn_args *a, struct sn_err *err)
{
    int rc = x->job->ops->run[kernel](a, x->job->threads);
    if (rc != 0 && sn_op_row(op->kind)->codes)
        return sn_fail(err, SN_EFAIL, "%s %s: %s", sn_op_name(op->kind), op->label,
                       sn_codec_explain((enum sn_codec_fault)rc));
    if (rc != 0)
        return sn_fail(err, SN_EFAIL, "%s %s: the %s backend failed with code %d",
                       sn_op_name(op->kind), op->label, x->job->ops->name, rc);
    return SN_OK;
}

static enum sn_status run_op(struct sn_exec *x, const struct sn_program *p, int i,
                             const struct sn_at *at, struct sn_err *err)
{
    const struct sn_op *op = &p->ops[i];
    struct sn_args a;
    switch (op->kind) {
    case SN_OP_WAIT:
        return sn_exec_wait(x, op, at, err);
    case SN_OP_ALIAS:
        return SN_OK; /* place.c has put the output where the input is */
    case SN_OP_AGREE:
        return sn_exec_agree(x, op, err);
    default:
        if (op->kind < SN_NKERNELS) {
            sn_exec_args(x, p, op, at, &a);
            return run_kernel(x, op, op->kind, &a, err);
        }
        if (!sn_op_meets_others(x->job, op))
            return sn_exec_copy_args(x, p, op, at, &a) ? run_kernel(x, op, SN_OP_COPY, &a, err)
                                                       : SN_OK;
        post(x, p, op, at);
        return SN_OK;
    }
}

/* Nothing is encoded: streams whose length depends on the values have the one that is planned. */
static void pretend_lengths(struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                            const struct sn_at *at)
{
    const struct sn_codec *c = &op->attr.stream.codec[sn_exec_codec_level(x, op)];
    struct sn_mat s = sn_exec_resolve(x, p, &op->out[SN_ENCODE_STREAMS], at);
    for (int64_t i = 0; i < s.rows && !sn_codec_is_fixed(c); i++) {
        int64_t likely = sn_coded_likely(c, op->attr.stream.type, op->attr.stream.share);
        *(int64_t *)(void *)((char *)s.p + i * s.cols) = likely - (int64_t)sizeof(int64_t);
    }
}

/* Communicate for real, or sleep. */
static enum sn_status pace_op(struct sn_exec *x, const struct sn_program *p, int i,
                              const struct sn_at *at, struct sn_err *err)
{
    const struct sn_op *op = &p->ops[i];
    double began = sn_clock();
    if (op->kind < SN_NKERNELS) {
        if (op->kind == SN_OP_ENCODE)
            pretend_lengths(x, p, op, at);
        sn_pace_spend(&x->pace, sn_price_op(&x->pace.pricer, p, op));
        return SN_OK;
    }
    SN_TRY(run_op(x, p, i, at, err));
    sn_pace_communicated(&x->pace, began);
    return SN_OK;
}

static void pass_fence(struct sn_exec *x)
{
    double began = sn_clock();
    if (!x->fence)
        return;
    x->fence(x->fence_arg);
    if (x->pace.on)
        sn_pace_communicated(&x->pace, began);
}

/* The wait at the fence is no part of the operation's time. */
static enum sn_status time_op(struct sn_exec *x, const struct sn_program *p, int i,
                              const struct sn_at *at, struct sn_err *err)
{
    const struct sn_op *op = &p->ops[i];
    if (sn_exec_is_fence(x, p, i))
        pass_fence(x);
    double began = sn_clock();
    sn_timeline_begin(x, i, at, began);
    SN_TRY(x->pace.on ? pace_op(x, p, i, at, err) : run_op(x, p, i, at, err));
    double ended = sn_clock();
    sn_timeline_computed(x, ended);
    sn_timeline_end(x);
    sn_exec_take_time(x, op, ended - began);
    sn_results_tell(x, p, i, at);
    return SN_OK;
}

static enum sn_status rounds(struct sn_exec *x, const struct sn_program *p, int i,
                             const struct sn_at *at, int *out, struct sn_err *err)
{
    (void)err; /* the bounds are here: it cannot fail */
    struct sn_exchange e = exchange_of(x, p, &p->ops[i], at);
    *out = sn_exchange_rounds(&e);
    return SN_OK;
}

/* --- a walk ----------------------------------------------------------------------------------- */

static enum sn_status begin(struct sn_exec *x, const struct sn_program *p, bool is_whole,
                            struct sn_err *err)
{
    (void)p;
    (void)err;
    if (is_whole)
        sn_pace_restart(&x->pace);
    return SN_OK;
}

static enum sn_status entry(struct sn_exec *x, int i, int64_t first_sample, int *done,
                            struct sn_err *err)
{
    (void)i;
    (void)err;
    sn_exec_scalars(x)->first_sample = first_sample;
    *done = 0;
    return SN_OK;
}

static enum sn_status end(struct sn_exec *x, bool is_whole, struct sn_err *err)
{
    (void)is_whole;
    return nothing(x, err);
}

static void rounds_end(struct sn_exec *x)
{
    (void)x;
}

static void take_sent(struct sn_exec *x, int64_t bytes[SN_NAXES])
{
    (void)x; /* the communicator has counted it all */
    (void)bytes;
}

static enum sn_status make_stamps(struct sn_exec *x, int64_t operations, struct sn_err *err)
{
    (void)operations; /* this host's clock is always there */
    return nothing(x, err);
}

static enum sn_status fetch(struct sn_exec *x, const char *at, int64_t bytes, const void **out,
                            struct sn_err *err)
{
    (void)bytes;
    *out = at;
    return nothing(x, err);
}

const struct sn_exec_backend *sn_exec_backend_host(void)
{
    static const struct sn_exec_backend host = {
        .create = create,
        .destroy = destroy,
        .connect = nothing,
        .begin = begin,
        .entry = entry,
        .op = time_op,
        .rounds = rounds,
        .rounds_end = rounds_end,
        .end = end,
        .pull_begin = nothing,
        .pull_wait = nothing,
        .push = nothing,
        .fetch = fetch,
        .take_sent = take_sent,
        .make_clocks = nothing,
        .make_stamps = make_stamps,
    };
    return &host;
}
