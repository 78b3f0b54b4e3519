#include "slurm/decide.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char *const cause_text[SN_NCAUSES] = {
    [SN_CAUSE_FINISHED] = "all steps are done",
    [SN_CAUSE_SAVED] = "it was asked to save and leave",
    [SN_CAUSE_PREEMPTED] = "it was preempted",
    [SN_CAUSE_TIME_LIMIT] = "its time was over",
    [SN_CAUSE_NODE] = "a node died",
    [SN_CAUSE_PEER] = "a rank was lost",
    [SN_CAUSE_HANG] = "a rank hung",
    [SN_CAUSE_MEMORY] = "the host ran out of memory",
    [SN_CAUSE_DISK] = "the file system failed or is full",
    [SN_CAUSE_DIVERGED] = "the loss diverged",
    [SN_CAUSE_REFUSED] = "the trainer forbade another attempt",
    [SN_CAUSE_INPUT] = "usage or input is wrong",
    [SN_CAUSE_CANCELLED] = "a person ended it",
    [SN_CAUSE_UNKNOWN] = "it failed",
};

const char *sn_cause_text(enum sn_cause c)
{
    return cause_text[c];
}

const char *sn_action_name(enum sn_action a)
{
    static const char *const name[] = {
        [SN_DO_DONE] = "done",       [SN_DO_RETRY] = "retry", [SN_DO_SHRINK] = "shrink",
        [SN_DO_REQUEUE] = "requeue", [SN_DO_WAIT] = "wait",   [SN_DO_CHAIN] = "chain",
        [SN_DO_STOP] = "stop",
    };
    return name[a];
}

/* ---- why it ended -------------------------------------------------------------------------------
 */

/* What slurmstepd and srun print when they end a step (22.05: slurmstepd/req.c, and srun's own). */
static const struct {
    const char *words;
    enum sn_cause cause;
} said[] = {
    {"DUE TO PREEMPTION", SN_CAUSE_PREEMPTED},
    {"DUE TO JOB REQUEUE", SN_CAUSE_PREEMPTED},
    {"DUE TO TIME LIMIT", SN_CAUSE_TIME_LIMIT},
    {"DUE TO NODE FAILURE", SN_CAUSE_NODE},
    {"Node failure on", SN_CAUSE_NODE},
    {" failed on node ", SN_CAUSE_NODE},
    {"oom-kill", SN_CAUSE_MEMORY},
    {"oom_kill", SN_CAUSE_MEMORY},
    {"Out Of Memory", SN_CAUSE_MEMORY},
    {"No space left on device", SN_CAUSE_DISK},
    {"Disk quota exceeded", SN_CAUSE_DISK},
    {"Stale file handle", SN_CAUSE_DISK},
};

static enum sn_cause from_words(const char *words)
{
    for (size_t i = 0; words && i < sizeof(said) / sizeof(said[0]); i++)
        if (strstr(words, said[i].words))
            return said[i].cause;
    return SN_CAUSE_UNKNOWN;
}

/* Exit codes are the trainer's (sennit-train(1)); a launcher passes them on. */
enum sn_cause sn_classify(const struct sn_end *e)
{
    enum sn_cause words = from_words(e->words);
    switch (e->exit_code) {
    case 0:
        return e->finished ? SN_CAUSE_FINISHED : SN_CAUSE_SAVED;
    case 2:
    case 78:
        return SN_CAUSE_INPUT;
    case 75:
        return words == SN_CAUSE_PREEMPTED || e->got_term ? SN_CAUSE_PREEMPTED : SN_CAUSE_SAVED;
    case 76:
        return SN_CAUSE_PREEMPTED;
    case 77:
        if (words == SN_CAUSE_NODE || words == SN_CAUSE_MEMORY)
            return words;
        return e->has_culprit ? SN_CAUSE_HANG : SN_CAUSE_PEER;
    case 79:
        return SN_CAUSE_DIVERGED;
    case 93:
        return SN_CAUSE_REFUSED;
    case 128 + SIGINT:
        return SN_CAUSE_CANCELLED;
    default:
        break;
    }
    if (words != SN_CAUSE_UNKNOWN)
        return words;
    if (e->got_term)
        return SN_CAUSE_PREEMPTED;
    return e->exit_code > 128 ? SN_CAUSE_PEER : SN_CAUSE_UNKNOWN;
}

/* ---- what now -----------------------------------------------------------------------------------
 */

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
        say(out, SN_DO_WAIT, 75, s->cause, "the scheduler requeues the job");
    else if (s->requeue != SN_REQUEUE_NEVER)
        say(out, SN_DO_REQUEUE, 75, s->cause, "the job is requeued");
    else if (s->chained)
        say(out, SN_DO_CHAIN, 75, s->cause, "the next job of the chain goes on");
    else
        say(out, SN_DO_STOP, 75, s->cause,
            "the job may not be requeued and no other waits for it; submit it again to go on");
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
}

static bool is_out_of_bounds(struct sn_decision *out, const struct sn_situation *s,
                             const struct sn_bounds *b)
{
    char what[100];
    if (b->idle_attempts && s->idle_attempts >= b->idle_attempts)
        (void)snprintf(what, sizeof(what), "%d attempts in a row made no progress",
                       s->idle_attempts);
    else if (b->attempts && s->attempts >= b->attempts)
        (void)snprintf(what, sizeof(what), "all %d attempts are used", b->attempts);
    else
        return false;
    say(out, SN_DO_STOP, 93, s->cause, what);
    return true;
}

void sn_decide(struct sn_decision *out, const struct sn_situation *s, const struct sn_bounds *b)
{
    switch (s->cause) {
    case SN_CAUSE_FINISHED:
        say(out, SN_DO_DONE, 0, s->cause, "nothing is left to do");
        return;
    case SN_CAUSE_DIVERGED:
    case SN_CAUSE_REFUSED:
    case SN_CAUSE_MEMORY:
    case SN_CAUSE_INPUT:
        say(out, SN_DO_STOP, 93, s->cause, "another attempt would end the same way");
        return;
    case SN_CAUSE_CANCELLED:
        say(out, SN_DO_STOP, 93, s->cause, "nobody goes on unless asked to");
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
