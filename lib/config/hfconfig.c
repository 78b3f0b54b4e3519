/*
 * hfconfig.c - the one file of lib/config that knows jansson: Hugging Face's config.json, read and
 * written by one table.
 *
 * Names and defaults are those of transformers' GPT2Config, GPTNeoXConfig, LlamaConfig and
 * MixtralConfig: a key
 * that config.json leaves out has that library's default, not ours. What would change the numbers
 * and is not supported is refused by name; everything else in the file is not ours to judge.
 */
#include "lib/config/hfconfig.h"

#include "lib/config/keys.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SAME = 3 };

struct map_row {
    const char *ours, *theirs;
    const char *value; /* theirs when left out; NULL: required */
};

/* A key that must have one value: as the model is refused otherwise. */
struct must_row {
    const char *theirs;
    const char *values[3]; /* those we can do; the first is theirs when left out */
};

struct hf_type {
    const char *name, *family;
    const char *architecture; /* the class that a written file asks for */
    const struct map_row *map;
    const struct must_row *must;
    const char *dropout[MAX_SAME + 1]; /* all equal: model.dropout */
    const char *dropout_default;
};

static const struct map_row gpt2_map[] = {
    {"layers", "n_layer", "12"},
    {"hidden", "n_embd", "768"},
    {"heads", "n_head", "12"},
    {"ffn", "n_inner", "null"},
    {"vocab", "vocab_size", "50257"},
    {"seq", "n_positions", "1024"},
    {"norm_eps", "layer_norm_epsilon", "1e-05"},
    {"init_std", "initializer_range", "0.02"},
    {"tied_embeddings", "tie_word_embeddings", "true"},
    {NULL, NULL, NULL},
};
static const struct must_row gpt2_must[] = {
    {"activation_function", {"gelu_new", "gelu_pytorch_tanh"}},
    {"scale_attn_weights", {"true"}},
    {"scale_attn_by_inverse_layer_idx", {"false"}},
    {"add_cross_attention", {"false"}},
    {NULL, {NULL}},
};
static const struct map_row neox_map[] = {
    {"layers", "num_hidden_layers", NULL},
    {"hidden", "hidden_size", NULL},
    {"heads", "num_attention_heads", NULL},
    {"ffn", "intermediate_size", NULL},
    {"vocab", "vocab_size", NULL},
    {"seq", "max_position_embeddings", "2048"},
    {"norm_eps", "layer_norm_eps", "1e-05"},
    {"init_std", "initializer_range", "0.02"},
    {"tied_embeddings", "tie_word_embeddings", "false"},
    {"rotary_pct", "rotary_pct", "0.25"},
    {"rope_theta", "rotary_emb_base", "10000"},
    {"parallel_residual", "use_parallel_residual", "true"},
    {NULL, NULL, NULL},
};
static const struct must_row neox_must[] = {
    {"hidden_act", {"gelu"}},
    {"attention_bias", {"true"}},
    {"rope_scaling", {"null"}},
    {NULL, {NULL}},
};
static const struct map_row llama_map[] = {
    {"layers", "num_hidden_layers", NULL},      {"hidden", "hidden_size", NULL},
    {"heads", "num_attention_heads", NULL},     {"kv_heads", "num_key_value_heads", "null"},
    {"ffn", "intermediate_size", NULL},         {"vocab", "vocab_size", NULL},
    {"seq", "max_position_embeddings", "2048"}, {"norm_eps", "rms_norm_eps", "1e-06"},
    {"init_std", "initializer_range", "0.02"},  {"tied_embeddings", "tie_word_embeddings", "false"},
    {"rope_theta", "rope_theta", "10000"},      {NULL, NULL, NULL},
};
static const struct must_row llama_must[] = {
    {"hidden_act", {"silu", "swish"}},
    {"attention_bias", {"false"}},
    {"mlp_bias", {"false"}},
    {"rope_scaling", {"null"}},
    {NULL, {NULL}},
};
static const struct map_row mixtral_map[] = {
    {"layers", "num_hidden_layers", NULL},
    {"hidden", "hidden_size", NULL},
    {"heads", "num_attention_heads", NULL},
    {"kv_heads", "num_key_value_heads", "8"},
    {"ffn", "intermediate_size", NULL},
    {"vocab", "vocab_size", NULL},
    {"seq", "max_position_embeddings", "131072"},
    {"norm_eps", "rms_norm_eps", "1e-05"},
    {"init_std", "initializer_range", "0.02"},
    {"tied_embeddings", "tie_word_embeddings", "false"},
    {"rope_theta", "rope_theta", "1000000"},
    {"experts.count", "num_local_experts", "8"},
    {"experts.top_k", "num_experts_per_tok", "2"},
    {"experts.aux_loss", "router_aux_loss_coef", "0.001"},
    {NULL, NULL, NULL},
};
static const struct must_row mixtral_must[] = {
    {"hidden_act", {"silu", "swish"}},
    {"sliding_window", {"null"}},
    {"router_jitter_noise", {"0.0", "0"}},
    {"rope_scaling", {"null"}},
    {NULL, {NULL}},
};
static const struct hf_type types[] = {
    {"gpt2",
     "gpt2",
     "GPT2LMHeadModel",
     gpt2_map,
     gpt2_must,
     {"resid_pdrop", "embd_pdrop", "attn_pdrop"},
     "0.1"},
    {"gpt_neox",
     "gpt-neox",
     "GPTNeoXForCausalLM",
     neox_map,
     neox_must,
     {"hidden_dropout", "attention_dropout"},
     "0"},
    {"llama", "llama", "LlamaForCausalLM", llama_map, llama_must, {"attention_dropout"}, "0"},
    {"mixtral",
     "mixtral",
     "MixtralForCausalLM",
     mixtral_map,
     mixtral_must,
     {"attention_dropout"},
     "0"},
};

