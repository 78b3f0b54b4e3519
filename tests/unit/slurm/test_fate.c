/*
 * test_fate.c - what the scheduler does with a job, by its line of `scontrol show job -o`. The
 * lines are those of Slurm 22.05.8, cut to the words that tell.
 */
#include "slurm/supervisor/fate.h"
#include "tests/lib/tap.h"

#include <string.h>

static const struct sn_preemption requeued = {.mode = SN_PREEMPT_REQUEUE, .grace = 15};
static const struct sn_preemption cancelled = {.mode = SN_PREEMPT_CANCEL, .grace = 0};
static const struct sn_preemption cancelled_later = {.mode = SN_PREEMPT_CANCEL, .grace = 60};
static const struct sn_preemption off = {.mode = SN_PREEMPT_OFF, .grace = -1};
static const struct sn_preemption unknown = {.grace = -1};

static void is(const char *what, const char *line, const struct sn_preemption *p, enum sn_fate want)
{
    struct sn_job_facts job = {0};
    bool parsed = sn_job_parse(&job, line);
    enum sn_fate got = sn_fate_of(&job, 0, p);
    tap_ok(parsed && got == want, "%s: %s", what, sn_fate_name(got));
}

static void while_it_runs(void)
{
    is("a job",
       "JobState=RUNNING Reason=None Restarts=0 EndTime=1800000000 PreemptTime=None NodeList=n0",
       &requeued, SN_FATE_RUNS);
    is("where nobody is preempted", "JobState=RUNNING Reason=None Restarts=0 EndTime=Unknown", &off,
       SN_FATE_RUNS);
    is("in its grace time",
       "JobState=RUNNING Reason=None Restarts=0 EndTime=1800000015 PreemptTime=1800000000",
       &requeued, SN_FATE_PREEMPTED);
    is("suspended", "JobState=SUSPENDED Reason=None Restarts=0 PreemptTime=None", &off,
       SN_FATE_RUNS);
}

static void while_it_is_ended(void)
{
    static const char plain[] =
        "JobState=COMPLETING Reason=None Restarts=0 EndTime=1800000000 PreemptTime=None";
    is("scancel, where jobs are requeued", plain, &requeued, SN_FATE_CANCELLED);
    is("scancel, where jobs are cancelled", plain, &cancelled, SN_FATE_CANCELLED);
    is("scancel, where nobody is preempted",
       "JobState=COMPLETING Reason=None Restarts=0 EndTime=1800000000", &off, SN_FATE_CANCELLED);
    is("scancel, with nothing known of preemption", plain, &unknown, SN_FATE_CANCELLED);
    is("scancel in the grace time",
       "JobState=COMPLETING Reason=None Restarts=0 EndTime=1800000009 PreemptTime=1800000000",
       &requeued, SN_FATE_CANCELLED);
    is("scancel in a long grace time",
       "JobState=COMPLETING Reason=None Restarts=0 EndTime=1800000009 PreemptTime=1800000000",
       &cancelled_later, SN_FATE_CANCELLED);
    is("preempted without grace",
       "JobState=COMPLETING Reason=None Restarts=0 EndTime=1800000000 PreemptTime=1800000000",
       &cancelled, SN_FATE_PREEMPTED);
    is("preempted at the end of the grace time",
       "JobState=COMPLETING Reason=None Restarts=0 EndTime=1800000060 PreemptTime=1800000000",
       &cancelled_later, SN_FATE_PREEMPTED);
    is("requeued", "JobState=COMPLETING Reason=None Restarts=1 EndTime=Unknown", &requeued,
       SN_FATE_REQUEUED);
    is("its time is over",
       "JobState=COMPLETING Reason=TimeLimit Restarts=0 EndTime=1800000000 PreemptTime=None",
       &requeued, SN_FATE_TIME_OVER);
    is("a node failed", "JobState=COMPLETING Reason=NodeDown Restarts=0 EndTime=1800000000",
       &requeued, SN_FATE_NODE_FAILED);
}

static void afterwards(void)
{
    is("cancelled", "JobState=CANCELLED Reason=None Restarts=0", &requeued, SN_FATE_CANCELLED);
    is("preempted", "JobState=PREEMPTED Reason=None Restarts=0", &cancelled, SN_FATE_PREEMPTED);
    is("back in the queue", "JobState=PENDING Reason=BeginTime Restarts=1", &requeued,
       SN_FATE_REQUEUED);
    is("back in the queue, with restarts untold", "JobState=PENDING Reason=BeginTime", &requeued,
       SN_FATE_REQUEUED);
    is("in the queue by a controller that lost its start",
       "JobState=PENDING Reason=None Restarts=0", &requeued, SN_FATE_FORGOTTEN);
    is("timed out", "JobState=TIMEOUT Reason=TimeLimit Restarts=0", &requeued, SN_FATE_TIME_OVER);
    is("its node failed", "JobState=NODE_FAIL Reason=NodeDown Restarts=0", &off,
       SN_FATE_NODE_FAILED);
    is("a state of a later version", "JobState=ASCENDING Reason=None Restarts=0", &off,
       SN_FATE_UNKNOWN);
    struct sn_job_facts silent = {.restarts = -1};
    tap_ok(sn_fate_of(&silent, 0, &requeued) == SN_FATE_UNKNOWN,
           "who does not answer tells nothing");
    struct sn_job_facts again = {.is_known = true, .restarts = 2};
    (void)strcpy(again.state, "RUNNING");
    tap_ok(sn_fate_of(&again, 2, &requeued) == SN_FATE_RUNS,
           "restarts from before this process are no news");
}

int main(void)
{
    while_it_runs();
    while_it_is_ended();
    afterwards();
    return tap_done();
}
