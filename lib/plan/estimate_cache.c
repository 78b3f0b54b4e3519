/*
 * estimate_cache.c - an estimator and what it remembers: shapes, their prices, buckets, slots.
 */
#include "lib/plan/estimate_cache.h"

#include "lib/base/mem.h"
#include "lib/layout/split.h"
#include "lib/plan/activations.h"

#include <math.h>
#include <string.h>

static unsigned hash_of(const void *p, size_t n)
{
    const unsigned char *c = p;
    unsigned h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ c[i]) * 16777619u;
    return h % SN_CACHE_ROWS;
}

/* --- layers of pieces ----------------------------------------------------------------------------
 */

enum sn_status sn_split_cached(const int **layers, struct sn_estimator *e, int pieces,
                               struct sn_err *err)
{
    if (!e->split[pieces]) {
        int *made = sn_alloc_n((size_t)pieces, sizeof(*made));
        if (!made)
            return sn_fail(err, SN_ENOMEM, "search: no memory for %d pieces", pieces);
        struct sn_split_cost cost = {.first = 0, .last = e->head_layers};
        enum sn_status st = sn_split_layers(made, &cost, e->config.model.layers, pieces, err);
        if (st != SN_OK) {
            sn_free(made);
            return st;
        }
        e->split[pieces] = made;
    }
    *layers = e->split[pieces];
    return SN_OK;
}

/* --- shapes --------------------------------------------------------------------------------------
 */

