/*
 * save.c - how a run is written down: three phases in which all ranks take part, beside the step
 * loop when checkpoint.async is set. What ranks hold alike is compared before it is committed.
 *
 * While it runs, a save needs no communication of its own: each step's last all-reduce carries how
 * many ranks have ended their phase, and how many have failed. So all ranks go from one phase to
 * the next, or leave, after the same step.
 *
 * On a device an asynchronous save begins with a copy to the mirror, beside the next step; before
 * that step's update it is waited for, and hashing and writing begin.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/program/boxes.h"

#include <string.h>

void sn_trainer_take_scalars(struct sn_trainer *t)
{
    const struct sn_scalars *s = sn_exec_scalars(t->exec);
    t->state.scalars.adam_count = s->adam_count;
    t->state.scalars.scale_age = s->scale_age;
    t->state.scalars.skipped = s->skipped;
    t->state.scalars.loss_scale = s->loss_scale;
    memcpy(t->state.scalars.codec_level, s->codec_level, sizeof(s->codec_level));
    t->state.scalars.blend = sn_trainer_past(t);
}

/* --- one phase on this rank ------------------------------------------------------------------- */

static bool takes_part(const struct sn_trainer *t)
{
    return t->saving.phase == SN_SAVE_WRITE || t->env.comm->rank == 0;
}

/* A phase that cannot begin has ended like one that fails. */
static void begin(struct sn_trainer *t, enum sn_save_phase phase)
{
    struct sn_saving *v = &t->saving;
    const struct sn_saver *s = t->env.saver;
    v->phase = phase;
    v->status = SN_OK;
    v->moved = sn_clock();
    v->has_ended = !takes_part(t);
    if (takes_part(t))
        v->status = s->begin(s->self, &v->state, phase, &v->err);
    v->has_ended |= v->status != SN_OK;
}

/* What was to be copied from the device is here: hash it, and write. */
static void pulled(struct sn_trainer *t)
{
    struct sn_saving *v = &t->saving;
    double t0 = sn_clock();
    if (!v->is_pulling)
        return;
    v->is_pulling = false;
    v->status = sn_exec_pull_wait(t->exec, &v->err);
    if (v->status == SN_OK)
        v->status = sn_replica_check_begin(t->copies, &v->err);
    if (v->status == SN_OK)
        begin(t, SN_SAVE_WRITE);
    v->has_ended |= v->status != SN_OK;
    v->stall += sn_clock() - t0;
}

static void look(struct sn_trainer *t, bool wait)
{
    struct sn_saving *v = &t->saving;
    const struct sn_saver *s = t->env.saver;
    if (wait)
        pulled(t);
    if (!v->has_ended && !v->is_pulling)
        v->status = s->finish(s->self, wait, &v->has_ended, &v->err);
}

/* For people. */
static const char *const what[] = {[SN_SAVE_PREPARE] = "save: making room",
                                   [SN_SAVE_WRITE] = "save: shard",
                                   [SN_SAVE_COMMIT] = "save: commit"};

/* Wait for the phase's end on all ranks. */
static enum sn_status finish(struct sn_trainer *t, struct sn_err *err)
{
    struct sn_saving *v = &t->saving;
    sn_solo_begin(t->solo, what[v->phase], true);
    look(t, true);
    if (v->status != SN_OK)
        *err = v->err;
    return sn_solo_end(t->solo, v->status, err);
}

static enum sn_status phase(struct sn_trainer *t, enum sn_save_phase p, struct sn_err *err)
{
    begin(t, p);
    return finish(t, err);
}

