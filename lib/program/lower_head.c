/*
 * lower_head.c - the output head and its cross-entropy, in blocks of rows.
 *
 * Logits of the whole micro-batch never exist at once: for each block of rows the head's GEMM, the
 * loss, and (in training) both gradient GEMMs follow one another, so that the only tensor of V
 * columns is the block's. The gradients need no later input, because the loss is the end of the
 * model; they are therefore emitted here, in the forward segment, and backward begins from the
 * gradient of the head's input.
 *
 *   logits = x W^T      dlogits = (softmax - onehot) loss_scale / targets
 *
 * and with train.z_loss a multiple of the log-sum-exp's square beside the loss (kernels/ops.h).
 *
 *   dx = dlogits W      dW += dlogits^T x
 *
 * The head of a block of model.mtp is this one, with targets further on and a weight.
 *
 * Ranks that share the table hold words first .. first + V/P - 1 each: a row's maximum, sum and
 * target logit are found on each rank and gathered (three numbers a row), so that only they travel
 * (Shoeybi et al., arXiv 1909.08053, 3).
 */
#include "lib/program/build.h"

struct head {
    struct sn_emit *e;
    const struct sn_node *n;
    int shard;
    struct sn_view x; /* all rows */
    int dx;           /* buffer; -1: nothing upstream trains */
    struct sn_view w;
    struct sn_attr attr;
    struct sn_exact_attr dx_sum;
    struct sn_cut cut;
};

static void gradients(const struct head *h, int logits, struct sn_view x, int64_t row)
{
    struct sn_program *p = h->e->p;
    struct sn_op *op;
    if (h->dx >= 0) {
        op = sn_op_add(p, SN_OP_GEMM, "%s.dx", h->n->point);
        op->in[SN_GEMM_A] = sn_view_all(p, logits);
        op->in[SN_GEMM_B] = h->w;
        op->attr.exact = h->dx_sum;
        op->out[SN_GEMM_C] = sn_view_rows(p, h->dx, row, x.rows);
    }
    if (sn_shard_trains(h->e, h->shard)) {
        sn_shard_ready(h->e, h->shard);
        op = sn_op_add(p, SN_OP_GEMM, "%s.dw", h->n->point);
        op->in[SN_GEMM_A] = sn_view_all(p, logits);
        op->in[SN_GEMM_B] = x;
        op->attr.gemm.trans_a = true;
        sn_into_shard(h->e, op, 0, h->shard, false);
    }
}

/* What every rank that has some of the words knows of them; absent where one has them all. */
static struct sn_view parts_of_all(const struct head *h, int logits, struct sn_view targets)
{
    struct sn_program *p = h->e->p;
    struct sn_mesh_place at = sn_mesh_place(&h->e->job->mesh, h->e->job->rank);
    if (sn_cut_ways(h->cut.weight, SN_CUT_ROWS, &at).size == 1)
        return sn_no_view;
    int parts = h->attr.exact.depth ? (int)(h->w.rows / h->attr.exact.depth) : 1;
    int part =
        sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, parts * targets.rows, 3, "%s.part", h->n->point);
    struct sn_op *op = sn_op_add(p, SN_OP_CE_PART, "%s.part", h->n->point);
    op->in[SN_CE_PART_LOGITS] = sn_view_all(p, logits);
    op->in[SN_CE_PART_TARGETS] = targets;
    op->out[SN_CE_PART_PART] = sn_view_all(p, part);
    op->attr = h->attr;
    return sn_parts_of_all(h->e, part, h->cut.give, h->n->point);
}

/* Where the losses of rows go, and how many words are likelier: of all rows where somebody asks. */
static void row_results(const struct head *h, struct sn_op *op, int64_t row, int64_t rows)
{
    struct sn_program *p = h->e->p;
    const struct sn_job *j = h->e->job;
    if (!j->scores || h->e->train) {
        int losses =
            sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, rows, 1, "row_loss.%lld", (long long)row);
        op->out[SN_CROSS_ENTROPY_ROW_LOSS] = sn_view_all(p, losses);
        return;
    }
    struct sn_view of_rows = sn_view_rows(p, j->row_scores, row, rows);
    op->out[SN_CROSS_ENTROPY_ROW_LOSS] = of_rows;
    op->out[SN_CROSS_ENTROPY_ROW_LOSS].cols = 1;
    op->out[SN_CROSS_ENTROPY_ROW_AHEAD] = op->out[SN_CROSS_ENTROPY_ROW_LOSS];
    op->out[SN_CROSS_ENTROPY_ROW_AHEAD].offset += 1;
}

