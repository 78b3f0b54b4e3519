/*
 * test_culprit.c - who is to blame: from made-up rings, from sentences of the trainer, from words
 * of srun and mpirun.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "slurm/supervisor/culprit.h"
#include "tests/lib/tap.h"

enum { RANKS = 8 };

/* data 2 x tensor 2 x pipeline 2: tensor varies fastest, then data. */
static struct sn_grid grid(void)
{
    static const int size[SN_NGRID_AXES] = {2, 1, 1, 2, 2};
    static const enum sn_axis order[SN_NGRID_AXES] = {
        SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT, SN_AXIS_DATA, SN_AXIS_PIPELINE};
    struct sn_grid g;
    (void)sn_grid_init(&g, RANKS, size, order, NULL);
    return g;
}

/* All ranks have done `number` collectives of every group and compute. */
static struct sn_flight_view *computing(uint64_t number)
{
    struct sn_flight_view *v = sn_alloc_n(RANKS, sizeof(*v));
    for (int i = 0; i < RANKS; i++) {
        v[i] = (struct sn_flight_view){.rank = i, .is_alive = true, .n = 1};
        (void)snprintf(v[i].host, sizeof(v[i].host), "n%d", i / 4);
        for (int q = 0; q < SN_NGROUPS; q++)
            v[i].posted[q] = number;
        v[i].event[0] = (struct sn_flight_event){.id = 1,
                                                 .number = number,
                                                 .group = SN_GROUP_WORLD,
                                                 .peer = -1,
                                                 .state = SN_FLIGHT_DONE,
                                                 .kind = "barrier"};
    }
    return v;
}

static void wait_in(struct sn_flight_view *v, enum sn_group q, const char *kind, int peer)
{
    if (peer < 0)
        v->posted[q]++;
    v->event[v->n++] =
        (struct sn_flight_event){.id = 2,
                                 .number = v->posted[q],
                                 .group = (int32_t)q,
                                 .peer = peer,
                                 .state = peer < 0 ? SN_FLIGHT_BEGUN : SN_FLIGHT_AWAITED,
                                 .label = "l0.w"};
    (void)snprintf(v->event[v->n - 1].kind, sizeof(v->event[0].kind), "%s", kind);
}

static void one_stands_still(void)
{
    struct sn_grid g = grid();
    struct sn_flight_view *v = computing(40);
    struct sn_culprit c;
    tap_ok(!sn_culprit_find(&c, v, RANKS, &g, NULL, sn_clock()), "who computes is not to blame");
    wait_in(&v[4], SN_GROUP_TENSOR, "all_reduce", -1); /* 5 is its peer */
    wait_in(&v[0], SN_GROUP_PIPELINE, "recv", 4);
    wait_in(&v[1], SN_GROUP_TENSOR, "all_gather", -1); /* waits for 0 */
    for (int i = 2; i < RANKS; i += 4)
        wait_in(&v[i], SN_GROUP_DATA, "reduce_scatter", -1); /* for 0 and 4 */
    tap_ok(sn_culprit_find(&c, v, RANKS, &g, NULL, sn_clock()) && c.kind == SN_SUSPECT_HANG,
           "chains lead to a hang");
    tap_ok(c.rank == 5 && !strcmp(c.host, "n1"), "of rank 5 on n1 (%d on %s)", c.rank, c.host);
    tap_text(c.axis, "tensor", "for which its tensor peer waits");
    tap_text(c.operation, "all_reduce l0.w", "in this");
    tap_ok(c.behind == 1, "one collective behind (%lld)", (long long)c.behind);
    v[6].is_here = true;
    v[6].is_alive = false;
    tap_ok(sn_culprit_find(&c, v, RANKS, &g, NULL, sn_clock()) && c.kind == SN_SUSPECT_SILENT &&
               c.rank == 6,
           "a process that is gone explains more (%d)", c.rank);
    sn_free(v);
}

