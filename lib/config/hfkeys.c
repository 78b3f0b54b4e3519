/*
 * hfkeys.c - what is asked of the table of Hugging Face's keys (hfkeys_table.c).
 */
#include "lib/config/hfkeys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- types ----------------------------------------------------------------------------------- */

static bool has_list(const struct sn_hf_type *t, const struct sn_hf_key *list)
{
    for (int l = 0; t->lists[l]; l++)
        if (t->lists[l] == list)
            return true;
    return false;
}

bool sn_hf_type_has_class(const struct sn_hf_type *t, const char *name)
{
    static const char head[] = "ForCausalLM"; /* as long as "LMHeadModel" */
    static const char *const kin[] = {"Config",
                                      "Model",
                                      head,
                                      "LMHeadModel",
                                      "PreTrainedModel",
                                      "ForSequenceClassification",
                                      "ForTokenClassification"};
    const char *dot = strrchr(name, '.'), *class = dot ? dot + 1 : name;
    size_t stem = strlen(t->architecture) - strlen(head);
    if (strncmp(class, t->architecture, stem) != 0)
        return false;
    for (size_t i = 0; i < sizeof(kin) / sizeof(kin[0]); i++)
        if (strcmp(class + stem, kin[i]) == 0)
            return true;
    return false;
}

const struct sn_hf_type *sn_hf_type_find(const char *name)
{
    for (int i = 0; i < sn_hf_n_types; i++)
        if (strcmp(sn_hf_types[i].name, name) == 0)
            return &sn_hf_types[i];
    return NULL;
}

static bool says(const struct sn_hf_key *k, const char *ours)
{
    if (k->class == SN_HF_LAYERS)
        return strcmp(ours, "window_from") == 0 || strcmp(ours, "global_every") == 0 ||
               (k->layers.window && strcmp(ours, "sliding_window") == 0);
    if (k->class == SN_HF_DENSE)
        return strcmp(ours, "experts.from") == 0;
    bool can = k->class == SN_HF_USED || (k->class == SN_HF_FIXED && k->ours);
    return can && strcmp(k->ours, ours) == 0;
}

bool sn_hf_type_has(const struct sn_hf_type *t, const char *ours)
{
    const struct sn_hf_key *k;
    for (int i = 0; (k = sn_hf_key_at(t, i)); i++)
        if (says(k, ours))
            return true;
    return false;
}

/* Key i of the model, of those that have another value than most models and that not every class knows;
 * NULL: there are no more. */
static const char *special_key(const struct sn_model_config *m, int i)
{
    const struct {
        const char *key;
        bool is_set;
    } all[] = {{"sliding_window", m->sliding_window > 0},
               {"head_dim", m->head_dim > 0},
               {"rope_scaling.type", m->rope_scaling.kind != SN_ROPE_PLAIN},
               {"no_rope_every", m->no_rope_every > 0},
               {"attention_scale", m->attention_scale > 0},
               {"embed_scale", m->embed_scale > 0 && m->embed_scale != sn_model_embed_scale(m)},
               {"rope_local_theta", m->rope_local_theta > 0},
               {"logit_cap", m->logit_cap > 0},
               {"attention_bias", m->attention_bias},
               {"experts.from", m->experts.from > 0},
               {"experts.groups", m->experts.groups > 1},
               {"experts.route_scale", m->experts.route_scale > 0 && m->experts.route_scale != 1},
               {"mlp_bias", m->mlp_bias},
               {"mtp", m->mtp > 0},
               {"residual_scale", m->residual_scale > 0 && m->residual_scale != 1},
               {"logits_divisor", m->logits_divisor > 0 && m->logits_divisor != 1}};
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
        if (all[k].is_set && i-- == 0)
            return all[k].key;
    return NULL;
}

/* NULL: the type knows all that the model has. */
static const char *unknown_key(const struct sn_hf_type *t, const struct sn_model_config *m)
{
    const char *key;
    for (int i = 0; (key = special_key(m, i)); i++)
        if (!sn_hf_type_has(t, key))
            return key;
    return NULL;
}

const struct sn_hf_type *sn_hf_type_of(const struct sn_model_config *m, const char **alien)
{
    *alien = NULL;
    for (int i = 0; i < sn_hf_n_types; i++) {
        if (sn_hf_types[i].family != m->family)
            continue;
        const char *key = unknown_key(&sn_hf_types[i], m);
        if (!key)
            return &sn_hf_types[i];
        *alien = *alien ? *alien : key;
    }
    return NULL;
}

/* The names of the types that have a list, or of all (NULL), with commas and a last `word`. */
static void join_names(char buf[SN_HF_NAMES_SIZE], const struct sn_hf_key *list, const char *word)
{
    const char *name[SN_HF_TYPES_MOST];
    int n = 0;
    size_t len = 0;
    for (int t = 0; t < sn_hf_n_types; t++)
        if (!list || has_list(&sn_hf_types[t], list))
            name[n++] = sn_hf_types[t].name;
    for (int i = 0; i < n && len < SN_HF_NAMES_SIZE; i++)
        len += (size_t)snprintf(buf + len, SN_HF_NAMES_SIZE - len, "%s%s",
                                i == 0       ? ""
                                : i == n - 1 ? word
                                             : ", ",
                                name[i]);
}

