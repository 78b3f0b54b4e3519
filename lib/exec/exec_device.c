/*
 * exec_device.c - the executor on a device: a walk of a program enqueues its operations.
 *
 * Kernels go to the COMPUTE stream in the order of the program. A communication begins when the
 * operations before it are done, and what stands after its WAIT begins when it is done; between the
 * two it runs beside them. That is what the program says, whatever a device makes of it.
 *
 * A whole step is kept in graphs, cut where this process must look or act: where ranks agree, where
 * counts of rows are read, and at each communication that goes through this process or is outside
 * graphs (exec_device.h). Cuts are a matter of the program alone. A later step walks the same
 * program, skips what is in a graph, and launches a graph at each cut. What changes from step to
 * step is read from memory: scalars, batch, first samples.
 */
#include "lib/exec/exec_device.h"

#include "kernels/codec.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <stddef.h>

/* --- streams and graphs ----------------------------------------------------------------------- */

static enum sn_axis axis_of(int stream)
{
    return stream < SN_STREAM_PAIR ? (enum sn_axis)(stream - SN_STREAM_AXIS) : SN_AXIS_PIPELINE;
}

/* COMPUTE waits for the other streams that have had something to do. */
static enum sn_status join(struct sn_exec *x, bool eager, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    for (int s = SN_STREAM_AXIS; s < SN_STREAM_END; s++) {
        if (!v->uses[s] || v->eager[axis_of(s)] != eager)
            continue;
        v->uses[s] = false;
        if (v->ops->record(v->d, s, s) != 0 || v->ops->await(v->d, SN_STREAM_COMPUTE, s) != 0)
            return sn_device_fail(x, NULL, err);
    }
    return SN_OK;
}

enum sn_status sn_device_skips(struct sn_exec *x, bool *skips, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    *skips = v->mode == SN_MODE_REPLAY;
    if (v->mode != SN_MODE_CAPTURE || v->is_open)
        return SN_OK;
    v->is_open = true;
    return v->ops->graph_begin(v->d, SN_STREAM_COMPUTE) == 0 ? SN_OK : sn_device_fail(x, NULL, err);
}

enum sn_status sn_device_launch(struct sn_exec *x, int cut, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    if (!v->graph[cut])
        return SN_OK;
    sn_range_graph(x, cut);
    int rc = v->ops->graph_launch(v->d, SN_STREAM_COMPUTE, v->graph[cut]);
    sn_range_end(x);
    return rc == 0 ? SN_OK : sn_device_fail(x, NULL, err);
}

enum sn_status sn_device_cut(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    int here = v->cut++;
    SN_TRY(join(x, false, err));
    if (v->mode == SN_MODE_REPLAY)
        return sn_device_launch(x, here, err);
    if (!v->is_open)
        return SN_OK;
    v->is_open = false;
    if (v->ops->graph_end(v->d, SN_STREAM_COMPUTE, &v->graph[here]) != 0)
        return sn_device_fail(x, NULL, err);
    return sn_device_launch(x, here, err);
}

/* A cut behind which nothing is under way. */
static enum sn_status settle(struct sn_exec *x, struct sn_err *err)
{
    SN_TRY(sn_device_cut(x, err));
    return join(x, true, err);
}

enum sn_status sn_device_copy(struct sn_exec *x, void *to, const void *from, int64_t bytes,
                              enum sn_device_way way, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    if (bytes == 0 || v->ops->copy(v->d, SN_STREAM_COMPUTE, to, from, (size_t)bytes, way) == 0)
        return SN_OK;
    return sn_device_fail(x, NULL, err);
}

/* --- a walk ----------------------------------------------------------------------------------- */

static enum sn_status put_class(struct sn_exec *x, enum sn_class c, struct sn_err *err)
{
    struct sn_address at = sn_exec_class(x, c);
    return sn_device_copy(x, sn_exec_there(x, at), sn_exec_here(x, at), x->job->class_bytes[c],
                          SN_TO_DEVICE, err);
}

