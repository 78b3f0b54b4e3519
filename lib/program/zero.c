/*
 * zero.c - data parallelism: reductions of buckets, and ZeRO's gathers of weights.
 *
 * stage 0   a complete bucket is summed over the replicas in place, on the last micro-batch
 * stage 1   it is reduce-scattered, each replica updates its slice, the weights are gathered
 * stage 2   each micro-batch's gradients are a temporary that is reduce-scattered into the slice
 * stage 3   weights are gathered layer by layer, one layer ahead, in each segment that reads them; of
 *           some units (layout.zero_cache, lib/layout/zero_cache.h) by the first micro-batch alone,
 *           into memory of their own
 * With layout.overlap: auto stages 1 and 2 gather what was updated at the beginning of the next step, as what
 * is cached, so that it arrives while the first micro-batch computes (bucket's `deferred`: between steps only the own slice
 * of its weights is up to date; as the distributed optimizer of Megatron-LM overlaps its gathers).
 * With layout.zero_node slices are those of a group of neighbours, and other groups hold the same (hybrid
 * sharding, arXiv 2304.11277, 3.2.2; ZeRO++'s secondary shards, arXiv 2306.10209): once a slice is
 * complete it is summed over the groups, on the last micro-batch.
 * (Rajbhandari et al., arXiv 1910.02054; gathers ahead as in PyTorch FSDP, arXiv 2304.11277.)
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"
#include "lib/layout/zero_cache.h"

const struct sn_coding *sn_bucket_coding(const struct sn_job *j, const struct sn_bucket *b)
{
    const struct sn_coding *z = &j->config->layout.compress.coding[SN_CODED_ZERO];
    bool gathers = sn_updates_are_gathered(&b->held) && j->group_size[b->replicas] > 1;
    return gathers && b->trains && sn_coding_loses(z) ? z : NULL;
}

/* --- gradients -------------------------------------------------------------------------------- */

/* A group of neighbours has a slice's sum: now those of all groups. The update waits. */
static void sum_groups(struct sn_emit *e, int bucket)
{
    const struct sn_bucket *b = &e->job->buckets[bucket];
    struct sn_op op = sn_comm_op(SN_OP_ALL_REDUCE, SN_GROUP_REPLICA_RAIL, "%s", b->name);
    op.is_weight_grad = true;
    op.codable = 1 + SN_CODED_DATA;
    op.when = SN_LAST;
    op.in[SN_MOVE_FROM] = op.out[SN_MOVE_TO] = sn_bucket_own(e->p, b, b->grad);
    (void)sn_op_append(e->p, &op);
}

static void wait_for_oldest(struct sn_emit *e)
{
    int bucket = e->posted_bucket[0];
    sn_wait_add(e->p, e->posted[0]);
    for (int i = 1; i < e->n_posted; i++) {
        e->posted[i - 1] = e->posted[i];
        e->posted_bucket[i - 1] = e->posted_bucket[i];
    }
    e->n_posted--;
    if (sn_slices_are_copied(&e->job->buckets[bucket]))
        sum_groups(e, bucket);
}

/* Who waits for it here, and not in the update. */
static void keep_posted(struct sn_emit *e, int id, int bucket)
{
    if (e->n_posted == SN_MAX_POSTED)
        wait_for_oldest(e);
    e->posted_bucket[e->n_posted] = bucket;
    e->posted[e->n_posted++] = id;
}

void sn_bucket_reduce(struct sn_emit *e, int bucket)
{
    const struct sn_job *j = e->job;
    const struct sn_bucket *b = &j->buckets[bucket];
    bool temporary = sn_gradients_are_temporary(&b->held);
    bool slices = sn_updates_are_slices(&b->held);
    if (!temporary && (j->group_size[b->replicas] == 1 || sn_low_rank_reduce(e, bucket)))
        return;
    struct sn_op op = sn_comm_op(slices ? SN_OP_REDUCE_SCATTER : SN_OP_ALL_REDUCE,
                                 slices ? b->sliced_over : b->replicas, "%s", b->name);
    op.is_weight_grad = true;
    op.codable = 1 + SN_CODED_DATA;
    op.when = temporary ? SN_EVERY : SN_LAST;
    op.in[SN_MOVE_FROM] = sn_view_flat(e->p, e->bucket_grad[bucket]);
    op.out[SN_MOVE_TO] = sn_view_flat(e->p, b->grad);
    if (slices && !temporary) /* in place: the slice is the own block of what is summed */
        op.out[SN_MOVE_TO] = sn_bucket_own(e->p, b, b->grad);
    if (temporary)
        op.acc[SN_MOVE_TO] = SN_ACC_FIRST_WRITES;
    int id = sn_op_append(e->p, &op);
    if (temporary || sn_slices_are_copied(b)) /* else the update waits */
        keep_posted(e, id, bucket);
}