static enum sn_status shape_entry(struct sn_shape_entry **out, struct sn_estimator *e,
                                  struct sn_err *err)
{
    struct sn_shape_key key = sn_shape_key(&e->config);
    struct sn_shape_entry **row = &e->shape[hash_of(&key, sizeof(key))];
    for (struct sn_shape_entry *x = *row; x; x = x->next)
        if (memcmp(&x->shape->key, &key, sizeof(key)) == 0) {
            *out = x;
            return SN_OK;
        }
    struct sn_shape_entry *made = sn_alloc(sizeof(*made));
    if (!made)
        return sn_fail(err, SN_ENOMEM, "search: no memory for a shape");
    enum sn_status st = sn_shape_create(&made->shape, &e->env, &key, err);
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

/* The formula of activations.h for a piece with `layers` layers, taken from a job that stands for
 * it: only its place in the pipeline counts. */
static void kept(const struct sn_job *j, bool first, bool last, int layers, int64_t *slot,
                 int64_t *late)
{
    struct sn_job stand = *j;
    struct sn_activations a;
    stand.stages = stand.pieces = first && last ? 1 : first || last ? 2 : 3;
    stand.stage = first ? 0 : 1;
    for (int i = 0; i < j->model->n_nodes; i++)
        stand.piece_of_node[i] = layers ? stand.stage : -1;
    sn_activations(&a, &stand, 0);
    *slot = a.slot_bytes;
    *late = a.late_bytes;
}

static void read_slots(struct sn_kept_entry *s, const struct sn_job *j)
{
    for (int f = 0; f < 2; f++)
        for (int l = 0; l < 2; l++) {
            int64_t one, one_late;
            kept(j, f, l, 0, &s->slot_end[f][l], &s->late_end[f][l]);
            kept(j, f, l, 1, &one, &one_late);
            s->slot_layer[f][l] = one - s->slot_end[f][l];
            s->late_layer[f][l] = one_late - s->late_end[f][l];
        }
}

/* Nothing is compiled: the formula reads the run file and the nodes of the model. */
enum sn_status sn_kept_cached(const struct sn_kept_entry **out, struct sn_estimator *e,
                              struct sn_err *err)
{
    struct sn_shape_key key = sn_shape_key(&e->config);
    struct sn_kept_entry **row = &e->kept[hash_of(&key, sizeof(key))];
    for (struct sn_kept_entry *x = *row; x; x = x->next)
        if (memcmp(&x->key, &key, sizeof(key)) == 0) {
            *out = x;
            return SN_OK;
        }
    struct sn_kept_entry *made = sn_alloc(sizeof(*made));
    if (!made)
        return sn_fail(err, SN_ENOMEM, "search: no memory for a shape");
    sn_shape_config(e->micro, &e->config, &key);
    struct sn_job stand = *e->job;
    stand.config = e->micro;
    stand.zero = key.zero;
    made->key = key;
    read_slots(made, &stand);
    made->next = *row;
    *row = made;
    *out = made;
    return SN_OK;
}

enum sn_status sn_shape_cached(struct sn_shape **out, struct sn_estimator *e, struct sn_err *err)
{
    struct sn_shape_entry *x = NULL;
    SN_TRY(shape_entry(&x, e, err));
    *out = x->shape;
    return SN_OK;
}

static bool lies_alike(const struct sn_net *a, const struct sn_net *b, enum sn_group q)
{
    return a->ways[q] == b->ways[q] &&
           memcmp(a->span[q], b->span[q], (size_t)a->ways[q] * sizeof(a->span[q][0])) == 0;
}

static void price(struct sn_estimator *e, struct sn_shape_entry *x, const struct sn_net *net)
{
    const struct sn_shape *s = x->shape;
    for (int i = 0; i < s->n_comms; i++) {
        const struct sn_shape_comm *c = &s->comm[i];
        int64_t n = c->n;
        if (c->raw)
            n = sn_stock_size(c->raw, s->key.zero, net->members[SN_GROUP_REPLICA]).slice;
        x->prices.comm[i] =
            net->members[c->group] > 1 ? sn_net_price(e, net, c->kind, n, c->dtype, c->group) : 0;
    }
    sn_shape_play(&x->prices, s);
}

enum sn_status sn_prices_cached(struct sn_shape_prices **out, struct sn_estimator *e,
                                struct sn_shape *s, const struct sn_net *net, struct sn_err *err)
{
    struct sn_shape_entry *x = NULL;
    (void)s; /* the shape of the layout at hand */
    SN_TRY(shape_entry(&x, e, err));
    bool same = x->net && lies_alike(x->net, net, SN_GROUP_TENSOR) &&
                lies_alike(x->net, net, SN_GROUP_CONTEXT) && lies_alike(x->net, net, SN_GROUP_KV) &&
                (!x->shape->key.zero || lies_alike(x->net, net, SN_GROUP_REPLICA));
    if (!same)
        price(e, x, net);
    x->net = net;
    *out = &x->prices;
    return SN_OK;
}

/* --- buckets -------------------------------------------------------------------------------------
 */

/* An operation of the update of the job of one layer, of a bucket that a rank keeps n of. */
static double update_op(const struct sn_estimator *e, const struct sn_op *like, int64_t n)
{
    if (!like)
        return 0;
    struct sn_op op = *like;
    for (int i = 0; i < SN_MAX_IN; i++)
        op.in[i].cols = op.in[i].buf >= 0 ? n : 0;
    for (int i = 0; i < SN_MAX_OUT; i++)
        op.out[i].cols = op.out[i].buf >= 0 && like->out[i].cols > 1 ? n : op.out[i].cols;
    return sn_price_op(&e->pricer, &e->job->train, &op);
}

static int64_t up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static void price_kernels(struct sn_stock_entry *x, const struct sn_estimator *e,
                          const struct sn_shape *s)
{
    x->cost = (struct sn_stock_cost){0};
    for (int i = 0; i < x->stock.n; i++) {
        const struct sn_stock_class *c = &x->stock.cls[i];
        struct sn_stock_size size = sn_stock_size(c->raw, x->key.zero, x->key.members);
        if (!s->bucket[c->kind].trains)
            continue;
        x->cost.sq_norm += c->count * update_op(e, e->sq_norm, size.slice);
        x->cost.adamw += c->count * update_op(e, e->adamw, size.slice);
    }
    struct sn_stock_bytes b =
        sn_stock_bytes(&x->stock, s, e->config.train.precision, x->key.zero, x->key.members);
    x->cost.state = up(b.params, 4096) + up(b.grads, 4096) + up(b.optimizer, 4096);
}

/* Reductions of ZeRO 2 and 3 are part of the backward chunks, and no gathers follow in ZeRO 3. */
static double reduction(struct sn_estimator *e, const struct sn_stock_entry *x,
                        const struct sn_net *net, int64_t raw)
{
    int zero = x->key.zero;
    if (x->key.members == 1 || zero >= 2)
        return 0;
    return sn_net_price(e, net, zero ? SN_REDUCE_SCATTER : SN_ALL_REDUCE,
                        sn_stock_size(raw, zero, x->key.members).slice, SN_F32, SN_GROUP_REPLICA);
}

static void post_reductions(struct sn_stock_entry *x, int cls, double seconds)
{
    for (int k = 0; seconds > 0 && k < x->stock.n_events; k++) {
        const struct sn_stock_event *v = &x->stock.event[k];
        if (v->cls != cls)
            continue;
        x->reduce[v->unit][v->part] += seconds;
        x->cost.all += seconds;
    }
}

static void price_network(struct sn_stock_entry *x, struct sn_estimator *e,
                          const struct sn_shape *s, const struct sn_net *net)
{
    int zero = x->key.zero;
    x->cost.gather = x->cost.shared = x->cost.all = 0;
    x->net = net;
    memset(x->reduce, 0, (size_t)x->stock.units * sizeof(*x->reduce));
    for (int i = 0; i < x->stock.n; i++) {
        const struct sn_stock_class *c = &x->stock.cls[i];
        const struct sn_bucket *b = &s->bucket[c->kind];
        int64_t slice = sn_stock_size(c->raw, zero, x->key.members).slice;
        if (!b->trains)
            continue;
        if (b->sum != SN_NGROUPS && b->sum != SN_GROUP_TIED && net->members[b->sum] > 1)
            x->cost.shared += c->count * sn_net_price(e, net, SN_ALL_REDUCE, slice, SN_F32, b->sum);
        if (x->key.members > 1 && (zero == 1 || zero == 2))
            x->cost.gather += c->count * sn_net_price(e, net, SN_ALL_GATHER, slice,
                                                      e->config.train.precision, SN_GROUP_REPLICA);
        if (c->tied && net->members[SN_GROUP_TIED] > 1)
            x->cost.shared +=
                c->count * sn_net_price(e, net, SN_ALL_REDUCE, slice, SN_F32, SN_GROUP_TIED);
        post_reductions(x, i, reduction(e, x, net, c->raw));
    }
}

static bool same_stock(const struct sn_stock_entry *x, const struct sn_shape_key *s,
                       const struct sn_stock_key *key)
{
    const struct sn_stock_key *k = &x->key;
    return x->tensor == s->tensor && x->sequence_parallel == s->sequence_parallel &&
           k->x.layers == key->x.layers && k->members == key->members &&
           k->x.first == key->x.first && k->x.last == key->x.last && k->apart == key->apart &&
           k->zero == key->zero;
}

static enum sn_status stock_create(struct sn_stock_entry **out, struct sn_estimator *e,
                                   const struct sn_shape *s, const struct sn_stock_key *key,
                                   struct sn_err *err)
{
    struct sn_extent x = key->x;
    struct sn_stock_entry *made = sn_alloc(sizeof(*made));
    if (!made)
        return sn_fail(err, SN_ENOMEM, "search: no memory for buckets");
    *made = (struct sn_stock_entry){
        .key = *key, .tensor = s->key.tensor, .sequence_parallel = s->key.sequence_parallel};
    x.layers /= e->config.model.share_layers;
    enum sn_status st =
        sn_stock_deal(&made->stock, s, e->config.layout.bucket, &x, key->apart, err);
    if (st == SN_OK) {
        made->reduce = sn_alloc_n((size_t)made->stock.units, sizeof(*made->reduce));
        if (!made->reduce)
            st = sn_fail(err, SN_ENOMEM, "search: no memory for buckets");
    }
    if (st != SN_OK) {
        sn_stock_fini(&made->stock);
        sn_free(made);
        return st;
    }
    price_kernels(made, e, s);
    made->cost.reduce = (const sn_part_seconds *)made->reduce;
    *out = made;
    return SN_OK;
}

static enum sn_status stock_entry(struct sn_stock_entry **out, struct sn_estimator *e,
                                  const struct sn_shape *s, const struct sn_stock_key *key,
                                  struct sn_err *err)
{
    unsigned hash = (unsigned)key->x.layers * 131u + (unsigned)key->members * 7919u +
                    (unsigned)s->key.tensor * 65599u + s->key.sequence_parallel +
                    2u * key->x.first + 4u * key->x.last + 8u * key->apart + 16u * key->zero;
    struct sn_stock_entry **row = &e->stock[hash % SN_CACHE_ROWS];
    for (struct sn_stock_entry *x = *row; x; x = x->next)
        if (same_stock(x, &s->key, key)) {
            *out = x;
            return SN_OK;
        }
    SN_TRY(stock_create(out, e, s, key, err));
    (*out)->next = *row;
    *row = *out;
    return SN_OK;
}

enum sn_status sn_stock_cost(struct sn_stock_cost *out, struct sn_estimator *e,
                             const struct sn_shape *s, const struct sn_net *net,
                             const struct sn_stock_key *key, struct sn_err *err)
{
    struct sn_stock_entry *x = NULL;
    SN_TRY(stock_entry(&x, e, s, key, err));
    if (x->net != net)
        price_network(x, e, s, net);
    *out = x->cost;
    return SN_OK;
}

/* --- slots ---------------------------------------------------------------------------------------
 */

static void count_slots(int slots[SN_MAX_PARTS], const struct sn_pipeline *p, int stage)
{
    for (int v = 0; v < p->virtual_stages; v++)
        slots[v] = sn_schedule_slots(p, stage, v);
}

void sn_slots_of(int slots[SN_MAX_PARTS], struct sn_estimator *e, const struct sn_pipeline *p,
                 int stage)
{
    int in_flight = p->kind == SN_ZERO_BUBBLE ? p->stages : p->stages - stage;
    struct sn_pipeline few = *p;
    if (p->kind != SN_INTERLEAVED) {
        slots[0] = p->kind == SN_GPIPE || in_flight > p->micros ? p->micros : in_flight;
        return;
    }
    if (few.micros > 4 * p->stages) /* nothing new happens after four groups */
        few.micros = 4 * p->stages;
    unsigned hash = (unsigned)p->stages * 131u + (unsigned)p->virtual_stages * 7919u +
                    (unsigned)few.micros * 31u + (unsigned)stage;
    struct sn_slots_entry **row = &e->slots[hash % SN_CACHE_ROWS], *x = *row;
    while (x && (x->pipe.stages != p->stages || x->pipe.virtual_stages != p->virtual_stages ||
                 x->pipe.micros != few.micros || x->stage != stage))
        x = x->next;
    if (!x && (x = sn_alloc(sizeof(*x)))) {
        x->pipe = few;
        x->stage = stage;
        count_slots(x->slots, &few, stage);
        x->next = *row;
        *row = x;
    }
    if (x)
        memcpy(slots, x->slots, sizeof(x->slots));
    else
        count_slots(slots, &few, stage);
}

/* --- the estimator -------------------------------------------------------------------------------
 */

static const struct sn_op *find_op(const struct sn_program *p, int kind)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == kind)
            return &p->ops[i];
    return NULL;
}

