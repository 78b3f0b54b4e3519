/*
 * estimate_cache.c - an estimator and what it remembers: shapes, their prices, buckets, slots.
 */
#include "lib/search/estimate_cache.h"

#include "kernels/round.h"
#include "lib/base/mem.h"
#include "lib/layout/split.h"

#include <math.h>
#include <string.h>

/* --- layers of stage modules ------------------------------------------------------------------ */

enum sn_status sn_split_cached(const int **layers, struct sn_estimator *e, int modules,
                               struct sn_err *err)
{
    if (!e->split[modules]) {
        int *made = sn_alloc_n((size_t)modules, sizeof(*made));
        if (!made)
            return sn_fail(err, SN_ENOMEM, "search: no memory for %d stage modules", modules);
        struct sn_split_cost cost = {.first = 0, .last = e->head_layers};
        enum sn_status st = sn_split_layers(made, &cost, e->config.model.layers, modules, err);
        if (st != SN_OK) {
            sn_free(made);
            return st;
        }
        e->split[modules] = made;
    }
    *layers = e->split[modules];
    return SN_OK;
}

/* --- shapes ----------------------------------------------------------------------------------- */

static enum sn_status shape_entry(struct sn_layer_profile_entry **out, struct sn_estimator *e,
                                  const struct sn_layer_profile_key *key, struct sn_err *err)
{
    struct sn_layer_profile_entry **row = &e->shape[sn_cache_row(key, sizeof(*key))];
    for (struct sn_layer_profile_entry *x = *row; x; x = x->next)
        if (memcmp(&x->shape->key, key, sizeof(*key)) == 0) {
            *out = x;
            return SN_OK;
        }
    struct sn_layer_profile_entry *made = sn_alloc(sizeof(*made));
    if (!made)
        return sn_fail(err, SN_ENOMEM, "search: no memory for a shape");
    enum sn_status st = sn_layer_profile_create(&made->shape, &e->env, key, err);
    if (st != SN_OK) {
        sn_free(made);
        return st;
    }
    e->shapes++;
    made->next = *row;
    *row = made;
    *out = made;
    return SN_OK;
}

enum sn_status sn_layer_profile_cached(struct sn_layer_profile **out, struct sn_estimator *e,
                                       struct sn_err *err)
{
    struct sn_layer_profile_entry *x = NULL;
    struct sn_layer_profile_key key = sn_layer_profile_key(&e->config);
    SN_TRY(shape_entry(&x, e, &key, err));
    *out = x->shape;
    return SN_OK;
}

enum sn_status sn_layer_profile_whole_cached(struct sn_layer_profile **out, struct sn_estimator *e,
                                             struct sn_err *err)
{
    struct sn_layer_profile_entry *x = NULL;
    struct sn_layer_profile_key key = sn_layer_profile_key(&e->config);
    key = sn_layer_profile_whole(&key);
    SN_TRY(shape_entry(&x, e, &key, err));
    *out = x->shape;
    return SN_OK;
}

static bool lies_alike(const struct sn_net *a, const struct sn_net *b, enum sn_group q)
{
    return a->ways[q] == b->ways[q] &&
           memcmp(a->span[q], b->span[q], (size_t)a->ways[q] * sizeof(a->span[q][0])) == 0;
}

/* Do all groups over which a layer communicates? */
static bool layer_lies_alike(const struct sn_layer_profile *s, const struct sn_net *a,
                             const struct sn_net *b)
{
    unsigned groups = 0;
    for (int i = 0; i < s->n_comms; i++)
        groups |= 1u << s->comm[i].group;
    for (int q = 0; q < SN_NGROUPS; q++)
        if (groups >> q & 1u && !lies_alike(a, b, (enum sn_group)q))
            return false;
    return true;
}

static bool same_hops(const struct sn_net *a, const struct sn_net *b)
{
    return a->hop_ways == b->hop_ways &&
           memcmp(a->hop, b->hop, (size_t)a->hop_ways * sizeof(a->hop[0])) == 0;
}

