/*
 * test_estimate.c - estimates are bounds: never above what the compiled step gives, and near it.
 */
#include "kernels/codec.h"
#include "lib/search/estimate.h"
#include "lib/sim/sim.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

/* Nodes of four devices, slow enough between them for communication to matter. */
static const char machine_text[] =
    "name: test\n"
    "device: {memory: 1GiB, bandwidth: 1.0e11, overhead: 2.0e-6, peak: {fp32: 1.0e12, bf16: "
    "4.0e12},\n"
    "  moved: {norm: 0.5, half_bytes: 1.0e4}, codecs: [{codec: zfp-8, type: fp32, encode: 2.0e9, "
    "decode: "
    "3.0e9},\n"
    "  {codec: int8, type: fp32, encode: 2.0e10, decode: 2.5e10, feedback: 1.0e10}]}\n"
    "node: {devices: 4}\n"
    "links:\n"
    "  - {name: node, ranks: 4, latency: 2.0e-6, device: 2.0e10, efficiency: 0.8}\n"
    "  - {name: spine, ranks: 0, latency: 1.0e-5, device: 4.0e9, domain: 8.0e9}\n";

struct score {
    int layouts, above, more; /* estimates above: of seconds, of bytes */
    double worst_time[2], sum_time[2], worst_memory;
    char first[256]; /* that was above */
};

static unsigned draw(unsigned *state, unsigned n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 10) % n;
}

static int one_of(unsigned *state, const int *of, unsigned n)
{
    return of[draw(state, n)];
}

/* Experts, in all layers or some, and as many ranks to share them out as the replicas allow. */
static void draw_experts(struct sn_config *c, unsigned *r)
{
    static const int every[] = {1, 2, 3}, counts[] = {4, 8}, ways[] = {1, 2, 4, 8};
    struct sn_layout_config *l = &c->layout;
    c->model.family = SN_MIXTRAL;
    c->model.experts = (struct sn_experts_config){.count = one_of(r, counts, 2),
                                                  .top_k = 1 + (int)draw(r, 2),
                                                  .shared = draw(r, 3) == 0,
                                                  .every = one_of(r, every, 3),
                                                  .aux_loss = draw(r, 2) ? 0.01 : 0};
    if (sn_expert_layers_before(&c->model, c->model.layers) > 1 && draw(r, 3) == 0)
        c->model.experts.from = c->model.experts.every;
    if (draw(r, 4) == 0) {
        c->model.family = SN_QWEN2_MOE;
        c->model.experts.shared = 1;
        c->model.experts.shared_ffn = 40;
    }
    if (draw(r, 3) == 0)
        c->model.experts.bias = SN_BIAS_LOSS_FREE;
    else
        c->model.experts.router = (enum sn_router)draw(r, 3);
    bool dense = c->model.experts.router == SN_ROUTER_DENSE;
    c->model.experts.jitter = draw(r, 3) == 0 ? 0.1 : 0;
    if (draw(r, 3) == 0 && !dense)
        c->model.experts.capacity_factor = 1.25;
    l->expert_buffer = 1 + (double)draw(r, 3);
    l->comm_aware_recompute = draw(r, 4) == 0;
    l->drop_duplicates = draw(r, 3) == 0 && !dense;
    bool delays = l->schedule == SN_ZERO_BUBBLE;                    /* which needs ZeRO 0 or 1 */
    bool own = l->tensor > 1 && l->sequence_parallel && draw(r, 2); /* tokens of tensor ranks */
    int each = own ? 1 << (delays && l->zero >= 2 ? 0 : draw(r, 3)) : l->tensor;
    int blocks = each < l->tensor ? l->tensor / each : 1;
    l->expert_tensor = blocks > 1 ? each : 0;
    l->expert_tokens = own && blocks == 1 ? SN_TOKENS_SPLIT : SN_TOKENS_GATHERED;
    for (int i = 3; i > 0 && !(delays && l->zero >= 2); i--)
        if (l->expert == 1 && c->model.experts.count % ways[i] == 0 &&
            l->data * l->context * blocks % ways[i] == 0 && draw(r, 2))
            l->expert = ways[i];
    static const enum sn_order_axis apart[] = {
        SN_ORDER_TENSOR, SN_ORDER_CONTEXT, SN_ORDER_DATA_AXIS, SN_ORDER_EXPERT, SN_ORDER_PIPELINE};
    l->n_axis_order = 5;
    memcpy(l->axis_order, apart, sizeof(apart));
    if (draw(r, 2)) {
        l->axis_order[2] = SN_ORDER_EXPERT;
        l->axis_order[3] = SN_ORDER_DATA_AXIS;
    }
}

