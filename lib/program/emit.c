/*
 * emit.c - the maps of a text under construction: weights and gradients of shards, gradients of
 * buffers.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

int sn_unit_of(const struct sn_job *j, const struct sn_node *n)
{
    const struct sn_node *block = j->model->nodes; /* the first of one */
    int layers = j->config->model.layers;
    while (block->layer < 0)
        block++;
    return n->layer >= 0 ? sn_unit_of_op(j, n->layer) : n > block ? layers : -1;
}

int sn_unit_of_op(const struct sn_job *j, int layer)
{
    return layer < j->config->model.layers ? layer : j->config->model.layers;
}

int sn_op_layer(const struct sn_job *j, const struct sn_node *n)
{
    return n->layer < j->config->model.layers ? sn_unit_of(j, n) : n->layer + 1;
}

bool sn_node_is_here(const struct sn_emit *e, int node)
{
    if (!e->train && e->job->model->nodes[node].layer >= e->job->config->model.layers)
        return false;
    return e->job->module_of_node[node] ==
           e->p->scope.virtual_stage * e->job->stages + e->job->stage;
}

/* --- weights and their gradients -------------------------------------------------------------- */

struct sn_view sn_weight(const struct sn_emit *e, int shard)
{
    const struct sn_shard *q = &e->job->shards[shard];
    return (struct sn_view){.buf = e->bucket_weight[q->bucket],
                            .offset = q->offset,
                            .rows = q->rows,
                            .cols = q->cols,
                            .ld = q->cols};
}

/* A temporary of all of a bucket's weights, for one operation. */
static int decoded(struct sn_emit *e, int bucket)
{
    const struct sn_bucket *b = &e->job->buckets[bucket];
    int y = sn_buffer_add(e->p, SN_CLASS_TEMP, e->job->dtype, 1, b->n, "decoded.%.60s", b->name);
    if (e->p->failed)
        return 0;
    e->p->bufs[y].bucket = bucket;
    struct sn_op *op = sn_op_add(e->p, SN_OP_DECODE, "weight.%.50s", b->name);
    op->in[SN_DECODE_STREAMS] = sn_view_all(e->p, e->bucket_weight[bucket]);
    op->out[SN_DECODE_Y] = sn_view_all(e->p, y);
    op->attr.blocks_a = 1;
    op->attr.stream = (struct sn_stream_attr){.codec = {*sn_bucket_codec(e->job, b)},
                                              .levels = 1,
                                              .coded = SN_CODED_ZERO,
                                              .type = SN_F32,
                                              .share = b->n};
    return y;
}

struct sn_view sn_weight_read(struct sn_emit *e, int shard)
{
    return sn_weight_again(e, sn_weight(e, shard));
}

struct sn_view sn_weight_again(struct sn_emit *e, struct sn_view v)
{
    int bucket = v.buf < 0 || e->p->failed ? -1 : e->p->bufs[v.buf].bucket;
    if (bucket >= 0 && e->job->buckets[bucket].is_coded)
        v.buf = decoded(e, bucket);
    else if (bucket >= 0 && e->bucket_weight[bucket] >= 0)
        v.buf = e->bucket_weight[bucket];
    return v;
}

static struct sn_view flat(struct sn_view v)
{
    v.cols = v.ld = v.rows * v.cols;
    v.rows = 1;
    return v;
}

struct sn_view sn_weight_flat(const struct sn_emit *e, int shard)
{
    return flat(sn_weight(e, shard));
}

int sn_shard_of(const struct sn_emit *e, struct sn_view v)
{
    int bucket = v.buf < 0 || e->p->failed ? -1 : e->p->bufs[v.buf].bucket;
    return bucket < 0 ? -1 : sn_bucket_shard_at(e->job, bucket, v.offset);
}

bool sn_shard_trains(const struct sn_emit *e, int shard)
{
    return shard >= 0 && e->train && e->job->buckets[e->job->shards[shard].bucket].trains;
}

void sn_pads_zero(const struct sn_job *j, struct sn_program *p, int bucket, int buf,
                  enum sn_when when)
{
    const struct sn_bucket *b = &j->buckets[bucket];
    int64_t at = 0;
    for (int k = 0; k <= b->n_shards; k++) {
        const struct sn_shard *q =
            k < b->n_shards ? &j->shards[sn_bucket_shard(j, bucket, k)] : NULL;
        int64_t next = q ? q->offset : b->n;
        if (next > at) {
            struct sn_op *op = sn_op_add(p, SN_OP_ZERO, "pad.%.50s", b->name);
            op->out[SN_ZERO_X] = (struct sn_view){
                .buf = buf, .offset = at, .rows = 1, .cols = next - at, .ld = next - at};
            op->is_weight_grad = true;
            op->when = when;
        }
        at = q ? q->offset + q->rows * q->cols : at;
    }
}

