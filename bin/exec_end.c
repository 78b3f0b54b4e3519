#include "bin/exec_job.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    POLL = 5,              /* seconds between two questions while the scheduler is waited for */
    AFTER_REQUEUE = 120,   /* seconds in which a job that was requeued is ended */
    AFTER_PREEMPTION = 300 /* beyond the grace time */
};

/* What is known of the end, gathered. */
struct findings {
    struct sn_rundir_record record;
    struct sn_culprit culprit;
    struct sn_journal_end end;
    char says[768];
};

/* ---- who --------------------------------------------------------------------------------------
 */

/* Its record says where a rank was, the map where it was meant to be. */
static void find_host(struct sn_culprit *c, const struct sn_exec *x)
{
    char folder[SN_PATH_MAX + 16];
    struct sn_ring_view v;
    (void)snprintf(folder, sizeof(folder), "%s/ranks", x->rundir.output);
    if (c->rank >= 0 && sn_ring_read(&v, folder, c->rank, NULL) == SN_OK)
        (void)snprintf(c->host, sizeof(c->host), "%s", v.host);
    else if (c->rank >= 0)
        sn_rundir_host_of(c->host, sizeof(c->host), &x->rundir, c->rank);
}

/* The trainer's own sentence first, then the rings, then the launcher's words. */
static void find_culprit(struct findings *f, const struct sn_exec *x, const struct sn_exec_step *s)
{
    struct sn_culprit *c = &f->culprit;
    *c = (struct sn_culprit){.rank = -1};
    if (sn_culprit_from_sentence(c, f->record.says) ||
        sn_culprit_from_sentence(c, s->end.words.text)) {
        find_host(c, x);
        return;
    }
    if (s->end.culprit.kind != SN_SUSPECT_NONE) {
        *c = s->end.culprit;
        return;
    }
    if (!sn_culprit_from_words(c, s->end.words.text) || c->rank < 0)
        return;
    int node = c->rank / x->shape.ranks_per_node; /* block distribution */
    if (!c->host[0] && node < s->names.n)
        (void)snprintf(c->host, sizeof(c->host), "%s", s->names.word[node]);
    c->rank = sn_rundir_rank_of(&x->rundir, c->rank);
}

/* ---- why --------------------------------------------------------------------------------------
 */

static bool is_finished(const struct findings *f, const struct sn_exec *x, int code,
                        const struct sn_exec_step *s)
{
    return code == 0 && ((f->record.has_ended && f->record.exit_code == 0) ||
                         s->end.progress.step >= x->config->train.steps);
}

/* The trainer's exit code is passed on by the launcher, but not by every launcher in every case:
 * where it is none of the trainer's, the record's counts. */
static int exit_code_of(const struct findings *f, const struct sn_exec_step *s)
{
    static const int known[] = {0, 2, 75, 76, 77, 79, 93};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (s->end.exit_code == known[i])
            return s->end.exit_code;
    return f->record.has_ended ? f->record.exit_code : s->end.exit_code;
}

/* SIGTERM to the supervisor itself is the scheduler's or a person's: by the job's state one can
 * tell. A job that is being ended, though nobody requeued it and its time is not over, was
 * cancelled. */
static bool is_cancelled(const struct sn_exec *x, const struct sn_exec_step *s)
{
    struct sn_job_facts job;
    if (!(s->end.asked & SN_ASKED_TERM) || x->allocation.scheduler != SN_SCHED_SLURM ||
        (s->end.asked & SN_ASKED_DEADLINE))
        return false;
    sn_ask_job(&job, x->allocation.job);
    bool requeued = job.restarts > x->allocation.restarts || !strcmp(job.state, "PENDING");
    return job.is_known && !requeued && x->shape.preempt.mode != SN_PREEMPT_CANCEL &&
           (!strcmp(job.state, "COMPLETING") || !strcmp(job.state, "CANCELLED"));
}

