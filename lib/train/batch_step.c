/*
 * batch_step.c - between two steps whose batches have different sizes (train.ramp): another schedule
 * of the same text, and what was made for the one before.
 */
#include "lib/config/batch.h"
#include "lib/train/trainer_state.h"

/* The monitor compares steps of one size: it begins anew. */
static enum sn_status watch_again(struct sn_trainer *t, struct sn_err *err)
{
    if (!t->watching.is_on)
        return SN_OK;
    sn_exec_set_meter(t->exec, NULL);
    sn_trainer_watch_close(t);
    t->watching = (struct sn_watching){0};
    return sn_trainer_watch_open(t, err);
}

enum sn_status sn_trainer_set_batch(struct sn_trainer *t, int64_t step, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    int k = sn_batch_number(&t->env.config->train, step);
    int64_t dropped[SN_NAXES] = {0}; /* no step's */
    if (k == t->batch)
        return SN_OK;
    t->batch = k;
    sn_job_set_batch(t->job, k);
    SN_TRY(sn_trainer_count_traffic(t, err));
    SN_TRY(c->ops->agree(c, sn_trainer_record_again(t, err), err));
    SN_TRY(watch_again(t, err));
    sn_exec_take_sent(t->exec, dropped);
    return SN_OK;
}
