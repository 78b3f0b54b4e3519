/*
 * test_schedule.c - the task lists of pipeline stages: order, completeness, slots.
 */
#include "lib/base/mem.h"
#include "lib/layout/schedule.h"
#include "tests/lib/tap.h"

#include <limits.h>

enum { MOST_STAGES = 16, MOST_VSTAGES = 4, MOST_MICROS = 36 };

static int min(int a, int b)
{
    return a < b ? a : b;
}

static bool has_virtual_stages(enum sn_schedule kind)
{
    return kind == SN_INTERLEAVED || kind == SN_COMBINED;
}

/* All pipelines of the tests, one after the other; false after the last. */
static bool next_pipeline(struct sn_pipeline *p)
{
    do {
        if (++p->micros > MOST_MICROS) {
            p->micros = 1;
            p->stages = p->stages == 8 ? MOST_STAGES : p->stages + 1;
        }
        if (p->stages > MOST_STAGES) {
            p->stages = 1;
            p->virtual_stages++;
        }
        if (p->virtual_stages > (has_virtual_stages(p->kind) ? MOST_VSTAGES : 1)) {
            p->virtual_stages = 1;
            p->kind++;
        }
    } while (has_virtual_stages(p->kind) && p->micros % p->stages != 0);
    return p->kind <= SN_COMBINED;
}

static const struct sn_pipeline before_first = {SN_GPIPE, 1, 1, 0};

/* Run a test on every list; the sum of what it returns. */
static long over_all(int (*test)(const struct sn_pipeline *p, int stage, const struct sn_task *t,
                                 int n),
                     long *lists)
{
    struct sn_pipeline p = before_first;
    long bad = 0;
    for (*lists = 0; next_pipeline(&p);)
        for (int s = 0; s < p.stages; s++, (*lists)++) {
            struct sn_task *t = NULL;
            int n = 0;
            bad += sn_schedule_make(&t, &n, &p, s, NULL) != SN_OK || test(&p, s, t, n) != 0;
            sn_free(t);
        }
    return bad;
}

static int count_faults_of_order(const struct sn_pipeline *p, int stage, const struct sn_task *t,
                                 int n)
{
    int next[SN_NPHASES][MOST_VSTAGES] = {{0}}, bad = 0;
    (void)stage;
    int phases = p->kind == SN_ZERO_BUBBLE ? 3 : 2;
    for (int i = 0; i < n; i++) {
        if ((int)t[i].phase >= phases || t[i].scope.virtual_stage < 0 ||
            t[i].scope.virtual_stage >= p->virtual_stages)
            return 1;
        bad += t[i].micro != next[t[i].phase][t[i].scope.virtual_stage]++;
        bad += t[i].phase > 0 && t[i].micro >= next[t[i].phase - 1][t[i].scope.virtual_stage];
    }
    for (int f = 0; f < phases; f++)
        for (int vstage = 0; vstage < p->virtual_stages; vstage++)
            bad += next[f][vstage] != p->micros;
    return bad + (n != sn_schedule_tasks(p));
}

static void every_task_stands_once_and_micro_batches_ascend(void)
{
    long lists, bad = over_all(count_faults_of_order, &lists);
    tap_ok(bad == 0 && lists > 3000,
           "%ld lists: each phase, virtual stage and micro-batch once, ascending, "
           "forward, backward, weight in this order",
           lists);
}

/* Replays who holds which slot, knowing only the contract. */
static int count_faults_of_slots(const struct sn_pipeline *p, int stage, const struct sn_task *t,
                                 int n)
{
    int holder[MOST_VSTAGES][MOST_MICROS], used[MOST_VSTAGES] = {0}, bad = 0;
    enum sn_phase last = p->kind == SN_ZERO_BUBBLE ? SN_PHASE_WEIGHT : SN_PHASE_BACKWARD;
    memset(holder, -1, sizeof(holder));
    for (int i = 0; i < n; i++) {
        int *h = holder[t[i].scope.virtual_stage], lowest = 0;
        while (h[lowest] >= 0 && t[i].phase == SN_PHASE_FORWARD)
            lowest++;
        if (t[i].phase == SN_PHASE_FORWARD) {
            bad += t[i].slot != lowest;
            h[lowest] = t[i].micro;
            int *most = &used[t[i].scope.virtual_stage];
            *most = lowest >= *most ? lowest + 1 : *most;
        }
        if (t[i].slot < 0 || t[i].slot >= MOST_MICROS)
            return 1;
        bad += h[t[i].slot] != t[i].micro;
        if (t[i].phase == last)
            h[t[i].slot] = -1;
    }
    for (int vstage = 0; vstage < p->virtual_stages; vstage++)
        bad += used[vstage] != sn_schedule_slots(p, stage, vstage);
    return bad + (p->virtual_stages == 1 && used[0] != sn_schedule_slots_of_one(p, stage));
}

