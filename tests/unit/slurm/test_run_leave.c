/*
 * test_run_leave.c - sennit-run exec is to leave: requeued, preempted, cancelled, out of time, asked by
 * signals; what it does then, and what its exit code says. Jobs on a stage, whose clock does not
 * wait.
 */
#include "slurm/history/history.h"
#include "slurm/supervisor/supervise.h"
#include "tests/lib/scenes.h"
#include "tests/lib/tap_like.h"

#include <string.h>

enum { TERM = SN_ASKED_TERM };

static const struct stage_act done = {.code = 0, .saved = 100, .step = 100};
static const struct stage_act waits = {.code = STAGE_WAITS, .saved = 20, .step = 20};
/* A person cancels the job. */
static const char cancelled[] = "JobId=41 JobState=COMPLETING Reason=None Restarts=0 Requeue=1 "
                                "EndTime=1800000010 PreemptTime=None";

static struct stage_act ends(int code, int step)
{
    return (struct stage_act){.code = code, .saved = step, .step = step};
}

static void job_is(struct stage *s, const char *text)
{
    (void)snprintf(s->job, sizeof(s->job), "%s", text);
}

static void status_is(struct stage *s, enum sn_run_state state, const char *why, const char *what)
{
    struct sn_history h;
    struct sn_err err;
    bool good = sn_history_read(&h, s->output, STAGE_DATE + s->now, &err) == SN_OK;
    tap_ok(good && h.state == state, "%s", what);
    tap_like(good ? h.state_why : err.text, why, what);
    sn_history_fini(&h);
}

/* ---- the job goes on elsewhere, or later ----------------------------------------------------- */

static void a_job_requeues_itself_once(struct stage *s)
{
    struct stage_act act = ends(76, 20);
    tap_ok(stage_play(s, &act, 1, false) == 75 && s->requeues == 1, "requeue: by itself, once");
    tap_like(stage_event(s, "end", 0),
             "\"exit_code\": 76, \"cause\": \"it was asked to save and leave\"",
             "requeue: nobody preempts a job that runs on");
    s->restart = 1;
    tap_ok(stage_play(s, &done, 1, true) == 0, "requeue: the next run of the script is done");
    tap_ok(!strstr(s->command[0], "--fresh"), "requeue: goes on, whatever it was started with");
    tap_like(stage_event(s, "launch", -1), "\"restart\": 1, \"attempt\": 2, .*\"from_step\": 20",
             "requeue: as attempt 2");
}

static void preempts_by_requeue(struct stage *s)
{
    (void)snprintf(s->config, sizeof(s->config), "PreemptType = preempt/partition_prio");
    (void)snprintf(s->partition, sizeof(s->partition),
                   "PartitionName=batch PreemptMode=REQUEUE GraceTime=10");
}

static void a_scheduler_that_requeues_is_waited_for(struct stage *s)
{
    struct stage_act act = ends(76, 20);
    preempts_by_requeue(s);
    job_is(s, "JobId=41 JobState=COMPLETING Restarts=1 Requeue=1 EndTime=Unknown");
    tap_ok(stage_play(s, &act, 1, false) == 75, "system: exit code");
    tap_like(stage_event(s, "decision", 0), "\"action\": \"wait\"",
             "system: the scheduler requeues, so it waits");
    tap_ok(s->requeues == 0, "system: and does not requeue too");
}

static void sigterm_that_was_of_no_preemption(struct stage *s)
{
    struct stage_act act = ends(76, 20);
    preempts_by_requeue(s);
    job_is(s, "JobId=41 JobState=RUNNING Restarts=0 Requeue=1 EndTime=Unknown PreemptTime=None");
    int code = stage_play(s, &act, 1, false);
    tap_ok(code == 75 && s->requeues == 1 && s->now < 10,
           "spared: a job that nobody preempts requeues itself");
}

