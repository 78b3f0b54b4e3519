/*
 * rules_layout.c - the rules between the layout's keys, and between the layout and the model.
 *
 * What depends on the number of ranks is in ranks.c; an omitted layout.data counts as 1 here, which
 * is necessary for every other number. The vocabulary and the feed-forward width need not be
 * multiples of anything: their shards are padded.
 */
#include "lib/config/batch.h"
#include "lib/config/settings.h"

#include <limits.h>
#include <stdio.h>

/* --- the axes --------------------------------------------------------------------------------- */

/* Everything later multiplies the axes without a thought of overflow. */
static enum sn_status ranks_are_countable(const struct sn_config *c, const struct sn_settings *s,
                                          struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int data = l->data ? l->data : 1, ranks;
    if (!__builtin_mul_overflow(l->tensor, l->context, &ranks) &&
        !__builtin_mul_overflow(ranks, l->tensor_x, &ranks) &&
        !__builtin_mul_overflow(ranks, l->pipeline, &ranks) &&
        !__builtin_mul_overflow(ranks, data, &ranks))
        return SN_OK;
    return sn_settings_fail(s, "layout", err,
                            "data %d x tensor %d x tensor_x %d x context %d x pipeline %d is more "
                            "than %d ranks; want fewer",
                            data, l->tensor, l->tensor_x, l->context, l->pipeline, INT_MAX);
}

static bool tensor_fits_heads(const struct sn_config *c, int tensor)
{
    const struct sn_model_config *m = &c->model;
    bool copied = tensor % m->kv_heads == 0 && !sn_family_traits(m->family)->wide_norms;
    return m->heads % tensor == 0 && (m->kv_heads % tensor == 0 || copied);
}

/* A rank has whole heads; fewer key and value heads than ranks are copied, equally often. */
static enum sn_status tensor_divides_heads(const struct sn_config *c, const struct sn_settings *s,
                                           struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    int tensor = c->layout.tensor;
    char near[SN_NEAR_SIZE];
    if (tensor_fits_heads(c, tensor))
        return SN_OK;
    (void)sn_near_that_fit(near, c, tensor_fits_heads, tensor, m->heads);
    if (m->heads % tensor != 0)
        return sn_settings_fail(s, "layout.tensor", err,
                                "%d does not divide model.heads (%d); nearest that work: %s",
                                tensor, m->heads, near);
    if (sn_family_traits(m->family)->wide_norms)
        return sn_settings_fail(s, "layout.tensor", err,
                                "%d does not divide model.kv_heads (%d), of which %s has a norm "
                                "over all; nearest that work: %s",
                                tensor, m->kv_heads, sn_family_name(m->family), near);
    return sn_settings_fail(s, "layout.tensor", err,
                            "%d neither divides model.kv_heads (%d) nor is a multiple of it; "
                            "nearest that work: %s",
                            tensor, m->kv_heads, near);
}

/* All-to-all: for the time of the attention a rank has whole sequences of fewer heads. */
static bool exchange_fits(const struct sn_config *c, int tensor, int context)
{
    int64_t both = (int64_t)tensor * context;
    return context == 1 || c->layout.context_kind == SN_CONTEXT_RING ||
           (c->model.heads % both == 0 && c->model.kv_heads % both == 0);
}

/* Ring: a rank holds an early and a late piece of the sequence, to share the causal work fairly. */
static bool context_fits(const struct sn_config *c, int context)
{
    bool ring = c->layout.context_kind == SN_CONTEXT_RING;
    return context == 1 || (c->model.seq % ((ring ? 2 : 1) * (int64_t)context) == 0 &&
                            exchange_fits(c, c->layout.tensor, context));
}

