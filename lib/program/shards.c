/*
 * shards.c - what this rank holds of which parameter, and in which bucket.
 *
 * A bucket is a flat array of shards that are treated alike: the same rate and decay, copied over the
 * same groups, their gradients summed over the same groups. Shards are dealt to buckets in the
 * order in which backward finishes them (the reverse of first use), so that a bucket's reduction
 * can begin while backward still runs (Li et al., "PyTorch Distributed", arXiv 2006.15704, 3.2.3),
 * and a bucket is one contiguous range.
 */
#include "lib/program/build.h"

#include "kernels/codec.h"
#include "lib/base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 32,        /* elements: 64 bytes of the smallest type */
    ALIGN_CODES = 256, /* two blocks, whose streams are whole words of 8 bytes */
    MAX_TILES = 4096
};

/* How a parameter is used on this rank. */
struct use {
    int first, last; /* nodes, in the whole model; -1: none */
    bool here;       /* some node of this stage uses it */
    bool elsewhere;  /* and some node of another stage */
    enum sn_cut_kind cut[SN_MESH_AXES];
    bool experts; /* shared out over the expert group */
    bool matrix;  /* of products alone: its gradient is one */
};

struct order {
    int param;
    struct use use;
};

static void add_use(const struct sn_job *j, int node, int k, struct use *u)
{
    struct sn_cut c = sn_cut_of(j, j->model->nodes[node].point);
    bool here = j->module_of_node[node] % j->stages == j->stage;
    memcpy(u->cut, k == 0 ? c.weight : c.bias, sizeof(u->cut));
    enum sn_node_kind kind = j->model->nodes[node].kind;
    u->experts = kind == SN_NODE_EXPERTS;
    bool product = kind == SN_NODE_EXPERTS ||
                   (k == 0 && (kind == SN_NODE_LINEAR || kind == SN_NODE_ADAPT ||
                               kind == SN_NODE_HEAD_LOSS));
    u->matrix = product && (u->first < 0 || u->matrix);
    u->first = u->first < 0 ? node : u->first;
    u->last = node;
    u->here = u->here || here;
    u->elsewhere = u->elsewhere || !here;
}

/* `order` holds the parameters by number. */
static void find_uses(const struct sn_job *j, struct order *order)
{
    const struct sn_model *m = j->model;
    for (int i = 0; i < m->n_params; i++)
        order[i] = (struct order){i, {.first = -1, .last = -1}};
    for (int i = 0; i < m->n_nodes; i++)
        for (int k = 0; k < 2; k++)
            if (m->nodes[i].param[k] >= 0)
                add_use(j, i, k, &order[m->nodes[i].param[k]].use);
}

/* --- shapes of shards ------------------------------------------------------------------------- */

/* On the axes of the mesh; of experts that see tokens of their own, among those with their slices,
 * who take the place of its one axis. */
static struct sn_mesh_place place_here(const struct sn_job *j, const struct use *u)
{
    int slices = sn_config_slices(j->config);
    if (u->experts && j->grid.fold > 1)
        return (struct sn_mesh_place){{slices, 1, 1},
                                      {j->group_index[SN_GROUP_EXPERT] % slices, 0, 0}};
    return sn_mesh_place(&j->mesh, j->rank);
}

static bool is_by_heads(const struct use *u)
{
    for (int a = 0; a < SN_MESH_AXES; a++)
        if (u->cut[a] == SN_CUT_QKV)
            return true;
    return false;
}

static struct sn_slice rows_slice(const struct sn_job *j, const struct sn_param *q,
                                  const struct use *u, int tensor)
{
    struct sn_mesh_place at = place_here(j, u);
    if (!is_by_heads(u))
        return sn_cut_slice(u->cut, SN_CUT_ROWS, &at, q->tensor[tensor].rows);
    struct sn_ways w = sn_cut_ways(u->cut, SN_CUT_QKV, &at);
    return sn_slice_of_heads(&j->config->model, q->tensor[tensor].part, w.size, w.index);
}

/* Add the logical tensors first .. end - 1 of a parameter as one shard. */
static void add_shard(struct sn_job *j, int param, const struct use *u, int first, int end)
{
    const struct sn_param *q = &j->model->params[param];
    struct sn_shard *shard = &j->shards[j->n_shards++];
    struct sn_mesh_place at = place_here(j, u);
    struct sn_slice c = sn_cut_slice(u->cut, SN_CUT_COLS, &at, q->cols);
    struct sn_shard_tensor *room =
        j->n_shards > 1 ? shard[-1].tensor + shard[-1].n_tensors : j->shard_tensors;
    /* blocks of codes lie within rows (sn_rule_codes) */
    assert(!q->is_coded || (c.count % SN_CODEC_BLOCK == 0 && c.count == c.padded));
    *shard = (struct sn_shard){.param = param, .cols = c.padded, .tensor = room};
    for (int k = first; k < end; k++) {
        struct sn_slice r = rows_slice(j, q, u, k);
        shard->tensor[shard->n_tensors++] = (struct sn_shard_tensor){.tensor = k,
                                                                     .at = shard->rows,
                                                                     .n = r.count,
                                                                     .from = r.first,
                                                                     .col = c.first,
                                                                     .n_cols = c.count};
        shard->rows += r.padded;
    }
}