/* Rank 2 has posted what 0 waits in, and comes to it when 3 lets it. */
static void one_is_held_up(void)
{
    struct sn_grid g = grid();
    struct sn_flight_view *v = computing(40);
    struct sn_culprit c;
    wait_in(&v[0], SN_GROUP_DATA, "all_reduce", -1);
    wait_in(&v[2], SN_GROUP_TENSOR, "all_reduce", -1); /* 3 is its peer */
    wait_in(&v[2], SN_GROUP_DATA, "all_reduce", -1);
    v[2].event[v[2].n - 1].state = SN_FLIGHT_POSTED;
    bool found = sn_culprit_find(&c, v, RANKS, &g, NULL, sn_clock());
    tap_ok(found && c.rank == 3, "a queue hides no cause (rank %d)", c.rank);
    tap_text(c.axis, "tensor", "in whose axis the one in between waits");
    sn_free(v);
}

/* Two hosts; 4 to 7 are on n1, which died: they had come to what all others wait in. */
static void a_victim_is_not_blamed(void)
{
    struct sn_grid g = grid();
    struct sn_flight_view *v = computing(40);
    struct sn_culprit c;
    bool still[RANKS] = {false, false, false, false, true, true, true, true};
    char says[200];
    for (int i = 0; i < RANKS; i++)
        wait_in(&v[i], SN_GROUP_WORLD, "agreement", -1);
    wait_in(&v[1], SN_GROUP_TENSOR, "all_reduce", -1); /* waits for 0, which waits too */
    v[1].event[1].state = SN_FLIGHT_DONE;
    tap_ok(!sn_culprit_find(&c, v, RANKS, &g, NULL, sn_clock()) || c.rank == -1,
           "at the end of the chain is rank 0, a victim: nobody is to blame");
    tap_ok(sn_culprit_find(&c, v, RANKS, &g, still, sn_clock()) && c.kind == SN_SUSPECT_HANG &&
               c.rank == 4 && c.is_still && c.is_host && !strcmp(c.host, "n1"),
           "of those whose records stand still the first, and its host (%d on %s)", c.rank, c.host);
    sn_culprit_say(says, sizeof(says), &c);
    tap_text(
        says,
        "all ranks of n1 stand still, rank 4 among them; others wait for it in world agreement "
        "l0.w",
        "in words");
    still[5] = false;
    for (int i = 0; i < 4; i++)
        v[i].heartbeats = SN_FLIGHT_GAVE_UP;
    v[0].is_here = true;
    v[0].is_alive = false;
    tap_ok(sn_culprit_find(&c, v, RANKS, &g, still, sn_clock()) && c.rank == 4 && !c.is_host,
           "who is gone after others gave up was ended by them (%d)", c.rank);
    sn_free(v);
}

static void words_are_never_empty(void)
{
    struct sn_culprit c = {.kind = SN_SUSPECT_SILENT, .rank = -1};
    char says[200];
    sn_culprit_say(says, sizeof(says), &c);
    tap_text(says, "which rank is behind is not known", "nobody");
    c = (struct sn_culprit){.kind = SN_SUSPECT_HANG, .rank = 3};
    sn_culprit_say(says, sizeof(says), &c);
    tap_text(says, "rank 3 is behind", "a rank of which nothing else is known");
    (void)strcpy(c.host, "n1");
    (void)strcpy(c.axis, "tensor");
    (void)strcpy(c.operation, "all_reduce l0.w");
    sn_culprit_say(says, sizeof(says), &c);
    tap_text(says, "rank 3 (n1) is behind; others wait for it in tensor all_reduce l0.w", "all");
    c.is_still = true;
    c.operation[0] = '\0';
    sn_culprit_say(says, sizeof(says), &c);
    tap_text(says, "rank 3 (n1) stands still", "one that stands still");
}

