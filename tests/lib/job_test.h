/*
 * job_test.h - one-rank jobs in tests: a small model to change, compile with the CPU's operations,
 * find a parameter's arrays.
 */
#ifndef SN_JOB_TEST_H
#define SN_JOB_TEST_H

#include "lib/exec/exec.h"
#include "lib/state/weights.h"

/* GPT-2 in fp32, two micro-batches of two samples. */
static inline struct sn_config job_small(void)
{
    struct sn_config c = {0};
    c.model = (struct sn_model_config){.family = SN_GPT2,
                                       .layers = 3,
                                       .hidden = 64,
                                       .heads = 4,
                                       .kv_heads = 4,
                                       .ffn = 96,
                                       .vocab = 101,
                                       .seq = 24,
                                       .tied_embeddings = true,
                                       .norm_eps = 1e-5,
                                       .init_std = 0.02,
                                       .share_layers = 1};
    c.train.global_batch = 4;
    c.train.steps = 10;
    c.layout = (struct sn_layout_config){.data = 1,
                                         .tensor = 1,
                                         .tensor_x = 1,
                                         .tensor_pieces = 1,
                                         .pipeline = 1,
                                         .expert = 1,
                                         .context = 1,
                                         .micro_batch = 2,
                                         .bucket = 50000};
    return c;
}

static inline enum sn_status job_create(struct sn_job **out, const struct sn_config *c,
                                        const struct sn_model *m, int threads, struct sn_err *err)
{
    struct sn_job_env env = {.config = c, .model = m, .ops = sn_ops_cpu(), .threads = threads};
    return sn_job_create(out, &env, err);
}

/* Initial weights, as the forward pass reads them. */
static inline enum sn_status job_weights(struct sn_exec *x, const struct sn_job *j,
                                         struct sn_comm *comm, struct sn_err *err)
{
    struct sn_state s;
    SN_TRY(sn_state_create(&s, x, j, err));
    enum sn_status st = sn_weights_init(&s, j, err);
    sn_state_fini(&s);
    return st == SN_OK ? sn_weights_publish(x, j, comm, err) : st;
}

/* Gradient of a parameter that is whole on this rank; NULL when it does not train. */
static inline const float *job_grad(struct sn_exec *x, const struct sn_job *j, int param)
{
    const struct sn_shard *q = &j->shards[j->first_shard[param]];
    int buf = j->buckets[q->bucket].grad;
    return buf < 0 ? NULL : (const float *)sn_exec_address(x, &j->train, buf) + q->offset;
}

/* The weights of a parameter that is whole on this rank, as they are stored. */
static inline const float *job_weight(struct sn_exec *x, const struct sn_job *j, int param)
{
    const struct sn_shard *q = &j->shards[j->first_shard[param]];
    int buf = j->buckets[q->bucket].weight;
    return (const float *)sn_exec_address(x, &j->train, buf) + q->offset;
}

#endif