/* Input gradients whose weight gradients are due, at the worst. */
static int count_faults_of_waiting(const struct sn_pipeline *p, int stage, const struct sn_task *t,
                                   int n)
{
    int now = 0, most = 0;
    if (!sn_schedule_traits(p->kind)->delays_weights)
        return sn_schedule_waiting(p, stage) != 1;
    for (int i = 0; i < n; i++) {
        now += t[i].phase == SN_PHASE_BACKWARD;
        most = now > most ? now : most;
        now -= t[i].phase == SN_PHASE_WEIGHT;
    }
    return most != sn_schedule_waiting(p, stage);
}

static void weight_gradients_wait_as_long_as_is_said(void)
{
    long lists, bad = over_all(count_faults_of_waiting, &lists);
    tap_ok(bad == 0, "%ld lists: as many input gradients wait as sn_schedule_waiting says", lists);
}

/* Enters a stage's tasks by number; returns faults. */
static int enter_numbers(bool *there, const struct sn_pipeline *p, int stage)
{
    struct sn_task *t = NULL;
    int n = 0, bad = sn_schedule_make(&t, &n, p, stage, NULL) != SN_OK;
    for (int i = 0; i < n; i++) {
        int64_t number = sn_task_number(p, stage, &t[i]);
        bool known = sn_task_check(p, &t[i], NULL) == SN_OK && number >= 0 &&
                     number < sn_pipeline_tasks(p) && !there[number];
        bad += !known;
        if (known)
            there[number] = true;
    }
    sn_free(t);
    return bad;
}

static void tasks_of_all_stages_have_numbers_of_their_own(void)
{
    static bool there[SN_NPHASES * MOST_STAGES * MOST_VSTAGES * MOST_MICROS];
    struct sn_pipeline p = before_first;
    long bad = 0, pipelines = 0;
    for (; next_pipeline(&p); pipelines++) {
        memset(there, 0, sizeof(there));
        for (int s = 0; s < p.stages; s++)
            bad += enter_numbers(there, &p, s);
        for (int64_t i = 0; i < sn_pipeline_tasks(&p); i++)
            bad += !there[i];
    }
    tap_ok(bad == 0 && pipelines > 400,
           "%ld pipelines: each number up to sn_pipeline_tasks is that of one task", pipelines);
}

static void needs_are_told_by_number_too(void)
{
    const struct sn_pipeline p = {SN_ZERO_BUBBLE, 3, 1, 5};
    const struct sn_task last = {SN_PHASE_BACKWARD, {0}, 4, 0},
                         weight = {SN_PHASE_WEIGHT, {0}, 2, 0};
    struct sn_need of[SN_NEEDS];
    char name[2][SN_TASK_NAME];
    int n = sn_task_needs(of, &p, 1, &last);
    tap_ok(n == 2, "a backward in the middle needs two tasks");
    tap_text(sn_task_name(name[0], &p, of[0].task), "forward of stage module 1, micro-batch 4",
             "its forward");
    tap_text(sn_task_name(name[1], &p, of[1].task), "backward of stage module 2, micro-batch 4",
             "and the backward behind it");
    n = sn_task_needs(of, &p, 2, &weight);
    tap_ok(n == 1 &&
               of[0].task == sn_task_number(&p, 2, &(struct sn_task){SN_PHASE_BACKWARD, {0}, 2, 0}),
           "weight gradients need the backward of the same stage module");
    n = sn_task_needs(of, &p, 0, &(struct sn_task){SN_PHASE_FORWARD, {0}, 0, 0});
    tap_ok(n == 0, "the first forward needs nothing");
}

/* What the forward or the backward of a pair waits for has ended with the pair before, on every
 * stage: pair number n of stage s is played at n + s of one clock. */
static long count_waits_within_a_pair(const struct sn_pipeline *p)
{
    static int at[SN_NPHASES * MOST_STAGES * MOST_VSTAGES * MOST_MICROS];
    long bad = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int s = 0; s < p->stages; s++) {
            struct sn_task *t = NULL;
            int n = 0, turn = s;
            bad += sn_schedule_make(&t, &n, p, s, NULL) != SN_OK;
            for (int i = 0; i < n; i++) {
                bool with_last = sn_schedule_pairs(p, s) && i > 0 &&
                                 t[i - 1].phase == SN_PHASE_FORWARD &&
                                 t[i].phase == SN_PHASE_BACKWARD;
                struct sn_need of[SN_NEEDS];
                turn += !with_last;
                /* at the end backwards alone come as the stage behind gives them */
                for (int k = sn_task_needs(of, p, s, &t[i]) - 1; k >= 0 && pass && with_last; k--)
                    bad += at[of[k].task] >= turn;
                at[sn_task_number(p, s, &t[i])] = turn;
            }
            sn_free(t);
        }
    return bad;
}