static enum sn_cause find_cause(const struct findings *f, const struct sn_exec *x,
                                const struct sn_exec_step *s, int code)
{
    unsigned asked = s->end.asked;
    bool has_sentence = f->culprit.kind == SN_SUSPECT_HANG;
    struct sn_end end = {.exit_code = code,
                         .got_term = asked & SN_ASKED_TERM,
                         .got_usr2 = asked != 0,
                         .words = s->end.words.text,
                         .has_culprit = has_sentence,
                         .finished = is_finished(f, x, code, s)};
    if (end.finished)
        return SN_CAUSE_FINISHED;
    if (asked & (SN_ASKED_INT | SN_ASKED_INT_AGAIN))
        return SN_CAUSE_CANCELLED;
    if (s->end.has_hung)
        return SN_CAUSE_HANG;
    if (is_cancelled(x, s))
        return SN_CAUSE_CANCELLED;
    /* Asked before the launcher could pass it on: nothing was running yet that could be lost. */
    if (code == 128 + SIGUSR2 && asked)
        return asked & SN_ASKED_TERM ? SN_CAUSE_PREEMPTED : SN_CAUSE_SAVED;
    return sn_classify(&end);
}

/* Did a node of this attempt die? Then that is why, whatever the ranks saw of it. */
static enum sn_cause look_at_nodes(struct sn_exec *x, const struct sn_exec_step *s,
                                   enum sn_cause cause, const char *named)
{
    const struct sn_hostlist *host = &x->allocation.host;
    bool suspicious = cause == SN_CAUSE_PEER || cause == SN_CAUSE_HANG ||
                      cause == SN_CAUSE_UNKNOWN || cause == SN_CAUSE_NODE;
    if (!suspicious || host->n == 0)
        return cause;
    for (int i = 0; i < host->n; i++) /* srun knows it before slurmctld does */
        if (cause == SN_CAUSE_NODE && strcmp(sn_hostlist_name(host, i), named) == 0)
            x->dead[i] = true;
    if (x->allocation.scheduler == SN_SCHED_SLURM)
        (void)sn_ask_nodes(x->dead, host);
    for (int i = 0; i < host->n; i++)
        for (int j = 0; x->dead[i] && j < s->names.n; j++)
            if (strcmp(sn_hostlist_name(host, i), s->names.word[j]) == 0)
                cause = SN_CAUSE_NODE;
    return cause;
}

/* ---- what it says about nodes ------------------------------------------------------------------
 */

enum sn_status sn_exec_blame(struct sn_exec *x, const char *host, enum sn_ledger_grade grade,
                             const char *why, struct sn_err *err)
{
    struct sn_str line;
    int64_t now = (int64_t)time(NULL);
    bool doubtful = grade == SN_NODE_DOUBTFUL;
    struct sn_ledger_entry e = {
        .grade = grade,
        .until = now + (doubtful ? SN_LEDGER_DOUBTFUL_SECONDS : SN_LEDGER_BAD_SECONDS)};
    (void)snprintf(e.host, sizeof(e.host), "%s", host);
    (void)snprintf(e.why, sizeof(e.why), "%s", why);
    SN_TRY(sn_ledger_add(&x->ledger, x->shape.ledger, &e, x->allocation.job, now, err));
    sn_journal_line(&x->journal, &line, "bad-node");
    sn_jsonl_text(&line, "host", host);
    sn_jsonl_text(&line, "why", why);
    sn_jsonl_int(&line, "until", e.until);
    sn_log(SN_LOG_WARN, "%s: %s; it is %s", host, why,
           doubtful ? "used only when there is no other" : "not used any more");
    return sn_journal_write(&x->journal, &line, err);
}

/* What the end says about node i. A rank that died says little, unless it is the same node twice in
 * a row. */
static enum sn_ledger_grade grade_of(const struct sn_exec *x, const struct findings *f, int i)
{
    const char *name = sn_hostlist_name(&x->allocation.host, i);
    enum sn_cause cause = f->end.cause;
    if (x->dead[i])
        return SN_NODE_DIED;
    if (strcmp(name, f->culprit.host) != 0)
        return SN_NODE_GOOD;
    bool again = cause == SN_CAUSE_PEER && strcmp(name, x->last_host) == 0;
    return cause == SN_CAUSE_HANG || again ? SN_NODE_DOUBTFUL : SN_NODE_GOOD;
}

