/*
 * estimate_net.c - how the groups of a grid lie on a machine, in one order of its axes or in all.
 */
#include "lib/base/mem.h"
#include "lib/cost/hops.h"
#include "lib/layout/axes.h"
#include "lib/layout/cut.h"
#include "lib/search/estimate_cache.h"

#include <math.h>
#include <string.h>

/* Are copies of experts neighbours? Irrelevant where experts are not shared out. */
static bool experts_apart(const struct sn_config *c)
{
    return sn_config_expert_members(c) > 1 && sn_experts_outside_data(&c->layout);
}

static int order_code(const struct sn_config *c)
{
    enum sn_axis order[SN_NGRID_AXES];
    int code = experts_apart(c);
    sn_axes_order(order, &c->layout);
    for (int i = 0; i < SN_NGRID_AXES; i++)
        code = code * 8 + (int)order[i];
    return code;
}

static void add_way(struct sn_net *n, enum sn_group q, const struct sn_span *span)
{
    for (int i = 0; i < n->ways[q]; i++)
        if (memcmp(&n->span[q][i], span, sizeof(*span)) == 0)
            return;
    n->span[q][n->ways[q]++] = *span;
}

static void add_hops(struct sn_net *n, const struct sn_estimator *e, const struct sn_grid *flat)
{
    struct sn_grid g = *flat;
    struct sn_net_hops hop;
    int named = e->config.layout.expert_node;
    g.expert_node = named ? named : sn_hops_even(e->machine, flat, NULL, 0);
    if (g.expert_node <= 1)
        return;
    memset(&hop, 0, sizeof(hop));
    sn_span_of(&hop.node, e->machine, &g, SN_GROUP_EXPERT_NODE);
    sn_span_of(&hop.rail, e->machine, &g, SN_GROUP_EXPERT_RAIL);
    for (int i = 0; i < n->hop_ways; i++)
        if (memcmp(&n->hop[i], &hop, sizeof(hop)) == 0)
            return;
    n->hop[n->hop_ways++] = hop;
}

/* Who shares experts out has no gaps: context and data, and tensor inside them where experts are
 * folded. */
static bool token_ranks_are_neighbours(const struct sn_net *n, const struct sn_grid *g)
{
    int next = n->key.fold > 1 ? g->stride[SN_AXIS_TENSOR] * g->size[SN_AXIS_TENSOR] : 0;
    int context = g->size[SN_AXIS_CONTEXT];
    if (context > 1) {
        if (next > 0 && g->stride[SN_AXIS_CONTEXT] != next)
            return false;
        next = n->key.expert > 1 || n->key.fold > 1 ? g->stride[SN_AXIS_CONTEXT] * context : 0;
    }
    return g->size[SN_AXIS_DATA] == 1 || next == 0 || g->stride[SN_AXIS_DATA] == next;
}

/* One order, and copies of experts apart or not. */
static enum sn_status add_one(struct sn_net *n, const struct sn_estimator *e,
                              const enum sn_axis order[SN_NGRID_AXES], bool apart,
                              struct sn_err *err)
{
    struct sn_grid g;
    int ranks = 1;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        ranks *= n->key.size[a];
    SN_TRY(sn_grid_init(&g, ranks, n->key.size, order, err));
    g.kv_copies = sn_kv_copies(&e->config.model, n->key.size[SN_AXIS_TENSOR]);
    g.experts = n->key.expert;
    g.experts_apart = apart;
    g.fold = n->key.fold;
    g.replica_node = n->key.zero_node;
    if (!token_ranks_are_neighbours(n, &g))
        return SN_OK; /* lib/config/rules_layout.c refuses it */
    for (int q = 0; q < SN_NGROUPS; q++) {
        struct sn_span span;
        memset(&span, 0, sizeof(span));
        sn_span_of(&span, e->machine, &g, (enum sn_group)q);
        n->members[q] = sn_group_size(&g, 0, (enum sn_group)q);
        add_way(n, (enum sn_group)q, &span);
    }
    if (n->key.expert > 1 && n->key.slices == 1)
        add_hops(n, e, &g);
    return SN_OK;
}

/* Without tensor_x, which is right behind tensor; or right before, where no experts are shared out. */
static enum sn_status add_order(struct sn_net *n, const struct sn_estimator *e,
                                const enum sn_axis without[SN_NGRID_AXES - 1], struct sn_err *err)
{
    enum sn_axis order[SN_NGRID_AXES];
    int at = 0, y = 0;
    for (int i = 0; i < SN_NGRID_AXES - 1; i++) {
        order[at++] = without[i];
        if (without[i] == SN_AXIS_TENSOR)
            order[y = at++] = SN_AXIS_TENSOR_X;
    }
    SN_TRY(add_one(n, e, order, false, err));
    if (n->key.expert > 1)
        return add_one(n, e, order, true, err);
    if (n->key.size[SN_AXIS_TENSOR_X] == 1)
        return SN_OK;
    order[y - 1] = SN_AXIS_TENSOR_X;
    order[y] = SN_AXIS_TENSOR;
    return add_one(n, e, order, false, err);
}