/* It is preempted, and the scheduler takes its time to put it back. */
static void a_grace_time_is_sat_out(struct stage *s)
{
    static const char grace[] = "JobId=41 JobState=RUNNING Restarts=0 Requeue=1 EndTime=Unknown "
                                "PreemptTime=1800000002";
    static const struct stage_cue cues[] = {
        {.at = 3, .job = grace, .asked = TERM},
        {.at = 200, .job = "JobId=41 JobState=PENDING Restarts=1 Requeue=1 EndTime=Unknown"}};
    preempts_by_requeue(s);
    stage_cues(s, cues, 2);
    int code = stage_play(s, &waits, 1, false);
    tap_ok(code == 75 && s->requeues == 0 && s->now >= 200 && s->now < 210,
           "grace: who is preempted stays until it is back in the queue (%.0f s)", s->now);
    tap_like(stage_event(s, "end", 0), "\"cause\": \"it was preempted\"", "grace: the cause");
}

static void who_may_not_requeue_says_how_to_go_on(struct stage *s)
{
    struct stage_act act = ends(75, 20), further = ends(75, 30);
    s->refused = "slurm_requeue error: Requested operation is presently disabled for job 41";
    tap_ok(stage_play(s, &act, 1, false) == 75, "noqueue: exit code");
    tap_like(stage_event(s, "decision", -1),
             "\"action\": \"stop\", \"why\": \".*presently disabled.*submit it again",
             "noqueue: says how to go on");
    s->queue = "42";
    tap_ok(stage_play(s, &further, 1, false) == 75, "noqueue: exit code with a chain");
    tap_like(stage_event(s, "decision", -1), "\"action\": \"chain\"",
             "noqueue: a chained job goes on");
}

static void without_scontrol_it_says_what_is_missing(struct stage *s)
{
    struct stage_act act = ends(75, 20);
    s->has_scontrol = false;
    tap_ok(stage_play(s, &act, 1, false) == 75, "alone: exit code");
    tap_like(stage_event(s, "decision", -1),
             "\"action\": \"stop\", \"why\": \"the job could not be requeued .*",
             "alone: it says what is missing");
}

/* ---- the end of its time --------------------------------------------------------------------- */

static void the_trainer_is_asked_before_the_end(struct stage *s)
{
    s->environment = "SLURM_JOB_END_TIME=1800000013";
    tap_ok(stage_play(s, &waits, 1, false) == 75, "deadline: exit code");
    tap_ok(s->now < 13, "deadline: before it (%.1f s)", s->now);
    tap_like(stage_event(s, "notice", 0), "\"what\": \"deadline\"",
             "deadline: the trainer is asked in time");
    tap_like(stage_event(s, "end", 0), "\"cause\": \"it was asked to save and leave\"",
             "deadline: which is no failure");
}

static void an_end_that_moves_is_followed(struct stage *s)
{
    static const struct stage_cue cues[] = {
        {.at = 3, .job = "JobId=41 JobState=RUNNING Restarts=0 Requeue=1 EndTime=1800000009"}};
    struct sn_history h;
    struct sn_err err;
    s->environment = "SLURM_JOB_END_TIME=1800000004";
    job_is(s, "JobId=41 JobState=RUNNING Restarts=0 Requeue=1 EndTime=1800000041");
    stage_cues(s, cues, 1);
    tap_ok(stage_play(s, &waits, 1, false) == 75, "moved: exit code");
    tap_like(stage_event(s, "begin", 0), "\"deadline\": 1800000041[,}]",
             "moved: what Slurm says goes before the environment");
    tap_ok(stage_count(s, "deadline") == 1, "moved: once, which is written down");
    tap_like(stage_event(s, "deadline", 0), "\"deadline\": 1800000009[,}]", "moved: to when");
    bool good = sn_history_read(&h, s->output, STAGE_DATE + s->now, &err) == SN_OK;
    tap_ok(good && h.deadline == 1800000009, "moved: status knows it");
    sn_history_fini(&h);
    tap_like(stage_event(s, "notice", 0), "\"what\": \"deadline\"",
             "moved: the trainer is asked before the new end");
    tap_ok(s->now < 10, "moved: in time (%.1f s)", s->now);
}