/* One layer on one rank: whose update is priced in other sizes, and the settings of a pricer. */
static enum sn_status compile_one(struct sn_estimator *e, const struct sn_ops *ops, int threads,
                                  struct sn_err *err)
{
    struct sn_config *c = &e->config;
    int layers = c->model.layers, share = c->model.share_layers, batch = c->train.global_batch;
    c->model.layers = c->model.share_layers = 1;
    SN_TRY(sn_model_create(&e->model, &c->model, &c->train, err));
    e->head_layers = sn_head_layers(e->model, &c->model);
    c->layout = (struct sn_layout_config){.data = 1,
                                          .tensor = 1,
                                          .pipeline = 1,
                                          .context = 1,
                                          .expert = 1,
                                          .micro_batch = 1,
                                          .virtual_stages = 1,
                                          .schedule = SN_1F1B,
                                          .bucket = c->layout.bucket};
    c->train.global_batch = 1;
    struct sn_job_env env = {.config = c, .model = e->model, .ops = ops, .threads = threads};
    SN_TRY(sn_job_create(&e->job, &env, err));
    sn_pricer_init(&e->pricer, e->machine, e->software, e->job);
    e->sq_norm = find_op(&e->job->train, SN_OP_SQ_NORM);
    e->adamw = find_op(&e->job->train, SN_OP_ADAMW);
    c->model.layers = layers;
    c->model.share_layers = share;
    c->train.global_batch = batch;
    return SN_OK;
}

