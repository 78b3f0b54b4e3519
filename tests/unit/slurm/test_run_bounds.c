/*
 * test_run_bounds.c - how often sennit-run exec tries, and what it does not try again; and the
 * preflight of nodes before the first attempt. Jobs on a stage.
 */
#include "slurm/history/history.h"
#include "tests/lib/scenes.h"
#include "tests/lib/tap_like.h"

#include <string.h>

static const struct stage_act done = {.code = 0, .saved = 100, .step = 100};

static struct stage_act fails(const char *words)
{
    return (struct stage_act){.code = 1, .saved = -1, .step = -1, .words = words};
}

/* ---- again, or not --------------------------------------------------------------------------- */

static void attempts_without_progress_are_bounded(struct stage *s)
{
    struct stage_act acts[] = {{.code = 1,
                                .saved = 10,
                                .step = 11,
                                .words = "srun: error: n1: task 5: Exited with exit code 1"},
                               fails("x"),
                               fails("y"),
                               fails("z"),
                               fails("x")};
    tap_ok(stage_play(s, acts, 5, false) == 93, "idle: exit code");
    tap_ok(s->launches == 4, "idle: three attempts without a newer checkpoint (%d)", s->launches);
    tap_like(stage_event(s, "decision", -1), "3 attempts in a row made no progress",
             "idle: are the reason");
    tap_like(stage_event(s, "end", 0),
             "\"rank\": 5, \"host\": \"n1\", \"says\": \"srun: error: n1: task 5",
             "idle: the rank that failed is named");
}

static void what_slurm_has_no_room_for_yet_is_no_idle_attempt(struct stage *s)
{
    struct stage_act none = fails("srun: error: Unable to create step for job 41: Memory required "
                                  "by task is not available");
    struct stage_act acts[] = {
        {.code = 137, .saved = 10, .step = 12, .words = "srun: error: n1: task 5: Killed"},
        none,
        none,
        none,
        done};
    s->step_gone = 20;
    tap_ok(stage_play(s, acts, 5, false) == 0 && s->launches == 5,
           "nostep: what Slurm has no room for yet is no idle attempt");
    tap_ok(s->launched[1] >= 20 && s->launched[1] < 23,
           "nostep: the step before is waited for (%.0f s)", s->launched[1]);
    static const char *const pause[] = {"1", "3", "7"};
    for (int i = 0; i < 3; i++) {
        char want[32];
        (void)snprintf(want, sizeof(want), "\"pause\": %s[,}]", pause[i]);
        tap_like(stage_event(s, "decision", i + 1), want, "nostep: each further one later");
    }
}

static void attempts_are_as_many_as_the_run_file_allows(struct stage *s)
{
    struct stage_act acts[] = {{.code = 1, .saved = 10, .step = 10, .words = "x"},
                               {.code = 1, .saved = 20, .step = 20, .words = "x"},
                               {.code = 1, .saved = 30, .step = 30, .words = "x"}};
    s->slurm = "preflight: false, attempts: 2";
    tap_ok(stage_play(s, acts, 3, false) == 93 && s->launches == 2,
           "attempts: as many as the run file allows");
}

static void a_host_out_of_memory_would_be_so_again(struct stage *s)
{
    struct stage_act act = {
        .code = 137,
        .saved = 10,
        .step = 12,
        .words = "slurmstepd: error: Detected 1 oom_kill event in StepId=41.0.|srun: error: n2: "
                 "task 8: Out Of Memory"};
    tap_ok(stage_play(s, &act, 1, false) == 93, "memory: another attempt would end the same way");
    tap_like(stage_event(s, "end", 0),
             "\"cause\": \"the host ran out of memory\", .*\"rank\": 8, \"host\": \"n2\"",
             "memory: the rank that had too much is named");
}

static void wrong_input_is_not_tried_again(struct stage *s)
{
    struct stage_act act = {
        .code = 2, .saved = -1, .step = -1, .says = "data.train: there is no such file"};
    tap_ok(stage_play(s, &act, 1, false) == 93 && s->launches == 1,
           "bad: what the trainer refuses is not tried again");
    tap_like(stage_event(s, "end", 0), "\"exit_code\": 2, \"cause\": \"usage or input is wrong\"",
             "bad: the cause");
}

static const char full_disk[] = "rank 0 (n0): ckpt: write: No space left on device";

static void a_disk_that_has_room_again_ends_the_rest(struct stage *s)
{
    struct stage_act full = {.code = 1, .saved = -1, .step = -1, .words = full_disk};
    struct stage_act acts[] = {full, full, full, done};
    static const struct stage_cue cue = {.at = 60, .room = 1 << 30};
    s->room = 4096;
    stage_cues(s, &cue, 1);
    int code = stage_play(s, acts, 4, false);
    tap_ok(code == 0 && s->launches == 4, "disk: is waited for (%d launches)", s->launches);
    tap_like(stage_event(s, "end", 0), "\"cause\": \"the file system failed or is full\"",
             "disk: the cause");
    tap_like(stage_event(s, "decision", 2), "\"action\": \"retry\", .*\"pause\": 60",
             "disk: the third rest is a minute");
    tap_ok(s->now >= 60 && s->now < 65, "disk: which ends when there is room (%.0f s)", s->now);
}

