/*
 * comm_text.c - posting and waiting, as text.
 *
 * The wait names the posted operation's operands, so that they live until it. The one exception is
 * the input of an all-reduce: it is taken over at the post (place.c lets the output have its
 * memory).
 */
#include "lib/program/build.h"

#include <stdarg.h>
#include <stdio.h>

struct sn_op sn_comm_op(int kind, enum sn_group group, const char *fmt, ...)
{
    struct sn_op op = sn_op_blank(kind);
    op.group = group;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(op.label, sizeof(op.label), fmt, ap);
    va_end(ap);
    return op;
}

void sn_wait_add(struct sn_program *p, int id)
{
    if (p->failed)
        return;
    struct sn_op posted = *sn_op_find(p, id); /* a copy: the array may grow */
    struct sn_op *op = sn_op_add(p, SN_OP_WAIT, "%s", posted.label);
    op->in[SN_WAIT_NAMES] = posted.out[SN_MOVE_TO];
    op->in[SN_WAIT_NAMES_TOO] =
        sn_op_row(posted.kind)->takes_input ? sn_no_view : posted.in[SN_MOVE_FROM];
    op->when = posted.when;
    op->group = posted.group;
    op->waits_for = id;
    op->per_slot = posted.per_slot;
    op->is_weight_grad = posted.is_weight_grad;
    op->is_input_grad = posted.is_input_grad;
}

void sn_comm_run(struct sn_program *p, const struct sn_op *op)
{
    sn_wait_add(p, sn_op_append(p, op));
}

int sn_shift_post(struct sn_program *p, int from, int to, const char *label)
{
    struct sn_op op = sn_comm_op(SN_OP_SHIFT, SN_GROUP_CONTEXT, "%.50s.ring", label);
    op.in[SN_MOVE_FROM] = sn_view_flat(p, from);
    op.out[SN_MOVE_TO] = sn_view_flat(p, to);
    return sn_op_append(p, &op);
}
