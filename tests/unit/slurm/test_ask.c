/*
 * test_ask.c - what is asked of scontrol and squeue, which are scripts here: answers, refusals, a
 * controller that cannot be reached.
 */
#include "slurm/scheduler/ask.h"
#include "tests/lib/tap_like.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/sn-ask-XXXXXX";

/* A program of that name, whose lines these are; NULL: there is none. */
static void program_is(const char *name, const char *lines)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    (void)unlink(path);
    FILE *f = lines ? fopen(path, "w") : NULL;
    if (!f)
        return;
    (void)fprintf(f, "#!/bin/sh\n%s\n", lines);
    (void)fclose(f);
    (void)chmod(path, 0755);
}

static void a_job_is_known_by_scontrols_line(void)
{
    struct sn_job_facts job;
    program_is("squeue", "exit 1");
    program_is("scontrol",
               "[ \"$*\" = '--oneliner show job 41' ] && echo 'JobId=41 JobState=RUNNING "
               "Restarts=2 Requeue=1 EndTime=1800000000 PreemptTime=None'");
    sn_ask_job(&job, "41");
    tap_ok(job.is_known && !job.is_down, "a job is known");
    tap_text(job.state, "RUNNING", "its state");
    tap_ok(job.restarts == 2 && job.may_requeue && job.is_spared && job.end_time == 1800000000,
           "and the rest of the line");
    sn_ask_job_shortly(&job, "41");
    tap_ok(job.is_known && job.end_time == 1800000000, "shortly, too");
}

static void a_controller_that_cannot_be_reached_is_down(void)
{
    static const struct {
        const char *what, *scontrol;
        bool is_down;
    } row[] = {
        {"one that cannot be contacted is down",
         "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; "
         "exit 1",
         true},
        {"one that does not know the job is not",
         "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", false},
        {"without scontrol nothing is known", NULL, false}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_job_facts job;
        program_is("scontrol", row[i].scontrol);
        sn_ask_job(&job, "41");
        tap_ok(!job.is_known && job.is_down == row[i].is_down, "%s", row[i].what);
    }
}

static void the_end_is_squeues_where_scontrol_is_silent(void)
{
    struct sn_job_facts job;
    program_is("scontrol", NULL);
    program_is("squeue", "[ \"$*\" = '--noheader --jobs 41 --format=%e' ] && echo 1800000007");
    sn_ask_job(&job, "41");
    tap_ok(!job.is_known && job.end_time == 1800000007, "the end is known by squeue alone");
}

static void a_requeue_that_is_refused_says_why(void)
{
    struct sn_err err = {0};
    program_is("scontrol", "[ \"$*\" = 'requeue 41' ] && exit 0; exit 1");
    tap_ok(sn_ask_requeue("41", &err) == SN_OK, "a requeue that is taken");
    program_is("scontrol",
               "echo 'slurm_requeue error: Requested operation is presently disabled for "
               "job 41' >&2; exit 1");
    tap_ok(sn_ask_requeue("41", &err) == SN_EFAIL, "one that is refused");
    tap_like(err.text, "presently disabled for job 41", "in Slurm's words");
    program_is("scontrol", NULL);
    tap_ok(sn_ask_requeue("41", &err) == SN_EFAIL, "one without scontrol");
    tap_like(err.text, "scontrol", "which says what is missing");
}

static void steps_and_the_chain_are_squeues(void)
{
    program_is("squeue", "printf '41.batch\\n41.0\\n41.3\\n'");
    tap_ok(sn_ask_steps("41") == 2, "steps that are there, besides the script's");
    program_is("squeue", "exit 1");
    tap_ok(sn_ask_steps("41") == 0, "none where nobody answers");
    program_is("squeue", "[ \"$5\" = x ] && printf '41\\n42\\n'");
    tap_ok(sn_ask_chained("41", "x"), "another job of the name waits");
    program_is("squeue", "echo 41");
    tap_ok(!sn_ask_chained("41", "x"), "this one is not another");
    tap_ok(!sn_ask_chained("41", NULL), "a job without a name has no chain");
}

int main(void)
{
    if (!mkdtemp(dir) || setenv("PATH", dir, 1) != 0)
        return 1;
    a_job_is_known_by_scontrols_line();
    a_controller_that_cannot_be_reached_is_down();
    the_end_is_squeues_where_scontrol_is_silent();
    a_requeue_that_is_refused_says_why();
    steps_and_the_chain_are_squeues();
    program_is("scontrol", NULL);
    program_is("squeue", NULL);
    (void)rmdir(dir);
    return tap_done();
}