static enum sn_status blame_nodes(struct sn_exec *x, const struct findings *f, struct sn_err *err)
{
    const struct sn_hostlist *host = &x->allocation.host;
    for (int i = 0; i < host->n; i++) {
        const char *name = sn_hostlist_name(host, i);
        const struct sn_ledger_entry *known = sn_ledger_find(&x->ledger, name);
        enum sn_ledger_grade grade = grade_of(x, f, i);
        if (grade > (known ? known->grade : SN_NODE_GOOD))
            SN_TRY(sn_exec_blame(x, name, grade,
                                 sn_cause_text(x->dead[i] ? SN_CAUSE_NODE : f->end.cause), err));
    }
    (void)snprintf(x->last_host, sizeof(x->last_host), "%s",
                   f->end.cause == SN_CAUSE_PEER ? f->culprit.host : "");
    return SN_OK;
}

/* ---- the record --------------------------------------------------------------------------------
 */

/* The line of the launcher's that says most. "Unable" is why no step began at all. */
static const char *telling_line(const char *text)
{
    static const char *const mark[] = {
        "Unable to create step", "DUE TO",        "Node failure on", " failed on node ", "oom",
        "process rank ",         "Process name:", "srun: error: ",   "slurmstepd: ",     "error"};
    for (size_t i = 0; i < sizeof(mark) / sizeof(mark[0]); i++) {
        const char *p = strstr(text, mark[i]);
        while (p && p > text && p[-1] != '\n')
            p--;
        if (p)
            return p;
    }
    return sn_tail_last_line(text);
}

static void find_words(struct findings *f, const struct sn_exec_step *s)
{
    const struct sn_culprit *c = &f->culprit;
    const char *last = telling_line(s->end.words.text);
    if (f->record.has_ended)
        (void)snprintf(f->says, sizeof(f->says), "%s", f->record.says);
    else if (s->end.has_hung)
        (void)snprintf(f->says, sizeof(f->says),
                       "nothing moved any more: rank %d (%s) is behind, others wait in %s %s",
                       c->rank, c->host, c->axis, c->operation);
    else if (last)
        (void)snprintf(f->says, sizeof(f->says), "%.*s", (int)strcspn(last, "\n"), last);
}

/* Did one rank or node bring it about? A launcher names one for every end that is not 0. */
static bool is_somebodys(enum sn_cause c)
{
    return c == SN_CAUSE_NODE || c == SN_CAUSE_PEER || c == SN_CAUSE_HANG || c == SN_CAUSE_MEMORY ||
           c == SN_CAUSE_UNKNOWN;
}

static enum sn_status record_end(struct findings *f, struct sn_exec *x, struct sn_exec_step *s,
                                 struct sn_err *err)
{
    int code;
    sn_rundir_record(&f->record, &x->rundir, s->number);
    find_culprit(f, x, s);
    code = exit_code_of(f, s);
    find_words(f, s);
    enum sn_cause cause = look_at_nodes(x, s, find_cause(f, x, s, code), f->culprit.host);
    if (!is_somebodys(cause))
        f->culprit = (struct sn_culprit){.rank = -1};
    if (cause == SN_CAUSE_HANG && !s->end.has_hung)
        SN_TRY(sn_journal_suspect(&x->journal, s->number, &f->culprit, err));
    f->end = (struct sn_journal_end){
        .attempt = s->number,
        .exit_code = code,
        .cause = cause,
        .seconds = s->end.seconds,
        .step = s->end.progress.step,
        .saved_step = sn_rundir_saved_step(&x->rundir),
        .snapshot_step = s->end.progress.snapshot_step,
        .rank = f->culprit.rank,
        .host = f->culprit.host,
        .says = f->says,
    };
    sn_log(SN_LOG_INFO, "attempt %d ended after %.1f s, exit code %d: %s", s->number,
           s->end.seconds, code, sn_cause_text(f->end.cause));
    SN_TRY(sn_journal_end(&x->journal, &f->end, err));
    return blame_nodes(x, f, err);
}