static enum sn_status get_scalars(struct sn_exec *x, struct sn_err *err)
{
    struct sn_address at = sn_exec_class(x, SN_CLASS_SCALARS);
    SN_TRY(sn_device_copy(x, sn_exec_here(x, at), sn_exec_there(x, at),
                          x->job->class_bytes[SN_CLASS_SCALARS], SN_TO_HOST, err));
    SN_TRY(sn_device_wait(x, err));
    int fault = sn_exec_scalars(x)->codec_fault;
    if (fault != 0)
        return sn_fail(err, SN_EFAIL, "decode: %s: a stream was refused: %s", x->device->ops->maker,
                       sn_codec_explain((enum sn_codec_fault)fault));
    return SN_OK;
}

/* Are the graphs those of a step with another size of batch? */
static bool keeps_another(const struct sn_exec_device *v, const struct sn_program *p, bool is_step)
{
    return is_step && v->captured && v->captured != p->sched;
}

static enum sn_status begin(struct sn_exec *x, const struct sn_program *p, bool is_whole,
                            struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_job *j = x->job;
    if (keeps_another(v, p, is_whole && p == &j->train))
        sn_mirror_forget_graphs(x);
    bool keeps = is_whole && p == &j->train && !x->is_timed && !v->clocks && !x->timeline;
    v->mode = !keeps || v->runs == 0 ? SN_MODE_EAGER
              : v->runs == 1         ? SN_MODE_CAPTURE
                                     : SN_MODE_REPLAY;
    if (v->program != p || v->sched != p->sched) {
        sn_eager_find(x, p);
        sn_replay_find(x, p);
    }
    v->program = p;
    v->sched = p->sched;
    v->captured = is_whole && p == &j->train ? p->sched : v->captured;
    v->cut = 0;
    v->unmarked = 0;
    v->agree = NULL;
    v->micro = 0;
    sn_range_run(x, p);
    for (int i = 0; i < v->places; i++) /* a WAIT may come before anything was posted */
        v->request[i] = (struct sn_device_request){.cut = SN_NEVER_POSTED};
    SN_TRY(put_class(x, SN_CLASS_BATCH, err));
    SN_TRY(put_class(x, SN_CLASS_SCALARS, err));
    return is_whole ? sn_stamps_start(x, err) : SN_OK;
}

/* After the first run the number of cuts is known, and nothing is allocated later. */
static enum sn_status count_run(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    if (v->program != &x->job->train || x->is_timed || v->clocks || x->timeline || v->cut == 0)
        return SN_OK;
    if (v->runs++ > 0)
        return SN_OK;
    v->cuts = v->cut;
    v->graph = sn_alloc_n((size_t)v->cuts, sizeof(*v->graph));
    return v->graph ? SN_OK : sn_fail(err, SN_ENOMEM, "executor: no memory for %d graphs", v->cuts);
}

/* The device has work for a while. */
static void use_the_time(struct sn_exec *x)
{
    if (x->idle && x->device->program == &x->job->train)
        x->idle(x->idle_arg);
}

/* What the device has to tell of what has been enqueued, once. */
static void log_notes(struct sn_exec *x)
{
    struct sn_exec_device *v = x->device;
    char line[SN_DEVICE_CHOICE];
    for (; v->ops->note && v->ops->note(v->d, v->noted, line) == 0; v->noted++)
        if (x->comm->rank == 0)
            sn_log(SN_LOG_WARN, "%s: %s", v->ops->maker, line);
}

static enum sn_status end(struct sn_exec *x, bool is_whole, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    SN_TRY(settle(x, err));
    if (is_whole && x->job->group_size[SN_GROUP_WORLD] == 1)
        use_the_time(x);
    log_notes(x);
    SN_TRY(get_scalars(x, err));
    SN_TRY(sn_clocks_report(x, err));
    if (is_whole)
        SN_TRY(sn_stamps_read(x, err));
    sn_range_end(x);
    if (v->agree)
        SN_TRY(sn_exec_agree(x, v->agree, err));
    return is_whole ? count_run(x, err) : SN_OK;
}

