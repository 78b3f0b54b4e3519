/*
 * hfconfig_layers.c - which layers of a config.json have a window: by a list of words, or by the keys that
 * say it where there is none; which have experts, and how they are chosen. And whose code lies beside the weights.
 */
#include "lib/config/hfconfig_inner.h"

#include "lib/base/mem.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of each layer of a list; false: it is none, or has other words or another length. */
static bool read_layers(const json_t *list, bool *is_local, size_t n)
{
    bool good = json_array_size(list) == n;
    for (size_t i = 0; i < n && good; i++) {
        const json_t *v = json_array_get(list, i);
        const char *word = json_is_string(v) ? json_string_value(v) : "";
        is_local[i] = strcmp(word, "sliding_attention") == 0;
        good = is_local[i] || strcmp(word, "full_attention") == 0;
    }
    return good;
}

static enum sn_status layers_of_list(const struct sn_hf_job *j, const struct sn_hf_entry *e, int n,
                                     struct sn_hf_windows *out)
{
    bool *is_local = sn_alloc_n((size_t)n + 1, sizeof(*is_local));
    bool good = is_local && read_layers(e->value, is_local, (size_t)n) &&
                sn_hf_windows_of(out, is_local, n);
    bool no_memory = !is_local;
    sn_free(is_local);
    if (no_memory)
        return sn_fail(j->err, SN_ENOMEM, "%s: no memory to read it", j->path);
    return good ? SN_OK
                : sn_fail(j->err, SN_EINPUT,
                          "%s: %s: want sliding_attention for each layer from one on, but for "
                          "every n-th, and "
                          "full_attention for the others, %d words in all",
                          j->path, e->name, n);
}

/* A key that stands in for the list: 1 or more. */
static enum sn_status count_of_part(const struct sn_hf_job *j, const char *name, double *out)
{
    char text[SN_HF_TEXT];
    SN_TRY(sn_hf_text_of(j, name, text));
    SN_TRY(sn_hf_count_of(j, name, out));
    if (*out >= 1 && *out == floor(*out))
        return SN_OK;
    return sn_fail(j->err, SN_EINPUT, "%s: %s: %.40s is not supported; want 1 or more layers",
                   j->path, name, text);
}

static enum sn_status layers_of_keys(const struct sn_hf_job *j, const struct sn_hf_layers *l,
                                     struct sn_hf_windows *out)
{
    double n = 0;
    *out = (struct sn_hf_windows){0};
    if (l->every && sn_hf_key_find(j->type, l->every))
        SN_TRY(count_of_part(j, l->every, &n));
    else if (l->every)
        n = strtod(l->every, NULL);
    out->every = (int)fmin(n, INT_MAX);
    n = 0;
    if (l->from)
        SN_TRY(sn_hf_count_of(j, l->from, &n));
    out->from = (int)fmin(n, INT_MAX);
    return SN_OK;
}

static enum sn_status set_count(const struct sn_hf_job *j, const char *ours, const char *theirs,
                                int n)
{
    char text[SN_HF_TEXT];
    (void)snprintf(text, sizeof(text), "%d", n);
    return n > 0 ? sn_hf_set(j, ours, theirs, text, false) : SN_OK;
}

enum sn_status sn_hf_use_layers(const struct sn_hf_job *j, const struct sn_hf_key *row)
{
    const struct sn_hf_entry *e;
    char on[SN_HF_TEXT] = "true", window[SN_HF_TEXT] = "";
    struct sn_hf_windows w;
    double layers;
    SN_TRY(sn_hf_entry_find(j, row, &e));
    SN_TRY(sn_hf_count_of(j, "num_hidden_layers", &layers));
    bool is_list = e && !json_is_null(e->value);
    SN_TRY(is_list ? layers_of_list(j, e, (int)fmin(layers, 1e6), &w)
                   : layers_of_keys(j, &row->layers, &w));
    if (row->layers.on) {
        SN_TRY(sn_hf_text_of(j, row->layers.on, on));
        SN_TRY(sn_hf_text_of(j, row->layers.window, window));
    }
    bool has_window = strcmp(on, "true") == 0 && strcmp(window, "null") != 0;
    if (!has_window && strcmp(on, "true") != 0 && strcmp(on, "false") != 0)
        return sn_fail(j->err, SN_EINPUT, "%s: %s: %.40s is not supported; want true or false",
                       j->path, row->layers.on, on);
    if (!has_window && is_list && w.from < layers)
        return sn_fail(
            j->err, SN_EINPUT,
            "%s: %s: sliding_attention, but %s: %s and %s: %s; want full_attention for all layers",
            j->path, e->name, row->layers.on, on, row->layers.window, window);
    if (!has_window || (row->layers.on && w.from >= layers))
        return SN_OK; /* no layer has one */
    if (row->layers.on)
        SN_TRY(sn_hf_set(j, "sliding_window", row->layers.window, window, false));
    SN_TRY(set_count(j, "window_from", row->name, w.from));
    return set_count(j, "global_every", row->name, w.every);
}

/* --- experts ---------------------------------------------------------------------------------- */

