/*
 * test_program.c - properties that every compiled program must have.
 */
#include "lib/base/mem.h"
#include "lib/program/boxes.h"
#include "tests/lib/job_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

static struct sn_config small(enum sn_family family, enum sn_dtype dtype)
{
    struct sn_config c = {0};
    c.model = (struct sn_model_config){.family = family,
                                       .activation = sn_family_traits(family)->activation,
                                       .layers = 3,
                                       .hidden = 64,
                                       .heads = 4,
                                       .kv_heads = family == SN_LLAMA ? 2 : 4,
                                       .ffn = 96,
                                       .vocab = 101,
                                       .seq = 24,
                                       .rope_theta = 10000,
                                       .rotary_pct = family == SN_LLAMA ? 1 : 0.25,
                                       .parallel_residual = family == SN_GPT_NEOX,
                                       .tied_embeddings = family == SN_GPT2,
                                       .norm_eps = 1e-5,
                                       .init_std = 0.02,
                                       .share_layers = 1};
    c.train.precision = dtype;
    c.train.global_batch = 12;
    c.train.steps = 10;
    c.layout = (struct sn_layout_config){.data = 2,
                                         .tensor = 1,
                                         .tensor_x = 1,
                                         .pipeline = 1,
                                         .expert = 1,
                                         .context = 1,
                                         .micro_batch = 2,
                                         .bucket = 50000};
    return c;
}

struct compiled {
    struct sn_config config;
    struct sn_model *model;
    struct sn_job *job;
};

static bool compile(struct compiled *x, struct sn_config c)
{
    struct sn_err err = {0};
    *x = (struct compiled){.config = c};
    bool good = sn_model_create(&x->model, &x->config.model, &x->config.train, &err) == SN_OK &&
                job_create(&x->job, &x->config, x->model, 2, &err) == SN_OK;
    if (!good)
        printf("# %s\n", err.text);
    return good;
}

static void release(struct compiled *x)
{
    sn_job_destroy(x->job);
    sn_model_destroy(x->model);
}

/* --- checks --------------------------------------------------------------------------------- */

static bool is_state(const struct sn_program *p, int buf)
{
    return buf < p->n_state_bufs;
}

/* Whatever is read has been written by an earlier operation, or is state. */
static int reads_before_writes(const struct sn_program *p)
{
    int bad = 0;
    bool *written = calloc((size_t)p->n_bufs, sizeof(*written));
    for (int i = 0; i < p->n_ops; i++) {
        for (int k = 0; k < SN_MAX_IN; k++) {
            int b = p->ops[i].in[k].buf;
            bad += b >= 0 && !is_state(p, b) && !written[b];
        }
        for (int k = 0; k < SN_MAX_OUT; k++)
            if (p->ops[i].out[k].buf >= 0)
                written[p->ops[i].out[k].buf] = true;
    }
    free(written);
    return bad;
}

static bool inside(const struct sn_program *p, const struct sn_view *v)
{
    const struct sn_buffer *b = &p->bufs[v->buf];
    int64_t last = v->offset + (v->rows - 1) * v->ld + v->cols;
    if (v->index == SN_AT_MICRO)
        last += (p->micros - 1) * v->stride;
    return v->offset >= 0 && v->cols <= v->ld && last <= b->rows * b->cols;
}

static int views_outside(const struct sn_program *p)
{
    int bad = 0;
    for (int i = 0; i < p->n_ops; i++) {
        for (int k = 0; k < SN_MAX_IN; k++)
            bad += p->ops[i].in[k].buf >= 0 && !inside(p, &p->ops[i].in[k]);
        for (int k = 0; k < SN_MAX_OUT; k++)
            bad += p->ops[i].out[k].buf >= 0 && !inside(p, &p->ops[i].out[k]);
    }
    return bad;
}

/* Two buffers of the same arena that live at the same time and have places of their own do not
 * overlap; two that share a place share it only at the operation where one follows the other. */