static struct sn_config some_layout(unsigned *r, bool experts)
{
    static const enum sn_family family[] = {SN_LLAMA, SN_QWEN2, SN_GPT2, SN_GPT_NEOX};
    static const int two[] = {1, 2}, ways[] = {1, 2, 4}, data[] = {1, 2, 3, 4};
    struct sn_config c = layout_config(experts ? SN_LLAMA : family[draw(r, 4)]);
    struct sn_layout_config *l = &c.layout;
    c.model.layers = 8;
    c.model.hidden = 12 * 32;
    c.model.ffn = 1024;
    c.model.seq = 96;
    c.model.vocab = 3001;
    c.train.precision = draw(r, 2) ? SN_BF16 : SN_F32;
    l->tensor = one_of(r, ways, 3);
    l->context = one_of(r, two, 2);
    l->context_kind = (enum sn_context_kind)draw(r, 2);
    l->pipeline = one_of(r, ways, 3);
    l->data = one_of(r, data, 4);
    l->micro_batch = one_of(r, two, 2);
    l->sequence_parallel = draw(r, 2);
    l->recompute = (enum sn_recompute)draw(r, 3);
    l->zero = (int)draw(r, 4);
    l->bucket = draw(r, 2) ? 1 << 16 : 25 << 20;
    l->schedule = l->pipeline > 1 ? (enum sn_schedule)draw(r, 4) : SN_1F1B;
    l->virtual_stages = l->schedule == SN_INTERLEAVED ? 2 : 1;
    int micros = (1 + (int)draw(r, 4)) * (l->pipeline > 1 ? l->pipeline : 2);
    c.train.global_batch = l->data * l->micro_batch * micros;
    if (c.model.kv_heads % l->tensor || c.model.heads % (l->tensor * l->context) ||
        c.model.kv_heads % (l->tensor * l->context))
        l->context_kind = SN_CONTEXT_RING;
    if (experts)
        draw_experts(&c, r);
    return c;
}

/* Gradients of matrices in bf16, which ZeRO 2 and 3 do not take, and updates by tiles. */
static void draw_gradients(struct sn_config *c, unsigned *r)
{
    if (c->layout.zero < 2 && c->train.precision == SN_BF16 && draw(r, 4) > 0)
        c->train.grad_dtype = SN_BF16;
    c->layout.optimizer_tile = draw(r, 2) ? 65536 << draw(r, 3) : 0;
}

/* Weights that layers share, which one stage must hold. A profile gathers and reduces them in each
 * layer: with ZeRO 2 and 3 that is more than a step does, and no bound. */
static void draw_shared(struct sn_config *c, unsigned *r)
{
    c->model.share_layers = 2 << draw(r, 3);
    c->layout.pipeline = c->layout.virtual_stages = 1;
    c->layout.schedule = SN_1F1B;
    c->layout.zero %= 2;
}

/* Slices of some of the replicas. */
static void draw_nodes(struct sn_config *c, unsigned *r)
{
    static const int data[] = {4, 6, 8};
    struct sn_layout_config *l = &c->layout;
    int micros = c->train.global_batch / l->data;
    l->data = one_of(r, data, 3);
    c->train.global_batch = micros * l->data;
    l->zero = 1 + (int)draw(r, 3);
    l->zero_node = l->context * (draw(r, 2) ? 2 : l->data / 2);
}

/* Gathered weights of some units, or all, stay. */
static void draw_cache(struct sn_config *c, unsigned *r)
{
    c->layout.zero = 3;
    c->layout.zero_cache = 1 + (int)draw(r, (unsigned)c->model.layers + 3);
}

/* Soft tokens, features or both in front of some layers, with adapters or without. All layers of one map are in one
 * stage, or in the first and the last module. */
