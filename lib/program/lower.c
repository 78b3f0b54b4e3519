/*
 * lower.c - model nodes to forward operations.
 *
 * One function per kind of node. A lowering of another axis replaces or wraps these functions; the
 * model does not change.
 */
#include "lib/program/build.h"

typedef void lower_fn(struct sn_emit *e, const struct sn_node *n);

static int rows_of(const struct sn_emit *e)
{
    return (int)e->job->rows;
}

/* The buffer for a node's result. It needs a gradient when anything trainable lies upstream. */
static int result(struct sn_emit *e, const struct sn_node *n)
{
    int64_t cols = e->job->model->values[n->out].cols;
    int b = sn_buffer_add(e->p, SN_CLASS_TEMP, e->job->dtype, rows_of(e), cols, "%s", n->point);
    if (e->p->failed)
        return b;
    bool needs = false;
    for (int i = 0; i < 2; i++) {
        needs = needs || sn_param_trains(e, n->param[i]);
        needs = needs || (n->in[i] >= 0 && e->p->bufs[e->value_buf[n->in[i]]].needs_grad);
    }
    e->p->bufs[b].needs_grad = needs;
    e->value_buf[n->out] = b;
    return b;
}

static struct sn_view input(const struct sn_emit *e, const struct sn_node *n, int i)
{
    return sn_view_all(e->p, e->value_buf[n->in[i]]);
}

static struct sn_view vector(const struct sn_emit *e, int param)
{
    return param < 0 ? sn_no_view : sn_view_flat(e->p, sn_weight(e, param));
}

static void lower_embed(struct sn_emit *e, const struct sn_node *n)
{
    int y = result(e, n);
    struct sn_op *op = sn_op_add(e->p, SN_OP_EMBED, "%s", n->point);
    op->in[0] = sn_view_rows(e->p, e->job->ids, 0, e->job->rows);
    op->in[0].index = SN_AT_MICRO;
    op->in[0].stride = e->job->rows;
    op->in[1] = sn_view_all(e->p, sn_weight(e, n->param[0]));
    op->in[2] = n->param[1] < 0 ? sn_no_view : sn_view_all(e->p, sn_weight(e, n->param[1]));
    op->out[0] = sn_view_all(e->p, y);
    op->attr = n->attr;
}

static void lower_norm(struct sn_emit *e, const struct sn_node *n)
{
    bool rms = n->kind == SN_NODE_RMSNORM;
    int y = result(e, n);
    int stats =
        sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, e->job->rows, rms ? 1 : 2, "%s.stats", n->point);
    struct sn_op *op = sn_op_add(e->p, rms ? SN_OP_RMSNORM : SN_OP_LAYERNORM, "%s", n->point);
    op->in[0] = input(e, n, 0);
    op->in[1] = vector(e, n->param[0]);
    op->in[2] = vector(e, n->param[1]);
    op->out[0] = sn_view_all(e->p, y);
    op->out[1] = sn_view_all(e->p, stats);
    op->attr = n->attr;
}

static void lower_linear(struct sn_emit *e, const struct sn_node *n)
{
    int y = result(e, n);
    struct sn_op *op = sn_op_add(e->p, SN_OP_GEMM, "%s", n->point);
    op->in[0] = input(e, n, 0);
    op->in[1] = sn_view_all(e->p, sn_weight(e, n->param[0]));
    op->in[2] = vector(e, n->param[1]);
    op->out[0] = sn_view_all(e->p, y);
    op->attr.trans_b = true;
}

static void lower_attention(struct sn_emit *e, const struct sn_node *n)
{
    int64_t q = (int64_t)n->attr.heads * n->attr.head_dim;
    int64_t kv = (int64_t)n->attr.kv_heads * n->attr.head_dim;
    int qkv = e->value_buf[n->in[0]];
    int y = result(e, n);
    int lse =
        sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, e->job->rows, n->attr.heads, "%s.lse", n->point);
    struct sn_op *op = sn_op_add(e->p, SN_OP_ATTENTION, "%s", n->point);
    op->in[0] = sn_view_cols(e->p, qkv, 0, q);
    op->in[1] = sn_view_cols(e->p, qkv, q, kv);
    op->in[2] = sn_view_cols(e->p, qkv, q + kv, kv);
    op->out[0] = sn_view_all(e->p, y);
    op->out[1] = sn_view_all(e->p, lse);
    op->attr = n->attr;
    if (!e->train)
        op->attr.drop = 0;
}

static void lower_elementwise(struct sn_emit *e, const struct sn_node *n)
{
    static const int kind[SN_NNODES] = {[SN_NODE_ROPE] = SN_OP_ROPE,
                                        [SN_NODE_ACT] = SN_OP_ACT,
                                        [SN_NODE_SWIGLU] = SN_OP_SWIGLU,
                                        [SN_NODE_ADD] = SN_OP_ADD};
    int y = result(e, n);
    struct sn_op *op = sn_op_add(e->p, kind[n->kind], "%s", n->point);
    for (int i = 0; i < 2; i++)
        op->in[i] = n->in[i] < 0 ? sn_no_view : input(e, n, i);
    op->out[0] = sn_view_all(e->p, y);
    op->attr = n->attr;
}

static void lower_dropout(struct sn_emit *e, const struct sn_node *n)
{
    if (!e->train) { /* evaluation keeps everything: the value is its input */
        e->value_buf[n->out] = e->value_buf[n->in[0]];
        return;
    }
    int y = result(e, n);
    struct sn_op *op = sn_op_add(e->p, SN_OP_DROPOUT, "%s", n->point);
    op->in[0] = input(e, n, 0);
    op->out[0] = sn_view_all(e->p, y);
    op->attr = n->attr;
}

void sn_lower_forward(struct sn_emit *e)
{
    static lower_fn *const lower[SN_NNODES] = {
        [SN_NODE_EMBED] = lower_embed,       [SN_NODE_LAYERNORM] = lower_norm,
        [SN_NODE_RMSNORM] = lower_norm,      [SN_NODE_LINEAR] = lower_linear,
        [SN_NODE_ROPE] = lower_elementwise,  [SN_NODE_ATTENTION] = lower_attention,
        [SN_NODE_ACT] = lower_elementwise,   [SN_NODE_SWIGLU] = lower_elementwise,
        [SN_NODE_ADD] = lower_elementwise,   [SN_NODE_DROPOUT] = lower_dropout,
        [SN_NODE_HEAD_LOSS] = sn_lower_head,
    };
    const struct sn_model *m = e->job->model;
    e->value_buf[m->nodes[0].in[0]] = e->job->ids;
    for (int i = 0; i < m->n_nodes && !e->p->failed; i++)
        lower[m->nodes[i].kind](e, &m->nodes[i]);
}
