/*
 * test_lora.c - adapters of weight matrices: what they are called and begin as, what work they
 * bring, which matrices can have them.
 */
#include "lib/base/mem.h"
#include "tests/lib/job_test.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 2 };

static struct sn_config small(enum sn_family family)
{
    struct sn_config c = job_small();
    c.model.family = family;
    c.model.tied_embeddings = family == SN_GPT2;
    c.model.kv_heads = family == SN_LLAMA ? 2 : 4;
    c.model.rope_theta = 10000;
    c.model.rotary_pct = 1;
    return c;
}

static struct sn_config config_of(enum sn_family family, const char *target)
{
    struct sn_config c = small(family);
    c.train.lora = (struct sn_lora_config){.r = RANK, .alpha = 6, .n_targets = 1};
    (void)snprintf(c.train.lora.targets[0], sizeof(c.train.lora.targets[0]), "%s", target);
    return c;
}

static bool make(struct sn_model **m, const struct sn_config *c)
{
    struct sn_err err = {0};
    enum sn_status st = sn_model_create(m, &c->model, &c->train, &err);
    if (st != SN_OK)
        printf("# %s\n", err.text);
    return st == SN_OK;
}

static const struct sn_param *find(const struct sn_model *m, const char *name)
{
    for (int i = 0; i < m->n_params; i++)
        if (strcmp(m->params[i].name, name) == 0)
            return &m->params[i];
    return NULL;
}

static void a_fused_product_has_an_adapter_for_each_matrix(void)
{
    struct sn_config c = config_of(SN_LLAMA, "*.attn.*");
    struct sn_model *m;
    if (!tap_ok(make(&m, &c), "a model with adapters of attention"))
        return;
    const struct sn_param *a = find(m, "layers.0.attn.qkv.lora_a"),
                          *k = find(m, "layers.0.attn.k.lora_b");
    tap_ok(a && a->n_tensors == 3 && a->rows == 3 * RANK && a->cols == c.model.hidden &&
               strcmp(a->tensor[1].name, "layers.0.attn.k.lora_a") == 0,
           "those A of q, k and v lie one under the other");
    tap_ok(k && k->n_tensors == 1 && k->cols == RANK && k->tensor[0].part == 1,
           "each has a B of its own, which knows that it is k's");
    int trained = 0, others = 0;
    for (int i = 0; i < m->n_params; i++)
        (*(m->params[i].is_adapter ? &trained : &others)) += sn_param_trains(&m->params[i]);
    tap_ok(trained == c.model.layers * 6 && others == 0, "adapters are trained, and nothing else");
    sn_model_destroy(m);
}

static void the_matrices_of_products_are_codes(void)
{
    struct sn_config c = config_of(SN_LLAMA, "*.attn.q.weight");
    struct sn_model *m;
    c.train.lora.base = SN_BASE_INT4;
    if (!tap_ok(make(&m, &c), "a model whose base is codes"))
        return;
    int coded = 0;
    for (int i = 0; i < m->n_params; i++)
        coded += m->params[i].is_coded;
    tap_ok(coded == 4 * c.model.layers && find(m, "layers.0.attn.qkv.weight")->is_coded &&
               find(m, "layers.0.ffn.down.weight")->is_coded && !find(m, "embed.weight")->is_coded,
           "those of its layers, adapted or not; embedding, head, norms and adapters are not");
    sn_model_destroy(m);
}

/* As PEFT: Kaiming's uniform distribution with a = sqrt 5, whose bound is 1 / sqrt(in). */
static void adapters_begin_as_nothing(void)
{
    struct sn_config c = config_of(SN_GPT2, "*.ffn.up.weight");
    struct sn_model *m;
    if (!tap_ok(make(&m, &c), "a model with adapters of one matrix"))
        return;
    const struct sn_param *a = find(m, "layers.1.ffn.up.lora_a"),
                          *b = find(m, "layers.1.ffn.up.lora_b");
    if (tap_ok(a && b, "has its A and B")) {
        int64_t n = a->rows * a->cols;
        float *x = malloc((size_t)(n + b->rows * b->cols) * sizeof(*x));
        double bound = 1 / sqrt((double)c.model.hidden), square = 0, most = 0, sum = 0;
        sn_param_init(a, 7, 0, a->rows, x);
        for (int64_t i = 0; i < n; i++) {
            square += (double)x[i] * (double)x[i];
            most = fmax(most, fabs((double)x[i]));
        }
        tap_ok(most <= bound && most > 0.9 * bound, "A stays within 1 / sqrt(in)");
        tap_ok(fabs(square / (double)n / (bound * bound / 3) - 1) < 0.3, "and is uniform");
        float first = x[a->cols];
        sn_param_init(a, 7, 1, 1, x);
        tap_ok(memcmp(&first, x, sizeof(first)) == 0, "row by row too");
        sn_param_init(b, 7, 0, b->rows, x);
        for (int64_t i = 0; i < b->rows * b->cols; i++)
            sum += fabs((double)x[i]);
        tap_ok(sum == 0, "B is zero");
        free(x);
    }
    sn_model_destroy(m);
}

