/*
 * grad.c - backward text from forward text: one gradient rule per kind of operation.
 *
 * The forward operations are walked in reverse. A rule finds the gradient of its output in
 * gview[] and emits what produces the gradients of its inputs; where a part of such a gradient
 * exists already, it goes in as the addend of the new operation (or an ADD where the kind has
 * none). Input gradients come before weight gradients, so that a pipeline can send early; those of
 * a norm are one operation, which reads its operands once.
 */
#include "lib/program/build.h"

#include <assert.h>

static bool wants(const struct sn_emit *e, struct sn_view v)
{
    return v.buf >= 0 && e->p->bufs[v.buf].needs_grad;
}

/* Take g as a contribution to the gradient of v's buffer. */
static void contribute(struct sn_emit *e, struct sn_view v, struct sn_view g)
{
    struct sn_view before = sn_grad_get(e, v.buf);
    if (before.buf < 0) {
        sn_grad_set(e, v.buf, g);
        return;
    }
    int sum = sn_buffer_like(e->p, v.buf, "d");
    struct sn_op *op =
        sn_op_add(e->p, SN_OP_ADD, "sum.%.50s", e->p->failed ? "" : e->p->bufs[v.buf].name);
    op->in[SN_ADD_A] = before;
    op->in[SN_ADD_B] = g;
    op->out[SN_ADD_Y] = sn_view_all(e->p, sum);
    sn_grad_set(e, v.buf, op->out[SN_ADD_Y]);
}

static void norm_ready(struct sn_emit *e, const struct sn_op *f)
{
    for (int k = 1; k <= 2; k++)
        if (sn_shard_trains(e, sn_shard_of(e, f->in[k])))
            sn_shard_ready(e, sn_shard_of(e, f->in[k]));
}

/* dw and db of a norm: outputs `out` and `out` + 1 of the operation. */
static void norm_sums(struct sn_emit *e, const struct sn_op *f, struct sn_op *op, int out)
{
    for (int k = 0; k < 2; k++) {
        int shard = sn_shard_of(e, f->in[1 + k]);
        if (sn_shard_trains(e, shard))
            sn_into_shard(e, op, out + k, shard, true);
    }
}

/* Columns of a buffer, others of which are another operation's? */
static bool is_part(const struct sn_emit *e, struct sn_view v)
{
    return !e->p->failed && v.cols != e->p->bufs[v.buf].cols;
}

/* Of each rank that has some of a row's features; absent where one has them all. */
static struct sn_view sums_of_slices(struct sn_emit *e, const struct sn_op *f, struct sn_view dy)
{
    if (f->in[SN_NORM_PARTS].buf < 0 || e->p->failed)
        return sn_no_view;
    int part = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, dy.rows, f->out[SN_NORM_STATS].cols,
                             "%.90s.dx.part", f->label);
    struct sn_op *op = sn_op_add(e->p, SN_OP_NORM_DX_PART, "%.60s.part", f->label);
    op->in[SN_NORM_DX_PART_DY] = dy;
    op->in[SN_NORM_DX_PART_X] = f->in[SN_NORM_X];
    op->in[SN_NORM_DX_PART_W] = f->in[SN_NORM_W];
    op->in[SN_NORM_DX_PART_STATS] = f->out[SN_NORM_STATS];
    op->attr.shift = f->attr.shift;
    op->out[SN_NORM_DX_PART_PART] = sn_view_all(e->p, part);
    bool inside = is_part(e, f->in[SN_NORM_X]); /* of a block: between its products */
    return sn_parts_of_all(e, part, inside ? sn_cut_of(e->job, f->label).give : sn_region(e->job),
                           f->label);
}

/* Where the weights' gradients are delayed they are an operation of their own: what an operation of
 * the input gradients writes would have to be kept from then on, with ZeRO 2 a whole bucket. */
