#include "lib/search/layer_profile.h"

#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/layout/axes.h"
#include "lib/layout/cut.h"
#include "lib/program/opinfo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- the key ---------------------------------------------------------------------------------- */

struct sn_layer_profile_key sn_layer_profile_key(const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    struct sn_layer_profile_key k;
    memset(&k, 0, sizeof(k)); /* padding too: keys are compared as bytes */
    sn_axes_sizes(k.size, l);
    k.size[SN_AXIS_DATA] = k.size[SN_AXIS_PIPELINE] = 1;
    k.micro_batch = l->micro_batch;
    k.expert = l->expert;
    k.exchange = l->context > 1 && l->context_kind == SN_CONTEXT_ALL_TO_ALL;
    k.sequence_parallel = l->tensor > 1 && l->sequence_parallel;
    k.slices = sn_config_fold(c) > 1 ? sn_config_slices(c) : 0;
    k.recompute = (unsigned char)l->recompute;
    k.split = l->split_backward || sn_schedule_traits(l->schedule)->delays_weights;
    if (sn_gradients_are_temporary(sn_config_holding(c)))
        k.zero = (unsigned char)l->zero;
    k.in_nodes = k.zero > 0 && sn_config_zero_node(c) > 0;
    if (l->tensor > 1 || l->tensor_x > 1)
        k.tensor_coding = l->compress.coding[SN_CODED_TENSOR];
    if (sn_config_expert_members(c) > 1)
        k.expert_coding = l->compress.coding[SN_CODED_EXPERT];
    if (l->pipeline > 1)
        k.pipeline_coding = l->compress.coding[SN_CODED_PIPELINE];
    return k;
}

/* Behind "layers.", the number of a pattern: "31.attn.*"; NULL: it names none. */
static const char *number_in(const char *pattern)
{
    static const char prefix[] = "layers.";
    const char *number = pattern + sizeof(prefix) - 1;
    bool is_one = strncmp(pattern, prefix, sizeof(prefix) - 1) == 0 && *number != '*';
    return is_one ? number : NULL;
}

bool sn_layer_profile_stands_for_all(const struct sn_train_config *t)
{
    for (int i = 0; i < t->lora.n_targets; i++)
        if (number_in(t->lora.targets[i]))
            return false;
    return true;
}

void sn_layer_profile_model(struct sn_model_config *m, struct sn_train_config *t)
{
    t->groups.n_names = 0; /* every group's update takes as long */
    t->sparse.n_targets = 0; /* buckets that are sparse are the whole model's */
    for (int i = 0; i < t->n_freeze; i++) {
        const char *number = number_in(t->freeze[i]), *end = number ? strchr(number, '.') : NULL;
        if (!end || end == number)
            continue;
        size_t at = (size_t)(number - t->freeze[i]);
        memmove(t->freeze[i] + at + 1, end, strlen(end) + 1);
        t->freeze[i][at] = '*';
    }
    bool both = sn_model_mixes_layers(m);
    m->share_layers = 1;
    m->layers = both ? 2 : 1;
    m->experts.every = both ? 2 : 1;
    m->experts.from = 0;
}

struct sn_extent sn_extent_of(struct sn_kinds k, int begin, int layers)
{
    const struct sn_model_config m = {.layers = begin + layers,
                                      .experts = {.count = 1, .every = k.every, .from = k.from}};
    struct sn_extent x = {.layers = layers};
    if (k.every > 0) {
        x.experts =
            sn_expert_layers_before(&m, begin + layers) - sn_expert_layers_before(&m, begin);
        x.begin = begin < k.from ? begin : k.from + (begin - k.from) % k.every; /* every divides from */
    }
    return x;
}

/* Replicas enough for gradients to be reduced, those of experts too, and in two groups where some of
 * them have slices. */
static int replicas_of(const struct sn_layer_profile_key *k)
{
    if (k->in_nodes)
        return k->expert > 1 ? 2 * k->expert : k->size[SN_AXIS_CONTEXT] == 1 ? 4 : 2;
    return k->expert > 1 ? 2 * k->expert : k->size[SN_AXIS_CONTEXT] == 1 ? 2 : 1;
}

