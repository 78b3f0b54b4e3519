/*
 * zero.c - data parallelism: reductions of buckets, and ZeRO's gathers of weights.
 *
 * stage 0   a complete bucket is summed over the replicas in place, on the last micro-batch
 * stage 1   it is reduce-scattered, each replica updates its slice, the weights are gathered
 * stage 2   each micro-batch's gradients are a temporary that is reduce-scattered into the slice
 * stage 3   weights are gathered layer by layer, one layer ahead, in each segment that reads them
 * With layout.zero_node slices are those of a group of neighbours, and other groups hold the same (hybrid
 * sharding, arXiv 2304.11277, 3.2.2; ZeRO++'s secondary shards, arXiv 2306.10209): once a slice is
 * complete it is summed over the groups, on the last micro-batch.
 * (Rajbhandari et al., arXiv 1910.02054; gathers ahead as in PyTorch FSDP, arXiv 2304.11277.)
 */
#include "lib/program/build.h"

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

void sn_zero_leave_segment(struct sn_emit *e)
{
    while (e->n_posted > 0)
        wait_for_oldest(e);
    sn_low_rank_end(e);
    for (int b = 0; b < e->job->n_buckets; b++)
        if (sn_weights_are_slices(&e->job->buckets[b].held))
            e->bucket_weight[b] = e->bucket_gather[b] = -1;
}

/* --- weights ---------------------------------------------------------------------------------- */

static void gather(struct sn_emit *e, int bucket)
{
    const struct sn_bucket *b = &e->job->buckets[bucket];
    if (e->bucket_weight[bucket] >= 0)
        return; /* there, or under way */
    int whole = sn_buffer_add(e->p, SN_CLASS_TEMP, e->job->dtype, 1, b->n, "weight.%.60s", b->name);
    if (e->p->failed)
        return;
    e->p->bufs[whole].bucket = bucket;
    struct sn_op op = sn_comm_op(SN_OP_ALL_GATHER, b->sliced_over, "weight.%.50s", b->name);
    op.in[SN_MOVE_FROM] = sn_view_flat(e->p, b->weight);
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

static void for_buckets(struct sn_emit *e, int unit, bool backward, on_bucket *then)
{
    const struct sn_model *m = e->job->model;
    if (unit < -1 || unit > e->job->config->model.layers)
        return;
    for (int i = e->job->first_node[unit + 1]; i < e->job->first_node[unit + 2]; i++) {
        if (!reads_weights(e, i, backward))
            continue;
        for (int k = 0; k < 2; k++)
            for (int q = 0; q < sn_param_shards(e->job, m->nodes[i].param[k]); q++)
                then(e, e->job->shards[e->job->first_shard[m->nodes[i].param[k]] + q].bucket);
    }
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
    if (sn_weights_are_slices(&e->job->buckets[bucket].held))
        e->bucket_weight[bucket] = -1;
}

void sn_zero_enter(struct sn_emit *e, int unit, bool backward)
{
    if (!sn_weights_are_slices(e->job->held) || unit == e->unit)
        return;
    int step = backward ? -1 : 1;
    if (e->unit == unit - step) /* else the first of its segment */
        for_buckets(e, e->unit, backward, forget);
    e->unit = unit;
    for_buckets(e, unit, backward, gather);
    for_buckets(e, unit + step, backward, gather);
    for_buckets(e, unit, backward, wait_for_gather);
}