/* A bucket that a profile gathers or reduces, in its real size. */
static struct sn_bucket bucket_of(const struct sn_estimator *e,
                                  const struct sn_layer_profile_comm *c, const struct sn_net *net)
{
    struct sn_bucket b = {.replicas = c->group, .grad_type = SN_F32, .n = c->raw};
    b.held = *sn_config_holding(&e->config);
    enum sn_group slices = c->group == SN_GROUP_REPLICA_RAIL ? SN_GROUP_REPLICA_NODE : c->group;
    sn_bucket_close(&b, sn_updates_are_slices(&b.held) ? net->members[slices] : 1);
    return b;
}

/* With its codec; false: it has none. */
static bool price_coded(struct sn_estimator *e, struct sn_layer_profile_entry *x,
                        const struct sn_net *net, int i)
{
    const struct sn_coding *z = e->config.layout.compress.coding;
    const struct sn_layer_profile_comm *c = &x->shape->comm[i];
    bool gathers = c->kind == SN_ALL_GATHER;
    if (!c->raw || !z[gathers ? SN_CODED_ZERO : SN_CODED_DATA].on)
        return false;
    struct sn_coded_reduction r;
    struct sn_bucket b = bucket_of(e, c, net);
    if (gathers)
        sn_coded_gather(&r, e, net, &b, false);
    else
        sn_coded_reduce(&r, e, net, &b);
    x->prices.before[i] = r.encode;
    x->prices.comm[i] = r.exchange + r.gather;
    x->prices.behind[i] = r.between + r.decode;
    return true;
}

static void price_one(struct sn_estimator *e, struct sn_layer_profile_entry *x,
                      const struct sn_net *net, int i)
{
    const struct sn_layer_profile_comm *c = &x->shape->comm[i];
    struct sn_layer_profile_prices *p = &x->prices;
    int64_t n = c->n;
    p->before[i] = p->comm[i] = p->behind[i] = 0;
    if (net->members[c->group] == 1 || price_coded(e, x, net, i))
        return;
    if (c->raw)
        n = bucket_of(e, c, net).slice;
    p->comm[i] = sn_net_price(e, net, c->kind, n, c->dtype, c->group);
    if (c->sized)
        p->comm[i] += sn_net_price(e, net, c->kind, SN_PRICE_LENGTH, SN_U8, c->group);
}

static bool same_coding(const struct sn_coding *a, const struct sn_coding *b)
{
    return a->on == b->on && a->diff == b->diff && a->feedback == b->feedback &&
           a->rank == b->rank && (!a->on || sn_codec_same(&a->codec, &b->codec));
}

static void price(struct sn_estimator *e, struct sn_layer_profile_entry *x,
                  const struct sn_net *net)
{
    const struct sn_layer_profile *s = x->shape;
    for (int i = 0; i < s->n_comms; i++)
        price_one(e, x, net, i);
    sn_layer_profile_play(&x->prices, s);
}

enum sn_status sn_prices_cached(struct sn_layer_profile_prices **out, struct sn_estimator *e,
                                struct sn_layer_profile *s, const struct sn_net *net,
                                struct sn_err *err)
{
    struct sn_layer_profile_entry *x = NULL;
    SN_TRY(shape_entry(&x, e, &s->key, err));
    const struct sn_coding *z = e->config.layout.compress.coding;
    bool same = x->net && same_coding(&x->data, &z[SN_CODED_DATA]) &&
                same_coding(&x->zero, &z[SN_CODED_ZERO]) &&
                layer_lies_alike(x->shape, x->net, net) && (!e->of.every || same_hops(x->net, net));
    if (!same)
        price(e, x, net);
    x->net = net;
    x->data = z[SN_CODED_DATA];
    x->zero = z[SN_CODED_ZERO];
    *out = &x->prices;
    return SN_OK;
}

/* --- buckets ---------------------------------------------------------------------------------- */

/* An operation of the update of the job of one layer, of a bucket that a rank keeps n of.
 * `gathered`: weights come from the masters, with a codec, and the update writes none. */