static int overlaps(const struct sn_program *p)
{
    int bad = 0;
    for (int a = p->n_state_bufs; a < p->n_bufs; a++) {
        for (int b = a + 1; b < p->n_bufs; b++) {
            const struct sn_buffer *x = &p->bufs[a], *y = &p->bufs[b];
            if (x->first < 0 || y->first < 0 || x->cls != y->cls)
                continue;
            bool memory = x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
            if (!memory)
                continue;
            /* own lives: a root's `last` covers those who took its place */
            int x_last = x->last, y_last = y->last;
            if (x->place == b)
                y_last = x->first;
            if (y->place == a)
                x_last = y->first;
            bool together = x->first <= y_last && y->first <= x_last;
            bool handover = x->place == y->place && (x->first >= y_last || y->first >= x_last);
            bool shared = x->place == y->place; /* a chain of places: a -> b -> c */
            bad += together && !handover && !shared;
        }
    }
    return bad;
}

/* An output that takes an input's place does so where that input is used for the last time. */
static int early_takeovers(const struct sn_program *p)
{
    int bad = 0;
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        if (p->bufs[b].place == b || p->bufs[b].first < 0)
            continue;
        int at = p->bufs[b].first;
        for (int i = at + 1; i < p->n_ops;
             i++) /* later readers of the place must be of b or after */
            for (int k = 0; k < SN_MAX_IN; k++) {
                int r = p->ops[i].in[k].buf;
                bad += r >= 0 && r != b && !is_state(p, r) &&
                       p->bufs[r].place == p->bufs[b].place && p->bufs[r].first < at;
            }
    }
    return bad;
}

static void check_program(const struct sn_program *p, const char *what)
{
    tap_ok(reads_before_writes(p) == 0, "%s %s: nothing is read before it is written", what,
           p->name);
    tap_ok(views_outside(p) == 0, "%s %s: every view lies inside its buffer", what, p->name);
    tap_ok(overlaps(p) == 0, "%s %s: what lives together does not overlap", what, p->name);
    tap_ok(early_takeovers(p) == 0, "%s %s: places are taken only from the dead", what, p->name);
    tap_ok(p->temp_bytes >= p->temp_lower_bound && p->temp_bytes <= p->temp_lower_bound * 1.02,
           "%s %s: temporaries pack to the lower bound (%lld of %lld)", what, p->name,
           (long long)p->temp_bytes, (long long)p->temp_lower_bound);
}

static void every_family_compiles_to_sound_programs(void)
{
    static const char *const name[] = {"gpt2", "gpt-neox", "llama"};
    for (int f = 0; f < 3; f++)
        for (int drop = 0; drop < 2; drop++) {
            struct sn_config c = small((enum sn_family)f, drop ? SN_BF16 : SN_F32);
            c.model.dropout = drop ? 0.1 : 0;
            struct compiled x;
            if (tap_ok(compile(&x, c), "%s compiles", name[f])) {
                check_program(&x.job->train, name[f]);
                check_program(&x.job->evaluate, name[f]);
                check_program(&x.job->generate, name[f]);
            }
            release(&x);
        }
}

static int count(const struct sn_program *p, int kind)
{
    int n = 0;
    for (int i = 0; i < p->n_ops; i++)
        n += p->ops[i].kind == kind;
    return n;
}

static void frozen_parameters_have_no_gradient_work(void)
{
    struct sn_config c = small(SN_LLAMA, SN_F32);
    struct compiled all, some;
    c.train.n_freeze = 0;
    tap_ok(compile(&all, c), "all parameters train");
    c.train.n_freeze = 3;
    strcpy(c.train.freeze[0], "embed.*");
    strcpy(c.train.freeze[1], "layers.0.*");
    strcpy(c.train.freeze[2], "layers.1.*");
    tap_ok(compile(&some, c), "the first layers are frozen");
    tap_ok(count(&some.job->train, SN_OP_EMBED_GRAD) == 0, "no gradient for a frozen embedding");
    tap_ok(count(&some.job->train, SN_OP_ATTENTION_DX) == 1,
           "backward stops below the last trained layer");
    struct sn_memory_plan a, b;
    sn_job_memory(all.job, &a);
    sn_job_memory(some.job, &b);
    tap_ok(b.grads < a.grads / 2 && b.optimizer < a.optimizer / 2,
           "frozen parameters take no gradient and optimizer memory");
    release(&all);
    release(&some);
}

