#include "lib/sim/plan.h"

#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/machine/losses.h"
#include "lib/cost/foreign_memory.h"
#include "lib/program/opinfo.h"

/* --- memory and traffic ----------------------------------------------------------------------- */

/* Groups of more than one rank that the step communicates in: each has buffers of its library. */
static int communicators(const struct sn_job *j)
{
    unsigned seen = 0;
    for (int i = 0; i < j->train.n_ops; i++)
        if (sn_op_communicates(&j->train.ops[i]))
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
        out->library =
            p->machine->device.library + communicators(j) * p->machine->device.communicator;
        sn_memory_add_up(out);
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

/* --- time ------------------------------------------------------------------------------------- */

static bool codes(const struct sn_op *op)
{
    return sn_op_row(op->kind)->codes;
}

static bool is_again(const struct sn_op *op)
{
    return op->is_again;
}

/* Seconds in one step of a stage's operations that are such. */
static double seconds_of(bool (*is_such)(const struct sn_op *), const struct sn_job *j,
                         const struct sn_pricer *p)
{
    const struct sn_program *t = &j->train;
    double seconds = 0;
    for (int c = 0; c < t->n_segments; c++)
        for (int i = t->segments[c].first; i < t->segments[c].first + t->segments[c].n; i++) {
            const struct sn_op *op = &t->ops[i];
            if (is_such(op) && !op->extra)
                seconds += sn_program_runs(t, c, op->when) * sn_price_op(p, t, op);
        }
    return seconds;
}

static void add_time(struct sn_plan *out, const struct sn_stages *s, const struct sn_sim *sim,
                     const struct sn_pricer *p)
{
    const struct sn_job *j = s->job[0];
    const struct sn_config *c = j->config;
    double tokens = (double)j->train.micros * c->layout.data * c->layout.micro_batch * c->model.seq;
    double peak = p->machine->device.gemm[c->train.precision].peak * out->ranks;
    out->step_time = sim->step;
    out->bubble = sim->bubble;
    out->longest = sim->longest;
    out->stage = sim->stage[sim->longest];
    out->tokens_per_s = sim->step > 0 ? tokens / sim->step : 0;
    out->codecs = seconds_of(codes, s->job[sim->longest], p);
    out->again = seconds_of(is_again, s->job[sim->longest], p);
    double flops = sn_model_flops_of_length(j->model, c, c->model.seq);
    out->mfu = peak > 0 ? out->tokens_per_s * flops / peak : 0;
    out->mfu_uncausal =
        peak > 0 ? out->tokens_per_s * sn_model_flops_uncausal(j->model, &c->model) / peak : 0;
}

enum sn_status sn_plan_make_ranked(struct sn_plan *out, const struct sn_stages *s,
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
        add_time(&plan, s, &sim, p);
        sn_sim_fini(&sim);
    }
    *out = plan;
    return SN_OK;
}

void sn_plan_add_levels(struct sn_plan *out, const struct sn_stages *s, const struct sn_pricer *p)
{
    for (int i = 0; i < s->n; i++) {
        int64_t bytes[SN_MAX_LEVELS];
        sn_price_levels(p, s->job[i], bytes);
        for (int l = 0; l < SN_MAX_LEVELS; l++)
            out->level_traffic[l] += bytes[l];
    }
}

enum sn_status sn_plan_make(struct sn_plan *out, const struct sn_stages *s,
                            const struct sn_pricer *p, struct sn_err *err)
{
    SN_TRY(sn_plan_make_ranked(out, s, p, err));
    if (p)
        sn_plan_add_levels(out, s, p);
    return SN_OK;
}

enum sn_status sn_plan_stages(struct sn_plan_stage *out, const struct sn_stages *s,
                              const struct sn_pricer *p, struct sn_err *err)
{
    struct sn_sim sim;
    SN_TRY(sn_sim_run(&sim, s, p, false, err));
    for (int i = 0; i < s->n; i++) {
        memory_of(&out[i].memory, s->job[i], p);
        out[i].time = sim.stage[i];
        out[i].codecs = seconds_of(codes, s->job[i], p);
        out[i].again = seconds_of(is_again, s->job[i], p);
    }
    sn_sim_fini(&sim);
    return SN_OK;
}

enum sn_status sn_plan_of_batch(struct sn_plan *out, struct sn_stages *s, const struct sn_pricer *p,
                                int k, struct sn_err *err)
{
    sn_stages_set_batch(s, k);
    enum sn_status st = sn_plan_make(out, s, p, err);
    sn_stages_set_batch(s, sn_batch_sizes(&s->job[0]->config->train) - 1);
    return st;
}

static double rise_of(const struct sn_layout_config *l)
{
    struct sn_losses table = {.n = 0};
    struct sn_err why;
    double rise;
    if (sn_losses_load(&table, NULL, &why) != SN_OK)
        return -1;
    bool known = sn_losses_sum(&rise, &table, l);
    sn_losses_fini(&table);
    return known ? rise : -1;
}

static enum sn_status make_plain(struct sn_plan *p, const struct sn_job_env *env,
                                 const struct sn_machine *m, const struct sn_software *s,
                                 struct sn_err *err)
{
    struct sn_stages stages = {0};
    struct sn_sim sim = {0};
    struct sn_pricer pricer;
    SN_TRY(sn_stages_create_text(&stages, env, err));
    sn_pricer_init(&pricer, m, s, stages.job[0]);
    enum sn_status st = sn_sim_run(&sim, &stages, &pricer, false, err);
    p->plain_time = sim.step;
    for (int i = 0; i < stages.n; i++) {
        int64_t bytes[SN_NAXES];
        sn_job_traffic_of_stage(stages.job[i], bytes);
        for (int a = 0; a < SN_NAXES; a++)
            p->plain_traffic[a] += bytes[a];
    }
    sn_sim_fini(&sim);
    sn_stages_fini(&stages);
    return st;
}

enum sn_status sn_plan_without_codecs(struct sn_plan *p, const struct sn_job_env *env,
                                      const struct sn_machine *m, const struct sn_software *s,
                                      struct sn_err *err)
{
    if (!sn_config_compresses(env->config))
        return SN_OK;
    struct sn_config *plain = sn_alloc(sizeof(*plain)); /* large for a stack */
    if (!plain)
        return sn_fail(err, SN_ENOMEM, "plan: no memory");
    *plain = *env->config;
    sn_compress_nothing(&plain->layout);
    struct sn_job_env without = *env;
    without.config = plain;
    p->rise = rise_of(&env->config->layout);
    enum sn_status st = make_plain(p, &without, m, s, err);
    sn_free(plain);
    return st;
}
