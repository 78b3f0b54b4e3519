/*
 * job_test.h - one-rank jobs in tests: compile with the CPU's operations, find a parameter's
 * arrays.
 */
#ifndef SN_JOB_TEST_H
#define SN_JOB_TEST_H

#include "lib/run/exec.h"
#include "lib/run/weights.h"

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
    const struct sn_part *q = &j->parts[j->first_part[param]];
    int buf = j->buckets[q->bucket].grad;
    return buf < 0 ? NULL : (const float *)sn_exec_address(x, &j->train, buf) + q->offset;
}

/* The weights of a parameter that is whole on this rank, as they are stored. */
static inline const float *job_weight(struct sn_exec *x, const struct sn_job *j, int param)
{
    const struct sn_part *q = &j->parts[j->first_part[param]];
    int buf = j->buckets[q->bucket].weight;
    return (const float *)sn_exec_address(x, &j->train, buf) + q->offset;
}

#endif
