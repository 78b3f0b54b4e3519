/*
 * test_hfconfig.c - every key of the config classes is used, fixed or inert, and is treated as what
 * it is.
 *
 * fixtures/hfconfig/keys.json holds the keys of those classes as two versions of transformers have
 * them, with their defaults and other names (hf_keys.py). Then each key of our table is given other
 * values: used ones must change the model, fixed ones be refused, inert ones change nothing.
 *
 * Longer than 500 lines because each class of rows has its check, and all share one bench.
 */
#include "lib/config/hfconfig.h"
#include "lib/config/hfkeys.h"
#include "tests/lib/tap.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define FIXTURE "tests/parity/fixtures/hfconfig/keys.json"

static const char *const types[] = {"gpt2",  "gpt_neox", "llama",     "mistral", "mixtral",
                                    "qwen2", "smollm3",  "granite",   "qwen3",   "qwen3_moe",
                                    "phi3",  "olmo2",    "starcoder2"};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* --- the classes' keys have rows -------------------------------------------------------------- */

/* How many of the names, which are an object's keys or a list, have no row. */
static int without_row(const struct sn_hf_type *t, const json_t *names, const char *prefix)
{
    int bad = 0;
    for (size_t i = 0; i < json_array_size(names); i++) {
        char name[96];
        (void)snprintf(name, sizeof(name), "%s%s", prefix,
                       json_string_value(json_array_get(names, i)));
        if (sn_hf_key_find(t, name))
            continue;
        printf("# %s: no row for %s\n", t->name, name);
        bad++;
    }
    return bad;
}

static int members_without_row(const struct sn_hf_type *t, json_t *object)
{
    const char *name;
    json_t *value, *names = json_array();
    json_object_foreach(object, name, value)(void) json_array_append_new(names, json_string(name));
    int bad = without_row(t, names, "");
    json_decref(names);
    return bad;
}

/* Is another name of a key that of a row which stands for it? */
static int wrong_aliases(const struct sn_hf_type *t, json_t *aliases)
{
    const char *name;
    json_t *of;
    int bad = 0;
    json_object_foreach(aliases, name, of)
    {
        const struct sn_hf_key *k = sn_hf_key_find(t, name);
        bool good = k && k->class == SN_HF_ALIAS && strcmp(k->ours, json_string_value(of)) == 0;
        if (!good)
            printf("# %s: %s is another name of %s\n", t->name, name, json_string_value(of));
        bad += !good;
    }
    return bad;
}

static bool is_default(const char *ours, const json_t *theirs)
{
    if (json_is_number(theirs))
        return strtod(ours, NULL) == json_number_value(theirs);
    return strcmp(ours, json_is_null(theirs)     ? "null"
                        : json_is_true(theirs)   ? "true"
                        : json_is_false(theirs)  ? "false"
                        : json_is_string(theirs) ? json_string_value(theirs)
                                                 : "{}") == 0;
}

/* What follows where a file leaves the key out is what transformers takes. */
static int wrong_defaults(const struct sn_hf_type *t, json_t *defaults)
{
    const char *name;
    json_t *theirs;
    int bad = 0;
    json_object_foreach(defaults, name, theirs)
    {
        const struct sn_hf_key *k = sn_hf_key_find(t, name);
        bool good = k != NULL;
        if (k && k->class == SN_HF_USED && k->value)
            good = is_default(k->value, theirs);
        if (k && k->class == SN_HF_FIXED) {
            good = false;
            for (int i = 0; i < SN_HF_VALUES && k->values[i]; i++)
                good = good || is_default(k->values[i], theirs);
        }
        if (!good)
            printf("# %s: %s has another default\n", t->name, name);
        bad += !good;
    }
    return bad;
}

