/*
 * update.c - the update segment: wait for the gradients, one global norm, one decision, the
 * optimizer, and ZeRO's gathers of what was updated, where they do not wait for the next step.
 *
 * Nothing is updated before the norm of everything is known (no optimistic update).
 * Each gradient is counted once: by the member 0 of the groups that hold copies of it.
 *
 * Gradients of another type are read through a copy in fp32, 4 bytes a value: of a whole bucket (or
 * ZeRO's slice of it), or of layout.optimizer_tile values, one tile after another (Singh et al.,
 * "DeepSpeed-TED", arXiv 2303.06318, 4). The bits are the same.
 */
#include "lib/program/build.h"

#include "kernels/codec.h"

/* A sum within a group of neighbours is waited for where that over the groups is posted. */
static bool is_waited_for(const struct sn_job *j, const struct sn_program *p,
                          const struct sn_op *op)
{
    int bucket = p->bufs[op->out[SN_MOVE_TO].buf].bucket;
    return bucket >= 0 && sn_slices_are_copied(&j->buckets[bucket]) &&
           op->group == j->buckets[bucket].sliced_over;
}

static void wait_for_all(const struct sn_job *j, struct sn_program *p)
{
    int n = p->n_ops;
    for (int i = 0; i < n && !p->failed; i++)
        if (p->ops[i].is_weight_grad && p->ops[i].when == SN_LAST &&
            sn_op_row(p->ops[i].kind)->is_sum && !is_waited_for(j, p, &p->ops[i]) &&
            p->bufs[p->ops[i].out[SN_MOVE_TO].buf].cls ==
                SN_CLASS_GRAD) /* factors are there already */
            sn_wait_add(p, p->ops[i].id);
}

struct sn_view sn_bucket_own(const struct sn_program *p, const struct sn_bucket *b, int buf)
{
    struct sn_view v = sn_view_flat(p, buf);
    if (v.cols > b->slice && !b->is_coded) { /* codes: no rank updates its slice of all */
        v.cols = b->slice;
        v.index = SN_AT_SLICE;
        v.stride = b->slice;
    }
    return v;
}

/* Where ranks of the mesh route tokens of their own, each has counted those. */
static void sum_counts(const struct sn_job *j, struct sn_program *p, int bucket)
{
    for (int a = 0; a < j->mesh.n_axes; a++) {
        if (!sn_placement_cuts(sn_region(j), a, SN_ROWS))
            continue;
        struct sn_op op = sn_comm_op(SN_OP_ALL_REDUCE, j->mesh.axis[a].group, "counts.%d", bucket);
        op.in[SN_MOVE_FROM] = op.out[SN_MOVE_TO] = sn_view_flat(p, j->buckets[bucket].grad);
        sn_comm_run(p, &op);
    }
}

/* Gradients that other groups hold parts of: norms under sequence parallelism, copies of key and
 * value heads, both ends of a tied embedding; and the counts of what experts got, which every
 * replica has of its own tokens. */
static void sum_shared(const struct sn_job *j, struct sn_program *p)
{
    int n[SN_NGROUPS] = {0}; /* the ends of a tied embedding number their buckets differently */
    for (int i = 0; i < j->n_buckets && !p->failed; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        for (int q = 0; q < SN_NGROUPS && b->grad >= 0; q++) {
            if (!(b->sums >> q & 1u))
                continue;
            struct sn_op op = sn_comm_op(SN_OP_ALL_REDUCE, (enum sn_group)q, "%.20s.%d",
                                         sn_group_name((enum sn_group)q), n[q]++);
            op.in[SN_MOVE_FROM] = op.out[SN_MOVE_TO] = sn_bucket_own(p, b, b->grad);
            sn_comm_run(p, &op);
        }
    }
    for (int i = 0; i < j->n_buckets && j->grid.fold > 1; i++)
        if (j->buckets[i].counts)
            sum_counts(j, p, i);
}

