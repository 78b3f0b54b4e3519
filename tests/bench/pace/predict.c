/*
 * predict.c - the step time of a pipeline that lib/cost's costs and lib/layout/idle give.
 *
 * usage: build/tests/bench/pace/predict RUN.yaml MACHINE.yaml
 *
 * Compiles every stage, sums the seconds of each segment's operations, and plays the schedule
 * through with them; transfers take no time. Prints "makespan SECONDS update SECONDS idle
 * FRACTION": a step is the first two together. For layouts whose only axis is the pipeline.
 */
#include "lib/base/mem.h"
#include "lib/cost/price.h"
#include "lib/layout/idle.h"

#include <stdio.h>

enum { MAX_PIECES = 64 };

struct prediction {
    struct sn_config config;
    struct sn_machine machine;
    struct sn_software software;
    struct sn_task_cost modules[MAX_PIECES]; /* ns */
    double update;                           /* seconds, of the slowest stage */
};

static double segment_seconds(const struct sn_program *p, const struct sn_pricer *price,
                              const struct sn_segment *c)
{
    double seconds = 0;
    for (int i = c->first; i < c->first + c->n; i++)
        if (p->ops[i].when == SN_EVERY)
            seconds += sn_price_op(price, p, &p->ops[i]);
    return seconds;
}

static void add_segment(struct prediction *q, const struct sn_job *j, const struct sn_segment *c)
{
    struct sn_pricer price;
    sn_pricer_init(&price, &q->machine, &q->software, j);
    double seconds = segment_seconds(&j->train, &price, c);
    struct sn_task_cost *module = &q->modules[c->scope.virtual_stage * j->stages + j->stage];
    int64_t ns = (int64_t)(seconds * 1e9);
    if (c->kind == SN_SEGMENT_FORWARD)
        module->forward += ns;
    else if (c->kind == SN_SEGMENT_BACKWARD || c->kind == SN_SEGMENT_INPUT_GRAD)
        module->backward += ns;
    else if (c->kind == SN_SEGMENT_WEIGHT_GRAD)
        module->weight += ns;
    else if (c->kind == SN_SEGMENT_UPDATE && seconds > q->update)
        q->update = seconds;
}

static enum sn_status add_stage(struct prediction *q, const struct sn_model *m, int stage,
                                struct sn_err *err)
{
    struct sn_job_env env = {
        .config = &q->config, .model = m, .ops = sn_ops_cpu(), .threads = 1, .rank = stage};
    struct sn_job *j;
    SN_TRY(sn_job_create(&j, &env, err));
    for (int c = 0; c < j->train.n_segments; c++)
        add_segment(q, j, &j->train.segments[c]);
    sn_job_destroy(j);
    return SN_OK;
}

static enum sn_status predict(struct prediction *q, struct sn_err *err)
{
    const struct sn_layout_config *l = &q->config.layout;
    struct sn_model *m;
    struct sn_pipeline_time t;
    if (l->pipeline * l->virtual_stages > MAX_PIECES || l->data * l->tensor * l->context > 1)
        return sn_fail(err, SN_EINPUT, "predict: want a pipeline alone of at most %d pieces",
                       MAX_PIECES);
    SN_TRY(sn_model_create(&m, &q->config.model, &q->config.train, err));
    enum sn_status st = SN_OK;
    for (int s = 0; s < l->pipeline && st == SN_OK; s++)
        st = add_stage(q, m, s, err);
    sn_model_destroy(m);
    SN_TRY(st);
    struct sn_pipeline p = {l->schedule, l->pipeline, l->virtual_stages,
                            q->config.train.global_batch / l->micro_batch};
    struct sn_pipeline_cost cost = {.modules = q->modules};
    SN_TRY(sn_pipeline_simulate(&p, &cost, &t, err));
    (void)printf("makespan %.6f update %.6f idle %.4f\n", (double)t.makespan * 1e-9, q->update,
                 sn_pipeline_idle_fraction(&t, p.stages));
    sn_pipeline_time_fini(&t);
    return SN_OK;
}

int main(int argc, char **argv)
{
    struct sn_err err = {0};
    struct prediction *q = sn_alloc(sizeof(*q));
    if (argc != 3 || !q) {
        (void)fprintf(stderr, "usage: predict RUN.yaml MACHINE.yaml\n");
        return 2;
    }
    enum sn_status st = sn_config_load(&q->config, argv[1], NULL, &err);
    if (st == SN_OK)
        st = sn_config_resolve_ranks(&q->config, q->config.layout.pipeline, &err);
    sn_software_default(&q->software);
    if (st == SN_OK)
        st = sn_machine_load(&q->machine, argv[2], &err);
    if (st == SN_OK)
        st = predict(q, &err);
    sn_machine_fini(&q->machine);
    if (st != SN_OK)
        (void)fprintf(stderr, "%s\n", err.text);
    sn_free(q);
    return st != SN_OK;
}
