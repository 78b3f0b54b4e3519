/*
 * trainer.c - building a trainer, and the step loop.
 *
 * Nothing in the loop allocates: buffers, lists and files exist before step 1. A failure on one
 * rank before the loop is agreed on; inside the loop it ends the job (bin/ aborts).
 */
#include "lib/train/trainer_state.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/data/data_tokenizer.h"
#include "lib/exec/accelerator.h"
#include "lib/state/weights.h"
#include "lib/train/lr.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- start ----------------------------------------------------------------------------------- */

struct sn_loader sn_trainer_loader(const struct sn_trainer *t, const struct sn_corpus *corpus)
{
    const struct sn_config *c = t->env.config;
    return (struct sn_loader){
        .config = c,
        .corpus = corpus,
        .blend = &t->fit.blend,
        .rank = t->job->group_index[SN_GROUP_DATA],
        .ranks = t->job->group_size[SN_GROUP_DATA],
        .sequences = c->layout.micro_batch,
        .place = {.seq = c->model.seq,
                  .context = t->job->group_size[SN_GROUP_CONTEXT],
                  .context_rank = t->job->group_index[SN_GROUP_CONTEXT],
                  .zigzag = c->layout.context_kind == SN_CONTEXT_RING},
        .whole = t->sample,
        .ids = sn_exec_address(t->exec, &t->job->train, t->job->ids),
        .targets = sn_exec_address(t->exec, &t->job->train, t->job->targets),
        .sets = t->job->sets < 0 ? NULL : sn_exec_address(t->exec, &t->job->train, t->job->sets),
        .further =
            t->job->further < 0 ? NULL : sn_exec_address(t->exec, &t->job->train, t->job->further),
        .starts =
            t->job->starts < 0 ? NULL : sn_exec_address(t->exec, &t->job->train, t->job->starts),
        .features = t->job->features < 0
                        ? NULL
                        : sn_exec_address(t->exec, &t->job->train, t->job->features)};
}

static enum sn_status build(struct sn_trainer *t, struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    SN_TRY(sn_model_create(&t->model, &c->model, &c->train, err));
    struct sn_job_env env = {.config = c,
                             .model = t->model,
                             .ops = t->env.ops,
                             .threads = t->env.threads,
                             .rank = t->env.comm->rank,
                             .scores = t->env.scores,
                             .keeps_past = t->env.keeps_past,
                             .generates = t->env.generates};
    SN_TRY(sn_job_create(&t->job, &env, err));
    t->batch = sn_batch_sizes(&c->train) - 1;
    SN_TRY(sn_exec_create_on(&t->exec, t->job, t->env.comm, t->env.accelerator, err));
    t->summaries =
        sn_alloc_n(t->env.comm->rank == 0 ? (size_t)t->env.comm->size : 1, sizeof(*t->summaries));
    t->sample = sn_alloc_n((2 + (size_t)sn_job_further(t->job)) * (size_t)c->model.seq,
                           sizeof(*t->sample));
    t->first_sample = sn_alloc_n((size_t)t->job->train.micros, sizeof(*t->first_sample));
    if (!t->summaries || !t->first_sample || !t->sample)
        return sn_fail(err, SN_ENOMEM, "trainer: no memory");
    SN_TRY(sn_state_create(&t->state, t->exec, t->job, err));
    sn_config_format_model(&t->model_text, c);
    if (t->model_text.failed)
        return sn_fail(err, SN_ENOMEM, "trainer: no memory");
    t->state.model_text = t->model_text.p;
    sn_config_format_layout(&t->layout_text, c);
    if (t->layout_text.failed)
        return sn_fail(err, SN_ENOMEM, "trainer: no memory");
    t->state.layout_text = t->layout_text.p;
    t->state.config_hash = sn_config_hash(c);
    t->state.progress = sn_solo_progress(t->solo);
    sn_exec_scalars(t->exec)->seed = c->run.seed;
    if (t->env.pace)
        sn_exec_set_pace(t->exec, t->env.pace);
    return SN_OK;
}