static void every_key_has_a_row(json_t *root)
{
    const char *version;
    json_t *v;
    struct sn_str page = {0};
    sn_hf_help(&page);
    json_object_foreach(json_object_get(root, "versions"), version, v)
    {
        tap_ok(strstr(page.p, version) != NULL, "the page names transformers %s", version);
        for (int i = 0; i < TYPES; i++) {
            const struct sn_hf_type *t = sn_hf_type_find(types[i]);
            json_t *c = json_object_get(v, types[i]), *defaults = json_object_get(c, "defaults");
            tap_ok(json_object_size(defaults) > 20 && members_without_row(t, defaults) == 0 &&
                       without_row(t, json_object_get(c, "other"), "") == 0 &&
                       without_row(t, json_object_get(v, "generation"), "") == 0,
                   "transformers %s: every key of %s has a row", version, types[i]);
            tap_ok(wrong_aliases(t, json_object_get(c, "aliases")) == 0, "and each other name");
            tap_ok(wrong_defaults(t, defaults) == 0, "with transformers' defaults");
            tap_ok(strcmp(types[i], "gpt2") == 0 ||
                       without_row(t, json_object_get(v, "rope"), "rope_parameters.") == 0,
                   "and those of rope_parameters");
        }
    }
    sn_str_fini(&page);
    for (int i = 0; i < TYPES; i++)
        tap_ok(without_row(sn_hf_type_find(types[i]),
                           json_object_get(json_object_get(root, "published"), types[i]), "") == 0,
               "every key of published files of %s has a row", types[i]);
}

static bool has_word(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return true;
    return false;
}

/* Does any version, or a published file, hold the key of the row? */
static bool is_known(json_t *root, const char *type, const char *name)
{
    const char *dot = strchr(name, '.'), *version;
    json_t *v;
    if (has_word(json_object_get(json_object_get(root, "published"), type), name))
        return true;
    json_object_foreach(json_object_get(root, "versions"), version, v)
    {
        const json_t *c = json_object_get(v, type);
        if (json_object_get(json_object_get(c, "defaults"), name) ||
            json_object_get(json_object_get(c, "aliases"), name) ||
            has_word(json_object_get(c, "other"), name) ||
            has_word(json_object_get(v, "generation"), name) ||
            (dot && has_word(json_object_get(v, "rope"), dot + 1)))
            return true;
    }
    return false;
}

/* A row may be for a key of another class whose list it shares, or one that transformers 5 looks
 * for or explains without a field for it. */
static void every_row_has_a_key(json_t *root)
{
    static const char *const elsewhere[] = {"is_causal",
                                            "compression_config",
                                            "layer_types",
                                            "tie_last_hidden_states",
                                            "summary_last_dropout",
                                            "original_max_position_embeddings"};
    for (int i = 0; i < TYPES; i++) {
        const struct sn_hf_type *t = sn_hf_type_find(types[i]);
        const struct sn_hf_key *k;
        int bad = 0;
        for (int n = 0; (k = sn_hf_key_at(t, n)); n++) {
            bool found = false;
            for (int other = 0; other < TYPES; other++)
                found = found || is_known(root, types[other], k->name);
            for (size_t e = 0; e < sizeof(elsewhere) / sizeof(elsewhere[0]); e++)
                found = found || strcmp(elsewhere[e], k->name) == 0;
            if (!found)
                printf("# %s: nobody has %s\n", t->name, k->name);
            bad += !found;
            for (int m = 0; m < n; m++)
                if (strcmp(sn_hf_key_at(t, m)->name, k->name) == 0) {
                    printf("# %s: %s is there twice\n", t->name, k->name);
                    bad++;
                }
        }
        tap_ok(bad == 0, "every row of %s is of a key that there is, once", types[i]);
    }
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
static const char *const values[][3] = {
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
    {"sliding_window", "64", "null"},
    {"dropout", "0.25", "0.5"},
    {"head_dim", "16", "32"},
    {"no_rope_every", "2", "3"},
    {"attention_scale", "0.5", "0.75"},
    {"embed_scale", "2.0", "3.0"},
    {"residual_scale", "0.5", "0.75"},
    {"logits_divisor", "4.0", "8.0"},
    {"experts.count", "4", "16"},
    {"experts.top_k", "2", "3"},
    {"experts.unnormalised", "false", "true"},
    {"experts.aux_loss", "0.25", "0.5"},
};

static json_t *value_of(const char *ours, int which)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (strcmp(values[i][0], ours) == 0)
            return json_loads(values[i][1 + which], JSON_DECODE_ANY, NULL);
    return NULL;
}

