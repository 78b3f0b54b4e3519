/*
 * next.c - an attempt has ended, or the supervisor was asked to leave before one began: what
 * now, and doing it.
 */
#include "slurm/run/supervisor.h"

#include "lib/base/exit_code.h"
#include "lib/base/log.h"

#include <stdio.h>
#include <string.h>

enum {
    POLL = 5,               /* seconds between two questions while the scheduler is waited for */
    AFTER_REQUEUE = 120,    /* seconds in which a job that was requeued is ended */
    AFTER_PREEMPTION = 300, /* beyond the grace time */
    SILENCE = 120           /* seconds that a controller may be down, as when it is restarted */
};

/* ---- what now -------------------------------------------------------------------------------- */

/* It will be started again, whatever is done here. */
static bool is_in_queue(enum sn_fate fate)
{
    return fate == SN_FATE_REQUEUED || fate == SN_FATE_FORGOTTEN;
}

static enum sn_requeue_mode requeue_mode(const struct sn_supervisor *x, enum sn_cause cause,
                                         bool chained)
{
    const struct sn_supervisor_shape *s = &x->shape;
    if (x->allocation.scheduler != SN_SCHED_SLURM || !s->may_requeue)
        return SN_REQUEUE_NEVER;
    if (is_in_queue(x->fate))
        return SN_REQUEUE_SYSTEM;
    if (s->preempt.mode == SN_PREEMPT_CANCEL && cause == SN_CAUSE_PREEMPTED && chained)
        return SN_REQUEUE_NEVER;
    return s->preempt.mode == SN_PREEMPT_REQUEUE ? SN_REQUEUE_SYSTEM : SN_REQUEUE_SELF;
}

/* Does another job of the chain wait? */
static bool is_chained(const struct sn_supervisor *x)
{
    if (x->allocation.scheduler == SN_SCHED_LSF)
        return x->config->slurm.chain > 1;
    return x->allocation.scheduler == SN_SCHED_SLURM &&
           x->platform->scheduler->chained(x->platform->self, x->allocation.job,
                                           sn_environment_get(&x->own, "SLURM_JOB_NAME"));
}

/* Seconds that another attempt needs to be of use: its start, a step and the save at its end. */
static int64_t seconds_needed(const struct sn_supervisor *x, const struct sn_supervisor_attempt *s)
{
    const struct sn_rundir_progress *p = &s->end.progress;
    int64_t left = x->deadline.end ? x->deadline.end - sn_supervisor_date(x) : 0;
    double margin = sn_supervise_margin(p->step_seconds, p->save_seconds, (double)left);
    return (int64_t)(margin + s->end.start_seconds + p->step_seconds) + 5;
}

static void decide(struct sn_decision *out, struct sn_supervisor *x,
                   const struct sn_supervisor_attempt *s, enum sn_cause cause,
                   const struct sn_journal_past *past)
{
    const struct sn_slurm_config *c = &x->config->slurm;
    struct sn_bounds bounds = {
        .attempts = c->attempts, .idle_attempts = c->idle_attempts, .disk_seconds = c->disk_wait};
    struct sn_situation t = {.cause = cause,
                             .chained = is_chained(x),
                             .attempts = past->failures,
                             .idle_attempts = past->idle,
                             .equal_ends = past->equal,
                             .nodes_wanted = x->shape.nodes,
                             .nodes_good = sn_supervisor_good_nodes(x),
                             .nodes_least = x->shape.nodes,
                             .seconds_left = -1,
                             .seconds_needed = seconds_needed(x, s)};
    t.requeue = requeue_mode(x, cause, t.chained);
    if (past->disk_since)
        t.disk_seconds = sn_supervisor_date(x) - past->disk_since;
    if (x->allocation.host.n == 0)
        t.nodes_good = t.nodes_wanted; /* this host: it is there */
    if (t.nodes_good < t.nodes_wanted && c->shrink) {
        int nodes = sn_supervisor_relayout(x, t.nodes_good);
        t.nodes_least = nodes ? nodes : t.nodes_wanted;
    }
    if (x->deadline.end)
        t.seconds_left = x->deadline.end - sn_supervisor_date(x);
    sn_decide(out, &t, &bounds);
}

