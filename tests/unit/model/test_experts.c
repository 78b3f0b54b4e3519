/*
 * Routing that is not balanced: all tokens to the experts of one rank, none to the others. Nothing
 * may depend on how even it is but the number of rounds, and with it the bytes.
 */
#include "lib/model/model.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 3, RANKS = 4, LAYERS = 4, K = 1 };

/* Four experts, one for a token; routers stay as they are, so that level ones choose expert 0. */
static struct sn_config config_of(int expert, double buffer)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.model.family = SN_MIXTRAL;
    c.model.experts = (struct sn_experts_config){.count = 4, .top_k = K, .every = 1};
    c.train.n_freeze = 1;
    (void)snprintf(c.train.freeze[0], sizeof(c.train.freeze[0]), "*router*");
    c.layout.expert = expert;
    c.layout.data = expert > 1 ? RANKS : 1;
    c.layout.expert_buffer = buffer;
    return c;
}

static struct layout_run train(const struct sn_config *c, bool level)
{
    struct layout_run r = {.steps = STEPS, .level_routers = level};
    layout_train(&r, c);
    return r;
}

static void one_rank_has_all_tokens(double buffer)
{
    struct sn_config alone = config_of(1, 1), shared = config_of(RANKS, buffer);
    struct layout_run one = train(&alone, true), many = train(&shared, true);
    double off = layout_difference(&many, &one);
    tap_ok(!one.fault[0] && !many.fault[0] && off <= 1e-5,
           "all tokens to one of %d ranks, %.1f times the mean at once: losses of one rank (off by "
           "%.1e)%s%s",
           RANKS, buffer, off, one.fault, many.fault);
    tap_ok(many.traffic_is_planned, "and the bytes are those of the counts");
}

/* Rank 0's list has T k rows of each of four ranks. What fits into its window goes there and back,
 * forward and backward; further rounds send it there once more. */
static void bytes_follow_the_counts(double buffer)
{
    struct sn_config c = config_of(RANKS, buffer);
    struct layout_run r = train(&c, true);
    int64_t rows = c.model.seq * K, others = (RANKS - 1) * rows; /* of each layer and micro-batch */
    int64_t window = (int64_t)(buffer * (double)rows) - rows;    /* the first are its own */
    window = window < others ? window : others;
    int64_t crossings = 4 * window + 5 * (others - window);
    int64_t want = crossings * c.model.hidden * (int64_t)sizeof(float) * LAYERS *
                   (c.train.global_batch / RANKS) * STEPS;
    tap_ok(!r.fault[0] && r.routed == want, "%.1f times the mean: %lld bytes routed, want %lld",
           buffer, (long long)r.routed, (long long)want);
}

static int64_t memory_of(const struct sn_config *c, struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_job *job = NULL;
    struct sn_job_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    int64_t bytes = -1;
    if (sn_model_create(&model, &c->model, &c->train, err) == SN_OK) {
        env.model = model;
        if (sn_job_create(&job, &env, err) == SN_OK)
            bytes = job->arena_bytes[SN_ARENA_SCRATCH];
    }
    sn_job_destroy(job);
    sn_model_destroy(model);
    return bytes;
}

/* What is kept for an expert's rows grows with the window alone. */
static void memory_follows_the_window(void)
{
    struct sn_err err = {0};
    int64_t bytes[3];
    for (int i = 0; i < 3; i++) {
        struct sn_config c = config_of(RANKS, 1.0 + i);
        bytes[i] = memory_of(&c, &err);
    }
    tap_ok(bytes[0] > 0 && bytes[0] < bytes[1] && bytes[1] < bytes[2],
           "windows of 1, 2, 3 times the mean: %lld, %lld, %lld bytes of scratch %s",
           (long long)bytes[0], (long long)bytes[1], (long long)bytes[2], err.text);
}

