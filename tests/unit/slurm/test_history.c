/*
 * test_history.c - what files of a run directory say, and in which state a run is by them.
 */
#include "lib/base/mem.h"
#include "lib/base/process.h"
#include "slurm/history/history.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char launched[] =
    "{\"event\": \"begin\", \"job\": \"7\", \"pid\": 5, \"host\": \"elsewhere\"}\n"
    "{\"event\": \"launch\", \"attempt\": 1, \"from_step\": 10}\n";

#define DECIDED(action)                                                                            \
    "{\"event\": \"end\", \"attempt\": 1, \"exit_code\": 1, \"cause\": \"it failed\"}\n"           \
    "{\"event\": \"decision\", \"attempt\": 1, \"action\": \"" action                              \
    "\", \"why\": \"because of " action "\"}\n"

static void take(struct sn_history *h, struct sn_evidence *e, const char *a, const char *b)
{
    struct sn_err err = {0};
    sn_history_init(h);
    if (sn_history_take_journal(h, e, a, strlen(a), &err) != SN_OK ||
        sn_history_take_journal(h, e, b, strlen(b), &err) != SN_OK)
        tap_ok(false, "%s", err.text);
    sn_history_conclude(h);
    sn_history_judge(h, e);
}

#define MOVES .still = 5, .patience = 60
#define STILL .still = 600, .patience = 60