/* --- buckets ---------------------------------------------------------------------------------- */

/* Over the axes of the mesh: who holds the same values, and has a part of their gradients. */
static void set_axes(const struct sn_job *j, const struct use *u, struct sn_bucket *b)
{
    struct sn_placement kept = sn_placement_on(&j->mesh, sn_cut_kept(u->cut));
    struct sn_placement used = sn_placement_on(&j->mesh, sn_cut_used(u->cut));
    for (int a = 0; a < j->mesh.n_axes; a++) {
        struct sn_axis_move m = sn_axis_move(kept.axis[a], used.axis[a]);
        assert(m.forward == SN_KEEP); /* slices that are gathered for use are replicas' (zero.c) */
        if (kept.axis[a].kind == SN_REPLICATE)
            b->copies |= 1u << j->mesh.axis[a].group;
        if (m.backward == SN_MOVE_ALL_REDUCE)
            b->sums |= 1u << j->mesh.axis[a].group;
    }
}

static float decay_of(const struct sn_train_config *t, const struct sn_param *q)
{
    if (q->group >= 0 && t->groups.weight_decay.n > 0)
        return (float)t->groups.weight_decay.v[q->group];
    return q->decay ? (float)t->optimizer.weight_decay : 0.0f;
}

static float rate_of(const struct sn_train_config *t, const struct sn_param *q)
{
    float own = q->rate > 0 ? q->rate : 1.0f;
    return q->group >= 0 && t->groups.lr.n > 0 ? own * (float)t->groups.lr.v[q->group] : own;
}

/* What the shards of a bucket have in common. */
static struct sn_bucket kind_of(const struct sn_job *j, const struct sn_shard *shard,
                                const struct use *u)
{
    const struct sn_param *q = &j->model->params[shard->param];
    struct sn_bucket b = {.trains = sn_param_trains(q),
                          .is_bias = q->is_bias,
                          .is_coded = q->is_coded,
                          .is_sparse = q->keep > 0 && sn_param_trains(q),
                          .counts = q->is_bias && q->trainable,
                          .decay = decay_of(&j->config->train, q),
                          .rate = rate_of(&j->config->train, q)};
    b.replicas = u->experts ? SN_GROUP_EXPERT_DATA : SN_GROUP_REPLICA;
    set_axes(j, u, &b);
    if (b.counts && j->group_size[SN_GROUP_REPLICA] > 1)
        b.sums = 1u << SN_GROUP_REPLICA;
    if (is_by_heads(u) && q->tensor[shard->tensor[0].tensor].part > 0 && j->group_size[SN_GROUP_KV] > 1) {
        b.copies |= 1u << SN_GROUP_KV;
        b.sums |= 1u << SN_GROUP_KV;
    }
    if (u->elsewhere) {
        b.copies |= 1u << SN_GROUP_TIED;
        b.sums |= 1u << SN_GROUP_TIED;
    }
    b.grad_type = u->matrix ? j->config->train.grad_dtype : SN_F32;
    if (sn_config_exact(j->config) && !b.is_bias)
        b.grad_type = SN_F64;
    b.held = *(b.is_bias ? sn_zero_holding(0) : j->held);
    b.layer = sn_gradients_are_temporary(&b.held) ? sn_unit_of(j, &j->model->nodes[u->first]) : 0;
    if (!b.trains && !b.counts)
        b.held.gradients = SN_HOLD_NOTHING;
    bool divides = sn_updates_are_slices(&b.held);
    bool in_nodes = divides && !u->experts && sn_config_zero_node(j->config) > 0;
    b.sliced_over = !divides ? SN_NGROUPS : in_nodes ? SN_GROUP_REPLICA_NODE : b.replicas;
    b.alike = b.copies | (in_nodes ? 1u << SN_GROUP_REPLICA_RAIL : divides ? 0 : 1u << b.replicas);
    return b;
}

static bool same_kind(const struct sn_bucket *a, const struct sn_bucket *b)
{
    return a->trains == b->trains && a->decay == b->decay && a->rate == b->rate &&
           a->copies == b->copies && a->sums == b->sums && a->replicas == b->replicas &&
           a->grad_type == b->grad_type && a->layer == b->layer && a->is_bias == b->is_bias &&
           a->counts == b->counts && a->is_coded == b->is_coded && a->is_sparse == b->is_sparse;
}