void sn_layer_profile_config(struct sn_config *out, const struct sn_config *c,
                             const struct sn_layer_profile_key *k)
{
    *out = *c;
    sn_layer_profile_model(&out->model, &out->train);
    struct sn_layout_config *l = &out->layout;
    sn_axes_set_sizes(l, k->size);
    l->data = replicas_of(k);
    l->expert = k->expert;
    l->expert_tensor = k->slices;
    l->expert_tokens = k->slices == k->size[SN_AXIS_TENSOR] ? SN_TOKENS_SPLIT : SN_TOKENS_GATHERED;
    l->micro_batch = k->micro_batch;
    l->sequence_parallel = k->sequence_parallel;
    l->recompute = (enum sn_recompute)k->recompute;
    l->zero = k->zero;
    l->zero_cache = 0; /* who keeps weights differs from unit to unit */
    l->zero_node = !k->in_nodes ? 0 : l->context > 1 ? l->context : 2;
    l->split_backward = k->split;
    l->context_kind = k->exchange ? SN_CONTEXT_ALL_TO_ALL : SN_CONTEXT_RING;
    /* one stage, in the default order, one bucket for each shard where nothing is divided; the end
     * of a step is counted by bucket (inventory.h), two hops by the net */
    l->virtual_stages = 1;
    l->schedule = SN_SCHEDULE_DEFAULT;
    l->n_split = l->n_axis_order = 0;
    l->bucket = sn_gradients_are_temporary(sn_config_holding(out)) ? l->bucket : 1;
    l->optimizer_tile = 0;
    l->expert_node = 0;
    struct sn_coding *coding = out->layout.compress.coding;
    memset(coding, 0, SN_NCODED * sizeof(*coding));
    coding[SN_CODED_TENSOR] = k->tensor_coding;
    coding[SN_CODED_EXPERT] = k->expert_coding;
    coding[SN_CODED_PIPELINE] = k->pipeline_coding;
    sn_batch_set(&out->train, out->layout.data * k->micro_batch);
    out->train.eval_every = 0;
}

/* --- intervals -------------------------------------------------------------------------------- */

struct reader {
    const struct sn_layer_profile_env *env;
    struct sn_layer_profile *s;
    const struct sn_job *j;
    const struct sn_program *p;
    int id[SN_SHAPE_POSTS]; /* operations that the row at hand posted */
    int posts;
    double run; /* kernels since the last interval */
    bool failed;
};

enum sn_layer_place sn_layer_profile_place(const struct sn_model_config *m, int layer)
{
    return layer < 0                        ? SN_PLACE_EMBED
           : layer >= m->layers             ? SN_PLACE_HEAD
           : sn_layer_has_experts(m, layer) ? SN_PLACE_EXPERTS
                                            : SN_PLACE_BLOCK;
}

static enum sn_layer_place place_of(const struct reader *r, const struct sn_op *op)
{
    return sn_layer_profile_place(&r->j->config->model, op->layer);
}

static int pass_of(enum sn_segment_kind k)
{
    return k == SN_SEGMENT_FORWARD                                  ? SN_PASS_FORWARD
           : k == SN_SEGMENT_BACKWARD || k == SN_SEGMENT_INPUT_GRAD ? SN_PASS_BACKWARD
           : k == SN_SEGMENT_WEIGHT_GRAD                            ? SN_PASS_WEIGHT
                                                                    : -1;
}

static void interval(struct reader *r, enum sn_interval_kind kind, int comm, int slot)
{
    struct sn_layer_profile *s = r->s;
    if (!sn_grow((void **)&s->interval, s->n_intervals, &s->cap_intervals, sizeof(*s->interval))) {
        r->failed = true;
        return;
    }
    s->interval[s->n_intervals++] = (struct sn_interval){r->run, kind, comm, slot};
    r->run = 0;
}