static void an_asynchronous_save_is_in_the_plan(void)
{
    struct sn_config c = small(SN_LLAMA, SN_BF16);
    struct compiled x;
    struct sn_memory_plan without, with;
    if (tap_ok(compile(&x, c), "a job of two replicas")) {
        sn_job_memory(x.job, &without);
        x.config.checkpoint.async = true;
        sn_job_memory(x.job, &with);
        int64_t half = sn_model_param_count(x.model) * 3 * 4 / 2, pages = 0;
        for (int i = 0; i < x.job->n_shards; i++)
            pages += 3 * x.job->shards[i].n_tensors;
        tap_ok(without.snapshot == 0 && with.snapshot == sn_job_snapshot_bytes(x.job) &&
                   with.total == without.total + with.snapshot,
               "checkpoint.async adds its copy to the total");
        tap_ok(with.snapshot > half && with.snapshot < half + (pages + 6) * 4096,
               "which is half of the state each, and a page for each tensor (%lld, %lld)",
               (long long)half, (long long)(with.snapshot - half));
    }
    release(&x);
}

static void freezing_a_part_is_refused(void)
{
    struct sn_config c = small(SN_LLAMA, SN_F32);
    struct sn_err err = {0};
    struct sn_model *m = NULL;
    c.train.n_freeze = 1;
    strcpy(c.train.freeze[0], "layers.1.attn.q.weight");
    tap_ok(sn_model_create(&m, &c.model, &c.train, &err) == SN_EINPUT, "freezing q alone fails");
    tap_text(err.text,
             "train.freeze: 'layers.1.attn.q.weight' freezes a part of layers.1.attn.qkv.weight; "
             "freeze all of its 3 tensors or none",
             "and says why");
    strcpy(c.train.freeze[0], "nothing.*");
    tap_ok(sn_model_create(&m, &c.model, &c.train, &err) == SN_EINPUT,
           "a pattern without match fails");
    tap_text(err.text,
             "train.freeze: 'nothing.*' matches no tensor of this model; names look like "
             "'embed.weight'",
             "and shows a name");
}

static void shared_layers_share_weights_and_add_gradients(void)
{
    struct sn_config c = small(SN_LLAMA, SN_F32);
    struct compiled own, shared;
    c.model.layers = 4;
    tap_ok(compile(&own, c), "four layers");
    c.model.share_layers = 2;
    tap_ok(compile(&shared, c), "four layers, two sets of weights");
    int64_t outside = 2 * 101 * 64 + 64;
    tap_ok(sn_model_param_count(shared.model) - outside ==
               (sn_model_param_count(own.model) - outside) / 2,
           "half of the layers' parameters");
    tap_ok(sn_model_flops_uncausal(own.model, &c.model) -
                   sn_model_flops_per_token(own.model, &c.model) ==
               6.0 * c.model.layers * c.model.hidden * c.model.seq,
           "attention that is counted whole has twice the FLOPs of causal attention");
    tap_ok(sn_model_flops_per_token(own.model, &c.model) ==
               sn_model_flops_per_token(shared.model, &c.model),
           "the same work per token");
    int adds = 0;
    for (int i = 0; i < shared.job->train.n_ops; i++)
        adds += shared.job->train.ops[i].kind == SN_OP_GEMM &&
                shared.job->train.ops[i].acc[0] == SN_ACC_ADD;
    tap_ok(adds == 8, "the second use of each of 8 matrices adds to its gradient (%d)", adds);
    release(&own);
    release(&shared);
}

static void buckets_cover_every_gradient_once(void)
{
    struct compiled x;
    tap_ok(compile(&x, small(SN_GPT2, SN_F32)), "two ranks");
    const struct sn_program *p = &x.job->train;
    int64_t bytes = 0;
    bool whole = true, after_backward_began = true;
    for (int i = 0; i < p->n_ops; i++) {
        if (p->ops[i].kind != SN_OP_ALL_REDUCE)
            continue;
        whole = whole && p->ops[i].in[0].cols == p->bufs[p->ops[i].in[0].buf].cols;
        bytes += p->ops[i].in[0].cols * 4;
        after_backward_began = after_backward_began && i >= p->segments[1].first;
    }
    tap_ok(count(p, SN_OP_ALL_REDUCE) > 3, "several buckets");
    tap_ok(count(p, SN_OP_ALL_REDUCE) == count(p, SN_OP_WAIT), "each is waited for");
    tap_ok(whole && bytes == x.job->class_bytes[SN_CLASS_GRAD],
           "together they are all gradients, each once");
    tap_ok(after_backward_began, "none is posted before backward");
    for (int i = 0; i < p->n_ops; i++) { /* nothing writes a gradient after its bucket is posted */
        if (p->ops[i].kind != SN_OP_ALL_REDUCE)
            continue;
        int64_t from = p->bufs[p->ops[i].in[0].buf].offset, to = from + p->ops[i].in[0].cols * 4;
        int late = 0;
        for (int k = i + 1; k < p->n_ops; k++)
            for (int o = 0; o < SN_MAX_OUT; o++) {
                int b = p->ops[k].out[o].buf;
                late += b >= 0 && p->bufs[b].cls == SN_CLASS_GRAD && p->bufs[b].offset >= from &&
                        p->bufs[b].offset < to;
            }
        tap_ok(late == 0, "%s is final when it is posted", p->ops[i].label);
    }
    release(&x);
}

