/* rules_lora.c - what train.lora goes with. */
#include "lib/config/settings.h"

const struct sn_codec *sn_lora_codec(const struct sn_lora_config *l)
{
    static const struct sn_codec of[] = {
        [SN_BASE_INT8] = {.kind = SN_CODEC_INT8},
        [SN_BASE_INT4] = {.kind = SN_CODEC_INT4},
        [SN_BASE_NF4] = {.kind = SN_CODEC_NF4},
    };
    return l->r == 0 || l->base == SN_BASE_FULL ? NULL : &of[l->base];
}

/* What adapters need, and do not go with yet; the model says which matrices there are. */
enum sn_status sn_rule_lora(const struct sn_config *c, const struct sn_settings *s,
                            struct sn_err *err)
{
    const struct sn_lora_config *l = &c->train.lora;
    if (l->r == 0 &&
        (l->n_targets > 0 || l->base != SN_BASE_FULL || sn_settings_get(s, "train.lora.alpha")))
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
    if (l->base != SN_BASE_FULL && c->model.experts.count > 0)
        return sn_settings_fail(s, "train.lora.base", err,
                                "with experts, whose matrices are not held as codes yet; set "
                                "train.lora.base: full");
    return SN_OK;
}

enum sn_status sn_rule_codes(const struct sn_config *c, const struct sn_settings *s,
                             struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    const struct sn_layout_config *l = &c->layout;
    const struct {
        const char *what;
        int cols, ways;
        const char *over;
    } of[] = {{"model.hidden", m->hidden, l->tensor_x, "tensor_x"},
              {"what heads give", sn_model_value_width(m), l->tensor, "tensor"},
              {"model.ffn", m->ffn, l->tensor, "tensor"},
              {"model.latent.kv_rank", m->latent.kv, l->tensor_x, "tensor_x"},
              {"model.latent.q_rank", m->latent.q, l->tensor_x, "tensor_x"}};
    for (size_t i = 0; sn_lora_codec(&c->train.lora) && i < sizeof(of) / sizeof(of[0]); i++)
        if (of[i].cols % (SN_CODEC_BLOCK * of[i].ways))
            return sn_settings_fail(
                s, "train.lora.base", err,
                "has blocks of %d columns, but a rank has %d / %d of %s (layout.%s: %d); want a "
                "multiple of %d of them, or train.lora.base: full",
                (int)SN_CODEC_BLOCK, of[i].cols, of[i].ways, of[i].what, of[i].over, of[i].ways,
                (int)SN_CODEC_BLOCK);
    return SN_OK;
}