enum { TEXT_MAX = 128 };

/* What is being translated, and where to. */
struct job {
    const json_t *root;
    const char *path;
    struct sn_yaml_doc *doc;
    struct sn_err *err;
};

static bool is_plain(const char *s)
{
    while (*s && (unsigned char)*s >= 0x20 && *s != 0x7f)
        s++;
    return !*s;
}

/* A JSON value as YAML writes it, or words for what YAML cannot be expected to take. */
static void value_text(const json_t *v, char buf[TEXT_MAX])
{
    if (json_is_string(v))
        (void)snprintf(buf, TEXT_MAX, "%s",
                       is_plain(json_string_value(v)) ? json_string_value(v) : "this text");
    else if (json_is_integer(v))
        (void)snprintf(buf, TEXT_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        (void)snprintf(buf, TEXT_MAX, "%.17g", json_real_value(v));
    else if (json_is_boolean(v))
        (void)snprintf(buf, TEXT_MAX, "%s", json_is_true(v) ? "true" : "false");
    else
        (void)snprintf(buf, TEXT_MAX, "%s",
                       json_is_null(v)    ? "null"
                       : json_is_array(v) ? "this list"
                                          : "this object");
}

static enum sn_status add(const struct job *j, const char *key, const char *text, bool quoted)
{
    struct sn_yaml_node *parent = j->doc->root;
    const char *dot = strchr(key, '.'); /* of a section inside the model's */
    if (dot) {
        char section[TEXT_MAX];
        (void)snprintf(section, sizeof(section), "%.*s", (int)(dot - key), key);
        parent = sn_yaml_find(j->doc->root, section);
        if (!parent)
            parent = sn_yaml_add(j->doc, j->doc->root, SN_YAML_MAP, section, NULL);
        key = dot + 1;
    }
    struct sn_yaml_node *n = parent ? sn_yaml_add(j->doc, parent, SN_YAML_SCALAR, key, text) : NULL;
    if (!n)
        return sn_fail(j->err, SN_ENOMEM, "%s: no memory to read it", j->path);
    n->quoted = quoted;
    return SN_OK;
}

static enum sn_status map_keys(const struct job *j, const struct map_row *rows)
{
    for (const struct map_row *r = rows; r->ours; r++) {
        char text[TEXT_MAX];
        const json_t *v = json_object_get(j->root, r->theirs);
        if (!v && !r->value)
            return sn_fail(j->err, SN_EINPUT, "%s: %s is missing; want a complete config.json",
                           j->path, r->theirs);
        if (v)
            value_text(v, text);
        else
            (void)snprintf(text, sizeof(text), "%s", r->value);
        if (strcmp(text, "null") != 0) /* null: ours to decide */
            SN_TRY(add(j, r->ours, text, json_is_string(v)));
    }
    return SN_OK;
}

static enum sn_status check_must(const struct job *j, const struct must_row *rows)
{
    for (const struct must_row *r = rows; r->theirs; r++) {
        char text[TEXT_MAX];
        const json_t *v = json_object_get(j->root, r->theirs);
        if (!v)
            continue;
        value_text(v, text);
        if (strcmp(text, r->values[0]) == 0 || (r->values[1] && strcmp(text, r->values[1]) == 0))
            continue;
        return sn_fail(j->err, SN_EINPUT, "%s: %s: %.60s is not supported; want %s", j->path,
                       r->theirs, text, r->values[0]);
    }
    return SN_OK;
}

static enum sn_status map_dropout(const struct job *j, const struct hf_type *t)
{
    char first[TEXT_MAX] = "", text[TEXT_MAX];
    for (int i = 0; t->dropout[i]; i++) {
        const json_t *v = json_object_get(j->root, t->dropout[i]);
        if (v)
            value_text(v, text);
        else
            (void)snprintf(text, sizeof(text), "%s", t->dropout_default);
        if (!i)
            memcpy(first, text, sizeof(first));
        else if (strcmp(first, text) != 0)
            return sn_fail(j->err, SN_EINPUT,
                           "%s: %s: %.60s differs from %s (%.60s); want one dropout", j->path,
                           t->dropout[i], text, t->dropout[0], first);
    }
    return add(j, "dropout", first, false);
}

/* Newer files put the rotary embedding into an object of its own. */
static enum sn_status map_rope(const struct job *j)
{
    static const char *const name[][2] = {{"rope_theta", "rope_theta"},
                                          {"partial_rotary_factor", "rotary_pct"}};
    const json_t *rope = json_object_get(j->root, "rope_parameters");
    if (!json_is_object(rope))
        return SN_OK;
    char text[TEXT_MAX];
    const json_t *type = json_object_get(rope, "rope_type");
    if (type)
        value_text(type, text);
    if (type && strcmp(text, "default") != 0)
        return sn_fail(j->err, SN_EINPUT,
                       "%s: rope_parameters.rope_type: %.60s is not supported; want default",
                       j->path, text);
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(rope, name[i][0]);
        if (!v)
            continue;
        value_text(v, text);
        SN_TRY(add(j, name[i][1], text, json_is_string(v))); /* the later of two settings stands */
    }
    return SN_OK;
}

