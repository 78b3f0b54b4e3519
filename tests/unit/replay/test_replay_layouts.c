/*
 * test_replay_layouts.c - a step made twice has the same fingerprints on every rank, in every
 * layout; made by one rank alone it has what the ranks gave, but for rounding; and where an operation
 * of one rank takes a wrong operand, rank and operation are named by the first, and no other rank by
 * the second.
 *
 * usage: test_replay_layouts    the lines of tests/equiv/layouts marked smoke; ALL=1: every line;
 *                               NAME=part: those whose name holds it
 */
#include "lib/base/mem.h"
#include "lib/replay/match.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/replay_test.h"
#include "tests/lib/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS = 2, ALL_FAULTS = 3 };

struct count {
    int lines, matched, mostly, faults, named, named_by_one;
};

/* --- by the same ranks ------------------------------------------------------------------------ */

static void same_twice(const struct layouts_line *l, const struct replay_test *first)
{
    struct replay_test again = {.was = first, .fault_rank = -1};
    struct sn_str text = {0};
    bool good = replay_test_train(&again, &l->config);
    bool differs = good && sn_replay_judge(&text, again.found, layout_ranks(&l->config));
    tap_ok(good && !differs && again.found[0].results > 20 && again.found[0].near == 0 &&
               first->of[0]->head.results_lost == 0,
           "%s: %s", l->name, text.p ? text.p : "(nothing)");
    sn_str_fini(&text);
    replay_test_forget(&again);
}

/* --- by one rank ------------------------------------------------------------------------------ */

/* One rank's second step, with what was recorded. */
struct again {
    const struct sn_config *recorded;
    const char *output;
    struct sn_match *match;
    struct sn_results *results;
    struct sn_replay_finding found[REPLAY_RANKS];
    struct sn_err err;
    enum sn_status status;
};

static void see(void *arg, struct sn_exec *x, const struct sn_job *j, int step)
{
    struct again *a = arg;
    if (step == 0) {
        a->status = sn_match_create(&a->match, a->recorded, j, &a->err);
        if (a->status == SN_OK)
            a->status = sn_match_begin(a->match, a->output, 2, -1, &a->err);
        if (a->status == SN_OK)
            a->status = sn_results_create(&a->results, x, sn_match_take, a->match, &a->err);
        if (a->status == SN_OK)
            sn_exec_set_results(x, a->results);
        return;
    }
    sn_exec_set_results(x, NULL);
    if (a->status == SN_OK)
        a->status = sn_match_find(a->match, a->found, &a->err);
    sn_results_destroy(a->results);
    sn_match_destroy(a->match);
}

static bool replay(struct again *a, const struct sn_config *recorded, const char *output)
{
    struct sn_config one = layouts_reference(recorded);
    struct layout_run run = {.steps = 2, .see = see, .seen = a};
    *a = (struct again){.recorded = recorded, .output = output};
    layout_train(&run, &one);
    return !run.fault[0] && a->status == SN_OK;
}

static void one_rank_gives_it_too(const struct layouts_line *l, const char *output, struct count *n)
{
    struct again a;
    struct sn_str text = {0};
    bool good = replay(&a, &l->config, output);
    int ranks = layout_ranks(&l->config);
    bool differs = good && sn_replay_judge(&text, a.found, ranks);
    int64_t results = 0, apart = 0;
    for (int r = 0; r < ranks; r++) {
        results += a.found[r].results;
        apart += a.found[r].apart;
    }
    n->matched++;
    n->mostly += results > apart;
    tap_ok(good && !differs && results > 20 * ranks, "%s: %s%s", l->name,
           text.p ? text.p : "(nothing)", a.err.text);
    sn_str_fini(&text);
}

/* --- faults ----------------------------------------------------------------------------------- */

/* Who computes something else, with the least doubt of all. */
static bool is_blamed(const struct sn_replay_finding *f, int ranks, int rank)
{
    for (int r = 0; r < ranks; r++)
        if (f[r].parting == SN_PARTS_COMPUTING && f[r].doubt < f[rank].doubt)
            return false;
    return f[rank].parting == SN_PARTS_COMPUTING;
}

/* Beyond doubt. */
static int others_blamed(const struct sn_replay_finding *f, int ranks, int rank)
{
    int n = 0;
    for (int r = 0; r < ranks; r++)
        n += r != rank && f[r].doubt == 0 && is_blamed(f, ranks, r);
    return n;
}

