/*
 * grad.c - backward text from forward text: one gradient rule per kind of operation.
 *
 * The forward operations are walked in reverse. A rule finds the gradient of its output in
 * gview[] and emits what produces the gradients of its inputs; where a part of such a gradient
 * exists already, it goes in as the addend of the new operation (or an ADD where the kind has
 * none). Input gradients come before weight gradients, so that a pipeline can send early.
 */
#include "lib/program/build.h"

typedef void grad_fn(struct sn_emit *e, const struct sn_op *f);

static bool wants(const struct sn_emit *e, struct sn_view v)
{
    return v.buf >= 0 && e->p->bufs[v.buf].needs_grad;
}

static int param_of(const struct sn_emit *e, struct sn_view v)
{
    return v.buf < 0 ? -1 : e->p->bufs[v.buf].param;
}

/* A fresh buffer for the gradient of v's buffer, in its shape. */
static int like(struct sn_emit *e, struct sn_view v)
{
    const struct sn_buffer *b = &e->p->bufs[v.buf];
    return sn_buffer_add(e->p, SN_CLASS_TEMP, b->dtype, b->rows, b->cols, "d.%.100s", b->name);
}

/* Take g as a contribution to the gradient of v's buffer. */
static void contribute(struct sn_emit *e, struct sn_view v, struct sn_view g)
{
    struct sn_view before = sn_grad_get(e, v.buf);
    if (before.buf < 0) {
        sn_grad_set(e, v.buf, g);
        return;
    }
    int sum = like(e, v);
    struct sn_op *op = sn_op_add(e->p, SN_OP_ADD, "sum.%.50s", e->p->bufs[v.buf].name);
    op->in[0] = before;
    op->in[1] = g;
    op->out[0] = sn_view_all(e->p, sum);
    sn_grad_set(e, v.buf, op->out[0]);
}

/* A weight-gradient operation's output. */
static void into_param(struct sn_emit *e, struct sn_op *op, int out, int param, bool flat)
{
    struct sn_view g = sn_param_grad(e, param, &op->acc[out]);
    op->out[out] = flat ? sn_view_flat(e->p, g.buf) : g;
}

static void grad_norm(struct sn_emit *e, const struct sn_op *f)
{
    bool rms = f->kind == SN_OP_RMSNORM;
    struct sn_view dy = sn_grad_get(e, f->out[0].buf);
    if (wants(e, f->in[0])) {
        int dx = like(e, f->in[0]);
        struct sn_op *op =
            sn_op_add(e->p, rms ? SN_OP_RMSNORM_DX : SN_OP_LAYERNORM_DX, "%.60s", f->label);
        op->in[0] = dy;
        op->in[1] = f->in[0];
        op->in[2] = f->in[1];
        op->in[3] = f->out[1];
        op->in[4] = sn_grad_get(e, f->in[0].buf);
        op->out[0] = sn_view_all(e->p, dx);
        op->attr = f->attr;
        sn_grad_set(e, f->in[0].buf, op->out[0]);
    }
    int w = param_of(e, f->in[1]), b = param_of(e, f->in[2]);
    if (!sn_param_trains(e, w) && !sn_param_trains(e, b))
        return;
    struct sn_op *op =
        sn_op_add(e->p, rms ? SN_OP_RMSNORM_DW : SN_OP_LAYERNORM_DW, "%.60s", f->label);
    op->in[0] = dy;
    op->in[1] = f->in[0];
    op->in[2] = f->out[1];
    op->attr = f->attr;
    if (sn_param_trains(e, w))
        into_param(e, op, 0, w, true);
    if (sn_param_trains(e, b))
        into_param(e, op, 1, b, true);
}

static void grad_gemm(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_view dy = sn_grad_get(e, f->out[0].buf);
    int w = param_of(e, f->in[1]), b = param_of(e, f->in[2]);
    if (wants(e, f->in[0])) {
        int dx = like(e, f->in[0]);
        struct sn_op *op = sn_op_add(e->p, SN_OP_GEMM, "%.60s.dx", f->label);
        op->in[0] = dy;
        op->in[1] = f->in[1];
        op->in[3] = sn_grad_get(e, f->in[0].buf);
        op->out[0] = sn_view_all(e->p, dx);
        sn_grad_set(e, f->in[0].buf, op->out[0]);
    }
    if (sn_param_trains(e, w)) {
        struct sn_op *op = sn_op_add(e->p, SN_OP_GEMM, "%.60s.dw", f->label);
        op->in[0] = dy;
        op->in[1] = f->in[0];
        op->attr.trans_a = true;
        into_param(e, op, 0, w, false);
    }
    if (sn_param_trains(e, b)) {
        struct sn_op *op = sn_op_add(e->p, SN_OP_COLSUM, "%.60s.db", f->label);
        op->in[0] = dy;
        into_param(e, op, 0, b, true);
    }
}