static bool changes_memory(const struct sn_software *s)
{
    return s->param_bytes > 0 || s->grad_bytes > 0 || s->optimizer_bytes > 0 ||
           s->kept_replicated > 0 || s->kept_sharded > 0 || s->logits_bytes > 0;
}

enum sn_status sn_estimator_create(struct sn_estimator **out, const struct sn_config *c,
                                   const struct sn_machine *m, const struct sn_software *s,
                                   const struct sn_ops *ops, int threads, struct sn_err *err)
{
    struct sn_estimator *e = sn_alloc(sizeof(*e));
    size_t layers = (size_t)c->model.layers;
    if (!e)
        return sn_fail(err, SN_ENOMEM, "search: no memory");
    e->config = *c;
    e->machine = m;
    e->software = s;
    e->foreign_memory = changes_memory(s);
    e->room = sn_alloc_n(8 * layers + 8, sizeof(*e->room));
    e->reduce = sn_alloc_n(layers + 1, sizeof(*e->reduce));
    e->split = sn_alloc_n(layers + 1, sizeof(*e->split));
    enum sn_status st = SN_OK;
    e->micro = sn_alloc(sizeof(*e->micro));
    if (!e->room || !e->reduce || !e->split || !e->micro)
        st = sn_fail(err, SN_ENOMEM, "search: no memory for %d layers", c->model.layers);
    if (st == SN_OK)
        st = compile_one(e, ops, threads, err);
    if (st != SN_OK) {
        e->config.model.layers = c->model.layers;
        sn_estimator_destroy(e);
        return st;
    }
    e->env = (struct sn_shape_env){&e->config, e->model, ops, threads, &e->pricer};
    *out = e;
    return SN_OK;
}

