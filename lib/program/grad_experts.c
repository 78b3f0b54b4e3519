/*
 * grad_experts.c - backward of routing: the rows of experts go back the way they came.
 *
 *   combine      y[t] = sum_j w[t,j] x[place]     dx = dispatch(dy, w),  dw[t,j] = dy[t] . x[place]
 *   dispatch     y[place] = x[t]                  dx[t] = sum_j dy[place]: combine without weights
 *   expert_gemm  as GEMM, segment by segment
 *   route        softmax of the chosen logits, and the losses
 */
#include "lib/program/build.h"

static bool wants(const struct sn_emit *e, struct sn_view v)
{
    return v.buf >= 0 && e->p->bufs[v.buf].needs_grad;
}

void sn_grad_combine(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_program *p = e->p;
    struct sn_view dy = sn_grad_get(e, f->out[0].buf);
    if (wants(e, f->in[2])) {
        int dw = sn_buffer_like(p, f->in[2].buf, "d");
        struct sn_op *op = sn_op_add(p, SN_OP_COMBINE_DW, "%.60s.dw", f->label);
        op->in[0] = dy;
        op->in[1] = f->in[0];
        op->in[2] = f->in[1];
        op->out[0] = sn_view_all(p, dw);
        sn_grad_set(e, f->in[2].buf, sn_view_all(p, dw));
    }
    if (!wants(e, f->in[0]))
        return;
    int dx = sn_buffer_like(p, f->in[0].buf, "d");
    struct sn_op *op = sn_op_add(p, SN_OP_DISPATCH, "%.60s.dx", f->label);
    op->in[0] = dy;
    op->in[1] = f->in[1];
    op->in[2] = f->in[2];
    op->out[0] = sn_view_all(p, dx);
    sn_grad_set(e, f->in[0].buf, sn_view_all(p, dx));
}

void sn_grad_dispatch(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_program *p = e->p;
    if (!wants(e, f->in[0]))
        return;
    struct sn_view dy = sn_grad_get(e, f->out[0].buf);
    int dx = sn_buffer_like(p, f->in[0].buf, "d");
    struct sn_op *op = sn_op_add(p, SN_OP_COMBINE, "%.60s.dx", f->label);
    op->in[0] = dy;
    op->in[1] = f->in[1];
    op->in[3] = sn_grad_get(e, f->in[0].buf);
    op->out[0] = sn_view_all(p, dx);
    sn_grad_set(e, f->in[0].buf, sn_view_all(p, dx));
}

void sn_grad_expert_gemm(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_program *p = e->p;
    struct sn_view dy = sn_grad_get(e, f->out[0].buf);
    int w = sn_part_of(e, f->in[1]);
    if (wants(e, f->in[0])) {
        int dx = sn_buffer_like(p, f->in[0].buf, "d");
        struct sn_op *op = sn_op_add(p, SN_OP_EXPERT_GEMM, "%.58s.dx", f->label);
        op->in[0] = dy;
        op->in[1] = f->in[1];
        op->in[2] = f->in[2];
        op->out[0] = sn_view_all(p, dx);
        op->attr.experts = f->attr.experts;
        op->attr.rows = f->attr.rows;
        sn_grad_set(e, f->in[0].buf, sn_view_all(p, dx));
    }
    if (!sn_part_trains(e, w))
        return;
    sn_part_ready(e, w);
    struct sn_op *op = sn_op_add(p, SN_OP_EXPERT_GEMM, "%.58s.dw", f->label);
    op->in[0] = dy;
    op->in[1] = f->in[0];
    op->in[2] = f->in[2];
    op->attr.trans_a = true;
    op->attr.experts = f->attr.experts;
    op->attr.rows = f->attr.rows;
    sn_into_part(e, op, 0, w, false);
    sn_part_used(e, w);
}

/* The counts that the losses saw: those of all replicas, where they were summed. */
static struct sn_view counts_of(const struct sn_emit *e, const struct sn_op *f)
{
    struct sn_view counts = f->out[2];
    for (int i = e->unit_begin; i < e->unit_end; i++)
        if (e->p->ops[i].kind == SN_OP_ALL_REDUCE && e->p->ops[i].in[0].buf == counts.buf)
            return e->p->ops[i].out[0];
    return counts;
}

void sn_grad_route(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_program *p = e->p;
    if (!wants(e, f->in[0]))
        return;
    struct sn_buffer logits = p->bufs[f->in[0].buf];
    int dx = sn_buffer_add(p, SN_CLASS_TEMP, e->job->dtype, logits.rows, logits.cols, "d.%.90s",
                           logits.name);
    struct sn_op *op = sn_op_add(p, SN_OP_ROUTE_DX, "%.60s", f->label);
    op->in[0] = sn_grad_get(e, f->out[0].buf);
    op->in[1] = f->in[0];
    op->in[2] = f->out[1];
    if (f->attr.aux_loss > 0 || f->attr.z_loss > 0)
        op->in[3] = counts_of(e, f);
    op->in_first = 1u << 3; /* the losses once, then summed over ranks */
    op->out[0] = sn_view_all(p, dx);
    op->attr = f->attr;
    sn_grad_set(e, f->in[0].buf, sn_view_all(p, dx));
}