int64_t sn_shard_room(int64_t elements)
{
    return (elements + ALIGN - 1) / ALIGN * ALIGN;
}

/* The last bucket of each kind, whatever its layer. Only it can take more: the ones before are
 * full, or of a layer that is over, because shards come layer after layer. There are few kinds. */
struct latest {
    int *bucket, n;
};

static int *latest_like(const struct sn_job *j, struct latest *l, const struct sn_bucket *want)
{
    for (int i = 0; i < l->n; i++) {
        struct sn_bucket of_layer = j->buckets[l->bucket[i]];
        of_layer.layer = want->layer;
        if (same_kind(&of_layer, want))
            return &l->bucket[i];
    }
    l->bucket[l->n] = -1;
    return &l->bucket[l->n++];
}

static void assign_to_bucket(struct sn_job *j, struct latest *l, struct sn_shard *shard,
                             const struct use *u)
{
    struct sn_bucket want = kind_of(j, shard, u);
    int *latest = latest_like(j, l, &want), i = *latest;
    if (i < 0 || want.is_coded || j->buckets[i].layer != want.layer ||
        j->buckets[i].n * 4 >= j->config->layout.bucket) {
        i = *latest = j->n_buckets++;
        j->buckets[i] = want;
        (void)snprintf(j->buckets[i].name, sizeof(j->buckets[i].name), "bucket%d", i);
    }
    j->buckets[i].n_shards++;
    shard->bucket = i;
    shard->offset = j->buckets[i].n;
    j->buckets[i].n += sn_shard_room(shard->rows * shard->cols);
}

/* A tile of the update is a few lines of text. */
static enum sn_status check_tiles(const struct sn_job *j, struct sn_err *err)
{
    int64_t tile = j->config->layout.optimizer_tile;
    for (int i = 0; i < j->n_buckets && tile > 0; i++)
        if (j->buckets[i].slice / tile > MAX_TILES)
            return sn_fail(
                err, SN_EINPUT,
                "layout.optimizer_tile: %lld cuts a bucket of %lld values into more than "
                "%d tiles; want at least %lld",
                (long long)tile, (long long)j->buckets[i].slice, MAX_TILES,
                (long long)((j->buckets[i].slice / MAX_TILES / SN_TILE_VALUES + 1) *
                            SN_TILE_VALUES));
    return SN_OK;
}

const struct sn_codec *sn_bucket_codec(const struct sn_job *j, const struct sn_bucket *b)
{
    return b->is_coded ? sn_lora_codec(&j->config->train.lora) : NULL;
}

int64_t sn_bucket_elements(const struct sn_job *j, const struct sn_bucket *b, int buf)
{
    if (b->is_coded && buf == b->weight)
        return sn_weights_are_slices(&b->held) ? b->slice : b->n;
    return j->train.bufs[buf].rows * j->train.bufs[buf].cols;
}

int64_t sn_bucket_bytes(const struct sn_job *j, const struct sn_bucket *b, int buf,
                        int64_t elements)
{
    if (b->is_coded && buf == b->weight)
        return sn_codec_bytes(sn_bucket_codec(j, b), SN_F32, elements);
    return elements * (int64_t)sn_dtype_size(j->train.bufs[buf].dtype);
}

int64_t sn_bucket_slice_at(const struct sn_job *j, const struct sn_bucket *b)
{
    return b->sliced_over != SN_NGROUPS ? j->group_index[b->sliced_over] * b->slice : 0;
}

void sn_bucket_close(struct sn_bucket *b, int slices)
{
    int64_t unit = (b->is_coded ? ALIGN_CODES : ALIGN) * (int64_t)slices;
    b->n = (b->n + unit - 1) / unit * unit;
    b->slice = b->n / slices;
}

static void close_buckets(struct sn_job *j)
{
    for (int i = 0; i < j->n_buckets; i++) {
        struct sn_bucket *b = &j->buckets[i];
        sn_bucket_close(b, b->sliced_over != SN_NGROUPS ? j->group_size[b->sliced_over] : 1);
    }
}

/* --- all -------------------------------------------------------------------------------------- */

static int later_use_first(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    return x->use.first != y->use.first ? y->use.first - x->use.first : x->param - y->param;
}

/* What modules share, only the first and the last have: the group of a tied embedding sums its gradients. */
static enum sn_status check_shared(const struct sn_job *j, const struct order *order, int n,
                                   struct sn_err *err)
{
    const struct sn_model *m = j->model;
    int last = j->modules - 1;
    for (int k = 0; k < n; k++)
        for (int i = order[k].use.first; i >= 0 && i <= order[k].use.last; i++) {
            int param = order[k].param, module = j->module_of_node[i];
            int first = j->module_of_node[order[k].use.first];
            bool uses = m->nodes[i].param[0] == param || m->nodes[i].param[1] == param;
            if (uses && module != first && (first != 0 || module != last))
                return sn_fail(
                    err, SN_EINPUT,
                    "%s is used by layers of several parts of the pipeline, which only the "
                    "first and the last can share; want layout.pipeline: %s%s, or its "
                    "layers in one part",
                    m->params[param].name, j->stages > 2 ? "2 or 1" : "1",
                    j->modules > j->stages ? " or layout.virtual_stages: 1" : "");
        }
    return SN_OK;
}

