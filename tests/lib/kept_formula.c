/*
 * kept_formula.c - what a block and the ends of a virtual stage keep (kept_formula.h has the
 * table).
 */
#include "tests/lib/kept_formula_inner.h"

#include "kernels/codec.h"
#include "lib/layout/cut.h"
#include "lib/layout/schedule.h"

/* --- one tensor ------------------------------------------------------------------------------- */

/* Is it computed again in backward? */
static bool repeated(const struct letters *l, const struct tensor *x)
{
    bool drops =
        (x->dropped >= UNLESS_FULL && l->full) || (x->dropped == UNLESS_ANY && l->selective);
    return drops && !(x->sent && l->aware);
}

void kept_add(const struct letters *l, struct tensor x)
{
    bool again = repeated(l, &x), stays = !again || (l->split && x.delayed);
    enum sn_dtype dtype = x.bytes ? SN_U8 : x.fp32 ? SN_F32 : l->dtype;
    int64_t one = x.rows * x.cols * (int64_t)sn_dtype_size(dtype);
    struct kept_tensor *k = &l->a->kept[l->a->n];
    *k = (struct kept_tensor){.name = x.name, .dtype = dtype, .rows = x.rows, .cols = x.cols};
    k->copies = stays ? x.copies : 0;
    k->bytes = k->copies * ((one + 63) / 64 * 64);
    k->late = x.late || again;
    if (k->copies == 0)
        return;
    *(k->late ? &l->a->late_bytes : &l->a->slot_bytes) += k->bytes;
    l->a->n++;
}

/* --- the block -------------------------------------------------------------------------------- */

static void inputs(const struct letters *l)
{
    kept_add(l, (struct tensor){.name = "x", .copies = l->n, .rows = l->region, .cols = l->G});
    kept_add(l, (struct tensor){.name = "mid",
                                .copies = l->parallel ? 0 : l->n,
                                .rows = l->region,
                                .cols = l->G,
                                .dropped = UNLESS_FULL,
                                .delayed = true,
                                .sent = l->t > 1});
}

static void norms(const struct letters *l)
{
    int folded = l->fold > 1 ? l->m : 0; /* those that experts read are not gathered */
    struct tensor norm = {.name = "norm",
                          .copies = 2 * l->n - (l->shared > 0 ? 0 : folded),
                          .rows = l->T,
                          .cols = l->G,
                          .dropped = UNLESS_ANY,
                          .delayed = true,
                          .sent = l->sp};
    kept_add(l, norm);
    norm.name = "norm.slice";
    norm.copies = folded;
    norm.rows = l->U;
    norm.sent = false;
    kept_add(l, norm);
    kept_add(l, (struct tensor){.name = "norm.stats",
                                .copies = 2 * l->n,
                                .rows = l->region,
                                .cols = l->rms ? 1 : 2,
                                .fp32 = true,
                                .dropped = UNLESS_ANY,
                                .delayed = true});
    bool parts = l->y > 1 && l->aware && (l->selective || l->full);
    kept_add(l, (struct tensor){.name = "norm.parts",
                                .copies = parts ? 2 * l->n : 0,
                                .rows = l->region * l->y,
                                .cols = l->rms ? 1 : 2,
                                .fp32 = true,
                                .dropped = UNLESS_ANY,
                                .sent = true});
}

/* Queries, keys and values: side by side, or of whole sequences and fewer heads. */
static void projections(const struct letters *l)
{
    int64_t c = l->exchange ? l->c : 1;
    struct tensor q = {.name = "qkv",
                       .copies = l->n,
                       .rows = l->T * c,
                       .cols = l->exchange ? l->q / c : l->g,
                       .dropped = UNLESS_FULL,
                       .sent = l->exchange || l->y > 1};
    if (l->exchange)
        q.name = "q";
    kept_add(l, q);
    if (!l->exchange)
        return;
    q.name = "k, v";
    q.copies = 2 * l->n;
    q.cols = (l->g - l->q) / 2 / c;
    kept_add(l, q);
}

static void attention(const struct letters *l)
{
    int64_t c = l->exchange ? l->c : 1;
    kept_add(l, (struct tensor){.name = "lse",
                                .copies = l->n,
                                .rows = l->T * c,
                                .cols = l->heads / c,
                                .fp32 = true,
                                .dropped = UNLESS_FULL});
    kept_add(l, (struct tensor){.name = "core",
                                .copies = l->n,
                                .rows = l->T,
                                .cols = l->q,
                                .dropped = UNLESS_FULL,
                                .delayed = true});
    kept_add(l, (struct tensor){.name = "core.whole",
                                .copies = l->exchange ? l->n : 0,
                                .rows = l->T * c,
                                .cols = l->q / c,
                                .dropped = UNLESS_FULL});
    if (!l->full || !l->aware || l->c == 1)
        return;
    kept_add(l, (struct tensor){.name = l->exchange ? "core.sent" : "ring",
                                .copies = l->exchange ? l->n : l->n * (l->c - 1),
                                .rows = l->T,
                                .cols = l->exchange ? l->q : l->g - l->q});
}

