/*
 * test_blend.c - sets give what their shares say, and counts of any sample are those of counting.
 */
#include "lib/data/blend.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

static const uint64_t all = (uint64_t)1 << 32;

static struct sn_blend blend_of(const double weight[], int n)
{
    uint64_t share[SN_SETS_MAX];
    struct sn_blend b = {.n = n};
    if (!sn_blend_shares(share, weight, n))
        abort();
    sn_blend_add_phase(&b, 0, share);
    return b;
}

/* Weights that have nothing in common. */
static void odd_weights(double weight[], int n)
{
    for (int i = 0; i < n; i++)
        weight[i] = 0.37 + (double)(i * 7919 % 101) / 17.0 + (i == n / 2 ? 11.3 : 0);
}

static void shares_add_up(void)
{
    uint64_t share[SN_SETS_MAX];
    double weight[SN_SETS_MAX];
    bool good = true;
    for (int n = 1; n <= SN_SETS_MAX; n++) {
        uint64_t sum = 0;
        double whole = 0;
        odd_weights(weight, n);
        good = good && sn_blend_shares(share, weight, n);
        for (int i = 0; i < n; i++)
            whole += weight[i];
        for (int i = 0; i < n; i++) {
            sum += share[i];
            good = good && fabs((double)share[i] - weight[i] / whole * 0x1p32) <= 1;
        }
        good = good && sum == all;
    }
    tap_ok(good, "shares of 1 to 64 sets are 2^32, each its weight's to the next whole number");
    tap_ok(sn_blend_shares(share, (double[]){0, 3, 0}, 3) && share[0] == 0 && share[1] == all &&
               share[2] == 0,
           "a weight of 0 is no share");
    tap_ok(!sn_blend_shares(share, (double[]){1, 1e-11}, 2), "a weight that rounds to 0 is told");
    tap_ok(sn_blend_shares(share, (double[]){1e300, 1e300, 1e300}, 3) && share[0] - share[2] <= 1,
           "large weights are as good as small ones");
}

static void shares_are_kept(void)
{
    double weight[SN_SETS_MAX], worst = 0;
    for (int n = 2; n <= 40; n++) {
        odd_weights(weight, n);
        struct sn_blend b = blend_of(weight, n);
        double sum = 0;
        int given[SN_SETS_MAX] = {0};
        for (int i = 0; i < n; i++)
            sum += weight[i];
        for (int64_t k = 0; k < 10000; k++)
            given[sn_blend_pick(&b, k).set]++;
        for (int i = 0; i < n; i++)
            worst = fmax(worst, fabs(given[i] / 1e4 - weight[i] / sum));
    }
    tap_ok(worst < 0.001, "after 10,000 samples of 2 to 40 sets shares are off by %.4f %% at most",
           100 * worst);
}

/* What is given is counted one by one, from `first` on. */
static bool counts_agree(const struct sn_blend *b, int64_t first, int64_t n)
{
    int64_t given[SN_SETS_MAX];
    for (int i = 0; i < b->n; i++)
        given[i] = sn_blend_given(b, i, first);
    for (int64_t k = first; k < first + n; k++) {
        struct sn_blend_pick p = sn_blend_pick(b, k);
        if (p.set < 0 || p.set >= b->n || p.number != given[p.set]++)
            return false;
    }
    for (int i = 0; i < b->n; i++)
        if (given[i] != sn_blend_given(b, i, first + n))
            return false;
    return true;
}

static void counts_are_those_of_counting(void)
{
    double weight[SN_SETS_MAX];
    bool begin = true, middle = true;
    for (int n = 1; n <= SN_SETS_MAX; n += 7) {
        odd_weights(weight, n);
        struct sn_blend b = blend_of(weight, n);
        begin = begin && counts_agree(&b, 0, 5000);
        middle = middle && counts_agree(&b, 3 * (int64_t)all - 2500, 5000) &&
                 counts_agree(&b, 123456789012LL, 1000);
    }
    tap_ok(begin, "the number of a sample in its set is that of counting");
    tap_ok(middle, "also round 2^32 samples, and far behind");
    struct sn_blend b = blend_of((double[]){3, 1}, 2);
    tap_ok(sn_blend_given(&b, 0, (int64_t)all) == 3 * ((int64_t)1 << 30) &&
               sn_blend_given(&b, 1, 5 * (int64_t)all) == 5 * ((int64_t)1 << 30),
           "whole periods have the shares themselves");
}

static void one_set_is_the_run(void)
{
    struct sn_blend b = blend_of((double[]){0.3}, 1);
    bool good = true;
    for (int64_t k = 0; k < 5LL << 32; k += (k < 3000 ? 1 : 1234567891)) {
        struct sn_blend_pick p = sn_blend_pick(&b, k);
        good = good && p.set == 0 && p.number == k;
    }
    tap_ok(good, "of one set the samples are the run's");
}

static void phases_go_on_from_what_was_given(void)
{
    struct sn_blend b = blend_of((double[]){5, 3, 0}, 3);
    uint64_t share[3];
    (void)sn_blend_shares(share, (double[]){1, 2, 7}, 3);
    sn_blend_add_phase(&b, 1237, share);
    (void)sn_blend_shares(share, (double[]){0, 1, 0}, 3);
    sn_blend_add_phase(&b, 4001, share);
    tap_ok(counts_agree(&b, 0, 6000), "counts go on over phases");
    tap_ok(sn_blend_given(&b, 2, 1237) == 0 && labs(sn_blend_given(&b, 2, 4001) - 1935) <= 4,
           "a set that has no part in a phase gives nothing, and then its share");
    tap_ok(sn_blend_given(&b, 1, 5001) - sn_blend_given(&b, 1, 4001) == 1000,
           "one set alone gives all");
}

static void a_limit_is_found(void)
{
    struct sn_blend b = blend_of((double[]){1, 3}, 2);
    int64_t at = sn_blend_exceeds(&b, 0, 250, 100000);
    tap_ok(sn_blend_given(&b, 0, at) == 251 && sn_blend_given(&b, 0, at - 1) == 250,
           "the sample that is one too many is found: %lld", (long long)at);
    tap_ok(sn_blend_exceeds(&b, 0, 25000, 100000) == -1, "who keeps the limit has none");
}

int main(void)
{
    shares_add_up();
    shares_are_kept();
    counts_are_those_of_counting();
    one_set_is_the_run();
    phases_go_on_from_what_was_given();
    a_limit_is_found();
    return tap_done();
}
