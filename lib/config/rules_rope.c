/* rules_rope.c - what attention of latents, the rotary embedding and multi-token prediction go with. */
#include "lib/config/hfconfig.h"
#include "lib/config/keys.h"
#include "lib/config/settings.h"

#include <string.h>

/* A key that a model of latents does not read, or that is not built for it yet, and what to do; NULL: none. */
static const char *misfit_of_latents(const struct sn_config *c, const struct sn_settings *s,
                                     const char **what)
{
    const struct sn_model_config *m = &c->model;
    const struct {
        const char *key, *what;
        bool is_set;
    } all[] = {{"model.head_dim", "heads are model.latent.nope_dim + rope_dim wide; leave it out",
                sn_settings_get(s, "model.head_dim") != NULL},
               {"model.rotary_pct", "model.latent.rope_dim says what is rotated; leave it out",
                m->rotary_pct != 1},
               {"model.attention_bias", "projections of latents have no biases; want false",
                m->attention_bias},
               {"layout.tensor_x", "does not go with attention of latents yet; use 1",
                c->layout.tensor_x > 1},
               {"run.bits", "all does not go with attention of latents yet; use layout",
                sn_config_exact(c)}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].is_set) {
            *what = all[i].what;
            return all[i].key;
        }
    return NULL;
}

static bool has_latents(enum sn_family f)
{
    return sn_family_traits(f)->latents;
}

enum sn_status sn_rule_latents(const struct sn_config *c, const struct sn_settings *s,
                               struct sn_err *err)
{
    static const char *const keys[] = {"model.latent.kv_rank", "model.latent.q_rank",
                                       "model.latent.nope_dim", "model.latent.rope_dim",
                                       "model.latent.v_dim"};
    const char *family = sn_family_name(c->model.family), *what;
    char names[SN_FAMILIES_SIZE];
    for (size_t i = 0; !has_latents(c->model.family) && i < sizeof(keys) / sizeof(keys[0]); i++)
        if (sn_settings_get(s, keys[i]))
            return sn_settings_fail(s, keys[i], err, "is of family %s, not %s; leave it out",
                                    sn_families_that(names, has_latents), family);
    if (!has_latents(c->model.family))
        return SN_OK;
    if (!sn_model_has_latents(&c->model))
        return sn_settings_fail(s, keys[0], err,
                                "missing; family %s wants the width of its latents, such as 512",
                                family);
    const char *key = misfit_of_latents(c, s, &what);
    return key ? sn_settings_fail(s, key, err, "%s", what) : SN_OK;
}

/* What is not built for blocks of model.mtp yet. */
enum sn_status sn_rule_mtp(const struct sn_config *c, const struct sn_settings *s,
                           struct sn_err *err)
{
    const struct {
        const char *key, *what;
        bool is_set;
    } all[] = {{"model.mtp",
                "its blocks predict nothing in samples of so few tokens; want a longer "
                "model.seq, or 0",
                c->model.seq <= c->model.mtp},
               {"data.prefix",
                "prompt shows blocks of model.mtp what they predict; use none, or model.mtp: 0",
                c->data.prefix == SN_PREFIX_PROMPT},
               {"train.prompt", "does not go with model.mtp yet; use model.mtp: 0",
                sn_prompt_positions(&c->train.prompt) > 0}};
    for (size_t i = 0; c->model.mtp > 0 && i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].is_set)
            return sn_settings_fail(s, all[i].key, err, "%s", all[i].what);
    return SN_OK;
}

enum sn_status sn_rule_rotary(const struct sn_config *c, const struct sn_settings *s,
                              struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    int width = sn_model_head_dim(m);
    int rotated = sn_model_rotated(m);
    if (sn_family_traits(m->family)->positions != SN_ROTARY) {
        const char *key = m->rotary_pct != 0       ? "model.rotary_pct"
                          : m->rope_theta != 10000 ? "model.rope_theta"
                          : m->no_rope_every > 0   ? "model.no_rope_every"
                                                   : NULL;
        return !key ? SN_OK
                    : sn_settings_fail(s, key, err, "%s has no rotary embedding; leave it out",
                                       sn_family_name(m->family));
    }
    if (rotated >= 2 && rotated % 2 == 0)
        return SN_OK;
    if (sn_model_has_latents(m))
        return sn_settings_fail(s, "model.latent.rope_dim", err,
                                "%d, but the rotary embedding turns pairs; want an even number",
                                rotated);
    if (m->rotary_pct == 1)
        return sn_settings_fail(
            s, "model.heads", err,
            "a head is %d wide, but the rotary embedding turns pairs; want an even width", width);
    return sn_settings_fail(s, "model.rotary_pct", err,
                            "%g of a head of width %d is %d, but the rotary embedding turns pairs; "
                            "want an even number",
                            m->rotary_pct, width, rotated);
}

/* What a kind does not read has no effect; original_seq stands beside all of them in the field's files. */
static enum sn_status kind_reads(const struct sn_config *c, const struct sn_settings *s,
                                 struct sn_err *err)
{
    static const char section[] = "model.rope_scaling.";
    const struct sn_key *type = &sn_keys[sn_key_find("model.rope_scaling.type", 23)];
    const char *kind = type->names[c->model.rope_scaling.kind];
    bool scales = c->model.rope_scaling.kind != SN_ROPE_PLAIN;
    for (int i = 0; i < sn_n_keys; i++) {
        const char *key = sn_keys[i].name;
        if (strncmp(key, section, sizeof(section) - 1) == 0 && &sn_keys[i] != type &&
            sn_settings_get(s, key) &&
            !(scales && strcmp(key + sizeof(section) - 1, "original_seq") == 0) &&
            sn_hfconfig_rope_reads(kind, key + sizeof(section) - 1) == SN_HF_READS_NOT)
            return sn_settings_fail(s, key, err, "has no effect with type %s; leave it out", kind);
    }
    return SN_OK;
}

/* Scaled wavelengths: of a model that rotates, as many numbers as pairs. */
enum sn_status sn_rule_rope_scaling(const struct sn_config *c, const struct sn_settings *s,
                                    struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    const struct sn_rope_config *r = &m->rope_scaling;
    int pairs = sn_model_rotated(m) / 2;
    const char *key = "model.rope_scaling.type";
    SN_TRY(kind_reads(c, s, err));
    if (r->kind == SN_ROPE_PLAIN)
        return SN_OK;
    if (sn_family_traits(m->family)->positions != SN_ROTARY)
        return sn_settings_fail(s, key, err, "%s has no rotary embedding; leave it out",
                                sn_family_name(m->family));
    if (pairs > SN_FLOATS_MAX)
        return sn_settings_fail(s, key, err,
                                "%d pairs of features are rotated, of which at most %d can be "
                                "scaled; use default",
                                pairs, SN_FLOATS_MAX);
    if (r->kind == SN_ROPE_LONGROPE && (r->short_factor.n != pairs || r->long_factor.n != pairs))
        return sn_settings_fail(
            s, key, err,
            "longrope takes a number for each pair of features that is rotated, "
            "which are %d; short_factor has %d and long_factor %d",
            pairs, r->short_factor.n, r->long_factor.n);
    if (r->kind == SN_ROPE_LLAMA3 && r->high_freq_factor <= r->low_freq_factor)
        return sn_settings_fail(s, "model.rope_scaling.high_freq_factor", err,
                                "%g is not more than low_freq_factor (%g); want more",
                                r->high_freq_factor, r->low_freq_factor);
    return SN_OK;
}
