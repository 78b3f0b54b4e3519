/*
 * test_departure.c - what departs is told within ten steps, and noise is not, a million steps long.
 *
 * Noise is that of steps: the logarithm normal, and now and then a spike. Seeds are fixed.
 */
#include "lib/base/rng.h"
#include "lib/monitor/departure.h"
#include "tests/lib/tap.h"

struct noise {
    uint64_t key;
    double scale; /* of the logarithm */
    double often,
        least; /* a spike, in so many of all steps; its height by the logarithm, at least */
};

static double normal(uint64_t key, int64_t i)
{
    float x;
    sn_rng_normal(key, (uint64_t)i, 1, 1.0F, &x);
    return (double)x;
}

static double noise(const struct noise *n, int64_t i)
{
    double spike = sn_rng_uniform(n->key + 1, (uint64_t)i) < n->often
                       ? n->least - log(1 - sn_rng_uniform(n->key + 2, (uint64_t)i))
                       : 0;
    return n->scale * normal(n->key, i) + spike;
}

/* Steps of a fault until it is told; -1: never in `most`. */
static int64_t told_after(const struct noise *n, double factor, int64_t quiet, int64_t most)
{
    struct sn_departure d;
    sn_departure_init(&d, 0.15);
    for (int64_t i = 0; i < quiet; i++) {
        sn_departure_take(&d, noise(n, i), i);
        if (sn_departure_is_ready(&d))
            sn_departure_learn(&d, NAN, 0, 0);
        if (d.departs)
            return -2; /* of nothing */
    }
    for (int64_t i = 0; i < most; i++) {
        sn_departure_take(&d, noise(n, quiet + i) + log(factor), quiet + i);
        if (d.departs)
            return i + 1;
    }
    return -1;
}

/* Of a million steps, by the formula of departure.h: with spikes in 5 % of them 0.4 are expected. */
static void quiet_steps_are_not_told(void)
{
    static const int most[] = {0, 0, 3, 0};
    static const struct noise of[] = {
        {11, 0.01, 0, 0}, {22, 0.05, 0, 0}, {33, 0.02, 0.05, 0.1}, {44, 0.02, 0.02, 1.0}};
    for (int k = 0; k < 4; k++) {
        struct sn_departure d;
        int64_t alarms = 0;
        sn_departure_init(&d, 0.15);
        for (int64_t i = 0; i < 1000000; i++) {
            bool departed = d.departs;
            sn_departure_take(&d, noise(&of[k], i), i);
            if (sn_departure_is_ready(&d))
                sn_departure_learn(&d, NAN, 0, of[k].scale);
            alarms += d.departs && !departed;
        }
        tap_ok(
            alarms <= most[k],
            "a million steps with noise of %.2f, %.0f %% of them spiked: %lld alarms of at most %d",
            of[k].scale, 100 * of[k].often, (long long)alarms, most[k]);
        tap_close(d.scale, of[k].scale, 0.35, 0, "and the noise is known");
    }
}

static void a_third_is_told_within_ten_steps(void)
{
    int64_t worst = 0;
    int missed = 0;
    for (int k = 0; k < 2000; k++) {
        struct noise n = {
            .key = 1000 + 10 * (uint64_t)k, .scale = 0.03, .often = 0.02, .least = 0.3};
        int64_t told = told_after(&n, 4.0 / 3, 20 + k % 30, 10);
        missed += told < 0;
        worst = told > worst ? told : worst;
    }
    tap_ok(missed == 0,
           "a core slowed by a third is told in each of 2,000 runs, not before: %d missed", missed);
    tap_ok(worst <= 10, "within 10 steps (%lld)", (long long)worst);
}

static void a_spike_is_one_value(void)
{
    struct sn_departure d;
    sn_departure_init(&d, 0.15);
    for (int i = 0; i < 40; i++) {
        sn_departure_take(&d, i % 4 < 2 ? 5.0 : 0.001 * (i % 3), i);
        if (sn_departure_is_ready(&d))
            sn_departure_learn(&d, NAN, 0, 0.01);
    }
    tap_ok(!d.departs, "what is slow in two of four steps does not depart");
    sn_departure_take(&d, NAN, 41);
    tap_ok(d.n == 40, "a value that is none is left out");
}

static void it_is_over_when_it_is_over(void)
{
    struct sn_departure d;
    int64_t told = -1, over = -1;
    sn_departure_init(&d, 0.15);
    for (int64_t i = 0; i < 100; i++) {
        struct noise n = {.key = 5, .scale = 0.01};
        sn_departure_take(&d, noise(&n, i) + (i >= 30 && i < 60 ? log(1.5) : 0), i);
        if (sn_departure_is_ready(&d))
            sn_departure_learn(&d, NAN, 0, 0);
        if (d.departs && told < 0) {
            told = i;
            tap_ok(d.since == 30, "it is told since when (%lld)", (long long)d.since);
            tap_close(sn_departure_ratio(&d), 1.5, 0.05, 0, "and how many times as long");
        }
        over = told >= 0 && over < 0 && !d.departs ? i : over;
    }
    tap_ok(told == 35, "after six steps (%lld)", (long long)told);
    tap_ok(over == 65, "and that it is over, six steps after (%lld)", (long long)over);
}

static void from_the_start_peers_tell(void)
{
    struct sn_departure alone, among, near;
    sn_departure_init(&alone, 0.15);
    sn_departure_init(&among, 0.15);
    sn_departure_init(&near, 0.15);
    for (int64_t i = 0; i < SN_DEPARTURE_WINDOW; i++) {
        struct noise n = {.key = 6, .scale = 0.01};
        sn_departure_take(&alone, log(1.33) + noise(&n, i), i);
        sn_departure_take(&among, log(1.33) + noise(&n, i), i);
        sn_departure_take(&near, log(1.1) + noise(&n, i), i);
    }
    sn_departure_learn(&alone, NAN, 0.15, 0.01);
    sn_departure_learn(&among, 0, 0.15, 0.01);
    sn_departure_learn(&near, 0, 0.15, 0.01);
    tap_ok(!alone.departs, "who has no peers is measured by itself");
    tap_ok(among.departs && among.since == 0,
           "who is slower than its peers departs from the start");
    tap_ok(!near.departs, "but not who is slower by little");
}

static void slow_drift_is_followed(void)
{
    struct sn_departure d;
    bool told = false;
    sn_departure_init(&d, 0.15);
    for (int64_t i = 0; i < 20000; i++) {
        struct noise n = {.key = 7, .scale = 0.02};
        sn_departure_take(&d, noise(&n, i) + 1e-5 * (double)i, i);
        if (sn_departure_is_ready(&d))
            sn_departure_learn(&d, NAN, 0, 0);
        told = told || d.departs;
    }
    tap_ok(!told, "what drifts by a fifth in 20,000 steps is no departure");
}

int main(void)
{
    quiet_steps_are_not_told();
    a_third_is_told_within_ten_steps();
    a_spike_is_one_value();
    it_is_over_when_it_is_over();
    from_the_start_peers_tell();
    slow_drift_is_followed();
    return tap_done();
}
