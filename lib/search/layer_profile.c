#include "lib/search/layer_profile.h"

#include "lib/base/mem.h"
#include "lib/layout/cut.h"
#include "lib/program/opinfo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- intervals -------------------------------------------------------------------------------- */

struct reader {
    const struct sn_layer_profile_env *env;
    struct sn_layer_profile *s;
    const struct sn_job *j;
    const struct sn_program *p;
    int id[SN_SHAPE_POSTS]; /* operations that the row at hand posted */
    int posts;
    double run; /* kernels since the last interval */
    double least;  /* of the row, */
    bool is_whole; /* for a profile of sn_layer_profile_whole */
    bool failed;
};

/* Is this layer of such a model the one of its kind that is read? The first, or else the last. */
static bool is_read(const struct sn_config *c, int layer)
{
    struct sn_kinds k = sn_kinds_of(c);
    if (layer <= 0 || layer >= c->model.layers)
        return true;
    enum sn_layer_place at = sn_kinds_place(k, layer);
    bool last = at != sn_kinds_place(k, 0);
    for (int i = layer + 1; i < c->model.layers; i++)
        last = last && sn_kinds_place(k, i) != at;
    return last;
}

static enum sn_layer_place place_of(const struct reader *r, const struct sn_op *op)
{
    return sn_layer_profile_place(r->j->config, op->layer);
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

/* Where a parameter is used first, and whether the head uses a table too. */
static enum sn_layer_place param_place(const struct sn_job *j, int param, bool *tied)
{
    const struct sn_model *m = j->model;
    enum sn_layer_place at = SN_NPLACES;
    bool seen_block = false;
    *tied = false;
    for (int i = 0; i < m->n_nodes; i++) {
        seen_block = seen_block || m->nodes[i].layer >= 0;
        enum sn_layer_place here = m->nodes[i].layer >= 0
                                       ? sn_layer_profile_place(j->config, m->nodes[i].layer)
                                   : seen_block ? SN_PLACE_HEAD
                                                : SN_PLACE_EMBED;
        if (m->nodes[i].param[0] != param && m->nodes[i].param[1] != param)
            continue;
        *tied = at == SN_PLACE_EMBED && here == SN_PLACE_HEAD;
        if (at == SN_NPLACES && is_read(j->config, m->nodes[i].layer))
            at = here;
    }
    return at;
}

/* `tied`: of a table that the head has, too, alone. */
static int64_t raw(const struct sn_job *j, const struct sn_buffer *x, bool tied)
{
    int64_t n = 0;
    for (int q = 0; q < j->n_shards; q++) {
        bool is_tied = false;
        if (j->shards[q].bucket != x->bucket)
            continue;
        if (tied)
            (void)param_place(j, j->shards[q].param, &is_tied);
        if (is_tied == tied)
            n += sn_shard_room(j->shards[q].rows * j->shards[q].cols);
    }
    const struct sn_bucket *b = &j->buckets[x->bucket];
    return b->is_coded && x->dtype == SN_U8 ? sn_bucket_bytes(j, b, b->weight, n) : n;
}

int64_t sn_layer_profile_raw(const struct sn_job *j, const struct sn_buffer *x)
{
    return raw(j, x, false);
}

/* `tied`: a table that the head gathers; where the ends are apart, without what lies beside it in the embedding's bucket. */
static int comm_of(struct reader *r, const struct sn_op *op, bool tied)
{
    struct sn_layer_profile_comm c = {.group = op->group, .stream = sn_op_row(op->kind)->stream};
    if (!sn_op_collective(op, &c.kind, &c.n))
        return -1;
    const struct sn_view *v = op->kind == SN_OP_RECV ? &op->out[SN_MOVE_TO] : &op->in[SN_MOVE_FROM];
    const struct sn_buffer *x = &r->p->bufs[v->buf];
    c.dtype = x->dtype;
    c.raw = x->bucket >= 0 ? raw(r->j, x, tied) : 0;
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
    int layer = r->j->buckets[r->p->bufs[op->in[SN_MOVE_FROM].buf].bucket].layer;
    enum sn_layer_place at = sn_layer_profile_place(r->j->config, layer);
    bool tied = at == SN_PLACE_EMBED && op->layer >= 0; /* a table, for the head */
    int comm = comm_of(r, op, tied);
    at = tied ? SN_PLACE_HEAD : at;
    bool is_ahead =
        at == SN_PLACE_STILL && pass != SN_PASS_FORWARD; /* of one such layer, and for nothing */
    if (is_ahead || !is_read(r->j->config, layer))
        return;
    int *n = &r->s->n_gathers[pass][at];
    for (int i = 0; i < *n && at == SN_PLACE_FIRST_PROMPT; i++)
        if (r->s->gather[pass][at][i] == comm) /* the map, for other layers, too: not counted */
            return;
    if (comm >= 0 && *n < (int)(sizeof(r->s->gather[0][0]) / sizeof(int)))
        r->s->gather[pass][at][(*n)++] = comm;
}

static bool gathers(const struct reader *r, const struct sn_op *op)
{
    return op->kind == SN_OP_ALL_GATHER && r->p->bufs[op->in[SN_MOVE_FROM].buf].bucket >= 0;
}

static void communicate(struct reader *r, const struct sn_op *op, enum sn_pass pass)
{
    if (gathers(r, op)) {
        gathered(r, op, pass);
        return;
    }
    int comm = comm_of(r, op, false);
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
    else if (!is_padding(r, op)) {
        r->run += sn_price_op(r->env->pricer, r->p, op);
        r->least += r->is_whole ? sn_price_least(r->env->pricer, r->p, op) : 0;
    }
}

static void read_row(struct reader *r, enum sn_pass pass, enum sn_layer_place place)
{
    r->posts = 0;
    r->run = r->least = 0;
    r->s->first[pass][place] = r->s->n_intervals;
    for (int c = 0; c < r->p->n_segments; c++) {
        const struct sn_segment *k = &r->p->segments[c];
        if (pass_of(k->kind) != (int)pass)
            continue;
        for (int i = k->first; i < k->first + k->n; i++)
            if (place_of(r, &r->p->ops[i]) == place &&
                (is_read(r->j->config, r->p->ops[i].layer) || gathers(r, &r->p->ops[i])))
                read_op(r, &r->p->ops[i], pass);
    }
    interval(r, SN_INTERVAL_END, 0, 0);
    r->s->least[pass][place] = r->least;
}

/* Without prompts a layer's first norm is fused with the end of the one before, unless a stage begins with it. So that
 * it costs no more than any, it is taken to be as that of the layer behind the first prompts. */
static void part_norm(struct reader *r)
{
    double seconds[SN_NPLACES] = {0};
    int first = sn_kinds_of(r->j->config).prompt->layers[0];
    enum sn_layer_place at = sn_layer_profile_place(r->j->config, first + 1);
    struct sn_interval *plain = &r->s->interval[r->s->first[SN_PASS_FORWARD][at]];
    for (int i = 0; i < r->p->n_ops; i++)
        if (r->p->ops[i].kind == SN_OP_PROMPT && r->p->ops[i].layer == first)
            seconds[at] += sn_price_op(r->env->pricer, r->p, &r->p->ops[i]);
    for (int k = 0; k < 2; k++) {
        enum sn_layer_place of = k ? SN_PLACE_FIRST_PROMPT : at;
        const struct sn_interval *x = &r->s->interval[r->s->first[SN_PASS_FORWARD][of]];
        do
            seconds[of] += x->run;
        while (x++->kind != SN_INTERVAL_END);
    }
    plain->run -= fmin(plain->run, fmax(0, seconds[at] - seconds[SN_PLACE_FIRST_PROMPT]));
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

static enum sn_status read_shards(struct sn_layer_profile *s, const struct sn_job *j,
                                  struct sn_err *err)
{
    if (j->n_shards > SN_SHAPE_SHARDS)
        return sn_fail(err, SN_EFAIL, "search: a layer of %d shards; at most %d are counted",
                       j->n_shards, (int)SN_SHAPE_SHARDS);
    int map = sn_layer_profile_map(j->model);
    for (int q = 0; q < j->n_shards; q++) {
        struct sn_layer_profile_shard *shard = &s->shard[s->n_shards++];
        shard->place = param_place(j, j->shards[q].param, &shard->tied);
        shard->is_map = j->shards[q].param == map;
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
    struct sn_layer_profile_key whole = sn_layer_profile_whole(&s->key);
    r.is_whole = memcmp(&whole, &s->key, sizeof(whole)) == 0;
    for (int pass = 0; pass < SN_NPASSES; pass++)
        for (int place = 0; place < SN_NPLACES; place++)
            read_row(&r, (enum sn_pass)pass, (enum sn_layer_place)place);
    if (r.failed)
        return sn_fail(err, SN_ENOMEM, "search: no memory for the intervals of a layer");
    if (s->kinds.prompt)
        part_norm(&r);
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
        s->kinds = sn_kinds_of(env->config);
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