static double update_op(const struct sn_estimator *e, const struct sn_op *like, int64_t n,
                        bool gathered)
{
    if (!like)
        return 0;
    struct sn_op op = *like;
    for (int i = 0; i < SN_MAX_IN; i++)
        op.in[i].cols = op.in[i].buf >= 0 ? n : 0;
    for (int i = 0; i < SN_MAX_OUT; i++)
        op.out[i].cols = op.out[i].buf >= 0 && like->out[i].cols > 1 ? n : op.out[i].cols;
    if (gathered && like == e->update)
        op.out[SN_UPDATE_W].buf = -1;
    return sn_price_op(&e->pricer, &e->job->train, &op);
}

static void price_kernels(struct sn_inventory_entry *x, const struct sn_estimator *e)
{
    x->cost = (struct sn_inventory_cost){.state = x->inventory.state, .cache = x->inventory.cache};
    for (int i = 0; i < x->inventory.n; i++) {
        const struct sn_inventory_class *c = &x->inventory.cls[i];
        const struct sn_bucket *b = &c->like;
        if (!b->trains)
            continue;
        bool wide = b->grad_type != SN_F32; /* copies in fp32, a tile at a time */
        int64_t tile = e->config.layout.optimizer_tile;
        tile = tile > 0 && tile < b->slice ? tile : b->slice;
        for (int64_t at = 0; at < b->slice; at += tile) {
            int64_t n = b->slice - at < tile ? b->slice - at : tile;
            double copy = wide ? update_op(e, e->widen, n, c->decoded) : 0;
            x->cost.sq_norm += c->count * (copy + update_op(e, e->sq_norm, n, c->decoded));
            x->cost.update += c->count * (copy + update_op(e, e->update, n, c->decoded) +
                                          update_op(e, e->average, n, c->decoded));
        }
        x->cost.sq_norm +=
            b->is_sparse ? c->count * update_op(e, &e->prune, b->slice, c->decoded) : 0;
        if (wide && sn_round_up(tile * 4, 64) > x->cost.wide)
            x->cost.wide = sn_round_up(tile * 4, 64);
    }
}

/* Of gradients that wait for the end of the step: the others' are part of the backward segments. */
static double reduction(struct sn_estimator *e, const struct sn_net *net, const struct sn_bucket *b)
{
    if (net->members[b->replicas] == 1 || sn_gradients_are_temporary(&b->held))
        return 0;
    if (!sn_updates_are_slices(&b->held))
        return sn_net_price(e, net, SN_ALL_REDUCE, b->slice, b->grad_type, b->replicas);
    double near = sn_net_price(e, net, SN_REDUCE_SCATTER, b->slice, b->grad_type, b->sliced_over);
    return near + (sn_slices_are_copied(b) ? sn_net_price(e, net, SN_ALL_REDUCE, b->slice,
                                                          b->grad_type, SN_GROUP_REPLICA_RAIL)
                                           : 0);
}

static void post_reductions(struct sn_inventory_entry *x, int cls, double seconds)
{
    for (int k = 0; seconds > 0 && k < x->inventory.n_events; k++) {
        const struct sn_inventory_event *v = &x->inventory.event[k];
        if (v->cls != cls)
            continue;
        struct sn_shard_reduction *r = &x->reduce[v->unit][v->shard];
        r->seconds += seconds;
        r->coded = x->coded ? &x->coded[cls] : NULL;
        x->cost.all += seconds;
    }
}

/* Seconds on the network; with a codec all of it is remembered. */
static double reduce_class(struct sn_inventory_entry *x, struct sn_estimator *e,
                           const struct sn_net *net, int i)
{
    const struct sn_bucket *b = &x->inventory.cls[i].like;
    double plain = reduction(e, net, b);
    if (!x->coded || plain <= 0)
        return plain;
    sn_coded_reduce(&x->coded[i], e, net, b);
    return x->coded[i].exchange + x->coded[i].gather;
}

static void gather_class(struct sn_inventory_entry *x, struct sn_estimator *e,
                         const struct sn_net *net, int i)
{
    const struct sn_inventory_class *c = &x->inventory.cls[i];
    const struct sn_bucket *b = &c->like;
    if (net->members[b->replicas] == 1 || !sn_updates_are_gathered(&b->held))
        return;
    if (!x->zero.on) {
        x->cost.gather += c->count * sn_net_price(e, net, SN_ALL_GATHER, b->slice,
                                                  e->config.train.precision, b->sliced_over);
        return;
    }
    struct sn_coded_reduction r;
    sn_coded_gather(&r, e, net, b, true);
    x->cost.gather += c->count * r.gather;
    x->cost.coded += c->count * (r.encode + r.decode);
}

