#include "lib/base/exit_code.h"
#include "slurm/supervisor/decide.h"

#include <stdio.h>

const char *sn_action_name(enum sn_action a)
{
    static const char *const name[] = {
        [SN_DO_DONE] = "done",       [SN_DO_RETRY] = "retry", [SN_DO_SHRINK] = "shrink",
        [SN_DO_REQUEUE] = "requeue", [SN_DO_WAIT] = "wait",   [SN_DO_CHAIN] = "chain",
        [SN_DO_STOP] = "stop",
    };
    return name[a];
}

/* ---- what now -------------------------------------------------------------------------------- */

static void say(struct sn_decision *out, enum sn_action action, int code, enum sn_cause cause,
                const char *what)
{
    *out = (struct sn_decision){.action = action, .exit_code = code};
    (void)snprintf(out->why, sizeof(out->why), "%s; %s", sn_cause_text(cause), what);
}

/* Somebody else goes on: by the site's means. */
static void pass_on(struct sn_decision *out, const struct sn_situation *s)
{
    if (s->requeue == SN_REQUEUE_SYSTEM && s->cause == SN_CAUSE_PREEMPTED)
        say(out, SN_DO_WAIT, SN_EXIT_SAVED, s->cause, "the scheduler requeues the job");
    else if (s->requeue != SN_REQUEUE_NEVER)
        say(out, SN_DO_REQUEUE, SN_EXIT_SAVED, s->cause, "the job is requeued");
    else if (s->chained)
        say(out, SN_DO_CHAIN, SN_EXIT_SAVED, s->cause, "the next job of the chain goes on");
    else
        say(out, SN_DO_STOP, SN_EXIT_SAVED, s->cause,
            "the job may not be requeued and no other waits for it; submit it again to go on");
}

/* A disk is often made room on within minutes. A dead node is left out the next time, so there is
 * nothing to rest for. */
static int rest_after(const struct sn_situation *s)
{
    static const int disk[] = {15, 15, 30, 60, 120, 240, 300}, alike[] = {0, 0, 30, 120, 300, 600};
    enum { DISK = sizeof(disk) / sizeof(disk[0]), ALIKE = sizeof(alike) / sizeof(alike[0]) };
    int n = s->equal_ends > 0 ? s->equal_ends : 0;
    if (s->cause == SN_CAUSE_DISK)
        return disk[n < DISK ? n : DISK - 1];
    return s->cause == SN_CAUSE_NODE ? 0 : alike[n < ALIKE ? n : ALIKE - 1];
}

static void retry(struct sn_decision *out, const struct sn_situation *s)
{
    if (s->seconds_left >= 0 && s->seconds_left < s->seconds_needed) {
        pass_on(out, s);
        return;
    }
    if (s->nodes_good >= s->nodes_wanted)
        say(out, SN_DO_RETRY, 0, s->cause, "another attempt begins in this allocation");
    else if (s->nodes_good >= s->nodes_least)
        say(out, SN_DO_SHRINK, 0, s->cause, "another attempt begins on the nodes that are left");
    else
        pass_on(out, s);
    if (out->action == SN_DO_RETRY || out->action == SN_DO_SHRINK)
        out->pause = rest_after(s);
}

static bool is_out_of_bounds(struct sn_decision *out, const struct sn_situation *s,
                             const struct sn_bounds *b)
{
    char what[100];
    if (s->cause == SN_CAUSE_DISK && s->disk_seconds > b->disk_seconds)
        (void)snprintf(what, sizeof(what), "there was no room for %lld s",
                       (long long)s->disk_seconds);
    else if (b->idle_attempts && s->idle_attempts >= b->idle_attempts)
        (void)snprintf(what, sizeof(what), "%d attempts in a row made no progress",
                       s->idle_attempts);
    else if (b->attempts && s->attempts >= b->attempts)
        (void)snprintf(what, sizeof(what), "all %d attempts are used", b->attempts);
    else
        return false;
    say(out, SN_DO_STOP, SN_EXIT_STOP, s->cause, what);
    return true;
}

void sn_decide(struct sn_decision *out, const struct sn_situation *s, const struct sn_bounds *b)
{
    switch (s->cause) {
    case SN_CAUSE_FINISHED:
        say(out, SN_DO_DONE, SN_EXIT_DONE, s->cause, "nothing is left to do");
        return;
    case SN_CAUSE_DIVERGED:
    case SN_CAUSE_REFUSED:
    case SN_CAUSE_MEMORY:
    case SN_CAUSE_INPUT:
        say(out, SN_DO_STOP, SN_EXIT_STOP, s->cause, "another attempt would end the same way");
        return;
    case SN_CAUSE_CANCELLED:
        say(out, SN_DO_STOP, SN_EXIT_STOP, s->cause, "nobody goes on unless asked to");
        return;
    default:
        break;
    }
    if (is_out_of_bounds(out, s, b))
        return;
    if (s->cause == SN_CAUSE_SAVED || s->cause == SN_CAUSE_PREEMPTED ||
        s->cause == SN_CAUSE_TIME_LIMIT)
        pass_on(out, s);
    else
        retry(out, s);
}
