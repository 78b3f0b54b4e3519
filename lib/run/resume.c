/*
 * resume.c - where a run begins.
 */
#include "lib/run/trainer_state.h"

#include "lib/base/log.h"
#include "lib/run/weights.h"

static void state_to_scalars(struct sn_trainer *t)
{
    struct sn_scalars *s = sn_exec_scalars(t->exec);
    s->adam_count = t->state.scalars.adam_count;
    s->scale_age = t->state.scalars.scale_age;
    s->skipped = t->state.scalars.skipped;
    s->loss_scale = t->state.scalars.loss_scale;
    for (int i = 0; i < SN_NCODED; i++) { /* the run file may name other codecs now */
        struct sn_codec codec[SN_CODEC_LEVELS];
        int levels = sn_coding_levels(t->env.config, (enum sn_coded)i, codec);
        int32_t was = t->state.scalars.codec_level[i];
        s->codec_level[i] = was < levels ? was : levels - 1;
    }
}

static float first_loss_scale(const struct sn_train_config *c)
{
    if (c->precision != SN_F16)
        return 1.0f;
    return c->loss_scale > 0 ? (float)c->loss_scale : 65536.0f;
}

static enum sn_status begin(struct sn_trainer *t, struct sn_err *err)
{
    const char *from = t->env.config->train.init_from;
    t->state.scalars =
        (struct sn_state_scalars){.loss_scale = first_loss_scale(&t->env.config->train)};
    SN_TRY(sn_weights_init(&t->state, t->job, err));
    if (!from[0])
        return SN_OK;
    SN_TRY(t->env.saver->init(t->env.saver->self, t->env.config, &t->state, err));
    if (t->env.comm->rank == 0)
        sn_log(SN_LOG_INFO, "weights come from %s", from);
    return SN_OK;
}

/* The newest checkpoint in *step; -1: none. */
static enum sn_status find(struct sn_trainer *t, bool fresh, int64_t *step, struct sn_err *err)
{
    const struct sn_saver *s = t->env.saver;
    if (fresh && t->env.comm->rank == 0)
        SN_TRY(s->set_aside(s->self, err));
    *step = -1;
    return fresh ? SN_OK : s->find(s->self, step, err);
}

static enum sn_status restore(struct sn_trainer *t, bool fresh, enum sn_status st,
                              struct sn_err *err)
{
    const struct sn_saver *s = t->env.saver;
    int64_t step;
    bool loaded;
    if (st == SN_OK)
        st = find(t, fresh, &step, err);
    SN_TRY(t->env.comm->ops->agree(t->env.comm, st, err));
    SN_TRY(sn_trainer_snapshot_find(t, fresh, step, &loaded, err));
    t->is_loaded = loaded || step >= 0;
    if (loaded)
        return SN_OK;
    if (step < 0)
        return begin(t, err);
    SN_TRY(s->load(s->self, step, &t->state, err));
    if (t->env.comm->rank == 0)
        sn_log(SN_LOG_INFO, "continuing from the checkpoint of step %lld", (long long)step);
    return SN_OK;
}

/* No checkpoint has PowerSGD's factors: a random start again, which costs a few steps' accuracy and
 * the same bits. */
static void tell_of_factors(const struct sn_trainer *t)
{
    bool has_some = false;
    for (int i = 0; i < t->job->n_buckets; i++)
        has_some = has_some || t->job->buckets[i].factors >= 0;
    if (has_some && t->state.scalars.step > 0 && t->env.comm->rank == 0)
        sn_log(SN_LOG_INFO, "layout.compress.data: the factors of powersgd begin anew");
}

enum sn_status sn_trainer_restore(struct sn_trainer *t, bool fresh, enum sn_status st,
                                  struct sn_err *err)
{
    st = restore(t, fresh, st, err);
    SN_TRY(t->env.comm->ops->agree(t->env.comm, st, err));
    state_to_scalars(t);
    tell_of_factors(t);
    /* Ranks that read different steps (a file system that lags) would train apart in silence. */
    int64_t step = t->state.scalars.step;
    SN_TRY(t->env.comm->ops->broadcast(t->env.comm, &step, (int64_t)sizeof(step), 0, err));
    if (step != t->state.scalars.step)
        st = sn_fail(err, SN_EFAIL,
                     "checkpoint: this rank found step %lld where rank 0 found %lld; check that "
                     "all nodes see the same checkpoint directory",
                     (long long)t->state.scalars.step, (long long)step);
    return t->env.comm->ops->agree(t->env.comm, st, err);
}

enum sn_status sn_trainer_publish(struct sn_trainer *t, struct sn_err *err)
{
    SN_TRY((t->is_loaded ? sn_weights_publish_loaded : sn_weights_publish)(t->exec, t->job,
                                                                           t->env.comm, err));
    return sn_exec_push(t->exec, err);
}