enum sn_status sn_device_first_sample(struct sn_exec *x, int micro, struct sn_err *err)
{
    const struct sn_job *j = x->job;
    char *scalars = sn_exec_there(x, sn_buffer_address(&j->train, j->scalars, 0, 0));
    char *to = scalars + offsetof(struct sn_scalars, first_sample);
    return sn_device_copy(x, to, &x->device->first_sample[micro], (int64_t)sizeof(int64_t),
                          SN_TO_DEVICE, err);
}

static enum sn_status entry(struct sn_exec *x, int i, int64_t first_sample, int *done,
                            struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    int micro = v->program->sched[i].micro;
    bool skips;
    v->first_sample[micro] = first_sample;
    if (micro >= 1 && i < v->replay.until * v->replay.each)
        return sn_replay_micro(x, i, micro, done, err);
    *done = 0;
    v->micro = micro;
    SN_TRY(sn_device_skips(x, &skips, err));
    return skips ? SN_OK : sn_device_first_sample(x, micro, err);
}

/* --- operations ------------------------------------------------------------------------------- */

static enum sn_status run_kernel(struct sn_exec *x, const struct sn_program *p, int i,
                                 const struct sn_at *at, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_op *op = &p->ops[i];
    struct sn_args a;
    bool skips;
    SN_TRY(sn_device_skips(x, &skips, err));
    if (skips)
        return SN_OK;
    SN_TRY(sn_device_mark(x, i, err));
    sn_exec_args(x, p, op, at, &a);
    SN_TRY(sn_clocks_begin(x, op, err));
    if (v->ops->run(v->d, SN_STREAM_COMPUTE, (enum sn_op_kind)op->kind, &a) != 0)
        return sn_device_fail(x, op, err);
    return sn_clocks_end(x, op, err);
}

/* At once: what follows it waits for it. */
static enum sn_status post_copy(struct sn_exec *x, const struct sn_program *p, int i,
                                const struct sn_at *at, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    struct sn_args a;
    bool skips;
    SN_TRY(sn_device_skips(x, &skips, err));
    if (skips || !sn_exec_copy_args(x, p, &p->ops[i], at, &a))
        return SN_OK;
    SN_TRY(sn_device_mark(x, i, err));
    if (v->ops->run(v->d, SN_STREAM_COMPUTE, SN_OP_COPY, &a) == 0)
        return SN_OK;
    return sn_device_fail(x, &p->ops[i], err);
}

static enum sn_status post(struct sn_exec *x, const struct sn_program *p, int i,
                           const struct sn_at *at, struct sn_err *err)
{
    const struct sn_op *op = &p->ops[i];
    if (!sn_op_meets_others(x->job, op))
        return post_copy(x, p, i, at, err);
    bool is_share = op->kind == SN_OP_GATHER_ROWS; /* channels have no sums of unequal blocks */
    if (x->device->accelerator->is_shared || is_share)
        return sn_staged_post(x, p, op, at, err);
    return sn_channel_post(x, p, op, at, err);
}

static enum sn_status wait(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at,
                           struct sn_err *err)
{
    if (x->job->group_size[op->group] == 1)
        return SN_OK;
    int place = sn_exec_request_place(x, op, op->waits_for, at->slot);
    if (x->device->request[place].cut == SN_STAGED)
        return sn_staged_wait(x, op, at, err);
    return sn_channel_wait(x, op, at, err);
}

/* What of the state is still to be copied must be. */
static enum sn_status pass_fence(struct sn_exec *x, struct sn_err *err)
{
    if (x->fence)
        x->fence(x->fence_arg);
    return sn_mirror_pull_wait(x, err);
}

/* A rank alone has nobody to wait for: it adds up when the step is over. */
static enum sn_status agree(struct sn_exec *x, const struct sn_program *p, int i,
                            struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    bool is_fence = sn_exec_is_fence(x, p, i);
    if (x->job->group_size[SN_GROUP_WORLD] == 1) {
        v->agree = &p->ops[i];
        if (p == &x->job->train)
            SN_TRY(sn_device_cut(x, err));
        return is_fence ? pass_fence(x, err) : SN_OK;
    }
    SN_TRY(settle(x, err));
    use_the_time(x); /* the update is short: most of the step is under way now */
    if (is_fence)
        SN_TRY(pass_fence(x, err));
    SN_TRY(get_scalars(x, err));
    SN_TRY(sn_exec_agree(x, &p->ops[i], err));
    return put_class(x, SN_CLASS_SCALARS, err);
}

