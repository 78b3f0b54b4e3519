#include "lib/search/estimate.h"

#include "lib/base/mem.h"
#include "lib/layout/cut.h"
#include "lib/layout/split.h"
#include "lib/search/bound.h"
#include "lib/search/estimate_inner.h"

#include <math.h>
#include <string.h>

static bool is_first(int module)
{
    return module == 0;
}

static bool is_last(const struct sn_estimation *k, int module)
{
    return module == k->modules - 1;
}

static double comm(const struct sn_estimation *k, enum sn_collective kind, int64_t n,
                   enum sn_dtype dtype, enum sn_group q)
{
    return sn_net_price(k->e, k->net, kind, n, dtype, q);
}

/* --- segments and the pipeline ---------------------------------------------------------------- */

struct sn_extent sn_module_extent(const struct sn_estimation *k, int module)
{
    struct sn_extent x = sn_extent_of(k->e->of, k->begin[module], k->layers[module]);
    x.first = is_first(module);
    x.last = is_last(k, module);
    x.keeps = k->keeps ? k->e->keeps + sn_keeps_at(k, module) : NULL;
    return x;
}

/* As many layers, of the same kinds, and the same of them keep weights; neither is the first. */
static bool like_the_module_before(const struct sn_estimation *k, int i)
{
    bool alike = k->layers[i] == k->layers[i - 1] &&
                 sn_module_extent(k, i).begin == sn_module_extent(k, i - 1).begin;
    const unsigned char *keeps = k->e->keeps + sn_keeps_at(k, i);
    return alike && (!k->keeps || memcmp(keeps, keeps - k->layers[i], (size_t)k->layers[i]) == 0);
}

/* What codecs add to a task whose values come from another stage or go to one. */
static double wires(const struct sn_estimation *k, enum sn_phase phase, int module)
{
    bool before = module > 0, behind = module < k->modules - 1;
    if (phase == SN_PHASE_FORWARD)
        return behind * k->wire.encode + before * k->wire.decode;
    before = module > k->still;
    behind = behind && module >= k->still;
    return phase == SN_PHASE_BACKWARD ? before * k->wire.encode + behind * k->wire.decode : 0;
}

/* Of these, what may pass while reductions are waited for, which takes `after` seconds: what is
 * sent is encoded before. */
static double hidden(const struct sn_estimation *k, enum sn_phase phase, int module, double after)
{
    return phase == SN_PHASE_BACKWARD && module > k->still ? fmin(after, k->wire.encode) : 0;
}

static void fill_wire(struct sn_estimation *k)
{
    k->wire = (struct sn_coded_reduction){0};
    if (k->pipe.stages == 1)
        return;
    if (k->l->compress.coding[SN_CODED_PIPELINE].on)
        sn_coded_transfer(&k->wire, k->e, k->net, k->shape->sent);
    else
        k->wire.exchange =
            comm(k, SN_SEND, k->shape->sent, k->e->config.train.precision, SN_GROUP_PIPELINE);
}

static void fill_cost(struct sn_estimation *k, int i)
{
    const struct sn_layer_profile *s = k->shape;
    struct sn_extent x = sn_module_extent(k, i);
    double waits;
    k->forward[i] = sn_layer_profile_segment(s, k->prices, SN_PASS_FORWARD, &x, &waits) +
                    k->e->software->layer_fixed * x.layers + wires(k, SN_PHASE_FORWARD, i);
    k->backward[i] = sn_layer_profile_segment(s, k->prices, SN_PASS_BACKWARD, &x, &k->after[i]) +
                     wires(k, SN_PHASE_BACKWARD, i);
    double meanwhile = hidden(k, SN_PHASE_BACKWARD, i, k->after[i]);
    k->first[i] = fmax(0, sn_keeps_first(k, &x) - k->forward[i]);
    k->backward[i] -= meanwhile;
    k->after[i] -= meanwhile;
    k->weight[i] =
        s->key.split ? sn_layer_profile_segment(s, k->prices, SN_PASS_WEIGHT, &x, &waits) : 0;
    if (sn_delays_weights(k))
        return;
    k->backward[i] += k->weight[i]; /* at once, behind the send */
    k->after[i] += k->weight[i];
    k->weight[i] = 0;
}

