/*
 * rules_experts.c - what follows of model.experts from other keys, and the rules of experts.
 */
#include "lib/config/settings.h"

#include <string.h>

/* One way to say what is the same: a width of shared experts as a number of them, where it is one,
 * and the first layer that may have experts as the one behind the last group of `every`. */
enum sn_status sn_experts_derive(struct sn_model_config *m, const struct sn_settings *s,
                                 struct sn_err *err)
{
    struct sn_experts_config *x = &m->experts;
    bool gate = sn_family_traits(m->family)->shared_gate;
    if (!sn_settings_get(s, "model.experts.shared"))
        x->shared = gate || x->shared_ffn > 0;
    else if (gate && x->shared == 0)
        return sn_settings_fail(s, "model.experts.shared", err,
                                "0, but family %s has a gate over shared experts; want at least 1",
                                sn_family_name(m->family));
    if (x->shared_ffn > 0 && x->shared != 1)
        return sn_settings_fail(s, "model.experts.shared_ffn", err,
                                "is the width of all shared experts together; leave "
                                "model.experts.shared (%d) out, or this",
                                x->shared);
    if (x->shared_ffn > 0 && m->ffn > 0 && x->shared_ffn % m->ffn == 0) {
        x->shared = x->shared_ffn / m->ffn;
        x->shared_ffn = 0;
    }
    bool sigmoid = sn_family_traits(m->family)->sigmoid_router;
    if (!sn_settings_get(s, "model.experts.router"))
        x->router = sigmoid ? SN_ROUTER_SIGMOID : SN_ROUTER_SOFTMAX;
    if (!sn_settings_get(s, "model.experts.bias"))
        x->bias = sigmoid ? SN_BIAS_LOSS_FREE : SN_BIAS_NONE;
    if (!sn_settings_get(s, "model.experts.aux_loss"))
        x->aux_loss = x->router == SN_ROUTER_SIGMOID ? 0 : 0.01;
    if (x->groups == 1 && !sn_settings_own(s, "model.experts.top_groups"))
        x->top_groups = 1;
    x->from = x->count > 0 ? x->from / x->every * x->every : 0;
    return SN_OK;
}

static bool has_experts(enum sn_family f)
{
    return sn_family_traits(f)->experts;
}

/* What a preset brings may be more than its model needs, but what the run file says is meant; one that says
 * count: 0 itself, as a sweep does, knows that its model is dense. */
static enum sn_status dense_says_nothing(const struct sn_settings *s, struct sn_err *err)
{
    char names[SN_FAMILIES_SIZE];
    bool says_so = sn_settings_own(s, "model.experts.count");
    for (int i = 0; i < sn_n_keys && !says_so; i++) {
        const char *key = sn_keys[i].name;
        if (strncmp(key, "model.experts.", 14) == 0 && strcmp(key, "model.experts.count") != 0 &&
            sn_settings_own(s, key))
            return sn_settings_fail(s, key, err,
                                    "has no effect in a model without experts; set "
                                    "model.experts.count and family %s, or leave it out",
                                    sn_families_that(names, has_experts));
    }
    return SN_OK;
}

enum sn_status sn_rule_experts_family(const struct sn_config *c, const struct sn_settings *s,
                                      struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    const char *family = sn_family_name(m->family);
    char names[SN_FAMILIES_SIZE];
    if (has_experts(m->family) == (m->experts.count > 0))
        return m->experts.count > 0 ? SN_OK : dense_says_nothing(s, err);
    if (has_experts(m->family))
        return sn_settings_fail(s, "model.experts.count", err,
                                "missing; family %s wants a number of experts, such as 8", family);
    return sn_settings_fail(s, "model.experts.count", err,
                            "%d needs family %s, not %s; leave model.experts out", m->experts.count,
                            sn_families_that(names, has_experts), family);
}