static void ranks_that_go_at_the_time_limit_have_lost_nobody(struct stage *s)
{
    static const struct stage_act act = {
        .code = 77, .saved = 20, .step = 22, .words = "srun: error: n1: task 5: Killed"};
    static const struct stage_cue cue = {
        .question = 2, .job = "JobId=41 JobState=COMPLETING Reason=TimeLimit Restarts=0 Requeue=1"};
    stage_cues(s, &cue, 1);
    tap_ok(stage_play(s, &act, 1, false) == 75 && s->requeues == 1, "timeout: is requeued");
    tap_like(stage_event(s, "end", 0), "\"cause\": \"its time was over\", .*\"rank\": -1",
             "timeout: ranks that see others go have lost nobody");
}

/* ---- a person ends it ------------------------------------------------------------------------ */

static void who_is_cancelled_does_not_come_back(struct stage *s)
{
    static const struct stage_cue cue = {.at = 4, .asked = TERM};
    job_is(s, "JobId=41 JobState=COMPLETING Restarts=0 Requeue=1 EndTime=Unknown");
    stage_cues(s, &cue, 1);
    tap_ok(stage_play(s, &waits, 1, false) == 93 && s->requeues == 0,
           "cancelled: who is cancelled does not come back");
    tap_like(stage_event(s, "end", 0), "\"exit_code\": 75, \"cause\": \"a person ended it\"",
             "cancelled: though it saved");
    status_is(s, SN_RUN_ENDED, "a person ended it; nobody goes on unless asked to",
              "cancelled: status says so");
}

static void cancelled_during_preflight(struct stage *s)
{
    static const struct stage_cue cue = {.at = 4, .job = cancelled, .asked = TERM};
    static const struct stage_act acts[] = {{.code = STAGE_WAITS, .saved = -1, .step = -1},
                                            {.code = 0, .saved = 100, .step = 100}};
    s->slurm = "preflight: true";
    stage_cues(s, &cue, 1);
    tap_ok(stage_play(s, acts, 2, false) == 93 && s->requeues == 0 && s->launches == 1,
           "quit: during preflight, too");
    tap_ok(strstr(s->command[0], "--preflight"), "quit: which it was");
    status_is(s, SN_RUN_ENDED, "a person ended it", "quit: status says so");
}

static void cancelled_between_two_attempts(struct stage *s)
{
    static const struct stage_cue cue = {.at = 15, .job = cancelled, .asked = TERM};
    static const struct stage_act acts[] = {{.code = 1, .saved = 10, .step = 11, .words = "x"},
                                            {.code = 1, .saved = -1, .step = -1, .words = "x"},
                                            {.code = 0, .saved = 100, .step = 100}};
    stage_cues(s, &cue, 1);
    tap_ok(stage_play(s, acts, 3, false) == 93 && s->requeues == 0 && s->launches == 2,
           "resting: cancelled between two attempts");
    tap_like(stage_event(s, "decision", 1), "\"action\": \"retry\", .*\"pause\": 30",
             "resting: equal ends are not repeated at once");
}

static void cancelled_near_the_end_of_its_time(struct stage *s)
{
    static const struct stage_cue cues[] = {{.at = 4, .job = cancelled},
                                            {.at = 11, .job = cancelled, .asked = TERM}};
    job_is(s, "JobId=41 JobState=RUNNING Restarts=0 Requeue=1 EndTime=1800000046");
    stage_cues(s, cues, 2);
    int code = stage_play(s, &waits, 1, false);
    tap_ok(s->questions >= 3, "near: the end of the time is asked for meanwhile");
    tap_ok(stage_count(s, "deadline") == 0 && stage_count(s, "notice") == 1,
           "near: the end of a job that is cancelled is not that of its time");
    tap_like(stage_event(s, "notice", 0), "\"what\": \"SIGTERM\"",
             "near: it is asked by the signal");
    tap_ok(code == 93 && s->requeues == 0, "near: near the end of its time, too");
}

