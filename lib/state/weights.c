#include "lib/state/weights.h"

#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/program/boxes.h"

#include <stdio.h>
#include <string.h>

enum { GROUP_NAME = 24 };

static float *address(struct sn_exec *x, const struct sn_job *j, int buf)
{
    return sn_exec_address(x, &j->train, buf);
}

/* --- what this rank holds of the logical tensors ---------------------------------------------- */

static void add_shape(struct sn_state *s, const char *group, const struct sn_param *q, int tensor)
{
    s->all[s->n_all++] =
        (struct sn_state_shape){group, q->tensor[tensor].name, q->tensor[tensor].rows, q->cols};
}

static void list_all(struct sn_state *s, const struct sn_config *c, const struct sn_model *m)
{
    for (int g = 0; g < sn_state_plain(c); g++)
        for (int i = 0; i < m->n_params; i++)
            for (int k = 0; k < m->params[i].n_tensors; k++)
                if (g == SN_STATE_MODEL || sn_param_trains(&m->params[i]))
                    add_shape(s, sn_state_kind_name(c, (enum sn_state_kind)g), &m->params[i], k);
}

static const char *name_of(const struct sn_state *s, int holder)
{
    return s->groups + (size_t)holder * GROUP_NAME;
}

/* What layout.compress adds: behind the others. */
static void list_extras(struct sn_state *s, const struct sn_job *j,
                        const struct sn_state_extra *extra)
{
    const struct sn_model *m = j->model;
    for (int i = 0, at = 0; extra && i < m->n_params; i++)
        for (int k = 0; k < m->params[i].n_tensors; k++, at++) {
            if (extra[at].has_replica)
                add_shape(s, sn_state_kind_name(j->config, SN_STATE_REPLICA), &m->params[i], k);
            for (int h = 0; h < extra[at].holders; h++)
                add_shape(s, name_of(s, h), &m->params[i], k);
        }
}

/* Room for all tensors, and names for as many holders as any of them has. */
static enum sn_status make_lists(struct sn_state *s, const struct sn_job *j,
                                 const struct sn_state_extra *extra, struct sn_err *err)
{
    size_t tensors = (size_t)sn_model_tensor_count(j->model);
    size_t all = tensors * (size_t)sn_state_plain(j->config);
    int most = 0;
    for (size_t i = 0; extra && i < tensors; i++) {
        all += (size_t)extra[i].has_replica + (size_t)extra[i].holders;
        most = extra[i].holders > most ? extra[i].holders : most;
    }
    s->tensors = sn_alloc_n((size_t)s->n_tensors + 1, sizeof(*s->tensors));
    s->all = sn_alloc_n(all, sizeof(*s->all));
    s->groups = sn_alloc_n((size_t)most + 1, GROUP_NAME);
    if (!s->tensors || !s->all || !s->groups)
        return sn_fail(err, SN_ENOMEM, "state: no memory for a list of %d boxes", s->n_tensors);
    for (int h = 0; h < most; h++)
        (void)snprintf(s->groups + (size_t)h * GROUP_NAME, GROUP_NAME, "%s.%d",
                       sn_state_kind_name(j->config, SN_STATE_FEEDBACK), h);
    return SN_OK;
}

static const struct sn_bucket *bucket_of(const struct sn_job *j, const struct sn_job_box *b)
{
    return &j->buckets[j->train.bufs[b->buf].bucket];
}

static float *place_of(struct sn_exec *x, const struct sn_job *j, const struct sn_job_box *b)
{
    char *p = sn_exec_address(x, &j->train, b->buf);
    p += sn_bucket_bytes(j, bucket_of(j, b), b->buf, b->at);
    return (float *)(void *)p;
}

static void list_boxes(struct sn_state *s, struct sn_exec *x, const struct sn_job *j,
                       const struct sn_job_box *boxes)
{
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_job_box *b = &boxes[i];
        const struct sn_param *param = &j->model->params[b->param];
        bool has_number = b->kind == SN_STATE_FEEDBACK;
        s->tensors[i] = (struct sn_state_tensor){
            .group = has_number ? name_of(s, b->holder) : sn_state_kind_name(j->config, b->kind),
            .name = param->tensor[b->tensor].name,
            .param = b->param,
            .tensor = b->tensor,
            .rows = param->tensor[b->tensor].rows,
            .cols = param->cols,
            .row = b->row,
            .col = b->col,
            .n_rows = b->n_rows,
            .n_cols = b->n_cols,
            .ld = b->ld,
            .p = place_of(x, j, b),
            .owned = b->owned,
            .dtype = j->train.bufs[b->buf].dtype,
            .codec = sn_bucket_codec(j, bucket_of(j, b)),
            .folds = b->holders};
    }
}

/* What PowerSGD's right factors begin with where no checkpoint has them: normals of the columns of
 * the logical tensor, so the same on all replicas and tensor ranks. */
static void factors_begin(struct sn_exec *x, const struct sn_job *j, int bucket)
{
    const struct sn_bucket *b = &j->buckets[bucket];
    int rank = sn_low_rank_of(j, b);
    for (struct sn_low_rank m = {0}; sn_low_rank_next(j, bucket, &m);) {
        const struct sn_shard_tensor *q = j->shards[m.shard].tensor;
        char name[112];
        (void)snprintf(name, sizeof(name), "%s.factors", sn_low_rank_name(j, &m));
        sn_rng_normal(sn_rng_key(j->config->run.seed, name), (uint64_t)(q->col * rank),
                      (size_t)(q->n_cols * rank), 1.0f, address(x, j, b->factors) + m.right * rank);
    }
}

