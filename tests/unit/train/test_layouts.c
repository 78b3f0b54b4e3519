/*
 * test_layouts.c - every layout gives the losses of one rank, and sends what was planned.
 *
 * usage: test_layouts               the lines of tests/equiv/layouts marked fast, 2 steps and a validation
 *        test_layouts ALL | NAME    every line, or those whose name holds NAME, 20 steps
 *
 * Ranks are threads of this process; tests/equiv/equiv.sh runs the same lines as processes.
 */
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <string.h>

enum { MODELS_MAX = 64 };

/* The one-rank runs so far: one for each model and way of training. */
struct references {
    uint64_t hash[MODELS_MAX];
    struct layout_run run[MODELS_MAX];
    int n;
};

static const struct layout_run *reference(struct references *r, const struct sn_config *c,
                                          int steps)
{
    struct sn_config one = layouts_reference(c);
    uint64_t hash = sn_config_hash(&one);
    for (int i = 0; i < r->n; i++)
        if (r->hash[i] == hash)
            return &r->run[i];
    struct layout_run *run = &r->run[r->n < MODELS_MAX - 1 ? r->n++ : r->n];
    r->hash[run - r->run] = hash;
    run->steps = steps;
    layout_train(run, &one);
    return run;
}

/* tests/lib/layouts.sh has the same numbers, and their reasons. */
static double tolerance(const struct sn_config *c)
{
    return c->train.precision == SN_BF16 ? 4e-3 : c->train.precision == SN_F16 ? 5e-4 : 1e-5;
}

static bool same_bits(const struct layout_run *a, const struct layout_run *b)
{
    size_t bytes = (size_t)a->steps * sizeof(a->loss[0]);
    return memcmp(a->loss, b->loss, bytes) == 0 && memcmp(a->norm, b->norm, bytes) == 0 &&
           a->val_loss == b->val_loss;
}

/* Where rounding does not move a token to another expert; in half precision it may. */
static bool same_load(const struct layout_run *a, const struct layout_run *b,
                      const struct sn_config *c)
{
    double most = c->model.experts.router == SN_ROUTER_DENSE ? 1e-3 : 0; /* 1 + 100 of its error */
    for (int i = 0; i < a->steps && c->train.precision == SN_F32; i++)
        if (fabs(a->max_vio[i] - b->max_vio[i]) > most)
            return false;
    return true;
}

static void layout_equals_one_rank(struct references *known, const struct layouts_line *l,
                                   int steps)
{
    const struct layout_run *one = reference(known, &l->config, steps);
    struct layout_run many = {.steps = steps}, again = {.steps = steps};
    double most = tolerance(&l->config);
    layout_train(&many, &l->config);
    double off = layout_difference(&many, one);
    tap_ok(!one->fault[0] && !many.fault[0] && off <= most,
           "%s: losses and norms of %d steps are those of one rank (off by %.1e, limit %.0e)%s%s",
           l->name, steps, off, most, one->fault, many.fault);
    tap_ok(many.traffic_is_planned, "%s: every rank sends what was planned, on every axis",
           l->name);
    if (l->config.model.experts.count > 0)
        tap_ok(many.expert_load_is_whole && one->expert_load_is_whole &&
                   same_load(&many, one, &l->config),
               "%s: experts' load is that of all tokens, as one rank tells it", l->name);
    if (!l->twice)
        return;
    layout_train(&again, &l->config);
    tap_ok(same_bits(&many, &again), "%s: a second run gives the same bits", l->name);
}

/* What the matrix must hold, whoever edits the table. */
static void table_covers_2_to_16_ranks(const int lines_of[17])
{
    static const int sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16};
    int lines = 0;
    for (int r = 2; r <= 16; r++)
        lines += lines_of[r];
    tap_ok(lines >= 70, "the table holds %d layouts of 2 to 16 ranks", lines);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        tap_ok(lines_of[sizes[i]] > 0, "%d of them have %d ranks", lines_of[sizes[i]], sizes[i]);
}

int main(int argc, char **argv)
{
    static const char table[] = "tests/equiv/layouts";
    static struct references known;
    struct layouts_line line;
    struct sn_err err = {0};
    const char *want = argc > 1 ? argv[1] : "";
    bool all = strcmp(want, "ALL") == 0;
    int more = -1, ran = 0, lines_of[17] = {0};
    FILE *f = fopen(table, "r");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        int ranks = layout_ranks(&line.config);
        lines_of[ranks <= 16 ? ranks : 0]++;
        if (all || (want[0] ? strstr(line.name, want) != NULL : line.fast)) {
            layout_equals_one_rank(&known, &line, want[0] ? 20 : 2);
            (void)fflush(stdout);
            ran++;
        }
    }
    tap_ok(more == 0, "%s is read to its end%s%s", table, err.text[0] ? ": " : "", err.text);
    tap_ok(ran > 0, "%d layouts were run", ran);
    table_covers_2_to_16_ranks(lines_of);
    if (f)
        (void)fclose(f);
    return tap_done();
}