static void cancelled_after_it_was_decided_to_requeue(struct stage *s)
{
    struct stage_act act = ends(75, 20);
    static const struct stage_cue cue = {
        .question = 3, .job = "JobId=41 JobState=COMPLETING Reason=None Restarts=0 Requeue=1"};
    stage_cues(s, &cue, 1);
    tap_ok(stage_play(s, &act, 1, false) == 93 && s->requeues == 0, "regret: is not requeued");
    tap_like(stage_event(s, "decision", 0), "\"action\": \"requeue\"", "regret: as was decided");
    tap_like(stage_event(s, "decision", -1),
             "\"action\": \"stop\", \"why\": \"the job was cancelled meanwhile",
             "regret: which is written down");
}

/* ---- a controller that is down --------------------------------------------------------------- */

static void who_does_not_know_is_not_to_requeue(struct stage *s)
{
    struct stage_act act = ends(76, 20);
    static const struct stage_cue cues[] = {
        {.question = 2, .job = "down"},
        {.question = 4, .job = "JobId=41 JobState=COMPLETING Reason=None Restarts=0 Requeue=1"}};
    stage_cues(s, cues, 2);
    tap_ok(stage_play(s, &act, 1, false) == 93 && s->requeues == 0,
           "outage: who does not know is not to requeue");
    tap_like(stage_event(s, "decision", -1), "cancelled meanwhile",
             "outage: but waits for the controller");
}

static void a_controller_that_stays_down_is_not_waited_for_all_day(struct stage *s)
{
    struct stage_act act = ends(76, 20);
    static const struct stage_cue cue = {.question = 2, .job = "down"};
    stage_cues(s, &cue, 1);
    int code = stage_play(s, &act, 1, false);
    tap_ok(code == 75 && s->requeues == 0 && s->now > 120 && s->now < 200,
           "down: two minutes (%.0f s)", s->now);
    tap_like(stage_event(s, "decision", -1),
             "could not be requeued \\(the scheduler does not answer\\); submit it again",
             "down: then a person is told");
}

int main(void)
{
    static const struct scene scene[] = {
        {a_job_requeues_itself_once, "n0,n1,n2,n3"},
        {a_scheduler_that_requeues_is_waited_for, "n0,n1,n2,n3"},
        {sigterm_that_was_of_no_preemption, "n0,n1,n2,n3"},
        {a_grace_time_is_sat_out, "n0,n1,n2,n3"},
        {who_may_not_requeue_says_how_to_go_on, "n0,n1,n2,n3"},
        {without_scontrol_it_says_what_is_missing, "n0,n1,n2,n3"},
        {the_trainer_is_asked_before_the_end, "n0,n1,n2,n3"},
        {an_end_that_moves_is_followed, "n0,n1,n2,n3"},
        {ranks_that_go_at_the_time_limit_have_lost_nobody, "n0,n1,n2,n3"},
        {who_is_cancelled_does_not_come_back, "n0,n1,n2,n3"},
        {cancelled_during_preflight, "n0,n1,n2,n3"},
        {cancelled_between_two_attempts, "n0,n1,n2,n3"},
        {cancelled_near_the_end_of_its_time, "n0,n1,n2,n3"},
        {cancelled_after_it_was_decided_to_requeue, "n0,n1,n2,n3"},
        {who_does_not_know_is_not_to_requeue, "n0,n1,n2,n3"},
        {a_controller_that_stays_down_is_not_waited_for_all_day, "n0,n1,n2,n3"}};
    return scenes_play(scene, sizeof(scene) / sizeof(scene[0]));
}
