/*
 * hfconfig.c - with hfconfig_layers.c all of lib/config that knows jansson: Hugging Face's config.json read as
 * model keys, by the table of hfkeys.c.
 *
 * The file's keys are first listed, each with its row; nothing that has no row gets past that. Then the table is
 * walked: what a key is, under whichever names the file says it, or what transformers takes where it does not.
 */
#include "lib/config/hfconfig_inner.h"

#include "lib/base/mem.h"
#include "lib/config/keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- values ---------------------------------------------------------------------------------- */

static bool is_plain(const char *s)
{
    while (*s && (unsigned char)*s >= 0x20 && *s != 0x7f)
        s++;
    return !*s;
}

/* With as few digits as mean the same. */
static void real_text(double v, char buf[SN_HF_TEXT])
{
    for (int digits = 1; digits <= 17 && (digits == 1 || strtod(buf, NULL) != v); digits++)
        (void)snprintf(buf, SN_HF_TEXT, "%.*g", digits, v);
}

/* A JSON value as YAML writes it, or words for what YAML cannot be expected to take. */
static void value_text(const json_t *v, char buf[SN_HF_TEXT])
{
    const char *word = json_is_null(v)                                 ? "null"
                       : json_is_true(v)                               ? "true"
                       : json_is_false(v)                              ? "false"
                       : json_is_object(v) && json_object_size(v) == 0 ? "{}"
                       : json_is_object(v)                             ? "this object"
                       : json_is_array(v) && json_array_size(v) == 0   ? "[]"
                       : json_is_array(v)                              ? "this list"
                                                                       : "this text";
    if (json_is_integer(v))
        (void)snprintf(buf, SN_HF_TEXT, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        real_text(json_real_value(v), buf);
    else
        (void)snprintf(buf, SN_HF_TEXT, "%s",
                       json_is_string(v) && is_plain(json_string_value(v)) ? json_string_value(v)
                                                                           : word);
}

static bool is_number(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end;
}

/* "1" and "1.0" are the same. */
static bool is_same(const char *a, const char *b)
{
    double x, y;
    if (is_number(a, &x) && is_number(b, &y))
        return x == y;
    return strcmp(a, b) == 0;
}

/* --- the file's keys ------------------------------------------------------------------------- */

static enum sn_status unknown(const struct sn_hf_job *j, const char *name)
{
    char shown[SN_CLIP_SIZE];
    return sn_fail(
        j->err, SN_EINPUT,
        "%s: unknown key '%s': it may change what the model computes; want a copy of the "
        "file without it if it does not (docs/HUGGINGFACE.md has those that are known)",
        j->path, is_plain(name) ? sn_clip(shown, name) : "this text");
}

static enum sn_status add_entry(struct sn_hf_job *j, const char *object, const char *name,
                                const json_t *value)
{
    struct sn_hf_entry *e = &j->entries[j->n];
    int n = snprintf(e->name, sizeof(e->name), "%s%s%s", object, *object ? "." : "", name);
    const struct sn_hf_key *row = n > 0 && (size_t)n < sizeof(e->name) && is_plain(name)
                                      ? sn_hf_key_find(j->type, e->name)
                                      : NULL;
    bool outside = row && !*object && strchr(name, '.'); /* as if it stood in an object */
    if (!row || (outside && row->class != SN_HF_INERT))
        return unknown(j, *object && n > 0 ? e->name : name);
    e->value = value;
    e->row = sn_hf_key_of(j->type, row);
    bool by_layers = sn_hf_key_find(j->type, "rope_parameters.full_attention");
    if (by_layers && strcmp(object, "rope_parameters") == 0 && e->row->class != SN_HF_OBJECT)
        return unknown(j, e->name); /* it has an object for each kind of layers */
    j->n++;
    return SN_OK;
}

static enum sn_status add_object(struct sn_hf_job *j, const char *object, const json_t *inner)
{
    const char *name;
    json_t *value;
    if (json_is_null(inner))
        return SN_OK;
    if (!json_is_object(inner))
        return sn_fail(j->err, SN_EINPUT, "%s: %s: is no object; want one, or null", j->path,
                       object);
    json_object_foreach((json_t *)inner, name, value) SN_TRY(add_entry(j, object, name, value));
    return SN_OK;
}

/* Keys of an object, and of those in it. */
static size_t count_keys(const json_t *object, int deep)
{
    const char *name;
    json_t *value;
    size_t n = json_object_size(object); /* 0 of all else */
    json_object_foreach((json_t *)object, name, value) n +=
        deep > 0 ? count_keys(value, deep - 1) : 0;
    return n;
}

static enum sn_status list_entries(struct sn_hf_job *j, json_t *root)
{
    const char *name;
    json_t *value;
    j->entries = sn_alloc_n(count_keys(root, 2) + 1, sizeof(*j->entries));
    if (!j->entries)
        return sn_fail(j->err, SN_ENOMEM, "%s: no memory to read it", j->path);
    json_object_foreach(root, name, value) SN_TRY(add_entry(j, "", name, value));
    for (int i = 0; i < j->n; i++) { /* those of an object behind all others */
        struct sn_hf_entry e = j->entries[i];
        if (e.row->class == SN_HF_OBJECT)
            SN_TRY(add_object(j, e.name, e.value));
    }
    return SN_OK;
}

enum sn_status sn_hf_entry_find(const struct sn_hf_job *j, const struct sn_hf_key *row,
                                const struct sn_hf_entry **out)
{
    char first[SN_HF_TEXT] = "", text[SN_HF_TEXT];
    *out = NULL;
    for (int i = 0; i < j->n; i++) {
        const struct sn_hf_entry *e = &j->entries[i];
        if (e->row != row)
            continue;
        value_text(e->value, text);
        if (*out && !is_same(first, text))
            return sn_fail(j->err, SN_EINPUT,
                           "%s: %s: %.40s, but %s: %.40s, another name of it; want one of them, or "
                           "both the same",
                           j->path, (*out)->name, first, e->name, text);
        *out = e;
        memcpy(first, text, sizeof(first));
    }
    return SN_OK;
}

enum sn_status sn_hf_text_of(const struct sn_hf_job *j, const char *name, char text[SN_HF_TEXT])
{
    const struct sn_hf_entry *e;
    const struct sn_hf_key *row = sn_hf_key_find(j->type, name);
    SN_TRY(sn_hf_entry_find(j, row, &e));
    if (e)
        value_text(e->value, text);
    else
        (void)snprintf(text, SN_HF_TEXT, "%s", row->value ? row->value : "null");
    return SN_OK;
}

enum sn_status sn_hf_count_of(const struct sn_hf_job *j, const char *name, double *out)
{
    char text[SN_HF_TEXT];
    SN_TRY(sn_hf_text_of(j, name, text));
    if (!is_number(text, out) || !(*out >= 1))
        *out = 0; /* its own key says what is wrong */
    return SN_OK;
}

/* --- keys of ours ---------------------------------------------------------------------------- */

/* The node of our key, or the map that it belongs into, made where it is missing. */
static struct sn_yaml_node *section_of(const struct sn_hf_job *j, const char **key)
{
    char section[SN_HF_TEXT];
    const char *dot = strchr(*key, '.');
    if (!dot)
        return j->doc->root;
    (void)snprintf(section, sizeof(section), "%.*s", (int)(dot - *key), *key);
    struct sn_yaml_node *n = sn_yaml_find(j->doc->root, section);
    *key = dot + 1;
    return n ? n : sn_yaml_add(j->doc, j->doc->root, SN_YAML_MAP, section, NULL);
}

/* The first of the keys that become the same one of ours. */
static const char *first_name(const struct sn_hf_type *t, const char *ours)
{
    const struct sn_hf_key *k;
    for (int i = 0; (k = sn_hf_key_at(t, i)); i++)
        if (k->class == SN_HF_USED && strcmp(k->ours, ours) == 0)
            return k->name;
    return ours;
}

enum sn_status sn_hf_set(const struct sn_hf_job *j, const char *ours, const char *theirs,
                         const char *text, bool quoted)
{
    const char *key = ours;
    struct sn_yaml_node *parent = section_of(j, &key);
    struct sn_yaml_node *n = parent ? sn_yaml_find(parent, key) : NULL;
    if (n && is_same(n->text, text))
        return SN_OK;
    if (n)
        return sn_fail(j->err, SN_EINPUT, "%s: %s: %.40s differs from %s (%.40s); want one %s",
                       j->path, theirs, text, first_name(j->type, ours), n->text, ours);
    n = parent ? sn_yaml_add(j->doc, parent, SN_YAML_SCALAR, key, text) : NULL;
    if (!n)
        return sn_fail(j->err, SN_ENOMEM, "%s: no memory to read it", j->path);
    n->quoted = quoted;
    return SN_OK;
}

/* --- what must be ---------------------------------------------------------------------------- */

/* Has it a value of the row, or is it a list of such; *text is what it is, or the first in the list
 * that is none. */
static bool is_one_of(const struct sn_hf_key *row, const json_t *value, char text[SN_HF_TEXT])
{
    for (size_t i = 0; row->is_list && i < json_array_size(value); i++)
        if (json_is_array(json_array_get(value, i)) ||
            !is_one_of(row, json_array_get(value, i), text))
            return false;
    if (row->is_list && json_array_size(value) > 0)
        return true;
    value_text(value, text);
    for (int k = 0; k < SN_HF_VALUES && row->values[k]; k++)
        if (is_same(text, row->values[k]))
            return true;
    return false;
}

static enum sn_status check_fixed(const struct sn_hf_job *j, const struct sn_hf_entry *e)
{
    char text[SN_HF_TEXT];
    if (is_one_of(e->row, e->value, text))
        return SN_OK;
    return sn_fail(j->err, SN_EINPUT, "%s: %s: %.60s is not supported: %s; want %s", j->path,
                   e->name, text, e->row->why, e->row->values[0]);
}

static enum sn_status check_repeat(const struct sn_hf_job *j, const struct sn_hf_entry *e)
{
    const struct sn_hf_key *row = e->row;
    char text[SN_HF_TEXT], want[SN_HF_TEXT];
    double of, per = 1;
    value_text(e->value, text);
    SN_TRY(sn_hf_text_of(j, row->ours, want));
    if (row->per) {
        SN_TRY(sn_hf_count_of(j, row->ours, &of));
        SN_TRY(sn_hf_count_of(j, row->per, &per));
        if (of < 1 || per < 1)
            return SN_OK; /* refused by their own keys */
        (void)snprintf(want, sizeof(want), "%d", (int)of / (int)per);
    }
    if (json_is_null(e->value) || is_same(text, want))
        return SN_OK;
    return sn_fail(j->err, SN_EINPUT, "%s: %s: %.60s is not supported; want %s%s%s (%.60s)",
                   j->path, e->name, text, row->ours, row->per ? " / " : "",
                   row->per ? row->per : "", want);
}

/* A list with 0 for every n-th layer, of as many as there are, or more. */
static enum sn_status check_every(const struct sn_hf_job *j, const struct sn_hf_entry *e)
{
    double every, layers;
    size_t i = 0, n = json_array_size(e->value);
    SN_TRY(sn_hf_count_of(j, e->row->ours, &every));
    SN_TRY(sn_hf_count_of(j, "num_hidden_layers", &layers));
    while (i < n && every >= 1 &&
           json_integer_value(json_array_get(e->value, i)) == ((i + 1) % (size_t)every != 0))
        i++;
    if (json_is_null(e->value) || (json_is_array(e->value) && i == n && (double)n >= layers))
        return SN_OK;
    return sn_fail(j->err, SN_EINPUT,
                   "%s: %s: is no list with 0 for every n-th layer and 1 for others, %.0f or more "
                   "in all, n by %s; want null, or such a list",
                   j->path, e->name, layers, e->row->ours);
}

/* What transformers takes where such a key is left out must do for all that there is. */
static enum sn_status check_left_out(const struct sn_hf_job *j, const struct sn_hf_key *row)
{
    const struct sn_hf_entry *e;
    double most;
    SN_TRY(sn_hf_entry_find(j, row, &e));
    SN_TRY(sn_hf_count_of(j, row->ours, &most));
    if (e || most <= strtod(row->value, NULL))
        return SN_OK;
    return sn_fail(j->err, SN_EINPUT,
                   "%s: %s: is left out, which means %s, but %s is %.0f; want the key with the same number",
                   j->path, row->name, row->value, row->ours, most);
}

static enum sn_status check_entries(const struct sn_hf_job *j)
{
    for (int l = 0; j->type->lists[l]; l++)
        for (const struct sn_hf_key *row = j->type->lists[l]; row->name; row++) {
            if (row->class == SN_HF_REPEAT && row->value)
                SN_TRY(check_left_out(j, row));
            if (row->class == SN_HF_GROUPED)
                SN_TRY(sn_hf_check_grouped(j, row));
        }
    for (const struct sn_hf_entry *e = j->entries; e < j->entries + j->n; e++) {
        if (e->row->class == SN_HF_FIXED)
            SN_TRY(check_fixed(j, e));
        if (e->row->class == SN_HF_REPEAT)
            SN_TRY(check_repeat(j, e));
        if (e->row->class == SN_HF_EVERY)
            SN_TRY(check_every(j, e));
        if (e->row->class == SN_HF_CODE)
            SN_TRY(sn_hf_check_code(j, e));
    }
    return SN_OK;
}

/* --- what is used ---------------------------------------------------------------------------- */

static enum sn_status rescale(const struct sn_hf_job *j, enum sn_hf_scale scale,
                              char text[SN_HF_TEXT])
{
    double v, top_k, layers;
    if (scale == SN_HF_INVERSE_ROOT && is_number(text, &v))
        (void)snprintf(text, SN_HF_TEXT, "%.17g", 1 / sqrt(v));
    if (scale != SN_HF_TOP_K_OVER_LAYERS || !is_number(text, &v))
        return SN_OK;
    SN_TRY(sn_hf_count_of(j, "num_experts_per_tok", &top_k));
    SN_TRY(sn_hf_layers_with_experts(j, &layers));
    if (layers >= 1)
        (void)snprintf(text, SN_HF_TEXT, "%.17g", v * top_k / layers);
    return SN_OK;
}

static enum sn_status translate_word(const struct sn_hf_job *j, const struct sn_hf_key *row,
                                     const char *name, char text[SN_HF_TEXT])
{
    char words[SN_HF_NAMES_SIZE], key[SN_HF_TEXT];
    const char *ours = sn_hf_word_ours(row, text);
    int n = snprintf(key, sizeof(key), "model.%s", row->ours);
    if (!ours)
        return sn_fail(j->err, SN_EINPUT, "%s: %s: %.60s is not supported; want %s%s", j->path,
                       name, text, sn_hf_words(row, words),
                       sn_keys[sn_key_find(key, (size_t)n)].type == SN_KEY_ENUM ? ""
                                                                                : ", or a number");
    if (ours != text)
        (void)snprintf(text, SN_HF_TEXT, "%s", ours);
    return SN_OK;
}

/* A list of numbers as one of ours. */
static enum sn_status set_list(const struct sn_hf_job *j, const char *ours, const json_t *list)
{
    const char *key = ours;
    char text[SN_HF_TEXT];
    struct sn_yaml_node *parent = section_of(j, &key);
    struct sn_yaml_node *n = parent ? sn_yaml_add(j->doc, parent, SN_YAML_LIST, key, NULL) : NULL;
    bool good = n != NULL;
    for (size_t i = 0; i < json_array_size(list) && good; i++) {
        value_text(json_array_get(list, i), text);
        good = sn_yaml_add(j->doc, n, SN_YAML_SCALAR, NULL, text) != NULL;
    }
    return good ? SN_OK : sn_fail(j->err, SN_ENOMEM, "%s: no memory to read it", j->path);
}

static enum sn_status use_key(const struct sn_hf_job *j, const struct sn_hf_key *row)
{
    const struct sn_hf_entry *e;
    char text[SN_HF_TEXT];
    SN_TRY(sn_hf_entry_find(j, row, &e));
    if (e && json_is_array(e->value) && !row->words[0].theirs)
        return set_list(j, row->ours, e->value);
    if (!e && !row->value)
        return sn_fail(j->err, SN_EINPUT, "%s: %s is missing; want a complete config.json", j->path,
                       row->name);
    SN_TRY(sn_hf_text_of(j, row->name, text));
    SN_TRY(translate_word(j, row, e ? e->name : row->name, text));
    bool derived = strcmp(text, "null") == 0;
    if (derived && e && !row->may_be_null && (!row->value || strcmp(row->value, "null") != 0))
        return sn_fail(j->err, SN_EINPUT, "%s: %s: null is no value of it; want %s", j->path,
                       e->name, row->value ? row->value : "a number");
    if (derived)
        return SN_OK; /* ours to decide */
    SN_TRY(rescale(j, row->scale, text));
    return sn_hf_set(j, row->ours, e ? e->name : row->name, text, e && json_is_string(e->value));
}

/* --- the whole ------------------------------------------------------------------------------- */

static enum sn_status find_type(struct sn_hf_job *j, const json_t *root)
{
    char text[SN_HF_TEXT], names[SN_HF_NAMES_SIZE];
    const json_t *name = json_object_get(root, "model_type");
    if (!json_is_string(name))
        return sn_fail(j->err, SN_EINPUT, "%s: no model_type; want a Hugging Face config.json",
                       j->path);
    value_text(name, text);
    j->type = sn_hf_type_find(text);
    return j->type ? SN_OK
                   : sn_fail(j->err, SN_EINPUT, "%s: model_type: '%.60s' is not supported; want %s",
                             j->path, text, sn_hf_type_names(names));
}

static enum sn_status translate(struct sn_hf_job *j, json_t *root)
{
    const struct sn_hf_key *row;
    double positions;
    SN_TRY(find_type(j, root));
    SN_TRY(list_entries(j, root));
    SN_TRY(check_entries(j));
    SN_TRY(sn_hf_set(j, "family", "model_type", sn_family_name(j->type->family), false));
    for (int i = 0; (row = sn_hf_key_at(j->type, i)); i++) {
        if (row->class == SN_HF_USED)
            SN_TRY(use_key(j, row));
        if (row->class == SN_HF_LAYERS)
            SN_TRY(sn_hf_use_layers(j, row));
        if (row->class == SN_HF_DENSE)
            SN_TRY(sn_hf_use_dense(j, row));
    }
    if (!sn_hf_type_has(j->type, "rope_scaling.type"))
        return SN_OK;
    SN_TRY(sn_hf_count_of(j, "max_position_embeddings", &positions));
    return sn_hfconfig_settle_rope(j->doc, positions, j->path, j->err);
}

enum sn_status sn_hfconfig_parse(struct sn_yaml_doc **out, const char *text, size_t len,
                                 const char *path, struct sn_err *err)
{
    json_error_t e;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
    if (!root)
        return sn_fail(err, SN_EINPUT, "%s:%d:%d: not JSON: %s; want a Hugging Face config.json",
                       path, e.line, e.column, e.text);
    struct sn_hf_job j = {.path = path, .err = err};
    enum sn_status st = sn_yaml_create(&j.doc, path, err);
    if (st == SN_OK && !sn_yaml_add(j.doc, NULL, SN_YAML_MAP, NULL, NULL))
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to read it", path);
    if (st == SN_OK)
        st = translate(&j, root);
    sn_free(j.entries);
    json_decref(root);
    if (st != SN_OK) {
        sn_yaml_destroy(j.doc);
        return st;
    }
    *out = j.doc;
    return SN_OK;
}

/* A number, a list of numbers, or null; false: something else. */
static bool add_token(struct sn_str *out, const json_t *v)
{
    size_t n = json_array_size(v);
    bool good = !v || json_is_null(v) || json_is_integer(v) || json_is_array(v);
    if (json_is_integer(v))
        sn_str_add(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (n == 0)
        sn_str_add(out, "null");
    for (size_t i = 0; i < n; i++) {
        good = good && json_is_integer(json_array_get(v, i));
        sn_str_add(out, "%s%" JSON_INTEGER_FORMAT "%s", i ? ", " : "[",
                   json_integer_value(json_array_get(v, i)), i + 1 == n ? "]" : "");
    }
    return good;
}

enum sn_status sn_hfconfig_tokens(struct sn_str *out, const char *text, size_t len,
                                  const char *path, struct sn_err *err)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const char *odd = NULL;
    if (!json_is_object(root)) {
        json_decref(root);
        return sn_fail(err, SN_EINPUT, "%s: not JSON; want a Hugging Face config.json", path);
    }
    for (int i = 0; i < 3; i++) {
        sn_str_add(out, ",\n  \"%s\": ", keys[i]);
        if (!add_token(out, json_object_get(root, keys[i])))
            odd = keys[i];
    }
    json_decref(root);
    if (odd)
        return sn_fail(err, SN_EINPUT, "%s: %s: want a number, a list of numbers or null", path,
                       odd);
    return out->failed ? sn_fail(err, SN_ENOMEM, "%s: no memory to read it", path) : SN_OK;
}