static void draw_prompts(struct sn_config *c, unsigned *r)
{
    struct sn_prompt_config *p = &c->train.prompt;
    *p = (struct sn_prompt_config){.soft = (int)draw(r, 3), .levels = draw(r, 2)};
    p->rows = p->soft == 0 || draw(r, 2) ? 1 + (int)draw(r, 3) : 0;
    p->size = p->rows > 0 ? 24 : 0;
    p->levels = p->levels && p->rows > 0;
    for (int i = 0; i < c->model.layers; i++)
        if (draw(r, 3) == 0)
            p->layers[p->n_layers++] = i;
    bool shares = p->rows > 0 && p->n_layers > 1;
    if (shares && c->layout.pipeline > 1 && draw(r, 2)) {
        p->n_layers = 2;
        p->layers[0] = 0;
        p->layers[1] = c->model.layers - 1;
    } else if (shares) {
        c->layout.pipeline = c->layout.virtual_stages = 1;
        c->layout.schedule = SN_1F1B;
    }
    if (draw(r, 3) == 0) {
        c->train.lora = (struct sn_lora_config){
            .r = 4, .alpha = 8, .n_targets = 1 + p->n_layers % 2};
        (void)snprintf(c->train.lora.targets[0], SN_NAME_MAX, "*.attn.*");
        (void)snprintf(c->train.lora.targets[1], SN_NAME_MAX, "*.ffn.*");
    }
}

/* Both axes of the grid of tensors, whose second may be outside others. */
static void draw_grid(struct sn_config *c, unsigned *r)
{
    static const int grid[][2] = {{1, 2}, {1, 3}, {1, 4}, {2, 2}, {2, 3}, {2, 4}, {4, 2}};
    static const int kv_heads[] = {1, 2, 4, 12};
    static const enum sn_order_axis inside[] = {SN_ORDER_TENSOR_X, SN_ORDER_TENSOR,
                                                SN_ORDER_DATA_AXIS, SN_ORDER_PIPELINE,
                                                SN_ORDER_CONTEXT},
                                    outside[] = {SN_ORDER_TENSOR, SN_ORDER_DATA_AXIS,
                                                 SN_ORDER_TENSOR_X, SN_ORDER_PIPELINE,
                                                 SN_ORDER_CONTEXT};
    struct sn_layout_config *l = &c->layout;
    unsigned k = draw(r, sizeof(grid) / sizeof(*grid));
    l->tensor = grid[k][0];
    l->tensor_x = grid[k][1];
    if (c->model.family == SN_LLAMA || c->model.family == SN_QWEN2)
        c->model.kv_heads = one_of(r, kv_heads, 4);
    if (c->model.kv_heads % (l->tensor * l->context) || c->model.heads % (l->tensor * l->context))
        l->context_kind = SN_CONTEXT_RING;
    if (c->model.experts.count > 0) { /* whose tokens tensor ranks do not split then */
        l->expert_tensor = 0;
        l->expert_tokens = SN_TOKENS_GATHERED;
        l->expert = l->data * l->context % l->expert == 0 ? l->expert : 1;
        return;
    }
    if (draw(r, 2))
        return;
    l->n_axis_order = 5;
    memcpy(l->axis_order, draw(r, 3) ? inside : outside, sizeof(inside));
}

/* Codecs for some kinds of messages. */
static void draw_codecs(struct sn_config *c, unsigned *r)
{
    static const char *const name[] = {"bf16",  "int8", "int4-hadamard-stochastic",
                                       "zfp-8", "mpc",  "fp8"};
    struct sn_compress_config *z = &c->layout.compress;
    for (int i = 0; i < SN_NCODED; i++) {
        z->coding[i].on = draw(r, 3) > 0 && sn_codec_parse(&z->coding[i].codec, name[draw(r, 6)]);
        z->coding[i].between = z->coding[i].codec;
    }
    z->coding[SN_CODED_DATA].feedback = sn_coding_loses(&z->coding[SN_CODED_DATA]) && draw(r, 2);
    z->coding[SN_CODED_ZERO].diff =
        sn_coding_loses(&z->coding[SN_CODED_ZERO]) && c->layout.zero != 3 && draw(r, 2);
    z->guard = draw(r, 2) ? 0.1 : 0;
}

static double seconds_of(const struct sn_stages *s, const struct sn_machine *m,
                         const struct sn_software *soft)
{
    struct sn_pricer p;
    struct sn_sim sim;
    struct sn_err err;
    sn_pricer_init(&p, m, soft, s->job[0]);
    if (sn_sim_run(&sim, s, &p, false, &err) != SN_OK) {
        tap_ok(false, "%s", err.text);
        return 0;
    }
    double step = sim.step;
    sn_sim_fini(&sim);
    return step;
}

static int64_t bytes_of(const struct sn_stages *s)
{
    int64_t most = 0;
    for (int i = 0; i < s->n; i++) {
        struct sn_memory_plan m;
        sn_job_memory(s->job[i], &m);
        most = m.total - m.library - m.snapshot > most ? m.total - m.library - m.snapshot : most;
    }
    return most;
}

