/*
 * hfconfig_rope.c - what a config.json says of scaled wavelengths, made whole: as transformers has it, a
 * kind reads some of the numbers, and takes others from the length of sequences.
 */
#include "lib/config/hfconfig.h"

#include "lib/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READS_MOST = 8 };

/* What each kind reads; the first so many of it have to be there. */
static const struct reads {
    const char *kind;
    int needed;
    bool original; /* tokens before: the file's, or as many as it has positions */
    const char *key[READS_MOST];
} all[] = {
    {"linear", 1, false, {"factor"}},
    {"dynamic", 1, false, {"factor"}},
    {"yarn",
     1,
     true,
     {"factor", "attention_factor", "beta_fast", "beta_slow", "truncate", "mscale",
      "mscale_all_dim"}},
    {"llama3", 3, true, {"factor", "low_freq_factor", "high_freq_factor"}},
    {"longrope", 2, true, {"short_factor", "long_factor", "factor", "attention_factor"}},
};

static bool is_read(const void *reads, const char *key)
{
    const struct reads *r = reads;
    bool found = strcmp(key, "type") == 0 || (r->original && strcmp(key, "original_seq") == 0);
    for (int i = 0; i < READS_MOST && r->key[i]; i++)
        found = found || strcmp(r->key[i], key) == 0;
    return found;
}

/* The children for which `keep` is true. */
static void filter(struct sn_yaml_node *parent, bool (*keep)(const void *arg, const char *key),
                   const void *arg)
{
    struct sn_yaml_node **at = &parent->first;
    parent->last = NULL;
    while (*at) {
        if (keep(arg, (*at)->key)) {
            parent->last = *at;
            at = &(*at)->next;
        } else {
            *at = (*at)->next;
        }
    }
}

static bool is_other(const void *key, const char *have)
{
    return strcmp(have, key) != 0;
}

static enum sn_status add_number(struct sn_yaml_doc *doc, struct sn_yaml_node *section,
                                 const char *key, double v, struct sn_err *err)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%.17g", v);
    if (sn_yaml_find(section, key) || sn_yaml_add(doc, section, SN_YAML_SCALAR, key, text))
        return SN_OK;
    return sn_fail(err, SN_ENOMEM, "config.json: no memory to read it");
}

static double number_of(const struct sn_yaml_node *section, const char *key, double otherwise)
{
    const struct sn_yaml_node *n = sn_yaml_find(section, key);
    return n ? strtod(n->text, NULL) : otherwise;
}

static const struct reads *reads_of(const char *kind)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].kind, kind) == 0)
            return &all[i];
    return NULL;
}

enum sn_hf_reads sn_hfconfig_rope_reads(const char *kind, const char *key)
{
    const struct reads *r = reads_of(kind);
    if (!r || !is_read(r, key))
        return SN_HF_READS_NOT;
    bool needed = strcmp(key, "factor") == 0 || strcmp(key, "type") == 0;
    for (int i = 0; i < r->needed; i++)
        needed = needed || strcmp(r->key[i], key) == 0;
    return needed ? SN_HF_READS_ALWAYS : SN_HF_READS;
}

enum sn_status sn_hfconfig_settle_rope(struct sn_yaml_doc *doc, double positions, const char *path,
                                       struct sn_err *err)
{
    struct sn_yaml_node *section = sn_yaml_find(doc->root, "rope_scaling");
    const struct sn_yaml_node *type = section ? sn_yaml_find(section, "type") : NULL;
    const struct reads *r = type ? reads_of(type->text) : NULL;
    if (!r) {
        filter(doc->root, is_other, "rope_scaling"); /* none are scaled */
        return SN_OK;
    }
    if (sn_yaml_find(doc->root, "latent") && sn_yaml_find(section, "mscale_all_dim") &&
        !is_read(r, "mscale_all_dim"))
        return sn_fail(err, SN_EINPUT,
                       "%s: rope_parameters.mscale_all_dim: scales scores in this class, which is built for rope_type: yarn alone, "
                       "not %s; want yarn, or leave it out",
                       path, r->kind);
    filter(section, is_read, r);
    for (int i = 0; i < r->needed; i++)
        if (!sn_yaml_find(section, r->key[i]))
            return sn_fail(err, SN_EINPUT,
                           "%s: %s is missing, which rope_type: %s is by; want a complete "
                           "config.json",
                           path, r->key[i], r->kind);
    SN_TRY(add_number(doc, section, "original_seq", positions, err));
    double original = number_of(section, "original_seq", positions);
    return strcmp(r->kind, "longrope") != 0 || !(original >= 1)
               ? SN_OK
               : add_number(doc, section, "factor", positions / original, err);
}
