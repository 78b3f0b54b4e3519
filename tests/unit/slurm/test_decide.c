/*
 * test_decide.c - the table of what happens after an attempt, and what always holds.
 */
#include "slurm/supervisor/decide.h"
#include "tests/lib/tap.h"

#include <signal.h>

static void causes(void)
{
    static const struct {
        struct sn_end end;
        enum sn_cause want;
    } row[] = {
        {{.exit_code = 0, .finished = true, .fate = SN_FATE_CANCELLED}, SN_CAUSE_FINISHED},
        {{.exit_code = 0, .got_term = true, .fate = SN_FATE_RUNS}, SN_CAUSE_SAVED},
        {{.exit_code = 75}, SN_CAUSE_SAVED},
        {{.exit_code = 75, .was_asked = true}, SN_CAUSE_SAVED},
        {{.exit_code = 2, .fate = SN_FATE_REQUEUED}, SN_CAUSE_INPUT},
        {{.exit_code = 79}, SN_CAUSE_DIVERGED},
        {{.exit_code = 93}, SN_CAUSE_REFUSED},
        {{.exit_code = 77}, SN_CAUSE_PEER},
        {{.exit_code = 77, .has_culprit = true}, SN_CAUSE_HANG},
        {{.exit_code = 77, .has_culprit = true, .lost_node = true}, SN_CAUSE_NODE},
        {{.exit_code = 143, .has_hung = true}, SN_CAUSE_HANG},
        {{.exit_code = 76, .has_hung = true}, SN_CAUSE_HANG},
        {{.exit_code = 143, .has_hung = true, .lost_node = true}, SN_CAUSE_NODE},
        {{.exit_code = 75, .lost_node = true}, SN_CAUSE_SAVED},
        {{.exit_code = 77, .has_culprit = true, .words = "srun: error: Node failure on n3"},
         SN_CAUSE_NODE},
        {{.exit_code = 130}, SN_CAUSE_CANCELLED},
        {{.exit_code = 75, .got_int = true}, SN_CAUSE_CANCELLED},
        {{.exit_code = 137, .words = "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0"},
         SN_CAUSE_MEMORY},
        {{.exit_code = 143, .words = "*** STEP 1.0 ON n0 CANCELLED AT 12:00 DUE TO TIME LIMIT ***"},
         SN_CAUSE_TIME_LIMIT},
        {{.exit_code = 137}, SN_CAUSE_PEER},
        {{.exit_code = 1, .words = "ckpt/step-7: No space left on device"}, SN_CAUSE_DISK},
        {{.exit_code = 1,
          .says = "rank 0 (n0): ckpt: the checkpoint of step 3 has 4.98 MiB, but only 2.98 MiB are "
                  "free; free some space, or lower checkpoint.keep"},
         SN_CAUSE_DISK},
        {{.exit_code = 1}, SN_CAUSE_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        enum sn_cause got = sn_classify(&row[i].end);
        tap_ok(got == row[i].want, "exit code %d: %s", row[i].end.exit_code, sn_cause_text(got));
    }
}

/* SIGTERM, and who sent it: what the scheduler does with the job decides, in whatever state the
 * attempt was. */
static void one_signal_of_many_meanings(void)
{
    static const struct {
        enum sn_fate fate;
        enum sn_cause saved, lost; /* exit codes 75 and 76, and 77, 137 and 143 */
    } row[] = {{SN_FATE_CANCELLED, SN_CAUSE_CANCELLED, SN_CAUSE_CANCELLED},
               {SN_FATE_PREEMPTED, SN_CAUSE_PREEMPTED, SN_CAUSE_PREEMPTED},
               {SN_FATE_REQUEUED, SN_CAUSE_PREEMPTED, SN_CAUSE_PREEMPTED},
               {SN_FATE_TIME_OVER, SN_CAUSE_SAVED, SN_CAUSE_TIME_LIMIT},
               {SN_FATE_NODE_FAILED, SN_CAUSE_NODE, SN_CAUSE_NODE},
               {SN_FATE_UNKNOWN, SN_CAUSE_PREEMPTED, SN_NCAUSES},
               {SN_FATE_FORGOTTEN, SN_CAUSE_SAVED, SN_NCAUSES},
               {SN_FATE_RUNS, SN_CAUSE_SAVED, SN_NCAUSES}};
    static const int saved[] = {75, 76}, lost[] = {77, 137, 143};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_end end = {.fate = row[i].fate, .got_term = true, .was_asked = true};
        int wrong = 0;
        for (size_t k = 0; k < 2; k++) {
            end.exit_code = saved[k];
            wrong += sn_classify(&end) != row[i].saved;
        }
        for (size_t k = 0; k < 3 && row[i].lost != SN_NCAUSES; k++) {
            end.exit_code = lost[k];
            wrong += sn_classify(&end) != row[i].lost;
        }
        tap_ok(wrong == 0, "SIGTERM of a job whose fate is '%s': %s", sn_fate_name(row[i].fate),
               sn_cause_text(row[i].saved));
    }
    struct sn_end preempted = {.exit_code = 75,
                               .fate = SN_FATE_CANCELLED,
                               .words = "STEP 1.0 ON n0 CANCELLED AT 12:00 DUE TO PREEMPTION ***"};
    tap_ok(sn_classify(&preempted) == SN_CAUSE_PREEMPTED,
           "the step's own words say that it was preempted");
    struct sn_end early = {.exit_code = 128 + SIGUSR1, .save = SIGUSR1, .was_asked = true};
    tap_ok(sn_classify(&early) == SN_CAUSE_SAVED, "asked before the launcher could pass it on");
    early.save = SIGUSR2;
    tap_ok(sn_classify(&early) == SN_CAUSE_PEER, "which is not by any other signal");
}