static void feed_forward(const struct letters *l)
{
    int dense = l->n - l->m;
    kept_add(l, (struct tensor){.name = "up",
                                .copies = dense,
                                .rows = l->T,
                                .cols = l->f * (l->gated ? 2 : 1),
                                .dropped = UNLESS_FULL,
                                .delayed = true, /* its gradient takes its place */
                                .sent = l->y > 1});
    kept_add(l, (struct tensor){.name = "act",
                                .copies = dense,
                                .rows = l->T,
                                .cols = l->f,
                                .dropped = UNLESS_ANY,
                                .delayed = true});
}

/* --- the ends of a virtual stage -------------------------------------------------------------- */

/* Elements of the gradient bucket of a table that is embedding and head. Positions are in it where
 * they are treated alike (lib/program/shards.c). */
static int64_t table_bucket(const struct letters *l)
{
    const struct sn_config *c = l->config;
    int64_t members = 32 * (int64_t)l->at->members;
    int64_t n = sn_slice_of(c->model.vocab, l->t * l->y, 0).padded * l->D;
    n = (n + 31) / 32 * 32;
    bool learned = sn_family_traits(c->model.family)->positions == SN_LEARNED;
    if (learned && l->t * l->y == 1 && n * 4 < c->layout.bucket)
        n += (c->model.seq * l->D + 31) / 32 * 32;
    return (n + members - 1) / members * members;
}

static void one(const struct letters *l, bool is_there, struct tensor x)
{
    x.copies = is_there;
    kept_add(l, x);
}

/* What goes to another stage with a codec: the streams wait in the slot for their transfers, values
 * are there while they are used. Of each neighbour two: of activations and of their gradient. */
static void streams(const struct letters *l)
{
    struct tensor x = {.rows = 1, .cols = l->stream, .bytes = true, .name = "streams"};
    x.copies = 2 * !l->a->first + 2 * !l->a->last;
    kept_add(l, x);
}

/* Without sequence parallelism the gradient that is received is itself one that weight gradients
 * read: of the last layer's down or, through dropout, of the embedding in its place. */
static bool takes_received(const struct letters *l)
{
    return l->split && !l->sp && !l->stream && !l->a->last &&
           (!l->dropout || l->parallel || l->a->first);
}

static void ends(const struct letters *l)
{
    bool first = l->a->first, last = l->a->last;
    struct tensor region = {.rows = l->region, .cols = l->G};
    region.name = "out";
    one(l, last || !l->stream, region);
    region.name = "received";
    one(l, !last && !l->stream, region);
    region.name = "sent";
    one(l, !first && !l->stream, region);
    if (l->stream)
        streams(l);
    one(l, last,
        (struct tensor){
            .name = "final.stats", .rows = l->region, .cols = l->rms ? 1 : 2, .fp32 = true});
    region.name = "d.head";
    one(l, last, region);
    struct tensor embed = {.name = "d.embed", .rows = l->T, .cols = l->D, .late = true};
    bool in_place = takes_received(l) && l->dropout && !l->parallel && l->y == 1;
    one(l, first && l->split && !in_place, embed);
    bool shared = l->at->zero >= 2 && l->config->model.tied_embeddings && l->at->alone && last;
    struct tensor table = {.name = "d.table", .rows = 1, .fp32 = true};
    table.cols = shared ? table_bucket(l) : 0;
    one(l, shared, table);
}

/* --- gradients that delayed weight gradients read --------------------------------------------- */

static void delayed(const struct letters *l)
{
    bool both = l->parallel && !l->dropout;
    struct tensor x = {.rows = l->T, .late = true};
    x.name = "d.qkv";
    x.copies = l->n;
    x.cols = l->g;
    kept_add(l, x);
    x.name = both ? "d.sum" : "d.o, d.down";
    x.copies = (both ? l->n : 2 * l->n - (l->shared > 0 ? 0 : l->m)) -
               (takes_received(l) && !(l->dropout && !l->parallel));
    x.cols = l->G;
    kept_add(l, x);
    x.name = "d.norm";
    x.copies = 2 * l->n;
    x.rows = l->region;
    kept_add(l, x);
    x.name = "d.expert";
    x.copies = l->m * l->C;
    x.cols = l->D;
    x.rows = l->W;
    kept_add(l, x);
    x.name = "d.logits";
    x.rows = l->U;
    x.cols = l->E;
    kept_add(l, x);
}