/* A temporary for those of one micro-batch. What lies between its shards is summed with them, so it
 * must be numbers. */
static void open_bucket_grad(struct sn_emit *e, int bucket)
{
    const struct sn_bucket *b = &e->job->buckets[bucket];
    int g = sn_buffer_add(e->p, SN_CLASS_TEMP, b->grad_type, 1, b->n, "grad.%.60s", b->name);
    e->bucket_grad[bucket] = g;
    if (e->p->failed)
        return;
    e->p->bufs[g].bucket = bucket;
    sn_pads_zero(e->job, e->p, bucket, g, SN_EVERY);
}

void sn_into_shard(struct sn_emit *e, struct sn_op *op, int out, int shard, bool as_row)
{
    const struct sn_shard *q = &e->job->shards[shard];
    bool over_micros = !sn_gradients_are_temporary(e->job->held);
    struct sn_view v = sn_weight(e, shard);
    v.buf = e->bucket_grad[q->bucket];
    op->out[out] = as_row ? flat(v) : v;
    op->acc[out] = e->grad_written[shard] ? SN_ACC_ADD
                   : over_micros          ? SN_ACC_FIRST_WRITES
                                          : SN_ACC_WRITE;
    if (sn_config_exact(e->job->config))
        op->attr.exact = (struct sn_exact_attr){SN_EXACT_WEIGHTS,
                                                .depth = sn_config_token_block(e->job->config)};
    op->is_weight_grad = true;
    e->grad_written[shard] = true;
}

void sn_shard_ready(struct sn_emit *e, int shard)
{
    int bucket = e->job->shards[shard].bucket;
    if (sn_gradients_are_temporary(e->job->held) && e->bucket_grad[bucket] < 0)
        open_bucket_grad(e, bucket);
}

void sn_shard_used(struct sn_emit *e, int shard)
{
    int bucket = e->job->shards[shard].bucket;
    if (--e->uses_left[shard] == 0 && --e->bucket_left[bucket] == 0 && !e->p->failed)
        sn_bucket_reduce(e, bucket);
}

/* --- gradients of buffers --------------------------------------------------------------------- */

bool sn_emit_room(struct sn_emit *e, int buf)
{
    if (e->p->failed || buf < 0)
        return false;
    if (buf < e->cap_bufs)
        return true;
    int cap = e->p->n_bufs * 2;
    struct sn_view *v = sn_realloc(e->gview, (size_t)cap * sizeof(*v));
    e->gview = v ? v : e->gview;
    int *o = sn_realloc(e->origin, (size_t)cap * sizeof(*o));
    e->origin = o ? o : e->origin;
    int *a = sn_realloc(e->again, (size_t)cap * sizeof(*a));
    e->again = a ? a : e->again;
    int *c = sn_realloc(e->copied, (size_t)cap * sizeof(*c));
    e->copied = c ? c : e->copied;
    if (!v || !o || !a || !c) {
        e->p->failed = true;
        return false;
    }
    for (int i = e->cap_bufs; i < cap; i++) {
        v[i] = sn_no_view;
        o[i] = i;
        a[i] = -1;
    }
    e->cap_bufs = cap;
    return true;
}

void sn_origin_set(struct sn_emit *e, int buf, int origin)
{
    if (sn_emit_room(e, buf) && sn_emit_room(e, origin))
        e->origin[buf] = e->origin[origin];
}

struct sn_view sn_grad_get(const struct sn_emit *e, int buf)
{
    return buf >= 0 && buf < e->cap_bufs ? e->gview[e->origin[buf]] : sn_no_view;
}

void sn_grad_set(struct sn_emit *e, int buf, struct sn_view g)
{
    if (sn_emit_room(e, buf))
        e->gview[e->origin[buf]] = g;
}

static struct sn_view window(struct sn_view g, struct sn_view v)
{
    g.offset += v.offset / v.ld * g.ld + v.offset % v.ld;
    g.rows = v.rows;
    g.cols = v.cols;
    return g;
}

struct sn_view sn_grad_of(const struct sn_emit *e, struct sn_view v)
{
    struct sn_view g = sn_grad_get(e, v.buf);
    return g.buf < 0 ? g : window(g, v);
}

struct sn_view sn_grad_slice(struct sn_emit *e, struct sn_view v)
{
    if (e->p->failed)
        return sn_no_view;
    if (sn_grad_get(e, v.buf).buf < 0)
        sn_grad_set(e, v.buf, sn_view_all(e->p, sn_buffer_like(e->p, v.buf, "d")));
    return sn_grad_of(e, v);
}