static void pairs_wait_for_nothing_in_pairs_beside_them(void)
{
    struct sn_pipeline p = {SN_COMBINED, 1, 1, 0};
    long bad = 0, pipelines = 0;
    for (; next_pipeline(&p); pipelines++)
        bad += count_waits_within_a_pair(&p);
    tap_ok(bad == 0 && pipelines > 100,
           "%ld pipelines: a pair needs what other stages did a pair ago (%ld do not)", pipelines,
           bad);
}

static void forwards_take_the_lowest_free_slot(void)
{
    long lists, bad = over_all(count_faults_of_slots, &lists);
    tap_ok(bad == 0, "%ld lists: the lowest free slot, kept until the last phase, all of them used",
           lists);
}

/* The most in flight on a stage, all virtual stages together. */
static int most_in_flight(const struct sn_pipeline *p, const struct sn_task *t, int n)
{
    int now = 0, most = 0;
    for (int i = 0; i < n; i++) {
        now += t[i].phase == SN_PHASE_FORWARD;
        most = now > most ? now : most;
        now -= t[i].phase == (p->kind == SN_ZERO_BUBBLE ? SN_PHASE_WEIGHT : SN_PHASE_BACKWARD);
    }
    return most;
}

static int differs_from_formula(const struct sn_pipeline *p, int stage, const struct sn_task *t,
                                int n)
{
    int m = p->micros, behind = p->stages - stage, v = p->virtual_stages;
    int most = most_in_flight(p, t, n);
    switch (p->kind) {
    case SN_GPIPE:
        return most != m;
    case SN_1F1B:
        return most != min(m, behind);
    case SN_ZERO_BUBBLE:
        return most != min(m, p->stages);
    case SN_COMBINED:
        return most != min(v * m, 2 * behind + (v - 1) * p->stages);
    default:
        return most !=
               (v == 1 ? min(m, behind) : min(v * m, 2 * (behind - 1) + (v - 1) * p->stages + 1));
    }
}

static void as_many_are_in_flight_as_the_papers_say(void)
{
    long lists, bad = over_all(differs_from_formula, &lists);
    tap_ok(bad == 0,
           "%ld lists: gpipe m, 1f1b min(m, p-s), zero-bubble min(m, p), "
           "interleaved min(v m, 2(p-s-1) + (v-1)p + 1), combined one more",
           lists);
    const struct sn_pipeline one = {SN_1F1B, 4, 1, 8}, zero = {SN_ZERO_BUBBLE, 4, 1, 8},
                             all = {SN_GPIPE, 4, 1, 8}, few = {SN_ZERO_BUBBLE, 4, 1, 3};
    for (int s = 0; s < 4; s++)
        tap_ok(sn_schedule_slots(&one, s, 0) == 4 - s && sn_schedule_slots(&zero, s, 0) == 4 &&
                   sn_schedule_slots(&all, s, 0) == 8 && sn_schedule_slots(&few, s, 0) == 3,
               "slots of stage %d of 4", s);
}

/* "F0.3" is the forward of virtual stage 0, micro-batch 3; with one virtual stage "F3". */
static void is_list(const struct sn_pipeline *p, int stage, const char *want)
{
    struct sn_task *t = NULL;
    int n = 0;
    char text[512] = "", what[64];
    (void)sn_schedule_make(&t, &n, p, stage, NULL);
    for (int i = 0; i < n; i++) {
        size_t at = strlen(text);
        char vstage[16] = "";
        if (p->virtual_stages > 1)
            (void)snprintf(vstage, sizeof(vstage), "%d.", t[i].scope.virtual_stage);
        (void)snprintf(text + at, sizeof(text) - at, "%s%c%s%d", i ? " " : "", "FBW"[t[i].phase],
                       vstage, t[i].micro);
    }
    sn_free(t);
    (void)snprintf(what, sizeof(what), "schedule %d, stage %d of %d", (int)p->kind, stage,
                   p->stages);
    tap_text(text, want, what);
}

