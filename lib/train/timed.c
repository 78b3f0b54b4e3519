/*
 * timed.c - the one step of a run of which it is kept when its operations ran.
 */
#include "lib/train/trainer_state.h"

enum sn_status sn_trainer_timed_open(struct sn_trainer *t, const struct sn_trainer_options *o,
                                     int64_t first, int64_t last, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    if (!o->timed)
        return SN_OK;
    t->timed.step = last - first < SN_TIMED_STEP ? last : first + SN_TIMED_STEP - 1;
    SN_TRY(sn_trainer_set_batch(t, t->timed.step, err)); /* so many operations */
    SN_TRY(c->ops->agree(c, sn_timeline_create(&t->timed.timeline, t->exec, err), err));
    return sn_trainer_set_batch(t, first, err);
}

void sn_trainer_timed_begin(struct sn_trainer *t, int64_t step)
{
    if (t->timed.timeline && step == t->timed.step)
        sn_exec_set_timeline(t->exec, t->timed.timeline);
}

enum sn_status sn_trainer_timed_end(struct sn_trainer *t, const struct sn_trainer_options *o,
                                    int64_t step, struct sn_err *err)
{
    if (!t->timed.timeline || step != t->timed.step)
        return SN_OK;
    sn_exec_set_timeline(t->exec, NULL);
    return o->timed(o->self, t->timed.timeline, step, err);
}
