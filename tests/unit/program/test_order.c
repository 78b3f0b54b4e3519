/*
 * The pass that orders operations (lib/program/order.c): on every layout of the table marked fast it
 * leaves the same operations, no two that touch the same memory change places unless both read, and
 * all ranks of a stage find the same order.
 *
 * usage: test_order    of a layout of more than four ranks the first two, the last two and every third; ALL=1: all ranks
 */
#include "lib/config/config.h"
#include "lib/program/opinfo.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"

#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { NDEAR = 2 }; /* messages that cost little, and much */

struct text {
    struct sn_model *model;
    struct sn_job *job;
};

static void text_fini(struct text *t)
{
    sn_job_destroy(t->job);
    sn_model_destroy(t->model);
}

/* Of one rank; messages are dear, or as dear as computing. */
static bool text_of(struct text *t, struct sn_config *c, int rank, double dear)
{
    struct sn_err err;
    c->layout.tensor_pieces = 1;         /* with pieces there are more of them */
    c->layout.overlap = SN_OVERLAP_AUTO; /* which defers gathers, whatever the rates are */
    c->overlap_rates = (struct sn_overlap_rates){.flops = dear > 0 ? 1e9 : 0, .bytes = 1e9};
    for (int q = 0; q < SN_NGROUPS; q++) {
        c->overlap_rates.start[q] = 1e-6 * dear;
        c->overlap_rates.link[q] = 1e9 / (dear > 0 ? dear : 1);
    }
    *t = (struct text){0};
    if (sn_model_create(&t->model, &c->model, &c->train, &err) != SN_OK)
        return false;
    struct sn_job_env env = {
        .config = c, .model = t->model, .ops = sn_ops_cpu(), .threads = 1, .rank = rank};
    bool good = sn_job_create(&t->job, &env, &err) == SN_OK;
    if (!good) {
        printf("# %s\n", err.text);
        text_fini(t);
    }
    return good;
}

/* --- which operations touch the same ---------------------------------------------------------- */

static int root(const struct sn_program *p, int buf)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == SN_OP_ALIAS && p->ops[i].out[0].buf == buf)
            return root(p, p->ops[i].in[0].buf);
    return buf;
}

static const struct sn_op *by_id(const struct sn_program *p, int id)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].id == id)
            return &p->ops[i];
    return NULL;
}

/* 0: not at all; 1: reads; 2: writes. */
static int how(const int *roots, const struct sn_program *p, const struct sn_op *op, int buf)
{
    int most = 0;
    for (int k = 0; k < SN_MAX_IN; k++)
        if (op->in[k].buf >= 0 && roots[op->in[k].buf] == buf)
            most = 1;
    for (int k = 0; k < SN_MAX_OUT; k++)
        if (op->out[k].buf >= 0 && roots[op->out[k].buf] == buf)
            most = 2;
    if (op->kind != SN_OP_WAIT)
        return most;
    const struct sn_op *posted = by_id(p, op->waits_for);
    return most || how(roots, p, posted, buf) ? 2 : 0;
}

static bool in_conflict(const int *roots, const struct sn_program *p, const struct sn_op *a,
                        const struct sn_op *b)
{
    for (int k = 0; k < SN_MAX_IN + SN_MAX_OUT; k++) {
        const struct sn_op *x = a->kind == SN_OP_WAIT ? by_id(p, a->waits_for) : a;
        int buf = k < SN_MAX_IN ? x->in[k].buf : x->out[k - SN_MAX_IN].buf;
        if (buf < 0)
            continue;
        int one = how(roots, p, a, roots[buf]), other = how(roots, p, b, roots[buf]);
        if (other && (one == 2 || other == 2))
            return true;
    }
    return false;
}

/* --- a line of the table ---------------------------------------------------------------------- */

struct count {
    int texts, moved, lost, broken, torn, apart;
    char where[160];
};

static void note(struct count *n, int *which, const char *line, const struct sn_op *op)
{
    if (n->where[0] == '\0')
        (void)snprintf(n->where, sizeof(n->where), "%s, %s %s", line, sn_op_name(op->kind),
                       op->label);
    (*which)++;
}

/* Rounds that are repeated together still stand together. */
static int runs_of_extra(const struct sn_program *p, const struct sn_segment *s)
{
    int runs = 0;
    for (int i = s->first; i < s->first + s->n; i++)
        runs += p->ops[i].extra && (i == s->first || !p->ops[i - 1].extra);
    return runs;
}

