/*
 * hf_test.h - tiny files in the field's format, and a model to fill from them.
 */
#ifndef HF_TEST_H
#define HF_TEST_H

#include "checkpoint/hf/hfnames.h"
#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/model/model.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdlib.h>

enum { D = 8, H = 2, d = D / H, F = 12, V = 10, S = 6, LAYERS = 2, MOST = 64 };

/* One tensor of a file: element i holds 1000 x its number in the list + i. cols 0: a vector. */
struct entry {
    char name[96];
    int rows, cols;
};

struct bench {
    char root[64], path[96];
    struct sn_model_config config;
    struct sn_model *model;
    struct sn_state state;
    struct sn_state_tensor tensors[MOST];
    struct sn_state_shape all[MOST];
    struct entry entry[MOST];
    int n;
    int not_a_number; /* 0: none; else the tensor that holds a NaN, in row 2, column 5 or row 5 */
    struct sn_err err;
};

__attribute__((unused)) static int add(struct bench *b, int rows, int cols, const char *name)
{
    struct entry *e = &b->entry[b->n];
    (void)snprintf(e->name, sizeof(e->name), "%s", name);
    e->rows = rows;
    e->cols = cols;
    return b->n++;
}

__attribute__((unused)) static void add_layers(struct bench *b, int rows, int cols,
                                               const char *before, const char *after)
{
    char name[96];
    for (int l = 0; l < b->config.layers; l++) {
        (void)snprintf(name, sizeof(name), "%s.%d.%s", before, l, after);
        (void)add(b, rows, cols, name);
    }
}

__attribute__((unused)) static int number(const struct bench *b, const char *name)
{
    for (int i = 0; i < b->n; i++)
        if (strcmp(b->entry[i].name, name) == 0)
            return i;
    return -1;
}

/* Element i of their tensor, as the file holds it. */
__attribute__((unused)) static float theirs(const struct bench *b, const char *name, int64_t i)
{
    return (float)(1000 * number(b, name) + (int)i);
}

__attribute__((unused)) static size_t count(const struct entry *e)
{
    return (size_t)e->rows * (size_t)(e->cols ? e->cols : 1);
}

/* Write the list; `same_as` makes tensor `copy` hold the values of another one. */
__attribute__((unused)) static void write_file(struct bench *b, int copy, int same_as)
{
    struct sn_str header = {0};
    size_t at = 0;
    sn_str_add(&header, "{");
    for (int i = 0; i < b->n; i++) {
        const struct entry *e = &b->entry[i];
        char shape[32];
        (void)snprintf(shape, sizeof(shape), e->cols ? "[%d,%d]" : "[%d]", e->rows, e->cols);
        sn_str_add(&header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                   i ? "," : "", e->name, shape, at, at + 4 * count(e));
        at += 4 * count(e);
    }
    sn_str_add(&header, "}");
    uint64_t n = header.len;
    unsigned char *p = sn_alloc(8 + header.len + at), *q = p + 8 + header.len;
    memcpy(p, &n, 8);
    memcpy(p + 8, header.p, header.len);
    for (int i = 0; i < b->n; i++)
        for (size_t k = 0; k < count(&b->entry[i]); k++, q += 4) {
            const struct entry *e = &b->entry[i];
            bool is_nan =
                i == b->not_a_number && i > 0 && k == (e->cols ? 2 * (size_t)e->cols : 0) + 5;
            float value = is_nan ? NAN : (float)(1000 * (i == copy ? same_as : i) + (int)k);
            memcpy(q, &value, 4);
        }
    (void)sn_file_save(b->path, p, (size_t)(q - p), &b->err);
    sn_str_fini(&header);
    sn_free(p);
}

/* A tensor of ours with memory for it. */
__attribute__((unused)) static void add_whole(struct bench *b, const char *group, const char *name,
                                              int64_t rows, int64_t cols)
{
    struct sn_state_shape *s = &b->all[b->state.n_all++];
    *s = (struct sn_state_shape){group, name, rows, cols};
    b->tensors[b->state.n_tensors++] =
        sn_state_whole(s, sn_alloc_n((size_t)(rows * cols), sizeof(float)));
}

__attribute__((unused)) static void make_state(struct bench *b)
{
    b->state =
        (struct sn_state){.model_text = "", .ranks = 1, .tensors = b->tensors, .all = b->all};
    for (int i = 0; i < b->model->n_params; i++)
        for (int k = 0; k < b->model->params[i].n_tensors; k++) {
            const struct sn_param *p = &b->model->params[i];
            add_whole(b, "model", p->tensor[k].name, p->tensor[k].rows, p->cols);
        }
}

