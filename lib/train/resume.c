/*
 * resume.c - where a run begins: the newest state that is whole.
 *
 *   newest checkpoint before B (first: of all) -- damaged? --> memory has its step or a later one?
 *     | whole                                                    | yes: go on from memory
 *   memory has a later step? -- yes --> go on from memory        | no
 *     | no                                                       v
 *   load it -- damaged on some rank? ------------------------> checkpoint.damaged:
 *     |                                                          stop:  end with the sentence
 *   go on from it                                                older: say so, B = that step,
 *                                                                       look again
 *
 * Every arrow is agreed on by all ranks. Where nothing was passed over and nothing is found, a run
 * begins; where all is damaged, it does not.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/state/weights.h"

#include <stdio.h>
#include <string.h>

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

/* What was loaded goes with train.lora. */
static enum sn_status check_adapters(const struct sn_trainer *t, struct sn_err *err)
{
    float want = sn_lora_scale(&t->env.config->train.lora), has = t->state.scalars.adapter_scale;
    if (has == want)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "checkpoint of step %lld: its adapters were trained with alpha / rank %g, but "
                   "train.lora has %g; want the same, or another checkpoint.dir",
                   (long long)t->state.scalars.step, (double)has, (double)want);
}

/* Where another run's checkpoint stands (train.continue_from). */
static enum sn_status branch(struct sn_trainer *t, struct sn_err *err)
{
    const struct sn_saver *s = t->env.saver;
    const struct sn_config *c = t->env.config;
    sn_solo_begin(t->solo, "load: train.continue_from", true);
    enum sn_status st = s->init(s->self, c, &t->state, err);
    if (st == SN_OK)
        st = check_adapters(t, err);
    SN_TRY(sn_solo_end(t->solo, st, err));
    t->is_loaded = true;
    if (t->env.comm->rank == 0)
        sn_log(SN_LOG_INFO, "continuing from the checkpoint of step %lld in %s",
               (long long)t->state.scalars.step, c->train.continue_from);
    return SN_OK;
}

/* What is trained beside weights that are frozen as they were drawn learns nothing that is of use. */
static void warn_of_noise(const struct sn_trainer *t)
{
    const struct sn_train_config *c = &t->env.config->train;
    bool has_prompt = sn_prompt_positions(&c->prompt) > 0;
    bool is_trained = !t->env.generates && !t->env.scores && !t->env.pace;
    if (t->env.comm->rank == 0 && is_trained && (has_prompt || c->lora.r > 0))
        sn_log(SN_LOG_WARN,
               "%s: train.%s learns beside weights that are random and stay so; name those of a "
               "model that is trained: train.init_from",
               t->env.config->path, has_prompt ? "prompt" : "lora");
}

static enum sn_status begin(struct sn_trainer *t, struct sn_err *err)
{
    const struct sn_saver *s = t->env.saver;
    const struct sn_config *c = t->env.config;
    if (c->train.continue_from[0])
        return branch(t, err);
    t->state.scalars = (struct sn_state_scalars){.loss_scale = first_loss_scale(&c->train),
                                                 .adapter_scale = sn_lora_scale(&c->train.lora)};
    sn_solo_begin(t->solo, "start: weights", false);
    SN_TRY(sn_solo_end(t->solo, sn_weights_init(&t->state, t->job, err), err));
    if (!c->train.init_from[0]) {
        warn_of_noise(t);
        return SN_OK;
    }
    sn_solo_begin(t->solo, "load: train.init_from", true);
    enum sn_status st = s->init(s->self, c, &t->state, err);
    SN_TRY(sn_solo_end(t->solo, st, err));
    if (t->env.comm->rank == 0)
        sn_log(SN_LOG_INFO, "weights come from %s", c->train.init_from);
    return SN_OK;
}

/* The newest checkpoint before *step in *step; -1: none. SN_EIO on all ranks: it is damaged. Ranks
 * that see different ones (a file system that lags) would train apart in silence. */
static enum sn_status find(struct sn_trainer *t, int64_t *step, struct sn_err *err)
{
    const struct sn_saver *s = t->env.saver;
    struct sn_comm *c = t->env.comm;
    int64_t mine = -1, first;
    sn_solo_begin(t->solo, "load: looking for checkpoints", false);
    struct sn_err why = {0};
    enum sn_status st = s->find(s->self, *step, &mine, &why);
    SN_TRY(sn_solo_end(t->solo, SN_OK, err));
    *err = why;
    first = mine;
    SN_TRY(c->ops->broadcast(c, &first, (int64_t)sizeof(first), 0, err));
    if ((st == SN_OK || st == SN_EIO) && mine != first)
        st = sn_fail(err, SN_EFAIL,
                     "checkpoint: this rank found step %lld where rank 0 found %lld; check that "
                     "all nodes see the same checkpoint directory",
                     (long long)mine, (long long)first);
    *step = first;
    return c->ops->agree(c, st, err);
}