static enum sn_status enqueue(struct sn_exec *x, const struct sn_program *p, int i,
                              const struct sn_at *at, struct sn_err *err)
{
    const struct sn_op *op = &p->ops[i];
    if (op->kind == SN_OP_AGREE)
        return agree(x, p, i, err);
    if (sn_exec_is_fence(x, p, i)) {
        SN_TRY(sn_device_cut(x, err));
        SN_TRY(pass_fence(x, err));
    }
    switch (op->kind) {
    case SN_OP_WAIT:
        return wait(x, op, at, err);
    case SN_OP_ALIAS:
        return SN_OK;
    default:
        return op->kind < SN_NKERNELS ? run_kernel(x, p, i, at, err) : post(x, p, i, at, err);
    }
}

/* What it takes is known here only where each operation is waited for. */
static enum sn_status time_op(struct sn_exec *x, const struct sn_program *p, int i,
                              const struct sn_at *at, struct sn_err *err)
{
    double began = sn_clock();
    sn_timeline_begin(x, i, at, began);
    SN_TRY(sn_stamps_put(x, SN_STREAM_COMPUTE, false, err));
    sn_range_op(x, &p->ops[i], at);
    SN_TRY(enqueue(x, p, i, at, err));
    sn_range_op_end(x);
    SN_TRY(sn_stamps_put(x, SN_STREAM_COMPUTE, true, err));
    sn_timeline_end(x);
    if (!x->is_timed)
        return SN_OK;
    SN_TRY(sn_device_wait(x, err));
    sn_exec_take_time(x, &p->ops[i], sn_clock() - began);
    return SN_OK;
}

enum sn_status sn_device_bounds(struct sn_exec *x, const struct sn_program *p,
                                const struct sn_op *op, const struct sn_at *at,
                                struct sn_exchange *out, struct sn_err *err)
{
    struct sn_mat bounds = sn_exec_resolve(x, p, &op->in[SN_MOVE_BOUNDS], at);
    char *here = sn_device_bounce(x, bounds.p);
    SN_TRY(sn_device_copy(x, here, bounds.p, bounds.rows * bounds.ld * (int64_t)sizeof(int32_t),
                          SN_TO_HOST, err));
    SN_TRY(sn_device_wait(x, err));
    *out = sn_exec_exchange(x, op, at, (const int32_t *)(const void *)here);
    return SN_OK;
}

static enum sn_status rounds(struct sn_exec *x, const struct sn_program *p, int i,
                             const struct sn_at *at, int *out, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_op *op = &p->ops[i];
    struct sn_exchange e;
    SN_TRY(sn_device_cut(x, err));
    SN_TRY(sn_device_bounds(x, p, op, at, &e, err));
    *out = sn_exchange_rounds(&e);
    v->kept = v->mode;
    v->mode = SN_MODE_EAGER;
    v->kept_cut = v->cut;
    return SN_OK;
}

static void rounds_end(struct sn_exec *x)
{
    x->device->mode = x->device->kept;
    x->device->cut = x->device->kept_cut;
}

const struct sn_exec_backend *sn_exec_backend_device(void)
{
    static const struct sn_exec_backend device = {
        .has_idle = true,
        .create = sn_mirror_create,
        .destroy = sn_mirror_destroy,
        .connect = sn_channels_join,
        .begin = begin,
        .entry = entry,
        .op = time_op,
        .rounds = rounds,
        .rounds_end = rounds_end,
        .end = end,
        .pull_begin = sn_mirror_pull_begin,
        .pull_wait = sn_mirror_pull_wait,
        .push = sn_mirror_push,
        .fetch = sn_mirror_fetch,
        .take_sent = sn_channels_take_sent,
        .make_clocks = sn_clocks_make,
        .make_stamps = sn_stamps_make,
    };
    return &device;
}