static void grad_attention(struct sn_emit *e, const struct sn_op *f)
{
    if (!wants(e, f->in[0]))
        return;
    int d = like(e, f->in[0]); /* q, k, v are columns of one buffer */
    struct sn_view dy = sn_grad_get(e, f->out[0].buf);
    struct sn_op *op = sn_op_add(e->p, SN_OP_ATTENTION_DX, "%.60s", f->label);
    for (int i = 0; i < 3; i++) {
        op->in[i] = f->in[i];
        op->out[i] = sn_view_cols(e->p, d, f->in[i].offset, f->in[i].cols);
    }
    op->in[3] = f->out[0];
    op->in[4] = dy;
    op->in[5] = f->out[1];
    op->attr = f->attr;
    contribute(e, f->in[0], sn_view_all(e->p, d));
}

/* y = f(x): one operation of gradient kind `kind`, reading dy and, when `saves`, x. */
static void unary(struct sn_emit *e, const struct sn_op *f, int kind, bool saves)
{
    if (!wants(e, f->in[0]))
        return;
    int dx = like(e, f->in[0]);
    struct sn_view dy = sn_grad_get(e, f->out[0].buf);
    struct sn_op *op = sn_op_add(e->p, kind, "%.60s", f->label);
    op->in[0] = dy;
    op->in[1] = saves ? f->in[0] : sn_no_view;
    op->out[0] = sn_view_all(e->p, dx);
    op->attr = f->attr;
    op->attr.inverse = kind == SN_OP_ROPE;
    contribute(e, f->in[0], sn_view_all(e->p, dx));
}

static void grad_rope(struct sn_emit *e, const struct sn_op *f)
{
    unary(e, f, SN_OP_ROPE, false);
}

static void grad_act(struct sn_emit *e, const struct sn_op *f)
{
    unary(e, f, SN_OP_ACT_DX, true);
}

static void grad_swiglu(struct sn_emit *e, const struct sn_op *f)
{
    unary(e, f, SN_OP_SWIGLU_DX, true);
}

static void grad_dropout(struct sn_emit *e, const struct sn_op *f)
{
    if (!wants(e, f->in[0]))
        return;
    int dx = like(e, f->in[0]);
    struct sn_op *op = sn_op_add(e->p, SN_OP_DROPOUT, "%.60s", f->label);
    op->in[0] = sn_grad_get(e, f->out[0].buf);
    op->in[1] = sn_grad_get(e, f->in[0].buf);
    op->out[0] = sn_view_all(e->p, dx);
    op->attr = f->attr;
    sn_grad_set(e, f->in[0].buf, op->out[0]);
}

static void grad_add(struct sn_emit *e, const struct sn_op *f)
{
    for (int i = 0; i < 2; i++) /* the same gradient goes both ways: no copy, an alias */
        if (wants(e, f->in[i]))
            contribute(e, f->in[i], sn_grad_get(e, f->out[0].buf));
}

static void grad_embed(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_view dy = sn_grad_get(e, f->out[0].buf);
    int w = param_of(e, f->in[1]), pos = param_of(e, f->in[2]);
    if (sn_param_trains(e, pos)) {
        struct sn_op *op = sn_op_add(e->p, SN_OP_POS_GRAD, "%.60s.pos", f->label);
        op->in[0] = dy;
        op->attr = f->attr;
        into_param(e, op, 0, pos, false);
    }
    if (!sn_param_trains(e, w))
        return;
    if (!e->grad_written[w]) { /* a scatter cannot initialise: an explicit zero does */
        struct sn_op *zero = sn_op_add(e->p, SN_OP_ZERO, "%.60s.zero", f->label);
        zero->when = SN_FIRST;
        into_param(e, zero, 0, w, false);
        zero->acc[0] = SN_ACC_WRITE;
    }
    struct sn_op *op = sn_op_add(e->p, SN_OP_EMBED_GRAD, "%.60s.dw", f->label);
    op->in[0] = f->in[0];
    op->in[1] = dy;
    op->attr = f->attr;
    into_param(e, op, 0, w, false);
    op->acc[0] = SN_ACC_ADD;
}

void sn_emit_backward(struct sn_emit *e, int first_op, int n_ops)
{
    static grad_fn *const rule[SN_NKINDS] = {
        [SN_OP_EMBED] = grad_embed,     [SN_OP_LAYERNORM] = grad_norm,
        [SN_OP_RMSNORM] = grad_norm,    [SN_OP_GEMM] = grad_gemm,
        [SN_OP_ROPE] = grad_rope,       [SN_OP_ATTENTION] = grad_attention,
        [SN_OP_ACT] = grad_act,         [SN_OP_SWIGLU] = grad_swiglu,
        [SN_OP_DROPOUT] = grad_dropout, [SN_OP_ADD] = grad_add,
    };
    for (int i = first_op + n_ops - 1; i >= first_op && !e->p->failed; i--) {
        struct sn_op f = e->p->ops[i]; /* a copy: emitting may move the array */
        /* The head's own operations lead to no gradient view: it has emitted its backward. */
        if (f.out[0].buf >= 0 && sn_grad_get(e, f.out[0].buf).buf >= 0 && rule[f.kind])
            rule[f.kind](e, &f);
    }
}
