/*
 * test_activations.c - what is kept: the placed arena, a formula, what the search reads off small
 * texts and the rows that people are shown are equal, byte for byte.
 *
 * Every combination below is compiled for every pipeline stage; the formula
 * (tests/lib/kept_formula.h) sees the configuration only, the search (lib/search/kept.h) compiles
 * stages of a few layers, the rows (lib/report/activations.h) are the program's.
 *
 * Longer than 500 lines because every layout passes through one check.
 */
#include "kernels/codec.h"
#include "lib/report/activations.h"
#include "lib/search/kept.h"
#include "tests/lib/kept_formula.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

struct pipe {
    int stages, vstages;
    enum sn_schedule schedule;
    bool split;
};

/* One of each group of layouts. */
struct layout {
    enum sn_family family;
    enum sn_dtype dtype;
    int tensor, context, kind, micro_batch, zero, recompute, kv_heads;
    bool sequence_parallel, dropout, small_buckets, aware, drop, split;
    int own; /* expert_tensor, where it is less than tensor; 0 */
    struct pipe pipe;
    int expert, data; /* 0: 1 */
    double buffer;
    struct sn_experts_config experts;
    const char *codec[SN_NCODED]; /* NULL: none */
    double guard;
    int tensor_x; /* 0: 1 */
    unsigned prompts; /* bits of layers behind prompts */
    bool adapts;
};

struct score {
    int layouts, vstages, wrong;
};

static struct sn_config config_of(const struct layout *x)
{
    struct sn_config c = layout_config(x->family);
    c.model.layers = 6;
    c.model.kv_heads = x->kv_heads ? x->kv_heads : c.model.kv_heads;
    c.model.dropout = x->dropout ? 0.1 : 0;
    c.train.precision = x->dtype;
    c.train.global_batch = x->expert ? 48 : 36;
    struct sn_layout_config *l = &c.layout;
    l->tensor = x->tensor;
    l->tensor_x = x->tensor_x ? x->tensor_x : 1;
    l->context = x->context;
    l->context_kind = (enum sn_context_kind)x->kind;
    l->micro_batch = x->micro_batch;
    l->zero = x->zero;
    l->data = x->data ? x->data : x->zero ? 3 : 1;
    c.model.experts = x->experts;
    l->expert = x->expert ? x->expert : 1;
    l->expert_buffer = x->buffer;
    l->bucket = x->small_buckets ? 4 << 10 : l->bucket; /* the table, the positions: apart */
    l->recompute = (enum sn_recompute)x->recompute;
    l->comm_aware_recompute = x->aware;
    l->drop_duplicates = x->drop;
    l->expert_tensor = x->own;
    l->expert_tokens = x->split ? SN_TOKENS_SPLIT : SN_TOKENS_GATHERED;
    l->sequence_parallel = x->sequence_parallel;
    l->pipeline = x->pipe.stages;
    l->virtual_stages = x->pipe.vstages;
    l->schedule = x->pipe.schedule;
    l->split_backward = x->pipe.split;
    for (int i = 0; i < SN_NCODED; i++) {
        struct sn_coding *z = &l->compress.coding[i];
        z->on = x->codec[i] && sn_codec_parse(&z->codec, x->codec[i]);
        z->between = z->codec;
    }
    l->compress.guard = x->guard;
    c.train.prompt.soft = x->prompts > 0;
    c.train.prompt.rows = c.train.prompt.size = x->prompts > 0 && x->pipe.stages == 1 ? 2 : 0;
    for (int i = 0; i < c.model.layers; i++)
        if (x->prompts >> i & 1u)
            c.train.prompt.layers[c.train.prompt.n_layers++] = i;
    if (x->adapts)
        c.train.lora =
            (struct sn_lora_config){.r = 2, .alpha = 4, .n_targets = 1, .targets[0] = "*.attn.*"};
    l->n_axis_order = 4; /* so that rank s is in stage s */
    l->axis_order[0] = SN_ORDER_PIPELINE;
    l->axis_order[1] = SN_ORDER_TENSOR;
    l->axis_order[2] = SN_ORDER_CONTEXT;
    l->axis_order[3] = SN_ORDER_DATA_AXIS;
    return c;
}