/* ---- what now ----------------------------------------------------------------------------------
 */

static enum sn_requeue_mode requeue_mode(const struct sn_exec *x, enum sn_cause cause, bool chained)
{
    const struct sn_exec_shape *s = &x->shape;
    if (x->allocation.scheduler != SN_SCHED_SLURM || !s->may_requeue)
        return SN_REQUEUE_NEVER;
    if (s->preempt.mode == SN_PREEMPT_CANCEL && cause == SN_CAUSE_PREEMPTED && chained)
        return SN_REQUEUE_NEVER;
    return s->preempt.mode == SN_PREEMPT_REQUEUE ? SN_REQUEUE_SYSTEM : SN_REQUEUE_SELF;
}

/* Does another job of the chain wait? */
static bool is_chained(const struct sn_exec *x)
{
    if (x->allocation.scheduler == SN_SCHED_LSF)
        return x->config->slurm.chain > 1;
    return x->allocation.scheduler == SN_SCHED_SLURM &&
           sn_ask_chained(x->allocation.job, sn_environment_get(&x->own, "SLURM_JOB_NAME"));
}

/* Seconds that another attempt needs to be of use: its start, a step and the save at its end. */
static int64_t seconds_needed(const struct sn_exec *x, const struct sn_exec_step *s)
{
    const struct sn_rundir_progress *p = &s->end.progress;
    int64_t left = x->deadline.end ? x->deadline.end - (int64_t)time(NULL) : 0;
    double margin = sn_supervise_margin(p->step_seconds, p->save_seconds, (double)left);
    return (int64_t)(margin + s->end.start_seconds + p->step_seconds) + 5;
}

static void decide(struct sn_decision *out, struct sn_exec *x, const struct sn_exec_step *s,
                   enum sn_cause cause, const struct sn_journal_past *past)
{
    const struct sn_slurm_config *c = &x->config->slurm;
    struct sn_bounds bounds = {.attempts = c->attempts, .idle_attempts = c->idle_attempts};
    struct sn_situation t = {.cause = cause,
                             .chained = is_chained(x),
                             .attempts = past->failures,
                             .idle_attempts = past->idle,
                             .nodes_wanted = x->shape.nodes,
                             .nodes_good = sn_exec_good_nodes(x),
                             .nodes_least = x->shape.nodes,
                             .seconds_left = -1,
                             .seconds_needed = seconds_needed(x, s)};
    t.requeue = requeue_mode(x, cause, t.chained);
    if (x->allocation.host.n == 0)
        t.nodes_good = t.nodes_wanted; /* this host: it is there */
    if (t.nodes_good < t.nodes_wanted && c->shrink) {
        int nodes = sn_exec_relayout(x, t.nodes_good);
        t.nodes_least = nodes ? nodes : t.nodes_wanted;
    }
    if (x->deadline.end)
        t.seconds_left = x->deadline.end - (int64_t)time(NULL);
    sn_decide(out, &t, &bounds);
}

static enum sn_status record_decision(const struct sn_exec *x, int attempt,
                                      const struct sn_decision *d, struct sn_err *err)
{
    struct sn_str line;
    sn_journal_line(&x->journal, &line, "decision");
    sn_jsonl_int(&line, "attempt", attempt);
    sn_jsonl_text(&line, "action", sn_action_name(d->action));
    sn_jsonl_text(&line, "why", d->why);
    sn_jsonl_int(&line, "exit_code", d->exit_code);
    sn_log(SN_LOG_INFO, "%s: %s", sn_action_name(d->action), d->why);
    return sn_journal_write(&x->journal, &line, err);
}

