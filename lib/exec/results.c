#include "lib/exec/results.h"

#include "lib/base/mem.h"
#include "lib/exec/exec_inner.h"

struct sn_results {
    sn_results_look *look;
    void *arg;
    int *op_of_id; /* -1: none */
};

enum sn_status sn_results_create(struct sn_results **out, struct sn_exec *x, sn_results_look *look,
                                 void *arg, struct sn_err *err)
{
    const struct sn_program *p = &x->job->train;
    struct sn_results *r = sn_alloc(sizeof(*r));
    if (!r || !(r->op_of_id = sn_alloc_n((size_t)p->next_id + 1, sizeof(int)))) {
        sn_results_destroy(r);
        return sn_fail(err, SN_ENOMEM, "results: no memory for %d operations", p->n_ops);
    }
    r->look = look;
    r->arg = arg;
    for (int i = 0; i < p->next_id; i++)
        r->op_of_id[i] = -1;
    for (int i = 0; i < p->n_ops; i++)
        r->op_of_id[p->ops[i].id] = i;
    *out = r;
    return SN_OK;
}

void sn_results_destroy(struct sn_results *r)
{
    if (r)
        sn_free(r->op_of_id);
    sn_free(r);
}

void sn_exec_set_results(struct sn_exec *x, struct sn_results *r)
{
    x->results = r;
}

bool sn_exec_has_results(const struct sn_exec *x)
{
    return !x->backend->has_idle;
}

static int operands(const struct sn_job *j, const struct sn_op *op)
{
    int n = 1; /* the scalars, of some */
    for (int o = 0; o < SN_MAX_OUT; o++)
        n += op->out[o].buf >= 0;
    return sn_exec_has_rows(op) ? j->group_size[op->group] * 2 : n;
}

int64_t sn_results_most(const struct sn_job *j)
{
    const struct sn_program *p = &j->train;
    int64_t n = 0;
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_sched *c = &p->sched[i];
        const struct sn_at at = {.micro = c->micro, .micros = p->micros};
        for (int k = c->first; k < c->first + c->n; k++)
            n += sn_exec_due(&p->ops[k], &at) ? operands(j, &p->ops[k]) : 0;
    }
    return n;
}

/* --- rows that are there ---------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t last_bound(const struct sn_mat *bounds)
{
    return ((const int32_t *)bounds->p)[bounds->cols - 1];
}

/* Rows that tokens have places in. */
static int64_t rows_with_places(const struct sn_mat *place)
{
    int64_t most = -1;
    for (int64_t i = 0; i < place->rows; i++)
        for (int64_t k = 0; k < place->cols; k++) {
            int64_t to = ((const int32_t *)place->p)[i * place->ld + k];
            most = to > most ? to : most;
        }
    return most + 1;
}

/* Of a result, rows from the first one on that the operation has defined. */
static int64_t rows_of(const struct sn_op *op, const struct sn_args *a, int out)
{
    int64_t rows = a->out[out].rows;
    switch (op->kind) {
    case SN_OP_DISPATCH:
        return least(rows, rows_with_places(&a->in[SN_DISPATCH_PLACE]));
    case SN_OP_SWIGLU:
        return a->in[SN_SWIGLU_BOUNDS].p ? least(rows, last_bound(&a->in[SN_SWIGLU_BOUNDS])) : rows;
    case SN_OP_SWIGLU_DX:
        return a->in[SN_SWIGLU_DX_BOUNDS].p ? least(rows, last_bound(&a->in[SN_SWIGLU_DX_BOUNDS]))
                                            : rows;
    case SN_OP_EXPERT_GEMM: /* those of weights are there, all of them */
        return op->attr.gemm.trans_a ? rows
                                     : least(rows, last_bound(&a->in[SN_EXPERT_GEMM_BOUNDS]));
    case SN_OP_DECODE: /* streams of some rows, or of none */
        return op->attr.stream.marked || a->in[SN_DECODE_BOUNDS].p ? 0 : rows;
    default:
        return rows;
    }
}

/* --- telling ---------------------------------------------------------------------------------- */

static void tell(const struct sn_exec *x, struct sn_result *r)
{
    if (r->m.p && r->m.rows > 0 && r->m.cols > 0)
        x->results->look(x->results->arg, r);
}

