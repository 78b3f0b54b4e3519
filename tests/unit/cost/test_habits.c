/*
 * test_habits.c - what a trainer's profile changes beside prices: memory (foreign_memory.h), a
 * pipeline's stall, and reductions that more nodes make longer.
 */
#include "lib/base/mem.h"
#include "lib/cost/foreign_memory.h"
#include "lib/sim/plan.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

struct subject {
    struct sn_config config;
    struct sn_model *model;
    struct sn_stages stages;
    struct sn_machine machine;
    struct sn_software software;
    struct sn_pricer pricer;
};

static struct sn_config config_of(int tensor, int pipeline, int data)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.layout.tensor = tensor;
    c.layout.pipeline = pipeline;
    c.layout.data = data;
    return c;
}

static bool subject_init(struct subject *s, const struct sn_config *c)
{
    struct sn_err err = {0};
    *s = (struct subject){.config = *c, .machine = {.devices = 1, .n_levels = 1}};
    s->machine.device = (struct sn_machine_device){.bandwidth = 1e9, .overhead = 1e-6};
    for (int t = 0; t < SN_NPRECISIONS; t++)
        s->machine.device.gemm[t] = (struct sn_gemm_rate){.peak = 1e10, .most = 1};
    s->machine.level[0] = (struct sn_level){.device = 1e8, .efficiency = 1};
    sn_software_default(&s->software);
    enum sn_status st = sn_model_create(&s->model, &s->config.model, &s->config.train, &err);
    struct sn_job_env env = {
        .config = &s->config, .model = s->model, .ops = sn_ops_cpu(), .threads = 1};
    if (st == SN_OK)
        st = sn_stages_create(&s->stages, &env, &err);
    if (st == SN_OK)
        sn_pricer_init(&s->pricer, &s->machine, &s->software, s->stages.job[0]);
    return st == SN_OK || tap_ok(false, "compiles: %s", err.text);
}

static void subject_fini(struct subject *s)
{
    sn_stages_fini(&s->stages);
    sn_model_destroy(s->model);
}

static struct sn_memory_plan memory(const struct subject *s, int stage)
{
    struct sn_memory_plan m;
    sn_job_memory(s->stages.job[stage], &m);
    sn_foreign_memory(&m, s->stages.job[stage], &s->software);
    return m;
}

static bool near_bytes(int64_t got, double want)
{
    return fabs((double)got - want) <= 2; /* of the cuts to whole bytes */
}

/* --- memory ----------------------------------------------------------------------------------- */

static void our_profile_is_our_memory(void)
{
    struct sn_config c = config_of(2, 2, 2);
    struct subject s;
    if (subject_init(&s, &c)) {
        struct sn_memory_plan ours, same = memory(&s, 1);
        sn_job_memory(s.stages.job[1], &ours);
        tap_ok(memcmp(&ours, &same, sizeof(ours)) == 0, "the default changes nothing");
    }
    subject_fini(&s);
}

static void states_follow_zero(void)
{
    for (int zero = 0; zero <= 3; zero++) {
        struct sn_config c = config_of(1, 1, 4);
        struct subject s;
        c.layout.zero = zero;
        if (subject_init(&s, &c)) {
            const struct sn_job *j = s.stages.job[0];
            double n = 0;
            for (int b = 0; b < j->n_buckets; b++)
                n += (double)j->buckets[b].n;
            s.software.param_bytes = 2;
            s.software.grad_bytes = 4;
            s.software.optimizer_bytes = 12;
            struct sn_memory_plan m = memory(&s, 0);
            tap_ok(near_bytes(m.params, 2 * n / (zero >= 3 ? 4 : 1)) &&
                       near_bytes(m.grads, 4 * n / (zero >= 2 ? 4 : 1)) &&
                       near_bytes(m.optimizer, 12 * n / (zero >= 1 ? 4 : 1)),
                   "zero %d divides weights, gradients and states among 4", zero);
        }
        subject_fini(&s);
    }
}

static const struct sn_software habits = {.fused_norm = true,
                                          .kept_replicated = 8,
                                          .kept_unfused = 12,
                                          .kept_sharded = 32,
                                          .kept_scores = 5,
                                          .recompute_live = 1.5,
                                          .logits_bytes = 14,
                                          .logits_gathered_bytes = 6};

