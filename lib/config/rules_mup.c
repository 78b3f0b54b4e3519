/*
 * rules_mup.c - what train.mup makes of the model: Yang et al., "Tensor Programs V", arXiv
 * 2203.03466, table 8, for Adam. With r = model.hidden / base_width:
 *
 *             matrices of layers    embeddings, vectors    head
 *   init      std / sqrt(r)         std                    std       lib/model/model.c
 *   rate      lr / r                lr                     lr        lib/program/shards.c
 *   logits    divided by r, scores times sqrt(base_head_dim) / head_dim: here
 *
 * so that at the base width everything is as without it.
 */
#include "lib/config/settings.h"

#include <math.h>

/* A key that is set here, where somebody has set it to something else. */
static enum sn_status set(double *at, double to, const char *key, const struct sn_settings *s,
                          struct sn_err *err)
{
    if (sn_settings_get(s, key) && *at > 0 && fabs(*at - to) > 1e-6 * to)
        return sn_settings_fail(s, key, err, "%g, but train.mup sets it to %g; leave it out", *at,
                                to);
    *at = to;
    return SN_OK;
}

static const char *obstacle(const struct sn_config *c)
{
    if (c->train.optimizer.kind == SN_OPTIMIZER_SGD)
        return "is for rates of Adam's kind, and optimizer sgd has others; use adamw or lion";
    if (c->model.experts.count > 0)
        return "with experts is not built yet; leave one of the two out";
    if (c->train.lora.r > 0)
        return "says nothing of adapters; leave train.lora or it out";
    if (sn_prompt_positions(&c->train.prompt) > 0)
        return "says nothing of prompts; leave train.prompt or it out";
    return NULL;
}

enum sn_status sn_mup_derive(struct sn_config *c, const struct sn_settings *s, struct sn_err *err)
{
    const struct sn_mup_config *u = &c->train.mup;
    struct sn_model_config *m = &c->model;
    if (u->base_width == 0 && u->base_head_dim > 0)
        return sn_settings_fail(s, "train.mup.base_head_dim", err,
                                "has no effect without train.mup.base_width; set it, or leave it "
                                "out");
    if (u->base_width == 0)
        return SN_OK;
    if (obstacle(c))
        return sn_settings_fail(s, "train.mup", err, "%s", obstacle(c));
    int d = m->head_dim > 0 ? m->head_dim : m->hidden / m->heads;
    SN_TRY(set(&m->logits_divisor, (double)m->hidden / u->base_width, "model.logits_divisor", s,
               err));
    if (u->base_head_dim == 0 || u->base_head_dim == d || d == 0)
        return SN_OK;
    return set(&m->attention_scale, sqrt((double)u->base_head_dim) / d, "model.attention_scale", s,
               err);
}
