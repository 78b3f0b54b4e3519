/*
 * lower.c - model nodes to forward operations.
 *
 * One function per kind of node. A node's cut (lib/layout/cut.h) says in which form it takes its
 * input over the tensor axis and in which it gives its output; a node without a cut works on what
 * stands between blocks (sn_region), or on the features that its input has. sn_take inserts the
 * move. The model does not change when an axis is added.
 */
#include "lib/program/build.h"

#include "lib/layout/cut.h"

#include <assert.h>

static const struct sn_layout_form same = {SN_SAME, SN_ROWS}, partial = {SN_PARTIAL, SN_ROWS},
                                   features = {SN_SPLIT, SN_COLS};

static bool equal(struct sn_layout_form a, struct sn_layout_form b)
{
    return a.form == b.form && (a.form != SN_SPLIT || a.dim == b.dim);
}

static int tensor_ranks(const struct sn_emit *e)
{
    return e->job->group_size[SN_GROUP_TENSOR];
}

static int64_t rows_in(const struct sn_emit *e, struct sn_layout_form form)
{
    bool cut = form.form == SN_SPLIT && form.dim == SN_ROWS;
    return e->job->rows / (cut ? tensor_ranks(e) : 1);
}

struct sn_attr sn_localised(const struct sn_emit *e, const struct sn_node *n)
{
    const struct sn_job *j = e->job;
    struct sn_attr a = n->attr;
    bool in_region = !sn_cut_at(n->point) && sn_region(j).form == SN_SPLIT;
    a.position.context = j->group_size[SN_GROUP_CONTEXT];
    a.position.context_rank = a.position.key_rank = j->group_index[SN_GROUP_CONTEXT];
    a.position.zigzag = j->config->layout.context_kind == SN_CONTEXT_RING;
    a.position.row0 = in_region && n->kind == SN_NODE_DROPOUT
                          ? rows_in(e, sn_region(j)) * j->group_index[SN_GROUP_TENSOR]
                          : 0;
    return a;
}

/* --- results and inputs ----------------------------------------------------------------------- */

int sn_result(struct sn_emit *e, const struct sn_node *n, int64_t cols, struct sn_layout_form form)
{
    form = tensor_ranks(e) == 1 ? same : form;
    int b =
        sn_buffer_add(e->p, SN_CLASS_TEMP, e->job->dtype, rows_in(e, form), cols, "%s", n->point);
    if (e->p->failed)
        return b;
    bool needs = false;
    for (int i = 0; i < 2; i++) {
        if (sn_param_parts(e->job, n->param[i]) > 0)
            needs = needs || sn_part_trains(e, e->job->first_part[n->param[i]]);
        needs = needs || (n->in[i] >= 0 && e->p->bufs[e->value[n->in[i]].buf].needs_grad);
    }
    e->p->bufs[b].needs_grad = needs;
    e->value[n->out] = (struct sn_value_place){b, form, -1};
    return b;
}

/* The operation that turns buffer `buf` into another form, and its new buffer. */
static int move(struct sn_emit *e, int buf, struct sn_layout_form have, struct sn_layout_form want)
{
    static const int kind[] = {[SN_KEEP] = SN_OP_ALIAS,
                               [SN_MOVE_ALL_GATHER] = SN_OP_ALL_GATHER,
                               [SN_MOVE_ALL_REDUCE] = SN_OP_ALL_REDUCE,
                               [SN_MOVE_REDUCE_SCATTER] = SN_OP_REDUCE_SCATTER};
    if (e->p->failed)
        return buf;
    struct sn_buffer x = e->p->bufs[buf];
    enum sn_move m = sn_edge_forward(have, want);
    assert(m == SN_KEEP || (m >= SN_MOVE_ALL_GATHER && m <= SN_MOVE_REDUCE_SCATTER));
    struct sn_op op = sn_comm_op(kind[m], SN_GROUP_TENSOR, "%.60s", x.name);
    op.grad_move = sn_edge_backward(have, want);
    op.codable = 1 + SN_CODED_TENSOR;
    int to = sn_buffer_add(e->p, SN_CLASS_TEMP, x.dtype, rows_in(e, want), x.cols, "%.90s.%s",
                           x.name, want.form == SN_SHARED ? "all" : "sum");
    op.in[SN_MOVE_FROM] = sn_view_all(e->p, buf);
    op.out[SN_MOVE_TO] = sn_view_all(e->p, to);
    if (!e->p->failed)
        e->p->bufs[to].needs_grad = x.needs_grad;
    if (m == SN_KEEP)
        (void)sn_op_append(e->p, &op);
    else
        sn_comm_run(e->p, &op);
    return to;
}

