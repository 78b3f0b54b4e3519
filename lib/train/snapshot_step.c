/*
 * snapshot_step.c - snapshots in the step loop: found before it, taken after a step, whole before
 * the next one changes the state.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/snapshot/snapshot_files.h"

#include <stdio.h>
#include <unistd.h>

static bool is_wanted(const struct sn_trainer *t)
{
    return t->env.config->checkpoint.snapshot_every > 0;
}

static void name_host(struct sn_trainer *t)
{
    struct sn_snapping *v = &t->snapping;
    if (t->env.host)
        (void)snprintf(v->host, sizeof(v->host), "%s", t->env.host);
    else if (gethostname(v->host, sizeof(v->host) - 1) != 0)
        (void)snprintf(v->host, sizeof(v->host), "unknown host");
}

static enum sn_status create(struct sn_trainer *t, bool fresh, struct sn_err *err)
{
    struct sn_snapshot_env env = {.comm = t->env.comm,
                                  .staging =
                                      sn_exec_address(t->exec, &t->job->train, t->job->staging),
                                  .state = &t->state,
                                  .capacity = t->job->snapshot_shard_bytes,
                                  .output = t->env.config->run.output,
                                  .root = t->env.memory ? t->env.memory : SN_SNAPSHOT_ROOT,
                                  .host = t->snapping.host,
                                  .solo = t->solo,
                                  .fresh = fresh};
    name_host(t);
    sn_job_snapshot_shard_room(t->job, &env.room);
    return sn_snapshot_create(&t->snapping.snapshot, &env, err);
}

/* What there is to say before the first step, by rank 0. */
static void say_found(const struct sn_trainer *t, const struct sn_snapshot_found *f, double seconds)
{
    if (t->env.comm->rank != 0)
        return;
    if (f->partly >= 0)
        sn_log(SN_LOG_WARN,
               "memory lacks the snapshot shard of rank %d of step %lld; an older one is used",
               f->lacks, (long long)f->partly);
    if (f->step >= 0)
        sn_log(SN_LOG_INFO,
               "resumed step %lld from memory of %d host%s: %d of %d snapshot shards are partners' "
               "copies "
               "(%.3f s)",
               (long long)f->step, f->hosts, f->hosts == 1 ? "" : "s", f->kept, f->world, seconds);
}

/* Every rank by the same step, or they would choose apart. */
static enum sn_status look(struct sn_trainer *t, int64_t after, bool *loaded, struct sn_err *err)
{
    struct sn_snapshot *s = t->snapping.snapshot;
    struct sn_comm *c = t->env.comm;
    struct sn_snapshot_found found;
    double began = sn_clock();
    SN_TRY(c->ops->broadcast(c, &after, (int64_t)sizeof(after), 0, err));
    SN_TRY(sn_snapshot_find(s, after, &found, err));
    if (found.step >= 0) {
        SN_TRY(sn_snapshot_load(s, &t->state, loaded, err));
        if (!*loaded && c->rank == 0)
            sn_log(SN_LOG_WARN,
                   "the snapshot shards of step %lld in memory do not cover the model; an "
                   "older state is used",
                   (long long)found.step);
        found.step = *loaded ? found.step : -1;
    }
    t->snapping.is_resumed = *loaded;
    say_found(t, &found, sn_clock() - began);
    return SN_OK;
}

enum sn_status sn_trainer_snapshot_find(struct sn_trainer *t, bool fresh, int64_t after,
                                        bool *loaded, struct sn_err *err)
{
    *loaded = false;
    if (!is_wanted(t))
        return SN_OK;
    if (!t->snapping.snapshot) /* else asked again, for an older one */
        SN_TRY(create(t, fresh, err));
    return fresh ? sn_snapshot_forget(t->snapping.snapshot, err) : look(t, after, loaded, err);
}

enum sn_status sn_trainer_snapshot_open(struct sn_trainer *t, struct sn_err *err)
{
    struct sn_snapshot *s = t->snapping.snapshot;
    if (!is_wanted(t))
        return SN_OK;
    int exposed = sn_snapshot_exposed(s);
    if (exposed && t->env.comm->rank == 0)
        sn_log(SN_LOG_WARN,
               "checkpoint.snapshot_every: %d of %d ranks have both snapshot shards on one host, "
               "because "
               "it has more than half of the ranks; they are lost with it, but not with their "
               "processes",
               exposed, t->env.comm->size);
    return sn_snapshot_open(s, t->snapping.is_resumed, err);
}

enum sn_status sn_trainer_snapshot_take(struct sn_trainer *t, struct sn_err *err)
{
    sn_trainer_take_scalars(t);
    if (sn_exec_has_mirror(t->exec)) /* a save may still read it */
        sn_trainer_save_fence(t);
    SN_TRY(sn_exec_pull(t->exec, err));
    return sn_snapshot_begin(t->snapping.snapshot, err);
}

void sn_trainer_snapshot_fence(struct sn_trainer *t)
{
    struct sn_snapping *v = &t->snapping;
    v->in_step = v->snapshot && sn_snapshot_is_under_way(v->snapshot);
    if (v->in_step)
        v->status = sn_snapshot_wait(v->snapshot, &v->err);
}

enum sn_status sn_trainer_snapshot_end(struct sn_trainer *t, struct sn_err *err)
{
    if (t->snapping.status != SN_OK)
        *err = t->snapping.err;
    return t->snapping.status;
}

int64_t sn_trainer_snapshot_sent(const struct sn_trainer *t)
{
    return t->snapping.in_step ? sn_snapshot_sent(t->snapping.snapshot) : 0;
}

const struct sn_snapshot_report *sn_trainer_snapshot_report(const struct sn_trainer *t,
                                                            struct sn_snapshot_report *room)
{
    struct sn_snapshot_times times;
    if (!t->snapping.in_step)
        return NULL;
    sn_snapshot_get_times(t->snapping.snapshot, &times);
    *room = (struct sn_snapshot_report){.step = times.step,
                                        .bytes = sn_snapshot_traffic(t->snapping.snapshot),
                                        .copy = times.copy,
                                        .stall = times.copy + times.waited};
    return room;
}

enum sn_status sn_trainer_snapshot_forget(struct sn_trainer *t, struct sn_err *err)
{
    return is_wanted(t) && !t->env.pace ? sn_snapshot_forget(t->snapping.snapshot, err) : SN_OK;
}

void sn_trainer_snapshot_close(struct sn_trainer *t)
{
    sn_snapshot_close(t->snapping.snapshot);
}
