/*
 * exec_staged.c - communication of ranks on devices through this process's memory: what an
 * operation reads is copied here, the communicator of the processes moves it, what it writes is
 * copied back.
 *
 * For ranks that share a device, and where devices have no channels. It waits at each end: right
 * for tests and for small groups, no way to make use of a fast network. The mirror has the places
 * of the arenas, which the plan keeps apart for as long as the operation is under way.
 */
#include "lib/exec/exec_device.h"

#include <string.h>

/* Elements that a communication reads and writes, of the whole group. */
struct extent {
    int64_t reads, writes;
};

static struct extent extent_of(const struct sn_exec *x, const struct sn_op *op,
                               const struct sn_transfer *t)
{
    int64_t all = t->n * x->job->group_size[op->group];
    if (sn_exec_has_rows(op))
        return (struct extent){op->in[SN_MOVE_FROM].rows * op->in[SN_MOVE_FROM].cols,
                               op->out[SN_MOVE_TO].rows * op->out[SN_MOVE_TO].cols};
    if (op->kind == SN_OP_SHIFT)
        return (struct extent){t->n, t->n};
    switch (t->kind) {
    case SN_ALL_GATHER:
        return (struct extent){t->n, all};
    case SN_REDUCE_SCATTER:
        return (struct extent){all, t->n};
    case SN_ALL_TO_ALL:
        return (struct extent){all, all};
    case SN_SEND:
        return (struct extent){t->n, 0};
    case SN_RECV:
        return (struct extent){0, t->n};
    default:
        return (struct extent){t->n, t->n};
    }
}

static enum sn_status fetch(struct sn_exec *x, const struct sn_op *op, const void *at,
                            int64_t bytes, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    if (!at || bytes == 0 ||
        v->ops->copy(v->d, SN_STREAM_COMPUTE, sn_device_bounce(x, at), at, (size_t)bytes,
                     SN_TO_HOST) == 0)
        return SN_OK;
    return sn_device_fail(x, op, err);
}

enum sn_status sn_staged_post(struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                              const struct sn_at *at, struct sn_err *err)
{
    struct sn_transfer t = sn_exec_transfer(x, p, op, at);
    int place = sn_exec_request_place(x, op, op->id, at->slot);
    struct sn_op_requests *requests = &x->requests[place];
    struct extent e = extent_of(x, op, &t);
    int64_t width = (int64_t)sn_dtype_size(t.dtype);
    bool keeps_rest = t.add || sn_exec_has_rows(op); /* of what it writes to */
    *requests = (struct sn_op_requests){.request = {0, 0}};
    SN_TRY(sn_device_cut(x, err));
    SN_TRY(fetch(x, op, t.in, e.reads * width, err));
    if (keeps_rest)
        SN_TRY(fetch(x, op, t.out, e.writes * width, err));
    if (sn_exec_has_rows(op))
        SN_TRY(sn_device_bounds(x, p, op, at, &requests->exchange, err));
    SN_TRY(sn_device_wait(x, err));
    if (sn_exec_has_rows(op))
        sn_exec_take_rows(x, op, &t, requests);
    x->device->request[place] =
        (struct sn_device_request){e.writes ? t.out : NULL, e.writes * width, SN_STAGED};
    if (t.in)
        t.in = sn_device_bounce(x, t.in);
    if (t.out)
        t.out = sn_device_bounce(x, t.out);
    if (sn_op_row(op->kind)->takes_input) { /* as on this processor: in place */
        if (t.in != t.out)
            memcpy(t.out, t.in, (size_t)(e.reads * width));
        t.in = NULL;
    }
    sn_exec_post(x, op, &t, requests);
    if (op->attr.experts.chunks <= 1)
        return SN_OK;
    struct sn_op wait = *op; /* here: another chunk copies the same rows to and fro */
    wait.waits_for = op->id;
    SN_TRY(sn_staged_wait(x, &wait, at, err));
    *requests = (struct sn_op_requests){.request = {0, 0}};
    x->device->request[place].to = NULL;
    return SN_OK;
}

enum sn_status sn_staged_wait(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at,
                              struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_device_request *l =
        &v->request[sn_exec_request_place(x, op, op->waits_for, at->slot)];
    SN_TRY(sn_device_cut(x, err));
    SN_TRY(sn_exec_wait(x, op, at, err));
    if (!l->to)
        return SN_OK;
    if (v->ops->copy(v->d, SN_STREAM_COMPUTE, l->to, sn_device_bounce(x, l->to), (size_t)l->bytes,
                     SN_TO_DEVICE) != 0)
        return sn_device_fail(x, op, err);
    return sn_device_wait(x, err); /* the mirror is free again */
}