/* The file with the key set (the value is taken over), read: its model, or a sentence. */
static enum sn_status read_with(struct bench *b, const char *name, json_t *value,
                                struct sn_model_config *out)
{
    json_t *root = json_deep_copy(b->base), *inner = root;
    const char *dot = strchr(name, '.');
    char object[64], text[256];
    struct sn_config c;
    if (dot && !json_object_get(b->base, name) && strncmp(name, "rope_", 5) == 0) {
        (void)snprintf(object, sizeof(object), "%.*s", (int)(dot - name), name);
        inner = json_object();
        (void)json_object_set_new(root, object, inner);
        name = dot + 1;
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

static void setup(struct bench *b, const char *type)
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
            (void)json_object_set_new(b->base, k->name, value_of(k->ours, 0));
    bool windows = strcmp(type, "qwen2") == 0 || strcmp(type, "qwen3") == 0;
    for (int i = 0; i < 2 && windows; i++) /* or a window would be no window */
        (void)json_object_set_new(b->base, i ? "sliding_window" : "max_window_layers",
                                  json_integer(i));
    bool good = read_with(b, "x", NULL, &b->model) == SN_OK;
    tap_ok(good, "%s: a file with all that is used is read%s%s", type, good ? "" : ": ",
           b->err.text);
}

static void teardown(struct bench *b)
{
    json_decref(b->base);
    (void)unlink(b->path);
}

static bool is_same_model(const struct bench *b, const struct sn_model_config *m)
{
    return memcmp(m, &b->model, sizeof(*m)) == 0;
}

/* Some values of every kind. */
static json_t *any_value(int i)
{
    static const char *const text[] = {"3",    "0.5",   "true", "false",
                                       "null", "\"x\"", "[1]",  "{\"a\": 1}"};
    return i < 8 ? json_loads(text[i], JSON_DECODE_ANY, NULL) : NULL;
}

/* Rows that become the same key of ours. */
static int twins(const struct bench *b, const char *ours)
{
    const struct sn_hf_key *k;
    int n = 0;
    for (int i = 0; (k = sn_hf_key_at(b->type, i)); i++)
        n += k->class == SN_HF_USED && strcmp(k->ours, ours) == 0;
    return n;
}

/* --- scaled wavelengths --- */

static const struct {
    const char *kind, *more;
} scaled[] = {
    {"linear", "{\"factor\": 2.0}"},
    {"dynamic", "{\"factor\": 2.0}"},
    {"yarn", "{\"factor\": 2.0, \"original_max_position_embeddings\": 16}"},
    {"llama3", "{\"factor\": 2.0, \"original_max_position_embeddings\": 16, "
               "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0}"},
    {"longrope", "{\"original_max_position_embeddings\": 16, \"factor\": 2.0}"},
};

static json_t *list_of(int n, double v)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        (void)json_array_append_new(list, json_real(v));
    return list;
}

/* rope_parameters of kind i. */
static json_t *rope_of(const struct bench *b, int i, const char *type_key)
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

static bool knows_kind(const struct sn_hf_key *types_row, const char *kind)
{
    const char *ours = sn_hf_word_ours(types_row, kind);
    return ours && strcmp(ours, kind) == 0;
}

/* A key changes the models of kinds that read it and no others, and one that is needed is asked for. */
static bool is_used_by_kinds(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config plain, with;
    const struct sn_hf_key *types_row = sn_hf_key_find(b->type, "rope_parameters.rope_type");
    const char *dot = strchr(k->name, '.'), *ours = strchr(k->ours, '.') + 1;
    const char *key = dot ? dot + 1 : k->name;
    bool good = true, read = false;
    bool list = strcmp(key, "short_factor") == 0 || strcmp(key, "long_factor") == 0;
    for (int i = 0; i < (int)(sizeof(scaled) / sizeof(scaled[0])); i++) {
        if (!knows_kind(types_row, scaled[i].kind))
            continue;
        json_t *o = rope_of(b, i, "rope_type"), *other = json_deep_copy(o),
               *lacks = json_deep_copy(o);
        json_t *v = list                           ? list_of(sn_model_rotated(&b->model) / 2, 3.5)
                    : strcmp(key, "truncate") == 0 ? json_false()
                    : strncmp(key, "original", 8) == 0 ? json_integer(8)
                                                       : json_real(2.75);
        enum sn_hf_reads reads = sn_hfconfig_rope_reads(scaled[i].kind, ours);
        (void)json_object_set_new(other, key, v);
        (void)json_object_del(lacks, key);
        good = good && read_with(b, "rope_parameters", o, &plain) == SN_OK &&
               !is_same_model(b, &plain) &&
               read_with(b, "rope_parameters", other, &with) == SN_OK &&
               (memcmp(&plain, &with, sizeof(plain)) == 0) == (reads == SN_HF_READS_NOT);
        bool asked =
            read_with(b, "rope_parameters", lacks, &with) == SN_EINPUT && strstr(b->err.text, key);
        bool derived = strcmp(key, "factor") == 0 && strcmp(scaled[i].kind, "longrope") == 0;
        good = good && asked == (reads == SN_HF_READS_ALWAYS && !derived);
        read = read || reads != SN_HF_READS_NOT;
    }
    json_t *none = json_pack("{s: s, s: f}", "rope_type", "default", "factor", 8.0);
    bool all = knows_kind(types_row, "yarn") && knows_kind(types_row, "llama3");
    return good && (read || !all) && read_with(b, "rope_parameters", none, &with) == SN_OK &&
           is_same_model(b, &with);
}

