/*
 * test_decide.c - the table of what happens after an attempt, and what always holds.
 */
#include "slurm/decide.h"
#include "tests/lib/tap.h"

static void causes(void)
{
    static const struct {
        struct sn_end end;
        enum sn_cause want;
    } row[] = {
        {{.exit_code = 0, .finished = true}, SN_CAUSE_FINISHED},
        {{.exit_code = 0, .got_term = true}, SN_CAUSE_SAVED},
        {{.exit_code = 75}, SN_CAUSE_SAVED},
        {{.exit_code = 75, .got_usr2 = true}, SN_CAUSE_SAVED},
        {{.exit_code = 75, .got_term = true}, SN_CAUSE_PREEMPTED},
        {{.exit_code = 75, .words = "STEP 1.0 ON n0 CANCELLED AT 12:00 DUE TO PREEMPTION ***"},
         SN_CAUSE_PREEMPTED},
        {{.exit_code = 76}, SN_CAUSE_PREEMPTED},
        {{.exit_code = 77}, SN_CAUSE_PEER},
        {{.exit_code = 77, .has_culprit = true}, SN_CAUSE_HANG},
        {{.exit_code = 77, .has_culprit = true, .words = "srun: error: Node failure on n3"},
         SN_CAUSE_NODE},
        {{.exit_code = 79}, SN_CAUSE_DIVERGED},
        {{.exit_code = 93}, SN_CAUSE_REFUSED},
        {{.exit_code = 2}, SN_CAUSE_INPUT},
        {{.exit_code = 130}, SN_CAUSE_CANCELLED},
        {{.exit_code = 137, .words = "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0"},
         SN_CAUSE_MEMORY},
        {{.exit_code = 143, .words = "*** STEP 1.0 ON n0 CANCELLED AT 12:00 DUE TO TIME LIMIT ***"},
         SN_CAUSE_TIME_LIMIT},
        {{.exit_code = 143, .got_term = true}, SN_CAUSE_PREEMPTED},
        {{.exit_code = 137}, SN_CAUSE_PEER},
        {{.exit_code = 1, .words = "ckpt/step-7: No space left on device"}, SN_CAUSE_DISK},
        {{.exit_code = 1}, SN_CAUSE_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        enum sn_cause got = sn_classify(&row[i].end);
        tap_ok(got == row[i].want, "exit code %d: %s", row[i].end.exit_code, sn_cause_text(got));
    }
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
    actions();
    always();
    return tap_done();
}
