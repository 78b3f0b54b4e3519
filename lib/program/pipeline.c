/*
 * pipeline.c - stage modules, their segments, and the order in which a stage runs them.
 *
 * Stage module k is virtual stage k / p of pipeline stage k % p. The value that crosses from
 * one stage module to the next is sent when it is there and waited for when its memory is needed
 * again; its receive is a segment of its own, which the schedule puts one entry ahead where the
 * slot is free.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"
#include "lib/layout/schedule.h"
#include "lib/layout/split.h"

#include <limits.h>

/* --- stage modules ---------------------------------------------------------------------------- */

double sn_head_layers(const struct sn_model *m, const struct sn_model_config *c)
{
    double head = 0, blocks = 0;
    for (int i = 0; i < m->n_nodes; i++) {
        const struct sn_node *n = &m->nodes[i];
        double cost = n->kind == SN_NODE_ATTENTION ? (double)sn_model_query_width(c) * c->seq
                                                   : sn_node_multiplies(m, c, n);
        if (n->kind == SN_NODE_HEAD_LOSS || n->layer >= c->layers)
            head += cost;
        else
            blocks += cost;
    }
    return head / (blocks / c->layers);
}

static enum sn_status layers_of_modules(const struct sn_job *j, int *layers, struct sn_err *err)
{
    const struct sn_layout_config *l = &j->config->layout;
    if (l->n_split == 0) {
        /* The embedding is a lookup: next to nothing. */
        struct sn_split_cost cost = {.first = 0,
                                     .last = sn_head_layers(j->model, &j->config->model)};
        return sn_split_layers(layers, &cost, j->config->model.layers, j->modules, err);
    }
    for (int k = 0; k < j->modules; k++)
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

enum sn_status sn_modules_create(struct sn_job *j, struct sn_err *err)
{
    const struct sn_model *m = j->model;
    int *layers = sn_alloc_n((size_t)j->modules, sizeof(*layers));
    j->module_of_node = sn_alloc_n((size_t)m->n_nodes, sizeof(*j->module_of_node));
    enum sn_status st = SN_OK;
    j->module_of_value = sn_alloc_n((size_t)m->n_values, sizeof(*j->module_of_value));
    j->first_node = sn_alloc_n((size_t)j->config->model.layers + 3, sizeof(*j->first_node));
    if (!layers || !j->module_of_node || !j->module_of_value || !j->first_node)
        st = sn_fail(err, SN_ENOMEM, "compile: no memory for %d nodes", m->n_nodes);
    else
        st = layers_of_modules(j, layers, err);
    for (int v = 0; st == SN_OK && v < m->n_values; v++)
        j->module_of_value[v] = INT_MAX; /* token ids: every stage module has them */
    if (st == SN_OK)
        find_units(j);
    int module = 0, end = st == SN_OK ? layers[0] : 0;
    for (int i = 0; st == SN_OK && i < m->n_nodes; i++) {
        while (module + 1 < j->modules && sn_unit_of(j, &m->nodes[i]) >= end)
            end += layers[++module];
        j->module_of_node[i] = module;
        if (m->nodes[i].out >= 0)
            j->module_of_value[m->nodes[i].out] = module;
    }
    sn_free(layers);
    return st;
}

/* The one value that an operation of stage module `module` or a later one reads and an earlier
 * stage module makes;
 * -1: none. */
static int crossing(const struct sn_job *j, int module)
{
    const struct sn_model *m = j->model;
    int found = -1;
    for (int i = 0; i < m->n_nodes; i++) {
        if (j->module_of_node[i] < module)
            continue;
        for (int k = 0; k < SN_NODE_INS; k++) {
            int v = m->nodes[i].in[k];
            if (v >= 0 && j->module_of_value[v] < module)
                found = v;
        }
    }
    return found;
}

/* --- segments --------------------------------------------------------------------------------- */

enum { TAG_FORWARD, TAG_BACKWARD, TAGS };

static int module_here(const struct sn_emit *e)
{
    return e->p->scope.virtual_stage * e->job->stages + e->job->stage;
}

/* A transfer between this stage module and the next (forward) or previous one. */
static struct sn_op transfer(const struct sn_emit *e, int kind, int other, int direction)
{
    int module = module_here(e), upper = module > other ? module : other;
    struct sn_op op = sn_comm_op(kind, SN_GROUP_PIPELINE, "module%d.%s", upper,
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
        for (int k = 0; k < 2 && e->job->module_of_node[i] < module_here(e); k++)
            if (m->nodes[i].param[k] >= 0 && sn_param_trains(&m->params[m->nodes[i].param[k]]))
                return true;
    return false;
}

static int receive_input(struct sn_emit *e)
{
    const struct sn_job *j = e->job;
    struct sn_placement at = sn_region(j);
    sn_segment_begin(e->p, SN_SEGMENT_RECV_FORWARD);
    int x =
        sn_buffer_add(e->p, SN_CLASS_TEMP, j->dtype, sn_rows_here(j, at),
                      sn_placement_local(&j->mesh, at, SN_COLS, j->model->values[e->input].cols),
                      "module%d.x", module_here(e));
    e->value[e->input] = (struct sn_value_place){.buf = x, .have = at, .used = -1};
    struct sn_op op = transfer(e, SN_OP_RECV, module_here(e) - 1, TAG_FORWARD);
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

/* Text position and send of a virtual stage's forward segment, for its backward. */
struct vstage_text {
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

static struct vstage_text forward_vstage(struct sn_emit *e)
{
    struct sn_program *p = e->p;
    int module = module_here(e);
    struct vstage_text t = {.input = -1, .output = -1};
    e->input = module > 0 ? crossing(e->job, module) : -1;
    e->output = module + 1 < e->job->modules ? crossing(e->job, module + 1) : -1;
    p->layer = -1;
    e->unit = -100; /* no unit yet */
    int recv = e->input >= 0 ? receive_input(e) : -1;
    sn_segment_begin(p, SN_SEGMENT_FORWARD);
    if (recv >= 0)
        sn_zero_before_input(e);
    int reuse = e->output >= 0 ? open_reuse(e, "x.sent") : -1;
    if (recv >= 0)
        sn_wait_add(p, recv);
    t.first = p->n_ops;
    t.input = e->input >= 0 ? e->value[e->input].buf : -1;
    sn_lower_vstage(e);
    if (e->output >= 0) {
        t.output = sn_take(e, e->output, sn_region(e->job)).buf;
        t.n = p->n_ops - t.first;
        struct sn_op op = transfer(e, SN_OP_SEND, module + 1, TAG_FORWARD);
        op.in[SN_MOVE_FROM] = sn_view_flat(p, t.output);
        close_reuse(p, reuse, sn_op_append(p, &op), t.output);
    } else {
        t.n = p->n_ops - t.first;
    }
    sn_zero_leave_segment(e);
    return t;
}

static void backward_vstage(struct sn_emit *e, const struct vstage_text *t)
{
    struct sn_program *p = e->p;
    int module = module_here(e), recv = -1;
    bool needs = t->output >= 0 && !p->failed && p->bufs[t->output].needs_grad;
    bool gives = t->input >= 0 && !p->failed && p->bufs[t->input].needs_grad;
    p->layer = -1;
    e->unit = -100;
    if (needs) {
        sn_segment_begin(p, SN_SEGMENT_RECV_BACKWARD);
        int dy = sn_buffer_like(p, t->output, "d");
        struct sn_op op = transfer(e, SN_OP_RECV, module + 1, TAG_BACKWARD);
        op.out[SN_MOVE_TO] = sn_view_flat(p, dy);
        recv = sn_op_append(p, &op);
        sn_grad_set(e, t->output, sn_view_all(p, dy));
    }
    sn_segment_begin(p, SN_SEGMENT_BACKWARD);
    int reuse = gives ? open_reuse(e, "dx.sent") : -1;
    if (recv >= 0)
        sn_wait_add(p, recv);
    sn_emit_backward(e, t->first, t->n);
    if (gives) {
        struct sn_view dx = sn_grad_get(e, t->input);
        struct sn_op op = transfer(e, SN_OP_SEND, module - 1, TAG_BACKWARD);
        op.in[SN_MOVE_FROM] = sn_view_flat(p, dx.buf);
        close_reuse(p, reuse, sn_op_append(p, &op), dx.buf);
    }
    p->layer = -1;
    sn_zero_leave_segment(e);
    if (sn_weights_delayed(e->job))
        sn_pass_split(p);
}

void sn_emit_segments(struct sn_emit *e)
{
    struct vstage_text text[SN_MAX_VSTAGES];
    struct sn_pipeline pipe = sn_pipeline_of(&e->job->config->layout, e->p->micros);
    count_uses(e, &pipe);
    for (int k = 0; k < sn_scopes(&pipe) && !e->p->failed; k++) {
        e->p->scope = sn_scope_at(&pipe, k);
        text[k] = forward_vstage(e);
    }
    for (int k = sn_scopes(&pipe) - 1; k >= 0 && e->train && !e->p->failed; k--) {
        e->p->scope = sn_scope_at(&pipe, k);
        backward_vstage(e, &text[k]);
    }
    e->p->scope = sn_scope_at(&pipe, 0);
}

/* --- the order -------------------------------------------------------------------------------- */

/* The segment that receives what a task begins with; -1: it begins with nothing from outside. */
static int recv_segment(const struct sn_program *p, const struct sn_task *t)
{
    if (t->phase == SN_PHASE_WEIGHT)
        return -1;
    return sn_segment_find(
        p, t->phase == SN_PHASE_FORWARD ? SN_SEGMENT_RECV_FORWARD : SN_SEGMENT_RECV_BACKWARD,
        t->scope);
}

static int work_segment(const struct sn_program *p, const struct sn_task *t)
{
    if (t->phase == SN_PHASE_FORWARD)
        return sn_segment_find(p, SN_SEGMENT_FORWARD, t->scope);
    if (t->phase == SN_PHASE_WEIGHT)
        return sn_segment_find(p, SN_SEGMENT_WEIGHT_GRAD, t->scope);
    int whole = sn_segment_find(p, SN_SEGMENT_BACKWARD, t->scope);
    return whole >= 0 ? whole : sn_segment_find(p, SN_SEGMENT_INPUT_GRAD, t->scope);
}

/* May the receive of `next` be posted before `now` runs? Not while `now` holds the slot. */
static bool may_hoist(const struct sn_task *now, const struct sn_task *next)
{
    return next->phase != SN_PHASE_FORWARD ||
           now->scope.virtual_stage != next->scope.virtual_stage || now->slot != next->slot;
}

/* Late copies. Backwards and weight gradients both run in the order of micro-batches, so those that
 * wait for their weight gradients are consecutive: as many copies as there are at most, in turn. */
static void assign_late_copies(struct sn_program *p)
{
    int waiting[SN_MAX_VSTAGES] = {0};
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_segment *c = &p->segments[p->sched[i].segment];
        int vstage = c->scope.virtual_stage;
        waiting[vstage] += c->kind == SN_SEGMENT_INPUT_GRAD;
        p->lates[vstage] = waiting[vstage] > p->lates[vstage] ? waiting[vstage] : p->lates[vstage];
        waiting[vstage] -= c->kind == SN_SEGMENT_WEIGHT_GRAD;
    }
    for (int i = 0; i < p->n_sched; i++) {
        int copies = p->lates[p->segments[p->sched[i].segment].scope.virtual_stage];
        p->sched[i].late = copies ? p->sched[i].micro % copies : 0;
    }
}

/* Turns of each forward and backward that stand beside each other, found once. */
struct turns_set {
    const struct sn_job *job;
    struct sn_turns *of; /* [forward virtual stage x backward] */
};

/* Tasks that run together, from t[0] on: a forward and the backward behind it, where they take
 * turns, or one. */
static int together(const struct turns_set *set, const struct sn_task *t, int left)
{
    bool pair =
        set->of && left > 1 && t[0].phase == SN_PHASE_FORWARD && t[1].phase == SN_PHASE_BACKWARD;
    return pair ? 2 : left > 0;
}

static void schedule_pair(const struct turns_set *set, struct sn_program *p,
                          const struct sn_task *t)
{
    const int segment[] = {work_segment(p, &t[0]), work_segment(p, &t[1])};
    struct sn_turns *turns =
        &set->of[t[0].scope.virtual_stage * p->vstages + t[1].scope.virtual_stage];
    if (!turns->n && !sn_turns_find(turns, set->job, p, segment)) {
        p->failed = true;
        return;
    }
    p->takes_turns |= turns->n > 2;
    for (int k = 0; k < turns->n; k++) {
        const struct sn_piece *x = &turns->piece[k];
        const struct sn_task *of = &t[x->segment == segment[1]];
        sn_sched_add_piece(p, x, of->micro, of->slot);
    }
}

static void receive(struct sn_program *p, const struct sn_task *t)
{
    int segment = recv_segment(p, t);
    if (segment >= 0)
        sn_sched_add(p, segment, t->micro, t->slot);
}

static void schedule_tasks(const struct turns_set *set, struct sn_program *p,
                           const struct sn_task *tasks, int n, bool split)
{
    bool posted[2] = {false, false}; /* the receives of the tasks at hand */
    for (int i = 0, now; i < n && !p->failed; i += now) {
        const struct sn_task *t = &tasks[i];
        now = together(set, t, n - i);
        for (int k = 0; k < now; k++)
            if (!posted[k])
                receive(p, &t[k]);
        for (int k = 0, next = together(set, t + now, n - i - now); k < 2; k++) {
            posted[k] =
                k < next && may_hoist(t, t + now + k) && may_hoist(t + now - 1, t + now + k);
            if (posted[k])
                receive(p, t + now + k);
        }
        if (now == 2) {
            schedule_pair(set, p, t);
            continue;
        }
        sn_sched_add(p, work_segment(p, t), t->micro, t->slot);
        if (split && t->phase == SN_PHASE_BACKWARD) /* cut apart, but not delayed */
            sn_sched_add(p, sn_segment_find(p, SN_SEGMENT_WEIGHT_GRAD, t->scope), t->micro,
                         t->slot);
    }
}

/* Without gradients all segments run one after another, but for the end of an evaluation. */
static void schedule_forward(struct sn_program *p)
{
    for (int c = 0; c < p->n_segments; c++)
        if (p->segments[c].kind != SN_SEGMENT_UPDATE)
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
    const struct sn_schedule_traits *traits = sn_schedule_traits(l->schedule);
    struct turns_set set = {.job = j};
    bool takes_turns = sn_takes_turns(j) && sn_schedule_pairs(&pipe, j->stage);
    int pairs = takes_turns ? p->vstages * p->vstages : 0;
    if (pairs && !(set.of = sn_alloc_n((size_t)pairs, sizeof(*set.of))))
        p->failed = true;
    if (!p->failed)
        schedule_tasks(&set, p, tasks, n, l->split_backward && !traits->delays_weights);
    for (int i = 0; set.of && i < pairs; i++)
        sn_free(set.of[i].piece);
    sn_free(set.of);
    if (!p->failed)
        sn_sched_add(p, p->n_segments - 1, p->micros - 1, 0);
    if (!p->failed)
        assign_late_copies(p);
    sn_free(tasks);
    return SN_OK; /* p->failed: which the compiler says */
}
