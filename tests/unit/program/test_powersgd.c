/*
 * PowerSGD (lib/program/lower_powersgd.c): what ranks agree on, what is lost and comes back, and
 * what it costs.
 */
#include "lib/base/mem.h"
#include "lib/config/config.h"
#include "lib/config/files.h"
#include "lib/exec/exec.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

static struct sn_config config(enum sn_family family, int data, int tensor, int rank)
{
    struct sn_config c = layout_config(family);
    c.layout.data = data;
    c.layout.tensor = tensor;
    c.layout.sequence_parallel = tensor > 1;
    c.layout.compress.coding[SN_CODED_DATA] =
        (struct sn_coding){.on = rank > 0, .feedback = rank > 0, .rank = rank};
    return c;
}

static struct layout_run *run(const struct sn_config *c, int steps)
{
    static struct layout_run runs[8];
    static int n;
    struct layout_run *r = &runs[n++ % 8];
    *r = (struct layout_run){.steps = steps};
    layout_train(r, c);
    return r;
}

/* --- what is lost comes back ------------------------------------------------------------------ */

enum { STEPS = 12 };

/* Of a run whose weights stay: all gradients that the update saw, and what is left of each rank. */
struct seen {
    double *applied; /* of data rank 0 */
    float *left[2];  /* of both; NULL without feedback */
    int64_t n;
};

static void see(void *seen, struct sn_exec *x, const struct sn_job *j, int step)
{
    struct seen *s = seen;
    int rank = j->group_index[SN_GROUP_DATA];
    int64_t n = 0, at = 0;
    if (j->group_index[SN_GROUP_TENSOR] != 0)
        return;
    for (int i = 0; i < j->n_buckets; i++)
        n += j->buckets[i].n;
    if (rank == 0 && step == 0)
        s->applied = calloc((size_t)n, sizeof(double));
    for (int i = 0; i < j->n_buckets; at += j->buckets[i++].n) {
        const float *g = sn_exec_address(x, &j->train, j->buckets[i].grad);
        for (int64_t k = 0; rank == 0 && k < j->buckets[i].n; k++)
            s->applied[at + k] += (double)g[k];
    }
    if (rank == 0)
        s->n = n;
    if (step < STEPS - 1)
        return;
    s->left[rank] = calloc((size_t)n, sizeof(float));
    at = 0;
    for (int i = 0; i < j->n_buckets; at += j->buckets[i++].n)
        if (j->buckets[i].feedback >= 0)
            memcpy(s->left[rank] + at, sn_exec_address(x, &j->train, j->buckets[i].feedback),
                   (size_t)j->buckets[i].n * sizeof(float));
}

static struct seen sums_of(struct sn_config c)
{
    struct seen s = {0};
    struct layout_run r = {.steps = STEPS, .see = see, .seen = &s};
    c.train.optimizer.lr = 0;
    layout_train(&r, &c);
    tap_ok(!r.fault[0], "a run whose weights stay%s", r.fault);
    return s;
}

static void release(struct seen *s)
{
    free(s->applied);
    free(s->left[0]);
    free(s->left[1]);
}

static void all_gradients_arrive_but_for_the_last_loss(int tensor, int micro_batch)
{
    struct sn_config with = config(SN_LLAMA, 2, tensor, 2),
                     without = config(SN_LLAMA, 2, tensor, 0);
    with.layout.micro_batch = without.layout.micro_batch = micro_batch;
    struct seen a = sums_of(with), b = sums_of(without);
    double off = 0, lost = 0, all = 0, plain = 0;
    for (int64_t k = 0; k < b.n && a.n == b.n; k++) {
        double left = (double)a.left[0][k] + (double)a.left[1][k];
        double miss = b.applied[k] - a.applied[k] - left;
        off += miss * miss;
        lost += left * left;
        plain += (b.applied[k] - a.applied[k]) * (b.applied[k] - a.applied[k]);
        all += b.applied[k] * b.applied[k];
    }
    tap_ok(a.n == b.n && sqrt(off / all) < 2e-6 && lost > 1e-3 * all,
           "data 2, tensor %d: of %d gradients nothing is lost but the last e (off by %.1e; e is "
           "%.2f of their sum, which is off by %.2f)",
           tensor, (int)STEPS, sqrt(off / all), sqrt(lost / all), sqrt(plain / all));
    release(&a);
    release(&b);
}

