/*
 * order.c - the order of a segment's operations, so that messages are hidden behind what computes.
 *
 * List scheduling (order_find.c) (Graham 1969; by the longest path to the end, Hu 1961) against a
 * clock: one stream computes, messages have theirs (sn_op_clock) and share links (lanes.h). A
 * message is posted as soon as its inputs are there, and waited for when nothing else is left to compute. Weight gradients, whose way to the
 * end is short, and what is computed again, whose inputs have long been there, so come to stand in
 * the waits of tensor, context, expert and data communication alike (Merak, arXiv 2206.04959;
 * AxoNN's overlap, arXiv 2305.13525, section V).
 *
 * What must stay in order:
 * - operations that touch the same buffer, or of one that is taken in pieces the same piece
 *   (pieces.c), if one of them writes it. A WAIT writes what its message
 *   reads and writes, so nobody touches that while the message is under way. Sums into one buffer
 *   are therefore taken in the order of the text, and have the same bits;
 * - transfers between stages, whose other ends are in another text;
 * - operations of further rounds of experts, neighbours that are repeated together;
 * - gathers of the first micro-batch alone, among themselves; they and the waits for them behind what the text computes before them,
 *   and the input of a stage behind those that need not wait for it.
 *
 * The clock knows shapes, and nothing in which ranks of a stage differ (positions, indices): they
 * all find the same order, as they have to. Where the order of the text is not slower it stays.
 * Temporaries may take SLACK more than they do in that order; where they would, the operation comes
 * that is next in the text.
 */
#include "lib/program/order_inner.h"

#include "lib/base/mem.h"

#include <math.h>
#include <string.h>

/* --- what comes before what ------------------------------------------------------------------- */

static void add_edge(struct sn_ordering *o, int from, int to, bool lengthens)
{
    if (o->failed || from < 0 || from == to)
        return;
    if (!sn_grow((void **)&o->edge, o->n_edges, &o->cap_edges, sizeof(*o->edge))) {
        o->failed = true;
        return;
    }
    o->edge[o->n_edges] = (struct sn_order_edge){to, o->node[from].edges, lengthens};
    o->node[from].edges = o->n_edges++;
    o->node[to].needs++;
}

static void reads(struct sn_ordering *o, int node, struct sn_order_part *x)
{
    add_edge(o, x->writer, node, true);
    if (o->failed || !sn_grow((void **)&o->edge, o->n_edges, &o->cap_edges, sizeof(*o->edge))) {
        o->failed = true;
        return;
    }
    o->edge[o->n_edges] = (struct sn_order_edge){node, x->readers, false};
    x->readers = o->n_edges++;
}

static void writes(struct sn_ordering *o, int node, struct sn_order_part *x, bool lengthens)
{
    add_edge(o, x->writer, node, lengthens);
    for (int e = x->readers; e >= 0 && !o->failed; e = o->edge[e].next)
        add_edge(o, o->edge[e].to, node, false);
    x->writer = node;
    x->readers = -1;
}

/* The parts that a view shows: all of the state's buffers, and of what is found when it runs. */
static void touch_view(struct sn_ordering *o, int node, const struct sn_view *v, bool is_written)
{
    const struct sn_program *p = o->p;
    int first = 0, last = o->parts - 1;
    if (v->buf < 0)
        return;
    const struct sn_buffer *b = &p->bufs[v->buf];
    int64_t n = (b->rows * b->cols + o->parts - 1) / o->parts;
    if (o->parts > 1 && v->buf >= p->n_state_bufs && b->bucket < 0 && v->index == SN_AT_FIXED &&
        v->rows > 0 && v->cols > 0) {
        first = (int)(v->offset / n);
        last = (int)((v->offset + (v->rows - 1) * v->ld + v->cols - 1) / n);
    }
    for (int k = first; k <= last; k++) {
        struct sn_order_part *x = &o->part[(size_t)o->alias[v->buf] * (size_t)o->parts + (size_t)k];
        if (is_written)
            writes(o, node, x, v->buf >= p->n_state_bufs);
        else
            reads(o, node, x);
    }
}

/* An operation's operands; all written, where `all` says so. */
static void touch_operands(struct sn_ordering *o, int node, const struct sn_op *op, bool all)
{
    for (int k = 0; k < SN_MAX_IN; k++)
        touch_view(o, node, &op->in[k], all);
    for (int k = 0; k < SN_MAX_OUT; k++)
        touch_view(o, node, &op->out[k], true);
}