__attribute__((unused)) static void setup(struct bench *b, enum sn_family family)
{
    *b = (struct bench){.root = "/tmp/sn-hf-XXXXXX"};
    b->config = (struct sn_model_config){.family = family,
                                         .activation = sn_family_traits(family)->activation,
                                         .layers = LAYERS,
                                         .hidden = D,
                                         .heads = H,
                                         .kv_heads = sn_family_traits(family)->gated ? 1 : H,
                                         .ffn = F,
                                         .vocab = V,
                                         .seq = S,
                                         .rope_theta = 10000,
                                         .rotary_pct = 1,
                                         .norm_eps = 1e-5,
                                         .init_std = 0.02,
                                         .share_layers = 1};
    b->config.tied_embeddings = family == SN_GPT2;
    if (!mkdtemp(b->root))
        exit(1);
    (void)snprintf(b->path, sizeof(b->path), "%s/model.safetensors", b->root);
}

__attribute__((unused)) static void make_model(struct bench *b)
{
    struct sn_train_config t = {.global_batch = 1};
    if (sn_model_create(&b->model, &b->config, &t, &b->err) != SN_OK) {
        printf("# %s\n", b->err.text);
        exit(1);
    }
    make_state(b);
}

__attribute__((unused)) static void teardown(struct bench *b)
{
    for (int i = 0; i < b->state.n_tensors; i++)
        sn_free(b->tensors[i].p);
    sn_model_destroy(b->model);
    (void)sn_dir_remove(b->root, &b->err);
}

/* First weights of the bench's model from a path. */
__attribute__((unused)) static enum sn_status init_at(struct bench *b, const char *path,
                                                      struct sn_state *state)
{
    struct sn_config c = {.model = b->config};
    (void)snprintf(c.train.init_from, sizeof(c.train.init_from), "%s", path);
    b->err.text[0] = '\0';
    return sn_init_from(&c, state, &b->err);
}

__attribute__((unused)) static enum sn_status init(struct bench *b)
{
    return init_at(b, b->root, &b->state);
}

/* The sentence of a failed init, where the folder is written as DIR. */
__attribute__((unused)) static void init_says(struct bench *b, const char *want)
{
    char text[1024] = "";
    if (init(b) != SN_OK)
        for (const char *c = b->err.text; *c; c++) {
            bool root = strncmp(c, b->root, strlen(b->root)) == 0;
            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s", root ? 3 : 1,
                           root ? "DIR" : c);
            c += root ? strlen(b->root) - 1 : 0;
        }
    tap_text(text, want, *want ? want : "the weights are taken");
}

__attribute__((unused)) static const struct sn_state_tensor *ours(const struct bench *b,
                                                                  const char *name)
{
    for (int i = 0; i < b->state.n_tensors; i++)
        if (strcmp(b->tensors[i].name, name) == 0)
            return &b->tensors[i];
    return NULL;
}

__attribute__((unused)) static void list_gpt2(struct bench *b, const char *prefix)
{
    char name[96];
#define NAME(s) ((void)snprintf(name, sizeof(name), "%s%s", prefix, s), name)
    (void)add(b, V, D, NAME("wte.weight"));
    (void)add(b, S, D, NAME("wpe.weight"));
    add_layers(b, D, 0, NAME("h"), "ln_1.weight");
    add_layers(b, D, 0, NAME("h"), "ln_1.bias");
    add_layers(b, D, 3 * D, NAME("h"), "attn.c_attn.weight");
    add_layers(b, 3 * D, 0, NAME("h"), "attn.c_attn.bias");
    add_layers(b, D, D, NAME("h"), "attn.c_proj.weight");
    add_layers(b, D, 0, NAME("h"), "attn.c_proj.bias");
    add_layers(b, D, 0, NAME("h"), "ln_2.weight");
    add_layers(b, D, 0, NAME("h"), "ln_2.bias");
    add_layers(b, D, F, NAME("h"), "mlp.c_fc.weight");
    add_layers(b, F, 0, NAME("h"), "mlp.c_fc.bias");
    add_layers(b, F, D, NAME("h"), "mlp.c_proj.weight");
    add_layers(b, D, 0, NAME("h"), "mlp.c_proj.bias");
    (void)add(b, D, 0, NAME("ln_f.weight"));
    (void)add(b, D, 0, NAME("ln_f.bias"));
}

__attribute__((unused)) static void list_llama(struct bench *b)
{
    (void)add(b, V, D, "model.embed_tokens.weight");
    add_layers(b, D, 0, "model.layers", "input_layernorm.weight");
    add_layers(b, D, D, "model.layers", "self_attn.q_proj.weight");
    add_layers(b, d, D, "model.layers", "self_attn.k_proj.weight");
    add_layers(b, d, D, "model.layers", "self_attn.v_proj.weight");
    add_layers(b, D, D, "model.layers", "self_attn.o_proj.weight");
    add_layers(b, D, 0, "model.layers", "post_attention_layernorm.weight");
    add_layers(b, F, D, "model.layers", "mlp.gate_proj.weight");
    add_layers(b, F, D, "model.layers", "mlp.up_proj.weight");
    add_layers(b, D, F, "model.layers", "mlp.down_proj.weight");
    (void)add(b, D, 0, "model.norm.weight");
    (void)add(b, V, D, "lm_head.weight");
}

#endif