static void nobody_is_behind(void)
{
    struct sn_grid g = grid();
    struct sn_flight_view *v = computing(7);
    struct sn_culprit c;
    for (int i = 0; i < RANKS; i++)
        wait_in(&v[i], SN_GROUP_WORLD, "all_reduce", -1);
    tap_ok(sn_culprit_find(&c, v, RANKS, &g, NULL, sn_clock()) && c.kind == SN_SUSPECT_SILENT &&
               c.rank == -1,
           "all are in the same collective: a network, no rank");
    for (int i = 0; i < RANKS; i++)
        v[i].n = -1;
    tap_ok(!sn_culprit_find(&c, v, RANKS, &g, NULL, sn_clock()),
           "without records nobody is accused");
    for (int i = 0; i < RANKS; i++) { /* a circle of receives */
        v[i].n = 0;
        wait_in(&v[i], SN_GROUP_PIPELINE, "recv", (i + 1) % RANKS);
    }
    tap_ok(sn_culprit_find(&c, v, RANKS, &g, NULL, sn_clock()) && c.rank == -1,
           "a circle has no first");
    sn_free(v);
}

/* Ten collectives of the data group, a second apart; rank `slow` comes 0.3 s late. */
static void one_is_slow(int slow, enum sn_group q, bool want)
{
    struct sn_grid g = grid();
    struct sn_flight_view *v = computing(0);
    struct sn_culprit c = {.rank = -1};
    for (int r = 0; r < RANKS; r++) {
        v[r].n = 10;
        for (int i = 0; i < 10; i++) {
            double base = 100.0 * r + i; /* every rank has a clock of its own */
            v[r].event[i] =
                (struct sn_flight_event){.id = (uint64_t)i + 1,
                                         .number = (uint64_t)i + 1,
                                         .came = base + (r == slow ? 0.3 : 0.01 * ((r + i) % 3)),
                                         .time = base + 0.35,
                                         .group = (int32_t)q,
                                         .peer = -1,
                                         .state = SN_FLIGHT_DONE};
        }
    }
    bool found = sn_straggler_find(&c, v, RANKS, &g);
    tap_ok(found == want && (!want || (c.rank == slow && c.kind == SN_SUSPECT_STRAGGLER)),
           "%s group, slow rank %d: %s %d, %.2f of the time", sn_group_name(q), slow,
           found ? "found" : "nobody", c.rank, found ? c.seconds : 0.0);
    sn_free(v);
}

static void stragglers(void)
{
    one_is_slow(6, SN_GROUP_DATA, true);
    one_is_slow(3, SN_GROUP_TENSOR, true);
    one_is_slow(-1, SN_GROUP_TENSOR, false);
    one_is_slow(3, SN_GROUP_WORLD, false); /* stages of a pipeline come at different times */
}

static void sentences(void)
{
    struct sn_culprit c;
    tap_ok(sn_culprit_from_sentence(
               &c,
               "rank 0 (n0): l0.dx: data x context reduce_scatter 'l0.w' (number 12) has waited "
               "30 s; rank 2 (tensor 0, data 1) is behind at number 9, last seen in 'x'; it "
               "waits for rank 5 (tensor 1) in the end, last seen in 'y'"),
           "a sentence of the trainer");
    tap_ok(c.rank == 5 && c.kind == SN_SUSPECT_HANG, "names the last of the chain (%d)", c.rank);
    tap_text(c.axis, "data x context", "the axis");
    tap_text(c.operation, "reduce_scatter 'l0.w'", "the operation");
    tap_ok(c.behind == 3 && c.seconds == 30, "how far behind, and how long (%lld, %g)",
           (long long)c.behind, c.seconds);
    tap_ok(sn_culprit_from_sentence(&c,
                                    "world barrier (number 3) has waited 5 s; rank 1 (data 1) has "
                                    "come to it, last seen in 'x'; its process 12 is gone") &&
               c.kind == SN_SUSPECT_SILENT && c.rank == 1,
           "a process that is gone has not hung");
    tap_ok(sn_culprit_from_sentence(&c, "rank 0 (n0): world gather (number 1) has waited 10 s; "
                                        "process 2 on n1, process 5 on n3 have not answered") &&
               c.rank == -1 && !strcmp(c.host, "n1") && c.seconds == 10,
           "a process that never came: %d, %s", c.rank, c.host);
    tap_ok(!sn_culprit_from_sentence(&c, "asked to leave; saved"), "others name nobody");
    tap_ok(sn_culprit_from_sentence(&c, "rank 1 (r0): world agreement (number 3) has waited 8 s; "
                                        "rank 0 (data 0) is behind at number 2, last seen in "
                                        "'agreement', " SN_FLIGHT_WAITS_ITSELF) &&
               c.rank == -1 && c.kind == SN_SUSPECT_HANG,
           "nor does one whose last rank waits itself (%d)", c.rank);
    tap_ok(sn_culprit_from_failure(&c, "rank 2 (n1): ckpt/step-3: Input/output error") &&
               c.rank == 2 && !strcmp(c.host, "n1"),
           "a failure names the rank that failed");
    tap_ok(!sn_culprit_from_failure(&c, "run.yaml: rank 2 (n1): no") &&
               !sn_culprit_from_failure(&c, "rank 2 (tensor 1, data 0): no") &&
               !sn_culprit_from_failure(&c, ""),
           "at its beginning alone");
}

