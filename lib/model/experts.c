/*
 * experts.c - a mixture of experts in place of the feed-forward part (Jiang et al., "Mixtral of
 * Experts", arXiv 2401.04088, 2.1).
 *
 *   y = sum over the k experts e of a token   w_e down_e(silu(gate_e x) * up_e x)
 *
 * with w the softmax, over the k largest, of the router's logits W x. The matrices of all experts
 * of a layer are one parameter, one expert's under the other's, so that they can be one operand;
 * its logical tensors are one expert's each and carry the expert's number.
 */
#include "lib/model/build.h"

#include <math.h>
#include <stdio.h>

static struct sn_param matrix(const struct sn_model_builder *b, int owner, const char *name,
                              int64_t cols)
{
    struct sn_param p = {
        .cols = cols, .init = SN_INIT_NORMAL, .std = (float)b->config->init_std, .decay = cols > 1};
    (void)snprintf(p.name, sizeof(p.name), "layers.%d.ffn.%s.weight", owner, name);
    return p;
}

static int gate_up(struct sn_model_builder *b, int owner)
{
    struct sn_param p = matrix(b, owner, "experts.gate_up", b->config->hidden);
    for (int e = 0; e < b->config->experts.count; e++) {
        sn_model_tensor(b, &p, b->config->ffn, "layers.%d.ffn.experts.%d.gate.weight", owner, e);
        sn_model_tensor(b, &p, b->config->ffn, "layers.%d.ffn.experts.%d.up.weight", owner, e);
    }
    return sn_model_param(b, &p);
}

static int down(struct sn_model_builder *b, int owner)
{
    struct sn_param p = matrix(b, owner, "experts.down", b->config->ffn);
    p.std = (float)(b->config->init_std / sqrt(2.0 * b->config->layers));
    for (int e = 0; e < b->config->experts.count; e++)
        sn_model_tensor(b, &p, b->config->hidden, "layers.%d.ffn.experts.%d.down.weight", owner, e);
    return sn_model_param(b, &p);
}

/* What the choice adds to an expert's probability; it begins at 0. */
static int bias(struct sn_model_builder *b, int owner)
{
    struct sn_param p = {.cols = 1, .init = SN_INIT_ZEROS, .is_bias = true};
    (void)snprintf(p.name, sizeof(p.name), "layers.%d.ffn.router.bias", owner);
    sn_model_tensor(b, &p, b->config->experts.count, "layers.%d.ffn.router.bias", owner);
    return sn_model_param(b, &p);
}

int64_t sn_expert_capacity(const struct sn_model_config *c)
{
    const struct sn_experts_config *x = &c->experts;
    if (x->capacity_factor <= 0)
        return 0;
    return (int64_t)ceil(x->capacity_factor * c->seq * x->top_k / x->count);
}

/* The value is the weights of a token's experts. */
static int router(struct sn_model_builder *b, int owner, int x)
{
    const struct sn_model_config *c = b->config;
    struct sn_param p = matrix(b, owner, "router", c->hidden);
    sn_model_tensor(b, &p, c->experts.count, "layers.%d.ffn.router.weight", owner);
    int w = sn_model_param(b, &p), routes = sn_model_value(b, c->experts.top_k);
    int choice = c->experts.bias == SN_BIAS_NONE ? -1 : bias(b, owner);
    struct sn_node *n = sn_model_node(b, SN_NODE_ROUTER, "l%d.ffn.router", b->layer);
    n->in[0] = x;
    n->out = routes;
    n->param[0] = w;
    n->param[1] = choice;
    n->attr.experts.count = c->experts.count;
    n->attr.random.jitter = (float)c->experts.jitter;
    n->attr.random.site = sn_model_site(b, 3);
    n->attr.experts.sparsemixer = c->experts.router == SN_ROUTER_SPARSEMIXER;
    n->attr.experts.dense = c->experts.router == SN_ROUTER_DENSE;
    n->attr.experts.sigmoid = c->experts.router == SN_ROUTER_SIGMOID;
    n->attr.experts.of_all = c->experts.unnormalised && (n->attr.experts.sigmoid ||
                                                         c->experts.router == SN_ROUTER_SOFTMAX);
    n->attr.experts.groups = c->experts.groups > 1 ? c->experts.groups : 0;
    n->attr.experts.top_groups = c->experts.groups > 1 ? c->experts.top_groups : 0;
    n->attr.experts.route_scale = c->experts.route_scale == 1 ? 0 : (float)c->experts.route_scale;
    n->attr.experts.range = (float)c->experts.mixer_range;
    n->attr.experts.aux_loss = (float)c->experts.aux_loss;
    n->attr.experts.by_sequence = c->experts.balance == SN_BALANCE_SEQUENCE && c->experts.aux_loss > 0;
    n->attr.experts.z_loss = (float)c->experts.z_loss;
    n->attr.experts.capacity = sn_expert_capacity(c);
    return routes;
}

int sn_experts_build(struct sn_model_builder *b, int owner, int x)
{
    int routes = router(b, owner, x);
    int first = gate_up(b, owner), second = down(b, owner);
    int y = sn_model_value(b, b->config->hidden);
    struct sn_node *n = sn_model_node(b, SN_NODE_EXPERTS, "l%d.ffn.experts", b->layer);
    n->in[0] = x;
    n->in[1] = routes;
    n->out = y;
    n->param[0] = first;
    n->param[1] = second;
    n->attr.experts.count = b->config->experts.count;
    return y;
}