static enum sn_status record_decision(const struct sn_supervisor *x, int attempt,
                                      const struct sn_decision *d, struct sn_err *err)
{
    struct sn_str line;
    sn_journal_line(&x->journal, &line, "decision");
    sn_jsonl_int(&line, "attempt", attempt);
    sn_jsonl_text(&line, "action", sn_action_name(d->action));
    sn_jsonl_text(&line, "why", d->why);
    sn_jsonl_int(&line, "exit_code", d->exit_code);
    if (d->pause)
        sn_jsonl_int(&line, "pause", d->pause);
    sn_log(SN_LOG_INFO, "%s: %s", sn_action_name(d->action), d->why);
    return sn_journal_write(&x->journal, &line, err);
}

static enum sn_status look_up_preemption(struct sn_supervisor *x, struct sn_err *err)
{
    struct sn_supervisor_shape *s = &x->shape;
    if (s->knows_preemption || x->allocation.scheduler != SN_SCHED_SLURM)
        return SN_OK;
    s->knows_preemption = true;
    return x->platform->scheduler->preemption(x->platform->self, &s->preempt,
                                              x->allocation.partition, err);
}

/* Bytes that are free where checkpoints are written; -1: not known. */
static int64_t free_bytes(const struct sn_supervisor *x)
{
    const struct sn_platform *w = x->platform;
    int64_t there = w->files->room(w->self, x->rundir.checkpoints);
    return there >= 0 ? there : w->files->room(w->self, x->rundir.output);
}

bool sn_supervisor_has_room(const struct sn_supervisor *x)
{
    enum { MORE = 1 << 20 };
    return x->free_at_end >= 0 && free_bytes(x) > x->free_at_end + MORE;
}

enum sn_status sn_supervisor_judge(struct sn_decision *out, struct sn_supervisor *x,
                                   struct sn_supervisor_attempt *s, struct sn_err *err)
{
    struct sn_journal_past past;
    enum sn_cause cause;
    sn_runlock_heartbeat(&x->lock);
    SN_TRY(look_up_preemption(x, err));
    sn_supervisor_ask_job(x, true);
    SN_TRY(sn_supervisor_record(&cause, x, s, err));
    SN_TRY(sn_journal_past_load(&past, x->journal.path, err));
    decide(out, x, s, cause, &past);
    x->free_at_end = cause == SN_CAUSE_DISK ? free_bytes(x) : -1;
    if (past.stillborn)
        out->pause = past.stillborn < 6 ? (1 << past.stillborn) - 1 : 60;
    x->pause = out->pause;
    return record_decision(x, s->number, out, err);
}

