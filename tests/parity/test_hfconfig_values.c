/*
 * test_hfconfig_values.c - each key of our table is given other values: used ones must change the model,
 * fixed ones be refused, inert ones change nothing.
 */
#include "tests/parity/hfconfig_test.h"

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
        bool scores = strcmp(key, "mscale_all_dim") == 0 && sn_hf_type_has(b->type, "latent.kv_rank");
        good = good && read_with(b, place_of_ropes(b), o, &plain) == SN_OK &&
               !is_same_model(b, &plain);
        enum sn_status of_other = read_with(b, place_of_ropes(b), other, &with);
        good = good &&
               (scores && reads == SN_HF_READS_NOT /* it would scale scores, too */
                    ? of_other == SN_EINPUT && is_named(b, k->name)
                    : of_other == SN_OK && (memcmp(&plain, &with, sizeof(plain)) == 0) ==
                                               (reads == SN_HF_READS_NOT));
        bool asked =
            read_with(b, place_of_ropes(b), lacks, &with) == SN_EINPUT && strstr(b->err.text, key);
        bool derived = strcmp(key, "factor") == 0 && strcmp(scaled[i].kind, "longrope") == 0;
        good = good && asked == (reads == SN_HF_READS_ALWAYS && !derived);
        read = read || reads != SN_HF_READS_NOT;
    }
    json_t *none = json_pack("{s: s, s: f}", "rope_type", "default", "factor", 8.0);
    bool all = knows_kind(types_row, "yarn") && knows_kind(types_row, "llama3");
    return good && (read || !all) && read_with(b, place_of_ropes(b), none, &with) == SN_OK &&
           is_same_model(b, &with);
}