const char *sn_hf_type_names(char buf[SN_HF_NAMES_SIZE])
{
    join_names(buf, NULL, " or ");
    return buf;
}

const struct sn_hf_key *sn_hf_list_at(int i, char names[SN_HF_NAMES_SIZE])
{
    for (int t = 0; t < sn_hf_n_types; t++)
        for (int l = 0; sn_hf_types[t].lists[l]; l++) {
            const struct sn_hf_key *list = sn_hf_types[t].lists[l];
            bool is_later = false; /* of a type before */
            for (int u = 0; u < t; u++)
                is_later = is_later || has_list(&sn_hf_types[u], list);
            if (is_later || i-- > 0)
                continue;
            join_names(names, list, " and ");
            return list;
        }
    return NULL;
}

/* --- keys ------------------------------------------------------------------------------------ */

const struct sn_hf_key *sn_hf_key_at(const struct sn_hf_type *t, int i)
{
    for (int l = 0; t->lists[l]; l++)
        for (const struct sn_hf_key *k = t->lists[l]; k->name; k++)
            if (i-- == 0)
                return k;
    return NULL;
}

static const struct sn_hf_key *find(const struct sn_hf_type *t, const char *name, size_t len)
{
    for (int l = 0; t->lists[l]; l++)
        for (const struct sn_hf_key *k = t->lists[l]; k->name; k++)
            if (strncmp(k->name, name, len) == 0 && !k->name[len])
                return k;
    return NULL;
}

const struct sn_hf_key *sn_hf_key_of(const struct sn_hf_type *t, const struct sn_hf_key *k)
{
    return k->class == SN_HF_ALIAS ? find(t, k->ours, strlen(k->ours)) : k;
}

/* --- words ----------------------------------------------------------------------------------- */

static bool passes(const struct sn_hf_key *k, const char *text)
{
    char *end;
    (void)strtod(text, &end);
    return !k->words[0].theirs || (end != text && !*end);
}

const char *sn_hf_word_ours(const struct sn_hf_key *k, const char *theirs)
{
    for (const struct sn_hf_word *w = k->words; w->theirs; w++)
        if (strcmp(w->theirs, theirs) == 0)
            return w->ours;
    return passes(k, theirs) ? theirs : NULL;
}

const char *sn_hf_word_theirs(const struct sn_hf_key *k, const char *ours)
{
    for (const struct sn_hf_word *w = k->words; w->theirs; w++)
        if (strcmp(w->ours, ours) == 0)
            return w->theirs;
    return passes(k, ours) ? ours : NULL;
}

const char *sn_hf_words(const struct sn_hf_key *k, char buf[SN_HF_NAMES_SIZE])
{
    size_t len = 0;
    buf[0] = '\0';
    for (const struct sn_hf_word *w = k->words; w->theirs && len < SN_HF_NAMES_SIZE; w++)
        len += (size_t)snprintf(buf + len, SN_HF_NAMES_SIZE - len, "%s%s",
                                w == k->words  ? ""
                                : !w[1].theirs ? " or "
                                               : ", ",
                                w->theirs);
    return buf;
}

/* --- windows --------------------------------------------------------------------------------- */

/* The first layer from i on that is local, or is not; n: none. */
static int next_layer(const bool *is_local, int n, int i, bool local)
{
    while (i < n && is_local[i] != local)
        i++;
    return i;
}

bool sn_hf_windows_of(struct sn_hf_windows *out, const bool *is_local, int n)
{
    int begin = next_layer(is_local, n, 0, true), first = next_layer(is_local, n, begin, false);
    int second = next_layer(is_local, n, first + 1, false);
    int every = first >= n ? 0 : second < n ? second - first : first + 1, from = 0;
    for (int i = 0; i < begin; i++)
        if (every == 0 || (i + 1) % every != 0)
            from = i + 1;
    for (int i = 0; i < n; i++)
        if (is_local[i] != !(i < from || (every > 0 && (i + 1) % every == 0)))
            return false;
    *out = (struct sn_hf_windows){from, every};
    return true;
}

/* --- keys by name ---------------------------------------------------------------------------- */

const struct sn_hf_key *sn_hf_key_find(const struct sn_hf_type *t, const char *name)
{
    const char *dot = strrchr(name, '.');
    const struct sn_hf_key *k = find(t, name, strlen(name));
    const struct sn_hf_key *object = !k && dot ? find(t, name, (size_t)(dot - name)) : NULL;
    if (!object)
        return k;
    char real[96]; /* of an object under another name */
    int n = snprintf(real, sizeof(real), "%s%s", sn_hf_key_of(t, object)->name, dot);
    return n > 0 && (size_t)n < sizeof(real) ? find(t, real, (size_t)n) : NULL;
}