static bool is_named(const struct sn_replay_finding *f, int ranks, const struct replay_test *s)
{
    char want[64];
    (void)snprintf(want, sizeof(want), "(operation %d,", s->op);
    return is_blamed(f, ranks, s->fault_rank) && strstr(f[s->fault_rank].what, want) != NULL;
}

/* A wrong operand of one rank leads to nothing at all, or to its name; held against one rank, to
 * its name or to nobody's. */
static void fault_is_named(const struct layouts_line *l, const struct replay_test *first,
                           const char *output, uint64_t draw, struct count *n)
{
    int ranks = layout_ranks(&l->config);
    struct replay_test s = {
        .was = first, .draw = draw, .fault_rank = (int)(draw % (uint64_t)ranks), .output = output};
    struct sn_str text = {0}, by_one = {0};
    (void)replay_test_train(&s, &l->config); /* ranks' copies may not be the same afterwards */
    bool differs = s.op >= 0 && sn_replay_judge(&text, s.found, ranks);
    if (differs)
        tap_ok(is_named(s.found, ranks, &s) && others_blamed(s.found, ranks, s.fault_rank) == 0,
               "%s, rank %d, operation %d: %s", l->name, s.fault_rank, s.op, text.p);
    n->faults += differs;
    n->named += differs && is_named(s.found, ranks, &s);
    struct again a;
    if (differs && output && replay(&a, &l->config, output) &&
        sn_replay_judge(&by_one, a.found, ranks)) {
        tap_ok(others_blamed(a.found, ranks, s.fault_rank) == 0,
               "%s, rank %d, operation %d, by one rank: %s", l->name, s.fault_rank, s.op, by_one.p);
        n->named_by_one += is_named(a.found, ranks, &s);
    }
    sn_str_fini(&text);
    sn_str_fini(&by_one);
    replay_test_forget(&s);
}

static void line_holds(const struct layouts_line *l, const char *output, struct count *n)
{
    bool is_followed = !sn_match_gap(&l->config);
    struct replay_test first = {.fault_rank = -1, .output = is_followed ? output : NULL};
    if (!tap_ok(replay_test_train(&first, &l->config), "%s: is recorded", l->name))
        return;
    same_twice(l, &first);
    if (is_followed)
        one_rank_gives_it_too(l, output, n);
    /* Tensor ranks that share rows out have to route alike, which one with a fault does not. */
    int faults = l->config.layout.drop_duplicates == SN_DUPLICATES_DROPPED ? 0
                 : getenv("ALL")                                             ? ALL_FAULTS
                                                                             : FAULTS;
    for (uint64_t k = 0; (int)k < faults; k++)
        fault_is_named(l, &first, first.output, 1000 * (uint64_t)n->lines + k, n);
    replay_test_forget(&first);
    n->lines++;
    (void)fflush(stdout);
}

int main(void)
{
    struct layouts_line line;
    struct sn_err err = {0};
    struct count n = {0};
    const char *name = getenv("NAME");
    bool all = getenv("ALL") != NULL;
    int more = -1;
    char output[] = "/tmp/test_replay.XXXXXX", command[64];
    FILE *f = mkdtemp(output) ? fopen("tests/equiv/layouts", "r") : NULL;
    while (f && (more = layouts_next(f, &line, &err)) > 0)
        if (all || (name ? strstr(line.name, name) != NULL : line.smoke))
            line_holds(&line, output, &n);
    (void)snprintf(command, sizeof(command), "rm -rf %s", output);
    tap_ok(system(command) == 0, "the recordings go");
    tap_ok(more == 0, "the table is read to its end%s%s", err.text[0] ? ": " : "", err.text);
    tap_ok(n.lines > 0 && n.mostly * 2 > n.matched,
           "%d layouts; of %d of the %d that one rank makes again more is compared than is not",
           n.lines, n.mostly, n.matched);
    tap_ok(n.named == n.faults && n.faults > n.lines, "%d of %d wrong operands are named", n.named,
           n.faults);
    tap_ok(n.named_by_one * 3 > n.faults, "%d of them by one rank alone", n.named_by_one);
    if (f)
        (void)fclose(f);
    return tap_done();
}
