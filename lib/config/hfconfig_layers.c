/*
 * hfconfig_layers.c - which layers of a config.json have a window: by a list of words, or by the keys that
 * say it where there is none.
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

static enum sn_status layers_of_keys(const struct sn_hf_job *j, const struct sn_hf_layers *l,
                                     struct sn_hf_windows *out)
{
    double n = 0;
    *out = (struct sn_hf_windows){0};
    if (l->every && sn_hf_key_find(j->type, l->every))
        SN_TRY(sn_hf_count_of(j, l->every, &n));
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
