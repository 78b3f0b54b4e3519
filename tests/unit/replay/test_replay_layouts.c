/*
 * test_replay_layouts.c - a step made twice has the same fingerprints on every rank, in every
 * layout; and where an operation of one rank takes a wrong operand, rank and operation are named.
 *
 * usage: test_replay_layouts    the lines of tests/equiv/layouts marked smoke; ALL=1: every line;
 *                               NAME=part: those whose name holds it
 */
#include "lib/base/mem.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/replay_test.h"
#include "tests/lib/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* What a wrong operand of one rank leads to: nothing at all, or its name. */
static void fault_is_named(const struct layouts_line *l, const struct replay_test *first,
                           uint64_t draw, int *named)
{
    int ranks = layout_ranks(&l->config);
    struct replay_test s = {
        .was = first, .draw = draw, .fault_rank = (int)(draw % (uint64_t)ranks)};
    struct sn_str text = {0};
    char want[64];
    (void)replay_test_train(&s, &l->config); /* ranks' copies may not be the same afterwards */
    bool differs = sn_replay_judge(&text, s.found, ranks);
    const struct sn_replay_finding *f = &s.found[s.fault_rank];
    (void)snprintf(want, sizeof(want), "(operation %d,", s.op);
    bool is_named = differs && strstr(f->what, want) && f->parting == SN_PARTS_COMPUTING;
    for (int r = 0; r < ranks; r++)
        is_named = is_named && (r == s.fault_rank || s.found[r].parting != SN_PARTS_COMPUTING);
    *named += differs && is_named;
    if (s.op >= 0 && differs)
        tap_ok(is_named, "%s, rank %d, operation %d: %s", l->name, s.fault_rank, s.op, text.p);
    sn_str_fini(&text);
    replay_test_forget(&s);
}

int main(void)
{
    struct layouts_line line;
    struct sn_err err = {0};
    const char *name = getenv("NAME");
    bool all = getenv("ALL") != NULL;
    int more = -1, ran = 0, named = 0;
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        if (!all && (name ? !strstr(line.name, name) : !line.smoke))
            continue;
        struct replay_test first = {.fault_rank = -1};
        if (!replay_test_train(&first, &line.config)) {
            tap_ok(false, "%s: runs", line.name);
            continue;
        }
        same_twice(&line, &first);
        for (uint64_t k = 0; k < 3; k++)
            fault_is_named(&line, &first, 1000 * (uint64_t)ran + k, &named);
        replay_test_forget(&first);
        (void)fflush(stdout);
        ran++;
    }
    tap_ok(more == 0, "the table is read to its end%s%s", err.text[0] ? ": " : "", err.text);
    tap_ok(ran > 0 && named > ran, "%d layouts, %d wrong operands that changed something", ran,
           named);
    if (f)
        (void)fclose(f);
    return tap_done();
}
