/*
 * exec_eager.c - which communications between devices are part of graphs (exec_device.h says why).
 *
 * Outside graphs are the axes on which a communication is posted whose WAIT does not come before
 * the next cut. They are cuts themselves, and so may put others outside. Without experts that are
 * shared out, and with updates behind the agreement, a program has no cut but where ranks agree,
 * and nothing is outside graphs.
 */
#include "lib/exec/exec_device.h"

#include <string.h>

/* Rows are counted, or go through this process. */
static bool cuts_itself(const struct sn_exec *x, const struct sn_op *op)
{
    return sn_exec_has_rows(op) && sn_op_meets_others(x->job, op);
}

/* In the midst of a segment; where ranks agree nothing is under way. */
static bool is_fence(const struct sn_exec *x, const struct sn_program *p, int i)
{
    return p == &x->job->train && i == x->fence_at && p->ops[i].kind != SN_OP_AGREE;
}

static bool goes_through_channels(const struct sn_exec *x, const struct sn_op *op)
{
    return op->kind != SN_OP_GATHER_ROWS && sn_op_meets_others(x->job, op);
}

static bool is_eager(const struct sn_exec *x, const struct sn_op *op)
{
    return (goes_through_channels(x, op) || op->kind == SN_OP_WAIT) &&
           x->device->eager[sn_device_axis(op->group)];
}

/* Does the WAIT for operation i come before the next cut, and before the end of the segment? */
static bool is_waited_for(const struct sn_exec *x, const struct sn_program *p, int i, int end)
{
    for (int k = i + 1; k < end; k++) {
        const struct sn_op *op = &p->ops[k];
        if (op->kind == SN_OP_WAIT && op->waits_for == p->ops[i].id)
            return true;
        if (cuts_itself(x, op) || is_eager(x, op) || is_fence(x, p, k))
            return false;
    }
    return false;
}

/* Put one more axis outside graphs; false: no more are. */
static bool make_one_eager(const struct sn_exec *x, const struct sn_program *p)
{
    for (int c = 0; c < p->n_segments; c++) {
        int first = p->segments[c].first, end = first + p->segments[c].n;
        for (int i = first; i < end; i++) {
            const struct sn_op *op = &p->ops[i];
            if (!goes_through_channels(x, op) || is_eager(x, op) ||
                (op->kind != SN_OP_EXCHANGE && is_waited_for(x, p, i, end)))
                continue;
            x->device->eager[sn_device_axis(op->group)] = true;
            return true;
        }
    }
    return false;
}

void sn_eager_find(struct sn_exec *x, const struct sn_program *p)
{
    struct sn_exec_device *v = x->device;
    bool has_cuts = false;
    memset(v->eager, 0, sizeof(v->eager));
    for (int i = 0; i < p->n_ops; i++)
        has_cuts |= cuts_itself(x, &p->ops[i]) || is_fence(x, p, i);
    while (has_cuts && !v->accelerator->is_shared && make_one_eager(x, p))
        continue;
}