/* What is 0 stays so: it has no gradient, so that its moments and its step are 0, too. */
static void prune(const struct sn_job *j, struct sn_program *p)
{
    for (int i = 0; i < j->n_buckets && !p->failed; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        if (!b->is_sparse)
            continue;
        struct sn_op *op = sn_op_add(p, SN_OP_PRUNE, "prune.%.50s", b->name);
        op->in[SN_PRUNE_P] = sn_bucket_own(p, b, b->master);
        op->out[SN_PRUNE_G] = sn_bucket_own(p, b, b->grad);
    }
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* Values at .. at + n - 1 of what this rank keeps of a bucket. */
struct tile {
    int64_t at, n;
};

typedef void on_tile(const struct sn_job *j, struct sn_program *p, const struct sn_bucket *b,
                     struct tile t);

static void for_tiles(const struct sn_job *j, struct sn_program *p, const struct sn_bucket *b,
                      on_tile *then)
{
    int64_t size = j->config->layout.optimizer_tile ? j->config->layout.optimizer_tile : b->slice;
    for (int64_t at = 0; at < b->slice && !p->failed; at += size)
        then(j, p, b, (struct tile){at, b->slice - at < size ? b->slice - at : size});
}

static struct sn_view cut(struct sn_view v, struct tile t)
{
    v.offset += t.at;
    v.cols = t.n;
    return v;
}

/* The tile's gradients in fp32: themselves, or a copy that the next operation reads. */
static struct sn_view gradients(struct sn_program *p, const struct sn_bucket *b, struct tile t,
                                unsigned only)
{
    struct sn_view g = cut(sn_bucket_own(p, b, b->grad), t);
    if (b->grad_type == SN_F32)
        return g;
    int wide = sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, 1, t.n, "grad.fp32.%.60s", b->name);
    struct sn_op *op = sn_op_add(p, SN_OP_COPY, "fp32.%.50s", b->name);
    op->in[SN_COPY_X] = g;
    op->out[SN_COPY_Y] = sn_view_all(p, wide);
    op->only = only;
    return op->out[SN_COPY_Y];
}

static void tile_norm(const struct sn_job *j, struct sn_program *p, const struct sn_bucket *b,
                      struct tile t)
{
    struct sn_view g = gradients(p, b, t, b->alike);
    struct sn_op *op = sn_op_add(p, SN_OP_SQ_NORM, "grad_norm.%.40s", b->name);
    op->in[SN_SQ_NORM_G] = g;
    op->attr.exact.of = sn_config_exact(j->config) ? SN_EXACT_WEIGHTS : SN_EXACT_NONE;
    op->only = b->alike;
}

static void norms(const struct sn_job *j, struct sn_program *p)
{
    for (int i = 0; i < j->n_buckets; i++)
        if (j->buckets[i].trains)
            for_tiles(j, p, &j->buckets[i], tile_norm);
}

/* Of the weights as the tile's update has left them. */
static void average(const struct sn_job *j, struct sn_program *p, const struct sn_bucket *b,
                    struct tile t)
{
    int buf = b->moment[sn_optimizer_row(j->config->train.optimizer.kind)->n_moments];
    struct sn_op *op = sn_op_add(p, SN_OP_AVERAGE, "ema.%.50s", b->name);
    op->in[SN_AVERAGE_P] = cut(sn_bucket_own(p, b, b->master), t);
    op->out[SN_AVERAGE_E] = cut(sn_view_flat(p, buf), t);
    op->attr.optimizer.beta1 = (float)j->config->train.ema.decay;
}

static void step(const struct sn_job *j, struct sn_program *p, const struct sn_bucket *b,
                 struct tile t)
{
    const struct sn_optimizer_config *o = &j->config->train.optimizer;
    const struct sn_optimizer_row *row = sn_optimizer_row(o->kind);
    struct sn_view g = gradients(p, b, t, 0);
    struct sn_op *op = sn_op_add(p, sn_op_update(o->kind), "%s.%.50s", row->name, b->name);
    op->in[SN_UPDATE_G] = g;
    op->out[SN_UPDATE_P] = cut(sn_bucket_own(p, b, b->master), t);
    for (int k = 0; k < row->n_moments; k++)
        op->out[SN_UPDATE_M + k] = cut(sn_view_flat(p, b->moment[k]), t);
    bool gathered = sn_bucket_coding(j, b) != NULL; /* and written by all alike */
    op->out[SN_UPDATE_W] =
        b->master == b->weight || gathered ? sn_no_view : cut(sn_bucket_own(p, b, b->weight), t);
#define SET(KIND, member, ...)                                                                     \
    op->attr.optimizer.member = row->uses & SN_USES(KIND) ? (float)o->member : 0.0f;
    SN_HYPERS(SET)
#undef SET
    op->attr.optimizer.decay = b->decay;
    op->attr.optimizer.rate = b->rate;
    if (b->moment[row->n_moments] >= 0)
        average(j, p, b, t);
}