/* --- exact where the rank is enough ----------------------------------------------------------- */

static double distance(const struct seen *a, const struct seen *b)
{
    double off = 0, all = 0;
    for (int64_t k = 0; k < b->n && a->n == b->n; k++) {
        off += (a->applied[k] - b->applied[k]) * (a->applied[k] - b->applied[k]);
        all += b->applied[k] * b->applied[k];
    }
    return a->n == b->n ? sqrt(off / all) : INFINITY;
}

/* A gradient is a sum over tokens of products of two vectors: of 4 tokens in all, of rank 4, and
 * where a table is tied of 8. Two more make up for a start that lies badly. */
static void enough_factors_lose_nothing(enum sn_family family, int tensor)
{
    struct sn_config c[3]; /* enough, one, none */
    struct seen s[3];
    int enough = family == SN_GPT2 ? 10 : 6;
    for (int i = 0; i < 3; i++) {
        c[i] = config(family, 2, tensor, i == 0 ? enough : i == 1);
        c[i].model.seq = 2;
        c[i].train.global_batch = 2;
        s[i] = sums_of(c[i]);
    }
    double off = distance(&s[0], &s[2]), less = distance(&s[1], &s[2]);
    tap_ok(off < 2e-6 && less > 0.05,
           "%s, data 2, tensor %d: of 4 tokens rank %d gives the exact gradients (off by "
           "%.1e), rank 1 does not (%.2f)",
           sn_family_name(family), tensor, enough, off, less);
    for (int i = 0; i < 3; i++)
        release(&s[i]);
}

/* --- training --------------------------------------------------------------------------------- */

static void it_learns(struct sn_config c, const char *what)
{
    struct sn_config twin = c;
    twin.layout.compress.coding[SN_CODED_DATA] = (struct sn_coding){.on = false};
    c.train.optimizer.lr = twin.train.optimizer.lr = 2e-3;
    enum { LONG = 40, TWICE = 12 };
    const struct layout_run *a = run(&c, LONG), *b = run(&twin, LONG), *again = run(&c, TWICE);
    double fell = a->loss[0] - a->loss[LONG - 1], twin_fell = b->loss[0] - b->loss[LONG - 1];
    tap_ok(!a->fault[0] && fell > 0.8 * twin_fell && fell < 1.2 * twin_fell && twin_fell > 0.3,
           "%s: the loss falls by %.3f, without factors by %.3f%s", what, fell, twin_fell,
           a->fault);
    tap_ok(a->traffic_is_planned, "%s: every rank sends what was planned", what);
    tap_ok(memcmp(a->loss, again->loss, TWICE * sizeof(a->loss[0])) == 0 &&
               memcmp(a->norm, again->norm, TWICE * sizeof(a->norm[0])) == 0,
           "%s: a second run gives the same bits in %d steps", what, (int)TWICE);
}

static void layouts_learn(void)
{
    struct sn_config c = config(SN_LLAMA, 2, 1, 4);
    it_learns(c, "data 2");
    c = config(SN_GPT2, 3, 1, 2);
    c.layout.zero = 1;
    it_learns(c, "gpt2, data 3, zero 1");
    c = config(SN_GPT_NEOX, 2, 2, 2);
    it_learns(c, "gpt-neox, data 2, tensor 2");
    c = config(SN_LLAMA, 2, 1, 2);
    c.layout.pipeline = 2;
    c.layout.schedule = SN_ZERO_BUBBLE;
    c.layout.zero = 1;
    c.train.precision = SN_BF16;
    it_learns(c, "bf16, data 2, pipeline 2 without bubbles, zero 1");
}

static void zero_1_is_zero_0(void)
{
    struct sn_config c = config(SN_LLAMA, 2, 2, 2), d = c;
    d.layout.zero = 1;
    const struct layout_run *a = run(&c, 8), *b = run(&d, 8);
    double off = layout_difference(a, b);
    tap_ok(!a->fault[0] && !b->fault[0] && off < 1e-6, "zero 1 trains as zero 0 (off by %.1e)%s%s",
           off, a->fault, b->fault);
}

/* --- bytes ------------------------------------------------------------------------------------ */