struct sn_view sn_take(struct sn_emit *e, int value, struct sn_layout_form want)
{
    struct sn_value_place *v = &e->value[value];
    if (tensor_ranks(e) == 1 || equal(v->have, want))
        return sn_view_all(e->p, v->buf);
    if (want.form == SN_SHARED && v->shared >= 0)
        return sn_view_all(e->p, v->shared);
    if (v->have.form == SN_PARTIAL) { /* summed once, whoever asks */
        struct sn_layout_form to = want.form == SN_SHARED ? sn_region(e->job) : want;
        v->buf = move(e, v->buf, v->have, to);
        v->have = to;
        return sn_take(e, value, want);
    }
    v->shared = move(e, v->buf, v->have, want);
    return sn_view_all(e->p, v->shared);
}

/* The form in which a node without a cut works on `value`. */
static struct sn_layout_form uncut(const struct sn_emit *e, int value)
{
    return equal(e->value[value].have, features) ? features : sn_region(e->job);
}

static struct sn_view vector(const struct sn_emit *e, int param)
{
    return param < 0 ? sn_no_view : sn_weight_flat(e, e->job->first_part[param]);
}

/* --- nodes ------------------------------------------------------------------------------------ */

typedef void lower_fn(struct sn_emit *e, const struct sn_node *n);

static void lower_embed(struct sn_emit *e, const struct sn_node *n)
{
    int part = e->job->first_part[n->param[0]];
    int y = sn_result(e, n, e->job->parts[part].cols, partial);
    struct sn_op *op = sn_op_add(e->p, SN_OP_EMBED, "%s", n->point);
    op->in[SN_EMBED_IDS] = sn_view_rows(e->p, e->job->ids, 0, e->job->rows);
    op->in[SN_EMBED_IDS].index = SN_AT_MICRO;
    op->in[SN_EMBED_IDS].stride = e->job->rows;
    op->in[SN_EMBED_W] = sn_weight(e, part);
    op->in[SN_EMBED_P] =
        n->param[1] < 0 ? sn_no_view : sn_weight(e, e->job->first_part[n->param[1]]);
    op->in_first = 1u << 2; /* added once, then summed over ranks */
    op->out[SN_EMBED_Y] = sn_view_all(e->p, y);
    op->attr = sn_localised(e, n);
    op->attr.vocab.first = e->job->parts[part].piece[0].from;
    (void)sn_take(e, n->out, sn_region(e->job)); /* summed here, outside the first block */
}

static void lower_norm(struct sn_emit *e, const struct sn_node *n)
{
    bool rms = n->kind == SN_NODE_RMSNORM;
    struct sn_view x = sn_take(e, n->in[0], sn_region(e->job));
    int y = sn_result(e, n, x.cols, sn_region(e->job));
    int stats =
        sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, x.rows, rms ? 1 : 2, "%s.stats", n->point);
    struct sn_op *op = sn_op_add(e->p, rms ? SN_OP_RMSNORM : SN_OP_LAYERNORM, "%s", n->point);
    op->in[SN_NORM_X] = x;
    op->in[SN_NORM_W] = vector(e, n->param[0]);
    op->in[SN_NORM_B] = vector(e, n->param[1]);
    op->out[SN_NORM_Y] = sn_view_all(e->p, y);
    op->out[SN_NORM_STATS] = sn_view_all(e->p, stats);
    op->attr = n->attr;
}