int64_t sn_layer_profile_raw(const struct sn_job *j, const struct sn_buffer *x)
{
    int64_t n = 0;
    for (int q = 0; q < j->n_shards; q++)
        if (j->shards[q].bucket == x->bucket)
            n += sn_shard_room(j->shards[q].rows * j->shards[q].cols);
    const struct sn_bucket *b = &j->buckets[x->bucket];
    return b->is_coded && x->dtype == SN_U8 ? sn_bucket_bytes(j, b, b->weight, n) : n;
}

static int comm_of(struct reader *r, const struct sn_op *op)
{
    struct sn_layer_profile_comm c = {.group = op->group, .stream = sn_op_row(op->kind)->stream};
    if (!sn_op_collective(op, &c.kind, &c.n))
        return -1;
    const struct sn_view *v = op->kind == SN_OP_RECV ? &op->out[SN_MOVE_TO] : &op->in[SN_MOVE_FROM];
    const struct sn_buffer *x = &r->p->bufs[v->buf];
    c.dtype = x->dtype;
    c.raw = x->bucket >= 0 ? sn_layer_profile_raw(r->j, x) : 0;
    c.sized = sn_price_is_sized(op);
    for (int i = 0; i < r->s->n_comms; i++) {
        const struct sn_layer_profile_comm *o = &r->s->comm[i];
        if (o->kind == c.kind && o->dtype == c.dtype && o->group == c.group &&
            o->stream == c.stream && o->n == c.n && o->raw == c.raw && o->sized == c.sized)
            return i;
    }
    if (r->s->n_comms == SN_SHAPE_COMMS)
        return -1;
    r->s->comm[r->s->n_comms] = c;
    return r->s->n_comms++;
}

/* What entering a unit gathers (lib/program/zero.c): by whose weights they are. */
static void gathered(struct reader *r, const struct sn_op *op, enum sn_pass pass)
{
    int layer = r->j->buckets[r->p->bufs[op->in[SN_MOVE_FROM].buf].bucket].layer,
        comm = comm_of(r, op);
    enum sn_layer_place at = sn_layer_profile_place(&r->j->config->model, layer);
    if (at == SN_PLACE_EMBED && op->layer >= 0) /* a tied table, for the head */
        at = SN_PLACE_HEAD;
    int *n = &r->s->n_gathers[pass][at];
    if (comm >= 0 && *n < (int)(sizeof(r->s->gather[0][0]) / sizeof(int)))
        r->s->gather[pass][at][(*n)++] = comm;
}

static void communicate(struct reader *r, const struct sn_op *op, enum sn_pass pass)
{
    bool weights = op->kind == SN_OP_ALL_GATHER && r->p->bufs[op->in[SN_MOVE_FROM].buf].bucket >= 0;
    if (weights) {
        gathered(r, op, pass);
        return;
    }
    int comm = comm_of(r, op);
    if (comm < 0)
        return;
    if (op->is_weight_grad) {
        interval(r, SN_INTERVAL_REDUCE, comm, 0);
    } else if (r->posts < SN_SHAPE_POSTS) {
        r->id[r->posts] = op->id;
        interval(r, SN_INTERVAL_POST, comm, r->posts++);
    }
}

static void wait_for(struct reader *r, int id)
{
    for (int i = 0; i < r->posts; i++)
        if (r->id[i] == id)
            interval(r, SN_INTERVAL_WAIT, 0, i);
}

/* Sums of gradients over a step: each shard is a bucket here, so that where they stand says when
 * the shard is complete. */
static void complete(struct reader *r, const struct sn_op *op)
{
    int bucket = r->p->bufs[op->in[SN_MOVE_FROM].buf].bucket;
    for (int q = 0; q < r->j->n_shards; q++)
        if (r->j->shards[q].bucket == bucket)
            interval(r, SN_INTERVAL_SHARD, 0, q);
}

