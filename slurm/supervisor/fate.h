/*
 * fate.h - what the scheduler does with this job, by what it says of the job. Pure.
 *
 * A signal says that something happens, not what: SIGTERM reaches the batch script when a person
 * cancels the job, when it is preempted or requeued, at its time limit, and when somebody sends it
 * by hand. While a job is being ended, scontrol shows "COMPLETING" whatever the reason (Slurm's
 * job_state_string puts the flag before the state), so the reason is read from the rest of the
 * line (seen on 22.05.8; the same in the sources up to 26.05):
 *
 *   Restarts greater than this process was started with     it is back in the queue
 *   Reason=TimeLimit                                        its time is over
 *   Reason=NodeDown                                         a node of it failed
 *   PreemptTime=<a time>, PreemptMode=CANCEL                preempted, for good; unless it ends
 *                                                           before its grace time does: then
 *                                                           somebody ended it
 *   PreemptTime=<a time>, another mode                      cancelled in its grace time: had the
 *                                                           grace time ended, it would be back in
 *                                                           the queue
 *   none of these                                           cancelled
 *
 * While it runs: PreemptTime=<a time> is the grace time of a preemption; else the job goes on.
 *
 * A job that is put back into the queue has one restart more (22.05 job_mgr.c counts it before it
 * ends the job). PENDING with as many as this process was started with is what a controller says
 * that died just after the start and came back with what it had written before: it has forgotten
 * the start. It starts the job again in its own time.
 */
#ifndef SN_FATE_H
#define SN_FATE_H

#include "slurm/scheduler/ask.h"
#include "slurm/supervisor/preempt.h"

enum sn_fate {
    SN_FATE_UNKNOWN, /* nobody answers, or not to the point */
    SN_FATE_RUNS,
    SN_FATE_CANCELLED,
    SN_FATE_PREEMPTED,
    SN_FATE_REQUEUED,
    SN_FATE_FORGOTTEN, /* in the queue, as if this process had never been started */
    SN_FATE_TIME_OVER,
    SN_FATE_NODE_FAILED
};
const char *sn_fate_name(enum sn_fate f); /* "cancelled" */

/* restarts: with how many of them this process was started. */
enum sn_fate sn_fate_of(const struct sn_job_facts *job, int64_t restarts,
                        const struct sn_preemption *p);

#endif
