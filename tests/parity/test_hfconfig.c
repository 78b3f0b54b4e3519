/*
 * test_hfconfig.c - every key of the config classes has a row, and every row is of such a key.
 *
 * fixtures/hfconfig/keys.json holds the keys of those classes as two versions of transformers have
 * them, with their defaults and other names (hf_keys.py).
 */
#include "tests/parity/hfconfig_test.h"

#define FIXTURE "tests/parity/fixtures/hfconfig/keys.json"

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
                                            "rope_parameters.full_attention",
                                            "rope_parameters.sliding_attention",
                                            "rope_parameters.sliding_attention.rope_theta",
                                            "rope_parameters.sliding_attention.rope_type",
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

int main(void)
{
    json_t *root = json_load_file(FIXTURE, 0, NULL);
    tap_ok(json_object_size(json_object_get(root, "versions")) >= 2, "keys of two versions");
    every_key_has_a_row(root);
    every_row_has_a_key(root);
    json_decref(root);
    return tap_done();
}
