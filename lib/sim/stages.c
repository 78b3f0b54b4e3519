#include "lib/sim/stages.h"

#include "lib/base/mem.h"
#include "lib/base/thread.h"
#include "lib/config/batch.h"
#include "lib/verify/verify.h"

#include <stdatomic.h>

typedef enum sn_status creator(struct sn_job **out, const struct sn_job_env *env,
                               struct sn_err *err);

/* Stages that threads compile: each takes the next, until there is none or one has failed. What is told is the fault of
 * the first stage that has one: those before it were taken before. */
struct work {
    struct sn_stages *stages;
    const struct sn_job_env *env;
    creator *create;
    int stride; /* ranks from a stage to the next */
    atomic_int next;
    atomic_bool failed;
    pthread_mutex_t lock; /* of what follows */
    int stage;            /* that is told; st SN_OK: none is */
    enum sn_status st;
    struct sn_err *err;
};

static void tell(struct work *w, int stage, enum sn_status st, const struct sn_err *err)
{
    atomic_store(&w->failed, true);
    (void)pthread_mutex_lock(&w->lock);
    if (w->st == SN_OK || stage < w->stage) {
        w->stage = stage;
        w->st = st;
        *w->err = *err;
    }
    (void)pthread_mutex_unlock(&w->lock);
}

static void *compile_stages(void *arg)
{
    struct work *w = arg;
    struct sn_job_env e = *w->env;
    int n = w->stages->n;
    for (int s; !atomic_load(&w->failed) && (s = atomic_fetch_add(&w->next, 1)) < n;) {
        struct sn_err err;
        e.rank = s * w->stride;
        enum sn_status st = w->create(&w->stages->job[s], &e, &err);
        if (st != SN_OK)
            tell(w, s, st, &err);
    }
    return NULL;
}

static void compile_side_by_side(struct work *w)
{
    enum { MOST = 15, STACK = 4 << 20 }; /* threads beside the caller's */
    pthread_t thread[MOST];
    int n = sn_cores(), began = 0;
    n = n < w->stages->n ? n : w->stages->n;
    while (began < n - 1 && began < MOST &&
           sn_thread_start(&thread[began], STACK, compile_stages, w) == 0)
        began++;
    (void)compile_stages(w);
    while (began > 0)
        (void)pthread_join(thread[--began], NULL);
}

static enum sn_status create_all(struct sn_stages *out, const struct sn_job_env *env,
                                 creator *create, struct sn_err *err)
{
    int n = env->config->layout.pipeline;
    struct sn_grid grid;
    *out = (struct sn_stages){.job = sn_alloc_n((size_t)n, sizeof(*out->job)), .n = n};
    if (!out->job)
        return sn_fail(err, SN_ENOMEM, "plan: no memory for %d stages", n);
    enum sn_status st = sn_job_grid(&grid, env->config, err);
    if (st == SN_OK) {
        struct work w = {.stages = out, .env = env, .create = create, .err = err};
        w.stride = grid.stride[SN_AXIS_PIPELINE];
        (void)pthread_mutex_init(&w.lock, NULL);
        compile_side_by_side(&w);
        (void)pthread_mutex_destroy(&w.lock);
        st = w.st;
    }
    if (st != SN_OK)
        sn_stages_fini(out);
    return st;
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