static void put_habits(struct subject *s)
{
    sn_software_default(&s->software);
    s->software.fused_norm = habits.fused_norm;
    s->software.kept_replicated = habits.kept_replicated;
    s->software.kept_unfused = habits.kept_unfused;
    s->software.kept_sharded = habits.kept_sharded;
    s->software.kept_scores = habits.kept_scores;
    s->software.recompute_live = habits.recompute_live;
    s->software.logits_bytes = habits.logits_bytes;
    s->software.logits_gathered_bytes = habits.logits_gathered_bytes;
}

/* A layer's activations of one micro-batch, by the formula. */
static double layer_bytes(const struct subject *s)
{
    const struct sn_config *c = &s->config;
    double rows = (double)c->layout.micro_batch * c->model.seq, t = c->layout.tensor;
    double wide = rows * c->model.hidden;
    double norms = 8 + (s->software.fused_norm ? 0 : 12);
    bool keeps = s->software.attention >= SN_ATTENTION_FUSED;
    return wide * norms / (c->layout.sequence_parallel ? t : 1) + wide * 32 / t +
           (keeps ? 5 * rows * c->model.seq * c->model.heads / t : 0);
}

static void layers_are_kept_as_often_as_the_schedule_says(void)
{
    struct sn_config c = config_of(2, 2, 1);
    struct subject s;
    c.model.layers = 4;
    c.layout.n_split = 2;
    c.layout.split[0] = c.layout.split[1] = 2;
    if (subject_init(&s, &c)) {
        put_habits(&s);
        double layer = layer_bytes(&s), rows = (double)c.layout.micro_batch * c.model.seq;
        tap_ok(s.stages.job[0]->train.micros >= 2 &&
                   near_bytes(memory(&s, 0).activations, 2 * 2 * layer),
               "the first stage keeps two layers of two micro-batches");
        tap_ok(near_bytes(memory(&s, 1).activations, 2 * layer + 20 * rows * c.model.vocab),
               "the last one keeps one, and logits that are gathered");
        s.software.fused_norm = false;
        s.software.attention = SN_ATTENTION_TORCH;
        tap_ok(layer_bytes(&s) > layer &&
                   near_bytes(memory(&s, 0).activations, 4 * layer_bytes(&s)),
               "norms of several kernels and scores are kept too");
    }
    subject_fini(&s);
}

static void recomputing_keeps_inputs_and_what_is_alive(void)
{
    struct sn_config c = config_of(2, 1, 1);
    struct subject s;
    c.model.layers = 4;
    c.layout.recompute = SN_RECOMPUTE_FULL;
    c.layout.sequence_parallel = true;
    if (subject_init(&s, &c)) {
        put_habits(&s);
        double rows = (double)c.layout.micro_batch * c.model.seq;
        double kept = (double)sn_dtype_size(s.stages.job[0]->dtype) * rows * c.model.hidden / 2;
        tap_ok(near_bytes(memory(&s, 0).activations,
                          4 * kept + 1.5 * layer_bytes(&s) + 20 * rows * c.model.vocab),
               "four inputs, a layer and a half");
    }
    subject_fini(&s);
}

static void the_fullest_stage_is_the_plan(void)
{
    struct sn_config c = config_of(1, 2, 1);
    struct subject s;
    if (subject_init(&s, &c)) {
        struct sn_plan plan;
        struct sn_err err = {0};
        put_habits(&s);
        s.software.fixed_bytes = 1 << 20;
        int64_t most =
            memory(&s, 0).total > memory(&s, 1).total ? memory(&s, 0).total : memory(&s, 1).total;
        tap_ok(sn_plan_make(&plan, &s.stages, &s.pricer, &err) == SN_OK &&
                   plan.memory.total == most,
               "a plan's memory is the trainer's");
    }
    subject_fini(&s);
}

/* --- time ------------------------------------------------------------------------------------- */

static struct sn_sim play(const struct subject *s)
{
    struct sn_sim sim = {0};
    struct sn_err err = {0};
    if (sn_sim_run(&sim, &s->stages, &s->pricer, false, &err) != SN_OK)
        tap_ok(false, "plays: %s", err.text);
    return sim;
}