/* The rows add up to the arena and, of the paper's figures, to its equation; each difference has a
 * reason, and what only the paper has is not kept under another name. */
static bool rows_add_up(const struct sn_job *j, int vstage)
{
    static struct sn_activations a;
    if (!sn_activations(&a, j, vstage))
        return false;
    double sum = 0, want = sn_activations_literature(j, a.layers);
    int64_t slot = 0, late = 0;
    for (int i = 0; i < a.n; i++) {
        const struct sn_kept *k = &a.kept[i];
        *(k->late ? &late : &slot) += k->bytes;
        sum += k->literature;
        bool named = k->why || (double)k->bytes == k->literature;
        if (named && !(k->why >> SN_WHY_THEIRS & 1))
            continue;
        printf("# %s: %lld bytes, the paper %.0f, and no reason\n", k->name, (long long)k->bytes,
               k->literature);
        return false;
    }
    bool good = slot == j->train.slot_bytes[vstage] && late == j->train.late_bytes[vstage] &&
                fabs(sum - want) <= 1e-9 * want;
    if (!good)
        printf("# rows: slot %lld of %lld, late %lld of %lld, the paper %.0f of %.0f\n",
               (long long)slot, (long long)j->train.slot_bytes[vstage], (long long)late,
               (long long)j->train.late_bytes[vstage], sum, want);
    return good;
}

/* Padding of buckets that lie in slots: what is kept without it does not depend on replicas. */
static int64_t padding_of(const struct sn_job *j)
{
    int64_t sum = 0;
    const struct sn_program *p = &j->train;
    for (int b = p->n_state_bufs; b < p->n_bufs; b++)
        if (p->bufs[b].cls == SN_CLASS_SLOT && p->bufs[b].place == b && p->bufs[b].bucket >= 0)
            sum += p->bufs[b].bytes - sn_layer_profile_raw(j, &p->bufs[b]) *
                                          (int64_t)sn_dtype_size(p->bufs[b].dtype);
    return sum;
}

/* What the search reads off for a part of the six layers, as its estimates add it up. */
static bool search_reads(const struct sn_job *j, int vstage)
{
    const struct sn_config *c = j->config;
    struct sn_kept_models models = {{NULL}};
    struct sn_kept_pair kept = {0};
    struct sn_err err = {0};
    struct sn_layer_profile_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    struct sn_layer_profile_key key = sn_layer_profile_key(c);
    int each = 6 / j->modules, module = vstage * j->stages + j->stage;
    struct sn_kinds of = sn_kinds_of(c);
    struct sn_extent x = sn_extent_of(of, module * each, each);
    bool end[2] = {module == 0, module == j->modules - 1};
    bool good =
        sn_kept_by_layers(&kept, &models, &env, &key, &err) == SN_OK &&
        sn_kept_by_ends(&kept, &models, &env, &key, end, sn_kept_begin_of(of, &x), &err) == SN_OK;
    int64_t slot = sn_kept_sum(&kept.slot, &x), late = sn_kept_sum(&kept.late, &x);
    sn_kept_models_fini(&models);
    if (good && slot == j->train.slot_bytes[vstage] - padding_of(j) &&
        late == j->train.late_bytes[vstage])
        return true;
    printf("# search: slot %lld of %lld, late %lld of %lld %s\n", (long long)slot,
           (long long)j->train.slot_bytes[vstage], (long long)late,
           (long long)j->train.late_bytes[vstage], err.text);
    return false;
}

static bool formula_says(const struct kept_formula *f, const struct sn_job *j, int vstage)
{
    const struct sn_program *p = &j->train;
    if (f->slot_bytes == p->slot_bytes[vstage] && f->late_bytes == p->late_bytes[vstage] &&
        f->slots == p->slots[vstage] && f->lates == p->lates[vstage])
        return true;
    printf("# slot %lld of %lld, late %lld of %lld, copies %d of %d and %d of %d\n",
           (long long)f->slot_bytes, (long long)p->slot_bytes[vstage], (long long)f->late_bytes,
           (long long)p->late_bytes[vstage], f->slots, p->slots[vstage], f->lates,
           p->lates[vstage]);
    for (int i = 0; i < f->n; i++)
        printf("# %c %s %d: %lld\n", f->kept[i].late ? '*' : ' ', f->kept[i].name,
               f->kept[i].copies, (long long)f->kept[i].bytes);
    return false;
}