/* A weight in several parts is as many products, side by side. */
static void lower_linear(struct sn_emit *e, const struct sn_node *n)
{
    static const enum sn_fp8 forward[] = {[SN_FP8_OFF] = SN_FP8_NONE,
                                          [SN_FP8_TENSORWISE] = SN_FP8_FORWARD,
                                          [SN_FP8_BLOCKWISE] = SN_FP8_BLOCKS};
    const struct sn_cut *cut = sn_cut_at(n->point);
    const struct sn_job *j = e->job;
    int first = j->first_part[n->param[0]], parts = sn_param_parts(j, n->param[0]);
    int64_t cols = 0, at = 0;
    for (int k = 0; k < parts; k++)
        cols += j->parts[first + k].rows;
    struct sn_view x = sn_take(e, n->in[0], cut->want);
    int y = sn_result(e, n, cols, cut->give);
    for (int k = 0; k < parts; k++) {
        struct sn_op *op = sn_op_add(e->p, SN_OP_GEMM, "%s", n->point);
        op->in[SN_GEMM_A] = x;
        op->in[SN_GEMM_B] = sn_weight(e, first + k);
        op->in[SN_GEMM_BIAS] =
            n->param[1] < 0 ? sn_no_view : sn_weight_flat(e, j->first_part[n->param[1]] + k);
        op->in_first = cut->weight == SN_CUT_COLS ? 1u << 2 : 0; /* a bias of a sum: once */
        op->out[SN_GEMM_C] = sn_view_cols(e->p, y, at, op->in[SN_GEMM_B].rows);
        op->attr.gemm.trans_b = true;
        op->attr.gemm.fp8 = forward[j->config->train.fp8];
        at += op->in[SN_GEMM_B].rows;
    }
}

static void lower_rope(struct sn_emit *e, const struct sn_node *n)
{
    struct sn_view x = sn_take(e, n->in[0], uncut(e, n->in[0]));
    int y = sn_result(e, n, x.cols, uncut(e, n->in[0]));
    struct sn_op *op = sn_op_add(e->p, SN_OP_ROPE, "%s", n->point);
    const struct sn_model_config *m = &e->job->config->model;
    op->in[SN_ROPE_X] = x;
    op->out[SN_ROPE_Y] = sn_view_all(e->p, y);
    op->attr = sn_localised(e, n);
    op->attr.attention.heads = m->heads / tensor_ranks(e) +
                               m->kv_heads / (tensor_ranks(e) / sn_kv_copies(m, tensor_ranks(e)));
}

static void lower_elementwise(struct sn_emit *e, const struct sn_node *n)
{
    bool swiglu = n->kind == SN_NODE_SWIGLU;
    struct sn_view x = sn_take(e, n->in[0], uncut(e, n->in[0]));
    int y = sn_result(e, n, swiglu ? x.cols / 2 : x.cols, uncut(e, n->in[0]));
    struct sn_op *op = sn_op_add(e->p, swiglu ? SN_OP_SWIGLU : SN_OP_ACT, "%s", n->point);
    op->in[SN_SWIGLU_X] = x;
    op->out[SN_SWIGLU_Y] = sn_view_all(e->p, y);
    op->attr = n->attr;
}

static int readers_of(const struct sn_model *m, int value)
{
    int n = 0;
    for (int i = 0; i < m->n_nodes; i++)
        for (int k = 0; k < 2; k++)
            n += m->nodes[i].in[k] == value;
    return n;
}

/* Is input k of a sum all that the operation before it gives, a product that has no addend, and
 * read by nobody else? No collective stands between them then. */