static void block(const struct head *h, int64_t row, int64_t rows)
{
    struct sn_program *p = h->e->p;
    struct sn_job *j = h->e->job;
    int logits =
        sn_buffer_add(p, SN_CLASS_TEMP, j->dtype, rows, h->w.rows, "logits.%lld", (long long)row);
    struct sn_view x = sn_view_rows(p, h->x.buf, row, rows);
    struct sn_op *op = sn_op_add(p, SN_OP_GEMM, "%s", h->n->point);
    op->in[SN_GEMM_A] = x;
    op->in[SN_GEMM_B] = h->w;
    op->out[SN_GEMM_C] = sn_view_all(p, logits);
    op->attr.gemm.trans_b = true;

    bool grads = h->dx >= 0 || sn_shard_trains(h->e, h->shard);
    int dlogits = grads ? sn_buffer_add(p, SN_CLASS_TEMP, j->dtype, rows, h->w.rows, "dlogits.%lld",
                                        (long long)row)
                        : -1;
    struct sn_view targets = sn_targets_of(h->e, h->n, row, rows);
    struct sn_view parts = parts_of_all(h, logits, targets);
    op = sn_op_add(p, SN_OP_CROSS_ENTROPY, "%s.loss", h->n->point);
    op->in[SN_CROSS_ENTROPY_LOGITS] = sn_view_all(p, logits);
    op->in[SN_CROSS_ENTROPY_TARGETS] = targets;
    op->in[SN_CROSS_ENTROPY_PARTS] = parts;
    if (h->attr.vocab.sets > 0)
        op->in[SN_CROSS_ENTROPY_SETS] = sn_token_rows(h->e, j->sets, row, rows);
    op->out[SN_CROSS_ENTROPY_DLOGITS] = grads ? sn_view_all(p, dlogits) : sn_no_view;
    row_results(h, op, row, rows);
    if (h->attr.vocab.z_loss != 0)
        op->out[SN_CROSS_ENTROPY_ROW_Z] = sn_view_all(
            p, sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, rows, 1, "row_z.%lld", (long long)row));
    op->attr = h->attr;
    if (grads)
        gradients(h, dlogits, x, row);
}

/* generate: logits of one row, whose number is known at run time, in their own segment. */
static void pick_row(const struct head *h)
{
    struct sn_program *p = h->e->p;
    sn_segment_begin(p, SN_SEGMENT_HEAD);
    p->logits = sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, 1, h->w.rows, "logits");
    struct sn_op *op = sn_op_add(p, SN_OP_GEMM, "%s", h->n->point);
    op->in[SN_GEMM_A] = sn_view_rows(p, h->x.buf, 0, 1);
    op->in[SN_GEMM_A].index = h->e->row ? SN_AT_FIXED : SN_AT_ROW;
    op->in[SN_GEMM_B] = h->w;
    op->out[SN_GEMM_C] = sn_view_all(p, p->logits);
    op->attr.gemm.trans_b = true;
}

/* Ranks with some of the words each have a part of dx: they are summed here, where under sequence
 * parallelism the slice that is kept until backward is short. */
static void leave(const struct head *h)
{
    struct sn_program *p = h->e->p;
    const struct sn_value_place *v = &h->e->value[h->n->in[0]];
    int buf = h->x.buf, end = v->used == buf ? v->buf : buf;
    for (int i = p->n_ops - 1; i >= 0 && buf != end && !p->failed; i--) {
        struct sn_op f = p->ops[i];
        if (f.out[SN_MOVE_TO].buf != buf || f.in[SN_MOVE_FROM].buf < 0)
            continue;
        sn_op_row(f.kind)->gradient(h->e, &f);
        sn_grad_set(h->e, buf, sn_no_view);
        buf = f.in[SN_MOVE_FROM].buf;
    }
}

void sn_lower_head(struct sn_emit *e, const struct sn_node *n)
{
    int shard = e->job->first_shard[n->param[0]];
    struct head h = {.e = e, .n = n, .shard = shard, .dx = -1, .cut = sn_cut_of(e->job, n->point)};
    h.x = sn_take(e, n->in[0], h.cut.want);
    h.w = sn_weight(e, shard);
    h.attr = sn_localised(e, n);
    struct sn_exact_attr sums = sn_exact_product(e->job, &h.cut, h.x.cols, h.w.rows);
    if (sn_config_exact(e->job->config)) {
        int64_t words = e->job->config->model.vocab;
        h.dx_sum = (struct sn_exact_attr){SN_EXACT_ROWS, .depth = sums.dx_depth};
        h.attr.exact = (struct sn_exact_attr){
            SN_EXACT_LOSSES, .depth = (int32_t)(words / sn_config_term_parts(words, words))};
    }
    bool told = e->train && n->depth == 0; /* of what is no loss of the model: the gradient alone */
    h.attr.vocab.z_loss = told ? (float)e->job->config->train.z_loss : 0;
    h.attr.vocab.sets = told ? sn_told_sets(&e->job->config->data) : 0;
    h.attr.vocab.words = e->job->config->model.vocab;
    h.attr.vocab.first = e->job->shards[shard].tensor[0].from;
    if (e->generate) {
        pick_row(&h);
        return;
    }
    int64_t rows = h.x.rows;
    if (e->job->scores && !e->train) {
        e->job->row_scores = sn_buffer_add(e->p, SN_CLASS_TEMP, SN_F32, rows, 2, "row_scores");
        if (!e->p->failed)
            e->p->bufs[e->job->row_scores].kept = true; /* read when the program has run */
    }
    if (e->train && !e->p->failed && e->p->bufs[h.x.buf].needs_grad) {
        h.dx = sn_exact_gradient(e, h.x.buf);
        sn_grad_set(e, h.x.buf, sn_view_all(e->p, h.dx));
    }
    for (int64_t r = 0; r < rows && !e->p->failed; r += e->job->head_block)
        block(&h, r, e->job->head_block < rows - r ? e->job->head_block : rows - r);
    if (sn_shard_trains(e, shard))
        sn_shard_used(e, shard);
    if (h.dx >= 0)
        leave(&h);
}
