/*
 * pipeline.c - model pieces, their chunks, and the order in which a stage runs them.
 *
 * Piece k of the model is virtual stage k / p of pipeline stage k % p. The value that crosses from
 * one piece to the next is sent when it is there and waited for when its memory is needed again;
 * its receive is a chunk of its own, which the schedule puts one entry ahead where the slot is
 * free.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"
#include "lib/layout/schedule.h"
#include "lib/layout/split.h"

#include <limits.h>

/* --- pieces ----------------------------------------------------------------------------------- */

double sn_head_layers(const struct sn_model *m, const struct sn_model_config *c)
{
    double head = 0, blocks = 0;
    for (int i = 0; i < m->n_nodes; i++) {
        const struct sn_node *n = &m->nodes[i];
        double cost =
            n->kind == SN_NODE_ATTENTION ? (double)c->hidden * c->seq : sn_node_multiplies(m, c, n);
        if (n->kind == SN_NODE_HEAD_LOSS)
            head += cost;
        else
            blocks += cost;
    }
    return head / (blocks / c->layers);
}

static enum sn_status layers_of_pieces(const struct sn_job *j, int *layers, struct sn_err *err)
{
    const struct sn_layout_config *l = &j->config->layout;
    if (l->n_split == 0) {
        /* The embedding is a lookup: next to nothing. */
        struct sn_split_cost cost = {.first = 0,
                                     .last = sn_head_layers(j->model, &j->config->model)};
        return sn_split_layers(layers, &cost, j->config->model.layers, j->pieces, err);
    }
    for (int k = 0; k < j->pieces; k++)
        layers[k] = l->split[k];
    return SN_OK;
}

/* Units ascend from node to node. */
static void find_units(struct sn_job *j)
{
    int unit = -1, last = j->config->model.layers + 1;
    for (int i = 0; i < j->model->n_nodes; i++)
        while (unit <= sn_unit_of(j, &j->model->nodes[i]))
            j->first_node[1 + unit++] = i;
    while (unit <= last)
        j->first_node[1 + unit++] = j->model->n_nodes;
}

enum sn_status sn_pieces_create(struct sn_job *j, struct sn_err *err)
{
    const struct sn_model *m = j->model;
    int *layers = sn_alloc_n((size_t)j->pieces, sizeof(*layers));
    j->piece_of_node = sn_alloc_n((size_t)m->n_nodes, sizeof(*j->piece_of_node));
    enum sn_status st = SN_OK;
    j->piece_of_value = sn_alloc_n((size_t)m->n_values, sizeof(*j->piece_of_value));
    j->first_node = sn_alloc_n((size_t)j->config->model.layers + 3, sizeof(*j->first_node));
    if (!layers || !j->piece_of_node || !j->piece_of_value || !j->first_node)
        st = sn_fail(err, SN_ENOMEM, "compile: no memory for %d nodes", m->n_nodes);
    else
        st = layers_of_pieces(j, layers, err);
    for (int v = 0; st == SN_OK && v < m->n_values; v++)
        j->piece_of_value[v] = INT_MAX; /* token ids: every piece has them */
    if (st == SN_OK)
        find_units(j);
    int piece = 0, end = st == SN_OK ? layers[0] : 0;
    for (int i = 0; st == SN_OK && i < m->n_nodes; i++) {
        while (piece + 1 < j->pieces && sn_unit_of(j, &m->nodes[i]) >= end)
            end += layers[++piece];
        j->piece_of_node[i] = piece;
        if (m->nodes[i].out >= 0)
            j->piece_of_value[m->nodes[i].out] = piece;
    }
    sn_free(layers);
    return st;
}

/* The one value that an operation of piece `piece` or a later one reads and an earlier piece makes;
 * -1: none. */
static int crossing(const struct sn_job *j, int piece)
{
    const struct sn_model *m = j->model;
    int found = -1;
    for (int i = 0; i < m->n_nodes; i++) {
        if (j->piece_of_node[i] < piece)
            continue;
        for (int k = 0; k < 2; k++) {
            int v = m->nodes[i].in[k];
            if (v >= 0 && j->piece_of_value[v] < piece)
                found = v;
        }
    }
    return found;
}

