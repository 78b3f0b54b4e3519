/*
 * lower.c - model nodes to forward operations.
 *
 * One function per kind of node. A node's cut (lib/layout/cut.h) says how it takes its input and
 * gives its output over the axes of the mesh; sn_take inserts the moves. No function here names an
 * axis, and the model does not change when one is added.
 */
#include "lib/program/build.h"

struct sn_heads sn_heads_here(const struct sn_job *j)
{
    const struct sn_model_config *m = &j->config->model;
    struct sn_cut cut = sn_cut_of(j, "attn.qkv");
    struct sn_mesh_place at = sn_mesh_place(&j->mesh, j->rank);
    struct sn_ways w = sn_cut_ways(cut.weight, SN_CUT_QKV, &at);
    int query = m->heads / w.size;
    return (struct sn_heads){.query = query,
                             .kv = m->kv_heads / (w.size / sn_kv_copies(m, w.size)),
                             .first = query * w.index};
}

struct sn_attr sn_localised(const struct sn_emit *e, const struct sn_node *n)
{
    const struct sn_job *j = e->job;
    struct sn_attr a = n->attr;
    a.position.context = j->group_size[SN_GROUP_CONTEXT];
    a.position.context_rank = a.position.key_rank = j->group_index[SN_GROUP_CONTEXT];
    a.position.zigzag = j->config->layout.context_kind == SN_CONTEXT_RING;
    return a;
}

struct sn_view sn_token_rows(const struct sn_emit *e, int buf, int64_t row, int64_t rows)
{
    struct sn_view v = sn_view_rows(e->p, buf, row, rows);
    v.index = e->row ? SN_AT_ROW : SN_AT_MICRO;
    v.stride = e->job->rows;
    return v;
}

/* The which-th of sn_job_further(). */
static struct sn_view further_rows(const struct sn_emit *e, int which, int64_t row, int64_t rows)
{
    struct sn_view v = sn_view_rows(e->p, e->job->further, which * e->job->rows + row, rows);
    v.index = SN_AT_MICRO;
    v.stride = sn_job_further(e->job) * e->job->rows;
    return v;
}

struct sn_view sn_ids_of(const struct sn_emit *e, const struct sn_node *n)
{
    return n->depth ? further_rows(e, n->depth - 1, 0, e->job->rows)
                    : sn_token_rows(e, e->job->ids, 0, e->job->rows);
}

struct sn_view sn_targets_of(const struct sn_emit *e, const struct sn_node *n, int64_t row,
                             int64_t rows)
{
    return n->depth ? further_rows(e, e->job->config->model.mtp + n->depth - 1, row, rows)
                    : sn_token_rows(e, e->job->targets, row, rows);
}

struct sn_view sn_starts(const struct sn_emit *e)
{
    const struct sn_job *j = e->job;
    if (j->starts < 0 || (e->generate && j->config->data.prefix == SN_PREFIX_NONE))
        return sn_no_view;
    struct sn_view v = sn_view_rows(e->p, j->starts, 0, sn_job_starts(j));
    v.index = SN_AT_MICRO;
    v.stride = v.rows * v.cols;
    return v;
}

static struct sn_view vector(const struct sn_emit *e, int param)
{
    return param < 0 ? sn_no_view : sn_weight_flat(e, e->job->first_shard[param]);
}

/* --- nodes ------------------------------------------------------------------------------------ */

typedef void lower_fn(struct sn_emit *e, const struct sn_node *n);

static void lower_embed(struct sn_emit *e, const struct sn_node *n)
{
    int shard = e->job->first_shard[n->param[0]];
    struct sn_placement give = sn_cut_of(e->job, n->point).give;
    int y = sn_result(e, n, e->job->shards[shard].cols, give);
    struct sn_op *op = sn_op_add(e->p, SN_OP_EMBED, "%s", n->point);
    op->in[SN_EMBED_IDS] = sn_ids_of(e, n);
    op->in[SN_EMBED_W] = sn_weight(e, shard);
    op->in[SN_EMBED_P] =
        n->param[1] < 0 ? sn_no_view : sn_weight(e, e->job->first_shard[n->param[1]]);
    sn_add_once(e, op, SN_EMBED_P, give);
    op->out[SN_EMBED_Y] = sn_view_all(e->p, y);
    op->attr = sn_localised(e, n);
    op->attr.vocab.first = e->job->shards[shard].tensor[0].from;
    op->at_row = e->row;
    (void)sn_take(e, n->out, sn_region(e->job)); /* summed here, outside the first block */
}