static bool is_used(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    if (strcmp(k->ours, "rope_scaling.type") == 0)
        return read_with(b, place_of_ropes(b), rope_of(b, 4, "rope_type"), &m) == SN_OK &&
               !is_same_model(b, &m) && m.rope_scaling.kind == SN_ROPE_LONGROPE;
    if (strncmp(k->ours, "rope_scaling.", 13) == 0)
        return is_used_by_kinds(b, k);
    if (k->scale == SN_HF_INVERSE_ROOT)
        return read_with(b, k->name, json_integer(25), &m) == SN_OK && m.attention_scale == 0.2 &&
               read_with(b, k->name, json_string("x"), &m) == SN_EINPUT;
    if (twins(b, k->ours) > 1) /* must all agree */
        return read_with(b, k->name, value_of(k->ours, 1), &m) == SN_EINPUT &&
               strstr(b->err.text, "differs from");
    json_t *other = value_of(k->ours, 1);
    if (k->words[0].theirs && json_is_boolean(other) &&
        !sn_hf_word_ours(k, json_is_true(other) ? "true" : "false")) /* another value is refused */
        return read_with(b, k->name, other, &m) == SN_EINPUT && is_named(b, k->name);
    json_decref(other);
    bool changes =
        read_with(b, k->name, value_of(k->ours, 1), &m) == SN_OK && !is_same_model(b, &m);
    bool may_be_null = k->may_be_null || (k->value && strcmp(k->value, "null") == 0);
    enum sn_status of_null = read_with(b, k->name, json_null(), &m);
    return changes &&
           (may_be_null ? of_null == SN_OK : of_null == SN_EINPUT && is_named(b, k->name));
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
                   is_named(b, k->name) && is_named(b, of->name);
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
        else if (read_with(b, k->name, v, &m) != SN_EINPUT || !is_named(b, k->name) ||
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
           read_with(b, k->name, json_integer(12), &m) == SN_EINPUT && is_named(b, k->name) &&
           strstr(b->err.text, k->ours);
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
           read_with(b, k->name, wrong, &m) == SN_EINPUT && is_named(b, k->name) &&
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

/* A list of words for each of the model's four layers: `local` of them have a window. */
static json_t *words(const char *local)
{
    json_t *list = json_array();
    for (; *local; local++)
        (void)json_array_append_new(
            list, json_string(*local == '1' ? "sliding_attention" : "full_attention"));
    return list;
}

static bool reads_as(struct bench *b, const struct sn_hf_key *k, const char *local)
{
    struct sn_model_config m;
    if (read_with(b, k->name, words(local), &m) != SN_OK)
        return false;
    for (int i = 0; i < m.layers; i++)
        if (sn_layer_is_local(&m, i) != (local[i] == '1'))
            return false;
    return true;
}

/* Keys that it reads, with which layers have a window. */
static void set_parts(struct bench *b, const struct sn_hf_layers *l)
{
    if (l->on) {
        (void)json_object_set_new(b->base, l->on, json_true());
        (void)json_object_set_new(b->base, l->window, json_integer(8));
        (void)json_object_set_new(b->base, l->from, json_integer(1));
    }
}

static void unset_parts(struct bench *b, const struct sn_hf_layers *l)
{
    if (l->on) {
        (void)json_object_del(b->base, l->on);
        (void)json_object_del(b->base, l->window);
        (void)json_object_del(b->base, l->from);
    }
}

static bool is_layers(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    json_t *v;
    bool good = reads_as(b, k, "0000") && read_with(b, k->name, json_null(), &m) == SN_OK;
    if (k->layers.on)
        good = good && is_same_model(b, &m) &&
               read_with(b, k->name, words("0011"), &m) == SN_EINPUT &&
               strstr(b->err.text, k->layers.on);
    set_parts(b, &k->layers);
    good = good && reads_as(b, k, "1111") && reads_as(b, k, "0011") && reads_as(b, k, "1010") &&
           reads_as(b, k, "0010") && reads_as(b, k, "1101") && reads_as(b, k, "0000");
    for (int i = 0; (v = any_value(i)) && good; i++)
        if (json_is_null(v))
            json_decref(v);
        else
            good = read_with(b, k->name, v, &m) == SN_EINPUT && is_named(b, k->name);
    const char *const wrong[] = {"1001", "111", "11111"};
    for (int i = 0; i < 3; i++)
        good = good && read_with(b, k->name, words(wrong[i]), &m) == SN_EINPUT;
    unset_parts(b, &k->layers);
    return good;
}

/* It changes which layers have a window, where no list says it. */
static bool is_part(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config with, other;
    const struct sn_hf_layers *l = &sn_hf_key_find(b->type, k->ours)->layers;
    bool is_switch = l->on && strcmp(k->name, l->on) == 0;
    set_parts(b, l);
    bool good =
        read_with(b, k->name, is_switch ? json_true() : json_integer(2), &with) == SN_OK &&
        read_with(b, k->name, is_switch ? json_false() : json_integer(3), &other) == SN_OK &&
        memcmp(&with, &other, sizeof(with)) != 0;
    unset_parts(b, l);
    return good;
}

/* Of the model's four layers, every second of which has experts. */
static bool is_dense(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    json_t *v;
    bool good = read_with(b, k->name, json_pack("[i]", 0), &m) == SN_OK && is_same_model(b, &m) &&
                read_with(b, k->name, json_array(), &m) == SN_OK && is_same_model(b, &m) &&
                read_with(b, k->name, json_pack("[ii]", 1, 0), &m) == SN_OK &&
                m.experts.from == 2 && m.experts.every == 2 && sn_layer_has_experts(&m, 3) &&
                read_with(b, k->name, json_pack("[i]", 3), &m) == SN_EINPUT && is_named(b, k->name) &&
                read_with(b, k->name, json_pack("[i]", -1), &m) == SN_EINPUT &&
                read_with(b, k->name, json_pack("[ii]", 1, 3), &m) == SN_EINPUT;
    for (int i = 0; (v = any_value(i)) && good; i++)
        if (json_is_array(v))
            json_decref(v);
        else if (json_is_null(v))
            good = read_with(b, k->name, v, &m) == SN_OK && is_same_model(b, &m);
        else
            good = read_with(b, k->name, v, &m) == SN_EINPUT && is_named(b, k->name);
    return good;
}

/* Of groups, as the file is; of all experts where there is one group. */
static bool is_grouped(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    json_t *v, *groups = json_object_get(b->base, k->ours);
    bool good = read_with(b, k->name, json_string(k->values[1]), &m) == SN_OK && is_same_model(b, &m) &&
                read_with(b, k->name, json_string(k->values[0]), &m) == SN_EINPUT &&
                is_named(b, k->name) && strstr(b->err.text, k->ours);
    (void)json_incref(groups);
    (void)json_object_set_new(b->base, k->ours, json_null());
    good = good && read_with(b, k->name, json_string(k->values[0]), &m) == SN_OK &&
           m.experts.groups == 1;
    (void)json_object_set_new(b->base, k->ours, groups);
    for (int i = 0; (v = any_value(i)) && good; i++)
        good = read_with(b, k->name, v, &m) == SN_EINPUT && is_named(b, k->name);
    return good;
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

/* As the type's own classes are called, in a module or a repository; tokens are another matter. */
static bool is_code(struct bench *b, const struct sn_hf_key *k)
{
    struct sn_model_config m;
    const char *own = b->type->architecture;
    char name[128];
    (void)snprintf(name, sizeof(name), "someone/repository--modeling_own.%s", own);
    return read_with(b, k->name, json_null(), &m) == SN_OK && is_same_model(b, &m) &&
           read_with(b, k->name, json_object(), &m) == SN_OK && is_same_model(b, &m) &&
           read_with(b, k->name,
                     json_pack("{s: s, s: [n, s]}", "AutoModelForCausalLM", name, "AutoTokenizer",
                               "tokens.OtherTokenizer"),
                     &m) == SN_OK &&
           is_same_model(b, &m) &&
           read_with(b, k->name,
                     json_pack("{s: s}", "AutoModelForCausalLM", "modeling_other.OtherForCausalLM"),
                     &m) == SN_EINPUT &&
           strstr(b->err.text, "modeling_other.OtherForCausalLM is no class of") &&
           read_with(b, k->name, json_pack("{s: i}", "AutoConfig", 3), &m) == SN_EINPUT &&
           read_with(b, k->name, json_string(own), &m) == SN_EINPUT;
}

static void values_are_what_the_table_says(const char *type)
{
    static bool (*const check[])(struct bench *, const struct sn_hf_key *) = {
        [SN_HF_USED] = is_used,     [SN_HF_FIXED] = is_fixed,     [SN_HF_REPEAT] = is_repeated,
        [SN_HF_OBJECT] = is_object, [SN_HF_ALIAS] = is_alias,     [SN_HF_INERT] = is_inert,
        [SN_HF_EVERY] = is_every,   [SN_HF_LAYERS] = is_layers,   [SN_HF_PART] = is_part,
        [SN_HF_DENSE] = is_dense,   [SN_HF_GROUPED] = is_grouped, [SN_HF_CODE] = is_code};
    static const char *const what[] = {
        [SN_HF_USED] = "used",         [SN_HF_FIXED] = "fixed",
        [SN_HF_REPEAT] = "repeated",   [SN_HF_EVERY] = "every n-th",
        [SN_HF_OBJECT] = "an object",  [SN_HF_ALIAS] = "another name",
        [SN_HF_INERT] = "inert",       [SN_HF_LAYERS] = "of windows",
        [SN_HF_PART] = "a part",       [SN_HF_DENSE] = "dense layers",
        [SN_HF_GROUPED] = "of groups", [SN_HF_CODE] = "names of classes"};
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

int main(void)
{
    for (int i = 0; i < TYPES; i++)
        values_are_what_the_table_says(types[i]);
    return tap_done();
}