/* 1 + its kind; 0: none. */
static int kind_of(const struct sn_layout_config *l, int coded)
{
    const struct sn_coding *z = &l->compress.coding[coded];
    return z->on ? 1 + (int)z->codec.kind : 0;
}

static void describe(char *out, size_t n, const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    (void)snprintf(
        out, n,
        "family %d type %d d%d t%dx%d c%d(%d) p%d v%d mb%d sp%d rc%d z%d(%d) sched %d batch %d "
        "bucket %lld e%d of %d every %d from %d over %d tokens %d codecs %d%d%d%d%d%s%s",
        (int)c->model.family, (int)c->train.precision, l->data, l->tensor, l->tensor_x, l->context,
        (int)l->context_kind, l->pipeline, l->virtual_stages, l->micro_batch, l->sequence_parallel,
        (int)l->recompute, l->zero, l->zero_cache, (int)l->schedule, c->train.global_batch,
        (long long)l->bucket, l->expert, c->model.experts.count, c->model.experts.every, c->model.experts.from,
        l->expert_tensor, (int)l->expert_tokens, kind_of(l, 0), kind_of(l, 1), kind_of(l, 2),
        kind_of(l, 3), kind_of(l, 4), l->compress.coding[SN_CODED_DATA].feedback ? " fed" : "",
        l->compress.coding[SN_CODED_ZERO].diff ? " diff" : "");
    const struct sn_prompt_config *p = &c->train.prompt;
    size_t at = strlen(out);
    if (sn_prompt_positions(p) > 0)
        (void)snprintf(out + at, n - at, " soft %d rows %d in %d from %d lora %d", p->soft, p->rows,
                       p->n_layers, p->layers[0], c->train.lora.r);
}

/* An order that a search does not try: tensor_x apart from tensor. */
static bool is_outside(const struct sn_layout_config *l)
{
    return l->n_axis_order > 2 && l->axis_order[2] == SN_ORDER_TENSOR_X;
}

static void compare(struct score *s, const struct sn_config *c, const struct sn_machine *m,
                    const struct sn_software *soft)
{
    struct sn_estimator *e = NULL;
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    struct sn_err err = {0};
    struct sn_estimate got[3] = {0};
    struct sn_job_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    enum sn_status st = sn_estimator_create(&e, c, m, soft, sn_ops_cpu(), 1, &err);
    for (int k = 0; st == SN_OK && k < 3; k++)
        st = sn_estimate(&got[k], e, &c->layout, (enum sn_estimate_detail)k, &err);
    if (st == SN_OK)
        st = sn_model_create(&model, &c->model, &c->train, &err);
    env.model = model;
    if (st == SN_OK)
        st = sn_stages_create(&stages, &env, &err);
    char what[256];
    describe(what, sizeof(what), c);
    if (st != SN_OK) {
        tap_ok(false, "%s: %s", what, err.text);
    } else {
        double step = seconds_of(&stages, m, soft), far[2];
        int64_t bytes = bytes_of(&stages);
        far[0] = 1 - got[1].seconds / step;
        far[1] = 1 - got[2].seconds / step;
        double apart = 1 - (double)got[1].memory / (double)bytes;
        /* Kernels of codecs are counted by bucket, not where they stand. While data's queue held up all
         * others that was hidden; now one layout in 750 is 0.9e-4 above. */
        double most = c->layout.compress.coding[SN_CODED_ZERO].on ? 2e-4 : 1e-9;
        /* Layers with experts that follow each other are priced as behind a dense one: 0.9e-3 above. Blocks of mtp
         * follow the last layer. */
        bool follows = c->model.experts.from > 0 && c->model.experts.every == 1;
        most = follows || (c->model.experts.count > 0 && c->model.mtp > 0) ? 2e-3 : most;
        bool above = far[0] < -most || far[1] < -most ||
                     (!is_outside(&c->layout) && got[0].seconds > got[1].seconds * (1 + 1e-9));
        s->layouts++;
        s->above += above;
        s->more += apart < 0;
        for (int k = 0; k < 2; k++) {
            s->worst_time[k] = far[k] > s->worst_time[k] ? far[k] : s->worst_time[k];
            s->sum_time[k] += far[k];
        }
        s->worst_memory = apart > s->worst_memory ? apart : s->worst_memory;
        if (getenv("SN_LOG") || above || apart < 0)
            printf("# %s: step %.6g ms, bounds %.4f %.4f below; %lld bytes, %.4f below\n", what,
                   1e3 * step, far[0], far[1], (long long)bytes, apart);
        if (above && !s->first[0])
            (void)snprintf(s->first, sizeof(s->first), "%s", what);
    }
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    sn_estimator_destroy(e);
}

