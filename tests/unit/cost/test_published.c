/*
 * test_published.c - the shipped profile of the A100 sweep (arXiv 2311.05610) still foretells it: a
 * change of prices, of the simulator or of a machine that spoils this is seen at once.
 * tests/bench/published.sh has the tables, and fits without a model.
 */
#include "tests/bench/foreign/bench.h"

#include "tests/lib/tap.h"

static void times_are_foretold(const struct bench *b)
{
    struct score all = bench_score(b, NULL);
    tap_ok(all.rows == 124 && all.median <= 0.03 && all.p90 <= 0.10,
           "%d steps: median error %.2f %% (at most 3), 90th percentile %.2f %% (at most 10)",
           all.rows, 100 * all.median, 100 * all.p90);
}

static void layouts_are_ranked(const struct bench *b)
{
    const char *sheet;
    for (int k = 0; (sheet = bench_sheet(b, k)); k++) {
        struct score s = bench_score(b, sheet);
        tap_ok(s.spearman >= 0.97 && s.first <= 0.03,
               "%s: rank correlation %.3f (at least 0.97), the first is within %.1f %% (3)", sheet,
               s.spearman, 100 * s.first);
    }
}

static void memory_is_foretold(struct bench *b)
{
    bench_memory(b);
    struct tally t = bench_tally(b, NULL);
    tap_ok(t.rows == 309 && t.right >= 0.97 * t.rows && t.low == 0,
           "%d of %d fits or not as we say (97 %%); %d ran out under three quarters of the device",
           t.right, t.rows, t.low);
}

int main(void)
{
    static struct bench b;
    struct sn_err err = {0};
    enum sn_status st = bench_open(&b, &source_sweep, "tests/bench/layouts", &err);
    if (st == SN_OK)
        st = bench_price(&b, &err);
    tap_ok(st == SN_OK, "every row compiles and has a price %s", err.text);
    if (st == SN_OK) {
        times_are_foretold(&b);
        layouts_are_ranked(&b);
        memory_is_foretold(&b);
    }
    bench_close(&b);
    return tap_done();
}