static void fill_costs(struct sn_estimation *k)
{
    for (int i = 0; i < k->modules; i++) {
        if (i < 2 || is_last(k, i) || !like_the_module_before(k, i)) {
            fill_cost(k, i);
            continue;
        }
        k->forward[i] = k->forward[i - 1];
        k->backward[i] = k->backward[i - 1];
        k->weight[i] = k->weight[i - 1];
        k->after[i] = k->after[i - 1];
        k->first[i] = k->first[i - 1];
    }
}

/* What stage s holds: its virtual stages from the last one's last layer on. */
struct sn_inventory_key sn_stage_stock(const struct sn_estimation *k, int s)
{
    struct sn_inventory_key g = {.apart = k->pipe.stages > 1,
                                 .replicas = k->members,
                                 .zero_node = sn_config_zero_node(&k->e->config),
                                 .copies = k->net->members[SN_GROUP_EXPERT_DATA],
                                 .held = k->held};
    unsigned char *kind = k->e->kinds;
    for (int v = k->pipe.virtual_stages - 1; v >= 0; v--) {
        struct sn_extent x = sn_module_extent(k, v * k->pipe.stages + s);
        g.x.layers += x.layers;
        for (int at = 0; at < SN_NPLACES; at++)
            g.x.of[at] += x.of[at];
        g.x.first = g.x.first || x.first;
        g.x.last = g.x.last || x.last;
        for (int i = x.layers - 1; i >= 0 && sn_kinds_mix(k->e->of); i--)
            *kind++ = (unsigned char)sn_extent_place(&x, k->e->of, i);
    }
    g.kinds = sn_kinds_mix(k->e->of) ? k->e->kinds : NULL;
    return g;
}

enum sn_status sn_stage_cost(struct sn_estimation *k, int s, struct sn_inventory_cost *out,
                             struct sn_err *err)
{
    struct sn_inventory_key key = sn_stage_stock(k, s);
    return sn_inventory_cost(out, k->e, k->shape, k->net, &key, s, err);
}

/* Middle stages with as many layers are one. */
static bool like_the_one_before(const struct sn_estimation *k, int s)
{
    for (int v = 0; v < k->pipe.virtual_stages; v++)
        if (s < 1 || !like_the_module_before(k, v * k->pipe.stages + s))
            return false;
    return s > 1 && s < k->pipe.stages - 1;
}

/* A task of bound.h; units of a stage are those of its last virtual stage first. */
static struct sn_task_time play_task(const void *context, enum sn_phase phase, int module,
                                     bool last, double busy)
{
    const struct sn_estimation *k = context;
    struct sn_extent x = sn_module_extent(k, module);
    enum sn_pass pass = phase == SN_PHASE_FORWARD    ? SN_PASS_FORWARD
                        : phase == SN_PHASE_BACKWARD ? SN_PASS_BACKWARD
                                                     : SN_PASS_WEIGHT;
    bool posts = last && (phase == sn_schedule_last_phase(&k->pipe) ||
                          (phase == SN_PHASE_FORWARD && x.last));
    struct sn_layer_profile_end e = sn_layer_profile_busy(k->shape, k->prices, pass, &x,
                                                          posts ? k->reduce[module] : NULL, busy);
    double after = e.kernels - e.sent, more = wires(k, phase, module);
    double meanwhile = hidden(k, phase, module, after);
    after -= meanwhile;
    more -= meanwhile;
    if (phase == SN_PHASE_FORWARD)
        e.kernels += k->e->software->layer_fixed * x.layers;
    return (struct sn_task_time){e.kernels + more, fmax(e.collectives, e.kernels + more), after};
}

static void fill_last(struct sn_estimation *k, int s, const struct sn_inventory_cost *cost)
{
    for (int v = k->pipe.virtual_stages - 1, unit = 0; v >= 0; v--) {
        int i = v * k->pipe.stages + s;
        struct sn_extent x = sn_module_extent(k, i);
        k->reduce[i] = cost->reduce + unit;
        double busy = 0;
        if (x.last && !sn_schedule_traits(k->pipe.kind)
                           ->sweeps) { /* the backward follows its forward at once */
            struct sn_task_time f = play_task(k, SN_PHASE_FORWARD, i, true, 0);
            busy = fmax(0, f.collectives - f.kernels);
        }
        struct sn_task_time e = play_task(k, SN_PHASE_BACKWARD, i, true, busy);
        k->extra[i] = fmax(0, e.kernels - e.after - (k->backward[i] - k->after[i]));
        if (sn_delays_weights(k))
            e = play_task(k, SN_PHASE_WEIGHT, i, true, 0);
        k->stream[i] = e.collectives;
        unit += x.layers + x.first + x.last;
    }
}