/* Which layers have experts. */
struct sparse {
    double layers, every;
    const struct sn_hf_entry *list; /* of those that have none; NULL, or JSON's null: there is none */
};

static enum sn_status sparse_of(const struct sn_hf_job *j, const struct sn_hf_key *row,
                                struct sparse *out)
{
    SN_TRY(sn_hf_count_of(j, "num_hidden_layers", &out->layers));
    SN_TRY(sn_hf_count_of(j, row->ours, &out->every));
    SN_TRY(sn_hf_entry_find(j, row, &out->list));
    out->layers = fmin(out->layers, 1e6);
    out->every = fmax(fmin(out->every, 1e6), 1);
    return SN_OK;
}

static bool is_listed(const struct sparse *s, int layer)
{
    for (size_t i = 0; s->list && i < json_array_size(s->list->value); i++)
        if (json_integer_value(json_array_get(s->list->value, i)) == layer)
            return true;
    return false;
}

static bool has_experts(const struct sparse *s, int layer)
{
    return (layer + 1) % (int)s->every == 0 && !is_listed(s, layer);
}

/* The first layer from which on every n-th has experts; false: another one has none. */
static bool first_of(const struct sparse *s, int *from)
{
    int every = (int)s->every, layer = every - 1;
    while (layer < s->layers && is_listed(s, layer))
        layer += every;
    *from = layer - every + 1;
    for (; layer < s->layers; layer += every)
        if (!has_experts(s, layer))
            return false;
    return true;
}

static bool is_list_of_layers(const json_t *v)
{
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!json_is_integer(json_array_get(v, i)) || json_integer_value(json_array_get(v, i)) < 0)
            return false;
    return json_is_null(v) || json_is_array(v);
}

enum sn_status sn_hf_use_dense(const struct sn_hf_job *j, const struct sn_hf_key *row)
{
    struct sparse s;
    int from;
    SN_TRY(sparse_of(j, row, &s));
    if ((s.list && !is_list_of_layers(s.list->value)) || !first_of(&s, &from))
        return sn_fail(j->err, SN_EINPUT,
                       "%s: %s: is no list of the first layers, such as [0, 1], beside those that "
                       "%s leaves without experts; want such a list, [] or null",
                       j->path, row->name, row->ours);
    return set_count(j, "experts.from", row->name, from);
}

enum sn_status sn_hf_layers_with_experts(const struct sn_hf_job *j, double *out)
{
    const struct sn_hf_key *row = NULL;
    struct sparse s;
    SN_TRY(sn_hf_count_of(j, "num_hidden_layers", out));
    for (int i = 0; (row = sn_hf_key_at(j->type, i)) && row->class != SN_HF_DENSE; i++)
        ;
    if (!row)
        return SN_OK;
    SN_TRY(sparse_of(j, row, &s));
    *out = 0;
    for (int i = 0; i < (int)s.layers; i++)
        *out += has_experts(&s, i);
    return SN_OK;
}

enum sn_status sn_hf_check_grouped(const struct sn_hf_job *j, const struct sn_hf_key *row)
{
    char how[SN_HF_TEXT], groups[SN_HF_TEXT];
    double n;
    const struct sn_hf_entry *e;
    SN_TRY(sn_hf_entry_find(j, row, &e));
    (void)snprintf(how, sizeof(how), "%s", row->values[0]);
    if (e)
        SN_TRY(sn_hf_text_of(j, row->name, how));
    SN_TRY(sn_hf_text_of(j, row->ours, groups));
    SN_TRY(sn_hf_count_of(j, row->ours, &n));
    if (strcmp(how, row->values[1]) == 0 || (strcmp(how, row->values[0]) == 0 && n <= 1))
        return SN_OK;
    return sn_fail(j->err, SN_EINPUT,
                   "%s: %s: %.40s with %s: %.40s is not supported; want %s with 1, or %s", j->path,
                   row->name, how, row->ours, groups, row->values[0], row->values[1]);
}

/* --- code beside the weights ------------------------------------------------------------------ */

/* Tokens are not the model's. */
static bool is_of_tokens(const char *loader)
{
    return strcmp(loader, "AutoTokenizer") == 0 || strcmp(loader, "AutoProcessor") == 0;
}

enum sn_status sn_hf_check_code(const struct sn_hf_job *j, const struct sn_hf_entry *e)
{
    const char *loader;
    json_t *value;
    if (!json_is_object(e->value) && !json_is_null(e->value))
        return sn_fail(j->err, SN_EINPUT, "%s: %s: want an object of classes, or null", j->path,
                       e->name);
    json_object_foreach((json_t *)e->value, loader, value)
    {
        const char *name = json_string_value(value);
        if (is_of_tokens(loader) || json_is_null(value) ||
            (name && sn_hf_type_has_class(j->type, name)))
            continue;
        return sn_fail(j->err, SN_EINPUT,
                       "%s: %s.%.40s: %.80s is no class of %s, and %s; want null, if the weights "
                       "are those of %s",
                       j->path, e->name, loader, name ? name : "what stands there", j->type->name,
                       e->row->why, j->type->architecture);
    }
    return SN_OK;
}
