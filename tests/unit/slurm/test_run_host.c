/*
 * test_run_host.c - sennit-run exec outside of a job: ranks that die or stand still, signals to the
 * supervisor, hours of training. Four ranks of tensor 2 x pipeline 2 on a stage, under mpirun.
 */
#include "slurm/supervisor/supervise.h"
#include "tests/lib/stage.h"
#include "tests/lib/tap_like.h"

#include <signal.h>
#include <string.h>

enum { RANKS = 4 };

/* All ranks have made `number` collectives and wait in the next one; their processes are there. */
static void ranks_communicate(struct stage *s)
{
    for (int i = 0; i < RANKS; i++) {
        struct sn_flight_view *v = &s->record[i];
        *v = (struct sn_flight_view){
            .rank = i, .pid = 1000 + i, .host = "here", .is_here = true, .is_alive = true, .n = 1};
        for (int q = 0; q < SN_FLIGHT_GROUPS; q++)
            v->posted[q] = 40;
        v->event[0] = (struct sn_flight_event){.id = 7,
                                               .number = 40,
                                               .group = SN_GROUP_WORLD,
                                               .peer = -1,
                                               .state = SN_FLIGHT_DONE,
                                               .kind = "barrier"};
        s->heartbeats[i] = true;
    }
}

static void waits_in(struct sn_flight_view *v, enum sn_group q)
{
    v->posted[q]++;
    v->event[v->n++] = (struct sn_flight_event){.id = 8,
                                                .number = v->posted[q],
                                                .group = (int32_t)q,
                                                .peer = -1,
                                                .state = SN_FLIGHT_BEGUN,
                                                .kind = "all_reduce",
                                                .label = "l0.ffn.down"};
}