#define NODES .nodes_wanted = 4, .nodes_good = 4, .nodes_least = 2
#define LATER .seconds_left = 3600, .seconds_needed = 60

static void actions(void)
{
    static const struct sn_bounds bounds = {.attempts = 10, .idle_attempts = 3};
    static const struct {
        struct sn_situation s;
        enum sn_action want;
        int code;
    } row[] = {
        {{.cause = SN_CAUSE_FINISHED, NODES, LATER}, SN_DO_DONE, 0},
        {{.cause = SN_CAUSE_SAVED, NODES, LATER}, SN_DO_REQUEUE, 75},
        {{.cause = SN_CAUSE_PREEMPTED, NODES, LATER}, SN_DO_REQUEUE, 75},
        {{.cause = SN_CAUSE_PREEMPTED, .requeue = SN_REQUEUE_SYSTEM, NODES, LATER}, SN_DO_WAIT, 75},
        {{.cause = SN_CAUSE_SAVED, .requeue = SN_REQUEUE_SYSTEM, NODES, LATER}, SN_DO_REQUEUE, 75},
        {{.cause = SN_CAUSE_TIME_LIMIT, .requeue = SN_REQUEUE_NEVER, .chained = true, NODES, LATER},
         SN_DO_CHAIN,
         75},
        {{.cause = SN_CAUSE_TIME_LIMIT, .requeue = SN_REQUEUE_NEVER, NODES, LATER}, SN_DO_STOP, 75},
        {{.cause = SN_CAUSE_PEER, NODES, LATER}, SN_DO_RETRY, 0},
        {{.cause = SN_CAUSE_HANG, .nodes_wanted = 4, .nodes_good = 3, .nodes_least = 2, LATER},
         SN_DO_SHRINK,
         0},
        {{.cause = SN_CAUSE_NODE, .nodes_wanted = 4, .nodes_good = 1, .nodes_least = 2, LATER},
         SN_DO_REQUEUE,
         75},
        {{.cause = SN_CAUSE_NODE, .nodes_wanted = 4, .nodes_good = 5, .nodes_least = 4, LATER},
         SN_DO_RETRY,
         0},
        {{.cause = SN_CAUSE_PEER, NODES, .seconds_left = 50, .seconds_needed = 60},
         SN_DO_REQUEUE,
         75},
        {{.cause = SN_CAUSE_PEER, NODES, .seconds_left = -1, .seconds_needed = 60}, SN_DO_RETRY, 0},
        {{.cause = SN_CAUSE_UNKNOWN, NODES, LATER, .idle_attempts = 2}, SN_DO_RETRY, 0},
        {{.cause = SN_CAUSE_UNKNOWN, NODES, LATER, .idle_attempts = 3}, SN_DO_STOP, 93},
        {{.cause = SN_CAUSE_PREEMPTED, NODES, LATER, .attempts = 10}, SN_DO_STOP, 93},
        {{.cause = SN_CAUSE_DISK, NODES, LATER, .attempts = 9}, SN_DO_RETRY, 0},
        {{.cause = SN_CAUSE_MEMORY, NODES, LATER}, SN_DO_STOP, 93},
        {{.cause = SN_CAUSE_DIVERGED, NODES, LATER}, SN_DO_STOP, 93},
        {{.cause = SN_CAUSE_REFUSED, NODES, LATER}, SN_DO_STOP, 93},
        {{.cause = SN_CAUSE_INPUT, NODES, LATER}, SN_DO_STOP, 93},
        {{.cause = SN_CAUSE_CANCELLED, NODES, LATER}, SN_DO_STOP, 93},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_decision d;
        sn_decide(&d, &row[i].s, &bounds);
        tap_ok(d.action == row[i].want && d.exit_code == row[i].code, "%s: %s",
               sn_action_name(d.action), d.why);
    }
}