static enum sn_status context_divides(const struct sn_config *c, const struct sn_settings *s,
                                      struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    int context = c->layout.context, tensor = c->layout.tensor;
    char near[SN_NEAR_SIZE];
    if (context_fits(c, context))
        return SN_OK;
    (void)sn_near_that_fit(near, c, context_fits, context, m->seq);
    if (c->layout.context_kind == SN_CONTEXT_RING)
        return sn_settings_fail(s, "layout.context", err,
                                "2 x %d does not divide model.seq (%d), as context_kind ring "
                                "needs; nearest that work: %s",
                                context, m->seq, near);
    if (m->seq % context != 0)
        return sn_settings_fail(s, "layout.context", err,
                                "%d does not divide model.seq (%d); nearest that work: %s", context,
                                m->seq, near);
    bool queries = m->heads % ((int64_t)tensor * context) != 0;
    return sn_settings_fail(s, "layout.context", err,
                            "tensor x context (%d x %d) does not divide model.%s (%d), as "
                            "context_kind all-to-all needs; nearest that work: %s",
                            tensor, context, queries ? "heads" : "kv_heads",
                            queries ? m->heads : m->kv_heads, near);
}

static bool tensor_fits_tokens(const struct sn_config *c, int tensor)
{
    return tensor_fits_heads(c, tensor) && exchange_fits(c, tensor, c->layout.context) &&
           sn_config_tokens(c) % tensor == 0;
}

static enum sn_status tensor_divides_tokens(const struct sn_config *c, const struct sn_settings *s,
                                            struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    char near[SN_NEAR_SIZE];
    if (!l->sequence_parallel || sn_config_tokens(c) % l->tensor == 0)
        return SN_OK;
    return sn_settings_fail(
        s, "layout.tensor", err,
        "%d does not divide micro_batch x seq / context (%d x %d / %d), as sequence_parallel "
        "needs; nearest that work: %s, or sequence_parallel: false",
        l->tensor, l->micro_batch, c->model.seq, l->context,
        sn_near_that_fit(near, c, tensor_fits_tokens, l->tensor, c->model.heads));
}

/* Where all experts compute all tokens, no rows travel: in two hops, or the same ones. */
static enum sn_status dense_exchanges_nothing(const struct sn_config *c,
                                              const struct sn_settings *s, struct sn_err *err)
{
    if (c->model.experts.router != SN_ROUTER_DENSE)
        return SN_OK;
    if (c->layout.expert_node > 1)
        return sn_settings_fail(s, "layout.expert_node", err,
                                "%d exchanges rows in two hops, but with model.experts.router: "
                                "dense tokens are gathered; want 1 or auto",
                                c->layout.expert_node);
    if (c->layout.expert_chunks > 1)
        return sn_settings_fail(s, "layout.expert_chunks", err,
                                "%d exchanges rows in parts, but with model.experts.router: dense "
                                "tokens are gathered; want 1 or auto",
                                c->layout.expert_chunks);
    if (c->layout.drop_duplicates != SN_DUPLICATES_DROPPED)
        return SN_OK;
    return sn_settings_fail(s, "layout.drop_duplicates", err,
                            "true drops copies of rows that are exchanged, but with "
                            "model.experts.router: dense tokens are gathered; want false");
}

static enum sn_status exchange_fits_delayed_weights(const struct sn_config *c,
                                                    const struct sn_settings *s, struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    bool shared_out = l->expert > 1, both = shared_out && sn_config_slices(c) > 1;
    if (!sn_schedule_traits(l->schedule)->delays_weights ||
        !sn_gradients_are_temporary(sn_zero_holding(l->zero)) || sn_config_expert_members(c) == 1)
        return SN_OK;
    return sn_settings_fail(s, shared_out ? "layout.expert" : "layout.expert_tensor", err,
                            "%d with schedule %s and zero %d is not built yet; use %s"
                            "zero 0 or 1, or " SN_SCHEDULE_DEFAULT_NAME,
                            shared_out ? l->expert : l->expert_tensor,
                            sn_schedule_names[l->schedule], l->zero, both ? "" : "1, ");
}