static void small_lists_are_those_of_the_papers(void)
{
    const struct sn_pipeline all = {SN_GPIPE, 2, 1, 3}, one = {SN_1F1B, 3, 1, 4},
                             zero = {SN_ZERO_BUBBLE, 3, 1, 4}, few = {SN_ZERO_BUBBLE, 3, 1, 1};
    is_list(&all, 0, "F0 F1 F2 B0 B1 B2");
    is_list(&all, 1, "F0 F1 F2 B0 B1 B2");
    is_list(&one, 0, "F0 F1 F2 B0 F3 B1 B2 B3");
    is_list(&one, 1, "F0 F1 B0 F2 B1 F3 B2 B3");
    is_list(&one, 2, "F0 B0 F1 B1 F2 B2 F3 B3");
    is_list(&zero, 0, "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
    is_list(&zero, 1, "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
    is_list(&zero, 2, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
    is_list(&few, 2, "F0 B0 W0");
}

/* Figure 4 of arXiv 2104.04473 in small: 2 stages of 2 virtual stages. */
static void interleaved_lists_go_through_groups(void)
{
    const struct sn_pipeline two = {SN_INTERLEAVED, 2, 2, 4}, alone = {SN_INTERLEAVED, 1, 3, 2},
                             plain = {SN_INTERLEAVED, 2, 1, 4};
    is_list(&two, 0,
            "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3");
    is_list(&two, 1,
            "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3");
    is_list(&alone, 0, "F0.0 F1.0 F2.0 B2.0 F0.1 B1.0 F1.1 B0.0 F2.1 B2.1 B1.1 B0.1");
    is_list(&plain, 0, "F0 F1 B0 F2 B1 F3 B2 B3");
}

static void is_refused(const struct sn_pipeline *p, const char *want)
{
    struct sn_err err = {0};
    struct sn_task *t = NULL;
    int n = -1;
    bool good = sn_schedule_make(&t, &n, p, 0, &err) == SN_EINPUT && t == NULL && n == -1;
    tap_ok(good, "schedule %d, %d x %d stages, %d micro-batches is refused", (int)p->kind,
           p->stages, p->virtual_stages, p->micros);
    tap_text(err.text, want, "with what would work");
    sn_free(t);
}

static void unfit_sizes_are_explained(void)
{
    is_refused(&(struct sn_pipeline){SN_INTERLEAVED, 4, 2, 6},
               "layout.schedule: interleaved with 6 micro-batches on 4 pipeline stages, no "
               "multiple; 4 or 8 micro-batches or schedule 1f1b would work");
    is_refused(&(struct sn_pipeline){SN_INTERLEAVED, 4, 2, 3},
               "layout.schedule: interleaved with 3 micro-batches on 4 pipeline stages, no "
               "multiple; 4 micro-batches or schedule 1f1b would work");
    is_refused(&(struct sn_pipeline){SN_ZERO_BUBBLE, 4, 2, 8},
               "layout.virtual_stages: 2, but only the interleaved or combined schedule has "
               "virtual stages; "
               "virtual_stages 1 or schedule interleaved or combined would work");
    is_refused(&(struct sn_pipeline){SN_1F1B, 4, 1, 0},
               "layout: 4 pipeline stages x 1 virtual stages, 0 micro-batches; at least 1 of each "
               "would work");
    is_refused(&(struct sn_pipeline){SN_GPIPE, 1, 1, INT_MAX},
               "layout: 1 virtual stages of 1 pipeline stages and 2147483647 micro-batches are "
               "more than can be scheduled; products up to 536870911 would work");
}

static void no_memory_is_an_error(void)
{
    const struct sn_pipeline p = {SN_1F1B, 4, 1, 8};
    int failed = 0;
    for (uint64_t nth = 1; nth <= 4; nth++) {
        struct sn_task *t = NULL;
        int n;
        sn_mem_fail_at(nth);
        failed += sn_schedule_make(&t, &n, &p, 1, NULL) == SN_ENOMEM && t == NULL;
    }
    sn_mem_fail_at(0);
    tap_ok(failed == 4, "each of 4 allocations that fails is reported, and nothing leaks");
}

int main(void)
{
    every_task_stands_once_and_micro_batches_ascend();
    pairs_wait_for_nothing_in_pairs_beside_them();
    forwards_take_the_lowest_free_slot();
    weight_gradients_wait_as_long_as_is_said();
    tasks_of_all_stages_have_numbers_of_their_own();
    needs_are_told_by_number_too();
    as_many_are_in_flight_as_the_papers_say();
    small_lists_are_those_of_the_papers();
    interleaved_lists_go_through_groups();
    unfit_sizes_are_explained();
    no_memory_is_an_error();
    return tap_done();
}