/* --- damage ---------------------------------------------------------------------------------- */

/* The sentence of all ranks goes on with what would work. */
static void advise(struct sn_trainer *t, int64_t step, struct sn_err *err)
{
    const struct sn_saver *s = t->env.saver;
    struct sn_err ignored;
    char *path = s->path(s->self, step);
    size_t len = strlen(err->text), room = sizeof(err->text) - len;
    int64_t older = step;
    enum sn_status st;
    do
        st = s->find(s->self, older, &older, &ignored);
    while (st == SN_EIO && older >= 0);
    if (path && st == SN_OK && older >= 0)
        (void)snprintf(
            err->text + len, room,
            "; to go on from step %lld: mv '%s' '%s.damaged', or checkpoint.damaged: older",
            (long long)older, path, path);
    else if (path && st == SN_OK)
        (void)snprintf(err->text + len, room,
                       "; no older one is whole: restore it, or begin anew with --fresh");
    sn_free(path);
}

/* Go on without checkpoint `step`, of which `why` tells the damage to all ranks. */
static enum sn_status step_over(struct sn_trainer *t, int64_t step, const struct sn_err *why,
                                const char *because, struct sn_err *err)
{
    const struct sn_saver *s = t->env.saver;
    enum sn_status st = SN_OK;
    if (t->env.comm->rank == 0) {
        sn_log(SN_LOG_WARN, "the checkpoint of step %lld is damaged and passed over (%s): %s",
               (long long)step, because, why->text);
        if (t->env.attempt)
            sn_attempt_pass_over(t->env.attempt, step, why);
        st = s->pass_over(s->self, step, err);
    }
    return t->env.comm->ops->agree(t->env.comm, st, err);
}

/* --- where it begins -------------------------------------------------------------------------- */

static enum sn_status load(struct sn_trainer *t, int64_t step, struct sn_err *err)
{
    const struct sn_saver *s = t->env.saver;
    sn_solo_begin(t->solo, "load: checkpoint", true);
    enum sn_status st = s->load(s->self, step, &t->state, err);
    if (st == SN_OK)
        st = check_adapters(t, err);
    SN_TRY(sn_solo_end(t->solo, st, err));
    if (t->env.comm->rank == 0)
        sn_log(SN_LOG_INFO, "continuing from the checkpoint of step %lld", (long long)step);
    return SN_OK;
}

/* Checkpoint `step` is damaged, as *err tells all ranks. In memory there may be its step or a later
 * one; else checkpoint.damaged decides. */
static enum sn_status do_without(struct sn_trainer *t, int64_t step, struct sn_err *err)
{
    struct sn_err why = *err;
    if (!t->is_loaded)
        SN_TRY(sn_trainer_snapshot_find(t, false, step - 1, &t->is_loaded, err));
    if (t->is_loaded)
        return step_over(t, step, &why, "memory has a newer state", err);
    if (t->env.config->checkpoint.damaged == SN_DAMAGED_OLDER)
        return step_over(t, step, &why, "checkpoint.damaged: older", err);
    *err = why;
    if (t->env.comm->rank == 0)
        advise(t, step, err);
    return SN_EIO;
}

/* From the newest state that is whole: in memory, or a checkpoint before step *before. That
 * checkpoint's step in *before, with nothing loaded: it is damaged and to be done without. */
static enum sn_status continue_before(struct sn_trainer *t, int64_t *before, bool is_first,
                                      struct sn_err *err)
{
    int64_t step = *before;
    enum sn_status st = find(t, &step, err);
    if (st == SN_OK) {
        SN_TRY(sn_trainer_snapshot_find(t, false, step, &t->is_loaded, err));
        if (t->is_loaded)
            return SN_OK;
        if (step < 0 && !is_first)
            return sn_fail(err, SN_EIO,
                           "checkpoint: none is whole; restore one, or begin anew with --fresh");
        if (step < 0)
            return begin(t, err);
        st = load(t, step, err);
        t->is_loaded = st == SN_OK;
    }
    *before = step;
    return st == SN_EIO && step >= 0 ? do_without(t, step, err) : st;
}