static enum sn_status fill_lasts(struct sn_estimation *k, struct sn_err *err)
{
    struct sn_inventory_cost cost = {0};
    k->posts =
        !sn_gradients_are_temporary(k->held) && k->members > 1 && k->e->software->data_overlaps;
    for (int i = 0; i < k->modules; i++)
        k->extra[i] = k->stream[i] = 0;
    for (int s = 0; k->posts && s < k->pipe.stages; s++) {
        if (!like_the_one_before(k, s)) {
            SN_TRY(sn_stage_cost(k, s, &cost, err));
            fill_last(k, s, &cost);
        } else
            for (int v = 0; v < k->pipe.virtual_stages; v++) {
                int i = v * k->pipe.stages + s;
                k->extra[i] = k->extra[i - 1];
                k->stream[i] = k->stream[i - 1];
                k->reduce[i] = k->reduce[i - 1];
            }
    }
    return SN_OK;
}

static enum sn_status pipeline(struct sn_estimation *k, bool played, struct sn_err *err)
{
    struct sn_module_costs c = {.forward = k->forward,
                                .backward = k->backward,
                                .weight = k->weight,
                                .after = k->after,
                                .extra = k->extra,
                                .first = k->keeps ? k->first : NULL};
    c.transfer = k->wire.exchange;
    c.still = k->still;
    for (int s = 0; s < k->pipe.stages; s++)
        k->done[s] = 0;
    k->played = played;
    if (played)
        return sn_pipeline_play(k->end, k->done, &k->pipe, &c, k->posts ? play_task : NULL, k, err);
    sn_pipeline_bound(k->end, &k->pipe, &c);
    return SN_OK;
}

/* --- the end of the step ---------------------------------------------------------------------- */

/* When stage s has the sums of its gradients. */
static double reduced(const struct sn_estimation *k, int s, const struct sn_inventory_cost *cost)
{
    int v = k->pipe.virtual_stages, p = k->pipe.stages;
    double sum = cost->all;
    if (sn_gradients_are_temporary(k->held) || k->members == 1)
        return k->end[s];
    if (!k->e->software->data_overlaps)
        return k->end[s] + sum;
    double own = sn_delays_weights(k) ? k->weight[s] : k->backward[s] + k->extra[s];
    double done = fmax(k->end[s], k->done[s]);
    if (!k->played || !k->l->compress.coding[SN_CODED_DATA].on)
        done = fmax(done, k->end[s] - own + k->stream[s]);
    if (v == 1)
        return done;
    /* From the last micro-batch's backward in the last virtual stage on: that one, and p of each
     * other. */
    double before = 0, tail = k->backward[(v - 1) * p + s];
    for (int i = 0; i < s; i++)
        before += k->forward[i];
    for (int vstage = 0; vstage < v; vstage++) {
        int module = vstage * p + s;
        before += k->pipe.micros * (k->forward[module] + k->backward[module]);
        tail += vstage < v - 1 ? p * k->backward[module] : 0;
    }
    return fmax(done, before - tail + sum);
}