static bool is_used(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    if (strcmp(k->ours, "rope_scaling.type") == 0)
        return read_with(b, "rope_parameters", rope_of(b, 4, "rope_type"), &m) == SN_OK &&
               !is_same_model(b, &m) && m.rope_scaling.kind == SN_ROPE_LONGROPE;
    if (strncmp(k->ours, "rope_scaling.", 13) == 0)
        return is_used_by_kinds(b, k);
    if (twins(b, k->ours) > 1) /* must all agree */
        return read_with(b, k->name, value_of(k->ours, 1), &m) == SN_EINPUT &&
               strstr(b->err.text, "differs from");
    bool changes =
        read_with(b, k->name, value_of(k->ours, 1), &m) == SN_OK && !is_same_model(b, &m);
    bool may_be_null = k->may_be_null || (k->value && strcmp(k->value, "null") == 0);
    enum sn_status of_null = read_with(b, k->name, json_null(), &m);
    return changes &&
           (may_be_null ? of_null == SN_OK : of_null == SN_EINPUT && strstr(b->err.text, k->name));
}

/* With one name at odds with the other; and alone, in place of it. */
static bool is_alias(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m, want;
    const struct sn_hf_key *of = sn_hf_key_of(b->type, k);
    if (of->class != SN_HF_USED)
        return true; /* of an object: its keys are tried by themselves */
    if (strncmp(of->ours, "rope_scaling.", 13) == 0)
        return true; /* rope_scaling_is_rope_parameters() */
    bool same = read_with(b, k->name, value_of(of->ours, 0), &m) == SN_OK && is_same_model(b, &m);
    bool at_odds = read_with(b, k->name, value_of(of->ours, 1), &m) == SN_EINPUT &&
                   strstr(b->err.text, k->name) && strstr(b->err.text, of->name);
    bool good = read_with(b, of->name, value_of(of->ours, 1), &want) == SN_OK;
    (void)json_object_del(b->base, of->name);
    good = good && read_with(b, k->name, value_of(of->ours, 1), &m) == SN_OK &&
           memcmp(&m, &want, sizeof(m)) == 0;
    (void)json_object_set_new(b->base, of->name, value_of(of->ours, 0));
    return same && at_odds && good;
}

static bool is_fixed(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    json_t *v;
    for (int i = 0; i < SN_HF_VALUES && k->values[i]; i++) {
        v = json_loads(k->values[i], JSON_DECODE_ANY, NULL);
        if (read_with(b, k->name, v ? v : json_string(k->values[i]), &m) != SN_OK ||
            !is_same_model(b, &m))
            return false;
    }
    for (int i = 0; (v = any_value(i)); i++) {
        bool is_one = false;
        for (int n = 0; n < SN_HF_VALUES && k->values[n]; n++)
            is_one = is_one || (!json_is_object(v) && is_default(k->values[n], v));
        if (is_one)
            json_decref(v);
        else if (read_with(b, k->name, v, &m) != SN_EINPUT || !strstr(b->err.text, k->name) ||
                 !strstr(b->err.text, k->why))
            return false;
    }
    return true;
}