void sn_estimator_destroy(struct sn_estimator *e)
{
    if (!e)
        return;
    for (int i = 0; i < SN_CACHE_ROWS; i++) {
        for (struct sn_shape_entry *x = e->shape[i], *next; x; x = next) {
            next = x->next;
            sn_shape_destroy(x->shape);
            sn_free(x);
        }
        for (struct sn_kept_entry *x = e->kept[i], *next; x; x = next) {
            next = x->next;
            sn_free(x);
        }
        for (struct sn_net *x = e->net[i], *next; x; x = next) {
            next = x->next;
            sn_free(x);
        }
        for (struct sn_stock_entry *x = e->stock[i], *next; x; x = next) {
            next = x->next;
            sn_stock_fini(&x->stock);
            sn_free(x->reduce);
            sn_free(x);
        }
        for (struct sn_slots_entry *x = e->slots[i], *next; x; x = next) {
            next = x->next;
            sn_free(x);
        }
    }
    for (int i = 0; e->split && i <= e->config.model.layers; i++)
        sn_free(e->split[i]);
    sn_free(e->split);
    sn_free(e->room);
    sn_free(e->reduce);
    sn_free(e->micro);
    sn_job_destroy(e->job);
    sn_model_destroy(e->model);
    sn_free(e);
}

void sn_estimator_limit(struct sn_estimator *e, int64_t bytes)
{
    e->limit = bytes;
}

int sn_estimator_shapes(const struct sn_estimator *e)
{
    return e->shapes;
}