static bool is_temporary(const struct sn_bucket *b)
{
    return sn_weights_are_slices(&b->held) && !b->cached;
}

void sn_zero_leave_segment(struct sn_emit *e)
{
    while (e->n_posted > 0)
        wait_for_oldest(e);
    sn_low_rank_end(e);
    for (int b = 0; b < e->job->n_buckets; b++)
        if (is_temporary(&e->job->buckets[b]))
            e->bucket_weight[b] = e->bucket_gather[b] = -1;
}

/* --- weights that are kept gathered ----------------------------------------------------------- */

static bool is_here(const struct sn_job *j, int unit)
{
    int first = j->first_node[unit + 1];
    return first < j->first_node[unit + 2] && j->module_of_node[first] % j->stages == j->stage;
}

/* The head's, where it has a copy of the embedding's table. */
int sn_bucket_unit(const struct sn_job *j, const struct sn_bucket *b)
{
    return is_here(j, b->layer) ? b->layer : j->config->model.layers;
}

bool sn_bucket_may_be_cached(const struct sn_job *j, const struct sn_bucket *b)
{
    return sn_weights_are_slices(&b->held) && j->group_size[b->sliced_over] > 1;
}

/* Is the embedding's table read by the last unit, too, and here? */
static bool has_table_twice(const struct sn_job *j)
{
    return j->stages == 1 && sn_model_table_is_shared(&j->config->model);
}

/* Units with weights of their own: layers may share them. number: of each unit, from -1 on; -1. */
static void list_units(const struct sn_job *j, struct sn_cache_stage *s, int *number, int *module)
{
    int layers = j->config->model.layers, n = 0;
    for (int unit = -1; unit <= layers; unit++)
        number[unit + 1] = -1;
    for (int i = 0; i < j->n_buckets; i++)
        if (sn_bucket_may_be_cached(j, &j->buckets[i]))
            number[sn_bucket_unit(j, &j->buckets[i]) + 1] = 0;
    for (int unit = -1; unit <= layers; unit++)
        if (number[unit + 1] == 0) {
            module[n] = j->module_of_node[j->first_node[unit + 1]];
            number[unit + 1] = n++;
        }
    bool again = j->train.micros > 1;
    *s = (struct sn_cache_stage){.units = n,
                                 .module = module,
                                 .first = number[0] >= 0,
                                 .last = number[layers + 1] >= 0,
                                 .first_again = again || has_table_twice(j),
                                 .last_again = again};
}