static bool is_repeated(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    json_t *right = k->per ? json_integer(64 / 4) : json_copy(json_object_get(b->base, k->ours));
    return read_with(b, k->name, right, &m) == SN_OK && is_same_model(b, &m) &&
           read_with(b, k->name, json_null(), &m) == SN_OK && is_same_model(b, &m) &&
           read_with(b, k->name, json_integer(12), &m) == SN_EINPUT &&
           strstr(b->err.text, k->name) && strstr(b->err.text, k->ours);
}

static bool is_every(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    int n = (int)json_integer_value(json_object_get(b->base, k->ours));
    json_t *right = json_array(), *wrong = json_array();
    for (int i = 0; i < 6; i++) {
        (void)json_array_append_new(right, json_integer((i + 1) % n != 0));
        (void)json_array_append_new(wrong, json_integer(1));
    }
    return read_with(b, k->name, json_null(), &m) == SN_OK && is_same_model(b, &m) &&
           read_with(b, k->name, right, &m) == SN_OK && is_same_model(b, &m) &&
           read_with(b, k->name, wrong, &m) == SN_EINPUT && strstr(b->err.text, k->name) &&
           read_with(b, k->name, json_true(), &m) == SN_EINPUT;
}

static bool is_inert(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    json_t *v;
    for (int i = 0; (v = any_value(i)); i++) {
        if (strcmp(k->name, "model_type") == 0) { /* which chose the row */
            json_decref(v);
            continue;
        }
        if (read_with(b, k->name, v, &m) != SN_OK || !is_same_model(b, &m))
            return false;
    }
    return true;
}

static bool is_object(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    return read_with(b, k->name, json_null(), &m) == SN_OK && is_same_model(b, &m) &&
           read_with(b, k->name, json_object(), &m) == SN_OK && is_same_model(b, &m) &&
           read_with(b, k->name, json_integer(3), &m) == SN_EINPUT &&
           read_with(b, k->name, json_pack("{s: i}", "beta", 3), &m) == SN_EINPUT &&
           strstr(b->err.text, "unknown key") && strstr(b->err.text, ".beta'");
}

static void values_are_what_the_table_says(const char *type)
{
    static bool (*const check[])(struct bench *, const struct sn_hf_key *) = {
        [SN_HF_USED] = is_used,     [SN_HF_FIXED] = is_fixed, [SN_HF_REPEAT] = is_repeated,
        [SN_HF_OBJECT] = is_object, [SN_HF_ALIAS] = is_alias, [SN_HF_INERT] = is_inert,
        [SN_HF_EVERY] = is_every};
    static const char *const what[] = {
        [SN_HF_USED] = "used",        [SN_HF_FIXED] = "fixed",      [SN_HF_REPEAT] = "repeated",
        [SN_HF_EVERY] = "every n-th", [SN_HF_OBJECT] = "an object", [SN_HF_ALIAS] = "another name",
        [SN_HF_INERT] = "inert"};
    enum { CLASSES = sizeof(what) / sizeof(what[0]) };
    struct bench b;
    const struct sn_hf_key *k;
    int count[CLASSES] = {0}, bad[CLASSES] = {0};
    setup(&b, type);
    for (int i = 0; (k = sn_hf_key_at(b.type, i)); i++) {
        count[k->class]++;
        if (check[k->class](&b, k))
            continue;
        printf("# %s is not %s: %s\n", k->name, what[k->class], b.err.text);
        bad[k->class]++;
    }
    for (int c = 0; c < CLASSES; c++)
        if (count[c] > 0)
            tap_ok(bad[c] == 0, "%s: %d keys are %s", type, count[c], what[c]);
    struct sn_model_config m;
    tap_ok(read_with(&b, "quux", json_null(), &m) == SN_EINPUT &&
               strstr(b.err.text, "unknown key 'quux'"),
           "%s: an unknown key is refused, whatever its value", type);
    teardown(&b);
}

/* --- what single rows do ---------------------------------------------------------------------- */

