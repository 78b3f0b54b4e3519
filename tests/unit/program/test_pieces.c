/*
 * test_pieces.c - layout.tensor_pieces: rows go through collectives of tensor ranks in pieces.
 */
#include "lib/program/opinfo.h"
#include "tests/lib/layouts.h"
#include "tests/lib/meaning_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

struct count {
    int proven, changed, refused, failed, traffic, kept;
};

static int tensor_sums(const struct sn_job *j, int64_t *elements)
{
    int n = 0;
    *elements = 0;
    for (int i = 0; i < j->train.n_ops; i++) {
        const struct sn_op *op = &j->train.ops[i];
        if (!sn_op_row(op->kind)->moves || op->codable != 1 + SN_CODED_TENSOR ||
            !sn_op_meets_others(j, op))
            continue;
        n++;
        *elements += op->in[SN_MOVE_FROM].rows * op->in[SN_MOVE_FROM].cols;
    }
    return n;
}

static bool sends_the_same(const struct sn_job *a, const struct sn_job *b)
{
    int64_t x[SN_NAXES], y[SN_NAXES];
    sn_job_traffic_of_stage(a, x);
    sn_job_traffic_of_stage(b, y);
    for (int k = 0; k < SN_NAXES; k++)
        if (x[k] != y[k])
            return false;
    return true;
}

static void try(struct count *n, const struct layouts_line *line, int pieces)
{
    struct verify_world whole, w;
    struct sn_err err = {0};
    struct sn_config c = line->config;
    layouts_overlap(&c);
    c.layout.tensor_pieces = 1;
    bool good = verify_world_compile(&whole, &c);
    c.layout.tensor_pieces = pieces;
    if (sn_config_check_layout(&c, whole.ranks, &err) != SN_OK) {
        n->refused++;
        verify_world_fini(&whole);
        return;
    }
    good = verify_world_compile(&w, &c) && good;
    good = good && verify_all(&w, false, &err) == SN_OK &&
           (sn_meaning_gap(&c) || meaning_of(&w, false, &err) == SN_OK);
    if (!good)
        tap_ok(false, "%s in %d pieces is proven: %s", line->name, pieces, err.text);
    n->failed += !good;
    n->proven += good;
    if (good) {
        int64_t before = 0, after = 0;
        int posts = tensor_sums(whole.jobs[0], &before), now = tensor_sums(w.jobs[0], &after);
        n->changed += now > posts;
        n->kept += now == posts && posts > 0;
        n->traffic += before != after || !sends_the_same(whole.jobs[0], w.jobs[0]);
    }
    verify_world_fini(&w);
    verify_world_fini(&whole);
}

/* Every line with tensor ranks; every sixth, with ALL=1 all. */
static void the_matrix_in_pieces_is_proven(void)
{
    static const int pieces[] = {2, 3, 4};
    struct count n = {0};
    struct sn_err err = {0};
    struct layouts_line line;
    int more = 1, lines = 0;
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        if ((line.config.layout.tensor == 1 && line.config.layout.tensor_x == 1) ||
            (!getenv("ALL") && lines++ % 6 != 0))
            continue;
        try(&n, &line, pieces[(lines / 6) % 3]);
    }
    tap_ok(f && more == 0 && n.failed == 0 && n.proven >= (getenv("ALL") ? 60 : 15),
           "%d layouts are proven in pieces, %d not (%d are refused) %s", n.proven, n.failed,
           n.refused, err.text);
    tap_ok(n.changed >= n.proven - n.kept && n.kept <= 2, "%d have other texts, %d have not",
           n.changed, n.kept);
    tap_ok(n.traffic == 0, "they send what they send in one piece (%d do not)", n.traffic);
    if (f)
        (void)fclose(f);
}

int main(void)
{
    the_matrix_in_pieces_is_proven();
    return tap_done();
}