static void make_shards(struct sn_job *j, struct latest *l, const struct order *order, int n)
{
    bool copies = j->group_size[SN_GROUP_KV] > 1;
    for (int i = 0; i < n; i++) {
        const struct sn_param *q = &j->model->params[order[i].param];
        const struct use *u = &order[i].use;
        if (!u->here)
            continue;
        j->first_shard[order[i].param] = j->n_shards;
        bool apart = is_by_heads(u) && copies && q->n_tensors > 1; /* q of k and v */
        if (apart)
            add_shard(j, order[i].param, u, 0, 1);
        int slices = sn_config_slices(j->config);
        int per_rank = q->n_tensors / (u->experts ? j->group_size[SN_GROUP_EXPERT] / slices : 1);
        int skip = u->experts ? j->group_index[SN_GROUP_EXPERT] / slices * per_rank : 0;
        add_shard(j, order[i].param, u, skip + apart, skip + per_rank);
        for (int k = j->first_shard[order[i].param]; k < j->n_shards; k++)
            assign_to_bucket(j, l, &j->shards[k], u);
    }
}

/* Lists of what was dealt to each bucket; shards ascend in them as their offsets do. */
static void list_shards(struct sn_job *j)
{
    for (int b = 0, at = 0; b < j->n_buckets; b++) {
        j->buckets[b].first = at;
        at += j->buckets[b].n_shards;
        j->buckets[b].n_shards = 0;
    }
    for (int i = 0; i < j->n_shards; i++) {
        struct sn_bucket *b = &j->buckets[j->shards[i].bucket];
        j->shard_of_bucket[b->first + b->n_shards++] = i;
    }
}

int sn_bucket_shard(const struct sn_job *j, int bucket, int k)
{
    return j->shard_of_bucket[j->buckets[bucket].first + k];
}

int sn_bucket_shard_at(const struct sn_job *j, int bucket, int64_t offset)
{
    int low = 0, high = j->buckets[bucket].n_shards;
    while (low < high) {
        int middle = (low + high) / 2;
        if (j->shards[sn_bucket_shard(j, bucket, middle)].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    int shard = low < j->buckets[bucket].n_shards ? sn_bucket_shard(j, bucket, low) : -1;
    return shard >= 0 && j->shards[shard].offset == offset ? shard : -1;
}

enum sn_status sn_shards_create(struct sn_job *j, struct sn_err *err)
{
    int n = j->model->n_params;
    struct order *order = sn_alloc_n((size_t)n, sizeof(*order));
    struct latest latest = {.bucket = sn_alloc_n(2 * (size_t)n + 1, sizeof(int))};
    j->shards = sn_alloc_n(2 * (size_t)n, sizeof(*j->shards));
    j->buckets = sn_alloc_n(2 * (size_t)n, sizeof(*j->buckets));
    j->first_shard = sn_alloc_n((size_t)n, sizeof(*j->first_shard));
    j->shard_of_bucket = sn_alloc_n(2 * (size_t)n, sizeof(*j->shard_of_bucket));
    j->shard_tensors =
        sn_alloc_n((size_t)sn_model_tensor_count(j->model) + 1, sizeof(*j->shard_tensors));
    if (!order || !latest.bucket || !j->shards || !j->buckets || !j->first_shard ||
        !j->shard_of_bucket || !j->shard_tensors) {
        sn_free(latest.bucket);
        sn_free(order);
        return sn_fail(err, SN_ENOMEM, "compile: no memory for %d parameters", n);
    }
    for (int i = 0; i < n; i++)
        j->first_shard[i] = -1;
    find_uses(j, order);
    enum sn_status st = check_shared(j, order, n, err);
    qsort(order, (size_t)n, sizeof(*order), later_use_first);
    make_shards(j, &latest, order, n);
    list_shards(j);
    close_buckets(j);
    sn_free(latest.bucket);
    sn_free(order);
    SN_TRY(st);
    SN_TRY(sn_cache_assign(j, err));
    sn_deferred_assign(j);
    return check_tiles(j, err);
}

int sn_param_shards(const struct sn_job *j, int param)
{
    int first = param < 0 ? -1 : j->first_shard[param], n = 0;
    while (first >= 0 && first + n < j->n_shards && j->shards[first + n].param == param)
        n++;
    return n;
}