/* Nothing was started: that is an end, too, so that the bounds count it. */
static enum sn_status record_few(struct findings *f, struct sn_exec *x,
                                 const struct sn_exec_step *s, struct sn_err *err)
{
    (void)snprintf(f->says, sizeof(f->says), "%d of %d nodes are good, the layout wants %d%s",
                   sn_exec_good_nodes(x), x->allocation.host.n, x->shape.nodes,
                   x->config->slurm.shrink ? ", and none fits on fewer" : "");
    f->end = (struct sn_journal_end){.attempt = s->number,
                                     .exit_code = 1,
                                     .cause = SN_CAUSE_NODE,
                                     .step = -1,
                                     .saved_step = s->from_step,
                                     .snapshot_step = -1,
                                     .rank = -1,
                                     .host = "",
                                     .says = f->says};
    sn_log(SN_LOG_WARN, "attempt %d: %s", s->number, f->says);
    return sn_journal_end(&x->journal, &f->end, err);
}

static enum sn_status learn_preemption(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_shape *s = &x->shape;
    if (s->knows_preemption || x->allocation.scheduler != SN_SCHED_SLURM)
        return SN_OK;
    s->knows_preemption = true;
    return sn_preemption_ask(&s->preempt, x->allocation.partition, err);
}

enum sn_status sn_exec_judge(struct sn_decision *out, struct sn_exec *x, struct sn_exec_step *s,
                             struct sn_err *err)
{
    struct findings f = {0};
    struct sn_journal_past past;
    sn_runlock_beat(&x->lock);
    sn_exec_ask_end(x, true);
    SN_TRY(learn_preemption(x, err));
    SN_TRY(s->few ? record_few(&f, x, s, err) : record_end(&f, x, s, err));
    SN_TRY(sn_journal_past_load(&past, x->journal.path, err));
    decide(out, x, s, f.end.cause, &past);
    x->pause = past.stillborn < 6 ? (1 << past.stillborn) - 1 : 60;
    return record_decision(x, s->number, out, err);
}

enum sn_status sn_exec_leave_early(struct sn_decision *out, struct sn_exec *x, unsigned asked,
                                   struct sn_err *err)
{
    struct sn_exec_step none = {0};
    struct sn_journal_past past;
    sn_exec_ask_end(x, true);
    SN_TRY(learn_preemption(x, err));
    SN_TRY(sn_journal_past_load(&past, x->journal.path, err));
    enum sn_cause cause = asked & SN_ASKED_INT    ? SN_CAUSE_CANCELLED
                          : asked & SN_ASKED_TERM ? SN_CAUSE_PREEMPTED
                                                  : SN_CAUSE_SAVED;
    decide(out, x, &none, cause, &past);
    return record_decision(x, 0, out, err);
}

/* ---- leaving -----------------------------------------------------------------------------------
 */

static void requeue(struct sn_exec *x, struct sn_decision *d)
{
    struct sn_err err;
    bool chained = is_chained(x);
    if (sn_ask_requeue(x->allocation.job, &err) == SN_OK) {
        double until = sn_clock() + AFTER_REQUEUE;
        while (sn_clock() < until && !(sn_asking_wait(&x->asking, 1) & SN_ASKED_TERM))
            ; /* slurmctld ends this job now; who leaves first might be taken for done */
        return;
    }
    d->action = chained ? SN_DO_CHAIN : SN_DO_STOP;
    (void)snprintf(d->why, sizeof(d->why), "the job could not be requeued (%.100s); %s", err.text,
                   chained ? "the next job of the chain goes on" : "submit it again to go on");
    if (record_decision(x, 0, d, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
}

/* The scheduler requeues the job by itself, when the grace time is over. Who left before would have
 * completed it. If it changes its mind, or SIGTERM was not of its preemption, the job requeues
 * itself. */
static void wait_for_scheduler(struct sn_exec *x, struct sn_decision *d)
{
    double until =
        sn_clock() + (x->shape.preempt.grace > 0 ? x->shape.preempt.grace : 0) + AFTER_PREEMPTION;
    while (sn_clock() < until) {
        struct sn_job_facts job;
        if (sn_asking_wait(&x->asking, POLL) & SN_ASKED_TERM)
            return;
        sn_runlock_beat(&x->lock);
        sn_ask_job(&job, x->allocation.job);
        if (job.is_known && job.restarts > x->allocation.restarts)
            return;
        if (job.is_known && job.is_spared)
            break;
    }
    requeue(x, d);
}

int sn_exec_leave(struct sn_exec *x, const struct sn_decision *decision)
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
