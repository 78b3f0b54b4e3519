/*
 * hfconfig_test.h - what the tests of Hugging Face's config.json share: the types, and a bench on which a file
 * is changed and read.
 */
#ifndef SN_PARITY_HFCONFIG_TEST_H
#define SN_PARITY_HFCONFIG_TEST_H

#include "lib/config/hfconfig.h"
#include "lib/config/hfkeys.h"
#include "tests/lib/tap.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((unused)) static const char *const types[] = {
    "gpt2",  "gpt_neox",  "llama", "mistral", "mixtral",    "qwen2",  "smollm3",    "granite",
    "qwen3", "qwen3_moe", "phi3",  "olmo2",   "starcoder2", "gemma2", "gemma3_text", "qwen2_moe", "dots1",
    "deepseek_v2", "deepseek_v3"};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

__attribute__((unused)) static bool is_default(const char *ours, const json_t *theirs)
{
    if (json_is_number(theirs))
        return strtod(ours, NULL) == json_number_value(theirs);
    return strcmp(ours, json_is_null(theirs)     ? "null"
                        : json_is_true(theirs)   ? "true"
                        : json_is_false(theirs)  ? "false"
                        : json_is_string(theirs) ? json_string_value(theirs)
                                                 : "{}") == 0;
}

/* --- values ----------------------------------------------------------------------------------- */

/* A file, as JSON to be changed, and what it is read as. */
struct bench {
    const struct sn_hf_type *type;
    char path[64];
    json_t *base;
    struct sn_model_config model; /* of the base */
    struct sn_err err;
};

/* For each of our keys a value, and another one. */
__attribute__((unused)) static const char *const values[][3] = {
    {"layers", "4", "8"},
    {"hidden", "64", "128"},
    {"heads", "4", "8"},
    {"kv_heads", "2", "4"},
    {"ffn", "96", "192"},
    {"vocab", "100", "200"},
    {"seq", "32", "16"},
    {"norm_eps", "0.0001", "0.001"},
    {"init_std", "0.125", "0.5"},
    {"tied_embeddings", "true", "false"},
    {"activation", "\"gelu_new\"", "\"gelu\""},
    {"rope_theta", "20000", "500.0"},
    {"rotary_pct", "0.5", "1.0"},
    {"parallel_residual", "true", "false"},
    {"sliding_window", "64", "16"},
    {"dropout", "0.25", "0.5"},
    {"head_dim", "16", "32"},
    {"latent.kv_rank", "24", "40"},
    {"latent.q_rank", "48", "20"},
    {"latent.nope_dim", "16", "8"},
    {"latent.rope_dim", "8", "4"},
    {"latent.v_dim", "8", "24"},
    {"no_rope_every", "2", "3"},
    {"attention_scale", "0.5", "0.75"},
    {"embed_scale", "2.0", "3.0"},
    {"residual_scale", "0.5", "0.75"},
    {"logits_divisor", "4.0", "8.0"},
    {"logit_cap", "30.0", "7.5"},
    {"score_cap", "50.0", "12.5"},
    {"rope_local_theta", "30000", "700.0"},
    {"attention_bias", "false", "true"},
    {"mlp_bias", "false", "true"},
    {"dense_ffn", "80", "160"},
    {"experts.every", "2", "4"},
    {"experts.shared_ffn", "40", "56"},
    {"experts.count", "4", "16"},
    {"experts.groups", "2", "4"},
    {"experts.top_groups", "2", "1"},
    {"experts.route_scale", "2.5", "1.5"},
    {"experts.from", "1", "2"},
    {"experts.shared", "1", "2"},
    {"experts.top_k", "2", "3"},
    {"experts.unnormalised", "false", "true"},
    {"experts.aux_loss", "0.25", "0.5"},
    {"experts.balance", "false", "true"},
};

__attribute__((unused)) static json_t *value_of(const char *ours, int which)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (strcmp(values[i][0], ours) == 0)
            return json_loads(values[i][1 + which], JSON_DECODE_ANY, NULL);
    return NULL;
}

/* Of keys of wavelengths: in files of a type with some for each kind of layers, those of one kind. */
__attribute__((unused)) static const char *place_of_ropes(const struct bench *b)
{
    return sn_hf_key_find(b->type, "rope_parameters.full_attention")
               ? "rope_parameters.full_attention"
               : "rope_parameters";
}

/* Does the sentence name the key? */
__attribute__((unused)) static bool is_named(const struct bench *b, const char *name)
{
    const char *dot = strrchr(name, '.');
    return strstr(b->err.text, dot && strchr(place_of_ropes(b), '.') ? dot + 1 : name) != NULL;
}