/* --- all -------------------------------------------------------------------------------------- */

/* Layers of a virtual stage: blocks whose attention is here. */
static struct vstage_place place_of(const struct sn_job *j, int vstage)
{
    int module = vstage * j->stages + j->stage;
    struct vstage_place at = {.first = module == 0,
                              .last = module == j->modules - 1,
                              .alone = j->stages == 1,
                              .zero =
                                  j->group_size[SN_GROUP_REPLICA] > 1 ? j->config->layout.zero : 0,
                              .members = j->group_size[SN_GROUP_REPLICA]};
    for (int i = 0; i < j->model->n_nodes; i++) {
        const struct sn_node *n = &j->model->nodes[i];
        if (n->kind != SN_NODE_ATTENTION || j->module_of_node[i] != module)
            continue;
        at.layers++;
        at.experts += sn_layer_has_experts(&j->config->model, n->layer);
    }
    return at;
}

static struct sn_pipeline pipeline_of(const struct sn_job *j)
{
    return sn_pipeline_of(&j->config->layout, j->train.micros);
}

static int slots_of(const struct sn_job *j, int vstage)
{
    struct sn_pipeline p = pipeline_of(j);
    return sn_schedule_slots(&p, j->stage, vstage);
}

/* Backwards whose weight gradients are due at the same time. */
static int lates_of(const struct sn_job *j)
{
    const struct sn_layout_config *l = &j->config->layout;
    struct sn_pipeline p = pipeline_of(j);
    return sn_schedule_traits(l->schedule)->delays_weights ? sn_schedule_waiting(&p, j->stage)
                                                           : l->split_backward;
}

static struct letters letters_of(struct kept_formula *a, const struct sn_config *config,
                                 const struct vstage_place *at)
{
    const struct sn_model_config *m = &config->model;
    const struct sn_layout_config *y = &config->layout;
    int t = y->tensor, copies = sn_kv_copies(m, t);
    const struct sn_traits *f = sn_family_traits(m->family);
    struct letters l = {.config = config, .at = at, .a = a, .n = at->layers, .m = at->experts};
    l.dtype = config->train.precision;
    l.t = t;
    l.c = y->context;
    l.T = (int64_t)y->micro_batch * m->seq / y->context;
    l.sp = y->sequence_parallel && t > 1;
    l.region = l.sp ? l.T / t : l.T;
    l.D = m->hidden;
    l.y = y->tensor_x;
    l.G = l.D / l.y;
    l.heads = m->heads / t;
    l.q = l.D / t;
    l.g = l.q + 2 * (l.D / m->heads) * (m->kv_heads / (t / copies));
    l.f = sn_slice_of(m->ffn, t, 0).padded;
    l.rms = f->norm == SN_RMSNORM;
    l.gated = f->gated;
    l.parallel = m->parallel_residual;
    l.dropout = m->dropout > 0;
    l.split = sn_schedule_traits(y->schedule)->delays_weights || y->split_backward;
    l.exchange = l.c > 1 && y->context_kind == SN_CONTEXT_ALL_TO_ALL;
    l.selective = y->recompute == SN_RECOMPUTE_SELECTIVE;
    l.full = y->recompute == SN_RECOMPUTE_FULL;
    l.aware = y->comm_aware_recompute;
    l.fold = 1;
    struct sn_codec codec[SN_CODEC_LEVELS];
    if (y->compress.coding[SN_CODED_PIPELINE].on)
        l.stream = sn_coded_room(codec, sn_coding_levels(config, SN_CODED_PIPELINE, codec), l.dtype,
                                 l.region * l.G);
    if (l.m > 0)
        letters_of_experts(&l);
    return l;
}

static void activations_at(struct kept_formula *out, const struct sn_config *c,
                           const struct vstage_place *at)
{
    *out = (struct kept_formula){.first = at->first, .last = at->last};
    struct letters l = letters_of(out, c, at);
    inputs(&l);
    norms(&l);
    projections(&l);
    attention(&l);
    feed_forward(&l);
    if (l.m > 0)
        kept_experts(&l);
    ends(&l);
    if (l.split)
        delayed(&l);
}

void kept_formula(struct kept_formula *out, const struct sn_job *j, int vstage)
{
    struct vstage_place at = place_of(j, vstage);
    activations_at(out, j->config, &at);
    out->slots = slots_of(j, vstage);
    out->lates = lates_of(j);
}