static void a_stall_is_idle_time_of_pipelines(void)
{
    for (int pipeline = 1; pipeline <= 2; pipeline++) {
        struct sn_config c = config_of(1, pipeline, 1);
        struct subject s;
        if (subject_init(&s, &c)) {
            struct sn_sim without = play(&s);
            s.software.stall = 3;
            struct sn_sim with = play(&s);
            double micro = 0;
            for (int i = 0; i < pipeline; i++)
                micro = fmax(micro, (with.stage[i].busy - with.stage[i].update) /
                                        s.stages.job[0]->train.micros);
            double want = pipeline > 1 ? 3 * micro : 0;
            tap_ok(fabs(with.step - without.step - want) <= 1e-9 * with.step &&
                       fabs(with.stage[0].idle - without.stage[0].idle - want) <= 1e-9 * with.step,
                   "%d stages lose %s", pipeline, pipeline > 1 ? "three micro-batches" : "nothing");
            sn_sim_fini(&with);
            sn_sim_fini(&without);
        }
        subject_fini(&s);
    }
}

/* A job of 8 replicas, two on a node. */
static bool on_nodes(struct subject *s)
{
    struct sn_config c = config_of(1, 1, 8);
    if (!subject_init(s, &c))
        return false;
    s->machine.n_levels = 2;
    s->machine.level[0].ranks = 2;
    s->machine.level[1] = (struct sn_level){.device = 1e7, .efficiency = 1};
    s->software.data_overlaps = false;
    sn_pricer_init(&s->pricer, &s->machine, &s->software, s->stages.job[0]);
    return true;
}

static void nodes_make_reductions_longer(void)
{
    struct subject s;
    if (on_nodes(&s)) {
        const int64_t n = 1000;
        double alone = sn_price_collective(&s.pricer, SN_ALL_REDUCE, n, SN_F32, SN_GROUP_REPLICA);
        s.software.per_node[SN_AXIS_DATA] = 0.5;
        double with = sn_price_collective(&s.pricer, SN_ALL_REDUCE, n, SN_F32, SN_GROUP_REPLICA);
        tap_ok(alone > 0 && fabs(with - 2.5 * alone) <= 1e-12,
               "three more nodes: half as long again for each");
        s.software.per_node[SN_AXIS_DATA] = 0;
        s.software.per_node[SN_AXIS_TENSOR] = 0.5;
        tap_ok(sn_price_collective(&s.pricer, SN_ALL_REDUCE, n, SN_F32, SN_GROUP_REPLICA) == alone,
               "another axis' messages do not");
    }
    subject_fini(&s);
}

static void late_members_are_waited_for(void)
{
    struct subject s;
    if (on_nodes(&s)) {
        double billions = 0; /* padding of buckets is sent, too */
        for (int b = 0; b < s.stages.job[0]->n_buckets; b++)
            billions += (double)s.stages.job[0]->buckets[b].n / 1e9;
        struct sn_memory_plan m;
        struct sn_sim without = play(&s);
        s.software.late = 1000;
        struct sn_sim with = play(&s);
        double want = 3 * 1000 * billions, room = 1e-6 * with.step;
        tap_ok(fabs(with.step - without.step - want) <= room &&
                   fabs(with.exposed[SN_AXIS_DATA] - without.exposed[SN_AXIS_DATA] - want) <=
                       room &&
                   fabs(with.stage[0].idle - without.stage[0].idle) <= room,
               "a billion parameters and three more nodes of the group");
        sn_plan_memory(&m, &s.stages, &s.pricer);
        s.software.late_full = 1000;
        for (int full = 0; full < 2; full++) {
            s.machine.device.memory = full ? m.total : 2 * m.total;
            struct sn_sim more = play(&s);
            tap_ok(fabs(more.step - with.step - full * want) <= room, "memory is %s",
                   full ? "full: as much again" : "half full: nothing more");
            sn_sim_fini(&more);
        }
        sn_sim_fini(&with);
        sn_sim_fini(&without);
    }
    subject_fini(&s);
}

int main(void)
{
    our_profile_is_our_memory();
    states_follow_zero();
    layers_are_kept_as_often_as_the_schedule_says();
    recomputing_keeps_inputs_and_what_is_alive();
    the_fullest_stage_is_the_plan();
    a_stall_is_idle_time_of_pipelines();
    nodes_make_reductions_longer();
    late_members_are_waited_for();
    return tap_done();
}
