/* rules_lora.c - what train.lora goes with. */
#include "lib/config/settings.h"

/* What adapters need, and do not go with yet; the model says which matrices there are. */
enum sn_status sn_rule_lora(const struct sn_config *c, const struct sn_settings *s,
                            struct sn_err *err)
{
    const struct sn_lora_config *l = &c->train.lora;
    if (l->r == 0 && (l->n_targets > 0 || sn_settings_get(s, "train.lora.alpha")))
        return sn_settings_fail(s, "train.lora", err,
                                "has no effect with rank 0; set train.lora.rank, such as 16");
    if (l->r == 0)
        return SN_OK;
    if (l->n_targets == 0)
        return sn_settings_fail(s, "train.lora.targets", err,
                                "names no matrix; want patterns such as \"*.attn.q.weight\"");
    if (l->init_from[0] && !c->train.init_from[0])
        return sn_settings_fail(s, "train.lora.init_from", err,
                                "adapts weights that are random without train.init_from; name "
                                "those that the adapters were trained with");
    if (c->train.n_freeze > 0)
        return sn_settings_fail(s, "train.freeze", err,
                                "has no effect beside train.lora, which freezes all but its "
                                "adapters; leave it out");
    if (c->train.fp8)
        return sn_settings_fail(s, "train.lora", err,
                                "with 8-bit products is not built yet; set train.fp8: none");
    if (sn_config_exact(c))
        return sn_settings_fail(s, "train.lora", err,
                                "with run.bits: all is not built yet; set run.bits: layout");
    return SN_OK;
}
