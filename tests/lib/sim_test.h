/*
 * sim_test.h - a compiled layout on a machine of the test's own.
 */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include "lib/base/rng.h"
#include "lib/sim/sim.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

/* A compiled layout on a machine. */
struct subject {
    struct sn_config config;
    struct sn_model *model;
    struct sn_stages stages;
    struct sn_machine machine;
    struct sn_software software;
    struct sn_pricer pricer;
};

/* Every kernel takes 2^-20 s and communication nothing, so that times are exact sums. */
static inline struct sn_machine exact_machine(void)
{
    struct sn_machine m = {.devices = 1, .n_levels = 1};
    m.device = (struct sn_machine_device){.bandwidth = 1e300,
                                          .overhead = 0x1p-20,
                                          .attention_forward = 1,
                                          .attention_backward = 1,
                                          .moved = {1, 1, 1, 1}};
    for (int t = 0; t < SN_NPRECISIONS; t++)
        m.device.gemm[t] = (struct sn_gemm_rate){.peak = 1e300, .most = 1};
    m.level[0] = (struct sn_level){.device = 1e300, .efficiency = 1, .all_reduce = 1};
    return m;
}

static inline double between(uint64_t key, uint64_t i, double least, double most)
{
    return least * pow(most / least, sn_rng_uniform(key, i));
}

/* Communication may cost much more than computing, or much less. */
static inline struct sn_machine random_machine(uint64_t key)
{
    struct sn_machine m = exact_machine();
    m.device.bandwidth = between(key, 0, 1e9, 1e11);
    m.device.overhead = between(key, 1, 1e-8, 1e-5);
    for (int t = 0; t < SN_NPRECISIONS; t++)
        m.device.gemm[t].peak = between(key, 2, 1e9, 1e12);
    m.level[0].latency = between(key, 3, 1e-8, 1e-4);
    m.level[0].device = between(key, 4, 1e7, 1e11);
    return m;
}

static inline bool subject_init(struct subject *s, const struct sn_config *c,
                                const struct sn_machine *m)
{
    struct sn_err err = {0};
    *s = (struct subject){.config = *c, .machine = *m};
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

static inline void subject_fini(struct subject *s)
{
    sn_stages_fini(&s->stages);
    sn_model_destroy(s->model);
}

static inline struct sn_sim play(const struct subject *s, bool record)
{
    struct sn_sim sim = {0};
    struct sn_err err = {0};
    if (sn_sim_run(&sim, &s->stages, &s->pricer, record, &err) != SN_OK)
        tap_ok(false, "plays: %s", err.text);
    return sim;
}

struct setting {
    enum sn_schedule kind;
    int stages, vstages, micros;
};

static inline struct sn_config config_of(struct setting t)
{
    struct sn_config c = layout_config(SN_GPT2);
    c.model.layers = t.stages * t.vstages + 1; /* uneven */
    c.train.global_batch = t.micros;
    c.layout.schedule = t.kind;
    c.layout.pipeline = t.stages;
    c.layout.virtual_stages = t.vstages;
    return c;
}

#endif
