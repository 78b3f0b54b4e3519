/*
 * family.c - the rows of family.h as a table.
 */
#include "lib/config/family.h"

#include "lib/base/str.h"
#include "lib/config/model_config.h"

#include <math.h>

#define NAME_OF(id, name, ...)   [id] = (name),
#define TRAITS_OF(id, name, ...) [id] = {__VA_ARGS__},

const char *const sn_family_names[SN_NFAMILIES + 1] = {SN_FAMILIES(NAME_OF)};
static const struct sn_traits traits[SN_NFAMILIES] = {SN_FAMILIES(TRAITS_OF)};

const char *sn_family_name(enum sn_family f)
{
    return sn_family_names[f];
}

const struct sn_traits *sn_family_traits(enum sn_family f)
{
    return &traits[f];
}

unsigned sn_model_biases(const struct sn_model_config *m)
{
    return traits[m->family].biases | (m->attention_bias ? SN_LINEAR_QKV | SN_LINEAR_O : 0U) |
           (m->mlp_bias ? SN_LINEAR_UP | SN_LINEAR_DOWN : 0U);
}

double sn_model_embed_scale(const struct sn_model_config *m)
{
    return traits[m->family].embed_root ? sqrt((double)m->hidden) : 1;
}

bool sn_family_with_experts(enum sn_family f, enum sn_family *out)
{
    const struct sn_traits *a = &traits[f];
    for (int i = 0; i < SN_NFAMILIES; i++) {
        const struct sn_traits *b = &traits[i];
        if (a->experts || !b->experts || a->norm != b->norm || a->biases != b->biases ||
            a->activation != b->activation || a->gated != b->gated ||
            a->positions != b->positions || a->head_norms != b->head_norms ||
            a->norm_at != b->norm_at || a->norm_shift != b->norm_shift ||
            a->embed_root != b->embed_root || a->shared_gate != b->shared_gate ||
            a->sigmoid_router != b->sigmoid_router || a->latents != b->latents)
            continue;
        *out = (enum sn_family)i;
        return true;
    }
    return false;
}

const char *sn_families_that(char buf[SN_FAMILIES_SIZE], bool (*has)(enum sn_family f))
{
    unsigned bits = 0;
    for (int i = 0; i < SN_NFAMILIES; i++)
        bits |= (unsigned)has((enum sn_family)i) << i;
    return sn_str_names(buf, SN_FAMILIES_SIZE, sn_family_names, bits);
}