static bool is_product_before(const struct sn_emit *e, const struct sn_node *n, int k)
{
    const struct sn_program *p = e->p;
    if (!e->job->ops->adds_in_products || p->failed || tensor_ranks(e) > 1 || p->n_ops == 0)
        return false;
    const struct sn_op *op = &p->ops[p->n_ops - 1];
    int buf = e->value[n->in[k]].buf;
    bool whole = op->out[SN_GEMM_C].buf == buf && op->out[SN_GEMM_C].cols == p->bufs[buf].cols;
    return op->kind == SN_OP_GEMM && whole && op->in[SN_GEMM_ADDEND].buf < 0 &&
           op->layer == p->layer && op->acc[SN_GEMM_C] == SN_ACC_WRITE && n->in[0] != n->in[1] &&
           readers_of(e->job->model, n->in[k]) == 1;
}

/* The sum as what the last product gives; the product's own result is nowhere. */
static void add_to_product(struct sn_emit *e, const struct sn_node *n, int k)
{
    int addend = e->value[n->in[1 - k]].buf;
    int y = sn_result(e, n, e->p->bufs[addend].cols, same);
    if (e->p->failed)
        return;
    struct sn_op *op = &e->p->ops[e->p->n_ops - 1];
    op->in[SN_GEMM_ADDEND] = sn_view_all(e->p, addend);
    op->out[SN_GEMM_C] = sn_view_all(e->p, y);
}

/* Two sums over ranks are added before they are summed: one collective for both. */
static void lower_add(struct sn_emit *e, const struct sn_node *n)
{
    for (int k = 0; k < 2; k++)
        if (is_product_before(e, n, k)) {
            add_to_product(e, n, k);
            return;
        }
    bool sums = equal(e->value[n->in[0]].have, partial) && equal(e->value[n->in[1]].have, partial);
    struct sn_layout_form form = sums ? partial : sn_region(e->job);
    struct sn_view a = sn_take(e, n->in[0], form), b = sn_take(e, n->in[1], form);
    int y = sn_result(e, n, a.cols, form);
    struct sn_op *op = sn_op_add(e->p, SN_OP_ADD, "%s", n->point);
    op->in[SN_ADD_A] = a;
    op->in[SN_ADD_B] = b;
    op->out[SN_ADD_Y] = sn_view_all(e->p, y);
}

static void lower_dropout(struct sn_emit *e, const struct sn_node *n)
{
    if (!e->train) { /* evaluation keeps everything: the value is its input */
        e->value[n->out] = e->value[n->in[0]];
        return;
    }
    struct sn_view x = sn_take(e, n->in[0], sn_region(e->job));
    int y = sn_result(e, n, x.cols, sn_region(e->job));
    struct sn_op *op = sn_op_add(e->p, SN_OP_DROPOUT, "%s", n->point);
    op->in[SN_NOISE_X] = x;
    op->out[SN_NOISE_Y] = sn_view_all(e->p, y);
    op->attr = sn_localised(e, n);
}

void sn_lower_part(struct sn_emit *e)
{
    static lower_fn *const lower[SN_NNODES] = {
        [SN_NODE_EMBED] = lower_embed,
        [SN_NODE_LAYERNORM] = lower_norm,
        [SN_NODE_RMSNORM] = lower_norm,
        [SN_NODE_LINEAR] = lower_linear,
        [SN_NODE_ROPE] = lower_rope,
        [SN_NODE_ATTENTION] = sn_lower_attention,
        [SN_NODE_ACT] = lower_elementwise,
        [SN_NODE_SWIGLU] = lower_elementwise,
        [SN_NODE_ADD] = lower_add,
        [SN_NODE_DROPOUT] = lower_dropout,
        [SN_NODE_HEAD_LOSS] = sn_lower_head,
        [SN_NODE_ROUTER] = sn_lower_router,
        [SN_NODE_EXPERTS] = sn_lower_experts,
    };
    const struct sn_model *m = e->job->model;
    for (int i = 0; i < m->n_nodes && !e->p->failed; i++) {
        if (!sn_node_is_here(e, i))
            continue;
        e->p->layer = sn_unit_of(e->job, &m->nodes[i]);
        sn_zero_enter(e, e->p->layer, false);
        lower[m->nodes[i].kind](e, &m->nodes[i]);
    }
}
