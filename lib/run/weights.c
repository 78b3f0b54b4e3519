#include "lib/run/weights.h"

#include "lib/base/mem.h"

static float *address(struct sn_exec *x, const struct sn_job *j, int buf)
{
    return sn_exec_address(x, &j->train, buf);
}

void sn_weights_init(struct sn_exec *x, const struct sn_job *j)
{
    for (int i = 0; i < j->model->n_params; i++) {
        const struct sn_param *p = &j->model->params[i];
        sn_param_init(p, j->config->run.seed, 0, p->rows, address(x, j, j->params[i].master));
    }
}

enum sn_status sn_weights_publish(struct sn_exec *x, const struct sn_job *j, struct sn_err *err)
{
    for (int i = 0; i < j->model->n_params; i++) {
        const struct sn_param_state *s = &j->params[i];
        const struct sn_param *p = &j->model->params[i];
        if (s->master == s->weight)
            continue;
        struct sn_args a = {.scalars = sn_exec_scalars(x)};
        int64_t n = p->rows * p->cols;
        a.in[0] = (struct sn_mat){address(x, j, s->master), SN_F32, 1, n, n};
        a.out[0] = (struct sn_mat){address(x, j, s->weight), j->dtype, 1, n, n};
        if (j->ops->run[SN_OP_COPY](&a, j->threads) != 0)
            return sn_fail(err, SN_EFAIL, "%s: copying the weights to %s failed", p->name,
                           sn_dtype_name(j->dtype));
    }
    return SN_OK;
}

static void add_pieces(struct sn_state *s, const struct sn_param *p, const char *group, float *base)
{
    for (int k = 0; k < p->n_pieces; k++)
        s->tensors[s->n_tensors++] = (struct sn_state_tensor){
            group, p->piece[k].name, p->piece[k].rows, p->cols, base + p->piece[k].row * p->cols};
}

enum sn_status sn_state_create(struct sn_state *out, struct sn_exec *x, const struct sn_job *j,
                               struct sn_err *err)
{
    size_t most = (size_t)j->model->n_params * SN_MAX_PIECES * 3;
    *out = (struct sn_state){.tensors = sn_alloc_n(most, sizeof(*out->tensors))};
    if (!out->tensors)
        return sn_fail(err, SN_ENOMEM, "state: no memory for a list of %zu tensors", most);
    for (int i = 0; i < j->model->n_params; i++) {
        const struct sn_param *p = &j->model->params[i];
        const struct sn_param_state *s = &j->params[i];
        add_pieces(out, p, "model", address(x, j, s->master));
        if (s->exp_avg >= 0) {
            add_pieces(out, p, "exp_avg", address(x, j, s->exp_avg));
            add_pieces(out, p, "exp_avg_sq", address(x, j, s->exp_avg_sq));
        }
    }
    return SN_OK;
}

void sn_state_fini(struct sn_state *s)
{
    sn_free(s->tensors);
    *s = (struct sn_state){0};
}