static void price_network(struct sn_inventory_entry *x, struct sn_estimator *e,
                          const struct sn_net *net)
{
    x->cost.gather = x->cost.shared = x->cost.all = x->cost.coded = 0;
    x->net = net;
    memset(x->reduce, 0, (size_t)x->inventory.units * sizeof(*x->reduce));
    for (int i = 0; i < x->inventory.n; i++) {
        const struct sn_inventory_class *c = &x->inventory.cls[i];
        const struct sn_bucket *b = &c->like;
        if (!b->trains && !b->counts)
            continue;
        for (int q = 0; q < SN_NGROUPS; q++)
            if (b->sums >> q & 1u && net->members[q] > 1)
                x->cost.shared += c->count * sn_net_price(e, net, SN_ALL_REDUCE, b->slice,
                                                          b->grad_type, (enum sn_group)q);
        if (b->counts)
            continue;
        gather_class(x, e, net, i);
        post_reductions(x, i, reduce_class(x, e, net, i));
    }
}

/* Context ranks cut none. */
static bool same_weights(const int a[SN_NGRID_AXES], const int b[SN_NGRID_AXES])
{
    for (int i = 0; i < SN_NGRID_AXES; i++)
        if (i != SN_AXIS_CONTEXT && a[i] != b[i])
            return false;
    return true;
}

static bool same_stock(const struct sn_inventory_entry *x, const struct sn_estimator *e,
                       const struct sn_layer_profile_key *s, const struct sn_inventory_key *key)
{
    const struct sn_inventory_key *k = &x->key;
    const struct sn_coding *z = e->config.layout.compress.coding;
    return same_coding(&x->data, &z[SN_CODED_DATA]) && same_coding(&x->zero, &z[SN_CODED_ZERO]) &&
           same_weights(x->size, s->size) && x->sequence_parallel == s->sequence_parallel &&
           x->expert == s->expert && x->slices == s->slices && k->x.layers == key->x.layers &&
           memcmp(k->x.of, key->x.of, sizeof(k->x.of)) == 0 && k->replicas == key->replicas &&
           k->copies == key->copies && k->zero_node == key->zero_node &&
           k->x.first == key->x.first && k->x.last == key->x.last && k->apart == key->apart &&
           k->held == key->held &&
           (!k->kinds || memcmp(k->kinds, key->kinds, (size_t)k->x.layers) == 0);
}

static enum sn_status keep_kinds(struct sn_inventory_entry *x, struct sn_err *err)
{
    size_t layers = (size_t)x->key.x.layers;
    x->kinds = sn_alloc_n(layers, sizeof(*x->kinds));
    if (!x->kinds)
        return sn_fail(err, SN_ENOMEM, "search: no memory for buckets");
    memcpy(x->kinds, x->key.kinds, layers);
    x->key.kinds = x->kinds;
    return SN_OK;
}

void sn_inventory_entry_destroy(struct sn_inventory_entry *x)
{
    sn_inventory_fini(&x->inventory);
    sn_free(x->kinds);
    sn_free(x->reduce);
    sn_free(x->coded);
    sn_free(x);
}

/* What the compiler deals out to a rank of a stage. */
static enum sn_status deal(struct sn_inventory *out, const struct sn_estimator *e, int stage,
                           const struct sn_layer_profile *s, struct sn_err *err)
{
    struct sn_job_env env = {.config = &e->config, .model = e->whole};
    struct sn_job *j = NULL;
    struct sn_grid grid;
    SN_TRY(sn_job_grid(&grid, &e->config, err));
    env.rank = sn_grid_rank(&grid, (int[SN_NGRID_AXES]){[SN_AXIS_PIPELINE] = stage});
    SN_TRY(sn_job_create_shards(&j, &env, err));
    enum sn_status st = sn_inventory_read(out, j, s, err);
    sn_job_destroy(j);
    return st;
}