enum sn_status sn_supervisor_leave_early(struct sn_decision *out, struct sn_supervisor *x,
                                         unsigned asked, struct sn_err *err)
{
    struct sn_supervisor_attempt none = {0};
    struct sn_journal_past past;
    SN_TRY(look_up_preemption(x, err));
    sn_supervisor_ask_job(x, true);
    SN_TRY(sn_journal_past_load(&past, x->journal.path, err));
    struct sn_end end = {.exit_code = SN_EXIT_SAVED,
                         .fate = x->fate,
                         .got_int = asked & (SN_ASKED_INT | SN_ASKED_INT_AGAIN),
                         .got_term = asked & SN_ASKED_TERM,
                         .was_asked = true};
    decide(out, x, &none, sn_classify(&end), &past);
    return record_decision(x, 0, out, err);
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* Another decision than was made before. */
static void decide_anew(struct sn_supervisor *x, struct sn_decision *d, enum sn_action action,
                        int code, const char *why)
{
    struct sn_err err;
    *d = (struct sn_decision){.action = action, .exit_code = code};
    (void)snprintf(d->why, sizeof(d->why), "%s", why);
    if (record_decision(x, 0, d, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
}

static void cancel(struct sn_supervisor *x, struct sn_decision *d)
{
    decide_anew(x, d, SN_DO_STOP, SN_EXIT_STOP,
                "the job was cancelled meanwhile; nobody goes on unless asked to");
}

/* What the scheduler does with the job now. A controller that is down is waited for: who requeues
 * without knowing may undo what a person wants. */
static enum sn_fate know_fate(struct sn_supervisor *x)
{
    double until = sn_supervisor_now(x) + SILENCE;
    for (;;) {
        struct sn_job_facts job;
        x->platform->scheduler->job(x->platform->self, &job, x->allocation.job, false);
        x->fate = sn_fate_of(&job, x->allocation.restarts, &x->shape.preempt);
        x->is_controller_down = job.is_down;
        if (x->fate != SN_FATE_UNKNOWN || !job.is_down || sn_supervisor_now(x) > until)
            return x->fate;
        (void)sn_platform_wait(x->platform, POLL);
        sn_runlock_heartbeat(&x->lock);
    }
}

static void stay_until_ended(struct sn_supervisor *x)
{
    double until = sn_supervisor_now(x) + AFTER_REQUEUE;
    while (sn_supervisor_now(x) < until && !(sn_platform_wait(x->platform, 1) & SN_ASKED_TERM))
        ; /* slurmctld ends this job now; who leaves first might be taken for done */
}

static void requeue(struct sn_supervisor *x, struct sn_decision *d)
{
    char why[sizeof(d->why)];
    struct sn_err err;
    enum sn_fate fate = know_fate(x);
    if (fate == SN_FATE_CANCELLED) {
        cancel(x, d);
        return;
    }
    if (fate == SN_FATE_FORGOTTEN)
        return; /* nobody ends this process, and it must not be there when the job is started */
    enum sn_status st = SN_OK;
    if (fate == SN_FATE_UNKNOWN && x->is_controller_down)
        st = sn_fail(&err, SN_EFAIL, "the scheduler does not answer");
    else if (fate != SN_FATE_REQUEUED)
        st = x->platform->scheduler->requeue(x->platform->self, x->allocation.job, &err);
    if (st == SN_OK) {
        stay_until_ended(x);
        return;
    }
    bool chained = is_chained(x);
    (void)snprintf(why, sizeof(why), "the job could not be requeued (%.100s); %s", err.text,
                   chained ? "the next job of the chain goes on" : "submit it again to go on");
    decide_anew(x, d, chained ? SN_DO_CHAIN : SN_DO_STOP, d->exit_code, why);
}

/* The scheduler requeues the job by itself, when the grace time is over. Who left before would have
 * completed it. If it changes its mind, or SIGTERM was not of its preemption, the job requeues
 * itself. */
static void wait_for_scheduler(struct sn_supervisor *x, struct sn_decision *d)
{
    double until = sn_supervisor_now(x) +
                   (x->shape.preempt.grace > 0 ? x->shape.preempt.grace : 0) + AFTER_PREEMPTION;
    while (sn_supervisor_now(x) < until) {
        struct sn_job_facts job;
        bool got_term = sn_platform_wait(x->platform, POLL) & SN_ASKED_TERM;
        sn_runlock_heartbeat(&x->lock);
        x->platform->scheduler->job(x->platform->self, &job, x->allocation.job, false);
        x->fate = sn_fate_of(&job, x->allocation.restarts, &x->shape.preempt);
        if (x->fate == SN_FATE_CANCELLED) {
            cancel(x, d);
            return;
        }
        if (is_in_queue(x->fate) || (got_term && x->fate == SN_FATE_UNKNOWN))
            return;
        if (job.is_known && job.is_spared)
            break;
    }
    requeue(x, d);
}

int sn_supervisor_leave(struct sn_supervisor *x, const struct sn_decision *decision)
{
    struct sn_decision d = *decision;
    struct sn_str line;
    struct sn_err err;
    if (d.action == SN_DO_REQUEUE)
        requeue(x, &d);
    else if (d.action == SN_DO_WAIT)
        wait_for_scheduler(x, &d);
    sn_journal_line(&x->journal, &line, "leave");
    sn_jsonl_int(&line, "exit_code", d.exit_code);
    if (sn_journal_write(&x->journal, &line, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
    return d.exit_code;
}