/* The router of a family with sigmoids, and what routers of sigmoids and in groups go with. */
static enum sn_status router_fits(const struct sn_config *c, const struct sn_settings *s,
                                  struct sn_err *err)
{
    const struct sn_experts_config *x = &c->model.experts;
    const char *family = sn_family_name(c->model.family);
    bool sigmoid = x->router == SN_ROUTER_SIGMOID;
    char near[SN_NEAR_SIZE];
    if (sn_family_traits(c->model.family)->sigmoid_router && !sigmoid)
        return sn_settings_fail(s, "model.experts.router", err,
                                "family %s routes by sigmoids; want sigmoid, or leave it out",
                                family);
    if (sn_family_traits(c->model.family)->sigmoid_router && x->bias == SN_BIAS_NONE)
        return sn_settings_fail(s, "model.experts.bias", err,
                                "none, but routers of family %s have one; want loss-free, with "
                                "bias_rate: 0 for one that stays as it is",
                                family);
    if (sigmoid && x->z_loss > 0)
        return sn_settings_fail(s, "model.experts.z_loss", err,
                                "%g, but it is of a softmax, and this router is of sigmoids; want 0, and "
                                "aux_loss or bias: loss-free",
                                x->z_loss);
    if (!sigmoid && x->router != SN_ROUTER_SOFTMAX && (x->groups > 1 || x->route_scale != 1))
        return sn_settings_fail(s, x->groups > 1 ? "model.experts.groups" : "model.experts.route_scale",
                                err, "is built for router: softmax and sigmoid; want 1, or one of them");
    if (x->unnormalised && sn_settings_own(s, "model.experts.unnormalised") &&
        (x->router == SN_ROUTER_DENSE || x->router == SN_ROUTER_SPARSEMIXER))
        return sn_settings_fail(s, "model.experts.unnormalised", err,
                                "has no effect with router: %s; want router: softmax or sigmoid, or "
                                "leave it out",
                                x->router == SN_ROUTER_DENSE ? "dense" : "sparsemixer");
    if (x->count % x->groups)
        return sn_settings_fail(s, "model.experts.groups", err,
                                "%d does not divide model.experts.count (%d); nearest that do: %s",
                                x->groups, x->count, sn_near_divisors(near, x->count, x->groups));
    if (x->top_groups > x->groups)
        return sn_settings_fail(s, "model.experts.top_groups", err,
                                "%d is more than model.experts.groups (%d); want at most that",
                                x->top_groups, x->groups);
    if (x->count / x->groups * x->top_groups < x->top_k)
        return sn_settings_fail(s, "model.experts.top_groups", err,
                                "%d groups have %d experts, fewer than a token visits "
                                "(model.experts.top_k: %d); want more",
                                x->top_groups, x->count / x->groups * x->top_groups, x->top_k);
    return SN_OK;
}

enum sn_status sn_rule_experts(const struct sn_config *c, const struct sn_settings *s,
                               struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    const struct sn_experts_config *x = &m->experts;
    if (x->count == 0)
        return SN_OK;
    if (x->top_k > x->count)
        return sn_settings_fail(s, "model.experts.top_k", err,
                                "%d is more than model.experts.count (%d); want at most that",
                                x->top_k, x->count);
    if (x->every > m->layers)
        return sn_settings_fail(s, "model.experts.every", err,
                                "%d is more than model.layers (%d), so that no layer has experts; "
                                "want at most that",
                                x->every, m->layers);
    if (sn_expert_layers_before(m, m->layers) == 0)
        return sn_settings_fail(s, "model.experts.from", err,
                                "%d leaves no layer with experts, of %d (model.layers) every %d; "
                                "want less",
                                x->from, m->layers, x->every);
    SN_TRY(router_fits(c, s, err));
    if (x->router == SN_ROUTER_SPARSEMIXER && x->top_k > 2)
        return sn_settings_fail(s, "model.experts.top_k", err,
                                "%d, but a sparsemixer (model.experts.router) draws one expert or "
                                "two for a token; want 1 or 2, or router: softmax",
                                x->top_k);
    if (x->router == SN_ROUTER_SPARSEMIXER && x->bias != SN_BIAS_NONE)
        return sn_settings_fail(
            s, "model.experts.bias", err,
            "loss-free decides the choice that a sparsemixer (model.experts.router) "
            "draws; want bias: none, or router: softmax");
    if (x->router == SN_ROUTER_DENSE && x->capacity_factor > 0)
        return sn_settings_fail(s, "model.experts.capacity_factor", err,
                                "%g, but with router: dense every token visits all experts in "
                                "training; want 0, or router: softmax",
                                x->capacity_factor);
    if (x->router == SN_ROUTER_DENSE && x->balance != SN_BALANCE_BATCH)
        return sn_settings_fail(s, "model.experts.balance", err,
                                "sequence counts what a token visits, but with router: dense every one "
                                "visits all experts in training; want batch, or router: softmax");
    if (x->router == SN_ROUTER_DENSE && x->bias != SN_BIAS_NONE)
        return sn_settings_fail(s, "model.experts.bias", err,
                                "loss-free moves by what experts were chosen, but with router: "
                                "dense nothing is chosen in training; want bias: none, or router: "
                                "softmax");
    if (x->balance != SN_BALANCE_BATCH && x->aux_loss == 0 && sn_settings_own(s, "model.experts.balance"))
        return sn_settings_fail(s, "model.experts.balance", err,
                                "sequence is of the load-balancing loss, whose weight is 0; set "
                                "model.experts.aux_loss, such as 0.001, or leave it out");
    /* Counts of a step are fp32 sums, exact up to 2^24: one that is not is far above the mean. */
    int64_t mean = (int64_t)c->train.global_batch * m->seq * x->top_k / x->count;
    if (x->bias != SN_BIAS_NONE && mean > 1 << 24)
        return sn_settings_fail(s, "model.experts.bias", err,
                                "counts an expert's tokens of a step, at most %d on average, but "
                                "train.global_batch x model.seq x top_k / count is %lld; want fewer, or none",
                                1 << 24, (long long)mean);
    if (m->share_layers > 1 && sn_model_mixes_layers(m))
        return sn_settings_fail(s, "model.share_layers", err,
                                "%d would share weights between layers with and without experts "
                                "(model.experts.%s: %d); use %d for one of the two",
                                m->share_layers, x->every > 1 ? "every" : "from",
                                x->every > 1 ? x->every : x->from, x->every > 1);
    return SN_OK;
}