/* rope_scaling is rope_parameters; its keys are tried under both names. */
static void rope_scaling_is_rope_parameters(void)
{
    struct bench b;
    struct sn_model_config m;
    setup(&b, "llama");
    tap_ok(read_with(&b, "rope_scaling.rope_type", json_string("default"), &m) == SN_OK &&
               is_same_model(&b, &m),
           "rope_scaling of type default is taken");
    struct sn_model_config want;
    bool good = read_with(&b, "rope_parameters", rope_of(&b, 2, "rope_type"), &want) == SN_OK;
    tap_ok(good && read_with(&b, "rope_scaling", rope_of(&b, 2, "rope_type"), &m) == SN_OK &&
               memcmp(&m, &want, sizeof(m)) == 0 && m.rope_scaling.kind == SN_ROPE_YARN,
           "yarn is yarn under both");
    tap_ok(read_with(&b, "rope_scaling", rope_of(&b, 2, "type"), &m) == SN_OK &&
               memcmp(&m, &want, sizeof(m)) == 0,
           "and by the older name of its type");
    json_t *two = rope_of(&b, 2, "type");
    (void)json_object_set_new(two, "rope_type", json_string("linear"));
    tap_ok(read_with(&b, "rope_scaling", two, &m) == SN_EINPUT &&
               strstr(b.err.text, "another name"),
           "two types are refused");
    (void)json_object_set_new(b.base, "original_max_position_embeddings", json_integer(16));
    tap_ok(read_with(&b, "rope_scaling", rope_of(&b, 2, "type"), &m) == SN_OK &&
               memcmp(&m, &want, sizeof(m)) == 0,
           "what it was scaled from may stand outside, too");
    (void)json_object_del(b.base, "original_max_position_embeddings");
    tap_ok(read_with(&b, "rope_scaling.rope_type", json_string("proportional"), &m) == SN_EINPUT &&
               strstr(b.err.text, "rope_scaling.rope_type: proportional is not supported"),
           "an unknown type is named");
    tap_ok(
        read_with(&b, "rope_scaling.rope_theta", json_integer(7), &m) == SN_EINPUT &&
            strstr(b.err.text, "rope_theta: 20000, but rope_scaling.rope_theta: 7, another name"),
        "two wavelengths are refused");
    tap_ok(read_with(&b, "rope_parameters.partial_rotary_factor", json_real(0.5), &m) == SN_EINPUT,
           "llama rotates whole heads");
    teardown(&b);
}

static void a_window_is_kept(void)
{
    struct bench b;
    struct sn_model_config m;
    setup(&b, "mistral");
    tap_ok(b.model.sliding_window == 64 && b.model.seq == 32, "a window past the sequence");
    tap_ok(read_with(&b, "sliding_window", json_integer(8), &m) == SN_OK && m.seq == 32 &&
               m.sliding_window == 8,
           "and a smaller one");
    (void)json_object_del(b.base, "sliding_window");
    tap_ok(read_with(&b, "max_position_embeddings", json_integer(10000), &m) == SN_OK &&
               m.seq == 10000 && m.sliding_window == 4096,
           "mistral has one where its file does not say so");
    teardown(&b);
}

/* E sum f P over all layers' tokens, top_k when balanced, against 1 for each layer. */
static void the_balancing_loss_is_rescaled(void)
{
    struct bench b;
    struct sn_model_config m;
    setup(&b, "mixtral");
    tap_ok(fabs(b.model.experts.aux_loss - 0.25 * 2 / 4) < 1e-15, "by top_k over layers");
    tap_ok(read_with(&b, "num_hidden_layers", json_integer(32), &m) == SN_OK &&
               fabs(m.experts.aux_loss - 0.25 * 2 / 32) < 1e-15,
           "of as many layers as there are");
    tap_ok(read_with(&b, "num_experts_per_tok", json_integer(1), &m) == SN_OK &&
               fabs(m.experts.aux_loss - 0.25 / 4) < 1e-15,
           "and as many choices");
    teardown(&b);
}

int main(void)
{
    json_t *root = json_load_file(FIXTURE, 0, NULL);
    tap_ok(json_object_size(json_object_get(root, "versions")) >= 2, "keys of two versions");
    every_key_has_a_row(root);
    every_row_has_a_key(root);
    for (int i = 0; i < TYPES; i++)
        values_are_what_the_table_says(types[i]);
    rope_scaling_is_rope_parameters();
    a_window_is_kept();
    the_balancing_loss_is_rescaled();
    json_decref(root);
    return tap_done();
}