/* --- chunks ----------------------------------------------------------------------------------- */

enum { TAG_FORWARD, TAG_BACKWARD, TAGS };

static int piece_here(const struct sn_emit *e)
{
    return e->p->scope.virtual_stage * e->job->stages + e->job->stage;
}

/* A transfer between this piece and the next (forward) or previous one. */
static struct sn_op transfer(const struct sn_emit *e, int kind, int other, int direction)
{
    int piece = piece_here(e), upper = piece > other ? piece : other;
    struct sn_op op = sn_comm_op(kind, SN_GROUP_PIPELINE, "piece%d.%s", upper,
                                 direction == TAG_FORWARD ? "x" : "dx");
    op.peer = other % e->job->stages;
    op.tag = upper * TAGS + direction;
    op.per_slot = true;
    op.codable = 1 + SN_CODED_PIPELINE;
    return op;
}

static bool upstream_trains(const struct sn_emit *e)
{
    const struct sn_model *m = e->job->model;
    for (int i = 0; i < m->n_nodes; i++)
        for (int k = 0; k < 2 && e->job->piece_of_node[i] < piece_here(e); k++)
            if (m->nodes[i].param[k] >= 0 && sn_param_learns(&m->params[m->nodes[i].param[k]]))
                return true;
    return false;
}

static int receive_input(struct sn_emit *e)
{
    const struct sn_job *j = e->job;
    struct sn_placement at = sn_region(j);
    sn_chunk_begin(e->p, SN_CHUNK_RECV_FORWARD);
    int x =
        sn_buffer_add(e->p, SN_CLASS_TEMP, j->dtype, sn_rows_here(j, at),
                      sn_placement_local(&j->mesh, at, SN_COLS, j->model->values[e->input].cols),
                      "piece%d.x", piece_here(e));
    e->value[e->input] = (struct sn_value_place){.buf = x, .have = at, .used = -1};
    struct sn_op op = transfer(e, SN_OP_RECV, piece_here(e) - 1, TAG_FORWARD);
    op.out[SN_MOVE_TO] = sn_view_flat(e->p, x);
    if (!e->p->failed)
        e->p->bufs[x].needs_grad = e->train && upstream_trains(e);
    return sn_op_append(e->p, &op);
}

/* How many gradient contributions each shard still gets, and each bucket shards. */
static void count_uses(struct sn_emit *e, const struct sn_pipeline *pipe)
{
    const struct sn_job *j = e->job;
    for (int k = 0; k < sn_scopes(pipe); k++) {
        e->p->scope = sn_scope_at(pipe, k);
        for (int i = 0; i < j->model->n_nodes; i++)
            for (int n = 0; n < 2 && sn_node_is_here(e, i); n++)
                for (int q = 0; q < sn_param_shards(j, j->model->nodes[i].param[n]); q++)
                    e->uses_left[j->first_shard[j->model->nodes[i].param[n]] + q]++;
    }
    for (int q = 0; q < j->n_shards; q++)
        e->bucket_left[j->shards[q].bucket]++;
}

/* Text position and send of a part's forward chunk, for its backward. */
struct part_text {
    int first, n;      /* forward operations */
    int input, output; /* buffers; -1 */
};

/* A send's memory may be written again when the slot is used anew: wait for the send of the last
 * use. It stands before the send in the text, whose id it therefore learns afterwards. */
static int open_reuse(struct sn_emit *e, const char *label)
{
    struct sn_op op = sn_comm_op(SN_OP_WAIT, SN_GROUP_PIPELINE, "%s", label);
    op.per_slot = true;
    return sn_op_append(e->p, &op);
}

static void close_reuse(struct sn_program *p, int wait, int send, int buf)
{
    for (int i = p->n_ops - 1; i >= 0 && !p->failed; i--)
        if (p->ops[i].id == wait) {
            p->ops[i].waits_for = send;
            p->ops[i].in[SN_WAIT_NAMES] = sn_view_flat(p, buf);
            p->bufs[buf].kept = true;
            return;
        }
}

