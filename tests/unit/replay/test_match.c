/*
 * test_match.c - a step of every layout, held against the same step of one rank: what the ranks gave
 * is what one rank gives, but for rounding; and where a rank takes a wrong operand, it is named, or
 * those that it sends to.
 *
 * usage: test_match    the lines of tests/equiv/layouts marked smoke; ALL=1: every line; NAME=part:
 *                      those whose name holds it
 */
#include "lib/base/mem.h"
#include "lib/meaning/meaning.h"
#include "lib/replay/match.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/replay_test.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void one_rank_gives_it_too(const struct layouts_line *l, const char *output, int *compared)
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
    *compared += results > apart;
    tap_ok(good && !differs && results > 20 * ranks, "%s: %s%s", l->name,
           text.p ? text.p : "(nothing)", a.err.text);
    sn_str_fini(&text);
}

static void fault_is_seen(const struct layouts_line *l, const char *output, uint64_t draw,
                          int *seen)
{
    int ranks = layout_ranks(&l->config);
    struct replay_test s = {
        .draw = draw, .fault_rank = (int)(draw % (uint64_t)ranks), .output = output};
    struct again a;
    struct sn_str text = {0};
    char want[64];
    (void)replay_test_train(&s, &l->config);
    bool differs = replay(&a, &l->config, output) && sn_replay_judge(&text, a.found, ranks);
    (void)snprintf(want, sizeof(want), "(operation %d,", s.op);
    bool others_compute = false, is_named = false;
    for (int r = 0; r < ranks; r++) {
        bool computes = a.found[r].parting == SN_PARTS_COMPUTING;
        is_named |= computes && r == s.fault_rank && strstr(a.found[r].what, want);
        others_compute |= computes && r != s.fault_rank;
    }
    *seen += is_named;
    if (differs)
        tap_ok(!others_compute, "%s, rank %d, operation %d%s: %s", l->name, s.fault_rank, s.op,
               is_named ? ", named" : "", text.p);
    sn_str_fini(&text);
    replay_test_forget(&s);
}

int main(void)
{
    struct layouts_line line;
    struct sn_err err = {0};
    const char *name = getenv("NAME");
    bool all = getenv("ALL") != NULL;
    int more = -1, ran = 0, compared = 0, named = 0;
    char output[] = "/tmp/test_match.XXXXXX", command[64];
    if (!mkdtemp(output))
        return 1;
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        bool wanted = all || (name ? strstr(line.name, name) != NULL : line.smoke);
        if (!wanted || sn_meaning_gap(&line.config))
            continue;
        struct replay_test first = {.fault_rank = -1, .output = output};
        bool good = replay_test_train(&first, &line.config);
        tap_ok(good, "%s: is recorded", line.name);
        one_rank_gives_it_too(&line, output, &compared);
        for (uint64_t k = 0; k < 2; k++)
            fault_is_seen(&line, output, 1000 * (uint64_t)ran + k, &named);
        replay_test_forget(&first);
        (void)fflush(stdout);
        ran++;
    }
    (void)snprintf(command, sizeof(command), "rm -rf %s", output);
    tap_ok(system(command) == 0, "the recordings go");
    tap_ok(more == 0, "the table is read to its end%s%s", err.text[0] ? ": " : "", err.text);
    tap_ok(ran > 0 && compared > ran / 2, "%d layouts; of %d more is compared than is not", ran,
           compared);
    tap_ok(named > 0, "%d wrong operands are named to the operation", named);
    if (f)
        (void)fclose(f);
    return tap_done();
}