/* After a rank was lost the process is about to end, and the next save tidies. */
static void abandon(struct sn_trainer *t, enum sn_status st)
{
    struct sn_err why;
    const struct sn_saver *s = t->env.saver;
    t->saving.is_under_way = false;
    if (t->env.comm->rank == 0 && st != SN_ELOST &&
        sn_saver_phase(s, &t->saving.state, SN_SAVE_ABANDON, &why) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", why.text); /* the next save tries again */
}

static enum sn_status report(struct sn_trainer *t, struct sn_err *err)
{
    const struct sn_state *s = &t->saving.state;
    struct sn_save_report r = {.step = s->scalars.step, .stall = t->saving.stall};
    t->saving.is_under_way = false;
    if (!t->saves)
        return SN_OK;
    for (int i = 0; i < s->n_all; i++)
        r.bytes += s->all[i].rows * s->all[i].cols * (int64_t)sizeof(float);
    t->env.saver->times(t->env.saver->self, &r.times);
    return sn_metrics_save(t->saves, &r, err);
}

/* --- a whole save ----------------------------------------------------------------------------- */

/* Before an update: what a save is still to copy, or to hash, must not change. */
void sn_trainer_save_fence(struct sn_trainer *t)
{
    if (!t->saving.is_under_way || t->saving.phase != SN_SAVE_WRITE)
        return;
    pulled(t);
    double t0 = sn_clock();
    sn_replica_check_wait(t->copies);
    t->env.saver->copied(t->env.saver->self);
    t->saving.stall += sn_clock() - t0;
}

void sn_trainer_save_pulled(struct sn_trainer *t)
{
    if (t->saving.is_under_way)
        pulled(t);
}

static enum sn_status compare(struct sn_trainer *t, struct sn_err *err)
{
    if (t->saving.is_compared)
        return SN_OK;
    t->saving.is_compared = true;
    sn_replica_check_wait(t->copies);
    return sn_replica_check_compare(t->copies, t->env.comm, err);
}

enum sn_status sn_trainer_save_open(struct sn_trainer *t, struct sn_err *err)
{
    const struct sn_config *c = t->env.config;
    const struct sn_saver *s = t->env.saver;
    if (t->env.comm->rank == 0)
        SN_TRY(sn_metrics_open(&t->saves, c->run.output, "checkpoints.jsonl", t->state.scalars.step,
                               err));
    SN_TRY(sn_replica_check_create(&t->copies, t->exec, t->job, err));
    if (!c->checkpoint.async)
        return SN_OK;
    return s->reserve(s->self, sn_job_snapshot_bytes(t->job), err);
}

/* Feedback changes in the midst of a step, long before the update. */
static bool changes_early(const struct sn_trainer *t)
{
    return sn_job_has_state(t->job, SN_STATE_FEEDBACK);
}

/* Is the mirror filled beside the next step? */
static bool is_beside(const struct sn_trainer *t)
{
    return sn_exec_has_mirror(t->exec) && t->env.config->checkpoint.async && !changes_early(t);
}

static enum sn_status prepare(struct sn_trainer *t, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    sn_trainer_take_scalars(t);
    t->saving.state = t->state;
    t->saving.stall = 0;
    t->saving.is_compared = false;
    enum sn_status st = SN_OK;
    if (!is_beside(t))
        st = sn_replica_check_begin(t->copies, err);
    SN_TRY(c->ops->agree(c, st, err));
    st = phase(t, SN_SAVE_PREPARE, err);
    if (st != SN_OK)
        abandon(t, st);
    return st;
}

enum sn_status sn_trainer_save(struct sn_trainer *t, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    SN_TRY(sn_trainer_save_wait(t, err));
    double t0 = sn_clock();
    enum sn_status st =
        is_beside(t) ? sn_exec_pull_begin(t->exec, err) : sn_exec_pull(t->exec, err);
    st = c->ops->agree(c, st, err);
    if (st == SN_OK)
        st = prepare(t, err);
    if (st == SN_OK) {
        t->saving.is_under_way = true;
        t->saving.is_pulling = is_beside(t);
        t->saving.phase = SN_SAVE_WRITE;
        t->saving.has_ended = false;
        if (!t->saving.is_pulling)
            begin(t, SN_SAVE_WRITE);
    }
    t->saving.stall += sn_clock() - t0;
    if (st == SN_OK && changes_early(t) && !sn_exec_has_mirror(t->exec))
        sn_trainer_save_fence(t);
    if (st == SN_OK && !t->env.config->checkpoint.async)
        st = sn_trainer_save_wait(t, err);
    return st;
}

enum sn_status sn_trainer_save_wait(struct sn_trainer *t, struct sn_err *err)
{
    if (!t->saving.is_under_way)
        return SN_OK;
    double t0 = sn_clock();
    enum sn_status st = finish(t, err);
    if (st == SN_OK)
        st = compare(t, err);
    if (st == SN_OK && t->saving.phase == SN_SAVE_WRITE)
        st = phase(t, SN_SAVE_COMMIT, err);
    t->saving.stall += sn_clock() - t0;
    if (st != SN_OK)
        abandon(t, st);
    return st == SN_OK ? report(t, err) : st;
}

/* --- beside the step loop --------------------------------------------------------------------- */

/* A save beside the steps that has stood still for too long has failed: the next one would wait for
 * it. Its thread may still use what it was given. */
static void look_for_stall(struct sn_trainer *t)
{
    struct sn_saving *v = &t->saving;
    int limit = t->env.config->run.hang_timeout;
    uint64_t marks = atomic_load_explicit(&t->state.progress->marks, memory_order_relaxed);
    if (marks != v->marks || v->has_ended || v->is_pulling) {
        v->marks = marks;
        v->moved = sn_clock();
    }
    if (limit == 0 || t->env.comm->size == 1 || sn_clock() - v->moved <= limit)
        return;
    v->has_ended = true;
    v->status = sn_fail(&v->err, SN_ELOST,
                        "has not moved for %d s in '%s'; its file system does not answer", limit,
                        what[v->phase]);
}

void sn_trainer_save_report(struct sn_trainer *t, double *agree)
{
    struct sn_saving *v = &t->saving;
    if (v->is_under_way) {
        look(t, false);
        look_for_stall(t);
    }
    bool has_ended = v->is_under_way && takes_part(t) && v->has_ended;
    agree[SN_AGREE_SAVED] = has_ended && v->status == SN_OK;
    agree[SN_AGREE_SAVE_FAILED] = has_ended && v->status != SN_OK;
}

enum sn_status sn_trainer_save_follow(struct sn_trainer *t, struct sn_err *err)
{
    struct sn_saving *v = &t->saving;
    const double *agree = sn_exec_scalars(t->exec)->agree;
    if (!v->is_under_way)
        return SN_OK;
    if (is_beside(t) && t->state.scalars.step == v->state.scalars.step + 1)
        return SN_OK; /* the copy has ended in this step: hashes have just begun */
    if (agree[SN_AGREE_SAVE_FAILED] > 0)
        return sn_trainer_save_wait(t, err); /* which brings the sentence to all ranks */
    enum sn_status st = compare(t, err);
    if (st != SN_OK) {
        struct sn_err other;
        (void)finish(t, &other); /* nobody writes any more */
        abandon(t, st);
        return st;
    }
    if (v->phase == SN_SAVE_WRITE && agree[SN_AGREE_SAVED] >= t->env.comm->size)
        begin(t, SN_SAVE_COMMIT);
    else if (v->phase == SN_SAVE_COMMIT && agree[SN_AGREE_SAVED] >= 1)
        return report(t, err);
    return SN_OK;
}

void sn_trainer_save_close(struct sn_trainer *t)
{
    if (t->saving.is_pulling)
        (void)sn_exec_pull_wait(t->exec, &t->saving.err); /* into what is about to be freed */
    else if (t->saving.is_under_way)
        look(t, true); /* its thread reads what is about to be freed */
    t->saving.is_pulling = false;
    t->saving.is_under_way = false;
    sn_replica_check_destroy(t->copies);
    sn_metrics_close(t->saves);
}