/* Where nobody has said what to do: a test that hangs. */
static void give_up(void *self, const struct sn_err *why)
{
    (void)self;
    sn_log(SN_LOG_ERROR, "%s", why->text);
    abort();
}

enum sn_status sn_trainer_create(struct sn_trainer **out, const struct sn_trainer_env *env,
                                 struct sn_err *err)
{
    struct sn_trainer *t = sn_alloc(sizeof(*t));
    struct sn_solo_env watch = {.comm = env->comm,
                                .timeout_s = env->config->run.hang_timeout,
                                .give_up = env->give_up ? env->give_up : give_up,
                                .self = env->self};
    enum sn_status st = t ? SN_OK : sn_fail(err, SN_ENOMEM, "trainer: no memory");
    if (t) {
        t->env = *env;
        sn_health_init(&t->health, env->accelerator, env->config->run.output, env->comm->rank);
        st = sn_solo_create(&t->solo, &watch, err);
    }
    st = env->comm->ops->agree(env->comm, st, err);
    if (st == SN_OK) {
        sn_solo_begin(t->solo, "start: compile", false);
        st = sn_solo_end(t->solo, build(t, err), err);
        t->is_lost = st == SN_ELOST;
    }
    if (st == SN_OK)
        st = sn_trainer_handshake(t, err);
    if (st != SN_OK) {
        sn_trainer_destroy(t);
        return st;
    }
    *out = t;
    return SN_OK;
}

void sn_trainer_destroy(struct sn_trainer *t)
{
    if (!t || t->is_lost) /* the process is about to end, and something may still use it all */
        return;
    sn_trainer_save_close(t);
    sn_trainer_snapshot_close(t);
    sn_metrics_close(t->metrics);
    sn_timeline_destroy(t->timed.timeline);
    sn_trainer_watch_close(t);
    sn_trainer_record_close(t);
    sn_state_fini(&t->state);
    sn_str_fini(&t->model_text);
    sn_str_fini(&t->layout_text);
    sn_ahead_fini(&t->ahead);
    sn_corpus_close(&t->train_data);
    sn_corpus_close(&t->valid_data);
    sn_free(t->first_sample);
    sn_free(t->sample);
    sn_free(t->summaries);
    sn_exec_destroy(t->exec);
    sn_job_destroy(t->job);
    sn_model_destroy(t->model);
    sn_solo_destroy(t->solo);
    sn_free(t);
}

const struct sn_job *sn_trainer_job(const struct sn_trainer *t)
{
    return t->job;
}

double sn_trainer_stepping(const struct sn_trainer *t)
{
    return t->stepping;
}

struct sn_exec *sn_trainer_exec(struct sn_trainer *t)
{
    return t->exec;
}

/* --- one step -------------------------------------------------------------------------------- */

/* Is OUTPUT/save-and-exit there? A request that was met is removed,
 * so that the next start works. */