/* Experts are shared out over the replicas: those of one sequence, then those of others. */
static enum sn_status experts_are_shared_out(const struct sn_config *c, const struct sn_settings *s,
                                             struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int experts = c->model.experts.count, at[SN_NORDER_AXES] = {0}, n = 0;
    char near[SN_NEAR_SIZE];
    if (l->expert == 1)
        return SN_OK;
    if (experts == 0)
        return sn_settings_fail(s, "layout.expert", err,
                                "%d needs a model with experts (model.experts.count); use 1",
                                l->expert);
    if (experts % l->expert != 0)
        return sn_settings_fail(s, "layout.expert", err,
                                "%d does not divide model.experts.count (%d); nearest that do: %s",
                                l->expert, experts, sn_near_divisors(near, experts, l->expert));
    if (l->expert_node > 1 && (l->expert % l->expert_node != 0 || l->expert_node == l->expert))
        return sn_settings_fail(s, "layout.expert_node", err,
                                "%d does not divide layout.expert (%d) among several nodes; want a "
                                "smaller divisor of it, 1 for one exchange, or auto",
                                l->expert_node, l->expert);
    for (int i = 0; i < l->n_axis_order; i++) /* without the expert axis */
        at[l->axis_order[i]] = l->axis_order[i] == SN_ORDER_EXPERT ? n : n++;
    if (l->context > 1 && at[SN_ORDER_DATA_AXIS] != at[SN_ORDER_CONTEXT] + 1)
        return sn_settings_fail(s, "layout.axis_order", err,
                                "experts are shared out over data and context (layout.expert: %d); "
                                "name data right after context",
                                l->expert);
    return SN_OK;
}

/* Ranks that share an expert's matrices. */
static int expert_tensor(const struct sn_layout_config *l)
{
    return l->expert_tensor > 0 ? l->expert_tensor : l->tensor;
}

int sn_config_fold(const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    bool split = l->expert_tokens == SN_TOKENS_SPLIT && l->expert > 1;
    bool own = split || expert_tensor(l) < l->tensor;
    return own && c->model.experts.count > 0 ? l->tensor : 1;
}

int sn_config_slices(const struct sn_config *c)
{
    return sn_config_fold(c) > 1 ? expert_tensor(&c->layout) : 1;
}

int sn_config_expert_members(const struct sn_config *c)
{
    return c->layout.expert * sn_config_slices(c);
}

/* Numbers of the ranks that have tokens of their own have no gaps: tensor, context, data. */
static bool token_ranks_are_neighbours(const struct sn_layout_config *l)
{
    static const enum sn_order_axis inwards[] = {SN_ORDER_TENSOR, SN_ORDER_CONTEXT,
                                                 SN_ORDER_DATA_AXIS};
    int at = 0;
    for (int i = 0; i < l->n_axis_order && at < 3; i++) {
        if (l->axis_order[i] == SN_ORDER_EXPERT || l->axis_order[i] == SN_ORDER_TENSOR_X ||
            (l->axis_order[i] == SN_ORDER_PIPELINE && (at == 0 || l->pipeline == 1)))
            continue;
        if (l->axis_order[i] == SN_ORDER_CONTEXT && l->context == 1)
            continue;
        at += inwards[at] == SN_ORDER_CONTEXT && l->context == 1;
        if (l->axis_order[i] != inwards[at++])
            return false;
    }
    return true;
}

static enum sn_status expert_tensor_fits(const struct sn_config *c, const struct sn_settings *s,
                                         struct sn_err *err)
{
    static const char key[] = "layout.expert_tensor";
    const struct sn_layout_config *l = &c->layout;
    int cut = expert_tensor(l);
    char near[SN_NEAR_SIZE];
    if (cut != l->tensor && c->model.experts.count == 0)
        return sn_settings_fail(
            s, key, err, "%d needs a model with experts (model.experts.count); leave it out", cut);
    if (l->tensor % cut != 0)
        return sn_settings_fail(s, key, err,
                                "%d does not divide layout.tensor (%d); nearest that do: %s", cut,
                                l->tensor, sn_near_divisors(near, l->tensor, cut));
    return SN_OK;
}