/* Of each rank that has some of a row's features. */
static struct sn_view statistics_of_slices(struct sn_emit *e, const struct sn_node *n,
                                           struct sn_view x, int64_t numbers,
                                           struct sn_placement at)
{
    int part = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, x.rows, numbers, "%s.part", n->point);
    struct sn_op *op = sn_op_add(e->p, SN_OP_NORM_PART, "%s.part", n->point);
    op->in[SN_NORM_PART_X] = x;
    op->out[SN_NORM_PART_PART] = sn_view_all(e->p, part);
    return sn_parts_of_all(e, part, at, n->point);
}

static void lower_norm(struct sn_emit *e, const struct sn_node *n)
{
    bool rms = n->kind == SN_NODE_RMSNORM;
    struct sn_view x = sn_take(e, n->in[0], sn_region(e->job));
    int y = sn_result(e, n, x.cols, sn_region(e->job));
    int stats =
        sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, x.rows, rms ? 1 : 2, "%s.stats", n->point);
    struct sn_view parts = sn_features_are_cut(e->job, sn_region(e->job))
                               ? statistics_of_slices(e, n, x, rms ? 1 : 2, sn_region(e->job))
                               : sn_no_view;
    struct sn_op *op = sn_op_add(e->p, rms ? SN_OP_RMSNORM : SN_OP_LAYERNORM, "%s", n->point);
    op->in[SN_NORM_X] = x;
    op->in[SN_NORM_W] = vector(e, n->param[0]);
    op->in[SN_NORM_B] = vector(e, n->param[1]);
    op->in[SN_NORM_PARTS] = parts;
    op->out[SN_NORM_Y] = sn_view_all(e->p, y);
    op->out[SN_NORM_STATS] = sn_view_all(e->p, stats);
    op->attr = n->attr;
}

/* The norm of some columns of x, as an operation of its own. */
static void norm_of_columns(struct sn_emit *e, const struct sn_node *n, struct sn_view x,
                            struct sn_view y, int param)
{
    struct sn_placement give = sn_cut_of(e->job, n->point).give;
    int stats = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, x.rows, 1, "%s.stats", n->point);
    struct sn_view parts =
        sn_features_are_cut(e->job, give) ? statistics_of_slices(e, n, x, 1, give) : sn_no_view;
    struct sn_op *op = sn_op_add(e->p, SN_OP_RMSNORM, "%s", n->point);
    op->in[SN_NORM_X] = x;
    op->in[SN_NORM_W] = vector(e, param);
    op->in[SN_NORM_PARTS] = parts;
    op->out[SN_NORM_Y] = y;
    op->out[SN_NORM_STATS] = sn_view_all(e->p, stats);
    op->attr = n->attr;
}

static void lower_wide_norm(struct sn_emit *e, const struct sn_node *n)
{
    struct sn_cut cut = sn_cut_of(e->job, n->point);
    struct sn_heads heads = sn_heads_here(e->job);
    struct sn_view x = sn_take(e, n->in[0], cut.want);
    int y = sn_result(e, n, x.cols, cut.give);
    int64_t width = sn_model_head_dim(&e->job->config->model);
    int64_t q = heads.query * width, kv = heads.kv * width;
    struct sn_view of_q = x, of_k = x, rest = x;
    of_q.cols = q;
    of_k.offset += q;
    of_k.cols = kv;
    rest.offset += q + kv;
    rest.cols = x.cols - q - kv;
    norm_of_columns(e, n, of_q, sn_view_cols(e->p, y, 0, q), n->param[0]);
    norm_of_columns(e, n, of_k, sn_view_cols(e->p, y, q, kv), n->param[1]);
    struct sn_op *op = sn_op_add(e->p, SN_OP_COPY, "%s", n->point);
    op->in[SN_COPY_X] = rest;
    op->out[SN_COPY_Y] = sn_view_cols(e->p, y, q + kv, rest.cols);
}

