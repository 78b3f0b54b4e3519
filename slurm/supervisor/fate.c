#include "slurm/supervisor/fate.h"

#include <string.h>

const char *sn_fate_name(enum sn_fate f)
{
    static const char *const name[] = {
        [SN_FATE_UNKNOWN] = "unknown",         [SN_FATE_RUNS] = "runs",
        [SN_FATE_CANCELLED] = "cancelled",     [SN_FATE_PREEMPTED] = "preempted",
        [SN_FATE_REQUEUED] = "requeued",       [SN_FATE_TIME_OVER] = "time over",
        [SN_FATE_NODE_FAILED] = "node failed", [SN_FATE_FORGOTTEN] = "forgotten"};
    return name[f];
}

/* States that scontrol shows when nothing of the job is left to end, or that it is not to end. */
static enum sn_fate of_state(const char *state)
{
    static const struct {
        const char *state;
        enum sn_fate fate;
    } row[] = {{"RUNNING", SN_FATE_RUNS},          {"SUSPENDED", SN_FATE_RUNS},
               {"STOPPED", SN_FATE_RUNS},          {"SIGNALING", SN_FATE_RUNS},
               {"RESIZING", SN_FATE_RUNS},         {"CONFIGURING", SN_FATE_RUNS},
               {"CANCELLED", SN_FATE_CANCELLED},   {"PREEMPTED", SN_FATE_PREEMPTED},
               {"PENDING", SN_FATE_REQUEUED},      {"REQUEUED", SN_FATE_REQUEUED},
               {"REQUEUE_HOLD", SN_FATE_REQUEUED}, {"TIMEOUT", SN_FATE_TIME_OVER},
               {"DEADLINE", SN_FATE_TIME_OVER},    {"NODE_FAIL", SN_FATE_NODE_FAILED}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        if (strcmp(state, row[i].state) == 0)
            return row[i].fate;
    return SN_FATE_UNKNOWN;
}

/* Jobs that are preempted are cancelled at the end of their grace time, not before. */
static bool is_end_of_grace(const struct sn_job_facts *job, const struct sn_preemption *p)
{
    enum { EARLY = 1 }; /* second: slurmctld rounds */
    return p->grace <= 0 || !job->end_time || job->end_time + EARLY >= job->preempt_time + p->grace;
}

/* "COMPLETING": who ends it? */
static enum sn_fate of_ending(const struct sn_job_facts *job, const struct sn_preemption *p)
{
    if (strcmp(job->reason, "TimeLimit") == 0)
        return SN_FATE_TIME_OVER;
    if (strcmp(job->reason, "NodeDown") == 0)
        return SN_FATE_NODE_FAILED;
    if (job->preempt_time && p->mode != SN_PREEMPT_REQUEUE && is_end_of_grace(job, p))
        return SN_FATE_PREEMPTED;
    return SN_FATE_CANCELLED;
}

enum sn_fate sn_fate_of(const struct sn_job_facts *job, int64_t restarts,
                        const struct sn_preemption *p)
{
    if (!job->is_known)
        return SN_FATE_UNKNOWN;
    if (job->restarts > restarts)
        return SN_FATE_REQUEUED;
    if (strcmp(job->state, "COMPLETING") == 0)
        return of_ending(job, p);
    enum sn_fate fate = of_state(job->state);
    if (strcmp(job->state, "PENDING") == 0 && job->restarts == restarts)
        return SN_FATE_FORGOTTEN;
    return fate == SN_FATE_RUNS && job->preempt_time ? SN_FATE_PREEMPTED : fate;
}