static bool asked_by_file(const struct sn_trainer *t, bool met)
{
    char path[SN_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/save-and-exit", t->env.config->run.output);
    return t->env.comm->rank == 0 && (met ? unlink(path) : access(path, F_OK)) == 0;
}

static void prepare_scalars(struct sn_trainer *t, int64_t step)
{
    const struct sn_train_config *c = &t->env.config->train;
    struct sn_scalars *s = sn_exec_scalars(t->exec);
    int wanted = sn_signals_wanted(t->env.signals);
    s->step = step;
    s->lr = (float)sn_lr_at(c, step);
    s->clip = (float)c->optimizer.clip;
    s->tokens_in_step = (double)sn_batch_of(c, step) * t->env.config->model.seq;
    s->loss_sum = s->sq_norm = s->balance_sum = s->z_sum = s->head_z_sum = s->beside_sum = 0;
    s->nonfinite = 0;
    memset(s->sq_exact, 0, sizeof(s->sq_exact));
    for (int i = 0; i < sn_told_sets(&t->env.config->data); i++)
        sn_set_losses(s)[i] = 0;
    t->loss_scale = s->loss_scale;
    sn_codec_monitor_begin(t, step);
    s->agree[SN_AGREE_SAVE] = wanted == SN_EXIT_SAVED || asked_by_file(t, false);
    s->agree[SN_AGREE_TERMINATE] = wanted == SN_EXIT_TERMINATED;
    sn_trainer_save_report(t, s->agree);
}

enum sn_status sn_trainer_step(struct sn_trainer *t, int64_t step, struct sn_err *err)
{
    double t0 = sn_clock();
    const struct sn_config *c = t->env.config;
    struct sn_sample_count count;
    SN_TRY(sn_trainer_set_batch(t, step, err));
    prepare_scalars(t, step);
    SN_TRY(sn_ahead_take(&t->ahead, &t->train, step, t->job->train.micros, t->first_sample, &count,
                         err));
    sn_trainer_set_targets(t, step, count.targets);
    t->ahead.wanted = step < c->train.steps ? step + 1 : 0;
    sn_trainer_record_begin(t, step);
    SN_TRY(sn_exec_run(t->exec, &t->job->train, t->first_sample, err));
    SN_TRY(sn_trainer_record_end(t, step, err));
    SN_TRY(sn_trainer_snapshot_end(t, err));
    SN_TRY(sn_trainer_check_traffic(t, step, err));
    const struct sn_scalars *s = sn_exec_scalars(t->exec);
    t->state.scalars.step = step;
    t->state.scalars.tokens += (int64_t)s->tokens_in_step;
    double seconds = sn_clock() - t0;
    SN_TRY(sn_trainer_watch_end(t, step, seconds, err));
    SN_TRY(sn_trainer_find_peak(t, err));
    const struct sn_device_health *health = sn_health_ask(&t->health, step);
    if (!t->metrics)
        return SN_OK;
    struct sn_snapshot_report snapshot;
    struct sn_step_report r = {
        .step = step,
        .steps = c->train.steps,
        .left = (double)(sn_samples_before(&c->train, c->train.steps + 1) -
                         sn_samples_before(&c->train, step + 1)) /
                sn_batch_of(&c->train, step),
        .loss = t->env.pace ? NAN : s->loss_sum / s->targets_in_step,
        .head_z = c->train.z_loss > 0 && !t->env.pace ? s->head_z_sum / s->targets_in_step : NAN,
        .mtp = c->model.mtp > 0 && !t->env.pace
                   ? s->beside_sum / (s->targets_in_step * c->model.mtp)
                   : NAN,
        .grad_norm = t->env.pace ? NAN : s->grad_norm,
        .lr = sn_lr_at(&c->train,
                       step), /* not the float that updates take: 1e-3 has 9 digits there */
        .tokens = t->state.scalars.tokens,
        .step_tokens = (int64_t)s->tokens_in_step,
        .step_time = seconds,
        .targets = sn_samples_are_plain(c) ? -1 : count.targets,
        .length = sn_lengths(c) > 1 ? sn_length_of(c, step) : 0,
        .flops_per_token =
            sn_model_flops_of_keys(t->model, &c->model, count.keys / s->tokens_in_step,
                                   count.window_keys / s->tokens_in_step),
        .flops_uncausal = sn_model_flops_uncausal(t->model, &c->model),
        .peak = t->peak,
        .fp16 = c->train.precision == SN_F16,
        .loss_scale = (double)s->loss_scale,
        .skipped = s->skipped,
        .overflow = t->env.pace || s->ok ? 0 : s->nonfinite,
        .memory = &t->memory,
        .traffic = t->traffic,
        .snapshot = sn_trainer_snapshot_report(t, &snapshot),
        .health = health,
    };
    r.n_departs = sn_trainer_watch_findings(t, &r.departs);
    sn_trainer_report_routers(t, &r);
    sn_trainer_report_set_losses(t, &count, &r);
    sn_codec_monitor_report(t, &r);
    return sn_metrics_step(t->metrics, &r, err);
}

/* The run's end for numerical reasons: a loss that is no number, or gradients that are none where
 * no loss scale could be at fault. */
static bool diverged(const struct sn_trainer *t)
{
    const struct sn_scalars *s = sn_exec_scalars(t->exec);
    if (t->env.pace)
        return false; /* nothing was computed */
    if (!isfinite(s->loss_sum))
        return true;
    bool dynamic = t->env.config->train.precision == SN_F16;
    return !s->ok && (!dynamic || s->loss_scale < 1e-6f);
}

static void say_diverged(const struct sn_trainer *t)
{
    const struct sn_scalars *s = sn_exec_scalars(t->exec);
    if (t->env.comm->rank == 0)
        sn_log(SN_LOG_ERROR,
               "step %lld: the %s not finite (%lld gradient elements); lower train.optimizer.lr or "
               "look at the data of this step; checkpoints from before it are untouched",
               (long long)s->step, isfinite(s->loss_sum) ? "gradients are" : "loss is",
               (long long)s->nonfinite);
}

/* Before an update: what others still read must not change. */
static void fence(void *self)
{
    sn_trainer_save_fence(self);
    sn_trainer_snapshot_fence(self);
    sn_trainer_watch_fence(self);
}

/* Saves read the mirror, which no update changes once it has been copied. */
static void mirror_fence(void *self)
{
    sn_trainer_save_pulled(self);
    sn_trainer_snapshot_fence(self);
}

/* --- the loop -------------------------------------------------------------------------------- */

enum sn_status sn_trainer_rehearse(struct sn_trainer *t, struct sn_err *err)
{
    enum sn_status st = sn_trainer_open_train(t, err);
    SN_TRY(sn_trainer_restore(t, false, st, err));
    SN_TRY(t->env.comm->ops->agree(t->env.comm, sn_trainer_publish(t, err), err));
    return sn_trainer_step(t, t->state.scalars.step + 1, err);
}

/* Its files go where checkpoints will be, on rank 0. What only the checkpoint knew, and has lost, ends
 * no run. */
static enum sn_status keep_tokenizer(struct sn_trainer *t, struct sn_err *err)
{
    const struct sn_saver *s = t->env.saver;
    struct sn_tokenizer_id data;
    if (t->env.comm->rank != 0 || !t->state.tokenizer.file[0] || !s->keep)
        return SN_OK;
    enum sn_status st = s->keep(s->self, &t->state.tokenizer, err);
    if (st != SN_EINPUT)
        return st;
    struct sn_err why = *err;
    SN_TRY(sn_data_tokenizer_of_run(&data, t->env.config, err));
    if (data.file[0]) {
        *err = why;
        return st;
    }
    sn_log(SN_LOG_WARN, "%s", why.text);
    return SN_OK;
}

static enum sn_status open_records(struct sn_trainer *t, struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    if (t->env.comm->rank == 0)
        SN_TRY(sn_metrics_open(&t->metrics, c->run.output,
                               t->env.pace ? "pace.jsonl" : "metrics.jsonl", t->state.scalars.step,
                               err));
    if (c->run.fingerprints > 0 && !t->env.pace)
        SN_TRY(sn_trainer_record_open(t, c->run.fingerprints, err));
    if (t->env.pace)
        return SN_OK;
    SN_TRY(keep_tokenizer(t, err));
    return sn_trainer_save_open(t, err);
}

static enum sn_status start(struct sn_trainer *t, bool fresh, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    SN_TRY(sn_trainer_open_data(t, err));
    if (!t->env.pace) {
        SN_TRY(sn_trainer_restore(t, fresh, SN_OK, err));
        SN_TRY(sn_trainer_check_sparse(t, err));
        if (t->env.attempt)
            sn_attempt_resumed(t->env.attempt, t->state.scalars.step);
        SN_TRY(c->ops->agree(c, sn_trainer_publish(t, err), err));
    } else if (c->rank == 0) {
        sn_log(SN_LOG_WARN, "--pace: compute operations sleep, so there are no losses; nothing is "
                            "learnt, evaluated or saved, and times go to pace.jsonl");
    }
    SN_TRY(sn_trainer_set_batch(t, t->state.scalars.step + 1, err));
    sn_solo_begin(t->solo, "start: memory and records", false);
    SN_TRY(sn_solo_end(t->solo, open_records(t, err), err));
    sn_exec_set_fence(t->exec, sn_exec_has_mirror(t->exec) ? mirror_fence : fence, t);
    SN_TRY(sn_trainer_watch_open(t, err));
    return t->env.pace ? SN_OK : sn_trainer_snapshot_open(t, err);
}

static bool every(int64_t n, int64_t step)
{
    return n > 0 && step % n == 0;
}

/* What follows a finished step: validation, checkpoints, leaving. Sets *leave to an exit code, or
 * -1 to go on. */
static enum sn_status after_step(struct sn_trainer *t, const struct sn_trainer_options *o,
                                 int64_t last, int *leave, struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    int64_t step = t->state.scalars.step;
    const struct sn_scalars *s = sn_exec_scalars(t->exec);
    *leave = -1;
    SN_TRY(sn_trainer_save_follow(t, err));
    bool is_diverged = diverged(t);
    if (is_diverged)
        say_diverged(t);
    if (is_diverged || sn_trainer_is_stuck(t)) {
        *leave = SN_EXIT_DIVERGED;
        return SN_OK;
    }
    sn_codec_monitor_end(t);
    if (s->agree[SN_AGREE_TERMINATE] > 0)
        *leave = SN_EXIT_TERMINATED;
    else if (s->agree[SN_AGREE_SAVE] > 0)
        *leave = SN_EXIT_SAVED;
    else if (step >= last)
        *leave = 0;
    bool keeps = !t->env.pace && !o->trial;
    bool saves = keeps && (*leave >= 0 || every(c->checkpoint.every, step));
    bool evaluates = t->valid_data.n > 0 && !o->trial && *leave <= 0 &&
                     (every(c->train.eval_every, step) || step == c->train.steps);
    if (evaluates) {
        struct sn_eval_report r = {.step = step};
        SN_TRY(sn_trainer_evaluate(t, &r, err));
        if (t->metrics)
            SN_TRY(sn_metrics_eval(t->metrics, &r, err));
    }
    if (evaluates || saves)
        SN_TRY(sn_trainer_report_sets(t, err));
    if (saves)
        SN_TRY(sn_trainer_save(t, err));
    if (keeps && *leave < 0 && every(c->checkpoint.snapshot_every, step))
        SN_TRY(sn_trainer_snapshot_take(t, err));
    return SN_OK;
}

static enum sn_status run(struct sn_trainer *t, const struct sn_trainer_options *o, int *exit_code,
                          struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    SN_TRY(start(t, o->fresh, err));
    int64_t last = c->train.steps, first = t->state.scalars.step + 1;
    if (o->stop_after > 0 && o->stop_after < last)
        last = o->stop_after;
    SN_TRY(sn_trainer_timed_open(t, o, first, last, err));
    *exit_code = 0;
    int leave = -1;
    if (t->state.scalars.step >= last && t->env.comm->rank == 0)
        sn_log(SN_LOG_INFO, "nothing to do: step %lld of %lld is done",
               (long long)t->state.scalars.step, (long long)last);
    sn_signals_set_early(t->env.signals, NULL, NULL); /* from here on there is something to save */
    t->stepping = sn_clock_date();
    for (int64_t step = first; step <= last && leave < 0; step++) {
        sn_trainer_timed_begin(t, step);
        SN_TRY(sn_trainer_step(t, step, err));
        SN_TRY(sn_trainer_timed_end(t, o, step, err));
        SN_TRY(after_step(t, o, last, &leave, err));
    }
    SN_TRY(sn_trainer_save_wait(t, err));
    if (leave >= 0 || !t->snapping.is_resumed) /* else nothing else has this state */
        SN_TRY(sn_trainer_snapshot_forget(t, err));
    if (leave == SN_EXIT_SAVED)
        (void)asked_by_file(t, true);
    *exit_code = leave > 0 ? leave : 0;
    return SN_OK;
}

enum sn_status sn_trainer_run(struct sn_trainer *t, const struct sn_trainer_options *o,
                              int *exit_code, struct sn_err *err)
{
    enum sn_status st = run(t, o, exit_code, err);
    t->is_lost = st == SN_ELOST;
    return st;
}