static void check_stage(struct score *s, const struct layout *x, const struct sn_job *j)
{
    int64_t all = 0;
    bool good = true;
    for (int v = 0; x->prompts && v < j->train.vstages; v++, s->vstages++)
        good = search_reads(j, v) && good;
    if (x->prompts) { /* of what is frozen the formula knows nothing */
        s->wrong += !good;
        return;
    }
    for (int v = 0; v < j->train.vstages; v++, s->vstages++) {
        struct kept_formula f;
        kept_formula(&f, j, v);
        good = formula_says(&f, j, v) && rows_add_up(j, v) && search_reads(j, v) && good;
        all += f.slots * f.slot_bytes + f.lates * f.late_bytes;
    }
    if (good && all == j->train.slots_bytes)
        return;
    s->wrong++;
    printf(
        "# family %d type %d tensor %d x %d%s context %d kind %d micro %d zero %d recompute %d%s "
        "pipeline %d x %d schedule %d stage %d expert %d every %d aware %d: formula %lld, arena "
        "%lld\n",
        (int)x->family, (int)x->dtype, x->tensor, x->tensor_x, x->sequence_parallel ? " sp" : "",
        x->context, x->kind, x->micro_batch, x->zero, x->recompute, x->dropout ? " dropout" : "",
        x->pipe.stages, x->pipe.vstages, (int)x->pipe.schedule, j->stage, x->expert,
        x->experts.every, x->aware, (long long)all, (long long)j->train.slots_bytes);
}

static void check(struct score *s, const struct layout *x)
{
    struct sn_config c = config_of(x);
    struct sn_model *model = NULL;
    struct sn_err err = {0};
    struct sn_job_env env = {.config = &c, .ops = sn_ops_cpu(), .threads = 1};
    enum sn_status st = sn_model_create(&model, &c.model, &c.train, &err);
    env.model = model;
    for (env.rank = 0; st == SN_OK && env.rank < c.layout.pipeline; env.rank++) {
        struct sn_job *j = NULL;
        st = sn_job_create(&j, &env, &err);
        if (st == SN_OK)
            check_stage(s, x, j);
        sn_job_destroy(j);
    }
    sn_model_destroy(model);
    s->layouts++;
    s->wrong += st != SN_OK;
    if (st != SN_OK)
        printf("# %s\n", err.text);
}

static void report(const struct score *s, const char *what)
{
    tap_ok(s->layouts > 0 && s->wrong == 0, "%s: %d of %d layouts (%d virtual stages) differ", what,
           s->wrong, s->layouts, s->vstages);
}

/* --- the matrix ------------------------------------------------------------------------------- */

static const struct pipe pipes[] = {
    {1, 1, SN_1F1B, false},        {3, 1, SN_GPIPE, false},       {3, 1, SN_1F1B, false},
    {3, 1, SN_ZERO_BUBBLE, false}, {3, 2, SN_INTERLEAVED, false}, {1, 1, SN_1F1B, true},
};
enum { PIPES = sizeof(pipes) / sizeof(pipes[0]) };

/* Tensor ranks x sequence parallelism x recomputation x dropout x pipelines,
 * one family and type. */
static void tensor_layouts(struct score *s, struct layout x)
{
    for (int k = 0; k < 4 * 3 * 2 * PIPES; k++) {
        static const int ranks[] = {1, 2, 2, 3};
        x.tensor = ranks[k % 4];
        x.sequence_parallel = k % 4 >= 2;
        x.recompute = k / 4 % 3;
        x.dropout = k / 12 % 2;
        x.pipe = pipes[k / 24];
        check(s, &x);
    }
}

static void every_family_keeps_what_the_formula_says(void)
{
    static const char *const name[] = {"gpt2", "gpt-neox", "llama", "", "qwen2"};
    for (int f = SN_GPT2; f <= SN_QWEN2; f++) {
        if (f == SN_MIXTRAL)
            continue; /* below */
        struct score s = {0};
        struct layout x = {.family = (enum sn_family)f, .context = 1, .micro_batch = 1};
        x.dtype = f == SN_GPT_NEOX ? SN_BF16 : SN_F32;
        tensor_layouts(&s, x);
        report(&s, name[f]);
    }
}