/* Operations of a kind in layer 1 of a rank's step, over a group. */
static int operations(const struct sn_config *c, int kind, enum sn_group group, struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_job *job = NULL;
    struct sn_job_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    int n = 0;
    if (sn_model_create(&model, &c->model, &c->train, err) == SN_OK) {
        env.model = model;
        if (sn_job_create(&job, &env, err) == SN_OK)
            for (int i = 0; i < job->train.n_ops; i++) {
                const struct sn_op *op = &job->train.ops[i];
                n += op->kind == kind && op->group == group && op->layer == 1 && !op->extra;
            }
    }
    sn_job_destroy(job);
    sn_model_destroy(model);
    return n;
}

/* TED counts 6 exchanges and 6 all-reduces of a layer that is computed again, and 4 with what it
 * keeps. Here only what a gradient reads is computed again: 5, and 4. */
static void kept_results_are_not_sent_again(void)
{
    static const int want[3][2] = {{4, 4}, {5, 5}, {4, 4}};
    for (int i = 0; i < 3; i++) {
        struct sn_config c = config_of(2, 2.0);
        struct sn_err err = {0};
        c.layout.data = c.layout.tensor = 2;
        c.layout.sequence_parallel = false;
        c.layout.recompute = i > 0 ? SN_RECOMPUTE_FULL : SN_RECOMPUTE_NONE;
        c.layout.comm_aware_recompute = i == 2;
        int exchanges = operations(&c, SN_OP_EXCHANGE, SN_GROUP_EXPERT, &err);
        int sums = operations(&c, SN_OP_ALL_REDUCE, SN_GROUP_TENSOR, &err);
        tap_ok(exchanges == want[i][0] && sums == want[i][1],
               "recompute %s: %d exchanges and %d all-reduces a layer, want %d and %d %s",
               i == 0   ? "none"
               : i == 1 ? "full"
                        : "full, aware of communication",
               exchanges, sums, want[i][0], want[i][1], err.text);
    }
}

/* With drop_duplicates each row goes through the exchange once, not once for each tensor rank; of
 * the windows, rows of all tokens, tensor ranks send each other all but their own share: to gather
 * and to sum, forward and backward. */
static void duplicates_are_dropped(int tensor, double buffer, bool level)
{
    struct sn_config all = config_of(2, buffer);
    all.model.kv_heads = 12;
    all.layout.data = 2;
    all.layout.tensor = tensor;
    struct sn_config once = all;
    once.layout.drop_duplicates = true;
    struct layout_run a = train(&all, level), b = train(&once, level);
    double off = layout_difference(&a, &b);
    tap_ok(!a.fault[0] && !b.fault[0] && off <= 1e-5 && b.traffic_is_planned,
           "%d tensor ranks, %.1f times the mean%s: losses of those with duplicates (off by "
           "%.1e)%s%s",
           tensor, buffer, level ? ", all to one" : "", off, a.fault, b.fault);
    tap_ok(b.routed > 0 && a.routed == tensor * b.routed,
           "%lld bytes through exchanges instead of %lld", (long long)b.routed,
           (long long)a.routed);
    int64_t rows = (int64_t)all.train.global_batch * all.model.seq * K * LAYERS * STEPS;
    int64_t want = 4 * (tensor - 1) * rows * all.model.hidden * (int64_t)sizeof(float);
    tap_ok(a.gathered == 0 && (buffer < 2 ? b.gathered > want : b.gathered == want),
           "%lld bytes among tensor ranks, 4 (T - 1) a row are %lld%s", (long long)b.gathered,
           (long long)want, buffer < 2 ? ", 5 in further rounds" : "");
}

int main(void)
{
    one_rank_has_all_tokens(1.0);
    one_rank_has_all_tokens(1.5);
    one_rank_has_all_tokens(4.0);
    bytes_follow_the_counts(1.0);
    bytes_follow_the_counts(1.5);
    bytes_follow_the_counts(4.0);
    memory_follows_the_window();
    kept_results_are_not_sent_again();
    duplicates_are_dropped(2, 2.0, false);
    duplicates_are_dropped(3, 2.0, true);
    duplicates_are_dropped(2, 1.0, true);
    return tap_done();
}