static void compare_segment(struct count *n, const char *line, const struct sn_program *p,
                            const struct sn_program *q, const struct sn_segment *s,
                            const int *roots, int *at)
{
    bool moved = false;
    for (int i = s->first; i < s->first + s->n; i++)
        at[q->ops[i].id] = i;
    for (int i = s->first; i < s->first + s->n; i++) {
        const struct sn_op *a = &p->ops[i];
        if (at[a->id] < 0) {
            note(n, &n->lost, line, a);
            return;
        }
        moved |= at[a->id] != i;
        for (int k = i + 1; k < s->first + s->n; k++)
            if (at[p->ops[k].id] >= 0 && at[p->ops[k].id] < at[a->id] &&
                in_conflict(roots, p, a, &p->ops[k]))
                note(n, &n->broken, line, a);
    }
    n->moved += moved;
    if (runs_of_extra(p, s) != runs_of_extra(q, s))
        note(n, &n->torn, line, &p->ops[s->first]);
}

static void compare(struct count *n, const char *line, const struct sn_program *p,
                    const struct sn_program *q)
{
    int *roots = sn_alloc_n((size_t)p->n_bufs + 1, sizeof(*roots)),
        *at = sn_alloc_n((size_t)p->next_id + 1, sizeof(*at));
    n->texts++;
    if (!roots || !at || p->n_ops != q->n_ops || p->n_segments != q->n_segments)
        note(n, &n->lost, line, &p->ops[0]);
    else {
        for (int b = 0; b < p->n_bufs; b++)
            roots[b] = root(p, b);
        memset(at, -1, ((size_t)p->next_id + 1) * sizeof(*at));
        for (int s = 0; s < p->n_segments; s++)
            compare_segment(n, line, p, q, &p->segments[s], roots, at);
    }
    sn_free(roots);
    sn_free(at);
}

/* The text as it was, which rates do not change, is needed where orders are compared. */
static void try_rank(struct count *n, struct layouts_line *line, int rank, const double *dear,
                     const struct text *plain, uint64_t hash[][16])
{
    for (int d = 0; d < NDEAR; d++) {
        struct text ordered;
        if (!text_of(&ordered, &line->config, rank, dear[d])) {
            n[d].lost++;
            continue;
        }
        uint64_t mine = sn_program_hash(&ordered.job->train), *all = &hash[d][ordered.job->stage];
        n[d].apart += *all != 0 && *all != mine;
        *all = mine;
        if (plain)
            compare(&n[d], line->name, &plain->job->train, &ordered.job->train);
        text_fini(&ordered);
    }
}

static void try_line(struct count *n, struct layouts_line *line, const double *dear)
{
    int ranks = sn_config_ranks(&line->config), stages = line->config.layout.pipeline;
    uint64_t hash[NDEAR][16] = {0};
    for (int r = 0; r < ranks && stages <= 16; r++) {
        struct text plain;
        if (r > 1 && r < ranks - 2 && r % 3 != 0 && !getenv("ALL"))
            continue;
        bool is_compared = r == 0 || r == ranks - 1;
        if (is_compared && !text_of(&plain, &line->config, r, 0)) {
            n[0].lost++;
            continue;
        }
        try_rank(n, line, r, dear, is_compared ? &plain : NULL, hash);
        if (is_compared)
            text_fini(&plain);
    }
}

static void every_layout_is_computed_in_a_legal_order(void)
{
    static const double dear[NDEAR] = {0.1, 100};
    struct sn_err err;
    struct count all[NDEAR] = {0};
    struct layouts_line *line = sn_alloc(sizeof(*line));
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && line && layouts_next(f, line, &err) == 1)
        if (line->fast)
            try_line(all, line, dear);
    if (f)
        (void)fclose(f);
    sn_free(line);
    for (int d = 0; d < NDEAR; d++) {
        struct count n = all[d];
        tap_ok(n.texts >= 250 && n.lost == 0, "%d texts keep their operations (%d do not: %s)",
               n.texts, n.lost, n.where);
        tap_ok(n.broken == 0, "what touches the same stays in order (%d do not: %s)", n.broken,
               n.where);
        tap_ok(n.torn == 0, "further rounds stay together (%d do not: %s)", n.torn, n.where);
        tap_ok(n.apart == 0, "ranks of a stage find the same order (%d do not)", n.apart);
        tap_ok(n.moved >= 200, "%d segments are in another order", n.moved);
    }
}

int main(void)
{
    every_layout_is_computed_in_a_legal_order();
    return tap_done();
}
