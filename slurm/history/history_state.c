/*
 * history_state.c - in which state a run is, judged from what its files say; a pure function.
 */
#include "lib/base/exit_code.h"
#include "slurm/history/history.h"
#include "slurm/supervisor/decide.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *sn_run_state_name(enum sn_run_state s)
{
    static const char *const name[] = {
        [SN_RUN_STARTING] = "starting", [SN_RUN_RUNNING] = "running", [SN_RUN_WAITING] = "waiting",
        [SN_RUN_ENDED] = "ended",       [SN_RUN_UNKNOWN] = "unknown",
    };
    return name[s];
}

__attribute__((format(printf, 3, 4))) static void say(struct sn_history *h, enum sn_run_state s,
                                                      const char *fmt, ...)
{
    va_list ap;
    h->state = s;
    va_start(ap, fmt);
    (void)vsnprintf(h->state_why, sizeof(h->state_why), fmt, ap);
    va_end(ap);
}

static const struct sn_history_attempt *last_attempt(const struct sn_history *h)
{
    return h->n_attempts ? &h->attempt[h->n_attempts - 1] : NULL;
}

static bool is_action(const struct sn_history *h, enum sn_action action)
{
    return strcmp(h->action, sn_action_name(action)) == 0;
}

/* Why it was decided so. */
static const char *reason(const struct sn_history *h, const char *otherwise)
{
    return h->why[0] ? h->why : otherwise;
}

/* A cause of its own, unless the journal's last line explains why there is no more of it. */
static void say_silent(struct sn_history *h, const char *what)
{
    const struct sn_history_attempt *a = last_attempt(h);
    if (a && !a->has_end && a->notices[0])
        say(h, SN_RUN_UNKNOWN,
            "%s; it was asked to leave (%.60s), so a scheduler may have requeued or ended its job",
            what, a->notices);
    else
        say(h, SN_RUN_UNKNOWN, "%s", what);
}

/* Is there a sign that nobody works on it any more? */
static bool is_dead(struct sn_history *h, const struct sn_evidence *e)
{
    char what[100];
    bool no_rank = e->ranks_here > 0 && e->ranks_alive == 0 && e->ranks_elsewhere == 0;
    if (e->supervisor_here && !e->supervisor_alive && e->ranks_alive == 0)
        (void)snprintf(what, sizeof(what),
                       "its supervisor, process %" PRId64 " of this host, is gone", h->pid);
    else if (no_rank && !e->supervisor_alive)
        (void)snprintf(what, sizeof(what), "none of its %d processes of this host is left",
                       e->ranks_here);
    else if (e->still >= 0 && e->still > e->patience)
        (void)snprintf(what, sizeof(what), "nothing has moved for %.0f s", e->still);
    else
        return false;
    say_silent(h, what);
    return true;
}

/* The supervisor is between two attempts, or leaves. */
static void judge_decision(struct sn_history *h, const struct sn_evidence *e)
{
    if (is_action(h, SN_DO_DONE) || is_action(h, SN_DO_STOP))
        say(h, SN_RUN_ENDED, "%s", reason(h, "nobody goes on"));
    else if (is_action(h, SN_DO_REQUEUE) || is_action(h, SN_DO_WAIT) || is_action(h, SN_DO_CHAIN))
        say(h, SN_RUN_WAITING, "%s", reason(h, "somebody else goes on"));
    else if (!is_dead(h, e))
        say(h, SN_RUN_STARTING, "%s", reason(h, "the supervisor prepares an attempt"));
}

static void judge_leave(struct sn_history *h, const struct sn_evidence *e)
{
    if (e->leave_code == SN_EXIT_DONE)
        say(h, SN_RUN_ENDED, "%s", sn_cause_text(SN_CAUSE_FINISHED));
    else if (e->leave_code == SN_EXIT_SAVED && !is_action(h, SN_DO_STOP))
        say(h, SN_RUN_WAITING, "%s", reason(h, "somebody else goes on"));
    else if (h->why[0])
        say(h, SN_RUN_ENDED, "%s", h->why);
    else
        say(h, SN_RUN_ENDED, "the supervisor left with %" PRId64, e->leave_code);
}

/* A run without a supervisor. */
static void judge_record(struct sn_history *h, const struct sn_evidence *e)
{
    const struct sn_history_attempt *a = last_attempt(h);
    if (a && a->record_ended && a->exit_code == SN_EXIT_DONE)
        say(h, SN_RUN_ENDED, "%s", sn_cause_text(SN_CAUSE_FINISHED));
    else if (a && a->record_ended)
        say(h, SN_RUN_ENDED, "%s; %s", a->record[0] ? a->record : "it left",
            a->exit_code == SN_EXIT_SAVED || a->exit_code == SN_EXIT_TERMINATED
                ? "start it again to go on"
                : "there is no supervisor that would go on");
    else if (!is_dead(h, e))
        say(h, SN_RUN_RUNNING, "without a supervisor");
}

static void say_suspect(struct sn_history *h, const struct sn_history_suspect *s)
{
    if (s->rank >= 0)
        say(h, SN_RUN_RUNNING, "suspected (%.15s): rank %" PRId64 "%s%.63s", s->kind, s->rank,
            s->host[0] ? " on " : "", s->host);
    else
        say(h, SN_RUN_RUNNING, "suspected (%.15s): %s%.63s", s->kind,
            s->host[0] ? "host " : "no rank alone", s->host);
}

/* The supervisor has launched an attempt, or is about to, and has said no more. */
static void judge_attempt(struct sn_history *h, const struct sn_evidence *e)
{
    const struct sn_history_attempt *a = last_attempt(h);
    if (is_dead(h, e))
        return;
    if (e->last == SN_EVENT_BEGIN)
        say(h, SN_RUN_STARTING, "the supervisor prepares an attempt");
    else if (e->last == SN_EVENT_LAUNCH)
        say(h, SN_RUN_STARTING, "it was launched and has not finished a step yet");
    else if (e->last == SN_EVENT_END)
        say(h, SN_RUN_STARTING, "the supervisor decides what to do");
    else if (e->last == SN_EVENT_NOTICE && a && a->notices[0])
        say(h, SN_RUN_RUNNING, "it was asked to leave (%.100s)", a->notices);
    else if (e->last == SN_EVENT_SUSPECT && a)
        say_suspect(h, &a->suspect);
    else
        say(h, SN_RUN_RUNNING, "it steps");
}

void sn_history_judge(struct sn_history *out, const struct sn_evidence *e)
{
    if (e->last == SN_EVENT_NONE)
        judge_record(out, e);
    else if (e->last == SN_EVENT_LEAVE)
        judge_leave(out, e);
    else if (e->last == SN_EVENT_DECISION)
        judge_decision(out, e);
    else
        judge_attempt(out, e);
}