static void context_ranks_keep_what_the_formula_says(void)
{
    struct score ring = {0}, exchange = {0};
    for (int k = 0; k < 3 * 2 * 2 * 3 * PIPES; k++) {
        struct layout x = {.family = (enum sn_family)(k % 3), .micro_batch = 1 + k % 2};
        x.dtype = k / 3 % 2 ? SN_F16 : SN_F32;
        x.tensor = 1 + k / 6 % 2;
        x.sequence_parallel = k % 4 == 3;
        x.recompute = k / 12 % 3;
        x.pipe = pipes[k / 36];
        x.context = 3;
        check(&ring, &x);
        x.kind = SN_CONTEXT_ALL_TO_ALL;
        x.context = 2;
        check(&exchange, &x);
    }
    report(&ring, "ring");
    report(&exchange, "all-to-all");
}

static void zero_adds_only_the_shared_table_s_bucket(void)
{
    struct score s = {0};
    for (int k = 0; k < 4 * 3 * 2 * PIPES; k++) {
        struct layout x = {.family = (enum sn_family)(k / 4 % 3), .context = 1, .micro_batch = 2};
        x.zero = k % 4;
        x.tensor = 1 + k / 12 % 2;
        x.pipe = pipes[k / 24];
        check(&s, &x);
        x.small_buckets = true;
        check(&s, &x);
    }
    report(&s, "ZeRO");
}

static void grouped_and_copied_heads_are_counted(void)
{
    struct score s = {0};
    for (int k = 0; k < 3 * 2 * PIPES; k++) {
        struct layout x = {.family = SN_LLAMA, .context = 1, .micro_batch = 1, .tensor = 4};
        x.kv_heads = 2 << k % 2; /* copies, or one each */
        x.recompute = k / 2 % 3;
        x.sequence_parallel = k % 3 == 0;
        x.pipe = pipes[k / 6];
        check(&s, &x);
    }
    report(&s, "grouped heads");
}

/* Where the experts are shared out, weight gradients are delayed with ZeRO 0 and 1 alone. */
static void experts_keep_what_the_formula_says(void)
{
    struct score here = {0}, apart = {0};
    for (int k = 0; k < 3 * 3 * 4 * 2 * PIPES; k++) {
        static const struct sn_experts_config of[] = {
            {.count = 4, .top_k = 2, .every = 1, .aux_loss = 0.01},
            {.count = 8,
             .router = SN_ROUTER_SPARSEMIXER,
             .top_k = 1,
             .every = 2,
             .capacity_factor = 0.5,
             .z_loss = 0.001,
             .jitter = 0.1},
            {.count = 4,
             .top_k = 2,
             .every = 3,
             .capacity_factor = 1.25,
             .shared = 2,
             .bias = SN_BIAS_LOSS_FREE,
             .jitter = 0.1}};
        struct layout x = {.family = SN_MIXTRAL, .context = 1, .experts = of[k % 3]};
        bool dense = k % 3 == 0 && k / 3 % 2;
        if (dense)
            x.experts.router = SN_ROUTER_DENSE;
        x.recompute = k / 3 % 3;
        x.zero = k / 9 % 4;
        x.tensor = 1 + k / 36 % 2;
        x.pipe = pipes[k / 72];
        x.micro_batch = 1 + k % 2;
        x.dtype = k / 5 % 2 ? SN_BF16 : SN_F32;
        x.sequence_parallel = k % 7 < 3;
        x.dropout = k % 5 == 0;
        check(&here, &x);
        x.expert = k % 5 < 3 ? 2 : 4;
        x.data = k % 4 < 2 ? x.expert : 2 * x.expert;
        x.buffer = 0.75 * (1 + k % 3);
        x.aware = k % 7 < 3;
        if (k % 2) {
            x.context = 2;
            x.data /= 2;
        }
        x.drop = k % 3 == 0 && !dense;
        if (x.pipe.split || x.pipe.schedule == SN_ZERO_BUBBLE)
            x.zero %= 2;
        check(&apart, &x);
    }
    report(&here, "experts");
    report(&apart, "experts shared out");
}