static enum sn_status check_head_dim(const struct job *j)
{
    const json_t *d = json_object_get(j->root, "head_dim");
    json_int_t heads = json_integer_value(json_object_get(j->root, "num_attention_heads"));
    json_int_t hidden = json_integer_value(json_object_get(j->root, "hidden_size"));
    if (!json_is_integer(d) || heads < 1 || json_integer_value(d) == hidden / heads)
        return SN_OK;
    return sn_fail(
        j->err, SN_EINPUT,
        "%s: head_dim: %" JSON_INTEGER_FORMAT
        " is not supported; want hidden_size / num_attention_heads (%" JSON_INTEGER_FORMAT ")",
        j->path, json_integer_value(d), hidden / heads);
}

static enum sn_status translate(const struct job *j)
{
    char text[TEXT_MAX];
    const json_t *name = json_object_get(j->root, "model_type");
    if (!json_is_string(name))
        return sn_fail(j->err, SN_EINPUT, "%s: no model_type; want a Hugging Face config.json",
                       j->path);
    value_text(name, text);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const struct hf_type *t = &types[i];
        if (strcmp(text, t->name) != 0)
            continue;
        SN_TRY(check_must(j, t->must));
        SN_TRY(check_head_dim(j));
        SN_TRY(add(j, "family", t->family, false));
        SN_TRY(map_keys(j, t->map));
        SN_TRY(map_rope(j));
        return map_dropout(j, t);
    }
    return sn_fail(
        j->err, SN_EINPUT,
        "%s: model_type: '%.60s' is not supported; want gpt2, gpt_neox, llama or mixtral", j->path,
        text);
}