static struct part_text forward_part(struct sn_emit *e)
{
    struct sn_program *p = e->p;
    int piece = piece_here(e);
    struct part_text t = {.input = -1, .output = -1};
    e->input = piece > 0 ? crossing(e->job, piece) : -1;
    e->output = piece + 1 < e->job->pieces ? crossing(e->job, piece + 1) : -1;
    p->layer = -1;
    e->unit = -100; /* no unit yet */
    int recv = e->input >= 0 ? receive_input(e) : -1;
    sn_chunk_begin(p, SN_CHUNK_FORWARD);
    int reuse = e->output >= 0 ? open_reuse(e, "x.sent") : -1;
    if (recv >= 0)
        sn_wait_add(p, recv);
    t.first = p->n_ops;
    t.input = e->input >= 0 ? e->value[e->input].buf : -1;
    sn_lower_part(e);
    if (e->output >= 0) {
        t.output = sn_take(e, e->output, sn_region(e->job)).buf;
        t.n = p->n_ops - t.first;
        struct sn_op op = transfer(e, SN_OP_SEND, piece + 1, TAG_FORWARD);
        op.in[SN_MOVE_FROM] = sn_view_flat(p, t.output);
        close_reuse(p, reuse, sn_op_append(p, &op), t.output);
    } else {
        t.n = p->n_ops - t.first;
    }
    sn_zero_leave_chunk(e);
    return t;
}

static void backward_part(struct sn_emit *e, const struct part_text *t)
{
    struct sn_program *p = e->p;
    int piece = piece_here(e), recv = -1;
    bool needs = t->output >= 0 && !p->failed && p->bufs[t->output].needs_grad;
    bool gives = t->input >= 0 && !p->failed && p->bufs[t->input].needs_grad;
    p->layer = -1;
    e->unit = -100;
    if (needs) {
        sn_chunk_begin(p, SN_CHUNK_RECV_BACKWARD);
        int dy = sn_buffer_like(p, t->output, "d");
        struct sn_op op = transfer(e, SN_OP_RECV, piece + 1, TAG_BACKWARD);
        op.out[SN_MOVE_TO] = sn_view_flat(p, dy);
        recv = sn_op_append(p, &op);
        sn_grad_set(e, t->output, sn_view_all(p, dy));
    }
    sn_chunk_begin(p, SN_CHUNK_BACKWARD);
    int reuse = gives ? open_reuse(e, "dx.sent") : -1;
    if (recv >= 0)
        sn_wait_add(p, recv);
    sn_emit_backward(e, t->first, t->n);
    if (gives) {
        struct sn_view dx = sn_grad_get(e, t->input);
        struct sn_op op = transfer(e, SN_OP_SEND, piece - 1, TAG_BACKWARD);
        op.in[SN_MOVE_FROM] = sn_view_flat(p, dx.buf);
        close_reuse(p, reuse, sn_op_append(p, &op), dx.buf);
    }
    p->layer = -1;
    sn_zero_leave_chunk(e);
    if (sn_weights_delayed(e->job))
        sn_pass_split(p);
}

void sn_emit_chunks(struct sn_emit *e)
{
    struct part_text text[SN_MAX_PARTS];
    struct sn_pipeline pipe = sn_pipeline_of(&e->job->config->layout, e->p->micros);
    count_uses(e, &pipe);
    for (int k = 0; k < sn_scopes(&pipe) && !e->p->failed; k++) {
        e->p->scope = sn_scope_at(&pipe, k);
        text[k] = forward_part(e);
    }
    for (int k = sn_scopes(&pipe) - 1; k >= 0 && e->train && !e->p->failed; k--) {
        e->p->scope = sn_scope_at(&pipe, k);
        backward_part(e, &text[k]);
    }
    e->p->scope = sn_scope_at(&pipe, 0);
}

/* --- the order -------------------------------------------------------------------------------- */

/* The chunk that receives what a task begins with; -1: it begins with nothing from outside. */
static int recv_chunk(const struct sn_program *p, const struct sn_task *t)
{
    if (t->phase == SN_PHASE_WEIGHT)
        return -1;
    return sn_chunk_find(
        p, t->phase == SN_PHASE_FORWARD ? SN_CHUNK_RECV_FORWARD : SN_CHUNK_RECV_BACKWARD, t->scope);
}

