/*
 * follow.c - what operations gave, told to whoever follows a play.
 */
#include "lib/meaning/inner.h"

static enum sn_status tell(const struct sn_visit *s, int out)
{
    struct sn_meaning *m = s->m;
    struct sn_slabs parts = {0};
    int64_t n;
    enum sn_status st = sn_read_written(s, &s->op->out[out], &parts, &n);
    for (int i = 0; i < parts.n; i++)
        for (int d = 0; d < SN_SLAB_DIMS; d++)
            parts.t[i].space[d] = sn_space(&m->spaces, parts.t[i].space[d]);
    const struct sn_meaning_result r = {.world = m->world,
                                        .rank = s->r->rank,
                                        .entry = s->r->entry,
                                        .op = s->number,
                                        .out = out,
                                        .parts = &parts};
    if (st == SN_OK)
        m->look(m->look_arg, &r);
    sn_slabs_fini(&parts);
    return st;
}

enum sn_status sn_tell_results(const struct sn_visit *s)
{
    struct sn_visit of = *s;
    if (!s->m->look || s->op->extra)
        return SN_OK;
    if (s->op->kind == SN_OP_WAIT) {
        int id = s->op->waits_for;
        if (id < 0 || id >= s->r->program->next_id || s->r->op_of_id[id] < 0)
            return SN_OK;
        of.number = s->r->op_of_id[id];
        of.op = &s->r->program->ops[of.number];
    }
    bool meets = sn_op_meets_others(s->r->job, of.op);
    if (meets != (s->op->kind == SN_OP_WAIT))
        return SN_OK; /* it is still under way, or was told when it was copied */
    for (int o = 0; o < SN_MAX_OUT; o++)
        if (sn_has_out(&of, o))
            SN_TRY(tell(&of, o));
    return SN_OK;
}