/* Biases of routers: a row for each layer. */
static void balance(const struct sn_job *j, struct sn_program *p)
{
    const struct sn_experts_config *x = &j->config->model.experts;
    for (int i = 0; i < j->n_buckets && !p->failed; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        if (!b->counts)
            continue;
        struct sn_op *op = sn_op_add(p, SN_OP_ROUTER_BIAS, "balance.%.50s", b->name);
        struct sn_view v = sn_view_flat(p, b->grad);
        v.cols = x->count;
        v.ld = sn_shard_room(x->count);
        v.rows = b->n / v.ld;
        op->in[SN_ROUTER_BIAS_COUNTS] = v;
        v.buf = b->weight;
        op->out[SN_ROUTER_BIAS_BIAS] = v;
        op->attr.experts.rate = (float)x->bias_rate;
    }
}

/* One bucket's gather is on its way while the next one is updated. */
static void update(const struct sn_job *j, struct sn_program *p)
{
    int before = -1;
    for (int i = 0; i < j->n_buckets && !p->failed; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        if (!b->trains)
            continue;
        for_tiles(j, p, b, step);
        if (!sn_updates_are_gathered(&b->held) || b->deferred)
            continue;
        struct sn_op op = sn_comm_op(SN_OP_ALL_GATHER, b->sliced_over, "weight.%s", b->name);
        op.in[SN_MOVE_FROM] =
            sn_bucket_own(p, b, b->weight); /* in place: its own block of the output */
        op.out[SN_MOVE_TO] = sn_view_flat(p, b->weight);
        op.codable = 1 + SN_CODED_ZERO;
        int id = sn_op_append(p, &op);
        if (before >= 0)
            sn_wait_add(p, before);
        before = id;
    }
    if (before >= 0)
        sn_wait_add(p, before);
}

bool sn_job_agrees_on_codecs(const struct sn_job *j)
{
    const struct sn_compress_config *z = &j->config->layout.compress;
    bool is_open = z->sample > 0; /* how long streams are, or how much they lose */
    for (int i = 0; i < SN_NCODED; i++)
        is_open = is_open || (z->coding[i].on && (!sn_codec_is_fixed(&z->coding[i].codec) ||
                                                  !sn_codec_is_fixed(&z->coding[i].between)));
    return is_open && sn_config_compresses(j->config);
}

void sn_emit_update(struct sn_job *j, struct sn_program *p)
{
    sn_segment_begin(p, SN_SEGMENT_UPDATE);
    p->layer = -1;
    wait_for_all(j, p);
    sum_shared(j, p);
    prune(j, p);
    norms(j, p);
    struct sn_op *op = sn_op_add(p, SN_OP_AGREE, "step_end");
    op->group = SN_GROUP_WORLD;
    op->attr.experts.count = j->config->model.experts.count;
    op->attr.experts.rows = sn_expert_load_words(&j->config->model);
    op->attr.stream.levels = sn_job_agrees_on_codecs(j);
    op->attr.vocab.z_loss = (float)j->config->train.z_loss;
    op->attr.vocab.weight = (float)j->config->model.mtp;
    op->attr.vocab.sets = sn_told_sets(&j->config->data);
    op->attr.exact.of = sn_config_exact(j->config) ? SN_EXACT_WEIGHTS : SN_EXACT_NONE;
    op = sn_op_add(p, SN_OP_CLIP_SCALE, "clip_scale");
    op->attr.optimizer.dynamic_scale =
        j->config->train.precision == SN_F16 && j->config->train.loss_scale == 0;
    update(j, p);
    balance(j, p);
}