static void a_large_program_packs_to_the_lower_bound(void)
{
    struct sn_config c = small(SN_LLAMA, SN_BF16);
    c.model = (struct sn_model_config){.family = SN_LLAMA,
                                       .activation = SN_SILU,
                                       .layers = 80,
                                       .hidden = 8192,
                                       .heads = 64,
                                       .kv_heads = 8,
                                       .ffn = 28672,
                                       .vocab = 128256,
                                       .seq = 8192,
                                       .rope_theta = 5e5,
                                       .rotary_pct = 1,
                                       .norm_eps = 1e-5,
                                       .init_std = 0.02,
                                       .share_layers = 1};
    c.layout.micro_batch = 1;
    struct compiled x;
    tap_ok(compile(&x, c), "80 layers of 8192 compile");
    tap_ok(sn_model_param_count(x.model) == 70553706496, "llama3-70b has its published size (%lld)",
           (long long)sn_model_param_count(x.model));
    const struct sn_program *p = &x.job->train;
    tap_ok(p->temp_bytes <= p->temp_lower_bound * 1.005, "packing meets the bound (%.4f)",
           (double)p->temp_bytes / (double)p->temp_lower_bound);
    release(&x);
}

static void running_out_of_memory_is_reported(void)
{
    struct sn_config c = small(SN_GPT2, SN_F32);
    int failures = 0;
    for (uint64_t n = 1; n < 10000; n++) {
        struct sn_err err = {0};
        struct sn_model *m = NULL;
        struct sn_job *j = NULL;
        sn_mem_fail_at(n);
        enum sn_status st = sn_model_create(&m, &c.model, &c.train, &err);
        if (st == SN_OK)
            st = job_create(&j, &c, m, 1, &err);
        sn_mem_fail_at(0);
        sn_job_destroy(j);
        sn_model_destroy(m);
        if (st == SN_OK)
            break;
        failures++;
        if (st != SN_ENOMEM) {
            tap_ok(false, "allocation %d failing gives %d: %s", (int)n, st, err.text);
            return;
        }
    }
    tap_ok(failures > 10, "each of %d allocations may fail", failures);
}

static void the_program_prints(void)
{
    struct compiled x;
    tap_ok(compile(&x, small(SN_LLAMA, SN_F32)), "a llama");
    struct sn_str s = {0};
    sn_program_print(&s, x.job, &x.job->train);
    tap_ok(s.p && strstr(s.p, "gemm           l0.attn_norm[s], layers.0.attn.qkv.weight -> "
                              "l0.attn.qkv") != NULL,
           "a line names operands");
    tap_ok(s.p && strstr(s.p, "all_reduce     grad.bucket0") != NULL, "buckets are shown");
    sn_str_fini(&s);
    release(&x);
}

/* Counts operations of gradients that may be summed in any order; others that say so are faults. */
static int summed_in_any_order(const struct sn_job *j, int *faults)
{
    int n = 0;
    for (int i = 0; i < j->train.n_ops; i++) {
        int kind = j->train.ops[i].kind;
        bool may = kind == SN_OP_ATTENTION_DX || kind == SN_OP_EMBED_GRAD || kind == SN_OP_COLSUM ||
                   kind == SN_OP_LAYERNORM_DX || kind == SN_OP_RMSNORM_DX;
        bool says = j->train.ops[i].attr.any_order;
        n += may && says;
        *faults += !may && says;
    }
    return n;
}