/* What gradients are scaled with is that of the step before until CLIP_SCALE. */
static void tell_scalars(struct sn_exec *x, const struct sn_op *op, struct sn_result r)
{
    const struct sn_scalars *s = sn_exec_scalars(x);
    double of[SN_RESULT_SCALARS] = {s->loss_sum, s->balance_sum, s->z_sum, s->sq_norm,
                                    op->kind == SN_OP_CLIP_SCALE ? (double)s->grad_scale : 0};
    r.out = SN_RESULT_OF_SCALARS;
    r.m = (struct sn_mat){of, SN_F64, 1, SN_RESULT_SCALARS, SN_RESULT_SCALARS};
    tell(x, &r);
}

static void tell_part(const struct sn_exec *x, struct sn_result *r, const struct sn_mat *all,
                      struct sn_exchange_rows rows)
{
    r->m = *all;
    r->m.p = (char *)all->p + rows.at * all->ld * (int64_t)sn_dtype_size(all->dtype);
    r->m.rows = rows.n;
    tell(x, r);
    r->part++;
}

/* Rows of several members, whose number was known when they were sent. */
static void tell_rows(const struct sn_exec *x, struct sn_result r, const struct sn_op *op,
                      const struct sn_mat *all, const struct sn_exchange *e)
{
    struct sn_exchange_rows rows;
    if (op->kind == SN_OP_GATHER_ROWS && e->back) {
        rows = (struct sn_exchange_rows){0, sn_exchange_share(e, e->share).n};
        tell_part(x, &r, all, rows);
    } else if (op->kind == SN_OP_GATHER_ROWS) {
        for (int s = 0; s < e->shares; s++)
            tell_part(x, &r, all, sn_exchange_share(e, s));
    } else {
        for (int m = 0; m < sn_exchange_size(e); m++) {
            struct sn_exchange_walk w = {.member = m, .arrives = true};
            while (sn_exchange_next(e, &w, &rows))
                tell_part(x, &r, all, rows);
        }
    }
}

/* What has come, or been copied where the group has one member. */
static void tell_message(struct sn_exec *x, const struct sn_program *p, struct sn_result r,
                         const struct sn_at *at)
{
    const struct sn_op *op = &p->ops[r.op];
    struct sn_mat all = sn_exec_resolve(x, p, &op->out[SN_MOVE_TO], at);
    if (op->out[SN_MOVE_TO].buf < 0 || op->is_coded)
        return;
    r.out = SN_MOVE_TO;
    r.m = all;
    if (!sn_exec_has_rows(op))
        tell(x, &r);
    else if (sn_op_meets_others(x->job, op)) /* alone: rows that were told when they were made */
        tell_rows(x, r, op, &all,
                  &x->requests[sn_exec_request_place(x, op, op->id, at->slot)].exchange);
}

void sn_results_tell(struct sn_exec *x, const struct sn_program *p, int i, const struct sn_at *at)
{
    const struct sn_op *op = &p->ops[i];
    struct sn_args a;
    if (!x->results || p != &x->job->train)
        return;
    struct sn_result r = {.entry = x->entry, .op = i, .micro = at->micro, .round = at->round};
    if (op->kind == SN_OP_WAIT) {
        r.op = x->results->op_of_id[op->waits_for];
        if (r.op >= 0 && sn_op_meets_others(x->job, &p->ops[r.op]))
            tell_message(x, p, r, at);
        return;
    }
    if (op->kind == SN_OP_AGREE)
        tell_scalars(x, op, r);
    else if (sn_op_row(op->kind)->moves && !sn_op_meets_others(x->job, op))
        tell_message(x, p, r, at);
    if (op->kind >= SN_NKERNELS)
        return;
    sn_exec_args(x, p, op, at, &a);
    for (r.out = 0; r.out < SN_MAX_OUT; r.out++) {
        r.m = a.out[r.out];
        r.m.rows = r.m.p ? rows_of(op, &a, r.out) : 0;
        tell(x, &r);
    }
    if (op->kind == SN_OP_SQ_NORM || op->kind == SN_OP_CLIP_SCALE || op->kind == SN_OP_ROUTE_LOSS)
        tell_scalars(x, op, r);
}
