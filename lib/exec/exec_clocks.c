/*
 * exec_clocks.c - what each operation takes on a device, by the device's own clock: calibration
 * measures operations where they stand, without a wait between them.
 *
 * A stamp before and one after each operation are enqueued with it. When there are no more clocks,
 * and at the end of a walk, this process waits and tells what they said.
 */
#include "lib/exec/exec_device.h"

#include "lib/base/mem.h"

enum { MOST = 2048 };

struct sn_exec_clocks {
    const struct sn_op *op[MOST]; /* clocks 2 i and 2 i + 1 */
    int n;
};

enum sn_status sn_exec_device_clocks(struct sn_exec *x, struct sn_err *err)
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
    if (!c || !x->tell)
        return SN_OK;
    if (c->n == MOST)
        SN_TRY(sn_clocks_tell(x, err));
    c->op[c->n] = op;
    return stamp(x, op, 2 * c->n, err);
}

enum sn_status sn_clocks_end(struct sn_exec *x, const struct sn_op *op, struct sn_err *err)
{
    struct sn_exec_clocks *c = x->device->clocks;
    if (!c || !x->tell)
        return SN_OK;
    SN_TRY(stamp(x, op, 2 * c->n + 1, err));
    c->n++;
    return SN_OK;
}

enum sn_status sn_clocks_tell(struct sn_exec *x, struct sn_err *err)
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
        if (x->tell)
            x->tell(x->tell_arg, c->op[i], seconds);
    }
    c->n = 0;
    return SN_OK;
}
