/* rules_lora.c - what train.lora goes with, and train.prompt. */
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

float sn_lora_scale(const struct sn_lora_config *l)
{
    return l->r > 0 ? (float)(l->alpha / l->r) : 0;
}

/* What adapters need, and do not go with yet; the model says which matrices there are. */
enum sn_status sn_rule_lora(const struct sn_config *c, const struct sn_settings *s,
                            struct sn_err *err)
{
    const struct sn_lora_config *l = &c->train.lora;
    if (l->r == 0 && (l->n_targets > 0 || l->base != SN_BASE_FULL || l->dropout > 0 ||
                      l->init_from[0] || sn_settings_get(s, "train.lora.alpha")))
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

/* --- prompts -------------------------------------------------------------------------------------- */

int sn_prompt_level(const struct sn_prompt_config *p, int layer)
{
    if (sn_prompt_positions(p) == 0)
        return -1;
    for (int i = 0; i < p->n_layers; i++)
        if (p->layers[i] == layer)
            return i;
    return p->n_layers == 0 && layer == 0 ? 0 : -1;
}

static enum sn_status layers_are_there(const struct sn_config *c, const struct sn_settings *s,
                                       struct sn_err *err)
{
    const struct sn_prompt_config *p = &c->train.prompt;
    for (int i = 0; i < p->n_layers; i++) {
        if (p->layers[i] >= c->model.layers)
            return sn_settings_fail(s, "train.prompt.layers", err,
                                    "%d is no layer of model.layers: %d; want 0 .. %d",
                                    p->layers[i], c->model.layers, c->model.layers - 1);
        if (i > 0 && p->layers[i] <= p->layers[i - 1])
            return sn_settings_fail(s, "train.prompt.layers", err,
                                    "%d behind %d; want each more than the one before",
                                    p->layers[i], p->layers[i - 1]);
    }
    return SN_OK;
}

/* Positions that have no meaning, or that nothing fills. */
static enum sn_status is_complete(const struct sn_config *c, const struct sn_settings *s,
                                  struct sn_err *err)
{
    const struct sn_prompt_config *p = &c->train.prompt;
    int n = sn_prompt_positions(p);
    if (n == 0 && (p->size > 0 || p->levels || p->n_layers > 0))
        return sn_settings_fail(s, "train.prompt", err,
                                "has no effect without positions; want train.prompt.soft or "
                                "train.prompt.rows, such as 1");
    if ((p->rows > 0) != (p->size > 0))
        return sn_settings_fail(s, "train.prompt", err,
                                "has rows: %d of size: %d; want both, or soft tokens alone",
                                p->rows, p->size);
    if (p->levels && p->rows == 0)
        return sn_settings_fail(s, "train.prompt.levels", err,
                                "has no effect without features; leave it out");
    if (n >= c->model.seq)
        return sn_settings_fail(s, "train.prompt", err,
                                "fills %d positions of a sample of model.seq: %d; want fewer", n,
                                c->model.seq);
    return SN_OK;
}

enum sn_status sn_rule_prompts(const struct sn_config *c, const struct sn_settings *s,
                               struct sn_err *err)
{
    SN_TRY(is_complete(c, s, err));
    if (sn_prompt_positions(&c->train.prompt) == 0)
        return SN_OK;
    SN_TRY(layers_are_there(c, s, err));
    if (c->train.n_freeze > 0)
        return sn_settings_fail(s, "train.freeze", err,
                                "has no effect beside train.prompt, which freezes all but prompts "
                                "and adapters; leave it out");
    if (c->data.curriculum.n_lengths > 0)
        return sn_settings_fail(s, "data.curriculum", err,
                                "cuts samples into pieces that do not see their prompt; leave it "
                                "out, or train.prompt");
    if (c->model.share_layers > 1)
        return sn_settings_fail(s, "train.prompt", err,
                                "with model.share_layers is not built yet; want 1");
    if (sn_config_exact(c))
        return sn_settings_fail(s, "train.prompt", err,
                                "with run.bits: all is not built yet; set run.bits: layout");
    return SN_OK;
}
