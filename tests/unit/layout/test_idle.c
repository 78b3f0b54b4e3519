/*
 * test_idle.c - schedules played through: idle time against the papers' formulas, deadlocks.
 */
#include "lib/base/mem.h"
#include "lib/layout/idle.h"
#include "tests/lib/tap.h"

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

static const int stage_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 16};

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* 1 unless every stage is busy for `busy` and idle for `idle`. */
static int differs(const struct sn_pipeline *p, const struct sn_task_cost *each, int64_t busy,
                   int64_t idle)
{
    struct sn_pipeline_cost c = {*each, NULL};
    struct sn_pipeline_time t;
    if (sn_pipeline_simulate(p, &c, &t, NULL) != SN_OK)
        return 1;
    int bad = t.makespan != busy + idle;
    for (int s = 0; s < p->stages; s++)
        bad += t.stage[s].busy != busy || t.stage[s].idle != idle;
    double fraction = sn_pipeline_idle_fraction(&t, p->stages);
    double want = busy + idle ? (double)idle / (double)(busy + idle) : 0;
    bad += fabs(fraction - want) > 1e-12; /* a few roundings of numbers below 1 */
    sn_pipeline_time_fini(&t);
    return bad != 0;
}

/* idle / (busy + idle) = (p-1) / (v m + p-1), with busy = v m (F+B+W), is idle = (p-1)(F+B+W). */
static void idle_is_the_usual_fraction(enum sn_schedule kind, int most_vstages, const char *what)
{
    static const struct sn_task_cost costs[] = {{1, 2, 0}, {1, 1, 0}, {1, 1, 1}, {5, 3, 4}};
    int tried = 0, bad = 0;
    for (int v = 1; v <= most_vstages; v++)
        for (int i = 0; i < COUNT(stage_counts); i++)
            for (int m = 1; m <= 48; m++) {
                struct sn_pipeline p = {kind, stage_counts[i], v, m};
                if (sn_schedule_traits(kind)->whole_groups && m % p.stages != 0)
                    continue;
                for (int k = 0; k < COUNT(costs); k++, tried++) {
                    int64_t work = costs[k].forward + costs[k].backward + costs[k].weight;
                    bad += differs(&p, &costs[k], v * m * work, (p.stages - 1) * work);
                }
            }
    tap_ok(bad == 0 && tried > 1000, "%s: idle (p-1)/(v m + p-1) on each stage, %d cases", what,
           tried);
}

/* The formula of the paper, where it says that it holds, and costs at and inside its borders. */
static void zero_bubble_idles_as_its_paper_says(void)
{
    static const struct sn_task_cost costs[] = {{1, 1, 1}, {1, 1, 0}, {2, 2, 1},  {1, 2, 1},
                                                {3, 2, 2}, {5, 7, 3}, {10, 11, 9}};
    int tried = 0, bad = 0;
    for (int i = 0; i < COUNT(stage_counts); i++)
        for (int m = stage_counts[i]; m <= 48; m++)
            for (int k = 0; k < COUNT(costs); k++, tried++) {
                struct sn_pipeline p = {SN_ZERO_BUBBLE, stage_counts[i], 1, m};
                const struct sn_task_cost *c = &costs[k];
                bad += differs(&p, c, m * (c->forward + c->backward + c->weight),
                               (p.stages - 1) * (c->forward + c->backward - c->weight));
            }
    tap_ok(bad == 0,
           "zero-bubble, m >= p, W <= F, W <= B: idle (p-1)(F+B-W) on each stage, %d "
           "cases",
           tried);
}

static void zero_bubble_has_one_formula_everywhere(void)
{
    int tried = 0, bad = 0;
    for (int i = 0; i < COUNT(stage_counts); i++)
        for (int m = 1; m <= 20; m++)
            for (int k = 0; k < 5 * 5 * 6; k++, tried++) {
                struct sn_pipeline p = {SN_ZERO_BUBBLE, stage_counts[i], 1, m};
                struct sn_task_cost c = {k % 5, k / 5 % 5, k / 25};
                int64_t filled = min(c.weight, min(c.forward, c.backward));
                bad += differs(&p, &c, m * (c.forward + c.backward + c.weight),
                               (p.stages - 1) * (c.forward + c.backward) -
                                   (min(m, p.stages) - 1) * filled);
            }
    tap_ok(bad == 0, "zero-bubble: idle (p-1)(F+B) - (min(m,p)-1) min(F,B,W), %d cases", tried);
}

