/*
 * lower_head.c - the output head and its cross-entropy, in blocks of rows.
 *
 * Logits of the whole micro-batch never exist at once: for each block of rows the head's GEMM, the
 * loss, and (in training) both gradient GEMMs follow one another, so that the only tensor of V
 * columns is the block's. The gradients need no later input, because the loss is the end of the
 * model; they are therefore emitted here, in the forward chunk, and backward begins from the
 * gradient of the head's input.
 *
 *   logits = x W^T      dlogits = (softmax - onehot) loss_scale / tokens
 *   dx = dlogits W      dW += dlogits^T x
 */
#include "lib/program/build.h"

struct head {
    struct sn_emit *e;
    const struct sn_node *n;
    int x, dx; /* buffers; dx -1: nothing upstream trains */
    struct sn_view w;
};

static void gradients(const struct head *h, int logits, struct sn_view x, int64_t row)
{
    struct sn_program *p = h->e->p;
    struct sn_op *op;
    if (h->dx >= 0) {
        op = sn_op_add(p, SN_OP_GEMM, "%s.dx", h->n->point);
        op->in[0] = sn_view_all(p, logits);
        op->in[1] = h->w;
        op->out[0] = sn_view_rows(p, h->dx, row, x.rows);
    }
    if (sn_param_trains(h->e, h->n->param[0])) {
        op = sn_op_add(p, SN_OP_GEMM, "%s.dw", h->n->point);
        op->in[0] = sn_view_all(p, logits);
        op->in[1] = x;
        op->out[0] = sn_param_grad(h->e, h->n->param[0], &op->acc[0]);
        op->attr.trans_a = true;
    }
}

static void block(const struct head *h, int64_t row, int64_t rows)
{
    struct sn_program *p = h->e->p;
    struct sn_job *j = h->e->job;
    int logits =
        sn_buffer_add(p, SN_CLASS_TEMP, j->dtype, rows, h->w.rows, "logits.%lld", (long long)row);
    int losses = sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, rows, 1, "row_loss.%lld", (long long)row);
    struct sn_view x = sn_view_rows(p, h->x, row, rows);
    struct sn_op *op = sn_op_add(p, SN_OP_GEMM, "%s", h->n->point);
    op->in[0] = x;
    op->in[1] = h->w;
    op->out[0] = sn_view_all(p, logits);
    op->attr.trans_b = true;

    bool grads = h->dx >= 0 || sn_param_trains(h->e, h->n->param[0]);
    int dlogits = grads ? sn_buffer_add(p, SN_CLASS_TEMP, j->dtype, rows, h->w.rows, "dlogits.%lld",
                                        (long long)row)
                        : -1;
    op = sn_op_add(p, SN_OP_CROSS_ENTROPY, "%s.loss", h->n->point);
    op->in[0] = sn_view_all(p, logits);
    op->in[1] = sn_view_rows(p, j->targets, row, rows);
    op->in[1].index = SN_AT_MICRO;
    op->in[1].stride = j->rows;
    op->out[0] = grads ? sn_view_all(p, dlogits) : sn_no_view;
    op->out[1] = sn_view_all(p, losses);
    if (grads)
        gradients(h, dlogits, x, row);
}

/* generate: logits of one row, whose number is known at run time, in their own chunk. */
static void pick_row(const struct head *h)
{
    struct sn_program *p = h->e->p;
    sn_chunk_begin(p, SN_CHUNK_HEAD);
    h->e->job->logits = sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, 1, h->w.rows, "logits");
    struct sn_op *op = sn_op_add(p, SN_OP_GEMM, "%s", h->n->point);
    op->in[0] = sn_view_rows(p, h->x, 0, 1);
    op->in[0].index = SN_AT_ROW;
    op->in[1] = h->w;
    op->out[0] = sn_view_all(p, h->e->job->logits);
    op->attr.trans_b = true;
}

void sn_lower_head(struct sn_emit *e, const struct sn_node *n)
{
    struct head h = {.e = e, .n = n, .x = e->value_buf[n->in[0]], .dx = -1};
    h.w = sn_view_all(e->p, sn_weight(e, n->param[0]));
    if (e->generate) {
        pick_row(&h);
        return;
    }
    int64_t rows = e->job->rows;
    if (e->train && !e->p->failed && e->p->bufs[h.x].needs_grad) {
        h.dx = sn_buffer_add(e->p, SN_CLASS_TEMP, e->job->dtype, rows, e->p->bufs[h.x].cols, "d.%s",
                             e->p->bufs[h.x].name);
        sn_grad_set(e, h.x, sn_view_all(e->p, h.dx));
    }
    for (int64_t r = 0; r < rows && !e->p->failed; r += e->job->head_block)
        block(&h, r, e->job->head_block < rows - r ? e->job->head_block : rows - r);
}
