/*
 * order_cost.c - seconds by which orders of operations are weighed: the rates of the named machine
 * (sn_overlap_rates), and nothing in which ranks of a stage differ, so that they find the same.
 */
#include "lib/program/build.h"

#include <math.h>

bool sn_order_is_weighed(const struct sn_job *j)
{
    return j->config->layout.overlap != SN_OVERLAP_NONE && j->config->overlap_rates.flops > 0;
}

bool sn_takes_turns(const struct sn_job *j)
{
    const struct sn_layout_config *l = &j->config->layout;
    return sn_schedule_traits(l->schedule)->takes_turns && !l->split_backward &&
           sn_order_is_weighed(j);
}

/* Of attention by its shape: where its keys begin differs between context ranks. */
static double flops_of(const struct sn_op *op)
{
    int64_t mnk[3];
    if (sn_op_row(op->kind)->cost != SN_COST_ATTENTION)
        return sn_op_flops(op);
    sn_op_shape(op, mnk);
    return 2.0 * (double)mnk[0] * (double)mnk[1] * (double)mnk[2];
}

/* In the mean over the micro-batches. */
static double share_of(const struct sn_program *p, const struct sn_op *op)
{
    return op->when == SN_EVERY ? 1 : 1.0 / p->micros;
}

double sn_order_kernel(const struct sn_job *j, const struct sn_program *p, const struct sn_op *op)
{
    const struct sn_overlap_rates *r = &j->config->overlap_rates;
    if (op->kind >= SN_NKERNELS || op->extra)
        return 0;
    return share_of(p, op) * fmax(flops_of(op) / r->flops, (double)sn_op_bytes(p, op) / r->bytes);
}

double sn_order_message(const struct sn_job *j, const struct sn_program *p, const struct sn_op *op)
{
    const struct sn_overlap_rates *r = &j->config->overlap_rates;
    struct sn_communication c;
    if (sn_op_is_transfer(op) || !sn_op_communication(&c, p, op))
        return 0;
    int64_t bytes = sn_collective_bytes(c.kind, c.n, c.dtype, j->group_size[op->group], 0);
    return share_of(p, op) * (r->start[op->group] + (double)bytes / r->link[op->group]);
}