/* Tensor ranks have tokens of their own for experts that are whole, cut over some of them, over
 * all. */
static void tokens_of_tensor_ranks_keep_what_the_formula_says(void)
{
    struct score s = {0};
    for (int k = 0; k < 3 * 3 * 4 * 2 * PIPES; k++) {
        static const struct sn_experts_config of[] = {
            {.count = 4, .top_k = 2, .every = 1, .aux_loss = 0.01},
            {.count = 8, .top_k = 1, .every = 2, .capacity_factor = 0.5, .z_loss = 0.001},
            {.count = 4,
             .top_k = 2,
             .every = 3,
             .capacity_factor = 1.25,
             .shared = 2,
             .jitter = 0.1}};
        static const int ways[] = {1, 2, 4};
        static const int tensor[] = {2, 4, 2, 4, 4}, own[] = {1, 2, 0, 1, 0};
        static const struct sn_experts_config dense = {
            .count = 4, .top_k = 2, .every = 1, .aux_loss = 0.01, .router = SN_ROUTER_DENSE};
        struct layout x = {.family = SN_MIXTRAL, .experts = k % 13 == 5 ? dense : of[k % 3]};
        x.recompute = k / 3 % 3;
        x.zero = k / 9 % 2;
        x.tensor = tensor[k % 5];
        x.own = own[k % 5];
        x.split = x.own == 0;
        x.sequence_parallel = true;
        x.pipe = pipes[k / 72];
        x.context = 1 + k % 2;
        x.micro_batch = 1 + k / 2 % 2;
        x.dtype = k / 5 % 2 ? SN_BF16 : SN_F32;
        x.dropout = k % 11 < 2;
        x.aware = k % 7 < 3;
        x.expert = ways[k / 4 % 3];
        x.data = x.split && x.expert == 4 ? 4 : 2;
        x.buffer = 0.75 * (1 + k % 3);
        check(&s, &x);
    }
    report(&s, "experts for tokens that tensor ranks route apart");
}

/* Of what goes to other stages streams are kept, of all else what there is without codecs. */
static void codecs_keep_streams_for_other_stages(void)
{
    struct score s = {0};
    for (int k = 0; k < 4 * 3 * 2 * 2 * PIPES; k++) {
        static const int ranks[] = {1, 2, 2, 3};
        static const char *const codec[] = {"int8", "int4-hadamard", "mpc", "zfp-8", "bf16"};
        struct layout x = {.family = (enum sn_family)(k % 3), .context = 1, .micro_batch = 1};
        x.tensor = ranks[k % 4];
        x.sequence_parallel = k % 4 >= 2;
        x.recompute = k / 4 % 3;
        x.dropout = k / 12 % 2;
        x.dtype = k / 24 % 2 ? SN_BF16 : SN_F32;
        x.zero = k / 3 % 4;
        x.aware = k % 7 < 3;
        x.pipe = pipes[k / 48];
        x.codec[SN_CODED_PIPELINE] = k % 11 ? codec[k % 5] : NULL;
        x.codec[SN_CODED_TENSOR] = k / 5 % 3 ? codec[k / 5 % 5] : NULL;
        x.codec[SN_CODED_DATA] = k / 7 % 2 ? codec[k / 7 % 5] : NULL;
        x.codec[SN_CODED_ZERO] = k / 14 % 2 ? codec[k / 14 % 5] : NULL;
        x.guard = k % 3 ? 0.1 : 0;
        check(&s, &x);
    }
    report(&s, "codecs");
}