static void the_last_word_decides_the_state(void)
{
    static const struct {
        const char *more;
        struct sn_evidence e;
        enum sn_run_state want;
        const char *why;
    } row[] = {
        {"", {MOVES}, SN_RUN_STARTING, "it was launched and has not finished a step yet"},
        {"", {STILL}, SN_RUN_UNKNOWN, "nothing has moved for 600 s"},
        {"{\"event\": \"running\", \"attempt\": 1}\n", {MOVES}, SN_RUN_RUNNING, "it steps"},
        {"{\"event\": \"running\", \"attempt\": 1}\n",
         {STILL},
         SN_RUN_UNKNOWN,
         "nothing has moved for 600 s"},
        {"{\"event\": \"running\", \"attempt\": 1}\n",
         {.supervisor_here = true, MOVES},
         SN_RUN_UNKNOWN,
         "its supervisor, process 5 of this host, is gone"},
        {"{\"event\": \"running\", \"attempt\": 1}\n",
         {.supervisor_here = true, .ranks_here = 2, .ranks_alive = 1, MOVES},
         SN_RUN_RUNNING,
         "it steps"},
        {"{\"event\": \"running\", \"attempt\": 1}\n",
         {.ranks_here = 2, MOVES},
         SN_RUN_UNKNOWN,
         "none of its 2 processes of this host is left"},
        {"{\"event\": \"running\", \"attempt\": 1}\n",
         {.ranks_here = 2, .ranks_elsewhere = 2, MOVES},
         SN_RUN_RUNNING,
         "it steps"},
        {"{\"event\": \"notice\", \"attempt\": 1, \"what\": \"SIGTERM\"}\n",
         {MOVES},
         SN_RUN_RUNNING,
         "it was asked to leave (SIGTERM)"},
        {"{\"event\": \"notice\", \"attempt\": 1, \"what\": \"SIGTERM\"}\n",
         {STILL},
         SN_RUN_UNKNOWN,
         "nothing has moved for 600 s; it was asked to leave (SIGTERM), so a scheduler may have "
         "requeued or ended its job"},
        {"{\"event\": \"suspect\", \"attempt\": 1, \"kind\": \"hang\", \"rank\": 3, \"host\": "
         "\"n1\"}\n",
         {MOVES},
         SN_RUN_RUNNING,
         "suspected (hang): rank 3 on n1"},
        {DECIDED("retry"), {MOVES}, SN_RUN_STARTING, "because of retry"},
        {DECIDED("retry"), {STILL}, SN_RUN_UNKNOWN, "nothing has moved for 600 s"},
        {DECIDED("shrink"), {MOVES}, SN_RUN_STARTING, "because of shrink"},
        {DECIDED("wait"), {STILL}, SN_RUN_WAITING, "because of wait"},
        {DECIDED("requeue"), {STILL}, SN_RUN_WAITING, "because of requeue"},
        {DECIDED("chain"), {STILL}, SN_RUN_WAITING, "because of chain"},
        {DECIDED("done"), {STILL}, SN_RUN_ENDED, "because of done"},
        {DECIDED("stop"), {STILL}, SN_RUN_ENDED, "because of stop"},
        {DECIDED("stop") "{\"event\": \"leave\", \"exit_code\": 75}\n",
         {STILL},
         SN_RUN_ENDED,
         "because of stop"},
        {DECIDED("requeue") "{\"event\": \"leave\", \"exit_code\": 75}\n",
         {STILL},
         SN_RUN_WAITING,
         "because of requeue"},
        {DECIDED("done") "{\"event\": \"leave\", \"exit_code\": 0}\n",
         {STILL},
         SN_RUN_ENDED,
         "all steps are done"},
        {DECIDED("requeue") "{\"event\": \"begin\", \"restart\": 1}\n",
         {MOVES},
         SN_RUN_STARTING,
         "the supervisor prepares an attempt"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_history h;
        struct sn_evidence e = row[i].e;
        take(&h, &e, launched, row[i].more);
        tap_text(h.state_why, row[i].why, row[i].why);
        tap_ok(h.state == row[i].want, "%zu: %s: %s", i, sn_run_state_name(h.state), h.state_why);
        sn_history_fini(&h);
    }
}

static void steps_lost_are_those_behind_what_the_next_attempt_begins_from(void)
{
    static const char more[] =
        "{\"event\": \"end\", \"attempt\": 1, \"step\": 57, \"saved_step\": 50}\n"
        "{\"event\": \"launch\", \"attempt\": 2, \"from_step\": 40}\n"
        "{\"event\": \"end\", \"attempt\": 2, \"step\": 61, \"saved_step\": 60}\n"
        "{\"event\": \"launch\", \"attempt\": 3}\n"
        "{\"event\": \"end\", \"attempt\": 3, \"step\": 61, \"saved_step\": -1}\n"
        "{\"event\": \"launch\", \"attempt\": 4, \"from_step\": 60}\n"
        "{\"event\": \"end\", \"attempt\": 4, \"step\": 69, \"saved_step\": -1}\n";
    static const int64_t want[] = {17, 1, 1, 9};
    struct sn_history h;
    struct sn_evidence e = {MOVES};
    take(&h, &e, launched, more);
    tap_ok(h.n_attempts == 4, "four attempts");
    for (int i = 0; i < 4 && i < h.n_attempts; i++)
        tap_ok(h.attempt[i].lost == want[i], "attempt %d lost %lld steps", i + 1,
               (long long)h.attempt[i].lost);
    tap_ok(h.step == 69, "without metrics the last attempt tells the step");
    sn_history_fini(&h);
}

/* The newest checkpoint was damaged; an attempt that did not begin was to go on from it. */
static void an_attempt_that_never_began_says_nothing_of_it(void)
{
    static const char more[] =
        "{\"event\": \"running\", \"attempt\": 1, \"step\": 1, \"seconds\": 2.5}\n"
        "{\"event\": \"end\", \"attempt\": 1, \"step\": 61, \"saved_step\": 61}\n"
        "{\"event\": \"launch\", \"attempt\": 2, \"from_step\": 61}\n"
        "{\"event\": \"end\", \"attempt\": 2, \"step\": 61, \"saved_step\": 61}\n"
        "{\"event\": \"launch\", \"attempt\": 3, \"from_step\": 50}\n"
        "{\"event\": \"running\", \"attempt\": 3, \"step\": 51, \"seconds\": 1.5}\n"
        "{\"event\": \"end\", \"attempt\": 3, \"step\": 70, \"saved_step\": 70}\n";
    struct sn_history h;
    struct sn_evidence e = {MOVES};
    take(&h, &e, launched, more);
    tap_ok(h.n_attempts == 3 && h.attempt[0].lost == 11 && h.attempt[1].lost == 0 &&
               h.attempt[2].lost == 0,
           "lost by the attempt that made them: %lld, %lld, %lld", (long long)h.attempt[0].lost,
           (long long)h.attempt[1].lost, (long long)h.attempt[2].lost);
    sn_history_fini(&h);
}

static void attempts_are_in_order_whatever_the_order_of_lines(void)
{
    struct sn_history h;
    struct sn_evidence e = {MOVES};
    struct sn_err err;
    char record[] = "{\"attempt\": 2, \"exit_code\": 75, \"cause\": \"asked\", \"ended\": 99}";
    take(&h, &e,
         "{\"event\": \"launch\", \"attempt\": 3}\n{\"event\": \"launch\", \"attempt\": 1}\n", "");
    tap_ok(sn_history_take_record(&h, 2, record, strlen(record), &err) == SN_OK &&
               h.n_attempts == 3 && h.attempt[0].number == 1 && h.attempt[1].number == 2 &&
               h.attempt[2].number == 3,
           "attempts 1, 2, 3");
    tap_ok(h.attempt[1].record_ended && h.attempt[1].exit_code == 75 && h.attempt[1].ended == 99,
           "the record of an attempt that the journal does not know");
    char other[] = "{\"attempt\": 1, \"exit_code\": 0, \"cause\": \"finished\"}";
    h.attempt[0].has_end = true;
    h.attempt[0].exit_code = 137;
    tap_ok(sn_history_take_record(&h, 1, other, strlen(other), &err) == SN_OK &&
               h.attempt[0].exit_code == 137,
           "what the supervisor saw counts more than the record");
    sn_history_fini(&h);
}

static void numbers_that_cannot_be_are_unknown(void)
{
    struct sn_history h;
    static const char lines[] =
        "{\"step\": 3, \"loss\": null, \"step_time_s\": 0.5, \"tokens_per_s\": \"fast\", "
        "\"mfu\": 1e999}\n"
        "{\"step\": 4, \"val_loss\": 2}\n"
        "{\"step\": -9, \"step_time_s\": 1.5}\n"
        "{\"step\": 5, \"step_ti";
    sn_history_init(&h);
    sn_history_take_metrics(&h, lines, strlen(lines));
    tap_ok(h.step == -1 && isnan(h.loss) && isnan(h.tokens_per_s) && isnan(h.mfu),
           "a negative step, a null loss, a text for a rate");
    tap_ok(h.step_time == 1.5, "the median of the step times");
    tap_ok(h.damaged == 0, "a last line that is cut is no damage");
    sn_history_fini(&h);
}

/* As of the last line of a step: what is over is told no more. */
static void what_sets_gave_is_told(void)
{
    static const char text[] =
        "{\"step\": 6, \"sets\": {\"old\": {\"share\": 1}}}\n"
        "{\"step\": 7, \"step_time_s\": 1}\n"
        "{\"step\": 7, \"sets\": {\"web\": {\"sequences\": 3, \"tokens\": 48, \"share\": 0.75, "
        "\"epochs\": 1.5}, \"a\\u001bb\": {\"share\": null}}}\n";
    struct sn_history h;
    sn_history_init(&h);
    sn_history_take_metrics(&h, text, sizeof(text) - 1);
    tap_ok(h.n_sets == 2 && h.sets_step == 7 && strcmp(h.set[0].name, "web") == 0 &&
               h.set[0].share == 0.75 && h.set[0].epochs == 1.5,
           "what sets have given is the last line's");
    tap_ok(strcmp(h.set[1].name, "a?b") == 0 && isnan(h.set[1].share),
           "names are plain, and what is not said is not known");
    tap_ok(h.step == 7, "the step is that of a step");
    sn_history_fini(&h);
}

static void what_departs_now_is_told(void)
{
    static const char lines[] =
        "{\"step\": 7, \"step_time_s\": 1, \"departs\": [{\"kind\": \"core\", \"rank\": 5, "
        "\"says\": \"rank 5\\u001b[2J is slow\"}, {\"says\": \"b\"}, {\"says\": \"c\"}, "
        "{\"says\": \"d\"}, {\"says\": \"e\"}]}\n"
        "{\"step\": 8, \"val_loss\": 2}\n";
    static const char over[] = "{\"step\": 9, \"step_time_s\": 1}\n";
    struct sn_history h;
    sn_history_init(&h);
    sn_history_take_metrics(&h, lines, strlen(lines));
    tap_ok(h.n_departs == 5 && strcmp(h.departs[0], "rank 5?[2J is slow") == 0 &&
               strcmp(h.departs[3], "d") == 0,
           "five departures, four of them in words that reach no terminal");
    sn_history_take_metrics(&h, over, strlen(over));
    tap_ok(h.n_departs == 0, "and none when they are over");
    sn_history_fini(&h);
}

static void hosts_are_bad_until_the_latest_word(void)
{
    struct sn_history h;
    struct sn_evidence e = {MOVES};
    take(&h, &e, "{\"event\": \"bad-node\", \"host\": \"n1\", \"why\": \"a\", \"until\": 5}\n",
         "{\"event\": \"bad-node\", \"host\": \"n2\", \"why\": \"b\", \"until\": 6}\n"
         "{\"event\": \"bad-node\", \"host\": \"n1\", \"why\": \"c\", \"until\": 9}\n");
    tap_ok(h.n_bad == 2 && strcmp(h.bad[0].why, "c") == 0 && h.bad[0].until == 9,
           "two hosts, the first by its later line");
    sn_history_fini(&h);
}

static void no_memory_is_an_error_and_nothing_leaks(void)
{
    struct sn_err err = {0};
    int failed = 0;
    for (uint64_t n = 1; n < 40; n++) {
        struct sn_history h;
        struct sn_evidence e = {MOVES};
        static const char more[] =
            "{\"event\": \"launch\", \"attempt\": 1, \"nodes\": [\"n1\", \"n2\"]}\n"
            "{\"event\": \"bad-node\", \"host\": \"n1\"}\n";
        sn_history_init(&h);
        sn_mem_fail_at(n);
        enum sn_status st = sn_history_take_journal(&h, &e, more, strlen(more), &err);
        sn_mem_fail_at(0);
        failed += st == SN_ENOMEM;
        if (st != SN_OK && st != SN_ENOMEM)
            tap_ok(false, "%s", err.text);
        sn_history_fini(&h);
    }
    tap_ok(failed >= 3, "%d allocations failed, each was an error", failed);
}

static void a_directory_that_is_none_is_refused(void)
{
    struct sn_history h;
    struct sn_err err = {0};
    tap_ok(sn_history_read(&h, "tests/unit/no-such-directory", 0, &err) == SN_EINPUT, "%s",
           err.text);
    tap_ok(sn_history_read(&h, "tests/unit", 0, &err) == SN_EINPUT &&
               strstr(err.text, "run.output") != NULL,
           "%s", err.text);
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        perror(path);
}

static void a_renamed_checkpoint_is_not_the_newest(void)
{
    char dir[64] = "/tmp/sn-history-XXXXXX", name[128], text[160], command[128];
    static const struct {
        const char *name;
        int step;
    } row[] = {{"step-00000010", 10}, {"step-00000020", 20}, {"step-00000900", 15}};
    struct sn_history h;
    sn_history_init(&h);
    if (!mkdtemp(dir))
        perror(dir);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof(name), "%s/%s", dir, row[i].name);
        (void)mkdir(name, 0777);
        (void)snprintf(text, sizeof(text), "{\n  \"schema\": 3,\n  \"scalars\": {\"step\": %d}",
                       row[i].step);
        put(name, "manifest.json", text);
        put(name, "COMMIT", "manifest.json\n");
    }
    (void)snprintf(h.checkpoints, sizeof(h.checkpoints), "%s", dir);
    tap_ok(sn_history_take_checkpoints(&h) && h.saved == 20, "step 15 is not step 900: %lld",
           (long long)h.saved);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    tap_ok(system(command) == 0, "the folder goes");
    sn_history_fini(&h);
}