/* A weight in several shards is as many products, side by side. */
static void lower_linear(struct sn_emit *e, const struct sn_node *n)
{
    static const enum sn_fp8 forward[] = {[SN_FP8_OFF] = SN_FP8_NONE,
                                          [SN_FP8_TENSORWISE] = SN_FP8_FORWARD,
                                          [SN_FP8_BLOCKWISE] = SN_FP8_BLOCKS};
    const struct sn_job *j = e->job;
    struct sn_cut cut = sn_cut_of(j, n->point);
    int first = j->first_shard[n->param[0]], shards = sn_param_shards(j, n->param[0]);
    int64_t cols = 0, at = 0;
    for (int k = 0; k < shards; k++)
        cols += j->shards[first + k].rows;
    struct sn_view x = sn_take(e, n->in[0], cut.want);
    int y = sn_result(e, n, cols, cut.give);
    for (int k = 0; k < shards; k++) {
        struct sn_view w = sn_weight_read(e, first + k);
        struct sn_op *op = sn_op_add(e->p, SN_OP_GEMM, "%s", n->point);
        op->in[SN_GEMM_A] = x;
        op->in[SN_GEMM_B] = w;
        op->in[SN_GEMM_BIAS] =
            n->param[1] < 0 ? sn_no_view : sn_weight_flat(e, j->first_shard[n->param[1]] + k);
        sn_add_once(e, op, SN_GEMM_BIAS, cut.give);
        op->out[SN_GEMM_C] = sn_view_cols(e->p, y, at, op->in[SN_GEMM_B].rows);
        op->attr.gemm.trans_b = true;
        op->attr.exact = sn_exact_product(j, &cut, x.cols, cols);
        op->attr.gemm.fp8 = forward[j->config->train.fp8];
        at += op->in[SN_GEMM_B].rows;
    }
}

/* Where the columns that a weight's tensor gives begin here. */
static int64_t column_of(const struct sn_job *j, const struct sn_adapts *at)
{
    int64_t col = 0;
    for (int k = 0; k < sn_param_shards(j, at->param); k++) {
        const struct sn_shard *q = &j->shards[j->first_shard[at->param] + k];
        for (int i = 0; i < q->n_tensors; i++)
            if (q->tensor[i].tensor == at->tensor)
                return col + q->tensor[i].at;
        col += q->rows;
    }
    return col;
}

/* The product is added where the weight's lies: one value, of two operations. */
static void lower_adapt(struct sn_emit *e, const struct sn_node *n)
{
    int shard = e->job->first_shard[n->param[0]];
    struct sn_cut cut = sn_cut_of(e->job, n->point);
    struct sn_view u = sn_take(e, n->in[1], cut.want);
    e->value[n->out] = e->value[n->in[0]];
    int y = e->value[n->out].buf;
    if (e->p->failed)
        return;
    struct sn_view w = sn_weight(e, shard);
    u.offset += n->adapts.col;
    u.cols = w.cols;
    e->p->bufs[y].needs_grad =
        e->p->bufs[y].needs_grad || e->p->bufs[u.buf].needs_grad || sn_shard_trains(e, shard);
    struct sn_op *op = sn_op_add(e->p, SN_OP_GEMM, "%s", n->point);
    op->in[SN_GEMM_A] = u;
    op->in[SN_GEMM_B] = w;
    op->attr.gemm.trans_b = true;
    op->out[SN_GEMM_C] = sn_view_cols(e->p, y, column_of(e->job, &n->adapts), w.rows);
    op->acc[SN_GEMM_C] = SN_ACC_ADD;
}

static void lower_rope(struct sn_emit *e, const struct sn_node *n)
{
    struct sn_cut cut = sn_cut_of(e->job, n->point);
    struct sn_view x = sn_take(e, n->in[0], cut.want);
    int y = sn_result(e, n, x.cols, cut.give);
    struct sn_op *op = sn_op_add(e->p, SN_OP_ROPE, "%s", n->point);
    struct sn_heads heads = sn_heads_here(e->job);
    op->in[SN_ROPE_X] = x;
    op->out[SN_ROPE_Y] = sn_view_all(e->p, y);
    op->attr = sn_localised(e, n);
    op->attr.attention.heads = heads.query + heads.kv;
    op->at_row = e->row;
}