static void words(void)
{
    static const struct {
        const char *text;
        int rank;
        const char *host;
    } row[] = {
        {"srun: error: n1: task 5: Killed\nsrun: error: n0: tasks 0-3: Killed\n", 5, "n1"},
        {"srun: error: n2: tasks 8-9: Exited with exit code 77\n", 8, "n2"},
        {"step 3\nsrun: error: Node failure on n3\nsrun: error: n0: task 0: Killed\n", -1, "n3"},
        {"srun: error: Task launch for StepId=41.1 failed on node n2: Communication connection "
         "failure\n",
         -1, "n2"},
        {"mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed).\n",
         2, "vm"},
        {"  Process name: [[27213,1],6]\n  Exit code:    1\n", 6, ""},
        {"srun: error: n7: task 12: Out Of Memory", 12, "n7"},
        {"srun: error: task 12 launch failed: Unspecified error\nsrun: error: n0: tasks 0-3: "
         "Killed\n",
         12, ""},
    };
    struct sn_culprit c;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        bool named = sn_culprit_from_words(&c, row[i].text);
        tap_ok(named && c.rank == row[i].rank && !strcmp(c.host, row[i].host) &&
                   c.host_died == (c.rank < 0),
               "'%.*s': rank %d on '%s'", (int)strcspn(row[i].text, "\n"), row[i].text, c.rank,
               c.host);
    }
    tap_ok(!sn_culprit_from_words(&c, "srun: Job 41 step creation temporarily disabled, retrying\n"
                                      "srun: error: Unable to create step for job 41: x\n"),
           "other words name nobody");
    tap_ok(!sn_culprit_from_words(&c, ""), "nor does silence");
    static const char hydra[] =
        "step 3\n\n====================\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
        "=   PID 29272 RUNNING AT n3\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n"
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\nThis (signal 3)\n";
    tap_ok(sn_culprit_from_words(&c, hydra) && c.rank == -1 && !strcmp(c.host, "n3") &&
               !c.host_died && sn_culprit_signal(hydra) == 9,
           "Hydra names a host, which lives, and a signal: %s, %d", c.host,
           sn_culprit_signal(hydra));
    tap_ok(sn_culprit_signal("") == 0 && sn_culprit_signal(NULL) == 0 &&
               sn_culprit_signal("TERMINATED WITH THE EXIT STRING: \n(signal 9)") == 0,
           "other words, no signal");
}

int main(void)
{
    one_stands_still();
    one_is_held_up();
    a_victim_is_not_blamed();
    words_are_never_empty();
    nobody_is_behind();
    stragglers();
    sentences();
    words();
    return tap_done();
}
