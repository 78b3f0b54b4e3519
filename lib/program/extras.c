/*
 * extras.c - what there is of each parameter beyond weights and moments, on whatever stage: asked
 * of one rank of each.
 */
#include "lib/program/boxes.h"
#include "lib/program/build.h"

#include "lib/base/mem.h"

/* What the logical tensors of a shard have; of experts, all: other ranks hold those of others. */
static void add_shard(struct sn_state_extra *extras, const struct sn_job *j,
                      const struct sn_shard *shard)
{
    const struct sn_bucket *b = &j->buckets[shard->bucket];
    struct sn_state_extra x = {.has_replica = sn_state_buffer(j, b, SN_STATE_REPLICA) >= 0};
    if (b->feedback >= 0)
        (void)sn_feedback_holder(j, b, &x.holders);
    for (int k = 0; k < shard->n_tensors; k++)
        extras[shard->tensor[k].tensor] = x;
    if (b->replicas == SN_GROUP_EXPERT_DATA)
        for (int k = 0; k < j->model->params[shard->param].n_tensors; k++)
            extras[k] = x;
}

static void add_shards(struct sn_state_extra *out, const struct sn_job *j)
{
    for (int i = 0; i < j->model->n_params; i++) {
        for (int k = 0; k < sn_param_shards(j, i); k++)
            add_shard(out, j, &j->shards[j->first_shard[i] + k]);
        out += j->model->params[i].n_tensors;
    }
}

/* Shards alone say it, and are made in no time. */
static enum sn_status add_stages(struct sn_state_extra *out, const struct sn_job *j,
                                 struct sn_err *err)
{
    struct sn_job_env env = {
        .config = j->config, .model = j->model, .ops = j->ops, .threads = j->threads, .rank = 0};
    for (int stage = 0; stage < j->config->layout.pipeline; stage++) {
        struct sn_job *other;
        SN_TRY(sn_job_create_shards(&other, &env, err));
        add_shards(out, other);
        env.rank += other->grid.stride[SN_AXIS_PIPELINE];
        sn_job_destroy(other);
    }
    return SN_OK;
}

enum sn_status sn_job_extras(struct sn_state_extra **out, const struct sn_job *j,
                             struct sn_err *err)
{
    const struct sn_coding *coding = j->config->layout.compress.coding;
    *out = NULL;
    if (!coding[SN_CODED_DATA].feedback && !sn_coding_loses(&coding[SN_CODED_ZERO]))
        return SN_OK;
    struct sn_state_extra *x = sn_alloc_n((size_t)sn_model_tensor_count(j->model) + 1, sizeof(*x));
    if (!x)
        return sn_fail(err, SN_ENOMEM, "state: no memory to list what compression adds to it");
    enum sn_status st = add_stages(x, j, err);
    if (st == SN_OK)
        *out = x;
    else
        sn_free(x);
    return st;
}