static void lower_head_norm(struct sn_emit *e, const struct sn_node *n)
{
    struct sn_cut cut = sn_cut_of(e->job, n->point);
    struct sn_heads heads = sn_heads_here(e->job);
    struct sn_view x = sn_take(e, n->in[0], cut.want);
    int y = sn_result(e, n, x.cols, cut.give);
    int stats = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, x.rows, heads.query + heads.kv,
                              "%s.stats", n->point);
    struct sn_op *op = sn_op_add(e->p, SN_OP_HEAD_NORM, "%s", n->point);
    op->in[SN_NORM_X] = x;
    op->in[SN_NORM_W] = vector(e, n->param[0]);
    op->out[SN_NORM_Y] = sn_view_all(e->p, y);
    op->out[SN_NORM_STATS] = sn_view_all(e->p, stats);
    op->attr = n->attr;
    op->attr.attention.heads = heads.query;
    op->attr.attention.kv_heads = heads.kv;
}

static void lower_elementwise(struct sn_emit *e, const struct sn_node *n)
{
    static const enum sn_op_kind kind[] = {
        [SN_NODE_ACT] = SN_OP_ACT, [SN_NODE_SWIGLU] = SN_OP_SWIGLU, [SN_NODE_SCALE] = SN_OP_SCALE};
    struct sn_cut cut = sn_cut_of(e->job, n->point);
    struct sn_view x = sn_take(e, n->in[0], cut.want);
    int y = sn_result(e, n, n->kind == SN_NODE_SWIGLU ? x.cols / 2 : x.cols, cut.give);
    struct sn_op *op = sn_op_add(e->p, (int)kind[n->kind], "%s", n->point);
    op->in[SN_POINTWISE_X] = x;
    op->out[SN_POINTWISE_Y] = sn_view_all(e->p, y);
    op->attr = n->attr;
}

/* What is gated may be a sum over ranks: a row's factor is the same on all of them, and the gradient
 * of what it is of a sum like a router's. */
static void lower_gate(struct sn_emit *e, const struct sn_node *n)
{
    int shard = e->job->first_shard[n->param[0]];
    struct sn_cut cut = sn_cut_of(e->job, n->point);
    struct sn_view of = sn_take(e, n->in[1], cut.want);
    struct sn_placement at = e->value[n->in[0]].have;
    struct sn_view x = sn_take(e, n->in[0], at);
    int z = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, of.rows, 1, "%s.z", n->point);
    if (e->p->failed)
        return;
    e->p->bufs[z].needs_grad = e->p->bufs[of.buf].needs_grad || sn_shard_trains(e, shard);
    struct sn_op *op = sn_op_add(e->p, SN_OP_GEMM, "%s", n->point);
    op->in[SN_GEMM_A] = of;
    op->in[SN_GEMM_B] = sn_weight(e, shard);
    op->attr.gemm.trans_b = true;
    op->out[SN_GEMM_C] = sn_view_all(e->p, z);
    int y = sn_result(e, n, x.cols, at);
    op = sn_op_add(e->p, SN_OP_GATE, "%s", n->point);
    op->in[SN_GATE_X] = x;
    op->in[SN_GATE_Z] = sn_view_all(e->p, z);
    op->out[SN_GATE_Y] = sn_view_all(e->p, y);
}

static int readers_of(const struct sn_model *m, int value)
{
    int n = 0;
    for (int i = 0; i < m->n_nodes; i++)
        for (int k = 0; k < SN_NODE_INS; k++)
            n += m->nodes[i].in[k] == value;
    return n;
}

/* Is input k of a sum all that the operation before it gives, a product that has no addend, and
 * read by nobody else? No collective stands between them then. */