/* Features between blocks are cut. */
static void grids_keep_what_the_formula_says(void)
{
    struct score s = {0};
    static const int grid[][2] = {{1, 2}, {2, 2}, {4, 2}, {2, 4}, {1, 3}};
    enum { NGRIDS = sizeof(grid) / sizeof(grid[0]) };
    for (int k = 0; k < NGRIDS * 3 * 2 * 4 * PIPES; k++) {
        static const enum sn_family family[] = {SN_GPT2, SN_GPT_NEOX, SN_LLAMA, SN_QWEN2};
        struct layout x = {.family = family[k / (NGRIDS * 6) % 4], .micro_batch = 1 + k % 2};
        x.tensor = grid[k % NGRIDS][0];
        x.tensor_x = grid[k % NGRIDS][1];
        x.recompute = k / NGRIDS % 3;
        x.sequence_parallel = k / (NGRIDS * 3) % 2;
        x.pipe = pipes[k / (NGRIDS * 24)];
        x.dtype = k % 7 < 3 ? SN_BF16 : SN_F32;
        x.zero = k / 3 % 4;
        x.small_buckets = k % 11 < 4;
        x.context = k % 13 < 4 ? 3 : 1;
        x.aware = k % 7 % 2;
        x.dropout = k % 9 < 4;
        x.codec[SN_CODED_PIPELINE] = k % 17 < 5 ? "int8" : NULL;
        x.codec[SN_CODED_TENSOR] = k % 19 < 6 ? "zfp-8" : NULL;
        x.kv_heads = x.family == SN_LLAMA ? 4 : 0;
        check(&s, &x);
        if (x.context > 1) {
            x.kind = SN_CONTEXT_ALL_TO_ALL;
            x.context = x.tensor == 4 ? 1 : 2;
            x.kv_heads = 0;
            check(&s, &x);
        }
    }
    report(&s, "grids of tensors");
}

static void kept_results_of_collectives_are_counted(void)
{
    struct score s = {0};
    for (int k = 0; k < 2 * 4 * 3 * 2 * 2 * PIPES; k++) {
        struct layout x = {.family = (enum sn_family)(k / 2 % 4), .context = 1, .micro_batch = 1};
        x.aware = true;
        x.recompute = 1 + k % 2;
        x.tensor = 1 + k / 8 % 3;
        x.sequence_parallel = k / 24 % 2;
        x.context = 1 + k / 48 % 2;
        x.drop = k % 5 < 2;
        x.kind = SN_CONTEXT_ALL_TO_ALL;
        x.pipe = pipes[k / 96];
        if (x.family == SN_MIXTRAL) {
            x.experts = (struct sn_experts_config){.count = 4, .top_k = 2, .every = 2};
            x.experts.router = k / 8 % 3 == 2 ? SN_ROUTER_DENSE : SN_ROUTER_SOFTMAX;
            x.drop = x.drop && x.experts.router != SN_ROUTER_DENSE;
            x.expert = 2;
            x.data = 2;
            x.buffer = 1.5;
        }
        check(&s, &x);
        x.kind = SN_CONTEXT_RING;
        if (x.context > 1)
            check(&s, &x);
    }
    report(&s, "comm_aware_recompute");
}

/* Layers below prompts keep nothing, but where adapters are trained. */
static void layers_behind_prompts_are_read(void)
{
    static const unsigned some[] = {0x01, 0x3f, 0x20, 0x15, 0x2c, 0x06, 0x18};
    enum { SOME = sizeof(some) / sizeof(some[0]) };
    struct score s = {0};
    for (int k = 0; k < SOME * 3 * 2 * PIPES; k++) {
        struct layout x = {
            .family = (enum sn_family)(k % 3), .context = 1 + k % 5 / 4, .micro_batch = 1 + k % 2};
        x.prompts = some[k % SOME];
        x.adapts = k / SOME % 2;
        x.recompute = k / (2 * SOME) % 3;
        x.pipe = pipes[k / (6 * SOME)];
        x.tensor = 1 + k / 3 % 2;
        x.sequence_parallel = k % 4 == 3;
        x.zero = k / 4 % 4;
        x.dtype = k / 2 % 2 ? SN_BF16 : SN_F32;
        x.dropout = k % 11 < 4;
        x.aware = k % 7 < 3;
        x.codec[SN_CODED_PIPELINE] = k % 9 < 2 ? "int8" : NULL;
        check(&s, &x);
    }
    report(&s, "prompts");
}

int main(void)
{
    layers_behind_prompts_are_read();
    every_family_keeps_what_the_formula_says();
    context_ranks_keep_what_the_formula_says();
    zero_adds_only_the_shared_table_s_bucket();
    grouped_and_copied_heads_are_counted();
    experts_keep_what_the_formula_says();
    tokens_of_tensor_ranks_keep_what_the_formula_says();
    kept_results_of_collectives_are_counted();
    codecs_keep_streams_for_other_stages();
    grids_keep_what_the_formula_says();
    return tap_done();
}