void sn_grad_norm(struct sn_emit *e, const struct sn_op *f)
{
    const struct sn_op_row *row = sn_op_row(f->kind);
    bool sums = false, is_input = wants(e, f->in[SN_NORM_X]);
    struct sn_view dy = sn_grad_of(e, f->out[SN_NORM_Y]);
    for (int k = 1; k <= 2; k++)
        sums = sums || sn_shard_trains(e, sn_shard_of(e, f->in[k]));
    bool together = is_input && sums && !sn_weights_delayed(e->job);
    if (together)
        norm_ready(e, f);
    if (is_input) {
        struct sn_view parts = sums_of_slices(e, f, dy);
        bool part = is_part(e, f->in[SN_NORM_X]);
        struct sn_view dx =
            part ? sn_grad_slice(e, f->in[SN_NORM_X])
                 : sn_view_all(e->p, sn_buffer_like(e->p, f->in[SN_NORM_X].buf, "d"));
        struct sn_op *op = sn_op_add(e->p, row->dx, "%.60s", f->label);
        op->in[SN_NORM_DX_DY] = dy;
        op->in[SN_NORM_DX_X] = f->in[SN_NORM_X];
        op->in[SN_NORM_DX_W] = f->in[SN_NORM_W];
        op->in[SN_NORM_DX_STATS] = f->out[SN_NORM_STATS];
        op->in[SN_NORM_DX_ADDEND] = part ? sn_no_view : sn_grad_get(e, f->in[SN_NORM_X].buf);
        op->in[SN_NORM_DX_PARTS] = parts;
        op->out[SN_NORM_DX_DX] = dx;
        op->attr = f->attr;
        if (together)
            norm_sums(e, f, op, 1);
        op->is_weight_grad = false;
        if (!part)
            sn_grad_set(e, f->in[SN_NORM_X].buf, dx);
    }
    if (sums && !together) {
        norm_ready(e, f);
        struct sn_op *op = sn_op_add(e->p, row->dw, "%.60s", f->label);
        op->in[SN_NORM_DW_DY] = dy;
        op->in[SN_NORM_DW_X] = f->in[SN_NORM_X];
        op->in[SN_NORM_DW_STATS] = f->out[SN_NORM_STATS];
        op->attr = f->attr;
        norm_sums(e, f, op, 0);
    }
    for (int k = 1; k <= 2; k++)
        if (sn_shard_trains(e, sn_shard_of(e, f->in[k])))
            sn_shard_used(e, sn_shard_of(e, f->in[k]));
}

/* The gradient of a product of 8-bit operands is one, where its own operands are in storage.
 * `of_weight`: none of its operands is a weight. */
static enum sn_fp8 gradient_fp8(const struct sn_emit *e, const struct sn_op *f, struct sn_view dy,
                                bool of_weight)
{
    bool is_stored = e->p->bufs[dy.buf].dtype == SN_BF16;
    if (!is_stored || f->attr.gemm.fp8 == SN_FP8_NONE)
        return SN_FP8_NONE;
    if (f->attr.gemm.fp8 == SN_FP8_FORWARD)
        return SN_FP8_BACKWARD;
    return of_weight ? SN_FP8_LINES : SN_FP8_BLOCKS;
}

void sn_grad_gemm(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_view dy = sn_grad_of(e, f->out[SN_GEMM_C]);
    int w = sn_shard_of(e, f->in[SN_GEMM_B]), b = sn_shard_of(e, f->in[SN_GEMM_BIAS]);
    if (wants(e, f->in[SN_GEMM_ADDEND]))
        contribute(e, f->in[SN_GEMM_ADDEND], dy); /* as of a sum */
    if (wants(e, f->in[SN_GEMM_A])) {
        bool is_all = sn_view_is_all(e->p, &f->in[SN_GEMM_A]); /* else others give the rest */
        int dx = is_all ? sn_exact_gradient(e, f->in[SN_GEMM_A].buf) : -1;
        struct sn_view part = is_all ? sn_no_view : sn_grad_slice(e, f->in[SN_GEMM_A]);
        struct sn_view weight = sn_weight_again(e, f->in[SN_GEMM_B]);
        struct sn_op *op = sn_op_add(e->p, SN_OP_GEMM, "%.60s.dx", f->label);
        op->in[SN_GEMM_A] = dy;
        op->in[SN_GEMM_B] = weight;
        op->in[SN_GEMM_ADDEND] = is_all ? sn_grad_get(e, f->in[SN_GEMM_A].buf) : sn_no_view;
        op->attr.gemm.fp8 = gradient_fp8(e, f, dy, false);
        if (f->attr.exact.dx_depth)
            op->attr.exact = (struct sn_exact_attr){SN_EXACT_ROWS, .depth = f->attr.exact.dx_depth};
        op->out[SN_GEMM_C] = is_all ? sn_view_all(e->p, dx) : part;
        if (is_all)
            sn_grad_set(e, f->in[SN_GEMM_A].buf, op->out[SN_GEMM_C]);
    }
    if (sn_shard_trains(e, w)) {
        sn_shard_ready(e, w);
        struct sn_op *op = sn_op_add(e->p, SN_OP_GEMM, "%.60s.dw", f->label);
        op->in[SN_GEMM_A] = dy;
        op->in[SN_GEMM_B] = f->in[SN_GEMM_A];
        op->attr.gemm.trans_a = true;
        op->attr.gemm.fp8 = gradient_fp8(e, f, dy, true);
        sn_into_shard(e, op, 0, w, false);
        sn_shard_used(e, w);
    }
    if (sn_shard_trains(e, b)) {
        sn_shard_ready(e, b);
        struct sn_op *op = sn_op_add(e->p, SN_OP_COLSUM, "%.60s.db", f->label);
        op->in[SN_COLSUM_DY] = dy;
        sn_into_shard(e, op, 0, b, true);
        sn_shard_used(e, b);
    }
}