static void touch_op(struct sn_ordering *o, int node, const struct sn_op *op)
{
    touch_operands(o, node, op, op->kind == SN_OP_WAIT || op->kind == SN_OP_ALIAS);
    if (op->kind == SN_OP_WAIT)
        touch_operands(o, node, sn_op_find(o->p, op->waits_for), true);
}

/* Between stages, or of all ranks: their texts differ. */
static bool leaves_stage(const struct sn_op *op)
{
    return op->group == SN_GROUP_PIPELINE || op->group == SN_GROUP_TIED ||
           op->group == SN_GROUP_WORLD;
}

/* Nodes that later ones may have to stand behind; -1. */
struct last {
    int out, kernel, gather;
};

static bool waits_for_input(const struct sn_op *op)
{
    return op->kind == SN_OP_WAIT && op->group == SN_GROUP_PIPELINE;
}

static bool is_gathered_once(const struct sn_ordering *o, const struct sn_op *op)
{
    if (op->kind == SN_OP_WAIT)
        op = sn_op_find(o->p, op->waits_for);
    return op->when == SN_FIRST && sn_op_carries(op) == SN_CARRIED_WEIGHTS;
}

static void add_node(struct sn_ordering *o, int first, int n, struct last *last)
{
    const struct sn_op *op = &o->p->ops[first];
    struct sn_order_node *x = &o->node[o->n++];
    bool is_one = !op->extra;
    *x =
        (struct sn_order_node){.first = first, .n = n, .when = op->when, .posted = -1, .edges = -1};
    x->is_wait = is_one && op->kind == SN_OP_WAIT;
    if (is_one && op->kind < SN_NKERNELS)
        x->kernel = sn_order_kernel(o->job, o->p, op);
    if (is_one && sn_op_is_posted(op) && sn_op_meets_others(o->job, op)) {
        x->stream = sn_op_clock(op);
        x->whole = sn_order_message(o->job, o->p, op);
        x->use = sn_order_use(o->job, o->p, op);
        x->gathers_weights = sn_op_carries(op) == SN_CARRIED_WEIGHTS;
    }
    for (int i = first; i < first + n; i++) {
        touch_op(o, o->n - 1, &o->p->ops[i]);
        if (sn_op_communicates(&o->p->ops[i]) && leaves_stage(&o->p->ops[i]) &&
            o->p->ops[i].kind != SN_OP_WAIT) {
            add_edge(o, last->out, o->n - 1, false);
            last->out = o->n - 1;
        }
    }
    if (is_one && is_gathered_once(o, op)) {
        add_edge(o, last->kernel, o->n - 1, false);
        add_edge(o, x->is_wait ? -1 : last->gather, o->n - 1, false);
        last->gather = x->is_wait ? last->gather : o->n - 1;
    }
    if (last->kernel < 0 && waits_for_input(op))
        add_edge(o, last->gather, o->n - 1, false);
    if (x->kernel > 0)
        last->kernel = o->n - 1;
    o->has_scenes |= x->when != SN_EVERY && o->p->micros > 1 && x->kernel + x->whole > 0;
}