/* What is computed backward is what leads to an adapter, and no more. */
static void work_is_what_leads_to_them(void)
{
    struct sn_config c = config_of(SN_LLAMA, "layers.1.attn.v.weight");
    struct sn_model *m;
    struct sn_job *j = NULL;
    struct sn_err err = {0};
    if (!tap_ok(make(&m, &c), "a model with adapters in its second layer"))
        return;
    if (tap_ok(job_create(&j, &c, m, 1, &err) == SN_OK, "compiles %s", err.text)) {
        const struct sn_program *p = &j->train;
        int below = 0, products = 0, scales = 0, trained = 0, optim = 0;
        for (int s = 0; s < p->n_segments; s++)
            for (int i = 0; i < p->segments[s].n; i++) {
                const struct sn_op *op = &p->ops[p->segments[s].first + i];
                below += p->segments[s].kind == SN_SEGMENT_BACKWARD && op->layer == 0;
                products += op->kind == SN_OP_GEMM && op->is_weight_grad;
                scales += op->kind == SN_OP_SCALE;
            }
        for (int b = 0; b < j->n_buckets; b++) {
            trained += j->buckets[b].trains;
            optim +=
                !j->buckets[b].trains && (j->buckets[b].moment[0] >= 0 || j->buckets[b].grad >= 0);
        }
        tap_ok(below == 0, "nothing is computed backward below them");
        tap_ok(products == 2, "of weights' gradients there are those of A and B (%d)", products);
        tap_ok(scales == 2, "alpha / r is there forward and backward (%d)", scales);
        tap_ok(trained == 1 && optim == 0, "what is frozen has no gradient and no moments");
    }
    sn_job_destroy(j);
    sn_model_destroy(m);
}

/* 2 FLOP forward, 2 for the input's gradient, 2 for the weight's: of what is computed. */
static void flops_are_those_computed(void)
{
    struct sn_config c = config_of(SN_LLAMA, "*.attn.*"), whole = small(SN_LLAMA);
    struct sn_model *m, *all;
    if (!tap_ok(make(&m, &c) && make(&all, &whole), "the same model with and without adapters"))
        return;
    double with = sn_model_flops_per_token(m, &c.model);
    double without = sn_model_flops_per_token(all, &whole.model);
    tap_ok(with < 0.75 * without && with > 0.6 * without,
           "frozen matrices take two thirds of their FLOP (%.3f)", with / without);
    sn_model_destroy(m);
    sn_model_destroy(all);
}

static void refuses(enum sn_family family, const char *target, const char *words)
{
    struct sn_config c = config_of(family, target);
    struct sn_err err = {0};
    struct sn_model *m = NULL;
    tap_ok(sn_model_create(&m, &c.model, &c.train, &err) == SN_EINPUT, "'%s' is refused", target);
    tap_text(err.text, words, "and why");
}

static void keys_are_refused(const char *train, const char *words)
{
    char text[512];
    struct sn_config c;
    struct sn_err err = {0};
    int len = snprintf(text, sizeof(text),
                       "model: {preset: llama-tiny}\ndata: {train: x}\n"
                       "train: {steps: 1, global_batch: 1, %s}\n",
                       train);
    tap_ok(sn_config_parse(&c, text, (size_t)len, "run.yaml", "templates", &err) == SN_EINPUT,
           "'%s' is refused", train);
    tap_text(err.text, words, "and why");
}

int main(void)
{
    a_fused_product_has_an_adapter_for_each_matrix();
    the_matrices_of_products_are_codes();
    adapters_begin_as_nothing();
    work_is_what_leads_to_them();
    flops_are_those_computed();
    refuses(SN_LLAMA, "*.attn.p.weight",
            "train.lora.targets: '*.attn.p.weight' matches no matrix of this model; names look "
            "like 'layers.0.attn.q.weight'");
    refuses(SN_LLAMA, "*",
            "train.lora.targets: '*' matches embed.weight, and adapters of embeddings, heads, "
            "routers and experts are not built yet; want matrices of attention and dense "
            "feed-forward parts, such as *.attn.q.weight");
    keys_are_refused("lora: {targets: ['*.q.weight']}",
                     "run.yaml:3:42: train.lora: has no effect with rank 0; set train.lora.rank, "
                     "such as 16");
    keys_are_refused("lora: {rank: 8}",
                     "run.yaml:3:36: train.lora.targets: names no matrix; want patterns such as "
                     "\"*.attn.q.weight\"");
    keys_are_refused("freeze: [a], lora: {rank: 8, targets: [b]}",
                     "run.yaml:3:44: train.freeze: has no effect beside train.lora, which freezes "
                     "all but its adapters; leave it out");
    keys_are_refused("lora: {base: int8}",
                     "run.yaml:3:42: train.lora: has no effect with rank 0; set train.lora.rank, "
                     "such as 16");
    keys_are_refused("lora: {dropout: 0.1}",
                     "run.yaml:3:42: train.lora: has no effect with rank 0; set train.lora.rank, "
                     "such as 16");
    keys_are_refused("init_from: w, lora: {init_from: d}",
                     "run.yaml:3:56: train.lora: has no effect with rank 0; set train.lora.rank, "
                     "such as 16");
    keys_are_refused(
        "lora: {rank: 8, targets: [b], base: fp16}",
        "run.yaml:3:72: train.lora.base: unknown name 'fp16'; want full, int8, int4 or nf4");
    keys_are_refused("lora: {rank: 8, targets: [b], init_from: d}",
                     "run.yaml:3:77: train.lora.init_from: adapts weights that are random without "
                     "train.init_from; name those that the adapters were trained with");
    return tap_done();
}
