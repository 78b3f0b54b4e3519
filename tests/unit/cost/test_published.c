/*
 * test_published.c - the A100 sweep (arXiv 2311.05610) stays foretold: a change of prices, of the
 * simulator or of a machine that spoils this is seen at once. By the shipped profile, fitted to all
 * rows, and by one that was fitted without 30B on 256 devices, of those rows.
 * tests/bench/published.sh has the tables, and leaves out every group.
 */
#include "tests/bench/foreign/bench.h"

#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>

/* Pipelines of the 64-device sweep's later trials lose the time of some seven micro-batches a step,
 * which neither its earlier trials nor any other sheet do: no variable of the tables tells them
 * apart (docs/ACCURACY.md). They count among errors, but nobody can rank them. */
static bool is_odd(const struct row *r)
{
    return strcmp(r->sheet, "llama_13B_bfloat16_64_GPUs_all_runs") == 0 && atol(r->id) > 120000 &&
           r->config.layout.pipeline > 1;
}

static void times_are_foretold(const struct bench *b)
{
    struct score all = bench_score(b, NULL);
    tap_ok(all.rows == 202 && all.median <= 0.02 && all.p90 <= 0.10,
           "%d steps: median error %.2f %% (at most 2), 90th percentile %.2f %% (at most 10)",
           all.rows, 100 * all.median, 100 * all.p90);
}

static void layouts_are_ranked(struct bench *b)
{
    const char *sheet;
    int odd = 0;
    for (int i = 0; i < b->rows.n; i++) {
        b->used[i] = !is_odd(&b->rows.row[i]);
        odd += !b->used[i] && b->rows.row[i].outcome == ROW_TIMED;
    }
    tap_ok(odd == 16, "%d steps are listed as odd", odd);
    for (int k = 0; (sheet = bench_sheet(b, k)); k++) {
        struct score s = bench_score(b, sheet);
        tap_ok(s.spearman >= 0.95 && s.first <= 0.03,
               "%s: rank correlation %.3f (at least 0.95), the first is within %.1f %% (3)", sheet,
               s.spearman, 100 * s.first);
    }
    for (int i = 0; i < b->rows.n; i++)
        b->used[i] = true;
}

static void memory_is_foretold(struct bench *b)
{
    bench_memory(b);
    struct tally t = bench_tally(b, NULL);
    tap_ok(t.rows == 475 && t.right >= 0.97 * t.rows && t.low == 0,
           "%d of %d fits or not as we say (97 %%); %d ran out under three quarters of the device",
           t.right, t.rows, t.low);
}

/* Constants that have not seen a sheet rank it. */
static void a_sheet_left_out_is_foretold(struct bench *b, struct sn_err *err)
{
    static const char *const sheet = "llama_30B_bfloat16_256_GPUs_all_runs";
    enum sn_status st =
        sn_software_load(&b->profile[0], "tests/bench/foreign/without_30b_256.yaml", err);
    for (int i = 0; i < b->rows.n; i++)
        b->used[i] = strcmp(b->rows.row[i].sheet, sheet) == 0;
    if (st == SN_OK)
        st = bench_price(b, err);
    struct score s = bench_score(b, sheet);
    tap_ok(st == SN_OK && s.rows == 78 && s.median <= 0.035 && s.p90 <= 0.095 &&
               s.spearman >= 0.94 && s.first <= 0.03,
           "%d steps that no constant was fitted to: median %.2f %% (3.5), 90th percentile %.2f %% "
           "(9.5), rank correlation %.3f (0.94), the first is within %.1f %% (3) %s",
           s.rows, 100 * s.median, 100 * s.p90, s.spearman, 100 * s.first, err->text);
    bench_memory(b);
    struct tally t = bench_tally(b, sheet);
    tap_ok(t.rows == 166 && t.right >= 0.97 * t.rows, "%d of its %d fits or not as we say (97 %%)",
           t.right, t.rows);
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
        a_sheet_left_out_is_foretold(&b, &err);
    }
    bench_close(&b);
    return tap_done();
}