static void a_disk_that_stays_full_ends_the_run(struct stage *s)
{
    struct stage_act acts[STAGE_LAUNCHES];
    for (int i = 0; i < STAGE_LAUNCHES; i++)
        acts[i] = (struct stage_act){.code = 1, .saved = -1, .step = -1, .words = full_disk};
    s->slurm = "preflight: false, disk_wait: 300";
    s->room = 4096;
    int code = stage_play(s, acts, STAGE_LAUNCHES, false);
    tap_ok(code == 93 && s->now > 300 && s->now < 900, "disk: five minutes, as it says (%.0f s)",
           s->now);
    tap_like(stage_event(s, "decision", -1), "there was no room for [0-9]+ s", "disk: the reason");
}

/* ---- preflight ------------------------------------------------------------------------------- */

static void a_node_that_fails_its_preflight_is_not_used(struct stage *s)
{
    static const struct stage_act first[] = {{.code = 77, .saved = -1, .step = -1},
                                             {.code = 0, .saved = 100, .step = 100}};
    static const struct stage_act next[] = {{.code = 0, .saved = -1, .step = -1},
                                            {.code = STAGE_WAITS, .saved = 20, .step = 20}};
    s->slurm = "spares: 1";
    stage_write(
        s, "preflight.json",
        "{\"pass\": false, \"hosts\": [{\"host\": \"n0\", \"pass\": true}, {\"host\": \"n1\", "
        "\"pass\": false, \"why\": \"slow memory\"}]}\n");
    tap_ok(stage_play(s, first, 2, false) == 0, "preflight: done");
    tap_like(s->command[0], "--nodes=5 --ntasks=20 .*/run.yaml --preflight$",
             "preflight: of all nodes, the spare too");
    tap_like(s->command[1], "--nodelist=n\\[0,2-4\\] ", "preflight: who failed is not used");
    tap_like(stage_event(s, "bad-node", 0), "\"host\": \"n1\", \"why\": \"slow memory\"",
             "preflight: with its reason");
    s->environment = "SLURM_JOB_END_TIME=1800000015";
    s->restart = 1;
    (void)stage_play(s, next, 2, true);
    tap_like(s->command[0], "--nodes=4 .*--nodelist=n\\[0,2-4\\] ",
             "preflight: the next one leaves it out");
}

static void what_is_wrong_with_all_nodes_stops_nobody(struct stage *s)
{
    static const struct stage_act acts[] = {
        {.code = 1,
         .saved = -1,
         .step = -1,
         .words = "preflight: ckpt: no node can write there: No space left on device|srun: error: "
                  "n0: task 0: Exited with exit code 1"},
        {.code = 0, .saved = 100, .step = 100}};
    struct sn_history h;
    struct sn_err err;
    s->slurm = "preflight: true";
    tap_ok(stage_play(s, acts, 2, false) == 0 && s->launches == 2,
           "full: what is wrong with all nodes alike stops nobody");
    bool good = sn_history_read(&h, s->output, STAGE_DATE + s->now, &err) == SN_OK;
    tap_ok(good && h.preflight_code == 1 && h.preflight_seconds > 0, "full: but status knows it");
    tap_like(good ? h.preflight_says : err.text,
             "^preflight: ckpt: no node can write there: No space", "full: in its words");
    sn_history_fini(&h);
    s->restart = 1;
    tap_ok(stage_play(s, &done, 1, false) == 0 && s->launches == 1,
           "full: a job behind the end of a chain checks no nodes");
    tap_ok(!strstr(s->command[0], "--preflight"), "full: but looks once");
}

int main(void)
{
    static const struct scene scene[] = {
        {attempts_without_progress_are_bounded, "n0,n1,n2,n3"},
        {what_slurm_has_no_room_for_yet_is_no_idle_attempt, "n0,n1,n2,n3"},
        {attempts_are_as_many_as_the_run_file_allows, "n0,n1,n2,n3"},
        {a_host_out_of_memory_would_be_so_again, "n0,n1,n2,n3"},
        {wrong_input_is_not_tried_again, "n0,n1,n2,n3"},
        {a_disk_that_has_room_again_ends_the_rest, "n0,n1,n2,n3"},
        {a_disk_that_stays_full_ends_the_run, "n0,n1,n2,n3"},
        {a_node_that_fails_its_preflight_is_not_used, "n0,n1,n2,n3,n4"},
        {what_is_wrong_with_all_nodes_stops_nobody, "n0,n1,n2,n3"}};
    return scenes_play(scene, sizeof(scene) / sizeof(scene[0]));
}
