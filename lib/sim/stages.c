#include "lib/sim/stages.h"

#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/verify/verify.h"

typedef enum sn_status creator(struct sn_job **out, const struct sn_job_env *env,
                               struct sn_err *err);

static enum sn_status create_all(struct sn_stages *out, const struct sn_job_env *env,
                                 creator *create, struct sn_err *err)
{
    int n = env->config->layout.pipeline;
    *out = (struct sn_stages){.job = sn_alloc_n((size_t)n, sizeof(*out->job))};
    if (!out->job)
        return sn_fail(err, SN_ENOMEM, "plan: no memory for %d stages", n);
    struct sn_job_env e = *env;
    for (e.rank = 0; out->n < n; out->n++) {
        enum sn_status st = create(&out->job[out->n], &e, err);
        if (st != SN_OK) {
            sn_stages_fini(out);
            return st;
        }
        e.rank += out->job[0]->grid.stride[SN_AXIS_PIPELINE];
    }
    return SN_OK;
}

enum sn_status sn_stages_create(struct sn_stages *out, const struct sn_job_env *env,
                                struct sn_err *err)
{
    return create_all(out, env, sn_job_create, err);
}

enum sn_status sn_stages_create_text(struct sn_stages *out, const struct sn_job_env *env,
                                     struct sn_err *err)
{
    return create_all(out, env, sn_job_create_text, err);
}

static enum sn_status play(struct sn_proof *proof, const struct sn_stages *s)
{
    struct sn_grid grid = sn_verify_grid(&s->job[0]->grid);
    proof->played = sn_grid_ranks(&grid);
    const struct sn_job **jobs = sn_alloc_n((size_t)proof->played, sizeof(*jobs));
    if (!jobs)
        return sn_fail(&proof->fault, SN_ENOMEM, "--verify: no memory for %d ranks", proof->played);
    for (int i = 0; i < proof->played; i++)
        jobs[i] = s->job[sn_grid_coord(&grid, i, SN_AXIS_PIPELINE)];
    enum sn_status st = sn_verify(&(struct sn_verify_world){&grid, jobs}, NULL, &proof->fault);
    sn_free(jobs);
    return st;
}

void sn_stages_set_batch(struct sn_stages *s, int k)
{
    for (int i = 0; i < s->n; i++)
        sn_job_set_batch(s->job[i], k);
}

enum sn_status sn_stages_prove(struct sn_proof *out, const struct sn_stages *s, struct sn_err *err)
{
    *out = (struct sn_proof){.is_asked = true};
    enum sn_status st = play(out, s);
    out->holds = st == SN_OK;
    if (st == SN_OK || st == SN_EFAIL)
        return SN_OK;
    *err = out->fault;
    return st;
}

enum sn_status sn_stages_prove_all(struct sn_proof *out, struct sn_stages *s, struct sn_err *err)
{
    int n = sn_batch_sizes(&s->job[0]->config->train);
    enum sn_status st = SN_OK;
    for (int k = 0; k < n && st == SN_OK && (k == 0 || out->holds); k++) {
        sn_stages_set_batch(s, k);
        st = sn_stages_prove(out, s, err);
    }
    sn_stages_set_batch(s, n - 1);
    return st;
}

enum sn_status sn_stages_certificate(uint64_t *out, const struct sn_stages *s, struct sn_err *err)
{
    uint64_t *hash = sn_alloc_n((size_t)s->n, sizeof(*hash));
    if (!hash)
        return sn_fail(err, SN_ENOMEM, "certificate: no memory for %d stages", s->n);
    for (int i = 0; i < s->n; i++)
        hash[i] = sn_program_hash(&s->job[i]->train);
    *out = sn_certificate(hash, s->n);
    sn_free(hash);
    return SN_OK;
}

void sn_stages_fini(struct sn_stages *s)
{
    for (int i = 0; i < s->n; i++)
        sn_job_destroy(s->job[i]);
    sn_free(s->job);
    *s = (struct sn_stages){0};
}
