/*
 * bench_plan.c - what the exact plan of one layout takes: compile, price, play.
 *
 * usage: build/tests/bench/bench_plan [RUN.yaml...]
 *
 * Prints a table in Markdown with a row for each run file, or for built-in layouts of llama-65b on
 * A100: milliseconds of processor time, median of some repetitions. `plan` is sn_plan_make of a
 * compiled layout: memory and traffic beside the simulation. Before timing, the simulation must
 * give the same bits twice and its parts must sum to the step. Memory: the largest resident set so
 * far.
 */
#include "lib/machine/named.h"
#include "lib/sim/plan.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { REPEAT = 9 };
enum what { COMPILE, PLAY, RECORD, PLAN, NWHAT };

struct bench {
    struct sn_config config;
    struct sn_model *model;
    struct sn_machine machine;
    struct sn_software software;
    struct sn_pricer pricer;
    double ms[NWHAT][REPEAT];
    int64_t events;
    double step;
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *ms)
{
    qsort(ms, REPEAT, sizeof(*ms), by_size);
    return ms[REPEAT / 2];
}

/* Processor time: the machine may be shared. */
static double processor(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double since(double *began)
{
    double now = processor(), ms = (now - *began) * 1e3;
    *began = now;
    return ms;
}

static enum sn_status check(const struct sn_sim *a, const struct sn_sim *b, struct sn_err *err)
{
    for (int i = 0; i < a->stages; i++) {
        double sum = a->stage[i].busy + a->stage[i].idle;
        for (int x = 0; x < SN_NAXES; x++)
            sum += a->stage[i].exposed[x];
        if (!(sum > a->step * (1 - 1e-9) && sum < a->step * (1 + 1e-9)))
            return sn_fail(err, SN_EFAIL, "stage %d: parts sum to %g of %g s", i, sum, a->step);
    }
    return a->step == b->step ? SN_OK : sn_fail(err, SN_EFAIL, "two runs differ");
}

static enum sn_status once(struct bench *b, int k, struct sn_err *err)
{
    struct sn_job_env env = {
        .config = &b->config, .model = b->model, .ops = sn_ops_cpu(), .threads = 1};
    struct sn_stages s;
    struct sn_sim plain = {0}, told = {0};
    struct sn_plan plan;
    double began = processor();
    SN_TRY(sn_stages_create(&s, &env, err));
    b->ms[COMPILE][k] = since(&began);
    sn_pricer_init(&b->pricer, &b->machine, &b->software, s.job[0]);
    enum sn_status st = sn_sim_run(&plain, &s, &b->pricer, false, err);
    b->ms[PLAY][k] = since(&began);
    if (st == SN_OK)
        st = sn_sim_run(&told, &s, &b->pricer, true, err);
    b->ms[RECORD][k] = since(&began);
    if (st == SN_OK)
        st = sn_plan_make(&plan, &s, &b->pricer, err);
    b->ms[PLAN][k] = since(&began);
    if (st == SN_OK && k == 0)
        st = check(&plain, &told, err);
    b->step = plain.step;
    b->events = told.n_events;
    sn_sim_fini(&plain);
    sn_sim_fini(&told);
    sn_stages_fini(&s);
    return st;
}

static enum sn_status measure(struct bench *b, const char *name, struct sn_err *err)
{
    const struct sn_layout_config *l = &b->config.layout;
    struct rusage use;
    SN_TRY(sn_machine_of(&b->machine, &b->config, NULL, err));
    SN_TRY(sn_software_of(&b->software, &b->config, NULL, err));
    SN_TRY(sn_model_create(&b->model, &b->config.model, &b->config.train, err));
    for (int k = 0; k < REPEAT; k++)
        SN_TRY(once(b, k, err));
    (void)getrusage(RUSAGE_SELF, &use);
    (void)printf(
        "| %s | %d x %d | %d | %.1f | %.1f | %.1f | %.1f | %lld | %.0f | %.3f | %ld MiB |\n", name,
        l->pipeline, l->virtual_stages, b->config.train.global_batch / l->data / l->micro_batch,
        median(b->ms[COMPILE]), median(b->ms[PLAY]), median(b->ms[COMPILE]) + median(b->ms[PLAY]),
        median(b->ms[PLAN]), (long long)b->events, median(b->ms[RECORD]), b->step,
        use.ru_maxrss / 1024);
    (void)fflush(stdout);
    return SN_OK;
}

static enum sn_status run(const char *name, const char *file, const char *text, struct sn_err *err)
{
    struct bench *b = calloc(1, sizeof(*b));
    if (!b)
        return sn_fail(err, SN_ENOMEM, "bench_plan: no memory");
    enum sn_status st = file ? sn_config_load(&b->config, file, NULL, err)
                             : sn_config_parse(&b->config, text, strlen(text), name, NULL, err);
    const struct sn_layout_config *l = &b->config.layout;
    if (st == SN_OK)
        st = sn_config_resolve_ranks(
            &b->config, l->tensor * l->context * l->pipeline * (l->data ? l->data : 1), err);
    if (st == SN_OK)
        st = measure(b, name, err);
    sn_machine_fini(&b->machine);
    sn_model_destroy(b->model);
    free(b);
    return st;
}

static const struct {
    const char *name, *layout;
} built_in[] = {
    {"1f1b", "tensor: 8, pipeline: 16, data: 4, schedule: 1f1b, zero: 1"},
    {"interleaved", "tensor: 8, pipeline: 16, data: 4, schedule: interleaved, virtual_stages: 5"},
    {"zero-bubble", "tensor: 8, pipeline: 16, data: 4, schedule: zero-bubble"},
    {"1f1b, full recomputation",
     "tensor: 2, pipeline: 16, data: 32, schedule: 1f1b, zero: 1, recompute: full"},
    {"1f1b, 4 stages", "tensor: 8, pipeline: 4, data: 32, schedule: 1f1b, zero: 1"},
    {"one stage", "tensor: 8, data: 128, zero: 1"},
    {"ZeRO 2, 8 stages", "tensor: 4, pipeline: 8, data: 16, schedule: 1f1b, zero: 2"},
    {"ZeRO 3, one stage", "tensor: 8, data: 128, zero: 3"},
};

int main(int argc, char **argv)
{
    bench_head();
    struct sn_err err = {0};
    enum sn_status st = SN_OK;
    (void)printf(
        "| layout | stages x parts | micro-batches | compile ms | play ms | both ms | plan "
        "ms | events | recorded ms | step s | resident |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 1; i < argc && st == SN_OK; i++)
        st = run(argv[i], argv[i], NULL, &err);
    for (size_t i = 0; argc == 1 && i < sizeof(built_in) / sizeof(built_in[0]) && st == SN_OK;
         i++) {
        char text[1024];
        (void)snprintf(text, sizeof(text),
                       "model: {preset: llama-65b}\ndata: {train: none}\n"
                       "train: {steps: 1, global_batch: 2048, precision: bf16}\n"
                       "machine: {preset: dgx-a100-80}\nlayout: {%s}\n",
                       built_in[i].layout);
        st = run(built_in[i].name, NULL, text, &err);
    }
    if (st != SN_OK)
        (void)fprintf(stderr, "bench_plan: %s\n", err.text);
    return st != SN_OK;
}
