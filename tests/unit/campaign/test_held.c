/*
 * test_held.c - how long a run holds its nodes: the formulas against runs that are played with failures, limits
 * of jobs and slow nodes at random.
 */
#include "lib/campaign/drawn.h"
#include "tests/lib/tap.h"

static const uint64_t SEED = 20541;
enum { TRIALS = 400 };

/* 60 days of work that fails every three hours, as the largest runs do. */
static struct sn_terms large(void)
{
    return (struct sn_terms){
        .failures = {.mtbf = 3.1 * 3600, .pause = 2, .write = 20, .restart = 400},
        .work = 60 * 86400.0,
        .interval = 300};
}

static void agrees(const struct sn_terms *t, double tolerance, const char *what)
{
    struct sn_err err = {0};
    struct sn_held_time h = {0};
    struct sn_drawn d = {0};
    char text[160];
    bool good =
        sn_held_find(&h, t, &err) == SN_OK && sn_drawn_play(&d, t, SEED, TRIALS, &err) == SN_OK;
    tap_ok(good, "%s can be played %s", what, err.text);
    (void)snprintf(text, sizeof(text), "%s: days held, %.3f played, %.3f by formula", what,
                   d.held.mean / 86400, h.seconds / 86400);
    tap_close(d.held.mean, h.seconds, tolerance, 0, text);
    (void)snprintf(text, sizeof(text), "%s: %.1f jobs played, %.1f by formula", what, d.jobs,
                   h.jobs);
    tap_close(d.jobs, h.jobs, 0.02, 26, text); /* the last one counts whole or half */
    (void)snprintf(text, sizeof(text), "%s: %.1f failures played, %.1f by formula", what,
                   d.failures, h.failures);
    tap_close(d.failures, h.failures, 0.02, 6, text);
    tap_ok(d.held.low <= d.held.high && d.held.error < 0.01 * d.held.mean,
           "%s: nine in ten take %.2f to %.2f days", what, d.held.low / 86400, d.held.high / 86400);
}

static void what_is_played_is_what_the_formulas_say(void)
{
    struct sn_terms t = large();
    t.in_place = true;
    agrees(&t, 0.002, "in place");
    t.limit = 2 * 86400;
    agrees(&t, 0.005, "in place, jobs of two days");
    t.limit = 3600;
    agrees(&t, 0.02, "in place, jobs of an hour");
    t = large();
    agrees(&t, 0.002, "requeued");
    t.limit = 2 * 86400;
    agrees(&t, 0.005, "requeued, jobs of two days");
    t.limit = 6 * 3600;
    agrees(&t, 0.005, "requeued, jobs of six hours");
    t.limit = 2000;
    agrees(&t, 0.005, "requeued, jobs of half an hour");
    t = large();
    t.failures.mtbf = 100 * 86400;
    t.limit = 86400;
    t.interval = 7200;
    agrees(&t, 0.005, "requeued, hardly a failure");
    t.work = 6.2 * 86400;
    t.limit = 2 * 86400;
    agrees(&t, 0.005, "requeued, a few jobs");
}

static void slow_nodes_slow_a_run_down(void)
{
    struct sn_terms t = large();
    t.slow = (struct sn_slow){.every = 36000, .lasts = 7200, .factor = 1.5};
    tap_close(sn_slow_pace(&t.slow), exp(-0.2) + (1 - exp(-0.2)) / 1.5, 1e-12, 0,
              "the pace is that of an M/G/infinity queue that is empty or not");
    agrees(&t, 0.005, "slow nodes");
    t.slow = (struct sn_slow){.every = 3600, .lasts = 7200, .factor = 2};
    agrees(&t, 0.01, "slow nodes most of the time");
    t.limit = 86400;
    t.in_place = true;
    agrees(&t, 0.01, "slow nodes, spares and jobs of a day");
    t.slow = (struct sn_slow){0};
    tap_ok(sn_slow_pace(&t.slow) == 1, "without them nothing is slower");
}

static void without_failures_it_is_arithmetic(void)
{
    struct sn_err err = {0};
    struct sn_held_time h = {0};
    struct sn_terms t = {.failures = {.mtbf = 1e15, .pause = 10, .restart = 90},
                         .work = 36000,
                         .interval = 1000,
                         .in_place = true};
    tap_ok(sn_held_find(&h, &t, &err) == SN_OK, "ten hours of work");
    tap_close(h.seconds, 36000 + 36 * 10 + 100, 1e-9, 0,
              "take their saves, a start and a last save");
    t.limit = 1000 + 100 + 1010 * 2; /* three intervals, two saves, ends */
    bool good = sn_held_find(&h, &t, &err) == SN_OK;
    tap_ok(good && h.jobs == 13, "of three intervals a job there are 13: %g", h.jobs);
    t.queue = 3600;
    struct sn_drawn d = {0};
    good = sn_drawn_play(&d, &t, SEED, 2, &err) == SN_OK;
    tap_ok(good && d.jobs == 12, "and 12 where the last save takes the place of one between: %g",
           d.jobs);
    tap_close(d.days.mean * 86400, d.held.mean + 12 * 3600, 1e-9, 0,
              "each of which waits in the queue");
}

static void what_cannot_end_is_refused(void)
{
    struct sn_err err = {0};
    struct sn_held_time h = {.seconds = 7};
    struct sn_drawn d;
    struct sn_terms t = large();
    t.limit = 400;
    tap_ok(sn_held_find(&h, &t, &err) == SN_EINPUT && strstr(err.text, "want a longer slurm.time"),
           "a job that cannot start and save: %s", err.text);
    tap_ok(sn_drawn_play(&d, &t, SEED, 2, &err) == SN_EINPUT, "is not played");
    t = large();
    t.failures.mtbf = 30;
    tap_ok(sn_held_find(&h, &t, &err) == SN_EINPUT && strstr(err.text, "want fewer nodes"),
           "failures faster than restarts: %s", err.text);
    tap_ok(h.seconds == 7, "nothing is written then");
}

static void a_seed_is_a_run(void)
{
    struct sn_err err = {0};
    struct sn_terms t = large();
    struct sn_drawn a, b, c;
    (void)sn_drawn_play(&a, &t, 1, 20, &err);
    (void)sn_drawn_play(&b, &t, 1, 20, &err);
    (void)sn_drawn_play(&c, &t, 2, 20, &err);
    tap_ok(a.held.mean == b.held.mean && a.held.low == b.held.low, "the same seed, the same runs");
    tap_ok(a.held.mean != c.held.mean, "another seed, other runs");
}

int main(void)
{
    what_is_played_is_what_the_formulas_say();
    slow_nodes_slow_a_run_down();
    without_failures_it_is_arithmetic();
    what_cannot_end_is_refused();
    a_seed_is_a_run();
    return tap_done();
}