static void only_a_run_that_says_so_varies(void)
{
    for (int any = 0; any < 2; any++) {
        struct compiled x;
        struct sn_config c = small(SN_GPT2, SN_F32);
        int faults = 0;
        c.run.deterministic = !any;
        tap_ok(compile(&x, c), "a gpt2");
        int n = summed_in_any_order(x.job, &faults);
        /* 3 layers: attention, 2 norms, 4 biases; the last norm, the words */
        tap_ok(faults == 0 && n == (any ? 3 * 7 + 2 : 0),
               "run.deterministic %s: %d operations may sum in any order", any ? "false" : "true",
               n);
        release(&x);
    }
}

/* The layers' linear maps and their gradients; the head and what is between them stay. */
static void products_of_weights_may_be_of_8_bits(enum sn_fp8_scaling scaling)
{
    struct compiled x;
    struct sn_config c = small(SN_LLAMA, SN_BF16);
    int n[SN_FP8_LINES + 1] = {0}, others = 0;
    bool parts = scaling == SN_FP8_BLOCKWISE;
    c.train.fp8 = scaling;
    tap_ok(compile(&x, c), "a llama in 8 bits, scales of %s", parts ? "blocks" : "tensors");
    for (int i = 0; i < x.job->train.n_ops; i++) {
        const struct sn_op *op = &x.job->train.ops[i];
        if (op->kind == SN_OP_GEMM)
            n[op->attr.gemm.fp8]++;
        else
            others += op->attr.gemm.fp8 != SN_FP8_NONE;
        /* of lines where no operand is a weight: a gradient's product has A turned */
        others += (op->attr.gemm.fp8 == SN_FP8_LINES) !=
                  (op->attr.gemm.trans_a && op->attr.gemm.fp8 && parts);
        if (op->kind == SN_OP_GEMM && op->attr.gemm.fp8)
            for (int k = 0; k < 2; k++)
                others += x.job->train.bufs[op->in[k].buf].dtype != SN_BF16;
    }
    /* a layer: qkv, output, gate and up, down; each with dx and dw */
    const int layer = 3 * 4;
    const int want[] = {n[SN_FP8_NONE], parts ? 0 : layer, parts ? 0 : 2 * layer,
                        parts ? 2 * layer : 0, parts ? layer : 0};
    tap_ok(
        memcmp(n, want, sizeof(n)) == 0 && others == 0,
        "%d products with one scale for A and B, %d of weights' blocks, %d of lines, all of bf16",
        n[SN_FP8_FORWARD] + n[SN_FP8_BACKWARD], n[SN_FP8_BLOCKS], n[SN_FP8_LINES]);
    tap_ok(n[SN_FP8_NONE] > 0, "the head stays (%d products)", n[SN_FP8_NONE]);
    release(&x);
}

/* 0.58 x 100 is 57.99999... in doubles. */
static void a_head_is_rotated_as_its_rule_says(void)
{
    struct sn_config c = small(SN_GPT_NEOX, SN_F32);
    struct sn_model *m = NULL;
    struct sn_err err = {0};
    int rotated = -1;
    c.model.hidden = 200;
    c.model.heads = c.model.kv_heads = 2;
    c.model.rotary_pct = 0.58;
    bool good = sn_model_create(&m, &c.model, &c.train, &err) == SN_OK;
    for (int i = 0; good && i < m->n_nodes; i++)
        if (m->nodes[i].kind == SN_NODE_ROPE)
            rotated = m->nodes[i].attr.attention.rotary_dim;
    tap_ok(rotated == 58 && sn_model_rotated(&c.model) == 58, "58 %% of 100 features are %d",
           rotated);
    sn_model_destroy(m);
}

int main(void)
{
    every_family_compiles_to_sound_programs();
    frozen_parameters_have_no_gradient_work();
    an_asynchronous_save_is_in_the_plan();
    freezing_a_part_is_refused();
    shared_layers_share_weights_and_add_gradients();
    buckets_cover_every_gradient_once();
    a_large_program_packs_to_the_lower_bound();
    running_out_of_memory_is_reported();
    the_program_prints();
    only_a_run_that_says_so_varies();
    products_of_weights_may_be_of_8_bits(SN_FP8_TENSORWISE);
    products_of_weights_may_be_of_8_bits(SN_FP8_BLOCKWISE);
    a_head_is_rotated_as_its_rule_says();
    return tap_done();
}
