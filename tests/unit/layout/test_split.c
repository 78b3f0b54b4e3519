/*
 * test_split.c - layers to stage modules, against all possible splits.
 */
#include "lib/layout/split.h"
#include "tests/lib/tap.h"

enum { MOST = 12 };

/* Costs in the tests are multiples of 1/4, so that sums are exact. */
static double module_cost(const struct sn_split_cost *c, const int *n, int i, int modules)
{
    return n[i] + (i == 0 ? c->first : 0) + (i == modules - 1 ? c->last : 0);
}

struct quality {
    double largest, squares;
};

static struct quality judge(const struct sn_split_cost *c, const int *n, int modules)
{
    struct quality q = {0, 0};
    for (int i = 0; i < modules; i++) {
        double cost = module_cost(c, n, i, modules);
        q.largest = cost > q.largest ? cost : q.largest;
        q.squares += cost * cost;
    }
    return q;
}

/* All splits in lexicographic order: the next one, or false after the last. */
static bool next_split(int *n, int layers, int modules)
{
    for (int i = modules - 2; i >= 0; i--) {
        int before = 0;
        for (int j = 0; j <= i; j++)
            before += n[j];
        if (layers - before - 1 < modules - 1 - i)
            continue;
        n[i]++;
        for (int j = i + 1; j < modules - 1; j++)
            n[j] = 1;
        n[modules - 1] = layers - before - 1 - (modules - 2 - i);
        return true;
    }
    return false;
}

static void brute_force(int *best, const struct sn_split_cost *c, int layers, int modules)
{
    int n[MOST];
    for (int i = 0; i < modules; i++)
        n[i] = i < modules - 1 ? 1 : layers - modules + 1;
    memcpy(best, n, sizeof(n));
    struct quality least = judge(c, n, modules);
    while (next_split(n, layers, modules)) { /* ascending: of equals the first stays */
        struct quality q = judge(c, n, modules);
        if (q.largest > least.largest || (q.largest == least.largest && q.squares >= least.squares))
            continue;
        least = q;
        memcpy(best, n, sizeof(n));
    }
}

static void brute_force_sees_every_split(void)
{
    int n[MOST] = {1, 1, 1, 7}, count = 1;
    while (next_split(n, 10, 4))
        count++;
    tap_ok(count == 84, "10 layers on 4 stage modules: %d splits, 9 over 3 = 84", count);
    tap_ok(n[0] == 7 && n[1] == 1 && n[2] == 1 && n[3] == 1, "the last one is 7 1 1 1");
}

static void all_small_splits_are_the_best_ones(void)
{
    static const double extra[] = {0, 0.25, 0.5, 1, 1.75, 2.5, 7};
    int tried = 0, bad = 0;
    for (int modules = 1; modules <= 6; modules++)
        for (int layers = modules; layers <= MOST; layers++)
            for (int e = 0; e < 49; e++) {
                struct sn_split_cost c = {extra[e / 7], extra[e % 7]};
                int got[MOST] = {0}, want[MOST] = {0};
                brute_force(want, &c, layers, modules);
                bad += sn_split_layers(got, &c, layers, modules, NULL) != SN_OK;
                bad += memcmp(got, want, sizeof(int) * (size_t)modules) != 0;
                tried++;
            }
    tap_ok(bad == 0, "%d splits have the least largest cost, the least squares, the least front",
           tried);
}

static void is_split(const struct sn_split_cost *c, int layers, int modules, const char *want)
{
    int n[MOST];
    char text[128] = "", what[64];
    if (sn_split_layers(n, c, layers, modules, NULL) == SN_OK)
        for (int i = 0; i < modules; i++)
            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d", i ? " " : "",
                           n[i]);
    (void)snprintf(what, sizeof(what), "%d layers on %d stage modules", layers, modules);
    tap_text(text, want, what);
}

static void known_splits_come_out(void)
{
    is_split(&(struct sn_split_cost){0, 0}, 8, 4, "2 2 2 2");
    is_split(&(struct sn_split_cost){0, 0}, 10, 4, "2 2 3 3");
    is_split(&(struct sn_split_cost){1, 1}, 34, 4, "8 9 9 8");
    is_split(&(struct sn_split_cost){0, 2.5}, 12, 4, "3 4 4 1");
    is_split(&(struct sn_split_cost){0, 9}, 5, 3, "2 2 1");
    is_split(&(struct sn_split_cost){3, 4}, 5, 1, "5");
}

static void unfit_sizes_are_explained(void)
{
    int n[4] = {-7, -7, -7, -7};
    struct sn_err err = {0};
    struct sn_split_cost none = {0, 0}, negative = {0, -1}, nan = {(double)NAN, 0};
    tap_ok(sn_split_layers(n, &none, 3, 4, &err) == SN_EINPUT, "3 layers on 4 stage modules fail");
    tap_text(err.text,
             "layout: 3 layers on 4 stage modules of the pipeline (stages x virtual stages), one "
             "layer each at "
             "least; up to 3 stage modules or from 4 layers on would work",
             "with what works");
    tap_ok(sn_split_layers(n, &none, 3, 0, &err) == SN_EINPUT, "no stage modules fail");
    tap_text(err.text, "layout: 0 stage modules of the pipeline; at least 1 would work",
             "in words");
    tap_ok(sn_split_layers(n, &negative, 4, 4, &err) == SN_EINPUT, "a negative cost fails");
    tap_text(err.text,
             "layout.split: the ends cost 0 and -1 layers; finite costs from 0 on would work",
             "in words too");
    tap_ok(sn_split_layers(n, &nan, 4, 4, &err) == SN_EINPUT, "a cost that is no number fails");
    tap_ok(n[0] == -7 && n[3] == -7, "and nothing was written");
}

int main(void)
{
    brute_force_sees_every_split();
    all_small_splits_are_the_best_ones();
    known_splits_come_out();
    unfit_sizes_are_explained();
    return tap_done();
}
