/*
 * bench_step.c - a whole training step against its own GEMMs alone.
 *
 * usage: bench_step [ROUNDS] [NAME...]     names: 124m-4x64 124m-1x1024 30m-4x256 8x16m-4x256, fp32
 *                                          and bf16
 *
 * Per configuration, in one process and interleaved: the compiled step; its GEMM operations alone,
 * through the same operations table on the same buffers; one pass over the optimizer's bytes. The
 * loss must fall before anything is timed. Products of experts need the routing that was at hand when
 * they ran: their time is the step's own. Prints medians and
 *   ratio = step / (GEMMs + optimizer bytes / copy bandwidth)
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/exec/profile.h"
#include "lib/state/weights.h"
#include "tests/lib/job_test.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ROUNDS = 64 };

struct shape {
    const char *name;
    int layers, hidden, heads, batch, seq;
    int experts; /* 0: GPT-2; else a Mixtral whose tokens visit two of so many */
};

static const struct shape shapes[] = {
    {"124m-4x64", 12, 768, 12, 4, 64, 0},
    {"124m-1x1024", 12, 768, 12, 1, 1024, 0},
    {"30m-4x256", 6, 384, 6, 4, 256, 0},
    {"8x16m-4x256", 6, 384, 6, 4, 256, 8},
};

struct run {
    struct sn_config config;
    struct sn_model *model;
    struct sn_job *job;
    struct sn_comm *comm;
    struct sn_exec *exec;
    int64_t first_sample;
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a - *(const double *)b;
    return x < 0 ? -1 : x > 0;
}

static double median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof(*t), ascending);
    return t[n / 2];
}