/* Padding at the end of a bucket, which depends on how many replicas there are. */
static bool is_padding(const struct reader *r, const struct sn_op *op)
{
    if (op->kind != SN_OP_ZERO || op->out[SN_ZERO_X].buf < 0)
        return false;
    int bucket = r->p->bufs[op->out[SN_ZERO_X].buf].bucket;
    return bucket >= 0 &&
           op->out[SN_ZERO_X].offset + op->out[SN_ZERO_X].cols == r->j->buckets[bucket].n;
}

/* What runs on every micro-batch; gathers are apart. */
static void read_op(struct reader *r, const struct sn_op *op, enum sn_pass pass)
{
    bool sums = op->kind == SN_OP_ALL_REDUCE && op->is_weight_grad;
    if (op->when == SN_LAST && sums)
        complete(r, op);
    if (op->when != SN_EVERY || op->extra) /* no expert has too many tokens */
        return;
    if (op->kind == SN_OP_WAIT)
        wait_for(r, op->waits_for);
    else if (sn_op_is_posted(op))
        communicate(r, op, pass);
    else if (!is_padding(r, op))
        r->run += sn_price_op(r->env->pricer, r->p, op);
}

static void read_row(struct reader *r, enum sn_pass pass, enum sn_layer_place place)
{
    r->posts = 0;
    r->run = 0;
    r->s->first[pass][place] = r->s->n_intervals;
    for (int c = 0; c < r->p->n_segments; c++) {
        const struct sn_segment *k = &r->p->segments[c];
        if (pass_of(k->kind) != (int)pass)
            continue;
        for (int i = k->first; i < k->first + k->n; i++)
            if (place_of(r, &r->p->ops[i]) == place)
                read_op(r, &r->p->ops[i], pass);
    }
    interval(r, SN_INTERVAL_END, 0, 0);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Temporaries alive at an operation, at least; the most over each row. `lean`: without gathered
 * weights and gradients to be scattered, of which a short stage module has fewer. */
static enum sn_status read_temporaries(struct reader *r, bool lean, struct sn_err *err)
{
    int64_t(*most)[SN_NPLACES] = lean ? r->s->lean : r->s->temp;
    const struct sn_program *p = r->p;
    int64_t *delta = sn_alloc_n((size_t)p->n_ops + 1, sizeof(*delta)), live = 0;
    if (!delta)
        return sn_fail(err, SN_ENOMEM, "search: no memory for %d operations", p->n_ops);
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        const struct sn_buffer *x = &p->bufs[b];
        if (x->cls == SN_CLASS_TEMP && x->place == b && x->first >= 0 &&
            !(lean && x->bucket >= 0)) {
            int64_t bytes = x->bytes;
            if (x->bucket >= 0) /* whatever it is padded to */
                bytes = sn_layer_profile_raw(r->j, x) * (int64_t)sn_dtype_size(x->dtype);
            delta[x->first] += bytes;
            delta[x->last + 1] -= bytes;
        }
    }
    for (int c = 0, i = 0; c < p->n_segments; c++) {
        int pass = pass_of(p->segments[c].kind);
        for (; i < p->segments[c].first + p->segments[c].n; i++) {
            enum sn_layer_place at = place_of(r, &p->ops[i]);
            live += delta[i];
            if (pass >= 0 && live > most[pass][at])
                most[pass][at] = live;
        }
    }
    sn_free(delta);
    return SN_OK;
}

static void read_workspace(struct reader *r)
{
    for (int i = 0; i < r->p->n_ops; i++) {
        const struct sn_op *op = &r->p->ops[i];
        struct sn_args a;
        if (op->kind >= SN_NKERNELS)
            continue;
        sn_op_shapes(r->p, op, &a);
        int64_t need =
            (int64_t)r->env->ops->scratch((enum sn_op_kind)op->kind, &a, r->env->threads);
        int64_t *most = &r->s->workspace[place_of(r, op)];
        *most = need > *most ? (need + 63) / 64 * 64 : *most;
    }
}

/* --- shards ----------------------------------------------------------------------------------- */

