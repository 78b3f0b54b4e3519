/*
 * overflow.c - steps that update nothing because gradients times the loss scale are too large for
 * fp16.
 *
 * A dynamic scale halves with each of them and finds its way; a fixed one is as wrong in the next
 * step, and the run would reach its end having learnt nothing.
 */
#include "lib/base/log.h"
#include "lib/train/trainer_state.h"

static void say_skipped(const struct sn_trainer *t)
{
    const struct sn_scalars *s = sn_exec_scalars(t->exec);
    bool dynamic = t->env.config->train.loss_scale == 0;
    if (t->env.comm->rank != 0)
        return;
    if (dynamic)
        sn_log(
            SN_LOG_WARN,
            "step %lld: skipped, %lld gradient elements overflow at loss scale %g; it is %g from "
            "here on",
            (long long)s->step, (long long)s->nonfinite, (double)t->loss_scale,
            (double)s->loss_scale);
    else
        sn_log(
            SN_LOG_WARN,
            "step %lld: skipped, %lld gradient elements overflow at train.loss_scale (%g); %d in "
            "a row end the run, this is number %d",
            (long long)s->step, (long long)s->nonfinite, (double)t->loss_scale, SN_SKIPPED_MOST,
            t->skipped_in_row);
}

bool sn_trainer_is_stuck(struct sn_trainer *t)
{
    const struct sn_train_config *c = &t->env.config->train;
    const struct sn_scalars *s = sn_exec_scalars(t->exec);
    bool is_skipped = !t->env.pace && c->precision == SN_F16 && !s->ok;
    t->skipped_in_row = is_skipped ? t->skipped_in_row + 1 : 0;
    if (!is_skipped)
        return false;
    say_skipped(t);
    if (c->loss_scale == 0 || t->skipped_in_row < SN_SKIPPED_MOST)
        return false;
    if (t->env.comm->rank == 0)
        sn_log(SN_LOG_ERROR,
               "step %lld: nothing is learnt at train.loss_scale: %g; use a smaller one, or "
               "dynamic; checkpoints from before the %d skipped steps are untouched",
               (long long)s->step, (double)t->loss_scale, SN_SKIPPED_MOST);
    return true;
}
