/*
 * exec_clocks.c - what each operation takes on a device, and when it runs there, by the device's
 * own clock: without a wait between operations.
 *
 * A stamp before and one after each operation are enqueued with it. For calibration (x->tell) only
 * around kernels: when there are no more clocks, and at the end of a walk, this process waits and
 * tells what they said. For a timeline on the stream of each operation: they are read when the run
 * is over.
 */
#include "lib/exec/exec_device.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

enum { MOST = 2048 };

struct sn_exec_clocks {
    const struct sn_op *op[MOST]; /* clocks 2 i and 2 i + 1 */
    int n;
};

enum sn_status sn_clocks_make(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    if (v->clocks)
        return SN_OK;
    v->clocks = sn_alloc(sizeof(*v->clocks));
    if (!v->clocks)
        return sn_fail(err, SN_ENOMEM, "executor: no memory for %d clocks", 2 * MOST);
    return v->ops->make_clocks(v->d, 2 * MOST) == 0 ? SN_OK : sn_device_fail(x, NULL, err);
}

static enum sn_status stamp(struct sn_exec *x, const struct sn_op *op, int clock,
                            struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    return v->ops->stamp(v->d, SN_STREAM_COMPUTE, clock) == 0 ? SN_OK : sn_device_fail(x, op, err);
}

enum sn_status sn_clocks_begin(struct sn_exec *x, const struct sn_op *op, struct sn_err *err)
{
    struct sn_exec_clocks *c = x->device->clocks;
    if (!c || !x->report)
        return SN_OK;
    if (c->n == MOST)
        SN_TRY(sn_clocks_report(x, err));
    c->op[c->n] = op;
    return stamp(x, op, 2 * c->n, err);
}

enum sn_status sn_clocks_end(struct sn_exec *x, const struct sn_op *op, struct sn_err *err)
{
    struct sn_exec_clocks *c = x->device->clocks;
    if (!c || !x->report)
        return SN_OK;
    SN_TRY(stamp(x, op, 2 * c->n + 1, err));
    c->n++;
    return SN_OK;
}

enum sn_status sn_clocks_report(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    struct sn_exec_clocks *c = v->clocks;
    if (!c || c->n == 0)
        return SN_OK;
    SN_TRY(sn_device_wait(x, err));
    for (int i = 0; i < c->n; i++) {
        double seconds;
        if (v->ops->between(v->d, 2 * i, 2 * i + 1, &seconds) != 0)
            return sn_device_fail(x, c->op[i], err);
        if (x->report)
            x->report(x->report_arg, c->op[i], seconds);
    }
    c->n = 0;
    return SN_OK;
}

/* --- a timeline ------------------------------------------------------------------------------- */

/* Two clocks for each event, and the last one. */
static int reference(const struct sn_timeline *t)
{
    return 2 * (int)t->room;
}

enum sn_status sn_stamps_make(struct sn_exec *x, int64_t operations, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    return v->ops->make_clocks(v->d, 2 * (int)operations + 1) == 0 ? SN_OK
                                                                   : sn_device_fail(x, NULL, err);
}

enum sn_status sn_stamps_start(struct sn_exec *x, struct sn_err *err)
{
    struct sn_timeline *t = x->timeline;
    struct sn_exec_device *v = x->device;
    if (!t)
        return SN_OK;
    /* The device comes to the stamp between these two looks at the clock. */
    t->begin = sn_clock();
    if (v->ops->stamp(v->d, SN_STREAM_COMPUTE, reference(t)) != 0)
        return sn_device_fail(x, NULL, err);
    SN_TRY(sn_device_wait(x, err));
    t->unsure = (sn_clock() - t->begin) / 2;
    t->begin += t->unsure;
    return SN_OK;
}

/* A time of the host has been written; a stamp has not. */
static bool is_of_host(const struct sn_timed *e)
{
    return e->at.end != 0;
}

enum sn_status sn_stamps_put(struct sn_exec *x, int stream, bool is_end, struct sn_err *err)
{
    const struct sn_timeline *t = x->timeline;
    struct sn_exec_device *v = x->device;
    if (!t || !t->now || is_of_host(t->now))
        return SN_OK;
    if (stream == SN_STREAM_COMPUTE && t->now->axis != SN_TIMED_COMPUTING)
        return SN_OK;
    int clock = 2 * (int)(t->now - t->event) + (is_end ? 1 : 0);
    return v->ops->stamp(v->d, stream, clock) == 0
               ? SN_OK
               : sn_device_fail(x, &x->job->train.ops[t->now->op], err);
}

void sn_stamps_move(struct sn_exec *x, const struct sn_op *op)
{
    if (x->timeline && x->timeline->now)
        x->timeline->now->axis = (int16_t)sn_group_axis(op->group);
}

enum sn_status sn_stamps_read(struct sn_exec *x, struct sn_err *err)
{
    struct sn_timeline *t = x->timeline;
    struct sn_exec_device *v = x->device;
    if (!t)
        return SN_OK;
    for (int64_t i = t->n_sched; i < t->n; i++) {
        struct sn_timed *e = &t->event[i];
        if (is_of_host(e))
            continue;
        if (v->ops->between(v->d, reference(t), 2 * (int)i, &e->at.begin) != 0 ||
            v->ops->between(v->d, reference(t), 2 * (int)i + 1, &e->at.end) != 0)
            return sn_device_fail(x, &x->job->train.ops[e->op], err);
        e->at.begin += t->begin;
        e->at.end += t->begin;
    }
    return SN_OK;
}
