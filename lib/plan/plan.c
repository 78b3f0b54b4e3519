#include "lib/plan/plan.h"

#include "lib/base/mem.h"
#include "lib/plan/foreign_memory.h"
#include "lib/program/verify.h"

/* --- memory and traffic --------------------------------------------------------------------------
 */

/* Groups of more than one rank that the step communicates in: each has buffers of its library. */
static int communicators(const struct sn_job *j)
{
    unsigned seen = 0;
    for (int i = 0; i < j->train.n_ops; i++)
        if (j->train.ops[i].kind >= SN_NKERNELS && j->train.ops[i].kind != SN_OP_ENTER)
            seen |= 1u << j->train.ops[i].group;
    int n = 0;
    for (int q = 0; q < SN_NGROUPS; q++)
        n += seen >> q & 1u && j->group_size[q] > 1;
    return n;
}

/* Of one rank of a stage. */
static void memory_of(struct sn_memory_plan *out, const struct sn_job *j, const struct sn_pricer *p)
{
    sn_job_memory(j, out);
    if (!p)
        return;
    sn_foreign_memory(out, j, p->software);
    if (p->machine->device.library > 0) {
        out->total -= out->library;
        out->library =
            p->machine->device.library + communicators(j) * p->machine->device.communicator;
        out->total += out->library;
    }
}

void sn_plan_memory(struct sn_memory_plan *out, const struct sn_stages *s,
                    const struct sn_pricer *p)
{
    *out = (struct sn_memory_plan){0};
    for (int i = 0; i < s->n; i++) {
        struct sn_memory_plan stage;
        memory_of(&stage, s->job[i], p);
        if (stage.total > out->total)
            *out = stage;
    }
}

static void add_traffic(struct sn_plan *p, const struct sn_job *j)
{
    int64_t bytes[SN_NAXES];
    sn_job_traffic_of_stage(j, bytes);
    for (int a = 0; a < SN_NAXES; a++)
        p->traffic[a] += bytes[a];
    p->snapshot_traffic += sn_job_snapshot_traffic_of_stage(j);
}

/* --- time ----------------------------------------------------------------------------------------
 */

static void add_time(struct sn_plan *out, const struct sn_job *j, const struct sn_sim *sim,
                     const struct sn_pricer *p)
{
    const struct sn_config *c = j->config;
    double tokens = (double)c->train.global_batch * (double)c->model.seq;
    double peak = p->machine->device.gemm[c->train.precision].peak * out->ranks;
    out->step_time = sim->step;
    out->bubble = sim->bubble;
    out->longest = sim->longest;
    out->stage = sim->stage[sim->longest];
    out->tokens_per_s = sim->step > 0 ? tokens / sim->step : 0;
    out->mfu =
        peak > 0 ? out->tokens_per_s * sn_model_flops_per_token(j->model, &c->model) / peak : 0;
}

enum sn_status sn_plan_make(struct sn_plan *out, const struct sn_stages *s,
                            const struct sn_pricer *p, struct sn_err *err)
{
    struct sn_plan plan = {.ranks = sn_grid_ranks(&s->job[0]->grid),
                           .micros = s->job[0]->train.micros};
    for (int i = 0; i < s->n; i++)
        add_traffic(&plan, s->job[i]);
    sn_plan_memory(&plan.memory, s, p);
    if (p) {
        struct sn_sim sim;
        SN_TRY(sn_sim_run(&sim, s, p, false, err));
        add_time(&plan, s->job[0], &sim, p);
        sn_sim_fini(&sim);
        for (int i = 0; i < s->n; i++) {
            int64_t bytes[SN_MAX_LEVELS];
            sn_price_levels(p, s->job[i], bytes);
            for (int l = 0; l < SN_MAX_LEVELS; l++)
                plan.level_traffic[l] += bytes[l];
        }
    }
    *out = plan;
    return SN_OK;
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