/* Where a parameter is used first, and whether the head uses a table too. */
static enum sn_layer_place param_place(const struct sn_job *j, int param, bool *tied)
{
    const struct sn_model *m = j->model;
    enum sn_layer_place at = SN_NPLACES;
    bool seen_block = false;
    *tied = false;
    for (int i = 0; i < m->n_nodes; i++) {
        seen_block = seen_block || m->nodes[i].layer >= 0;
        enum sn_layer_place here =
            m->nodes[i].layer >= 0 ? sn_layer_profile_place(&j->config->model, m->nodes[i].layer)
            : seen_block           ? SN_PLACE_HEAD
                                   : SN_PLACE_EMBED;
        if (m->nodes[i].param[0] != param && m->nodes[i].param[1] != param)
            continue;
        *tied = at == SN_PLACE_EMBED && here == SN_PLACE_HEAD;
        at = at == SN_NPLACES ? here : at;
    }
    return at;
}

static enum sn_status read_shards(struct sn_layer_profile *s, const struct sn_job *j,
                                  struct sn_err *err)
{
    if (j->n_shards > SN_SHAPE_SHARDS)
        return sn_fail(err, SN_EFAIL, "search: a layer of %d shards; at most %d are counted",
                       j->n_shards, (int)SN_SHAPE_SHARDS);
    for (int q = 0; q < j->n_shards; q++) {
        struct sn_layer_profile_shard *shard = &s->shard[s->n_shards++];
        shard->place = param_place(j, j->shards[q].param, &shard->tied);
    }
    return SN_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

/* What stands between blocks. */
static int64_t sent(const struct sn_job *j)
{
    struct sn_cut between = sn_cut_between(&j->mesh, j->config->layout.sequence_parallel);
    struct sn_placement p = sn_placement_on(&j->mesh, between.want);
    return sn_placement_local(&j->mesh, p, SN_ROWS, j->rows * sn_mesh_token_ranks(&j->mesh)) *
           sn_placement_local(&j->mesh, p, SN_COLS, j->config->model.hidden);
}

static enum sn_status read_job(struct sn_layer_profile *s, const struct sn_layer_profile_env *env,
                               const struct sn_job *j, struct sn_err *err)
{
    struct reader r = {.env = env, .s = s, .j = j, .p = &j->train};
    for (int pass = 0; pass < SN_NPASSES; pass++)
        for (int place = 0; place < SN_NPLACES; place++)
            read_row(&r, (enum sn_pass)pass, (enum sn_layer_place)place);
    if (r.failed)
        return sn_fail(err, SN_ENOMEM, "search: no memory for the intervals of a layer");
    SN_TRY(read_temporaries(&r, false, err));
    SN_TRY(read_temporaries(&r, true, err));
    read_workspace(&r);
    SN_TRY(read_shards(s, j, err));
    s->sent = sent(j);
    return SN_OK;
}

enum sn_status sn_layer_profile_create(struct sn_layer_profile **out,
                                       const struct sn_layer_profile_env *env,
                                       const struct sn_layer_profile_key *key, struct sn_err *err)
{
    struct sn_layer_profile *s = sn_alloc(sizeof(*s));
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    struct sn_job *j = NULL;
    enum sn_status st = SN_OK;
    if (!s || !c)
        st = sn_fail(err, SN_ENOMEM, "search: no memory to compile a layer");
    if (st == SN_OK) {
        s->key = *key;
        s->kinds = sn_kinds_of(&env->config->model);
        sn_layer_profile_config(c, env->config, key);
        s->reduces = sn_gradients_are_temporary(sn_config_holding(c));
        struct sn_job_env job = {
            .config = c, .model = env->model, .ops = env->ops, .threads = env->threads};
        st = sn_job_create_text(&j, &job, err);
    }
    if (st == SN_OK)
        st = read_job(s, env, j, err);
    sn_job_destroy(j);
    sn_free(c);
    if (st == SN_OK)
        *out = s;
    else
        sn_layer_profile_destroy(s);
    return st;
}

void sn_layer_profile_destroy(struct sn_layer_profile *s)
{
    if (!s)
        return;
    sn_free(s->interval);
    sn_free(s);
}