/* What is drawn beside the layout. */
enum {
    EXPERTS = 1,
    CODECS = 2,
    GRADIENTS = 4,
    SHARED = 8,
    NODES = 16,
    GRIDS = 32,
    CACHE = 64,
    FURTHER = 128,
    PROMPTS = 256
};

static void estimates_are_bounds(unsigned with)
{
    struct sn_machine m = {0};
    struct sn_software soft;
    struct sn_err err = {0};
    struct score s = {0};
    unsigned seed = 11;
    sn_software_default(&soft);
    if (sn_machine_parse(&m, machine_text, strlen(machine_text), "m.yaml", &err) != SN_OK) {
        tap_ok(false, "%s", err.text);
        return;
    }
    int due = with >= CODECS ? 125 : 200; /* the first half of those of make check-equiv */
    due = with & (FURTHER | PROMPTS) ? 40 : due;
    for (int i = 0; i < (getenv("ALL") ? 2 * due : due); i++) {
        struct sn_config c = some_layout(&seed, with & EXPERTS);
        if (with & CODECS)
            draw_codecs(&c, &seed);
        if (with & GRADIENTS)
            draw_gradients(&c, &seed);
        if (with & SHARED)
            draw_shared(&c, &seed);
        if (with & NODES)
            draw_nodes(&c, &seed);
        if (with & GRIDS)
            draw_grid(&c, &seed);
        if (with & CACHE)
            draw_cache(&c, &seed);
        if (with & FURTHER) {
            c.model.mtp = 1 + (int)draw(&seed, 2);
            c.model.tied_embeddings = draw(&seed, 2);
        }
        if (with & PROMPTS)
            draw_prompts(&c, &seed);
        compare(&s, &c, &m, &soft);
    }
    tap_ok(s.above == 0,
           "%d layouts%s%s%s%s%s%s%s%s%s: no estimate of the step is above it (%d are; %s)",
           s.layouts, with & EXPERTS ? " of experts" : "", with & CODECS ? ", with codecs" : "",
           with & GRADIENTS ? ", gradients in bf16, updates by tiles" : "",
           with & SHARED ? ", weights of several layers" : "",
           with & NODES ? ", slices of some replicas" : "",
           with & GRIDS ? ", features cut too" : "",
           with & CACHE ? ", weights that stay gathered" : "",
           with & FURTHER ? ", tokens further on" : "", with & PROMPTS ? ", prompts" : "", s.above,
           s.first);
    tap_ok(s.more == 0, "no estimate of memory is above the arenas (%d are)", s.more);
    printf("# below the step: closed form at most %.1f %%, mean %.2f %%; played at most %.1f %%, "
           "mean %.2f %%; memory at most %.1f %%\n",
           100 * s.worst_time[0], 100 * s.sum_time[0] / s.layouts, 100 * s.worst_time[1],
           100 * s.sum_time[1] / s.layouts, 100 * s.worst_memory);
    /* Sums over groups of replicas, on the last micro-batch, are in no profile of a layer. */
    double most = with & NODES ? 0.15 : 0.05;
    most += with & CACHE ? 0.05 : 0; /* turns of 1f1b do not know what the first micro-batch gathers */
    tap_ok(s.sum_time[0] / s.layouts < most, "and they are within %.0f %% of it in the mean",
           100 * most);
    sn_machine_fini(&m);
}

int main(void)
{
    static const unsigned with[] = {0,
                                    EXPERTS,
                                    CODECS,
                                    EXPERTS | CODECS,
                                    GRADIENTS,
                                    EXPERTS | CODECS | GRADIENTS,
                                    GRADIENTS | SHARED,
                                    NODES,
                                    NODES | EXPERTS,
                                    GRIDS,
                                    GRIDS | GRADIENTS,
                                    GRIDS | SHARED,
                                    GRIDS | NODES,
                                    GRIDS | EXPERTS,
                                    GRIDS | CODECS,
                                    CACHE,
                                    CACHE | EXPERTS,
                                    CACHE | CODECS,
                                    CACHE | NODES,
                                    CACHE | GRIDS,
                                    FURTHER,
                                    FURTHER | EXPERTS,
                                    FURTHER | GRIDS,
                                    FURTHER | CACHE | EXPERTS,
                                    PROMPTS,
                                    PROMPTS | CODECS,
                                    PROMPTS | GRIDS | NODES,
                                    PROMPTS | CACHE};
    for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++)
        estimates_are_bounds(with[i]);
    return tap_done();
}