/* 2 stages, 2 micro-batches, the second stage twice as slow; worked by hand:
 *   stage 0  F0 0-1  F1 1-2                    B0 7-8   B1 9-10
 *   stage 1          F0 1-3  F1 3-5  B0 5-7  B1 7-9 */
static void unequal_stages_are_timed_apart(void)
{
    const struct sn_pipeline p = {SN_GPIPE, 2, 1, 2};
    const struct sn_task_cost modules[] = {{1, 1, 0}, {2, 1, 1}};
    const struct sn_pipeline_cost c = {{0, 0, 0}, modules};
    struct sn_pipeline_time t = {0, NULL};
    tap_ok(sn_pipeline_simulate(&p, &c, &t, NULL) == SN_OK && t.makespan == 10, "makespan 10");
    tap_ok(t.stage[0].busy == 4 && t.stage[0].idle == 6 && t.stage[0].start == 0 &&
               t.stage[0].end == 10,
           "stage 0 works 4 of 10, from 0 to 10");
    tap_ok(t.stage[1].busy == 8 && t.stage[1].idle == 2 && t.stage[1].start == 1 &&
               t.stage[1].end == 9,
           "stage 1 works 8 of 10, from 1 to 9");
    tap_close(sn_pipeline_idle_fraction(&t, 2), 0.4, 1e-12, 0, "idle fraction 8 of 20");
    sn_pipeline_time_fini(&t);
}

/* Costs go by stage module (vstage x stages + stage): one stage module of four costs 100, on stage
 * 1. */
