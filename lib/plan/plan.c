#include "lib/plan/plan.h"

#include "lib/base/mem.h"
#include "lib/plan/bubble.h"
#include "lib/program/verify.h"

/* --- stages ------------------------------------------------------------------------------------
 */

enum sn_status sn_stages_create(struct sn_stages *out, const struct sn_job_env *env,
                                struct sn_err *err)
{
    int n = env->config->layout.pipeline;
    *out = (struct sn_stages){.job = sn_alloc_n((size_t)n, sizeof(*out->job))};
    if (!out->job)
        return sn_fail(err, SN_ENOMEM, "plan: no memory for %d stages", n);
    struct sn_job_env e = *env;
    for (e.rank = 0; out->n < n; out->n++) {
        enum sn_status st = sn_job_create(&out->job[out->n], &e, err);
        if (st != SN_OK) {
            sn_stages_fini(out);
            return st;
        }
        e.rank += out->job[0]->grid.stride[SN_AXIS_PIPELINE];
    }
    return SN_OK;
}

void sn_stages_fini(struct sn_stages *s)
{
    for (int i = 0; i < s->n; i++)
        sn_job_destroy(s->job[i]);
    sn_free(s->job);
    *s = (struct sn_stages){0};
}

/* --- the plan ----------------------------------------------------------------------------------
 */

static void add_stage(struct sn_plan *p, const struct sn_job *j)
{
    struct sn_memory_plan m;
    int64_t bytes[SN_NAXES];
    sn_job_memory(j, &m);
    sn_job_traffic_of_stage(j, bytes);
    if (m.total > p->memory.total)
        p->memory = m;
    for (int a = 0; a < SN_NAXES; a++)
        p->traffic[a] += bytes[a];
}

static enum sn_status bubble(struct sn_plan *p, const struct sn_stages *s, struct sn_err *err)
{
    struct sn_stage_work *work = sn_alloc_n((size_t)s->n, sizeof(*work));
    if (!work)
        return sn_fail(err, SN_ENOMEM, "plan: no memory for %d stages", s->n);
    enum sn_status st = SN_OK;
    for (int i = 0; i < s->n && st == SN_OK; i++)
        st = sn_stage_work_init(&work[i], s->job[i], err);
    struct sn_pipeline pipe = sn_job_pipeline(s->job[0]);
    if (st == SN_OK)
        st = sn_bubble_fraction(&p->bubble, &pipe, work, err);
    for (int i = 0; i < s->n; i++)
        sn_stage_work_fini(&work[i]);
    sn_free(work);
    return st;
}

enum sn_status sn_plan_make(struct sn_plan *out, const struct sn_stages *s, struct sn_err *err)
{
    *out = (struct sn_plan){.ranks = sn_grid_ranks(&s->job[0]->grid),
                            .micros = s->job[0]->train.micros};
    for (int i = 0; i < s->n; i++)
        add_stage(out, s->job[i]);
    return bubble(out, s, err);
}

/* --- the proof ---------------------------------------------------------------------------------
 */

static enum sn_status play(struct sn_plan *p, const struct sn_stages *s, struct sn_err *err)
{
    struct sn_grid grid = sn_verify_grid(&s->job[0]->grid);
    p->played = sn_grid_ranks(&grid);
    const struct sn_job **jobs = sn_alloc_n((size_t)p->played, sizeof(*jobs));
    if (!jobs)
        return sn_fail(err, SN_ENOMEM, "--verify: no memory for %d ranks", p->played);
    for (int i = 0; i < p->played; i++)
        jobs[i] = s->job[sn_grid_coord(&grid, i, SN_AXIS_PIPELINE)];
    enum sn_status st = sn_verify(&(struct sn_verify_world){&grid, jobs}, NULL, err);
    sn_free(jobs);
    return st;
}

enum sn_status sn_plan_verify(struct sn_plan *p, const struct sn_stages *s, struct sn_err *err)
{
    enum sn_status st = play(p, s, &p->fault);
    p->verify = true;
    p->verified = st == SN_OK;
    if (st == SN_OK || st == SN_EFAIL)
        return SN_OK;
    *err = p->fault;
    return st;
}