/* One operation, which reads dy and behind it what the row says of the inputs; a kind that is its
 * own gradient turns back. */
void sn_grad_pointwise(struct sn_emit *e, const struct sn_op *f)
{
    const struct sn_op_row *row = sn_op_row(f->kind);
    if (!wants(e, f->in[SN_POINTWISE_X]))
        return;
    int dx = sn_buffer_like(e->p, f->in[SN_POINTWISE_X].buf, "d");
    struct sn_view dy = sn_grad_get(e, f->out[SN_POINTWISE_Y].buf);
    struct sn_op *op = sn_op_add(e->p, row->dx, "%.60s", f->label);
    op->in[SN_POINTWISE_DX_DY] = dy;
    for (int k = 0; k + 1 < SN_MAX_IN; k++)
        if (sn_operand_is(&row->in[k], SN_ROLE_GRADIENT))
            op->in[k + 1] = f->in[k];
    op->out[SN_POINTWISE_DX_DX] = sn_view_all(e->p, dx);
    op->attr = f->attr;
    op->attr.inverse = row->dx == f->kind;
    contribute(e, f->in[SN_POINTWISE_X], sn_view_all(e->p, dx));
}

/* dz is of the type of activations: a product of weights reads it, as it does a router's. */
void sn_grad_gate(struct sn_emit *e, const struct sn_op *f)
{
    bool of_x = wants(e, f->in[SN_GATE_X]), of_z = wants(e, f->in[SN_GATE_Z]);
    if (!of_x && !of_z)
        return;
    int dx = of_x ? sn_buffer_like(e->p, f->in[SN_GATE_X].buf, "d") : -1;
    int dz = of_z ? sn_buffer_add(e->p, SN_CLASS_TEMP, e->job->dtype, f->in[SN_GATE_Z].rows, 1,
                                  "d.%.90s.z", f->label)
                  : -1;
    struct sn_op *op = sn_op_add(e->p, SN_OP_GATE_DX, "%.60s", f->label);
    op->in[SN_GATE_DX_DY] = sn_grad_get(e, f->out[SN_GATE_Y].buf);
    op->in[SN_GATE_DX_X] = f->in[SN_GATE_X];
    op->in[SN_GATE_DX_Z] = f->in[SN_GATE_Z];
    op->out[SN_GATE_DX_DX] = of_x ? sn_view_all(e->p, dx) : sn_no_view;
    op->out[SN_GATE_DX_DZ] = of_z ? sn_view_all(e->p, dz) : sn_no_view;
    if (of_x)
        sn_grad_set(e, f->in[SN_GATE_X].buf, sn_view_all(e->p, dx));
    if (of_z)
        sn_grad_set(e, f->in[SN_GATE_Z].buf, sn_view_all(e->p, dz));
}

/* DROPOUT and JITTER: the same factors. */
void sn_grad_dropout(struct sn_emit *e, const struct sn_op *f)
{
    if (!wants(e, f->in[SN_NOISE_X]))
        return;
    int dx = sn_buffer_like(e->p, f->in[SN_NOISE_X].buf, "d");
    struct sn_op *op = sn_op_add(e->p, sn_op_row(f->kind)->dx, "%.60s", f->label);
    op->in[SN_NOISE_X] = sn_grad_get(e, f->out[SN_NOISE_Y].buf);
    op->in[SN_NOISE_ADDEND] = sn_grad_get(e, f->in[SN_NOISE_X].buf);
    op->out[SN_NOISE_Y] = sn_view_all(e->p, dx);
    op->attr = f->attr;
    sn_grad_set(e, f->in[SN_NOISE_X].buf, op->out[SN_NOISE_Y]);
}

