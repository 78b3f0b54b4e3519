/*
 * exec_ranges.c - what this process enqueues on a device, as ranges for a tool that watches: a
 * step, in it each operation that is enqueued, or each graph that is launched. Where no tool
 * listens nothing is called and no name is made.
 */
#include "lib/exec/exec_device.h"

#include <stdio.h>

enum { NAME = 160 };

void sn_ranges_open(struct sn_exec *x)
{
    struct sn_exec_device *v = x->device;
    v->is_watched = v->ops->watched && v->ops->watched(v->d);
}

void sn_range_run(struct sn_exec *x, const struct sn_program *p)
{
    struct sn_exec_device *v = x->device;
    char name[NAME];
    if (!v->is_watched)
        return;
    (void)snprintf(name, sizeof(name), "%s, step %lld", p->name,
                   (long long)sn_exec_scalars(x)->step);
    v->ops->range_begin(v->d, name);
}

void sn_range_op(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at)
{
    struct sn_exec_device *v = x->device;
    char name[NAME];
    if (!v->is_watched || v->mode == SN_MODE_REPLAY)
        return;
    (void)snprintf(name, sizeof(name), "%s %s, micro-batch %d", sn_op_name(op->kind), op->label,
                   at->micro);
    v->ops->range_begin(v->d, name);
}

void sn_range_op_end(struct sn_exec *x)
{
    struct sn_exec_device *v = x->device;
    if (v->is_watched && v->mode != SN_MODE_REPLAY)
        v->ops->range_end(v->d);
}

void sn_range_graph(struct sn_exec *x, int cut)
{
    struct sn_exec_device *v = x->device;
    char name[NAME];
    if (!v->is_watched)
        return;
    (void)snprintf(name, sizeof(name), "graph %d, step %lld, up to micro-batch %d", cut,
                   (long long)sn_exec_scalars(x)->step, v->micro);
    v->ops->range_begin(v->d, name);
}

void sn_range_end(struct sn_exec *x)
{
    struct sn_exec_device *v = x->device;
    if (v->is_watched)
        v->ops->range_end(v->d);
}