static void a_process_that_has_ended_is_not_alive(void)
{
    int pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    tap_ok(pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0 &&
               !sn_process_is_alive(pid),
           "not before its parent has asked for it either");
    (void)waitpid(pid, NULL, 0);
    tap_ok(!sn_process_is_alive(pid), "nor afterwards");
    pid = fork();
    if (pid == 0)
        (void)pause();
    tap_ok(!sn_process_is_stopped(pid) && kill(pid, SIGSTOP) == 0 &&
               waitid(P_PID, (id_t)pid, &info, WSTOPPED) == 0 && sn_process_is_stopped(pid) &&
               sn_process_is_alive(pid),
           "one that is stopped is alive, and is told");
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    tap_ok(sn_process_is_alive(getpid()) && sn_process_is_alive(1), "this one is, and the first");
    tap_ok(!sn_process_is_alive(0) && !sn_process_is_alive(-1) && !sn_process_is_alive(INT64_MAX),
           "numbers that are no process");
}

/* --- devices ---------------------------------------------------------------------------------- */

#define SAYS(time, rank, kind, what, value)                                                        \
    "{\"time\": " time ", \"rank\": " rank ", \"host\": \"n1\", \"step\": 40, \"kind\": \"" kind   \
    "\", \"what\": \"" what "\", \"value\": " value "}\n"