struct cost {
    int64_t traffic[SN_NAXES];
    struct sn_memory_plan memory;
    int64_t factors, others; /* values that travel by the formula; of a rank's gradients the rest */
    int64_t kept;            /* values of what is kept: e and Q */
    int matrices;
};

/* What a rank sends of an all-reduce of this many values. */
static int64_t sent(int64_t n, int members)
{
    return sn_collective_bytes(SN_ALL_REDUCE, n, SN_F32, members, 0);
}

/* The formula: R (rows + cols) of what shrinks to half, bucket by bucket. */
static int64_t by_formula(const struct sn_job *j, int rank, struct cost *c)
{
    int64_t bytes = 0;
    for (int b = 0; b < j->n_buckets; b++) {
        int64_t rows = 0, cols = 0, run_of = 0, members = j->group_size[j->buckets[b].replicas];
        for (int i = 0; i <= j->n_shards; i++) {
            const struct sn_shard *q = &j->shards[i];
            bool mine = i < j->n_shards && q->bucket == b;
            bool thin = mine && q->rows * q->cols >= 2 * rank * (q->rows + q->cols);
            if (mine && !thin)
                run_of += (q->rows * q->cols + 31) / 32 * 32;
            if (i == j->n_shards || thin) {
                bytes += run_of ? sent(run_of, (int)members) : 0;
                c->others += run_of;
                run_of = 0;
            }
            rows += thin ? q->rows : 0;
            cols += thin ? q->cols : 0;
            c->matrices += thin;
        }
        bytes += sent(rank * rows, (int)members) + sent(rank * cols, (int)members);
        c->factors += rank * (rows + cols);
        c->kept += rows ? j->buckets[b].n + (rank * cols + 15) / 16 * 16 : 0;
    }
    return bytes;
}

static void it_costs_what_the_formula_says(int data, int tensor, int rank)
{
    struct sn_config c = config(SN_LLAMA, data, tensor, rank),
                     d = config(SN_LLAMA, data, tensor, 0);
    struct sn_err err = {0};
    struct sn_model *model = NULL;
    struct sn_job *j = NULL, *plain = NULL;
    struct cost with = {0}, without = {0};
    bool good = sn_model_create(&model, &c.model, &c.train, &err) == SN_OK;
    struct sn_job_env env = {.config = &c, .model = model, .ops = sn_ops_cpu(), .threads = 1};
    good = good && sn_job_create(&j, &env, &err) == SN_OK;
    env.config = &d;
    good = good && sn_job_create(&plain, &env, &err) == SN_OK;
    if (tap_ok(good, "it compiles%s", err.text)) {
        sn_job_traffic(j, with.traffic);
        sn_job_traffic(plain, without.traffic);
        sn_job_memory(j, &with.memory);
        sn_job_memory(plain, &without.memory);
        int64_t formula = by_formula(j, rank, &with);
        tap_ok(with.traffic[SN_AXIS_DATA] == formula && with.matrices > 0 && with.others > 0 &&
                   with.traffic[SN_AXIS_TENSOR] == without.traffic[SN_AXIS_TENSOR],
               "data %d, tensor %d, rank %d: %d matrices as %lld values, %lld others: %lld bytes, "
               "by the formula %lld; without %lld",
               data, tensor, rank, with.matrices, (long long)with.factors, (long long)with.others,
               (long long)with.traffic[SN_AXIS_DATA], (long long)formula,
               (long long)without.traffic[SN_AXIS_DATA]);
        tap_ok(with.memory.optimizer - without.memory.optimizer == 4 * with.kept &&
                   with.memory.params == without.memory.params &&
                   with.memory.grads == without.memory.grads,
               "and e and Q take %lld bytes more",
               (long long)(with.memory.optimizer - without.memory.optimizer));
    }
    sn_job_destroy(j);
    sn_job_destroy(plain);
    sn_model_destroy(model);
}

/* --- experts ---------------------------------------------------------------------------------- */