static int work_chunk(const struct sn_program *p, const struct sn_task *t)
{
    if (t->phase == SN_PHASE_FORWARD)
        return sn_chunk_find(p, SN_CHUNK_FORWARD, t->scope);
    if (t->phase == SN_PHASE_WEIGHT)
        return sn_chunk_find(p, SN_CHUNK_WEIGHT_GRAD, t->scope);
    int whole = sn_chunk_find(p, SN_CHUNK_BACKWARD, t->scope);
    return whole >= 0 ? whole : sn_chunk_find(p, SN_CHUNK_INPUT_GRAD, t->scope);
}

/* May the receive of `next` be posted before `now` runs? Not while `now` holds the slot. */
static bool may_hoist(const struct sn_task *now, const struct sn_task *next)
{
    return next->phase != SN_PHASE_FORWARD ||
           now->scope.virtual_stage != next->scope.virtual_stage || now->slot != next->slot;
}

/* Late copies. Backwards and weight gradients both run in the order of micro-batches, so those that
 * wait for their weight gradients are consecutive: as many copies as there are at most, in turn. */
static void deal_late_copies(struct sn_program *p)
{
    int waiting[SN_MAX_PARTS] = {0};
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_chunk *c = &p->chunks[p->sched[i].chunk];
        int part = c->scope.virtual_stage;
        waiting[part] += c->kind == SN_CHUNK_INPUT_GRAD;
        p->lates[part] = waiting[part] > p->lates[part] ? waiting[part] : p->lates[part];
        waiting[part] -= c->kind == SN_CHUNK_WEIGHT_GRAD;
    }
    for (int i = 0; i < p->n_sched; i++) {
        int copies = p->lates[p->chunks[p->sched[i].chunk].scope.virtual_stage];
        p->sched[i].late = copies ? p->sched[i].micro % copies : 0;
    }
}

static void schedule_tasks(struct sn_program *p, const struct sn_task *tasks, int n, bool split)
{
    bool posted = false; /* the receive of the task at hand */
    for (int i = 0; i < n; i++) {
        const struct sn_task *t = &tasks[i];
        int recv = recv_chunk(p, t);
        if (recv >= 0 && !posted)
            sn_sched_add(p, recv, t->micro, t->slot);
        posted = false;
        if (i + 1 < n && recv_chunk(p, t + 1) >= 0 && may_hoist(t, t + 1)) {
            sn_sched_add(p, recv_chunk(p, t + 1), t[1].micro, t[1].slot);
            posted = true;
        }
        sn_sched_add(p, work_chunk(p, t), t->micro, t->slot);
        if (split && t->phase == SN_PHASE_BACKWARD) /* cut apart, but not delayed */
            sn_sched_add(p, sn_chunk_find(p, SN_CHUNK_WEIGHT_GRAD, t->scope), t->micro, t->slot);
    }
}

/* Without gradients all chunks run one after another, but for the end of an evaluation. */
static void schedule_forward(struct sn_program *p)
{
    for (int c = 0; c < p->n_chunks; c++)
        if (p->chunks[c].kind != SN_CHUNK_UPDATE)
            sn_sched_add(p, c, 0, 0);
}

enum sn_status sn_emit_schedule(struct sn_job *j, struct sn_program *p, struct sn_err *err)
{
    const struct sn_layout_config *l = &j->config->layout;
    struct sn_pipeline pipe = sn_pipeline_of(l, p->micros);
    struct sn_task *tasks;
    int n;
    if (p->failed)
        return SN_OK; /* which the compiler says */
    if (p != &j->train) {
        schedule_forward(p);
        return SN_OK;
    }
    SN_TRY(sn_schedule_make(&tasks, &n, &pipe, j->stage, err));
    for (int i = 0; i < n; i++) { /* as sn_schedule_slots counts */
        int *slots = &p->slots[tasks[i].scope.virtual_stage];
        *slots = tasks[i].slot >= *slots ? tasks[i].slot + 1 : *slots;
    }
    schedule_tasks(p, tasks, n,
                   l->split_backward && !sn_schedule_traits(l->schedule)->delays_weights);
    sn_sched_add(p, p->n_chunks - 1, p->micros - 1, 0);
    if (!p->failed)
        deal_late_copies(p);
    sn_free(tasks);
    return SN_OK;
}