static enum sn_status restore(struct sn_trainer *t, bool fresh, int64_t before, struct sn_err *err)
{
    const struct sn_saver *s = t->env.saver;
    struct sn_comm *c = t->env.comm;
    if (fresh) {
        SN_TRY(c->ops->agree(c, c->rank == 0 ? s->set_aside(s->self, err) : SN_OK, err));
        SN_TRY(sn_trainer_snapshot_find(t, true, -1, &t->is_loaded, err));
        return begin(t, err);
    }
    bool is_first = true;
    for (bool is_done = false; !is_done; is_first = false) {
        int64_t last = before;
        SN_TRY(continue_before(t, &before, is_first, err));
        is_done = t->is_loaded || before == last; /* or it has begun */
    }
    return SN_OK;
}

/* No checkpoint has PowerSGD's factors: a random start again, which costs a few steps' accuracy and
 * the same bits. */
static void log_factors(const struct sn_trainer *t)
{
    bool has_some = false;
    for (int i = 0; i < t->job->n_buckets; i++)
        has_some = has_some || t->job->buckets[i].factors >= 0;
    if (has_some && t->state.scalars.step > 0 && t->env.comm->rank == 0)
        sn_log(SN_LOG_INFO, "layout.compress.data: the factors of powersgd begin anew");
}

/* --- data -------------------------------------------------------------------------------------- */

/* Ranks that see other files would each train in an order of their own. */
static enum sn_status same_files(const struct sn_trainer *t, const struct sn_set_fit *sets, int n,
                                 const char *key, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    int64_t tokens[SN_SETS_MAX] = {0};
    enum sn_status st = SN_OK;
    for (int i = 0; i < n; i++)
        tokens[i] = sets[i].tokens;
    SN_TRY(c->ops->broadcast(c, tokens, (int64_t)sizeof(tokens), 0, err));
    for (int i = 0; i < n && st == SN_OK; i++)
        if (tokens[i] != sets[i].tokens)
            st = sn_fail(err, SN_EINPUT,
                         "data.%s: this rank finds %lld tokens in %s where rank 0 finds %lld; "
                         "check that all nodes see the same files",
                         key, (long long)sets[i].tokens, sets[i].path, (long long)tokens[i]);
    return c->ops->agree(c, st, err);
}

uint64_t sn_trainer_past(const struct sn_trainer *t)
{
    const struct sn_config *c = t->env.config;
    return sn_blend_past(&t->fit.blend, &c->data.train,
                         sn_samples_before(&c->train, t->state.scalars.step + 1));
}

static enum sn_status restore_all(struct sn_trainer *t, bool fresh, int64_t before,
                                  enum sn_status st, struct sn_err *err)
{
    SN_TRY(t->env.comm->ops->agree(t->env.comm, st, err));
    SN_TRY(same_files(t, t->fit.train, t->fit.n_train, "train", err));
    SN_TRY(same_files(t, t->fit.valid, t->fit.n_valid, "valid", err));
    SN_TRY(t->env.comm->ops->agree(t->env.comm, restore(t, fresh, before, err), err));
    state_to_scalars(t);
    log_factors(t);
    /* Ranks that read different steps (a file system that lags) would train apart in silence. */
    int64_t step = t->state.scalars.step;
    SN_TRY(t->env.comm->ops->broadcast(t->env.comm, &step, (int64_t)sizeof(step), 0, err));
    if (step != t->state.scalars.step)
        st = sn_fail(err, SN_EFAIL,
                     "checkpoint: this rank found step %lld where rank 0 found %lld; check that "
                     "all nodes see the same checkpoint directory",
                     (long long)t->state.scalars.step, (long long)step);
    if (st == SN_OK && t->train_data.n > 0) /* else tokens are generated */
        st = sn_blend_goes_on(&t->fit.blend, t->env.config, step, t->state.scalars.blend, err);
    return t->env.comm->ops->agree(t->env.comm, st, err);
}

enum sn_status sn_trainer_restore(struct sn_trainer *t, bool fresh, enum sn_status st,
                                  struct sn_err *err)
{
    return restore_all(t, fresh, INT64_MAX, st, err);
}

enum sn_status sn_trainer_restore_before(struct sn_trainer *t, int64_t before, enum sn_status st,
                                         struct sn_err *err)
{
    return restore_all(t, false, before, st, err);
}

enum sn_status sn_trainer_publish(struct sn_trainer *t, struct sn_err *err)
{
    SN_TRY((t->is_loaded ? sn_weights_publish_loaded : sn_weights_publish)(t->exec, t->job,
                                                                           t->env.comm, err));
    return sn_exec_push(t->exec, err);
}