/* The file with the key set (the value is taken over), read: its model, or a sentence. */
__attribute__((unused)) static enum sn_status read_with(struct bench *b, const char *name,
                                                        json_t *value, struct sn_model_config *out)
{
    json_t *root = json_deep_copy(b->base), *inner = root;
    const char *dot = strchr(name, '.');
    char object[64], text[256], nested[96];
    struct sn_config c;
    if (dot && strncmp(name, "rope_parameters.", 16) == 0 && !strchr(dot + 1, '.') &&
        sn_hf_key_of(b->type, sn_hf_key_find(b->type, name))->class != SN_HF_OBJECT &&
        strchr(place_of_ropes(b), '.')) {
        (void)snprintf(nested, sizeof(nested), "%s%s", place_of_ropes(b), dot);
        name = nested;
        dot = strchr(name, '.');
    }
    while (dot && !json_object_get(b->base, name) && strncmp(name, "transformers", 12) != 0) {
        (void)snprintf(object, sizeof(object), "%.*s", (int)(dot - name), name);
        json_t *outer = inner;
        inner = json_object();
        (void)json_object_set_new(outer, object, inner);
        name = dot + 1;
        dot = strchr(name, '.');
    }
    if (value)
        (void)json_object_set_new(inner, name, value);
    bool good = json_dump_file(root, b->path, 0) == 0;
    json_decref(root);
    (void)snprintf(text, sizeof(text), "model: {config: %s}\ntrain: {steps: 1, global_batch: 1}\n",
                   b->path);
    b->err.text[0] = '\0';
    enum sn_status st =
        good ? sn_config_parse(&c, text, strlen(text), "run.yaml", NULL, &b->err) : SN_EFAIL;
    if (st == SN_OK)
        *out = c.model;
    return st;
}

__attribute__((unused)) static void setup(struct bench *b, const char *type)
{
    const struct sn_hf_key *k;
    *b = (struct bench){.type = sn_hf_type_find(type), .path = "/tmp/sn-hfconfig-XXXXXX"};
    int fd = mkstemp(b->path);
    if (fd < 0)
        exit(1);
    (void)close(fd);
    b->base = json_object();
    (void)json_object_set_new(b->base, "model_type", json_string(type));
    for (int i = 0; (k = sn_hf_key_at(b->type, i)); i++)
        if (k->class == SN_HF_USED && !strchr(k->name, '.'))
            (void)json_object_set_new(b->base, k->name,
                                      k->scale == SN_HF_INVERSE_ROOT ? json_integer(4)
                                                                     : value_of(k->ours, 0));
        else if (k->class == SN_HF_GROUPED) /* by groups, as there are several */
            (void)json_object_set_new(b->base, k->name, json_string(k->values[1]));
    bool good = read_with(b, "x", NULL, &b->model) == SN_OK;
    tap_ok(good, "%s: a file with all that is used is read%s%s", type, good ? "" : ": ",
           b->err.text);
}

__attribute__((unused)) static void teardown(struct bench *b)
{
    json_decref(b->base);
    (void)unlink(b->path);
}

__attribute__((unused)) static bool is_same_model(const struct bench *b,
                                                  const struct sn_model_config *m)
{
    return memcmp(m, &b->model, sizeof(*m)) == 0;
}

/* --- scaled wavelengths --- */

__attribute__((unused)) static const struct {
    const char *kind, *more;
} scaled[] = {
    {"linear", "{\"factor\": 2.0}"},
    {"dynamic", "{\"factor\": 2.0}"},
    {"yarn", "{\"factor\": 2.0, \"original_max_position_embeddings\": 16}"},
    {"llama3", "{\"factor\": 2.0, \"original_max_position_embeddings\": 16, "
               "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0}"},
    {"longrope", "{\"original_max_position_embeddings\": 16, \"factor\": 2.0}"},
};

__attribute__((unused)) static json_t *list_of(int n, double v)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        (void)json_array_append_new(list, json_real(v));
    return list;
}

/* rope_parameters of kind i. */
__attribute__((unused)) static json_t *rope_of(const struct bench *b, int i, const char *type_key)
{
    json_t *o = json_loads(scaled[i].more, 0, NULL);
    int pairs = sn_model_rotated(&b->model) / 2;
    (void)json_object_set_new(o, type_key, json_string(scaled[i].kind));
    if (strcmp(scaled[i].kind, "longrope") == 0) {
        (void)json_object_set_new(o, "short_factor", list_of(pairs, 1.5));
        (void)json_object_set_new(o, "long_factor", list_of(pairs, 2.5));
    }
    return o;
}

#endif
