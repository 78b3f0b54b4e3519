/*
 * The exchange of tokens in two hops, first inside the node and then along rails: the bits of one
 * hop in every layout, and of bytes inside nodes and between them those of the formula, the plan
 * and the counters.
 */
#include "lib/machine/machine.h"
#include "lib/mapping/flow.h"
#include "lib/model/model.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 3, K = 2, LAYERS = 4 };

struct shape {
    const char *what;
    int data, tensor, context, pipeline, expert, node; /* node: ranks of an expert group on one */
    bool fold, drops, level;
    double buffer;
    enum sn_recompute recompute;
    bool aware;
};

static struct sn_config config_of(const struct shape *s)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.model.family = SN_MIXTRAL;
    c.model.layers = LAYERS;
    c.model.experts = (struct sn_experts_config){.count = 8, .top_k = K, .every = 1};
    c.train.global_batch = 16;
    c.train.n_freeze = s->level;
    (void)snprintf(c.train.freeze[0], sizeof(c.train.freeze[0]), "*router*");
    c.layout.data = s->data;
    c.layout.tensor = s->tensor;
    c.layout.context = s->context;
    c.layout.pipeline = s->pipeline;
    c.layout.expert = s->expert;
    c.layout.expert_node = s->node;
    c.layout.expert_tensor = s->fold ? 1 : 0;
    c.layout.sequence_parallel = s->tensor > 1;
    c.layout.drop_duplicates = s->drops;
    c.layout.expert_buffer = s->buffer;
    c.layout.recompute = s->recompute;
    c.layout.comm_aware_recompute = s->aware;
    return c;
}

static struct layout_run train(const struct shape *s, int node)
{
    struct shape t = *s;
    t.node = node;
    struct sn_config c = config_of(&t);
    struct layout_run r = {.steps = STEPS, .level_routers = s->level};
    layout_train(&r, &c);
    return r;
}

/* A permutation of data, and nothing else. */
static void bits_are_those_of_one_hop(const struct shape *s)
{
    struct layout_run flat = train(s, 1), hops = train(s, s->node);
    bool same = memcmp(flat.loss, hops.loss, sizeof(flat.loss)) == 0 &&
                memcmp(flat.norm, hops.norm, sizeof(flat.norm)) == 0 &&
                flat.val_loss == hops.val_loss && flat.loss[0] > 0;
    tap_ok(!flat.fault[0] && !hops.fault[0] && same && hops.traffic_is_planned,
           "%s: %d nodes of %d: the bits of one hop, and the counters are those of the counts%s%s",
           s->what, s->expert / s->node, s->node, flat.fault, hops.fault);
    tap_ok(hops.routed > flat.routed, "and it took two: %lld bytes instead of %lld",
           (long long)hops.routed, (long long)flat.routed);
}

/* --- bytes ------------------------------------------------------------------------------------ */

struct sides {
    int64_t inside, outside, messages; /* messages: between nodes */
};

/* Rows dealt evenly among P = N L members: each of the exchanges of a micro-batch, forward and
 * backward, is of T k rows, or of a T-th part of them without duplicates. */
static struct sides formula(const struct shape *s, bool hops)
{
    struct sn_config c = config_of(s);
    int64_t p = s->expert, l = s->node, n = p / l, ranks = layout_ranks(&c);
    int64_t exchanges = 4 + (s->recompute == SN_RECOMPUTE_FULL && !s->aware);
    int64_t micros = c.train.global_batch / s->data;
    int64_t rows = c.model.seq / s->context / (s->fold ? s->tensor : 1) * K;
    int64_t all = micros * exchanges * LAYERS / s->pipeline * ranks * rows * c.model.hidden *
                  (int64_t)sizeof(float) / (s->drops ? s->tensor : 1);
    /* a share of a window has the rows of a T-th part of the members */
    int64_t times = micros * exchanges * LAYERS / s->pipeline * ranks / (s->drops ? s->tensor : 1);
    return hops ? (struct sides){all * (l - 1) / l, all * (n - 1) / n, times * (n - 1)}
                : (struct sides){all * (l - 1) / p, all * (p - l) / p, times * (p - l)};
}

/* Ranks communicate for real and compute nothing: routing is balanced, as in the plan. */
static struct sides counted(const struct shape *s, int node_ranks, char fault[768])
{
    static const char text[] = "flops: 1.0e15\nmemory_bandwidth: 1.0e15\noverhead: 0.0\n";
    struct sn_machine machine;
    struct sn_err err = {0};
    struct sn_config c = config_of(s);
    struct layout_run r = {.steps = 1, .pace = &machine, .node_ranks = node_ranks};
    if (sn_machine_parse(&machine, text, strlen(text), "fast", &err) != SN_OK)
        return (struct sides){-1, -1, -1};
    layout_train(&r, &c);
    (void)snprintf(fault, 768, "%s", r.fault);
    return (struct sides){r.inside, r.outside, r.messages};
}

