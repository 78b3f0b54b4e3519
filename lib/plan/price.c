/*
 * price.c - seconds of operations: a roofline with efficiencies, and alpha-beta collectives.
 */
#include "lib/plan/price.h"

#include "lib/plan/cost.h"

#include <math.h>

/* --- kernels ---------------------------------------------------------------------------------- */

static enum sn_moved moved_of(int kind)
{
    switch (kind) {
    case SN_OP_LAYERNORM:
    case SN_OP_LAYERNORM_DX:
    case SN_OP_LAYERNORM_DW:
    case SN_OP_RMSNORM:
    case SN_OP_RMSNORM_DX:
    case SN_OP_RMSNORM_DW:
        return SN_MOVED_NORM;
    case SN_OP_CROSS_ENTROPY:
    case SN_OP_CE_PART:
        return SN_MOVED_LOSS;
    case SN_OP_SQ_NORM:
    case SN_OP_DECIDE:
    case SN_OP_ADAMW:
        return SN_MOVED_UPDATE;
    default:
        return SN_MOVED_ELEMENTWISE;
    }
}

static int64_t elements(const struct sn_view *v)
{
    return v->buf < 0 ? 0 : v->rows * v->cols;
}

void sn_price_shape(const struct sn_program *prog, const struct sn_op *op, int64_t *m, int64_t *n,
                    int64_t *k)
{
    (void)prog;
    *m = *n = *k = 0;
    if (op->kind == SN_OP_GEMM) {
        *m = op->out[0].rows;
        *n = op->out[0].cols;
        *k = op->attr.trans_a ? op->in[0].rows : op->in[0].cols;
        return;
    }
    if (op->kind == SN_OP_ATTENTION || op->kind == SN_OP_ATTENTION_DX) {
        *m = op->in[0].rows;
        *n = (int64_t)op->attr.heads * op->attr.head_dim;
        *k = op->attr.seq;
        return;
    }
    for (int i = 0; i < SN_MAX_IN; i++)
        *m = elements(&op->in[i]) > *m ? elements(&op->in[i]) : *m;
    for (int o = 0; o < SN_MAX_OUT; o++)
        *m = elements(&op->out[o]) > *m ? elements(&op->out[o]) : *m;
}

static double ratio(double half, int64_t size)
{
    return half > 0 && size > 0 ? half / (double)size : 0;
}

/* FLOP/s of an operation, by the formulas of machine.h. */
static double rate(const struct sn_pricer *p, const struct sn_program *prog, const struct sn_op *op)
{
    const struct sn_device *d = &p->machine->device;
    int64_t m, n, k;
    if (d->rate_of[op->kind] > 0)
        return d->rate_of[op->kind];
    sn_price_shape(prog, op, &m, &n, &k);
    int buf = op->in[0].buf;
    enum sn_dtype t = buf < 0 ? p->precision : prog->bufs[buf].dtype;
    const struct sn_gemm_rate *g = &d->gemm[(int)t < SN_NPRECISIONS ? t : p->precision];
    if (op->kind == SN_OP_GEMM)
        return g->peak * g->most /
               (1 + ratio(g->half_m, m) + ratio(g->half_n, n) + ratio(g->half_k, k));
    double part = op->kind == SN_OP_ATTENTION ? d->attention_forward : d->attention_backward;
    return g->peak * part / (1 + ratio(d->attention_half_seq, op->attr.seq));
}

double sn_price_op(const struct sn_pricer *p, const struct sn_program *prog, const struct sn_op *op)
{
    const struct sn_device *d = &p->machine->device;
    if (op->kind >= SN_NKERNELS)
        return 0;
    double flops = sn_op_flops(op), arithmetic = flops > 0 ? flops / rate(p, prog, op) : 0;
    double bytes = (double)sn_cost_bytes(prog, op), part = 1;
    if (flops <= 0) {
        part = d->moved[moved_of(op->kind)];
        bytes += d->half_bytes;
    }
    return d->overhead + fmax(arithmetic, bytes / (d->bandwidth * part));
}

/* --- communication ---------------------------------------------------------------------------- */

/* Of the group of rank 0: every group of a kind lies alike where domains divide the strides. */
void sn_span_of(struct sn_span *out, const struct sn_machine *m, const struct sn_grid *g,
                enum sn_group q)
{
    *out = (struct sn_span){.members = sn_group_size(g, 0, q)};
    int64_t below = 1;
    for (int i = 0; i < m->n_levels; i++) {
        int64_t last = -1, here = m->level[i].ranks;
        for (int j = 0; j < out->members; j++) {
            int64_t rank = sn_group_member(g, 0, q, j), domain = rank / below;
            if ((here && rank / here > 0) || domain == last)
                continue;
            out->at[i]++;
            last = domain;
        }
        out->sharing[i] = (int)below;
        below = here;
    }
}

void sn_pricer_init(struct sn_pricer *out, const struct sn_machine *m, const struct sn_software *s,
                    const struct sn_job *j)
{
    *out = (struct sn_pricer){.machine = m,
                              .software = s,
                              .precision = j->config->train.precision,
                              .grid = j->grid,
                              .threads = j->threads};
    for (int q = 0; q < SN_NGROUPS; q++)
        sn_span_of(&out->span[q], m, &j->grid, (enum sn_group)q);
}

/* Alpha-beta over the slowest level that the group uses: a ring of all members. */
double sn_price_collective(const struct sn_pricer *p, enum sn_collective kind, int64_t n,
                           enum sn_dtype dtype, enum sn_group q)
{
    const struct sn_span *s = &p->span[q];
    double bytes = (double)sn_collective_bytes(kind, n, dtype, s->members, 0), worst = 0;
    if (kind == SN_RECV || s->members < 2)
        return 0;
    int steps = kind == SN_SEND ? 1 : kind == SN_ALL_REDUCE ? 2 * (s->members - 1) : s->members - 1;
    for (int i = 0; i < p->machine->n_levels; i++) {
        const struct sn_level *l = &p->machine->level[i];
        if (s->at[i] < 2)
            continue;
        double width = l->domain > 0 ? fmin(l->device, l->domain / s->sharing[i]) : l->device;
        worst = fmax(worst, steps * l->latency + (bytes + l->half_bytes) / (width * l->efficiency));
    }
    return worst;
}

double sn_price_comm(const struct sn_pricer *p, const struct sn_program *prog,
                     const struct sn_op *op)
{
    enum sn_collective kind;
    int64_t n;
    if (!sn_op_collective(op, &kind, &n))
        return 0;
    int buf = kind == SN_RECV ? op->out[0].buf : op->in[0].buf;
    return sn_price_collective(p, kind, n, prog->bufs[buf].dtype, op->group);
}

/* All of an axis' bytes cross the outermost level that its group uses. */
void sn_price_levels(const struct sn_pricer *p, const struct sn_job *stage,
                     int64_t bytes[SN_MAX_LEVELS])
{
    int64_t axis[SN_NAXES];
    int top[SN_NAXES] = {0};
    sn_job_traffic_of_stage(stage, axis);
    for (int q = 0; q < SN_NGROUPS; q++)
        for (int i = 0; i < p->machine->n_levels; i++)
            if (p->span[q].at[i] > 1 && i > top[sn_group_axis((enum sn_group)q)])
                top[sn_group_axis((enum sn_group)q)] = i;
    for (int i = 0; i < SN_MAX_LEVELS; i++)
        bytes[i] = 0;
    for (int a = 0; a < SN_NAXES; a++)
        bytes[top[a]] += axis[a];
}