static void experts_have_factors_of_their_own(void)
{
    struct sn_config c = config(SN_MIXTRAL, 2, 1, 4);
    c.model.experts = (struct sn_experts_config){.count = 4, .top_k = 2, .every = 1};
    c.layout.expert_buffer = 4;
    struct sn_err err = {0};
    struct sn_model *model = NULL;
    struct sn_job *j = NULL;
    int experts = 0;
    bool good = sn_model_create(&model, &c.model, &c.train, &err) == SN_OK;
    struct sn_job_env env = {.config = &c, .model = model, .ops = sn_ops_cpu(), .threads = 1};
    good = good && sn_job_create(&j, &env, &err) == SN_OK;
    for (int b = 0; good && b < j->n_buckets; b++)
        for (struct sn_low_rank m = {0}; sn_low_rank_next(j, b, &m);) {
            char want[64];
            const char *name = sn_low_rank_name(j, &m);
            (void)snprintf(want, sizeof(want), "experts.%d.%s.weight", m.block,
                           m.rows == c.model.hidden ? "down" : "gate");
            bool of_expert = strstr(name, "experts") != NULL;
            experts += of_expert;
            good = good && (!of_expert || (strstr(name, want) && (m.rows == 2 * c.model.ffn ||
                                                                  m.rows == c.model.hidden)));
        }
    tap_ok(good && experts == 2 * 4 * c.model.layers, "each of %d matrices of experts is one%s",
           experts, err.text);
    sn_job_destroy(j);
    sn_model_destroy(model);
    it_learns(c, "mixtral, data 2");
}

/* --- the run file ----------------------------------------------------------------------------- */

#define FILE_OF(train, layout)                                                                     \
    "model: {family: llama, layers: 4, hidden: 256, heads: 4, ffn: 688, vocab: 256, seq: 128}\n"   \
    "train: {steps: 200, global_batch: 32" train "}\nlayout: {data: 2, " layout "}\n"

static void the_run_file_says_what_does_not_go(void)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {FILE_OF("", "compress: {data: powersgd-0}"), "powersgd-R with R of 1 to 64"},
        {FILE_OF("", "compress: {data: powersgd-65}"), "powersgd-R with R of 1 to 64"},
        {FILE_OF("", "compress: {data: powersgd-4x}"), "powersgd-R with R of 1 to 64"},
        {FILE_OF("", "compress: {tensor: powersgd-4}"), "'powersgd-4' is no codec"},
        {FILE_OF("", "zero: 2, compress: {data: powersgd-4}"), "use zero 0 or 1"},
        {FILE_OF("", "zero: 3, compress: {data: powersgd-4}"), "use zero 0 or 1"},
        {FILE_OF(", precision: fp16", "compress: {data: powersgd-4}"), "use bf16 or fp32"},
        {FILE_OF(", grad_dtype: bf16", "compress: {data: powersgd-4}"), "use fp32"},
    };
    char share[SN_PATH_MAX], text[SN_NAME_MAX];
    struct sn_config c;
    struct sn_err err = {0};
    const char *fine = FILE_OF("", "zero: 1, compress: {data: powersgd-64}");
    bool found = sn_share_find(share, sizeof(share), &err) == SN_OK;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';
        enum sn_status st =
            sn_config_parse(&c, bad[i].text, strlen(bad[i].text), "run.yaml", share, &err);
        tap_ok(found && st == SN_EINPUT && strstr(err.text, bad[i].want), "refused: %s", err.text);
    }
    err.text[0] = '\0';
    bool good = sn_config_parse(&c, fine, strlen(fine), "run.yaml", share, &err) == SN_OK;
    if (good)
        sn_coding_format(&c.layout.compress.coding[SN_CODED_DATA], text);
    tap_ok(good && c.layout.compress.coding[SN_CODED_DATA].rank == 64 &&
               c.layout.compress.coding[SN_CODED_DATA].feedback && strcmp(text, "powersgd-64") == 0,
           "powersgd-64 is read, and told as it was written%s", err.text);
}

int main(void)
{
    the_run_file_says_what_does_not_go();
    it_costs_what_the_formula_says(2, 1, 4);
    it_costs_what_the_formula_says(3, 2, 2);
    enough_factors_lose_nothing(SN_LLAMA, 1);
    enough_factors_lose_nothing(SN_GPT2, 1);
    enough_factors_lose_nothing(SN_LLAMA, 2);
    all_gradients_arrive_but_for_the_last_loss(1, 1);
    all_gradients_arrive_but_for_the_last_loss(2, 2);
    zero_1_is_zero_0();
    layouts_learn();
    experts_have_factors_of_their_own();
    return tap_done();
}