enum sn_status sn_state_create(struct sn_state *out, struct sn_exec *x, const struct sn_job *j,
                               struct sn_err *err)
{
    struct sn_state_extra *extra;
    struct sn_job_box *boxes = NULL;
    *out = (struct sn_state){.base = sn_lora_codec(&j->config->train.lora)};
    SN_TRY(sn_job_extras(&extra, j, err));
    enum sn_status st = sn_job_boxes(&boxes, &out->n_tensors, j, err);
    if (st == SN_OK)
        st = make_lists(out, j, extra, err);
    if (st == SN_OK) {
        list_boxes(out, x, j, boxes);
        list_all(out, j->config, j->model);
        list_extras(out, j, extra);
    } else {
        sn_state_fini(out);
    }
    for (int i = 0; st == SN_OK && i < j->n_buckets; i++)
        if (j->buckets[i].factors >= 0)
            factors_begin(x, j, i);
    sn_free(boxes);
    sn_free(extra);
    return st;
}

void sn_state_fini(struct sn_state *s)
{
    sn_free(s->tensors);
    sn_free(s->all);
    sn_free(s->groups);
    *s = (struct sn_state){0};
}

/* --- initial values, and what the forward pass reads ------------------------------------------ */

enum sn_status sn_weights_init(const struct sn_state *s, const struct sn_job *j, struct sn_err *err)
{
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        const struct sn_param *p = &j->model->params[t->param];
        int64_t at = p->tensor[t->tensor].row; /* at which the tensor begins in it */
        if (strcmp(t->group, sn_state_kind_name(j->config, SN_STATE_MODEL)) != 0)
            continue;
        if (t->n_cols == t->cols && t->dtype == SN_F32) {
            sn_param_init(p, j->config->run.seed, at + t->row, t->n_rows, t->p);
            continue;
        }
        float *row = sn_alloc_n((size_t)t->cols, sizeof(*row));
        if (!row)
            return sn_fail(err, SN_ENOMEM, "%s: no memory for one row", t->name);
        for (int64_t r = 0; r < t->n_rows; r++) {
            sn_param_init(p, j->config->run.seed, at + t->row + r, 1, row);
            sn_state_put(t, r, 0, t->n_cols, row + t->col);
        }
        sn_free(row);
    }
    return SN_OK;
}

/* This rank's part of a bucket's weights, from the master copy in their own type. */
static enum sn_status cast(struct sn_exec *x, const struct sn_job *j, const struct sn_bucket *b,
                           struct sn_err *err)
{
    struct sn_args a = {.scalars = sn_exec_scalars(x)};
    int64_t skip = j->train.bufs[b->weight].cols > b->slice ? sn_bucket_slice_at(j, b) : 0;
    char *to = sn_exec_address(x, &j->train, b->weight);
    a.in[SN_COPY_X] = (struct sn_mat){address(x, j, b->master), SN_F32, 1, b->slice, b->slice};
    a.out[SN_COPY_Y] = (struct sn_mat){to + skip * (int64_t)sn_dtype_size(j->dtype), j->dtype, 1,
                                       b->slice, b->slice};
    if (sn_ops_cpu()->run[SN_OP_COPY](&a, j->threads) != 0)
        return sn_fail(err, SN_EFAIL, "%s: copying the weights to %s failed", b->name,
                       sn_dtype_name(j->dtype));
    return SN_OK;
}

static enum sn_status gather(struct sn_exec *x, const struct sn_job *j, struct sn_comm *comm,
                             const struct sn_bucket *b, struct sn_err *err)
{
    char *all = sn_exec_address(x, &j->train, b->weight);
    int64_t own = sn_bucket_bytes(j, b, b->weight, sn_bucket_slice_at(j, b));
    enum sn_dtype dtype = j->train.bufs[b->weight].dtype;
    struct sn_transfer t = {.kind = SN_ALL_GATHER,
                            .group = b->sliced_over,
                            .dtype = dtype,
                            .n = sn_bucket_bytes(j, b, b->weight, b->slice) /
                                 (int64_t)sn_dtype_size(dtype),
                            .in = all + own,
                            .out = all,
                            .staging = sn_exec_address(x, &j->train, j->staging),
                            .label = b->name};
    return comm->ops->wait(comm, comm->ops->post(comm, &t), err);
}

static enum sn_status publish(struct sn_exec *x, const struct sn_job *j, struct sn_comm *comm,
                              bool keeps_replicas, struct sn_err *err)
{
    int64_t dropped[SN_NAXES] = {0}; /* not a step's traffic */
    for (int i = 0; i < j->n_buckets; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        bool is_replica = sn_state_buffer(j, b, SN_STATE_REPLICA) >= 0;
        if (b->master != b->weight && !(is_replica && keeps_replicas))
            SN_TRY(cast(x, j, b, err));
        if (sn_updates_are_gathered(&b->held))
            SN_TRY(gather(x, j, comm, b, err));
    }
    comm->ops->take_sent_bytes(comm, dropped);
    return SN_OK;
}

enum sn_status sn_weights_publish(struct sn_exec *x, const struct sn_job *j, struct sn_comm *comm,
                                  struct sn_err *err)
{
    return publish(x, j, comm, false, err);
}

enum sn_status sn_weights_publish_loaded(struct sn_exec *x, const struct sn_job *j,
                                         struct sn_comm *comm, struct sn_err *err)
{
    return publish(x, j, comm, true, err);
}