static enum sn_status stock_create(struct sn_inventory_entry **out, struct sn_estimator *e,
                                   const struct sn_layer_profile *s,
                                   const struct sn_inventory_key *key, int stage,
                                   struct sn_err *err)
{
    struct sn_inventory_entry *made = sn_alloc(sizeof(*made));
    if (!made)
        return sn_fail(err, SN_ENOMEM, "search: no memory for buckets");
    *made = (struct sn_inventory_entry){.key = *key,
                                        .expert = s->key.expert,
                                        .slices = s->key.slices,
                                        .sequence_parallel = s->key.sequence_parallel};
    memcpy(made->size, s->key.size, sizeof(made->size));
    made->data = e->config.layout.compress.coding[SN_CODED_DATA];
    made->zero = e->config.layout.compress.coding[SN_CODED_ZERO];
    enum sn_status st = deal(&made->inventory, e, stage, s, err);
    if (st == SN_OK && key->kinds)
        st = keep_kinds(made, err);
    if (st == SN_OK) {
        made->reduce = sn_alloc_n((size_t)made->inventory.units, sizeof(*made->reduce));
        if (made->data.on)
            made->coded = sn_alloc_n((size_t)made->inventory.n + 1, sizeof(*made->coded));
        if (!made->reduce || (made->data.on && !made->coded))
            st = sn_fail(err, SN_ENOMEM, "search: no memory for buckets");
    }
    if (st != SN_OK) {
        sn_inventory_entry_destroy(made);
        return st;
    }
    price_kernels(made, e);
    made->cost.reduce = (const sn_shard_seconds *)made->reduce;
    *out = made;
    return SN_OK;
}

static unsigned stock_row(const struct sn_layer_profile_key *s, const struct sn_inventory_key *key)
{
    const struct sn_extent *x = &key->x;
    unsigned hash = (unsigned)x->layers * 131u + (unsigned)key->replicas * 7919u +
                    (unsigned)s->size[SN_AXIS_TENSOR] * 65599u + s->sequence_parallel +
                    2u * x->first + 4u * x->last + 8u * key->apart + (unsigned)s->expert * 31u +
                    (unsigned)x->of[SN_PLACE_EXPERTS] * 1009u;
    return (hash + 16u * sn_cache_row(key->held, sizeof(*key->held))) % SN_CACHE_ROWS;
}

enum sn_status sn_inventory_cost(struct sn_inventory_cost *out, struct sn_estimator *e,
                                 const struct sn_layer_profile *s, const struct sn_net *net,
                                 const struct sn_inventory_key *key, int stage, struct sn_err *err)
{
    struct sn_inventory_entry **row = &e->inventory[stock_row(&s->key, key)], *x = *row;
    while (x && !same_stock(x, e, &s->key, key))
        x = x->next;
    if (!x) {
        SN_TRY(stock_create(&x, e, s, key, stage, err));
        x->next = *row;
        *row = x;
    }
    if (x->net != net)
        price_network(x, e, net);
    *out = x->cost;
    return SN_OK;
}

/* --- slots ------------------------------------------------------------------------------------ */

void sn_slots_of(int slots[SN_MAX_VSTAGES], struct sn_estimator *e, const struct sn_pipeline *p,
                 int stage)
{
    struct sn_slots_key key;
    size_t bytes = (size_t)p->virtual_stages * sizeof(*slots);
    if (p->virtual_stages == 1) {
        slots[0] = sn_schedule_slots_of_one(p, stage);
        return;
    }
    memset(&key, 0, sizeof(key)); /* padding too: keys are compared as bytes */
    key.pipe = sn_pipeline_shortest(p);
    key.stage = stage;
    struct sn_slots_entry **row = &e->slots[sn_cache_row(&key, sizeof(key))], *x = *row;
    while (x && memcmp(&x->key, &key, sizeof(key)) != 0)
        x = x->next;
    if (x) {
        memcpy(slots, x->slots, bytes);
        return;
    }
    for (int v = 0; v < p->virtual_stages; v++)
        slots[v] = sn_schedule_slots(p, stage, v);
    x = sn_alloc(sizeof(*x));
    if (!x)
        return;
    x->key = key;
    memcpy(x->slots, slots, bytes);
    x->next = *row;
    *row = x;
}