static enum sn_status finish(struct sn_estimation *k, double *seconds, struct sn_err *err)
{
    double agreed = 0, update = 0;
    struct sn_inventory_cost cost = {0};
    for (int s = 0; s < k->pipe.stages; s++) {
        if (!like_the_one_before(k, s))
            SN_TRY(sn_stage_cost(k, s, &cost, err));
        agreed = fmax(agreed, reduced(k, s, &cost) + cost.shared + cost.sq_norm);
        update = fmax(update, fmax(cost.update + cost.coded, cost.gather));
    }
    int ranks = k->l->data * sn_config_copy_ranks(k->l);
    if (ranks > 1)
        agreed += comm(k, SN_ALL_REDUCE, sn_agreed_words(&k->e->config), SN_F64, SN_GROUP_WORLD);
    *seconds = agreed + update + k->e->software->step_fixed;
    return SN_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

static enum sn_status estimation_init(struct sn_estimation *k, struct sn_estimator *e,
                                      const struct sn_layout_config *l, struct sn_err *err)
{
    e->config.layout = *l;
    *k = (struct sn_estimation){.e = e, .l = l, .modules = l->pipeline * l->virtual_stages};
    k->pipe = sn_pipeline_of(l, e->config.train.global_batch / (l->data * l->micro_batch));
    if (k->modules > e->config.model.layers)
        return sn_fail(err, SN_EINPUT,
                       "layout: %d stage modules of %d layers; at most one each would work",
                       k->modules, e->config.model.layers);
    k->members = l->data * l->context;
    k->held = sn_config_holding(&e->config);
    k->forward = e->room;
    k->backward = k->forward + k->modules;
    k->weight = k->backward + k->modules;
    k->after = k->weight + k->modules;
    k->extra = k->after + k->modules;
    k->stream = k->extra + k->modules;
    k->end = k->stream + k->modules;
    k->done = k->end + k->modules;
    k->first = k->done + k->modules;
    k->reduce = e->reduce;
    k->layers = l->split;
    if (!l->n_split)
        SN_TRY(sn_split_cached(&k->layers, e, k->modules, err));
    if (k->modules <= SN_SPLIT_MAX) { /* stages are dealt out alike */
        e->config.layout.n_split = k->modules;
        memcpy(e->config.layout.split, k->layers, (size_t)k->modules * sizeof(*k->layers));
    }
    k->begin = e->begin;
    for (int i = 0, at = 0; i < k->modules; at += k->layers[i++])
        e->begin[i] = at;
    while (k->still < k->modules && k->begin[k->still] + k->layers[k->still] <= e->of.still)
        k->still++;
    return SN_OK;
}

static enum sn_status estimate_closer(struct sn_estimation *k, bool any, struct sn_err *err)
{
    struct sn_estimator *e = k->e;
    SN_TRY(sn_layer_profile_cached(&k->shape, e, err));
    SN_TRY(sn_net_cached(&k->net, e, any, err));
    return sn_prices_cached(&k->prices, e, k->shape, k->net, err);
}

/* Blocks of logits of a micro-batch, as large as a backend makes them. */
static int64_t head_blocks(const struct sn_estimator *e)
{
    const struct sn_config *c = &e->config;
    int64_t rows = (int64_t)c->layout.micro_batch * c->model.seq / c->layout.context;
    return rows * (c->model.vocab / c->layout.tensor) * 4 / e->env.ops->head.bytes;
}

/* A profile of so many blocks takes long to compile: what stages keep is asked for before it. And that of a whole layer of
 * so many takes longer than it spares. */
enum { MANY_BLOCKS = 64, TOO_MANY_BLOCKS = 1024 };

/* What all of a group take at least. Where its members differ in recomputation, which l has none of, that
 * is what is kept with most of it, and segments without any. */
static enum sn_status estimate_group(struct sn_estimate *out, struct sn_estimator *e,
                                     const struct sn_layout_config *l, struct sn_err *err)
{
    struct sn_estimation k;
    struct sn_layout_config least = *l;
    bool is_named = e->config.layout_named >> SN_KEY_RECOMPUTE & 1u;
    bool differs = l->recompute == SN_RECOMPUTE_NONE && !is_named;
    *out = (struct sn_estimate){0};
    least.zero = least.zero_node = least.zero_cache = 0;
    least.recompute = differs ? SN_RECOMPUTE_FULL : l->recompute;
    SN_TRY(estimation_init(&k, e, &least, err));
    SN_TRY(sn_estimate_inputs(&k, &out->memory, err));
    if (out->memory == 0 && (!differs || head_blocks(e) > MANY_BLOCKS))
        SN_TRY(sn_estimate_kept(&k, &out->memory, err));
    if (out->memory > 0)
        return SN_OK;
    least.recompute = l->recompute;
    SN_TRY(estimation_init(&k, e, &least, err));
    SN_TRY(estimate_closer(&k, true, err));
    fill_wire(&k);
    fill_costs(&k);
    for (int i = 0; i < k.modules; i++)
        k.extra[i] = k.stream[i] = 0;
    SN_TRY(pipeline(&k, false, err));
    for (int s = 0; s < k.pipe.stages; s++)
        out->seconds = fmax(out->seconds, k.end[s]);
    out->seconds += e->software->step_fixed;
    return SN_OK;
}

/* Seconds of the arithmetic of a stage module on a micro-batch that is a `share` of a sequence. */
static double least(const struct sn_layer_profile *s, enum sn_pass pass, const struct sn_extent *x,
                    double share)
{
    const double *of = s->least[pass];
    double sum = x->first * of[SN_PLACE_EMBED] + x->last * of[SN_PLACE_HEAD];
    for (int at = 0; at < SN_NPLACES; at++)
        sum += x->of[at] * of[at];
    return share * sum;
}

static enum sn_status estimate_floor(struct sn_estimate *out, struct sn_estimator *e,
                                     const struct sn_layout_config *l, struct sn_err *err)
{
    struct sn_estimation k;
    const struct sn_model_config *m = &e->config.model;
    *out = (struct sn_estimate){0};
    if ((int64_t)m->seq * m->vocab * 4 / e->env.ops->head.bytes > TOO_MANY_BLOCKS)
        return SN_OK;
    SN_TRY(estimation_init(&k, e, l, err));
    SN_TRY(sn_layer_profile_whole_cached(&k.shape, e, err));
    double share = (double)l->micro_batch / ((double)l->tensor * l->tensor_x * l->context);
    for (int i = 0; i < k.modules; i++) {
        struct sn_extent x = sn_module_extent(&k, i);
        k.forward[i] =
            least(k.shape, SN_PASS_FORWARD, &x, share) + e->software->layer_fixed * x.layers;
        k.backward[i] = least(k.shape, SN_PASS_BACKWARD, &x, share);
        k.weight[i] = least(k.shape, SN_PASS_WEIGHT, &x, share);
        k.after[i] = k.extra[i] = k.stream[i] = 0;
        if (sn_delays_weights(&k))
            continue;
        k.backward[i] += k.weight[i]; /* behind the send */
        k.after[i] = k.weight[i];
        k.weight[i] = 0;
    }
    SN_TRY(pipeline(&k, false, err));
    for (int s = 0; s < k.pipe.stages; s++)
        out->seconds = fmax(out->seconds, k.end[s]);
    out->seconds += e->software->step_fixed;
    return SN_OK;
}

enum sn_status sn_estimate(struct sn_estimate *out, struct sn_estimator *e,
                           const struct sn_layout_config *l, enum sn_estimate_detail detail,
                           struct sn_err *err)
{
    struct sn_estimation k;
    struct sn_estimate got = {0};
    if (detail == SN_ESTIMATE_GROUP)
        return estimate_group(out, e, l, err);
    if (detail == SN_ESTIMATE_FLOOR)
        return estimate_floor(out, e, l, err);
    SN_TRY(estimation_init(&k, e, l, err));
    SN_TRY(sn_estimate_kept(&k, &got.memory, err));
    if (got.memory > 0) {
        *out = got;
        return SN_OK;
    }
    SN_TRY(estimate_closer(&k, detail == SN_ESTIMATE_ANY_ORDER, err));
    SN_TRY(sn_keeps_find(&k, &got.cache_each, err));
    got.zero_cache = e->config.layout.zero_cache;
    fill_wire(&k);
    fill_costs(&k);
    SN_TRY(fill_lasts(&k, err));
    SN_TRY(pipeline(&k, detail == SN_ESTIMATE_PLAYED, err));
    SN_TRY(finish(&k, &got.seconds, err));
    SN_TRY(sn_estimate_memory(&k, &got.memory, err));
    *out = got;
    return SN_OK;
}

enum sn_status sn_estimate_same_order(bool *same, struct sn_estimator *e,
                                      const struct sn_layout_config *a,
                                      const struct sn_layout_config *b, struct sn_err *err)
{
    const struct sn_net *x, *y;
    e->config.layout = *a;
    SN_TRY(sn_net_cached(&x, e, false, err));
    e->config.layout = *b;
    SN_TRY(sn_net_cached(&y, e, false, err));
    *same = memcmp(x->span, y->span, sizeof(x->span)) == 0;
    return SN_OK;
}

enum sn_status sn_estimate_ends(double *first, double *last, struct sn_estimator *e,
                                const struct sn_layout_config *l, struct sn_err *err)
{
    struct sn_estimation k;
    double at[SN_NPLACES] = {0};
    SN_TRY(estimation_init(&k, e, l, err));
    SN_TRY(estimate_closer(&k, true, err));
    for (int pass = 0; pass < SN_NPASSES; pass++)
        for (int place = 0; place < SN_NPLACES; place++)
            at[place] += k.prices->alone[pass][place];
    struct sn_extent all = sn_extent_of(e->of, 0, e->config.model.layers);
    double layer = 0;
    for (int place = 0; place < SN_NPLACES; place++)
        layer += all.of[place] * at[place] / all.layers;
    *first = layer > 0 ? at[SN_PLACE_EMBED] / layer : 0;
    *last = layer > 0 ? at[SN_PLACE_HEAD] / layer : 0;
    return SN_OK;
}