static bool is_product_before(const struct sn_emit *e, const struct sn_node *n, int k)
{
    const struct sn_program *p = e->p;
    if (!e->job->ops->adds_in_products || p->failed || sn_mesh_ranks(&e->job->mesh) > 1 ||
        p->n_ops == 0)
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
    int y = sn_result(e, n, e->p->bufs[addend].cols, sn_region(e->job));
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
    struct sn_placement at = e->value[n->in[0]].have;
    bool sums = sn_placement_groups(&e->job->mesh, at, SN_PARTIAL) != 0;
    sums = sums && !sn_config_exact(e->job->config); /* each is rounded, as by one rank */
    if (!sums || !sn_placement_equal(at, e->value[n->in[1]].have))
        at = sn_region(e->job);
    struct sn_view a = sn_take(e, n->in[0], at), b = sn_take(e, n->in[1], at);
    int y = sn_result(e, n, a.cols, at);
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
    const struct sn_job *j = e->job;
    struct sn_placement at = sn_placement_on(&j->mesh, sn_cut_of(j, n->point).want);
    struct sn_view x = sn_take(e, n->in[0], at);
    int y = sn_result(e, n, x.cols, at);
    struct sn_op *op = sn_op_add(e->p, SN_OP_DROPOUT, "%s", n->point);
    op->in[SN_NOISE_X] = x;
    op->out[SN_NOISE_Y] = sn_view_all(e->p, y);
    op->attr = sn_localised(e, n);
    op->attr.position.row0 = sn_first_row(j, at);
    if (!sn_features_are_cut(j, at))
        return;
    int64_t slices = 1; /* as long as those here, padding included */
    for (int a = 0; a < j->mesh.n_axes; a++)
        slices *= sn_placement_cuts(at, a, SN_COLS) ? j->mesh.axis[a].size : 1;
    op->attr.random.width = (int32_t)j->model->values[n->in[0]].cols;
    op->attr.random.col0 = (int32_t)sn_first_col(j, at, x.cols * slices);
}

/* Features of the samples of a micro-batch, which are whole on every rank; none is read where a node has no levels. */
static struct sn_view features(const struct sn_emit *e, const struct sn_node *n)
{
    const struct sn_job *j = e->job;
    if (n->attr.prompt.levels == 0)
        return sn_no_view;
    struct sn_view v = sn_view_rows(e->p, j->features, 0, sn_job_feature_rows(j));
    v.index = SN_AT_MICRO;
    v.stride = v.rows * v.cols;
    return v;
}

static void lower_prompt(struct sn_emit *e, const struct sn_node *n)
{
    const struct sn_job *j = e->job;
    struct sn_placement at = sn_region(j);
    struct sn_view x = sn_take(e, n->in[0], at);
    int y = sn_result(e, n, x.cols, at);
    struct sn_op *op = sn_op_add(e->p, SN_OP_PROMPT, "%s", n->point);
    op->in[SN_PROMPT_X] = x;
    op->in[SN_PROMPT_W] = sn_weight(e, j->first_shard[n->param[0]]);
    op->in[SN_PROMPT_F] = features(e, n);
    op->out[SN_PROMPT_Y] = sn_view_all(e->p, y);
    op->attr = sn_localised(e, n);
    op->attr.position.row0 = sn_first_row(j, at);
    op->at_row = e->row;
}

void sn_lower_vstage(struct sn_emit *e)
{
    static lower_fn *const lower[SN_NNODES] = {
        [SN_NODE_EMBED] = lower_embed,
        [SN_NODE_LAYERNORM] = lower_norm,
        [SN_NODE_RMSNORM] = lower_norm,
        [SN_NODE_LINEAR] = lower_linear,
        [SN_NODE_HEAD_NORM] = lower_head_norm,
        [SN_NODE_WIDE_NORM] = lower_wide_norm,
        [SN_NODE_JOIN] = sn_lower_join,
        [SN_NODE_ROPE] = lower_rope,
        [SN_NODE_ATTENTION] = sn_lower_attention,
        [SN_NODE_ACT] = lower_elementwise,
        [SN_NODE_SWIGLU] = lower_elementwise,
        [SN_NODE_SCALE] = lower_elementwise,
        [SN_NODE_GATE] = lower_gate,
        [SN_NODE_ADAPT] = lower_adapt,
        [SN_NODE_ADD] = lower_add,
        [SN_NODE_DROPOUT] = lower_dropout,
        [SN_NODE_PROMPT] = lower_prompt,
        [SN_NODE_HEAD_LOSS] = sn_lower_head,
        [SN_NODE_ROUTER] = sn_lower_router,
        [SN_NODE_EXPERTS] = sn_lower_experts,
    };
    const struct sn_model *m = e->job->model;
    for (int i = 0; i < m->n_nodes && !e->p->failed; i++) {
        if (!sn_node_is_here(e, i))
            continue;
        e->p->layer = sn_op_layer(e->job, &m->nodes[i]);
        sn_zero_enter(e, sn_unit_of(e->job, &m->nodes[i]), false);
        lower[m->nodes[i].kind](e, &m->nodes[i]);
    }
}