/* Experts whose tokens are routed by the tensor rank that has them. */
static enum sn_status own_tokens_fit(const struct sn_config *c, const struct sn_settings *s,
                                     struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    bool fewer = expert_tensor(l) < l->tensor;
    const char *key = fewer ? "layout.expert_tensor" : "layout.expert_tokens";
    char value[16] = "split";
    if (sn_config_fold(c) == 1)
        return SN_OK;
    if (fewer)
        (void)snprintf(value, sizeof(value), "%d", l->expert_tensor);
    if (!l->sequence_parallel)
        return sn_settings_fail(s, key, err,
                                "%s needs sequence_parallel: true, by which tensor ranks (%d) have "
                                "tokens of their own",
                                value, l->tensor);
    if (l->expert_node > 1 && l->expert > 1 && sn_config_slices(c) > 1)
        return sn_settings_fail(s, "layout.expert_node", err,
                                "%d hops by way of ranks that hold other slices of experts (%s: "
                                "%s), which is not built yet; use 1",
                                l->expert_node, key, value);
    if (!token_ranks_are_neighbours(l))
        return sn_settings_fail(s, "layout.axis_order", err,
                                "experts are shared out over tensor, context and data (%s: %s); "
                                "name these in this order, one right after the other",
                                key, value);
    return SN_OK;
}

/* A tile is as many blocks of the gradient norm (SQ_NORM), so that the sum has the same order. */
static enum sn_status tile_is_whole_blocks(const struct sn_config *c, const struct sn_settings *s,
                                           struct sn_err *err)
{
    int64_t tile = c->layout.optimizer_tile;
    char near[SN_NEAR_SIZE];
    if (tile % SN_TILE_VALUES == 0)
        return SN_OK;
    return sn_settings_fail(s, "layout.optimizer_tile", err,
                            "%lld is not a multiple of %d values; nearest that are: %s",
                            (long long)tile, SN_TILE_VALUES,
                            sn_near_multiples(near, SN_TILE_VALUES, tile));
}

/* Gradients that are reduced for each micro-batch are summed in fp32. */
static enum sn_status gradients_fit_zero(const struct sn_config *c, const struct sn_settings *s,
                                         struct sn_err *err)
{
    if (c->train.grad_dtype == SN_F32 ||
        !sn_gradients_are_temporary(sn_zero_holding(c->layout.zero)))
        return SN_OK;
    return sn_settings_fail(s, "train.grad_dtype", err,
                            "%s with layout.zero %d is not built yet; use fp32, or zero 0 or 1",
                            sn_dtype_name(c->train.grad_dtype), c->layout.zero);
}

/* --- the pipeline ----------------------------------------------------------------------------- */

static enum sn_status stages_have_layers(const struct sn_config *c, const struct sn_settings *s,
                                         struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int layers = c->model.layers;
    if (l->pipeline > layers)
        return sn_settings_fail(s, "layout.pipeline", err,
                                "%d is more than model.layers (%d); want at most that", l->pipeline,
                                layers);
    if ((int64_t)l->pipeline * l->virtual_stages > layers)
        return sn_settings_fail(s, "layout.virtual_stages", err,
                                "pipeline x virtual_stages (%d x %d) is more than model.layers "
                                "(%d); want at most %d virtual stage%s",
                                l->pipeline, l->virtual_stages, layers, layers / l->pipeline,
                                layers / l->pipeline == 1 ? "" : "s");
    return SN_OK;
}

static enum sn_status schedule_has_virtual_stages(const struct sn_config *c,
                                                  const struct sn_settings *s, struct sn_err *err)
{
    char have[SN_SCHEDULES_SIZE];
    const struct sn_layout_config *l = &c->layout;
    if (l->virtual_stages > 1 && l->pipeline == 1)
        return sn_settings_fail(s, "layout.virtual_stages", err,
                                "%d needs layout.pipeline of at least 2; use 1", l->virtual_stages);
    if (l->virtual_stages == 1 || sn_schedule_traits(l->schedule)->virtual_stages)
        return SN_OK;
    (void)sn_schedules_with_virtual_stages(have);
    return sn_settings_fail(s, "layout.virtual_stages", err,
                            "%d needs schedule %s, not %s; use 1 or schedule: %s",
                            l->virtual_stages, have, sn_schedule_names[l->schedule], have);
}