enum sn_status sn_cache_assign(struct sn_job *j, struct sn_err *err)
{
    size_t units = (size_t)j->config->model.layers + 2;
    int n = sn_config_zero_cache(j->config);
    if (n == 0)
        return SN_OK;
    int *number = sn_alloc_n(2 * units, sizeof(*number));
    bool *keeps = sn_alloc_n(units, sizeof(*keeps));
    if (number && keeps) {
        struct sn_cache_stage s;
        list_units(j, &s, number, number + units);
        (void)sn_cache_choose(keeps, &s, n);
        for (int i = 0; i < j->n_buckets; i++) {
            struct sn_bucket *b = &j->buckets[i];
            b->cached = sn_bucket_may_be_cached(j, b) && keeps[number[sn_bucket_unit(j, b) + 1]];
        }
    }
    bool good = number && keeps;
    sn_free(number);
    sn_free(keeps);
    return good ? SN_OK : sn_fail(err, SN_ENOMEM, "compile: no memory for %zu units", units);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* What a codec rounds is not gathered before the first step, whose weights are exact. */
void sn_deferred_assign(struct sn_job *j)
{
    for (int i = 0; i < j->n_buckets; i++) {
        struct sn_bucket *b = &j->buckets[i];
        b->deferred = j->config->layout.overlap == SN_OVERLAP_AUTO && b->trains &&
                      sn_updates_are_gathered(&b->held) && j->group_size[b->sliced_over] > 1 &&
                      !sn_bucket_coding(j, b);
    }
}

/* On the first micro-batch, to where all of them find it. */
static bool is_once(const struct sn_bucket *b)
{
    return b->cached || b->deferred;
}

static bool is_gathered(const struct sn_emit *e, int bucket)
{
    return is_once(&e->job->buckets[bucket]) ? e->bucket_gather[bucket] != SN_GATHER_TO_COME
                                             : e->bucket_weight[bucket] >= 0;
}

static void gather(struct sn_emit *e, int bucket)
{
    const struct sn_bucket *b = &e->job->buckets[bucket];
    if (is_gathered(e, bucket))
        return; /* there, or under way */
    const struct sn_buffer *own = &e->p->bufs[b->weight];
    int whole = b->deferred ? b->weight
                : b->cached ? b->cache
                            : sn_buffer_add(e->p, SN_CLASS_TEMP, own->dtype, 1,
                                            own->cols * (b->n / b->slice), "weight.%.60s", b->name);
    if (e->p->failed)
        return;
    e->p->bufs[whole].bucket = bucket;
    struct sn_op op = sn_comm_op(SN_OP_ALL_GATHER, b->sliced_over, "weight.%.50s", b->name);
    op.when = is_once(b) ? SN_FIRST : SN_EVERY;
    op.in[SN_MOVE_FROM] = sn_bucket_own(e->p, b, b->weight);
    op.out[SN_MOVE_TO] = sn_view_flat(e->p, whole);
    op.codable = 1 + SN_CODED_ZERO;
    e->bucket_gather[bucket] = sn_op_append(e->p, &op);
    e->bucket_weight[bucket] = whole;
}

/* Do operations of node i in this direction read its weights? The head's backward stands in the
 * forward segment, the embedding's reads none. */
static bool reads_weights(const struct sn_emit *e, int i, bool backward)
{
    enum sn_node_kind k = e->job->model->nodes[i].kind;
    return sn_node_is_here(e, i) && !(backward && (k == SN_NODE_EMBED || k == SN_NODE_HEAD_LOSS));
}

typedef void on_bucket(struct sn_emit *e, int bucket);

/* Is some of them gathered at every use, or deferred and still to be gathered? */
static bool for_buckets(struct sn_emit *e, int unit, bool backward, on_bucket *then)
{
    const struct sn_job *j = e->job;
    bool any = false;
    if (unit < -1 || unit > j->config->model.layers)
        return any;
    for (int i = j->first_node[unit + 1]; i < j->first_node[unit + 2]; i++) {
        const struct sn_node *n = &j->model->nodes[i];
        for (int k = 0; k < 2 && reads_weights(e, i, backward); k++)
            for (int q = 0; q < sn_param_shards(j, n->param[k]); q++) {
                int bucket = j->shards[j->first_shard[n->param[k]] + q].bucket;
                any = any || is_temporary(&j->buckets[bucket]) ||
                      (j->buckets[bucket].deferred && !is_gathered(e, bucket));
                then(e, bucket);
            }
    }
    return any;
}

static void wait_for_gather(struct sn_emit *e, int bucket)
{
    if (e->bucket_gather[bucket] >= 0)
        sn_wait_add(e->p, e->bucket_gather[bucket]);
    e->bucket_gather[bucket] = -1;
}

/* A later use in the segment (a tied table) gathers anew: kept all along,
 * it would cost its memory. */
static void forget(struct sn_emit *e, int bucket)
{
    if (is_temporary(&e->job->buckets[bucket]))
        e->bucket_weight[bucket] = -1;
}

/* The next unit, and those behind it up to one that is gathered at every use, or deferred: what is cached between
 * gives its gather time. */
static void gather_ahead(struct sn_emit *e, int unit, bool backward)
{
    int layers = e->job->config->model.layers, step = backward ? -1 : 1;
    bool found = false;
    for (int next = unit + step; next >= -1 && next <= layers && !found; next += step)
        found = for_buckets(e, next, backward, gather);
}

static void gather_deferred(struct sn_emit *e, int bucket)
{
    if (e->job->buckets[bucket].deferred)
        gather(e, bucket);
}

void sn_zero_before_input(struct sn_emit *e)
{
    for (int unit = -1; unit <= e->job->config->model.layers; unit++)
        (void)for_buckets(e, unit, false, gather_deferred);
}

void sn_zero_enter(struct sn_emit *e, int unit, bool backward)
{
    if (!(sn_weights_are_slices(e->job->held) || e->defers) || unit == e->unit)
        return;
    int step = backward ? -1 : 1;
    if (e->unit == unit - step) /* else the first of its segment */
        (void)for_buckets(e, e->unit, backward, forget);
    e->unit = unit;
    (void)for_buckets(e, unit, backward, gather);
    gather_ahead(e, unit, backward);
    (void)for_buckets(e, unit, backward, wait_for_gather);
}