/* What ended alike is not begun again at once; a full disk is waited for, but not for ever. */
static void rests(void)
{
    static const struct sn_bounds bounds = {
        .attempts = 100, .idle_attempts = 100, .disk_seconds = 600};
    struct sn_situation s = {.cause = SN_CAUSE_UNKNOWN, NODES, .seconds_left = -1};
    struct sn_decision d;
    int last = -1;
    bool grows = true;
    for (s.equal_ends = 1; s.equal_ends < 9; s.equal_ends++) {
        sn_decide(&d, &s, &bounds);
        grows = grows && d.action == SN_DO_RETRY && d.pause >= last &&
                (d.pause > 0) == (s.equal_ends > 1);
        last = d.pause;
    }
    tap_ok(grows && last == 600,
           "the first failure is tried again at once, equal ones later (%d s)", last);
    s.cause = SN_CAUSE_NODE;
    sn_decide(&d, &s, &bounds);
    tap_ok(d.pause == 0, "without a dead node one can go on at once");
    s = (struct sn_situation){
        .cause = SN_CAUSE_DISK, NODES, .seconds_left = -1, .equal_ends = 1, .disk_seconds = 0};
    sn_decide(&d, &s, &bounds);
    tap_ok(d.action == SN_DO_RETRY && d.pause == 15, "a full disk may have room in a moment");
    s.disk_seconds = 601;
    sn_decide(&d, &s, &bounds);
    tap_ok(d.action == SN_DO_STOP && d.exit_code == 93, "or not: %s", d.why);
    s = (struct sn_situation){.cause = SN_CAUSE_PREEMPTED, NODES, .seconds_left = -1};
    s.equal_ends = 9;
    sn_decide(&d, &s, &bounds);
    tap_ok(d.pause == 0, "who leaves does not rest");
}

/* Whatever happens: a bounded job ends, a done one is not begun again. */
static void always(void)
{
    static const struct sn_bounds bounds = {.attempts = 5, .idle_attempts = 3};
    int wrong = 0, n = 0;
    for (int c = 0; c < SN_NCAUSES; c++)
        for (int mode = 0; mode <= SN_REQUEUE_NEVER; mode++)
            for (int good = 0; good < 6; good++)
                for (int attempts = 1; attempts <= 6; attempts++) {
                    struct sn_situation s = {.cause = (enum sn_cause)c,
                                             .requeue = (enum sn_requeue_mode)mode,
                                             .nodes_wanted = 4,
                                             .nodes_good = good,
                                             .nodes_least = 2,
                                             .seconds_left = -1,
                                             .attempts = attempts};
                    struct sn_decision d;
                    sn_decide(&d, &s, &bounds);
                    bool again = d.action != SN_DO_STOP && d.action != SN_DO_DONE;
                    bool here = d.action == SN_DO_RETRY || d.action == SN_DO_SHRINK;
                    wrong += again && attempts >= 5;
                    wrong += here && good < 2;
                    wrong += (c == SN_CAUSE_FINISHED) != (d.action == SN_DO_DONE);
                    wrong += mode == SN_REQUEUE_NEVER && d.action == SN_DO_REQUEUE;
                    wrong += !d.why[0];
                    n++;
                }
    tap_ok(wrong == 0, "in %d situations bounds hold (%d times not)", n, wrong);
}

int main(void)
{
    causes();
    one_signal_of_many_meanings();
    rests();
    actions();
    always();
    return tap_done();
}
