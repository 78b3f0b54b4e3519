/*
 * generate.c - text that is generated row by row: the logits of `generate_row` beside those of `generate`.
 *
 * Both run once, on the same weights and tokens, as they are when a row is asked for. Of what the first
 * has kept the second finds the rows before its own, and nothing behind them.
 */
#include "lib/meaning/inner.h"

#include "lib/base/mem.h"

#include <string.h>

static void move_to_row(struct sn_view *v, int64_t row)
{
    if (v->index != SN_AT_ROW)
        return;
    v->offset += row * v->ld;
    v->index = SN_AT_FIXED;
}

/* A copy that borrows all but its operations, which the caller frees. */
static enum sn_status program_at(struct sn_program *out, const struct sn_program *p, int64_t row,
                                 struct sn_err *err)
{
    *out = *p;
    out->ops = sn_alloc_n((size_t)p->n_ops + 1, sizeof(*out->ops));
    if (!out->ops)
        return sn_fail(err, SN_ENOMEM, "meaning: no memory for the %s program", p->name);
    memcpy(out->ops, p->ops, (size_t)p->n_ops * sizeof(*out->ops));
    for (int i = 0; i < p->n_ops; i++) {
        struct sn_op *op = &out->ops[i];
        for (int k = 0; k < SN_MAX_IN; k++)
            move_to_row(&op->in[k], row);
        for (int k = 0; k < SN_MAX_OUT; k++)
            move_to_row(&op->out[k], row);
        if (op->at_row)
            op->attr.position.row0 = row;
    }
    return SN_OK;
}

/* Rows before `row` of what was kept. */
static enum sn_status take_past(struct sn_meaning *m, struct sn_rank *to, const struct sn_rank *from,
                                int64_t row)
{
    const struct sn_program *p = to->program;
    for (int b = to->job->past; b < p->n_state_bufs && p->bufs[b].cls == SN_CLASS_PAST; b++) {
        const struct sn_slabs *all = &from->held[from->first_held[b]];
        struct sn_slabs *held = &to->held[to->first_held[b]];
        struct sn_area before = {0, row, p->bufs[b].cols, p->bufs[b].cols};
        for (int i = 0; i < all->n; i++)
            (void)sn_slab_cut(held, &all->t[i], &before);
        if (held->failed)
            return sn_fail(m->err, SN_ENOMEM, "meaning: no memory for what was kept");
    }
    return SN_OK;
}

static enum sn_status run(struct sn_meaning *m, struct sn_rank *r)
{
    const struct sn_program *p = r->program;
    for (int i = 0; i < p->n_ops; i++) {
        struct sn_visit s = {.m = m, .r = r, .op = &p->ops[i], .number = i};
        sn_rule *rule = sn_rule_of(p->ops[i].kind);
        SN_TRY(rule ? rule(&s) : sn_visit_fault(&s, "has no rule; its meaning is not known"));
    }
    return SN_OK;
}

/* `rows`: of tokens that its experts route. */
static enum sn_status begin(struct sn_meaning *m, struct sn_rank *r, const struct sn_job *j,
                            const struct sn_program *p, int64_t rows)
{
    SN_TRY(sn_rank_init(m, r, j, p));
    r->routing.tokens = rows;
    return sn_rank_begin(m, r);
}

static enum sn_status compare(struct sn_meaning *m, const struct sn_rank *due, const struct sn_rank *is,
                              int64_t row)
{
    const struct sn_slabs *want = &due->held[due->first_held[due->program->logits]],
                          *have = &is->held[is->first_held[is->program->logits]];
    bool same = want->n > 0;
    for (int i = 0; i < want->n; i++)
        same = same && sn_holds(m, have, &want->t[i]);
    return same ? SN_OK
                : sn_fail(m->err, SN_EFAIL, "%s: row %lld has other logits than in its window",
                          is->program->name, (long long)row);
}

enum sn_status sn_meaning_generates(const struct sn_job *j, const struct sn_program *row_program,
                                    int64_t row, struct sn_err *err)
{
    struct sn_meaning m;
    struct sn_meaning_world w = {&j, 1, j};
    struct sn_rank r[2] = {{0}, {0}};
    struct sn_program p[2] = {{.n_ops = 0}, {.n_ops = 0}};
    enum sn_status st = sn_meaning_begin(&m, &w, err);
    const struct sn_program *of[] = {&j->generate, row_program ? row_program : &j->generate_row};
    for (int i = 0; i < 2 && st == SN_OK; i++) {
        st = program_at(&p[i], of[i], row, err);
        if (st == SN_OK)
            st = begin(&m, &r[i], j, &p[i], i == 0 ? j->config->model.seq : 1);
        if (st == SN_OK && i == 1)
            st = take_past(&m, &r[1], &r[0], row);
        if (st == SN_OK)
            st = run(&m, &r[i]);
    }
    if (st == SN_OK)
        st = compare(&m, &r[0], &r[1], row);
    for (int i = 0; i < 2; i++) {
        if (r[i].program)
            sn_rank_fini(&r[i]);
        sn_free(p[i].ops);
    }
    sn_meaning_end(&m);
    return st;
}