/* Some schedules take micro-batches in groups, one for each stage. */
static enum sn_status micro_batches_make_groups(const struct sn_config *c,
                                                const struct sn_settings *s, struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int data = l->data ? l->data : 1;
    int64_t group = (int64_t)data * l->micro_batch * l->pipeline;
    char near[SN_NEAR_SIZE];
    int size = sn_batch_misfit(&c->train, group);
    if (!sn_schedule_traits(l->schedule)->whole_groups || size == 0)
        return SN_OK;
    return sn_settings_fail(s, sn_batch_key(&c->train, size), err,
                            "%d is not a multiple of data x micro_batch x pipeline (%d x %d x %d), "
                            "as schedule %s needs; nearest that are: %s",
                            size, data, l->micro_batch, l->pipeline,
                            sn_schedule_names[l->schedule], sn_near_multiples(near, group, size));
}

/* ", such as [3, 3, 2]" for as many stage modules as a sentence holds. */
static const char *split_example(char buf[SN_WANT_SIZE], int layers, int modules)
{
    int len = 0;
    buf[0] = '\0';
    if (modules > 16)
        return buf;
    for (int i = 0; i < modules; i++)
        len += snprintf(buf + len, SN_WANT_SIZE - (size_t)len, "%s%d", i ? ", " : ", such as [",
                        layers / modules + (i < layers % modules));
    (void)snprintf(buf + len, SN_WANT_SIZE - (size_t)len, "]");
    return buf;
}

static enum sn_status split_covers_layers(const struct sn_config *c, const struct sn_settings *s,
                                          struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int modules = l->pipeline * l->virtual_stages, layers = 0;
    char example[SN_WANT_SIZE];
    for (int i = 0; i < l->n_split; i++)
        layers += l->split[i];
    if (l->n_split == 0 || (l->n_split == modules && layers == c->model.layers))
        return SN_OK;
    (void)split_example(example, c->model.layers, modules);
    if (l->n_split != modules)
        return sn_settings_fail(s, "layout.split", err,
                                "%d number%s, but pipeline x virtual_stages is %d x %d; want "
                                "%d%s, or auto",
                                l->n_split, l->n_split == 1 ? "" : "s", l->pipeline,
                                l->virtual_stages, modules, example);
    return sn_settings_fail(s, "layout.split", err,
                            "the sum is %d, but model.layers is %d; want that sum%s, or auto",
                            layers, c->model.layers, example);
}

/* Layers that share weights would lie on different ranks. */
static enum sn_status shared_layers_stay_together(const struct sn_config *c,
                                                  const struct sn_settings *s, struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    if (c->model.share_layers == 1 || l->pipeline * l->virtual_stages == 1)
        return SN_OK;
    return sn_settings_fail(s, "model.share_layers", err,
                            "%d needs a whole model on each rank, but pipeline x virtual_stages is "
                            "%d x %d; use 1, or 1 for both of those",
                            c->model.share_layers, l->pipeline, l->virtual_stages);
}

enum sn_status sn_rules_layout(const struct sn_config *c, const struct sn_settings *s,
                               struct sn_err *err)
{
    static sn_rule *const rules[] = {
        ranks_are_countable,
        tensor_divides_heads,
        sn_rule_tensor_x,
        context_divides,
        tensor_divides_tokens,
        sn_rule_tensor_pieces,
        sn_rule_codes,
        expert_tensor_fits,
        experts_are_shared_out,
        own_tokens_fit,
        tile_is_whole_blocks,
        gradients_fit_zero,
        stages_have_layers,
        schedule_has_virtual_stages,
        micro_batches_make_groups,
        split_covers_layers,
        shared_layers_stay_together,
        dense_exchanges_nothing,
        exchange_fits_delayed_weights,
        sn_rule_low_rank,
        sn_rule_feedback,
        sn_rule_difference,
        sn_rule_rows,
        sn_rule_replica_node,
        sn_rule_zero_node,
        sn_rule_zero_cache,
        sn_rule_bits,
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        SN_TRY(rules[i](c, s, err));
    return SN_OK;
}
