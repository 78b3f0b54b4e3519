#include "lib/base/exit_code.h"
#include "slurm/supervisor/cause.h"

#include <signal.h>
#include <string.h>

const char *sn_cause_text(enum sn_cause c)
{
    static const char *const text[SN_NCAUSES] = {
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
    return text[c];
}

/* What slurmstepd and srun print when they end a step (22.05: slurmstepd/req.c, and srun's own),
 * and the C library about a file system. */
static enum sn_cause from_words(const char *words)
{
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
        {" are free; free some space", SN_CAUSE_DISK}, /* checkpoint/store/save.c, before it writes */
    };
    for (size_t i = 0; words && i < sizeof(said) / sizeof(said[0]); i++)
        if (strstr(words, said[i].words))
            return said[i].cause;
    return SN_CAUSE_UNKNOWN;
}

/* Exit codes that would come again (sennit-train(1)). UNKNOWN: another one. */
static enum sn_cause for_good(int code)
{
    switch (code) {
    case SN_EXIT_INPUT:
    case SN_EXIT_CONFIG:
        return SN_CAUSE_INPUT;
    case SN_EXIT_DIVERGED:
        return SN_CAUSE_DIVERGED;
    case SN_EXIT_STOP:
        return SN_CAUSE_REFUSED;
    default:
        return SN_CAUSE_UNKNOWN;
    }
}

static bool has_saved(int code)
{
    return code == SN_EXIT_DONE || code == SN_EXIT_SAVED || code == SN_EXIT_TERMINATED;
}

/* What the scheduler does with the job explains its end, whatever the ranks saw of it: they are
 * ended one after another, so some of them see others go. UNKNOWN: it does nothing with it. */
static enum sn_cause by_scheduler(const struct sn_end *e, enum sn_cause words)
{
    switch (e->fate) {
    case SN_FATE_PREEMPTED:
    case SN_FATE_REQUEUED:
        return SN_CAUSE_PREEMPTED;
    case SN_FATE_TIME_OVER:
        return has_saved(e->exit_code) ? SN_CAUSE_SAVED : SN_CAUSE_TIME_LIMIT;
    case SN_FATE_NODE_FAILED:
        return SN_CAUSE_NODE;
    default:
        break;
    }
    /* SIGTERM to the batch script comes when the grace time is over;
     * the step's words say of what. */
    return words == SN_CAUSE_PREEMPTED ? words : SN_CAUSE_UNKNOWN;
}

/* The trainer saved and left: because of whom? SIGTERM from a scheduler that is silent is taken for
 * its own. */
static enum sn_cause of_saved(const struct sn_end *e)
{
    bool by_term = e->got_term || e->exit_code == SN_EXIT_TERMINATED;
    return by_term && e->fate == SN_FATE_UNKNOWN ? SN_CAUSE_PREEMPTED : SN_CAUSE_SAVED;
}

static enum sn_cause of_lost(const struct sn_end *e, enum sn_cause words)
{
    if (words == SN_CAUSE_NODE || words == SN_CAUSE_MEMORY)
        return words;
    return e->has_culprit ? SN_CAUSE_HANG : SN_CAUSE_PEER;
}

static enum sn_cause of_the_rest(const struct sn_end *e, enum sn_cause words)
{
    /* Asked before the launcher could pass it on: nothing was running yet that could be lost. */
    bool too_early = e->was_asked && e->exit_code == 128 + e->save;
    if (words != SN_CAUSE_UNKNOWN)
        return words;
    if (from_words(e->says) == SN_CAUSE_DISK)
        return SN_CAUSE_DISK;
    if (too_early || e->got_term)
        return of_saved(e);
    return e->exit_code > 128 ? SN_CAUSE_PEER : SN_CAUSE_UNKNOWN;
}

enum sn_cause sn_classify(const struct sn_end *e)
{
    enum sn_cause words = from_words(e->words);
    if (e->finished)
        return SN_CAUSE_FINISHED;
    if (e->got_int || e->exit_code == 128 + SIGINT)
        return SN_CAUSE_CANCELLED;
    if (e->fate == SN_FATE_CANCELLED && words != SN_CAUSE_PREEMPTED)
        return SN_CAUSE_CANCELLED;
    if (for_good(e->exit_code) != SN_CAUSE_UNKNOWN)
        return for_good(e->exit_code);
    enum sn_cause cause = by_scheduler(e, words);
    if (cause != SN_CAUSE_UNKNOWN)
        return cause;
    if (e->has_hung) /* though its ranks may have saved when they were told to end */
        return e->lost_node ? SN_CAUSE_NODE : SN_CAUSE_HANG;
    if (has_saved(e->exit_code))
        return of_saved(e);
    if (e->lost_node)
        return SN_CAUSE_NODE;
    return e->exit_code == SN_EXIT_LOST ? of_lost(e, words) : of_the_rest(e, words);
}