/* Every order of the axes from position `at` on; an axis of one rank may stay where it is. */
static enum sn_status add_orders(struct sn_net *n, const struct sn_estimator *e,
                                 enum sn_axis order[SN_NGRID_AXES - 1], int at, int axes,
                                 struct sn_err *err)
{
    if (at >= axes - 1)
        return add_order(n, e, order, err);
    for (int i = at; i < axes; i++) {
        enum sn_axis a = order[at];
        order[at] = order[i];
        order[i] = a;
        SN_TRY(add_orders(n, e, order, at + 1, axes, err));
        order[i] = order[at];
        order[at] = a;
    }
    return SN_OK;
}

static enum sn_status any_order(struct sn_net *n, const struct sn_estimator *e, struct sn_err *err)
{
    int size[SN_NGRID_AXES];
    enum sn_axis order[SN_NGRID_AXES - 1];
    int axes = 0, rest = SN_NGRID_AXES - 1;
    memcpy(size, n->key.size, sizeof(size));
    size[SN_AXIS_TENSOR] *= size[SN_AXIS_TENSOR_X];
    for (int a = SN_NGRID_AXES - 1; a >= 0; a--)
        if (size[a] == 1 && a != SN_AXIS_TENSOR_X)
            order[--rest] = (enum sn_axis)a;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        if (size[a] > 1 && a != SN_AXIS_TENSOR_X)
            order[axes++] = (enum sn_axis)a;
    return add_orders(n, e, order, 0, axes, err);
}

enum sn_status sn_net_cached(const struct sn_net **out, struct sn_estimator *e, bool any,
                             struct sn_err *err)
{
    const struct sn_layout_config *l = &e->config.layout;
    struct sn_net_key want = {.expert = sn_config_expert_members(&e->config),
                              .fold = sn_config_fold(&e->config),
                              .slices = sn_config_slices(&e->config),
                              .zero_node = sn_config_zero_node(&e->config),
                              .order = any ? -1 : order_code(&e->config)};
    unsigned hash =
        (unsigned)want.order * 7u + (unsigned)want.expert * 131u + (unsigned)want.fold * 11u;
    sn_axes_sizes(want.size, l);
    for (int a = 0; a < SN_NGRID_AXES; a++)
        hash = hash * 1009u + (unsigned)want.size[a];
    struct sn_net **row = &e->net[hash % SN_CACHE_ROWS];
    for (const struct sn_net *n = *row; n; n = n->next)
        if (memcmp(&n->key, &want, sizeof(want)) == 0) { /* ints alone */
            *out = n;
            return SN_OK;
        }
    struct sn_net *made = sn_alloc(sizeof(*made));
    if (!made)
        return sn_fail(err, SN_ENOMEM, "search: no memory for a grid");
    made->key = want;
    enum sn_axis order[SN_NGRID_AXES];
    sn_axes_order(order, l);
    enum sn_status st =
        any ? any_order(made, e, err) : add_one(made, e, order, experts_apart(&e->config), err);
    if (st != SN_OK) {
        sn_free(made);
        return st;
    }
    made->next = *row;
    *row = made;
    *out = made;
    return SN_OK;
}

/* An exchange of n elements for each of all members, or a gather of n from each. */
static double two_hops(struct sn_estimator *e, const struct sn_net *net, enum sn_collective kind,
                       int64_t n, enum sn_dtype dtype)
{
    double least = INFINITY;
    for (int i = 0; i < net->hop_ways; i++) {
        int node = net->hop[i].node.members, rail = net->hop[i].rail.members;
        e->pricer.span[SN_GROUP_EXPERT_NODE] = net->hop[i].node;
        e->pricer.span[SN_GROUP_EXPERT_RAIL] = net->hop[i].rail;
        int64_t first = kind == SN_ALL_TO_ALL ? n * rail : n;
        double here = sn_price_collective(&e->pricer, kind, first, dtype, SN_GROUP_EXPERT_NODE) +
                      sn_price_collective(&e->pricer, kind, n * node, dtype, SN_GROUP_EXPERT_RAIL);
        least = fmin(least, here);
    }
    return least;
}

double sn_net_price(struct sn_estimator *e, const struct sn_net *net, enum sn_collective kind,
                    int64_t n, enum sn_dtype dtype, enum sn_group q)
{
    double least = INFINITY;
    int named = e->config.layout.expert_node;
    /* tokens, or bounds: in the text in one hop */
    bool hops = q == SN_GROUP_EXPERT && net->hop_ways > 0 && named != 1;
    for (int i = 0; i < net->ways[q] && !(hops && named > 1); i++) {
        e->pricer.span[q] = net->span[q][i];
        least = fmin(least, sn_price_collective(&e->pricer, kind, n, dtype, q));
    }
    if (hops)
        least = fmin(least, two_hops(e, net, kind, n, dtype));
    return least * (1 - e->software->hidden[sn_group_axis(q)]);
}
