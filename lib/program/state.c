/*
 * state.c - the buffers that live as long as the job: weights, gradients, optimizer state, the
 * token batch, the scalars, staging of collectives.
 *
 * fp32: the weights are the master copy. bf16, fp16: the forward pass reads a copy in that type,
 * and the fp32 master is optimizer state. A frozen parameter has neither gradient nor moments.
 */
#include "lib/program/build.h"

#include "lib/layout/collective.h"

static void one_param(struct sn_job *j, struct sn_program *p, int i)
{
    const struct sn_param *q = &j->model->params[i];
    struct sn_param_state *s = &j->params[i];
    int first = p->n_bufs;
    s->weight = sn_buffer_add(p, SN_CLASS_PARAM, j->dtype, q->rows, q->cols, "%s", q->name);
    s->master = j->dtype == SN_F32 ? s->weight
                                   : sn_buffer_add(p, SN_CLASS_OPTIM, SN_F32, q->rows, q->cols,
                                                   "master.%s", q->name);
    s->grad = s->exp_avg = s->exp_avg_sq = -1;
    if (q->trainable) {
        s->grad = sn_buffer_add(p, SN_CLASS_GRAD, SN_F32, q->rows, q->cols, "grad.%s", q->name);
        s->exp_avg =
            sn_buffer_add(p, SN_CLASS_OPTIM, SN_F32, q->rows, q->cols, "exp_avg.%s", q->name);
        s->exp_avg_sq =
            sn_buffer_add(p, SN_CLASS_OPTIM, SN_F32, q->rows, q->cols, "exp_avg_sq.%s", q->name);
    }
    for (int b = first; b < p->n_bufs; b++)
        p->bufs[b].param = i;
}

void sn_state_buffers(struct sn_job *j, struct sn_program *p)
{
    for (int i = 0; i < j->model->n_params; i++)
        one_param(j, p, i);
    int64_t batch = j->rows * p->micros;
    j->ids = sn_buffer_add(p, SN_CLASS_BATCH, SN_I32, batch, 1, "ids");
    j->targets = sn_buffer_add(p, SN_CLASS_BATCH, SN_I32, batch, 1, "targets");
    int64_t scalars = (int64_t)sizeof(struct sn_scalars);
    j->scalars = sn_buffer_add(p, SN_CLASS_SCALARS, SN_U8, 1, scalars, "scalars");
    j->staging =
        sn_buffer_add(p, SN_CLASS_COMM, SN_U8, 1, sn_collective_staging(j->ranks), "staging");
    p->n_state_bufs = p->n_bufs;
}
