/*
 * prompt.c - prompts that are learnt (Lester et al., arXiv 2104.08691; in front of several layers Liu et al.,
 * "P-tuning v2", arXiv 2110.07602), and features of another encoder beside them (Shukor et al., "eP-ALM",
 * arXiv 2303.11403):
 *
 *   h_l[i] = s_l[i]                 i < soft: tokens of the layer's own
 *   h_l[soft + i] = P f_l[i]        i < rows: features of the sample, by one projection for all layers
 *
 * in place of what was at the first positions of each sample. The layers are those of train.prompt; from
 * one of them to the next these positions are computed as all others are.
 */
#include "lib/model/build.h"

#include <math.h>
#include <stdio.h>

static int prompt(struct sn_model_builder *b, int x, struct sn_param *w, struct sn_prompt_attr at,
                  const char *what)
{
    w->decay = w->is_adapter = true;
    sn_model_tensor(b, w, b->config->hidden, "%s", w->name);
    int weight = sn_model_param(b, w);
    int y = sn_model_value(b, b->config->hidden);
    struct sn_node *n = sn_model_node(b, SN_NODE_PROMPT, "l%d.prompt.%s", b->layer, what);
    n->in[0] = x;
    n->out = y;
    n->param[0] = weight;
    n->attr.prompt = at;
    return y;
}

static int soft(struct sn_model_builder *b, int x)
{
    const struct sn_prompt_config *c = &b->train->prompt;
    struct sn_param w = {
        .cols = c->soft, .init = SN_INIT_NORMAL, .std = (float)b->config->init_std};
    (void)snprintf(w.name, sizeof(w.name), "layers.%d.prompt.soft", b->layer);
    return prompt(b, x, &w, (struct sn_prompt_attr){.rows = c->soft}, "soft");
}

/* `level`: which of train.prompt.layers this one is. */
static int features(struct sn_model_builder *b, int x, int level)
{
    const struct sn_prompt_config *c = &b->train->prompt;
    struct sn_param w = {.cols = c->size,
                         .name = "prompt.projection",
                         .init = SN_INIT_UNIFORM, /* as a linear map of PyTorch begins */
                         .std = (float)(1 / sqrt((double)c->size))};
    struct sn_prompt_attr at = {.first = c->soft,
                                .rows = c->rows,
                                .level = c->levels ? level : 0,
                                .levels = c->levels ? sn_prompt_layers(c) : 1};
    return prompt(b, x, &w, at, "features");
}

int sn_prompt_build(struct sn_model_builder *b, int x)
{
    const struct sn_prompt_config *c = &b->train->prompt;
    int level = sn_prompt_level(c, b->layer);
    if (level >= 0 && c->soft > 0)
        x = soft(b, x);
    return level >= 0 && c->rows > 0 ? features(b, x, level) : x;
}