/* All bytes of a step between pairs of ranks, by the plan. */
static struct sides planned(const struct shape *s, int node_ranks, struct sn_err *err)
{
    struct sn_config c = config_of(s);
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    struct sn_flow flow = {0};
    struct sn_job_env env = {.config = &c, .ops = sn_ops_cpu(), .threads = 1};
    struct sides out = {0, 0, 0};
    enum sn_status st = sn_model_create(&model, &c.model, &c.train, err);
    env.model = model;
    if (st == SN_OK)
        st = sn_stages_create(&stages, &env, err);
    if (st == SN_OK)
        st = sn_flow_create(&flow, &stages, err);
    for (int i = 0, n = layout_ranks(&c); st == SN_OK && i < n * n; i++)
        *(i / n / node_ranks == i % n / node_ranks ? &out.inside : &out.outside) +=
            sn_flow_pair(&flow, i / n, i % n);
    sn_flow_fini(&flow);
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    return out;
}

static void bytes_are_those_of_the_formula(const struct shape *s, int node_ranks)
{
    struct shape flat = *s;
    struct sn_err err = {0};
    char fault[2][768] = {"", ""};
    flat.node = 1;
    struct sides want[] = {formula(s, false), formula(s, true)};
    struct sides got[] = {counted(&flat, node_ranks, fault[0]), counted(s, node_ranks, fault[1])};
    struct sides plan[] = {planned(&flat, node_ranks, &err), planned(s, node_ranks, &err)};
    for (int i = 0; i < 2; i++)
        tap_ok(got[i].inside == want[i].inside && got[i].outside == want[i].outside &&
                   got[i].messages == want[i].messages,
               "%s, %s: %lld bytes inside nodes, %lld between them in %lld messages; want %lld, "
               "%lld, %lld%s",
               s->what, i ? "two hops" : "one hop", (long long)got[i].inside,
               (long long)got[i].outside, (long long)got[i].messages, (long long)want[i].inside,
               (long long)want[i].outside, (long long)want[i].messages, fault[i]);
    struct sides more = {plan[1].inside - plan[0].inside, plan[1].outside - plan[0].outside, 0};
    tap_ok(more.inside == got[1].inside - got[0].inside &&
               more.outside == got[1].outside - got[0].outside && more.inside > 0,
           "%s: the plan has %lld bytes more inside, %lld between nodes %s", s->what,
           (long long)more.inside, (long long)more.outside, err.text);
}

/* What a transit may hold is the bound of its memory: windows of all nodes, or a node's rows. */
static void memory_is_bounded(void)
{
    struct shape s = {.data = 8, .tensor = 1, .context = 1, .pipeline = 1, .expert = 8, .node = 4};
    struct sn_err err = {0};
    int64_t want[] = {2, 4, 4}, rows = 48 * K;
    for (int i = 0; i < 3; i++) {
        s.buffer = 1.0 + i;
        struct sn_config c = config_of(&s);
        struct sn_model *model = NULL;
        struct sn_job *job = NULL;
        struct sn_job_env env = {.config = &c, .ops = sn_ops_cpu(), .threads = 1};
        int64_t got = 0;
        if (sn_model_create(&model, &c.model, &c.train, &err) == SN_OK) {
            env.model = model;
            if (sn_job_create(&job, &env, &err) == SN_OK)
                for (int b = 0; b < job->train.n_bufs; b++)
                    if (strstr(job->train.bufs[b].name, "l1.ffn.experts.transit"))
                        got = job->train.bufs[b].rows;
        }
        tap_ok(got == want[i] * rows,
               "2 nodes of 4, windows of %d times the mean: transits of %lld "
               "rows, want %lld %s",
               1 + i, (long long)got, (long long)(want[i] * rows), err.text);
        sn_job_destroy(job);
        sn_model_destroy(model);
    }
}

int main(void)
{
    static const struct shape shapes[] = {
        {"data 8", 8, 1, 1, 1, 8, 4, .buffer = 2},
        {"data 8", 8, 1, 1, 1, 8, 2, .buffer = 1, .recompute = SN_RECOMPUTE_FULL},
        {"data 8, all to one", 8, 1, 1, 1, 8, 2, .buffer = 1.5, .level = true},
        {"copies of experts", 8, 1, 1, 1, 4, 2, .buffer = 1, .recompute = SN_RECOMPUTE_SELECTIVE},
        {"tensor 2", 4, 2, 1, 1, 4, 2, .buffer = 2},
        {"without duplicates", 4, 2, 1, 1, 4, 2, .drops = true, .buffer = 1},
        {"context 2", 4, 1, 2, 1, 8, 4, .buffer = 1.2, .recompute = SN_RECOMPUTE_FULL,
         .aware = true},
        {"pipeline 2", 4, 1, 1, 2, 4, 2, .buffer = 1},
        {"folded", 4, 2, 1, 1, 8, 4, .fold = true, .buffer = 1},
    };
    static const struct shape even[] = {
        {"data 8", 8, 1, 1, 1, 8, 4, .buffer = 2},
        {"data 8, again", 8, 1, 1, 1, 8, 2, .buffer = 2, .recompute = SN_RECOMPUTE_FULL},
        {"without duplicates", 4, 2, 1, 1, 4, 2, .drops = true, .buffer = 2},
        {"folded", 4, 2, 1, 1, 8, 4, .fold = true, .buffer = 2},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        bits_are_those_of_one_hop(&shapes[i]);
    for (size_t i = 0; i < sizeof(even) / sizeof(even[0]); i++)
        bytes_are_those_of_the_formula(&even[i],
                                       even[i].node * (even[i].fold ? 1 : even[i].tensor));
    memory_is_bounded();
    return tap_done();
}