enum sn_status sn_hfconfig_parse(struct sn_yaml_doc **out, const char *text, size_t len,
                                 const char *path, struct sn_err *err)
{
    json_error_t e;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
    if (!root)
        return sn_fail(err, SN_EINPUT, "%s:%d:%d: not JSON: %s; want a Hugging Face config.json",
                       path, e.line, e.column, e.text);
    struct job j = {.root = root, .path = path, .err = err};
    enum sn_status st = sn_yaml_create(&j.doc, path, err);
    if (st == SN_OK && !sn_yaml_add(j.doc, NULL, SN_YAML_MAP, NULL, NULL))
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to read it", path);
    if (st == SN_OK)
        st = translate(&j);
    json_decref(root);
    if (st != SN_OK) {
        sn_yaml_destroy(j.doc);
        return st;
    }
    *out = j.doc;
    return SN_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* What the field's config cannot say. */
static enum sn_status check_model(const struct sn_model_config *m, struct sn_err *err)
{
    const char *family = sn_family_name(m->family);
    bool llama = m->family == SN_LLAMA || m->family == SN_MIXTRAL;
    if (!llama && m->kv_heads != m->heads)
        return sn_fail(err, SN_EINPUT,
                       "config.json: model.kv_heads: %d differs from model.heads (%d), which the "
                       "field's %s does not know",
                       m->kv_heads, m->heads, family);
    if (llama && m->rotary_pct != 1)
        return sn_fail(
            err, SN_EINPUT,
            "config.json: model.rotary_pct: %g, but the field's %s rotates whole heads (1)",
            m->rotary_pct, family);
    const struct sn_experts_config *x = &m->experts;
    const char *alien = x->every > 1                         ? "every"
                        : x->shared > 0                      ? "shared"
                        : x->capacity_factor > 0             ? "capacity_factor"
                        : x->bias != SN_BIAS_NONE            ? "bias"
                        : x->router == SN_ROUTER_SPARSEMIXER ? "router"
                                                             : NULL;
    if (x->count > 0 && alien)
        return sn_fail(err, SN_EINPUT,
                       "config.json: model.experts.%s: the field's mixtral has experts in every "
                       "layer, which take all tokens, none that is shared, no bias, and a "
                       "router of softmax",
                       alien);
    return SN_OK;
}

/* "key": value, of our key of that name. A number that is not counted has a point: transformers 5
 * refuses whole numbers for some of them. */
static void write_key(struct sn_str *out, const struct map_row *r, const struct sn_config *c)
{
    char name[64], value[SN_VALUE_SIZE];
    (void)snprintf(name, sizeof(name), "model.%s", r->ours);
    const struct sn_key *k = &sn_keys[sn_key_find(name, strlen(name))];
    (void)sn_key_format(k, sn_key_get(k, c), value);
    bool is_whole = k->type == SN_KEY_FLOAT && !value[strspn(value, "-0123456789")];
    sn_str_add(out, ",\n  \"%s\": %s%s", r->theirs, value, is_whole ? ".0" : "");
}

static void write_must(struct sn_str *out, const struct must_row *r)
{
    const char *v = r->values[0];
    bool is_word = strcmp(v, "true") != 0 && strcmp(v, "false") != 0 && strcmp(v, "null") != 0 &&
                   v[strspn(v, "-.0123456789")];
    sn_str_add(out, ",\n  \"%s\": %s%s%s", r->theirs, is_word ? "\"" : "", v, is_word ? "\"" : "");
}

enum sn_status sn_hfconfig_format(struct sn_str *out, const struct sn_model_config *m,
                                  enum sn_dtype dtype, struct sn_err *err)
{
    const struct hf_type *t = NULL;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].family, sn_family_name(m->family)) == 0)
            t = &types[i];
    if (!t)
        return sn_fail(err, SN_EINPUT, "config.json: none is known for the family %s",
                       sn_family_name(m->family));
    SN_TRY(check_model(m, err));
    struct sn_config c = {.model = *m};
    sn_str_add(out, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\"", t->architecture,
               t->name);
    for (const struct map_row *r = t->map; r->ours; r++)
        if (m->init_std > 0 || strcmp(r->ours, "init_std") != 0) /* 0: not known (model_text) */
            write_key(out, r, &c);
    for (const struct must_row *r = t->must; r->theirs; r++)
        write_must(out, r);
    for (int i = 0; t->dropout[i]; i++)
        write_key(out, &(struct map_row){"dropout", t->dropout[i], NULL}, &c);
    sn_str_add(out,
               ",\n  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n  \"torch_dtype\": "
               "\"%s\"\n}\n",
               dtype == SN_F32    ? "float32"
               : dtype == SN_BF16 ? "bfloat16"
                                  : "float16");
    if (out->failed)
        return sn_fail(err, SN_ENOMEM, "config.json: no memory to write it");
    return SN_OK;
}
