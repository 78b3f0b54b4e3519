#include "lib/search/inventory.h"

#include "kernels/round.h"
#include "lib/base/mem.h"

enum { PAGE = 4096 };

/* Of a parameter: where its gradient is complete. */
struct unit {
    int number;
    enum sn_layer_place place;
};

static bool is_here(const struct sn_job *j, int node)
{
    return j->module_of_node[node] % j->stages == j->stage;
}

/* Units of a stage from the last one on. The gradient of a parameter is complete with the last unit
 * of these that uses it. How many there are. */
static int find_units(struct unit *of_param, const struct sn_job *j)
{
    const struct sn_model *m = j->model;
    int n = 0;
    for (int layer = j->config->model.layers; layer >= -1; layer--) {
        int first = j->first_node[layer + 1], end = j->first_node[layer + 2];
        if (first == end || !is_here(j, first))
            continue;
        struct unit here = {n++, sn_layer_profile_place(j->config, layer)};
        for (int i = first; i < end; i++)
            for (int k = 0; k < 2; k++)
                if (m->nodes[i].param[k] >= 0)
                    of_param[m->nodes[i].param[k]] = here;
    }
    return n;
}

/* The k-th part of a place, or the table that embedding and head share; -1: none. */
static int part_of(const struct sn_layer_profile *s, enum sn_layer_place place, int k, bool shared)
{
    for (int q = 0; q < s->n_shards; q++) {
        bool is_own = s->shard[q].place == place && !s->shard[q].is_map;
        if (shared ? s->shard[q].tied : is_own && k-- == 0)
            return q;
    }
    return -1;
}

static int map_of(const struct sn_layer_profile *s)
{
    for (int q = 0; q < s->n_shards; q++)
        if (s->shard[q].is_map)
            return q;
    return -1;
}

/* Shards of a unit follow one another as the parts of its place do; the head's copy of a table that
 * an embedding elsewhere shares comes last. The map of prompts is none of them. A bucket is complete with its
 * last shard. */
static enum sn_status read_events(struct sn_inventory *o, const struct sn_job *j,
                                  const struct sn_layer_profile *s, const struct unit *of_param,
                                  struct sn_err *err)
{
    int map = sn_layer_profile_map(j->model);
    for (int q = 0, unit = -1, k = 0; q < j->n_shards; q++) {
        const struct unit *u = &of_param[j->shards[q].param];
        int bucket = j->shards[q].bucket;
        bool shared = j->buckets[bucket].copies >> SN_GROUP_TIED & 1u;
        bool is_map = j->shards[q].param == map;
        if (!is_map) {
            k = u->number == unit ? k + 1 : 0;
            unit = u->number;
        }
        int shard =
            is_map ? map_of(s) : part_of(s, u->place, k, shared && u->place == SN_PLACE_HEAD);
        if (shard < 0)
            return sn_fail(err, SN_EFAIL, "search: part %d of unit %d is not in its profile", k,
                           unit);
        o->event[bucket].unit = (short)u->number;
        o->event[bucket].shard = (short)shard;
    }
    return SN_OK;
}

static bool same_class(const struct sn_bucket *a, const struct sn_bucket *b)
{
    return a->n == b->n && a->trains == b->trains && a->decay == b->decay && a->rate == b->rate &&
           a->copies == b->copies && a->sums == b->sums && a->replicas == b->replicas &&
           a->grad_type == b->grad_type && a->is_bias == b->is_bias && a->counts == b->counts &&
           a->is_coded == b->is_coded;
}

static void read_classes(struct sn_inventory *o, const struct sn_job *j)
{
    for (int b = 0; b < j->n_buckets; b++) {
        int i = 0;
        while (i < o->n && !same_class(&o->cls[i].like, &j->buckets[b]))
            i++;
        if (i == o->n)
            o->cls[o->n++] = (struct sn_inventory_class){
                .like = j->buckets[b], .decoded = sn_bucket_coding(j, &j->buckets[b]) != NULL};
        o->cls[i].count++;
        o->event[b].cls = (short)i;
    }
}

/* Units of a place are alike; their buckets follow one another. */
static void read_cache(struct sn_inventory *o, const struct sn_job *j)
{
    int units[SN_NPLACES] = {0}, last[SN_NPLACES] = {0};
    for (int i = 0; i < j->n_buckets; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        if (!sn_bucket_may_be_cached(j, b))
            continue;
        int unit = sn_bucket_unit(j, b);
        enum sn_layer_place at = sn_layer_profile_place(j->config, unit);
        units[at] += units[at] == 0 || unit != last[at];
        last[at] = unit;
        o->cache[at] += sn_round_up(sn_bucket_bytes(j, b, b->weight, b->n), 64);
    }
    for (int at = 0; at < SN_NPLACES; at++)
        o->cache[at] /= units[at] ? units[at] : 1;
}

enum sn_status sn_inventory_read(struct sn_inventory *out, const struct sn_job *stage,
                                 const struct sn_layer_profile *s, struct sn_err *err)
{
    static const enum sn_class kept[] = {SN_CLASS_PARAM, SN_CLASS_GRAD, SN_CLASS_OPTIM};
    size_t buckets = (size_t)stage->n_buckets;
    struct unit *of_param = sn_alloc_n((size_t)stage->model->n_params, sizeof(*of_param));
    *out = (struct sn_inventory){.n_events = stage->n_buckets};
    out->cls = sn_alloc_n(buckets + 1, sizeof(*out->cls));
    out->event = sn_alloc_n(buckets + 1, sizeof(*out->event));
    enum sn_status st = SN_OK;
    if (!of_param || !out->cls || !out->event) {
        st = sn_fail(err, SN_ENOMEM, "search: no memory for %d buckets", stage->n_buckets);
    } else {
        out->units = find_units(of_param, stage);
        read_classes(out, stage);
        read_cache(out, stage);
        st = read_events(out, stage, s, of_param, err);
    }
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
        out->state += sn_round_up(stage->class_bytes[kept[i]], PAGE);
    sn_free(of_param);
    if (st != SN_OK)
        sn_inventory_fini(out);
    return st;
}

void sn_inventory_fini(struct sn_inventory *s)
{
    sn_free(s->cls);
    sn_free(s->event);
    *s = (struct sn_inventory){0};
}