static struct sn_config config_of(const struct shape *s, enum sn_dtype precision)
{
    struct sn_config c = {0};
    c.run.seed = 1;
    c.model = (struct sn_model_config){.family = SN_GPT2,
                                       .layers = s->layers,
                                       .hidden = s->hidden,
                                       .heads = s->heads,
                                       .kv_heads = s->heads,
                                       .ffn = 4 * s->hidden,
                                       .vocab = 50304,
                                       .seq = s->seq,
                                       .tied_embeddings = true,
                                       .norm_eps = 1e-5,
                                       .init_std = 0.02,
                                       .share_layers = 1};
    if (s->experts) {
        c.model.family = SN_MIXTRAL;
        c.model.ffn = s->hidden * 8 / 3;
        c.model.rope_theta = 1e4;
        c.model.rotary_pct = 1;
        c.model.experts = (struct sn_experts_config){.count = s->experts, .top_k = 2, .every = 1};
    }
    c.train.precision = precision;
    c.train.global_batch = s->batch;
    c.train.optimizer = (struct sn_optimizer_config){
        .lr = 3e-4, .weight_decay = 0.1, .clip = 1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    c.layout = (struct sn_layout_config){.data = 1,
                                         .tensor = 1,
                                         .tensor_x = 1,
                                         .pipeline = 1,
                                         .expert = 1,
                                         .context = 1,
                                         .micro_batch = s->batch,
                                         .bucket = 25 << 20};
    return c;
}

static void setup(struct run *r, const struct shape *s, enum sn_dtype precision, int threads)
{
    struct sn_err err = {0};
    *r = (struct run){.config = config_of(s, precision)};
    if (sn_model_create(&r->model, &r->config.model, &r->config.train, &err) != SN_OK ||
        job_create(&r->job, &r->config, r->model, threads, &err) != SN_OK ||
        sn_comm_create_self(&r->comm, &err) != SN_OK ||
        sn_exec_create(&r->exec, r->job, r->comm, &err) != SN_OK ||
        job_weights(r->exec, r->job, r->comm, &err) != SN_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    int32_t *ids = sn_exec_address(r->exec, &r->job->train, r->job->ids);
    int32_t *targets = sn_exec_address(r->exec, &r->job->train, r->job->targets);
    for (int64_t i = 0; i < r->job->rows; i++) {
        ids[i] = (int32_t)(sn_rng_bits(5, (uint64_t)i) % 50257);
        targets[i] = (int32_t)(sn_rng_bits(5, (uint64_t)i + 1) % 50257);
    }
    struct sn_scalars *z = sn_exec_scalars(r->exec);
    z->seed = 1;
    z->loss_scale = 1;
    z->clip = 1;
    z->lr = 3e-4f;
    z->tokens_in_step = z->targets_in_step = (double)r->job->rows;
}

static void teardown(struct run *r)
{
    sn_exec_destroy(r->exec);
    r->comm->ops->destroy(r->comm);
    sn_job_destroy(r->job);
    sn_model_destroy(r->model);
}

static double step(struct run *r)
{
    struct sn_err err = {0};
    struct sn_scalars *z = sn_exec_scalars(r->exec);
    z->step++;
    z->loss_sum = z->sq_norm = 0;
    z->nonfinite = 0;
    double t0 = sn_clock();
    if (sn_exec_run(r->exec, &r->job->train, &r->first_sample, &err) != SN_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return sn_clock() - t0;
}

static void *address(struct run *r, const struct sn_view *v)
{
    const struct sn_program *p = &r->job->train;
    char *base = sn_exec_address(r->exec, p, v->buf);
    return base + v->offset * (int64_t)sn_dtype_size(p->bufs[v->buf].dtype);
}

/* Every GEMM of the step, alone. It writes into gradients and activations, which the next step
 * computes anew. */
static double gemms(struct run *r, void *scratch)
{
    const struct sn_program *p = &r->job->train;
    double seconds = 0;
    for (int i = 0; i < p->n_ops; i++) {
        if (p->ops[i].kind != SN_OP_GEMM)
            continue;
        struct sn_args a;
        sn_op_shapes(p, &p->ops[i], &a);
        for (int k = 0; k < SN_MAX_IN; k++)
            a.in[k].p = p->ops[i].in[k].buf < 0 ? NULL : address(r, &p->ops[i].in[k]);
        a.out[0].p = address(r, &p->ops[i].out[0]);
        a.acc[0] = p->ops[i].acc[0] == SN_ACC_ADD ? SN_ADD : SN_WRITE;
        a.scratch = scratch;
        double t0 = sn_clock();
        (void)r->job->ops->run[SN_OP_GEMM](&a, r->job->threads);
        seconds += sn_clock() - t0;
    }
    return seconds;
}

/* Of the steps so far. */
static double expert_seconds(const struct run *r)
{
    return sn_exec_times(r->exec)[SN_OP_EXPERT_GEMM].seconds;
}

/* Seconds that one pass over the optimizer's bytes takes at the speed of a large copy. */
static double optimizer_floor(struct run *r, char *memory, size_t bytes)
{
    struct sn_args a = {0};
    int64_t n = (int64_t)(bytes / 8);
    a.in[0] = (struct sn_mat){memory, SN_F32, 1, n, n};
    a.out[0] = (struct sn_mat){memory + 4 * n, SN_F32, 1, n, n};
    double t0 = sn_clock();
    (void)r->job->ops->run[SN_OP_COPY](&a, r->job->threads);
    double rate = 8.0 * (double)n / (sn_clock() - t0);
    /* read g, p, m, v; write p, m, v (and the storage copy) */
    double per = r->job->dtype == SN_F32 ? 28 : 30;
    return per * (double)sn_model_param_count(r->model) / rate;
}

static void bench(const struct shape *s, enum sn_dtype precision, int threads, int rounds)
{
    struct run r;
    setup(&r, s, precision, threads);
    struct sn_program *p = &r.job->train;
    size_t copy = (size_t)256 << 20;
    char *memory = sn_arena_map(copy);
    char *scratch = sn_arena_map((size_t)p->workspace_bytes + 64);
    double ts[MAX_ROUNDS], tg[MAX_ROUNDS], to[MAX_ROUNDS];
    (void)step(&r);
    double first = sn_exec_scalars(r.exec)->loss_sum / (double)r.job->rows;
    for (int i = 0; i < 3; i++)
        (void)step(&r);
    double later = sn_exec_scalars(r.exec)->loss_sum / (double)r.job->rows;
    if (!memory || !scratch || !(fabs(first - log(50304)) < 0.5) || !(later < first)) {
        printf("%s %s: WRONG, loss %.4f then %.4f\n", s->name, sn_dtype_name(precision), first,
               later);
        exit(1);
    }
    for (int i = 0; i < rounds; i++) {
        double before = expert_seconds(&r);
        ts[i] = step(&r);
        tg[i] = expert_seconds(&r) - before + gemms(&r, scratch);
        to[i] = optimizer_floor(&r, memory, copy);
    }
    double t = median(ts, rounds), g = median(tg, rounds), o = median(to, rounds);
    printf("%-12s %s  step %7.1f ms  gemms %7.1f ms  optimizer bytes %5.1f ms  ratio %.3f  "
           "%6.0f tokens/s  loss %.3f -> %.3f\n",
           s->name, sn_dtype_name(precision), t * 1e3, g * 1e3, o * 1e3, t / (g + o),
           (double)r.job->rows / t, first, later);
    fflush(stdout);
    if (getenv("SN_PROFILE"))
        sn_profile_print(stdout, sn_exec_times(r.exec));
    sn_arena_unmap(memory, copy);
    sn_arena_unmap(scratch, (size_t)p->workspace_bytes + 64);
    teardown(&r);
}

/* Names choose among shapes, fp32 and bf16 among precisions; what is not named is not narrowed. */
static int wanted(const char *name, const char *precision, int argc, char **argv)
{
    int shape_named = 0, shape_hit = 0, precision_named = 0, precision_hit = 0;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "fp32") == 0 || strcmp(argv[i], "bf16") == 0) {
            precision_named = 1;
            precision_hit |= strcmp(argv[i], precision) == 0;
        } else {
            shape_named = 1;
            shape_hit |= strstr(name, argv[i]) != NULL;
        }
    }
    return (!shape_named || shape_hit) && (!precision_named || precision_hit);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 7;
    rounds = rounds < 1 || rounds > MAX_ROUNDS ? 7 : rounds;
    int threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    bench_head();
    printf("# %d threads, %d rounds\n", threads, rounds);
    static const enum sn_dtype precisions[] = {SN_F32, SN_BF16};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (int k = 0; k < 2; k++)
            if (wanted(shapes[i].name, sn_dtype_name(precisions[k]), argc, argv))
                bench(&shapes[i], precisions[k], threads, rounds);
    return 0;
}