/* The weights' first: then the input's takes the place of what both read. */
void sn_grad_prompt(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_view dy = sn_grad_get(e, f->out[SN_PROMPT_Y].buf);
    int w = sn_shard_of(e, f->in[SN_PROMPT_W]);
    if (sn_shard_trains(e, w)) {
        sn_shard_ready(e, w);
        struct sn_op *op = sn_op_add(e->p, SN_OP_PROMPT_DW, "%.60s.dw", f->label);
        op->in[SN_PROMPT_DW_DY] = dy;
        op->in[SN_PROMPT_DW_F] = f->in[SN_PROMPT_F];
        op->attr = f->attr;
        sn_into_shard(e, op, 0, w, false);
        sn_shard_used(e, w);
    }
    if (!wants(e, f->in[SN_PROMPT_X]))
        return;
    int dx = sn_buffer_like(e->p, f->in[SN_PROMPT_X].buf, "d");
    struct sn_op *op = sn_op_add(e->p, SN_OP_PROMPT_DX, "%.60s", f->label);
    op->in[SN_PROMPT_DX_DY] = dy;
    op->out[SN_PROMPT_DX_DX] = sn_view_all(e->p, dx);
    op->attr = f->attr;
    contribute(e, f->in[SN_PROMPT_X], sn_view_all(e->p, dx));
}

void sn_grad_add(struct sn_emit *e, const struct sn_op *f)
{
    for (int i = 0; i < 2; i++) /* the same gradient goes both ways: no copy, an alias */
        if (wants(e, f->in[i]))
            contribute(e, f->in[i], sn_grad_get(e, f->out[SN_ADD_Y].buf));
}

static void grad_positions(struct sn_emit *e, const struct sn_op *f, struct sn_view dy)
{
    int pos = sn_shard_of(e, f->in[SN_EMBED_P]);
    if (!sn_shard_trains(e, pos))
        return;
    sn_shard_ready(e, pos);
    struct sn_op *op = sn_op_add(e->p, SN_OP_POS_GRAD, "%.60s.pos", f->label);
    op->in[SN_POS_GRAD_DY] = dy;
    op->attr = f->attr;
    sn_into_shard(e, op, 0, pos, false);
    sn_shard_used(e, pos);
}

void sn_grad_embed(struct sn_emit *e, const struct sn_op *f)
{
    struct sn_view dy = sn_grad_get(e, f->out[SN_EMBED_Y].buf);
    int w = sn_shard_of(e, f->in[SN_EMBED_W]);
    grad_positions(e, f, dy);
    if (!sn_shard_trains(e, w))
        return;
    sn_shard_ready(e, w);
    if (!e->grad_written[w]) { /* a scatter cannot initialise */
        struct sn_op *zero = sn_op_add(e->p, SN_OP_ZERO, "%.60s.zero", f->label);
        sn_into_shard(e, zero, 0, w, false);
        zero->when = zero->acc[SN_ZERO_X] == SN_ACC_FIRST_WRITES ? SN_FIRST : SN_EVERY;
        zero->acc[SN_ZERO_X] = SN_ACC_WRITE;
    }
    struct sn_op *op = sn_op_add(e->p, SN_OP_EMBED_GRAD, "%.60s.dw", f->label);
    op->in[SN_EMBED_GRAD_IDS] = f->in[SN_EMBED_IDS];
    op->in[SN_EMBED_GRAD_DY] = dy;
    op->attr = f->attr;
    sn_into_shard(e, op, 0, w, false);
    op->acc[SN_EMBED_GRAD_DW] = SN_ACC_ADD;
    sn_shard_used(e, w);
}

/* A cast or a copy: the gradient of one is that of the other. */
void sn_grad_copy(struct sn_emit *e, const struct sn_op *f)
{
    if (!wants(e, f->in[SN_COPY_X]))
        return;
    struct sn_view dy = sn_grad_of(e, f->out[SN_COPY_Y]);
    if (!is_part(e, f->in[SN_COPY_X])) {
        contribute(e, f->in[SN_COPY_X], dy);
        return;
    }
    struct sn_view dx = sn_grad_slice(e, f->in[SN_COPY_X]);
    struct sn_op *op = sn_op_add(e->p, SN_OP_COPY, "%.60s", f->label);
    op->in[SN_COPY_X] = dy;
    op->out[SN_COPY_Y] = dx;
}

/* --- moves between placements ----------------------------------------------------------------- */