static void vstages_are_priced_by_module(void)
{
    const struct sn_pipeline p = {SN_INTERLEAVED, 2, 2, 2};
    const struct sn_task_cost modules[] = {{1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {100, 1, 0}};
    const struct sn_pipeline_cost c = {{0, 0, 0}, modules};
    struct sn_pipeline_time t = {0, NULL};
    tap_ok(sn_pipeline_simulate(&p, &c, &t, NULL) == SN_OK && t.stage[0].busy == 8 &&
               t.stage[1].busy == 206,
           "stage module 3 is virtual stage 1 of stage 1");
    sn_pipeline_time_fini(&t);
}

/* --- lists made elsewhere --------------------------------------------------------------------- */

/* clang-format off */
#define F(i) {SN_PHASE_FORWARD, {0}, i, 0}
#define B(i) {SN_PHASE_BACKWARD, {0}, i, 0}
#define LISTS(first, second, n_second) \
    &(struct sn_task_lists){(const struct sn_task *const[]){first, second}, (const int[]){4, n_second}}
/* clang-format on */

/* Plays 2 stages x 2 micro-batches with costs 1; `want` is the sentence of a failure or "". */
static void plays(const struct sn_task_lists *lists, enum sn_status status, const char *want,
                  const char *what)
{
    const struct sn_pipeline p = {SN_1F1B, 2, 1, 2};
    const struct sn_pipeline_cost c = {{1, 1, 0}, NULL};
    struct sn_pipeline_time t = {-5, NULL};
    struct sn_err err = {0};
    enum sn_status got = sn_pipeline_simulate_lists(&p, lists, &c, &t, &err);
    tap_ok(got == status && t.makespan == (status == SN_OK ? 6 : -5), "%s", what);
    tap_text(err.text, want, "and is explained");
    sn_pipeline_time_fini(&t);
}

static const struct sn_task one_ahead[] = {F(0), F(1), B(0), B(1)};
static const struct sn_task in_turn[] = {F(0), B(0), F(1), B(1)};

static void lists_that_wait_for_ever_are_named(void)
{
    static const struct sn_task backward_first[] = {B(0), F(0), F(1), B(1)};
    plays(LISTS(one_ahead, in_turn, 4), SN_OK, "", "1f1b by hand ends after 6");
    plays(LISTS(in_turn, one_ahead, 4), SN_EFAIL,
          "pipeline: stage 0 waits for ever at its task 1, backward of stage module 0, micro-batch "
          "0: "
          "backward of stage module 1, micro-batch 0 on stage 1 never runs; an order in which that "
          "comes "
          "first would work",
          "two stages that wait for each other are found");
    plays(LISTS(one_ahead, backward_first, 4), SN_EFAIL,
          "pipeline: stage 0 waits for ever at its task 2, backward of stage module 0, micro-batch "
          "0: "
          "backward of stage module 1, micro-batch 0 on stage 1 never runs; an order in which that "
          "comes "
          "first would work",
          "a stage that waits for itself is found");
}

static void lists_that_are_no_step_are_refused(void)
{
    static const struct sn_task twice[] = {F(0), F(1), B(0), F(1)};
    static const struct sn_task unknown[] = {F(0), F(1), B(0), B(2)};
    static const struct sn_task weight[] = {F(0), F(1), B(0), {SN_PHASE_WEIGHT, {0}, 0, 0}};
    plays(LISTS(one_ahead, in_turn, 3), SN_EINPUT, "pipeline: stage 1 has 3 tasks; 4 would work",
          "a missing task is refused");
    plays(LISTS(one_ahead, twice, 4), SN_EINPUT,
          "pipeline: stage 1, task 3: forward of stage module 1, micro-batch 1 a second time; once "
          "would "
          "work",
          "a task that stands twice is refused");
    plays(LISTS(one_ahead, unknown, 4), SN_EINPUT,
          "pipeline: stage 1, task 3: phase 1, virtual stage 0, micro-batch 2; phases 0..1, "
          "virtual stages 0..0 and "
          "micro-batches 0..1 would work",
          "a micro-batch that does not exist is refused");
    plays(LISTS(one_ahead, weight, 4), SN_EINPUT,
          "pipeline: stage 1, task 3: phase 2, virtual stage 0, micro-batch 0; phases 0..1, "
          "virtual stages 0..0 and "
          "micro-batches 0..1 would work",
          "weight gradients apart without zero-bubble are refused");
}

static void costs_must_be_possible(void)
{
    const struct sn_pipeline p = {SN_ZERO_BUBBLE, 2, 1, 2}, bad = {SN_1F1B, 2, 2, 2};
    const struct sn_pipeline_cost negative = {{1, 1, -1}, NULL}, huge = {{INT64_MAX, 1, 1}, NULL},
                                  good = {{1, 1, 1}, NULL};
    struct sn_pipeline_time t;
    struct sn_err err = {0};
    tap_ok(sn_pipeline_simulate(&p, &negative, &t, &err) == SN_EINPUT, "a negative cost fails");
    tap_text(err.text,
             "pipeline: stage module 0 costs 1, 1, -1 (forward, backward, weight); "
             "0..576460752303423487 each would work",
             "in words");
    tap_ok(sn_pipeline_simulate(&p, &huge, &t, &err) == SN_EINPUT, "a sum that overflows fails");
    tap_ok(sn_pipeline_simulate(&bad, &good, &t, &err) == SN_EINPUT, "an unfit pipeline fails");
}

static void no_memory_is_an_error(void)
{
    const struct sn_pipeline p = {SN_1F1B, 2, 1, 2};
    const struct sn_pipeline_cost c = {{1, 1, 1}, NULL};
    struct sn_pipeline_time t;
    int failed = 0;
    for (uint64_t nth = 1; nth <= 13; nth++) { /* 2, 4 for each of 2 lists, 3 */
        sn_mem_fail_at(nth);
        failed += sn_pipeline_simulate(&p, &c, &t, NULL) == SN_ENOMEM;
    }
    sn_mem_fail_at(0);
    tap_ok(failed == 13, "each of 13 allocations that fails is reported, and nothing leaks");
}

int main(void)
{
    idle_is_the_usual_fraction(SN_GPIPE, 1, "gpipe");
    idle_is_the_usual_fraction(SN_1F1B, 1, "1f1b");
    idle_is_the_usual_fraction(SN_INTERLEAVED, 4, "interleaved");
    idle_is_the_usual_fraction(SN_COMBINED, 4, "combined");
    zero_bubble_idles_as_its_paper_says();
    zero_bubble_has_one_formula_everywhere();
    unequal_stages_are_timed_apart();
    vstages_are_priced_by_module();
    lists_that_wait_for_ever_are_named();
    lists_that_are_no_step_are_refused();
    costs_must_be_possible();
    no_memory_is_an_error();
    return tap_done();
}