static bool has_signal(const struct stage *s, int sig)
{
    for (int i = 0; i < s->n_signals; i++)
        if (s->signals[i] == sig)
            return true;
    return false;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void a_rank_that_was_killed_is_named_and_the_run_goes_on(struct stage *s)
{
    static const struct stage_act acts[] = {
        {.code = 137,
         .saved = 10,
         .step = 15,
         .words = "mpirun noticed that process rank 2 with PID 0 on node here exited on signal 9 "
                  "(Killed)."},
        {.code = 0, .saved = 100, .step = 100}};
    tap_ok(stage_play(s, acts, 2, false) == 0, "killed: done");
    tap_like(stage_event(s, "end", 0), "\"cause\": \"a rank was lost\", .*\"rank\": 2, ",
             "killed: the rank is named");
    tap_like(stage_event(s, "decision", 0), "\"action\": \"retry\"",
             "killed: another attempt begins");
    tap_like(stage_event(s, "launch", -1), "\"attempt\": 2, .*\"from_step\": 10, ",
             "killed: from a checkpoint");
}

/* Rank 3 is stopped: its peer 2 waits for it, which notices first. */
static void a_rank_that_stands_still_is_found_by_its_record(struct stage *s)
{
    static const struct stage_act acts[] = {
        {.code = 77,
         .saved = 10,
         .step = 15,
         .says =
             "rank 2 (here): l0.ffn.down: tensor all_reduce 'l0.ffn.down' (number 41) has waited "
             "4 s; rank 3 (tensor 1, pipeline 1) is behind at number 40",
         .seconds = 12,
         .pace = 0.1,
         .still_at = 6},
        {.code = 0, .saved = 100, .step = 100}};
    ranks_communicate(s);
    waits_in(&s->record[2], SN_GROUP_TENSOR);
    s->heartbeats[3] = false;
    tap_ok(stage_play(s, acts, 2, false) == 0, "stopped: done");
    tap_like(stage_event(s, "suspect", 0),
             "\"kind\": \"hang\", \"rank\": 3, \"host\": \"here\", \"axis\": \"tensor\", "
             "\"operation\": \"all_reduce l0.ffn.down\", \"behind\": 1, \"seconds\": [4-5]",
             "stopped: the rank, where others wait for it, and how long");
    tap_like(stage_event(s, "end", 0),
             "\"exit_code\": 77, \"cause\": \"a rank hung\", .*\"rank\": 3, .*rank 3 \\(tensor 1, "
             "pipeline 1\\)",
             "stopped: the end says so too");
    tap_ok(!has_signal(s, SIGTERM), "stopped: the ranks ended it themselves");
    tap_like(stage_event(s, "launch", -1), "\"attempt\": 2, .*\"from_step\": 10, ",
             "stopped: and the next begins from a checkpoint");
}

/* No rank can tell. */
static void ranks_that_all_stand_still_are_ended(struct stage *s)
{
    static const struct stage_act acts[] = {
        {.code = STAGE_HANGS, .saved = 10, .step = 15, .pace = 0.1, .still_at = 6},
        {.code = 0, .saved = 100, .step = 100}};
    ranks_communicate(s);
    for (int i = 0; i < RANKS; i++)
        s->heartbeats[i] = false;
    tap_ok(stage_play(s, acts, 2, false) == 0, "frozen: done");
    tap_ok(stage_count(s, "suspect") == 2, "frozen: looked at once, and ended by the second");
    tap_like(stage_event(s, "suspect", 0),
             "\"kind\": \"hang\", \"rank\": -?[0-9]+, .*\"seconds\": [4-5]",
             "frozen: after the limit it is looked who stands still");
    tap_like(stage_event(s, "suspect", 1),
             "\"kind\": \"hang\", \"rank\": -?[0-9]+, .*\"seconds\": ([89]|1[0-9])",
             "frozen: after twice the limit the supervisor ends the step");
    tap_ok(s->n_signals == 1 && has_signal(s, SIGTERM) && s->kills == 0,
           "frozen: by the signal on which mpirun ends them all");
    tap_like(stage_event(s, "end", 0), "\"cause\": \"a rank hung\"", "frozen: and says why");
    tap_like(stage_event(s, "launch", -1), "\"attempt\": 2, .*\"from_step\": 10, ",
             "frozen: and the next begins from a checkpoint");
}

/* ---- hours ----------------------------------------------------------------------------------- */

static void hours_of_long_steps_are_no_hang(struct stage *s)
{
    static const struct stage_act act = {
        .code = 0, .saved = -1, .step = -1, .seconds = 5 * 3600, .pace = 600};
    s->run = ", hang_timeout: 900";
    ranks_communicate(s);
    tap_ok(stage_play(s, &act, 1, false) == 0, "hours: done");
    tap_ok(s->n_signals == 0 && stage_count(s, "suspect") == 0 && stage_count(s, "notice") == 0,
           "hours: steps of ten minutes disturb nobody");
    tap_like(stage_event(s, "end", 0), "\"cause\": \"all steps are done\", \"seconds\": 18000",
             "hours: five of them");
    tap_like(stage_event(s, "running", 0), "\"step\": 1, \"seconds\": 60[01]",
             "hours: the first step is noticed");
}

/* ---- the supervisor is asked ----------------------------------------------------------------- */

static const struct stage_act trains = {.code = STAGE_WAITS, .saved = 10, .step = 15, .pace = 0.1};

static void signals_make_the_trainer_save(struct stage *s)
{
    static const struct {
        unsigned asked;
        int code;
        const char *signal, *why;
    } row[] = {{SN_ASKED_TERM, 75, "SIGTERM", "it was preempted"},
               {SN_ASKED_USR1, 75, "SIGUSR1", "it was asked to save and leave"},
               {SN_ASKED_USR2, 75, "SIGUSR2", "it was asked to save and leave"},
               {SN_ASKED_INT, 93, "SIGINT", "a person ended it"}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct stage_cue cue = {.at = s->now + 5, .asked = row[i].asked};
        char path[512], want[128];
        stage_cues(s, &cue, 1);
        s->n_signals = 0;
        int code = stage_play(s, &trains, 1, false);
        tap_ok(code == row[i].code, "%s: exit code (%d)", row[i].signal, code);
        (void)snprintf(want, sizeof(want), "\"what\": \"%s\"", row[i].signal);
        tap_like(stage_event(s, "notice", -1), want, "it is written down");
        tap_ok(s->n_signals == 1 && has_signal(s, SIGUSR2), "the launcher passes on SIGUSR2, once");
        (void)snprintf(path, sizeof(path), "attempt-%zu.json", i + 1);
        tap_like(stage_file(s, path), "\"exit_code\": 75, ", "the trainer saved");
        (void)snprintf(want, sizeof(want),
                       "\"cause\": \"%s\", .*\"step\": ([0-9]+), \"saved_step\": ", row[i].why);
        tap_like(stage_event(s, "end", -1), want, "why");
        (void)snprintf(want, sizeof(want), "\"exit_code\": %d", row[i].code);
        tap_like(stage_event(s, "leave", -1), want, "and is left");
    }
    tap_like(stage_event(s, "decision", -1),
             "\"why\": \"a person ended it; nobody goes on unless asked to\"",
             "SIGINT: and nobody goes on");
}

static void the_last_step_is_saved(struct stage *s)
{
    static const struct stage_cue cue = {.at = 6, .asked = SN_ASKED_TERM};
    struct sn_rundir_progress p;
    struct sn_rundir r = {0};
    stage_cues(s, &cue, 1);
    tap_ok(stage_play(s, &trains, 1, false) == 75, "saved: exit code");
    (void)snprintf(r.output, sizeof(r.output), "%s", s->output);
    (void)snprintf(r.checkpoints, sizeof(r.checkpoints), "%s/ckpt", s->output);
    sn_rundir_progress(&p, &r);
    tap_ok(p.step > 15 && sn_rundir_saved_step(&r) == p.step, "saved: at its last step (%lld)",
           (long long)p.step);
}

/* A trainer that does not hear, and a person who asks twice. */
static void a_second_interrupt_means_now(struct stage *s)
{
    static const struct stage_act deaf = {
        .code = STAGE_HANGS, .saved = 10, .step = 15, .pace = 0.1};
    static const struct stage_cue cues[] = {{.at = 6, .asked = SN_ASKED_INT},
                                            {.at = 9, .asked = SN_ASKED_INT_AGAIN}};
    stage_cues(s, cues, 2);
    int code = stage_play(s, &deaf, 1, false);
    tap_ok(code == 93 && s->now < 11, "twice: at once (%.1f s)", s->now);
    tap_ok(s->n_signals == 2 && s->signals[0] == SIGUSR2 && s->signals[1] == SIGTERM,
           "twice: first it is asked, then ended");
}

static void who_is_not_heard_asks_again(struct stage *s)
{
    static const struct stage_act deaf = {
        .code = STAGE_HANGS, .saved = 10, .step = 15, .pace = 0.1};
    static const struct stage_cue cues[] = {{.at = 6, .asked = SN_ASKED_TERM},
                                            {.at = 100, .asked = SN_ASKED_INT},
                                            {.at = 101, .asked = SN_ASKED_INT_AGAIN}};
    stage_cues(s, cues, 3);
    (void)stage_play(s, &deaf, 1, false);
    int asked = 0;
    for (int i = 0; i < s->n_signals; i++)
        asked += s->signals[i] == SIGUSR2;
    tap_ok(asked == 4, "again: every half a minute (%d times in 95 s)", asked);
}

int main(void)
{
    static void (*const scene[])(struct stage *) = {
        a_rank_that_was_killed_is_named_and_the_run_goes_on,
        a_rank_that_stands_still_is_found_by_its_record,
        ranks_that_all_stand_still_are_ended,
        hours_of_long_steps_are_no_hang,
        signals_make_the_trainer_save,
        the_last_step_is_saved,
        a_second_interrupt_means_now,
        who_is_not_heard_asks_again};
    for (size_t i = 0; i < sizeof(scene) / sizeof(scene[0]); i++) {
        struct stage s;
        if (!tap_ok(stage_open(&s, ""), "scene %zu", i + 1))
            break;
        s.layout = "{tensor: 2, pipeline: 2, micro_batch: 1, bucket: 64KiB}";
        s.run = ", hang_timeout: 4";
        scene[i](&s);
        stage_close(&s);
    }
    return tap_done();
}
