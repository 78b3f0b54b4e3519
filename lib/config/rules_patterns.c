/* rules_patterns.c - what name patterns of train.groups and train.sparse go with. */
#include "lib/config/settings.h"

enum sn_status sn_rule_groups(const struct sn_config *c, const struct sn_settings *s,
                              struct sn_err *err)
{
    const struct sn_groups_config *g = &c->train.groups;
    const struct {
        const char *key;
        const struct sn_floats *of;
    } lists[] = {{"train.groups.lr", &g->lr}, {"train.groups.weight_decay", &g->weight_decay}};
    for (int i = 0; i < 2; i++)
        if (lists[i].of->n > 0 && lists[i].of->n != g->n_names)
            return sn_settings_fail(s, lists[i].key, err,
                                    "%d numbers of %d groups; want one for each of "
                                    "train.groups.names, or none",
                                    lists[i].of->n, g->n_names);
    if (g->n_names > 0 && g->lr.n == 0 && g->weight_decay.n == 0)
        return sn_settings_fail(s, "train.groups.names", err,
                                "has no effect without train.groups.lr or "
                                "train.groups.weight_decay; want one of them");
    return SN_OK;
}

static bool keeps_zeros(const struct sn_codec *c)
{
    return c->kind == SN_CODEC_MPC || c->kind == SN_CODEC_BF16;
}

bool sn_coding_keeps_zeros(const struct sn_coding *z)
{
    return !z->on || (keeps_zeros(&z->codec) && (!z->two || keeps_zeros(&z->between)));
}

/* Weights that are gathered as a codec leaves them must have the zeros of their masters. */
static enum sn_status zeros_stay(const struct sn_config *c, const struct sn_settings *s,
                                 struct sn_err *err)
{
    if (sn_coding_keeps_zeros(&c->layout.compress.coding[SN_CODED_ZERO]))
        return SN_OK;
    return sn_settings_fail(s, "train.sparse.targets", err,
                            "keeps zeros, of which codecs of weights (layout.compress.zero) "
                            "other than mpc and bf16 may make other values; want one of "
                            "them, or none");
}

enum sn_status sn_rule_sparse(const struct sn_config *c, const struct sn_settings *s,
                              struct sn_err *err)
{
    const struct sn_sparse_config *x = &c->train.sparse;
    bool says =
        sn_settings_get(s, "train.sparse.density") || sn_settings_get(s, "train.sparse.kind");
    if (x->n_targets == 0 && says)
        return sn_settings_fail(s, "train.sparse.targets", err,
                                "names no matrix; want patterns such as \"*.ffn.*.weight\"");
    if (x->n_targets == 0)
        return SN_OK;
    if (x->kind == SN_SPARSE_2_4 && sn_settings_get(s, "train.sparse.density") && x->density != 0.5)
        return sn_settings_fail(s, "train.sparse.density", err,
                                "%g, but of 2:4 it is 0.5; leave it out, or set train.sparse.kind: "
                                "unstructured",
                                x->density);
    if (c->train.lora.r > 0)
        return sn_settings_fail(s, "train.sparse.targets", err,
                                "has no effect beside train.lora, which freezes all but its "
                                "adapters; leave one of the two out");
    if (sn_prompt_positions(&c->train.prompt) > 0)
        return sn_settings_fail(s, "train.sparse.targets", err,
                                "has no effect beside train.prompt, which freezes all but prompts "
                                "and adapters; leave one of the two out");
    return zeros_stay(c, s, err);
}
