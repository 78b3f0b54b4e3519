/*
 * optimizer.c - the update chunk: wait for the gradients, one global norm, one decision, AdamW.
 *
 * Nothing is updated before the norm of everything is known (DESIGN.md 6: no optimistic update).
 */
#include "lib/program/build.h"

static void wait_for_all(struct sn_program *p)
{
    int n = p->n_ops;
    for (int i = 0; i < n && !p->failed; i++) {
        if (p->ops[i].kind != SN_OP_ALL_REDUCE)
            continue;
        struct sn_op *op = sn_op_add(p, SN_OP_WAIT, "%.60s", p->ops[i].label);
        op->axis = p->failed ? SN_AXIS_WORLD : p->ops[i].axis;
        op->waits_for = i;
    }
}

static void adamw(struct sn_job *j, struct sn_program *p, int param)
{
    const struct sn_param_state *s = &j->params[param];
    const struct sn_optimizer_config *o = &j->config->train.optimizer;
    const struct sn_param *q = &j->model->params[param];
    struct sn_op *op = sn_op_add(p, SN_OP_ADAMW, "%.60s", q->name);
    op->in[0] = sn_view_flat(p, s->grad);
    op->out[0] = sn_view_flat(p, s->master);
    op->out[1] = sn_view_flat(p, s->exp_avg);
    op->out[2] = sn_view_flat(p, s->exp_avg_sq);
    op->out[3] = s->master == s->weight ? sn_no_view : sn_view_flat(p, s->weight);
    op->attr.beta1 = (float)o->beta1;
    op->attr.beta2 = (float)o->beta2;
    op->attr.eps = (float)o->eps;
    op->attr.decay = q->decay ? (float)o->weight_decay : 0.0f;
}

void sn_emit_update(struct sn_job *j, struct sn_program *p)
{
    sn_chunk_begin(p, SN_CHUNK_UPDATE);
    wait_for_all(p);
    if (j->first_grad >= 0) {
        struct sn_op *op = sn_op_add(p, SN_OP_SQ_NORM, "grad_norm");
        int64_t n = j->class_bytes[SN_CLASS_GRAD] / 4;
        op->in[0] = (struct sn_view){.buf = j->first_grad, .rows = 1, .cols = n, .ld = n};
    }
    struct sn_op *op = sn_op_add(p, SN_OP_DECIDE, "decide");
    op->attr.dynamic_scale =
        j->config->train.precision == SN_F16 && j->config->train.loss_scale == 0;
    op = sn_op_add(p, SN_OP_AGREE, "step_end");
    op->axis = SN_AXIS_WORLD;
    for (int i = 0; i < j->model->n_params && !p->failed; i++)
        if (j->params[i].grad >= 0)
            adamw(j, p, i);
}
