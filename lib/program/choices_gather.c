/*
 * choices_gather.c - the choices of all ranks that have parts of the same sequences.
 *
 * With a capacity, who finds room with an expert depends on the whole sequence (docs/EXPERTS.md).
 * Where it is cut, over tensor ranks (experts folded) or context ranks, every rank gathers all
 * choices, k numbers a token, and counts as one that has the sequence does: so no layout changes
 * who passes by.
 */
#include "lib/program/build.h"

static int gather(struct sn_emit *e, int choice, enum sn_group group, const char *label)
{
    int ranks = e->job->group_size[group];
    if (ranks == 1 || e->p->failed)
        return choice;
    int64_t rows = ranks * e->p->bufs[choice].rows, cols = e->p->bufs[choice].cols;
    int all = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_I32, rows, cols, "%.80s.choice.all", label);
    struct sn_op op = sn_comm_op(SN_OP_ALL_GATHER, group, "%.50s.choices", label);
    op.in[SN_MOVE_FROM] = sn_view_all(e->p, choice);
    op.out[SN_MOVE_TO] = sn_view_all(e->p, all);
    sn_comm_run(e->p, &op);
    return all;
}

int sn_choices_gather(struct sn_emit *e, int choice, const char *label)
{
    struct sn_placement taken = sn_experts_taken(e->job);
    for (int a = e->job->mesh.n_axes - 1; a >= 0; a--)
        if (sn_placement_cuts(taken, a, SN_ROWS)) /* slices of a context rank's rows, in order */
            choice = gather(e, choice, e->job->mesh.axis[a].group, label);
    return gather(e, choice, SN_GROUP_CONTEXT, label);
}