/* Two attempts, of 1000 and 2000 s. */
static void the_gravest_of_what_devices_say_is_the_likely_cause(void)
{
    static const struct {
        const char *says;
        int64_t n[2];
        const char *text[2];
    } row[] = {
        {"", {0, 0}, {"", ""}},
        {SAYS("1500.5", "3", "throttled", "hw_thermal", "91"),
         {1, 0},
         {"the device of rank 3 (n1) was slowed down (hw_thermal, 91 C) by step 40", ""}},
        {SAYS("2500", "3", "throttled", "sw_thermal", "88") SAYS("2500", "5", "xid", "", "79")
             SAYS("2501", "6", "ecc", "uncorrected", "1") SAYS("2502", "7", "xid", "", "48"),
         {0, 4},
         {"", "the device of rank 6 (n1) had 1 uncorrected memory error by step 40"}},
        {SAYS("1999", "5", "xid", "", "79") SAYS("1999", "2", "xid", "", "48"),
         {2, 0},
         {"the device of rank 5 (n1) failed: its driver reported XID 79 by step 40", ""}},
        {"{\"time\": 1400, \"rank\": 5, \"kind\": \"departs\", \"what\": \"core\", \"value\": 1.3, "
         "\"says\": \"rank 5 (n2) computes 1.30 times as long\"}\n"
         "{\"time\": 2400, \"rank\": -1, \"kind\": \"departs\", \"says\": \"the link of "
         "n2\"}\n" SAYS("2500", "3", "throttled", "sw_thermal", "88"),
         {1, 2},
         {"rank 5 (n2) computes 1.30 times as long",
          "the device of rank 3 (n1) was slowed down (sw_thermal, 88 C) by step 40"}},
        {SAYS("500", "5", "xid", "", "79"), {0, 0}, {"", ""}}, /* before the first */
        {SAYS("1500", "5", "weather", "", "1") "{\"time\": 1600, \"kind\": \"xi", {0, 0}, {"", ""}},
    };
    static const char began[] = "{\"event\": \"launch\", \"time\": 1000, \"attempt\": 1}\n"
                                "{\"event\": \"launch\", \"time\": 2000, \"attempt\": 2}\n";
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_history h;
        struct sn_evidence e = {0};
        bool right = true;
        take(&h, &e, began, "");
        sn_history_take_health(&h, row[i].says, strlen(row[i].says));
        for (int k = 0; k < 2 && h.n_attempts == 2; k++) {
            const struct sn_history_attempt *a = &h.attempt[k];
            char text[256] = "";
            if (a->n_incidents)
                sn_history_say_incident(text, sizeof(text), &a->incident);
            right = right && a->n_incidents == row[i].n[k] && strcmp(text, row[i].text[k]) == 0;
            if (!right)
                printf("# attempt %d: %d reports, '%s'\n", k + 1, (int)a->n_incidents, text);
        }
        tap_ok(h.n_attempts == 2 && right, "what devices say, %d: '%s' '%s'", (int)i,
               row[i].text[0], row[i].text[1]);
        sn_history_fini(&h);
    }
}

int main(void)
{
    a_process_that_has_ended_is_not_alive();
    the_last_word_decides_the_state();
    steps_lost_are_those_behind_what_the_next_attempt_begins_from();
    an_attempt_that_never_began_says_nothing_of_it();
    attempts_are_in_order_whatever_the_order_of_lines();
    numbers_that_cannot_be_are_unknown();
    what_sets_gave_is_told();
    what_departs_now_is_told();
    hosts_are_bad_until_the_latest_word();
    no_memory_is_an_error_and_nothing_leaks();
    a_directory_that_is_none_is_refused();
    a_renamed_checkpoint_is_not_the_newest();
    the_gravest_of_what_devices_say_is_the_likely_cause();
    return tap_done();
}