void sn_grad_move(struct sn_emit *e, const struct sn_op *f)
{
    static const int kind[] = {[SN_KEEP] = -1,
                               [SN_MOVE_ALL_GATHER] = SN_OP_ALL_GATHER,
                               [SN_MOVE_ALL_REDUCE] = SN_OP_ALL_REDUCE,
                               [SN_MOVE_REDUCE_SCATTER] = SN_OP_REDUCE_SCATTER,
                               [SN_MOVE_ALL_TO_ALL] = SN_OP_ALL_TO_ALL};
    struct sn_view dy = sn_grad_get(e, f->out[SN_MOVE_TO].buf);
    if (!wants(e, f->in[SN_MOVE_FROM]))
        return;
    assert(f->grad_move != SN_SLICE && f->grad_move != SN_NEVER); /* no operation takes a slice */
    if (f->grad_move == SN_KEEP) {
        contribute(e, f->in[SN_MOVE_FROM], dy);
        return;
    }
    struct sn_op op = sn_comm_op(kind[f->grad_move], f->group, "%.60s", f->label);
    op.in[SN_MOVE_FROM] = dy;
    int dx = sn_buffer_like(e->p, f->in[SN_MOVE_FROM].buf, "d");
    if (!e->p->failed && e->p->bufs[dx].dtype != e->p->bufs[dy.buf].dtype) /* a sum, or of one */
        dx = sn_buffer_add(e->p, SN_CLASS_TEMP, e->p->bufs[dy.buf].dtype, e->p->bufs[dx].rows,
                           e->p->bufs[dx].cols, "d.%.100s",
                           e->p->bufs[f->in[SN_MOVE_FROM].buf].name);
    op.out[SN_MOVE_TO] = sn_view_all(e->p, dx);
    op.attr = f->attr;
    op.codable = f->codable;
    op.is_input_grad = true;
    sn_comm_run(e->p, &op);
    contribute(e, f->in[SN_MOVE_FROM], sn_view_all(e->p, sn_exact_rounded(e, dx)));
}

void sn_grad_swap(struct sn_emit *e, const struct sn_op *f)
{
    if (!wants(e, f->in[SN_TRANSPOSE_X]))
        return;
    struct sn_view dy = sn_grad_of(e, f->out[SN_TRANSPOSE_Y]),
                   dx = sn_grad_slice(e, f->in[SN_TRANSPOSE_X]);
    struct sn_op *op = sn_op_add(e->p, SN_OP_TRANSPOSE, "%.60s", f->label);
    op->in[SN_TRANSPOSE_X] = dy;
    op->out[SN_TRANSPOSE_Y] = dx;
    op->attr.blocks_a = f->attr.blocks_b;
    op->attr.blocks_b = f->attr.blocks_a;
}

/* --- all -------------------------------------------------------------------------------------- */

/* Weights that were gathered for the forward segment are gone: read those of now. Of codes the rule
 * that reads them has them decoded. */
static void read_current_weights(const struct sn_emit *e, struct sn_op *f)
{
    for (int k = 0; k < SN_MAX_IN; k++) {
        int bucket = f->in[k].buf < 0 ? -1 : e->p->bufs[f->in[k].buf].bucket;
        bool is_coded = bucket >= 0 && e->job->buckets[bucket].is_coded;
        if (bucket >= 0 && !is_coded && e->bucket_weight[bucket] >= 0)
            f->in[k].buf = e->bucket_weight[bucket];
    }
}

/* First operation of the unit, or of its block of model.mtp, that ends with operation i. */
static int unit_begin(const struct sn_emit *e, int first_op, int i)
{
    int unit = e->p->ops[i].layer;
    while (i > first_op && e->p->ops[i - 1].layer == unit)
        i--;
    return i;
}

void sn_emit_backward(struct sn_emit *e, int first_op, int n_ops)
{
    int begin = first_op + n_ops;
    for (int i = first_op + n_ops - 1; i >= first_op && !e->p->failed; i--) {
        struct sn_op f = e->p->ops[i]; /* a copy: emitting may move the array */
        if (i < begin) {
            e->unit_end = begin;
            e->unit_begin = begin = unit_begin(e, first_op, i);
            e->p->layer = f.layer;
            sn_zero_enter(e, sn_unit_of_op(e->job, f.layer), true);
            while (e->n_copied > 0)
                e->again[e->copied[--e->n_copied]] = -1;
        }
        if (f.kind == SN_OP_WAIT && !f.extra)
            sn_grad_wait(e, &f);
        /* The head's own operations lead to no gradient view: it has emitted its backward. */
        const struct sn_op_row *row = sn_op_row(f.kind);
        if (f.out[0].buf < 0 || sn_grad_get(e, f.out[0].buf).buf < 0 || !row->gradient || f.extra)
            continue;
        read_current_weights(e, &f);
        sn_recompute(e, &f);
        row->gradient(e, &f);
    }
}
