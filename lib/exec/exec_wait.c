/*
 * exec_wait.c - how far a device has come: marks, waiting for it, and the sentence where it fails or
 * hangs, which names the operation of the last mark.
 */
#include "lib/exec/exec_device.h"

#include "lib/base/clock.h"

#include <sched.h>
#include <time.h>

/* Within a graph a failure is known to so many operations: a mark is a kernel between theirs. */
enum { MARK_EVERY = 64 };

enum sn_status sn_device_fail(const struct sn_exec *x, const struct sn_op *op, struct sn_err *err)
{
    const struct sn_exec_device *v = x->device;
    if (!op)
        return sn_fail(err, SN_EFAIL, "%s: %s", v->ops->maker, v->ops->explain(v->d));
    return sn_fail(err, SN_EFAIL, "%s %s: %s: %s", sn_op_name(op->kind), op->label, v->ops->maker,
                   v->ops->explain(v->d));
}

/* The operation that the device had come to when it was last heard of. */
static const struct sn_op *last_marked(const struct sn_exec_device *v)
{
    uint32_t number = v->ops->marked(v->d);
    return v->program && number >= 1 && (int)number <= v->program->n_ops
               ? &v->program->ops[number - 1]
               : NULL;
}

/* Marks are in order with kernels: what runs stands behind the last mark, and before the next. */
static const char *neighbours(const struct sn_exec_device *v)
{
    _Static_assert(MARK_EVERY == 64, "the sentence says how many");
    return v->mode == SN_MODE_EAGER ? "" : ", or one of the 63 operations after it";
}

enum sn_status sn_device_mark(struct sn_exec *x, int i, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    if (v->mode != SN_MODE_EAGER && v->unmarked++ % MARK_EVERY != 0)
        return SN_OK;
    if (v->ops->mark(v->d, SN_STREAM_COMPUTE, (uint32_t)i + 1) == 0)
        return SN_OK;
    return sn_device_fail(x, &v->program->ops[i], err);
}

/* Whatever is asked of it from now on may wait for what hangs: the process says so and ends. */
static enum sn_status lost(struct sn_exec *x, int seconds, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_op *op = last_marked(v);
    (void)sn_fail(err, SN_ELOST, "%s: nothing has moved for %d s; it had come to '%s %s'%s",
                  v->ops->maker, seconds, op ? sn_op_name(op->kind) : "the start",
                  op ? op->label : "", neighbours(v));
    return sn_accelerator_hangs(v->accelerator, err);
}

/* Transfers under way wait for the peer, so that the device hangs as well. */
static enum sn_status lost_peer(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_op *op = last_marked(v);
    (void)sn_fail(err, SN_ELOST, "%s: %s; it had come to '%s %s'%s", v->ops->maker,
                  v->ops->explain(v->d), op ? sn_op_name(op->kind) : "the start",
                  op ? op->label : "", neighbours(v));
    return sn_accelerator_hangs(v->accelerator, err);
}

static enum sn_status failed_later(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_op *op = last_marked(v);
    const char *more = neighbours(v);
    (void)sn_fail(err, SN_EFAIL, "%s: '%s %s'%s%s failed: %s", v->ops->maker,
                  op ? sn_op_name(op->kind) : "the start", op ? op->label : "", more,
                  more[0] ? "," : "", v->ops->explain(v->d));
    v->ops->abort(v->d); /* peers do not come any more */
    return SN_EFAIL;
}

/* Look often at first, and give the core away. */
static void pause_for(int64_t looks)
{
    struct timespec nap = {0, 20000};
    if (looks < 200)
        (void)sched_yield(); /* cannot fail on Linux */
    else
        (void)nanosleep(&nap, NULL); /* a signal ends it sooner, which is as good */
}

enum sn_status sn_device_wait(struct sn_exec *x, struct sn_err *err)
{
    return sn_device_wait_on(x, SN_STREAM_COMPUTE, err);
}

enum sn_status sn_device_wait_on(struct sn_exec *x, int stream, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    int limit = x->job->config->run.hang_timeout, rc;
    uint32_t seen = v->ops->marked(v->d);
    struct sn_awake awake = {0};
    double moved = sn_clock();
    for (int64_t looks = 0; (rc = v->ops->query(v->d, stream)) == 1; looks++) {
        uint32_t now = v->ops->marked(v->d);
        double time = sn_awake_look(&awake, sn_clock());
        if (now != seen)
            moved = time;
        seen = now;
        if (v->ops->look && v->ops->look(v->d) != 0)
            return lost_peer(x, err);
        if (limit > 0 && time - moved > limit)
            return lost(x, limit, err);
        pause_for(looks);
    }
    return rc == 0 ? SN_OK : failed_later(x, err);
}
