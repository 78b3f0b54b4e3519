/*
 * test_compress_layouts.c - layouts whose messages are compressed (tests/equiv/compress): lossless
 * codecs give the bits of a run without, or its numbers but for the order of sums; lossy ones stay
 * near, and what is sent is what was planned.
 *
 * usage: test_compress_layouts [NAME]   the lines whose name holds NAME
 *
 * Ranks are threads of this process; tests/cli/test_compress*.sh run some lines as processes, and
 * all of them in make check-equiv.
 */
#include "kernels/zfp.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 8 /* losses part by then */, STEPS_OF_BITS = 4 };

/* What the step programs of all ranks hold. */
struct held {
    int encodes, sums_inside, sums_between, gathers_inside, gathers_between;
};

static void look(void *seen, struct sn_exec *x, const struct sn_job *j, int step)
{
    struct held *h = seen;
    (void)x;
    for (int i = 0; step == 0 && j->rank == 0 && i < j->train.n_ops; i++) {
        const struct sn_op *op = &j->train.ops[i];
        bool inside = op->group == SN_GROUP_REPLICA_NODE,
             between = op->group == SN_GROUP_REPLICA_RAIL;
        h->encodes += op->kind == SN_OP_ENCODE;
        h->sums_inside += op->kind == SN_OP_ALL_TO_ALL && inside;
        h->sums_between += op->kind == SN_OP_ALL_TO_ALL && between;
        h->gathers_inside += op->kind == SN_OP_ALL_GATHER && inside;
        h->gathers_between += op->kind == SN_OP_ALL_GATHER && between;
    }
}

static bool same_bits(const struct layout_run *a, const struct layout_run *b)
{
    return memcmp(a->loss, b->loss, sizeof(a->loss)) == 0 &&
           memcmp(a->norm, b->norm, sizeof(a->norm)) == 0 && a->val_loss == b->val_loss;
}

static void is_near(const struct layouts_line *l, const struct layout_run *coded,
                    const struct layout_run *plain, double limit)
{
    double off = layout_difference(coded, plain);
    tap_ok(off <= limit, "%s: losses are near those without codecs (off by %.1e, limit %.0e)",
           l->name, off, limit);
    tap_ok(!same_bits(coded, plain), "%s: and are others", l->name);
    tap_ok(coded->traffic_is_planned, "%s: it sends what was planned", l->name);
}

static void is_equal_in_levels(const struct layouts_line *l, const struct layout_run *coded,
                               const struct layout_run *plain, const struct held *h)
{
    double off = layout_difference(coded, plain);
    double most = l->config.train.precision == SN_BF16 ? 4e-3 : 1e-5; /* tests/lib/layouts.sh */
    tap_ok(off <= most, "%s: losses and norms are those without codecs (off by %.1e, limit %.0e)",
           l->name, off, most);
    tap_ok(h->sums_inside > 0 && h->sums_between > 0, "%s: sums inside nodes, and between them",
           l->name);
    tap_ok(h->gathers_inside > 0 && h->gathers_between > 0,
           "%s: gathers between nodes, and inside them", l->name);
}

/* The programs of a run are proven to end before it begins (layout_train). */
static void line_holds(const char *kind, const struct layouts_line *l)
{
    struct held held = {0}, none = {0};
    int steps = strncmp(kind, "near=", 5) == 0 ? STEPS : STEPS_OF_BITS;
    struct layout_run plain = {.steps = steps, .see = look, .seen = &none};
    struct layout_run coded = {.steps = steps, .see = look, .seen = &held};
    struct sn_config without = l->config;
    sn_compress_nothing(&without.layout);
    layout_train(&plain, &without);
    layout_train(&coded, &l->config);
    bool ran = tap_ok(!plain.fault[0] && !coded.fault[0], "%s: trains with codecs and without%s%s",
                      l->name, plain.fault, coded.fault);
    tap_ok(held.encodes > 0 && none.encodes == 0, "%s: %d operations encode, without codecs none",
           l->name, held.encodes);
    if (ran && strncmp(kind, "near=", 5) == 0)
        is_near(l, &coded, &plain, strtod(kind + 5, NULL));
    else if (ran && strncmp(kind, "levels=", 7) == 0)
        is_equal_in_levels(l, &coded, &plain, &held);
    else if (ran)
        tap_ok(same_bits(&coded, &plain), "%s: all losses and norms have the same bits", l->name);
    if (!ran || !l->twice)
        return;
    struct layout_run again = {.steps = steps};
    layout_train(&again, &l->config);
    tap_ok(same_bits(&coded, &again), "%s: a second run gives the same bits", l->name);
}

int main(int argc, char **argv)
{
    static const char table[] = "tests/equiv/compress";
    struct layouts_line line;
    struct sn_err err = {0};
    char kind[LAYOUTS_KIND];
    int more = -1, ran = 0;
    FILE *f = fopen(table, "r");
    while (f && (more = layouts_next_coded(f, kind, &line, &err)) > 0) {
        int scheme = line.config.layout.compress.scheme;
        bool by_zfp = scheme == SN_SCHEME_NAIVE || scheme == SN_SCHEME_ZHYBRID;
        if (argc > 1 && !strstr(line.name, argv[1]))
            continue;
        if (by_zfp && sn_zfp_missing())
            tap_skip(line.name, sn_zfp_missing());
        else
            line_holds(kind, &line);
        (void)fflush(stdout);
        ran++;
    }
    tap_ok(more == 0, "%s is read to its end%s%s", table, err.text[0] ? ": " : "", err.text);
    tap_ok(ran > 0, "%d layouts were run", ran);
    if (f)
        (void)fclose(f);
    return tap_done();
}