/* The node of an operation of the segment: nodes stand in its order. */
static int node_of(const struct sn_ordering *o, int op)
{
    int low = 0, high = o->n - 1;
    while (low < high) {
        int mid = (low + high + 1) / 2;
        if (o->node[mid].first <= op)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

static void find_posted(struct sn_ordering *o)
{
    const struct sn_program *p = o->p;
    for (int i = 0; i < o->n; i++) {
        struct sn_order_node *x = &o->node[i];
        int op = x->is_wait ? p->op_of_id[p->ops[x->first].waits_for] : -1;
        int k = op >= o->segment->first && op < x->first ? node_of(o, op) : -1;
        if (k >= 0 && o->node[k].stream != SN_STREAM_COMPUTE)
            x->posted = k;
    }
}

static void add_nodes(struct sn_ordering *o)
{
    const struct sn_segment *s = o->segment;
    struct last last = {-1, -1, -1};
    o->n = o->n_edges = 0;
    o->has_scenes = false;
    for (int b = 0; b < o->p->n_bufs * o->parts; b++)
        o->part[b] = (struct sn_order_part){-1, -1};
    for (int i = s->first, n; i < s->first + s->n && !o->failed; i += n) {
        for (n = 1; o->p->ops[i].extra && i + n < s->first + s->n && o->p->ops[i + n].extra; n++)
            continue;
        add_node(o, i, n, &last);
    }
    sn_order_set_scene(o, SN_ORDER_MEAN);
    for (int i = o->n - 1; i >= 0; i--) { /* edges go forward in the text */
        struct sn_order_node *x = &o->node[i];
        for (int e = x->edges; e >= 0; e = o->edge[e].next)
            if (o->edge[e].lengthens)
                x->tail = fmax(x->tail, o->node[o->edge[e].to].tail);
        x->tail += x->seconds + x->message;
    }
    find_posted(o);
}
/* --- a segment, a program --------------------------------------------------------------------- */

static void write_order(struct sn_ordering *o)
{
    struct sn_program *p = o->p;
    struct sn_op *ops = sn_alloc_n((size_t)o->segment->n + 1, sizeof(*ops));
    int at = 0;
    if (!ops) {
        o->failed = true;
        return;
    }
    for (int n = 0; n < o->n; n++) {
        const struct sn_order_node *x = &o->node[o->best[n]];
        memcpy(ops + at, p->ops + x->first, (size_t)x->n * sizeof(*ops));
        at += x->n;
    }
    memcpy(p->ops + o->segment->first, ops, (size_t)at * sizeof(*ops));
    for (int i = o->segment->first; i < o->segment->first + at; i++)
        p->op_of_id[p->ops[i].id] = i;
    sn_free(ops);
}

static void order_segment(struct sn_ordering *o)
{
    add_nodes(o);
    if (o->failed)
        return;
    double before = sn_order_play_text(o);
    if (sn_order_find(o) < before)
        write_order(o);
}

/* Which segment touches each buffer, and which buffers are one. */
static void find_homes(struct sn_ordering *o)
{
    const struct sn_program *p = o->p;
    for (int b = 0; b < p->n_bufs; b++) {
        o->alias[b] = b;
        o->home[b] = -1;
    }
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        if (op->kind == SN_OP_ALIAS)
            o->alias[op->out[0].buf] = o->alias[op->in[0].buf];
    }
    for (int s = 0; s < p->n_segments; s++)
        for (int i = p->segments[s].first; i < p->segments[s].first + p->segments[s].n; i++)
            for (int k = 0; k < SN_MAX_IN + SN_MAX_OUT; k++) {
                const struct sn_op *op = &p->ops[i];
                int buf = k < SN_MAX_IN ? op->in[k].buf : op->out[k - SN_MAX_IN].buf;
                int *home = buf < 0 ? NULL : &o->home[o->alias[buf]];
                if (home)
                    *home = *home == -1 || *home == s ? s : -2;
            }
}

void sn_pass_order(const struct sn_job *j, struct sn_program *p)
{
    if (p->failed || !sn_order_is_weighed(j))
        return;
    struct sn_ordering o = {.job = j, .p = p, .parts = sn_tensor_pieces(j)};
    size_t ops = (size_t)p->n_ops + 1, bufs = (size_t)p->n_bufs + 1;
    o.node = sn_alloc_n(ops, sizeof(*o.node));
    o.use = sn_alloc_n(bufs, sizeof(*o.use));
    o.part = sn_alloc_n(bufs * (size_t)o.parts, sizeof(*o.part));
    o.touched = sn_alloc_n(ops * (SN_MAX_IN + SN_MAX_OUT), sizeof(*o.touched));
    o.alias = sn_alloc_n(bufs, sizeof(*o.alias));
    o.home = sn_alloc_n(bufs, sizeof(*o.home));
    o.ready = sn_alloc_n(ops, sizeof(*o.ready));
    o.found = sn_alloc_n(ops, sizeof(*o.found));
    o.best = sn_alloc_n(ops, sizeof(*o.best));
    o.failed = !o.node || !o.use || !o.part || !o.touched || !o.alias || !o.home || !o.ready ||
               !o.found || !o.best;
    if (!o.failed)
        find_homes(&o);
    for (int s = 0; s < p->n_segments && !o.failed; s++) {
        enum sn_segment_kind kind = p->segments[s].kind;
        o.segment = &p->segments[s];
        if (kind == SN_SEGMENT_FORWARD || kind == SN_SEGMENT_BACKWARD ||
            kind == SN_SEGMENT_INPUT_GRAD || kind == SN_SEGMENT_WEIGHT_GRAD)
            order_segment(&o);
    }
    p->failed = o.failed;
    sn_free(o.node);
    sn_free(o.edge);
    sn_free(o.use);
    sn_free(o.part);
    sn_free(o.touched);
    sn_free(o.alias);
    sn_free(o.home);
    sn_free(o.ready);
    sn_free(o.found);
    sn_free(o.best);
    sn_lanes_fini(&o.links);
    sn_lanes_fini(&o.ahead);
}
