/*
 * verify_trace.c - a program's posts and waits, in the order in which the executor makes them.
 */
#include "lib/verify/verify_trace.h"

#include "lib/base/mem.h"

#include <stdio.h>

struct tracer {
    struct sn_trace *t;
    const struct sn_trace_of *of;
    int slots;
    int *posted; /* by operation id and slot: its (first) post plus one; 0: none */
    struct sn_flights flights;
    struct sn_err *err;
};

#define ROOM(t, items)                                                                             \
    sn_grow((void **)&(t)->items, (t)->n_##items, &(t)->cap_##items, sizeof(*(t)->items))

static enum sn_status no_memory(const struct tracer *x)
{
    return sn_fail(x->err, SN_ENOMEM, "verify: no memory for the trace of a program");
}

struct sn_rank_text sn_rank_text(const struct sn_grid *g, int rank)
{
    struct sn_rank_text t;
    int at = snprintf(t.s, sizeof(t.s), "rank %d (", rank);
    for (int i = 0; i < SN_NGRID_AXES; i++) {
        enum sn_axis a = sn_axis_told(i);
        if (sn_axis_is_told(a, g->size[a]))
            at += snprintf(t.s + at, sizeof(t.s) - (size_t)at, "%s%s %d", i ? ", " : "",
                           sn_axis_name(a), sn_grid_coord(g, rank, a));
    }
    (void)snprintf(t.s + at, sizeof(t.s) - (size_t)at, ")");
    return t;
}

unsigned sn_trace_groups(const struct sn_program *p)
{
    unsigned groups = 0;
    for (int i = 0; i < p->n_ops; i++)
        groups |= sn_op_communicates(&p->ops[i]) ? p->ops[i].only : 0;
    return groups;
}

unsigned sn_trace_first(const struct sn_grid *g, int rank)
{
    unsigned first = 0;
    for (int q = 0; q < SN_NGROUPS; q++)
        first |= sn_group_index(g, rank, (enum sn_group)q) == 0 ? 1u << q : 0;
    return first;
}

struct sn_trace_wire sn_trace_wire(const struct sn_trace *t, int post)
{
    const struct sn_trace_post *x = &t->posts[post];
    const struct sn_op *op = &t->program->ops[x->op];
    struct sn_communication c = {0};
    (void)sn_op_communication(&c, t->program, op);
    struct sn_trace_wire w = {
        .group = op->group, .label = op->label, .kind = c.kind, .n = c.n, .dtype = c.dtype};
    if (x->port >= 0)
        w.kind = t->ports[x->port].sends ? SN_SEND : SN_RECV;
    return w;
}

/* --- one operation's faults ------------------------------------------------------------------- */

static enum sn_status fault(const struct tracer *x, const struct sn_op *op, const char *what,
                            int64_t a, int64_t b)
{
    return sn_fail(x->err, SN_EFAIL, "%s: %s: %s '%s' %s (%lld, %lld)", x->of->program->name,
                   sn_rank_text(x->of->grid, x->of->rank).s, sn_op_name(op->kind), op->label, what,
                   (long long)a, (long long)b);
}

/* Operands that fit each other and the group that the text was compiled for. */
static enum sn_status check_operands(const struct tracer *x, const struct sn_op *op)
{
    const struct sn_program *p = x->of->program;
    int64_t in = op->in[SN_MOVE_FROM].rows * op->in[SN_MOVE_FROM].cols,
            out = op->out[SN_MOVE_TO].rows * op->out[SN_MOVE_TO].cols;
    int64_t size = x->of->job->group_size[op->group];
    bool has_in = op->in[SN_MOVE_FROM].buf >= 0, has_out = op->out[SN_MOVE_TO].buf >= 0;
    bool wants_in = op->kind != SN_OP_RECV, wants_out = op->kind != SN_OP_SEND;
    if (has_in != wants_in || has_out != wants_out)
        return fault(x, op, "lacks an operand, or has one too many", has_in, has_out);
    if (sn_op_is_transfer(op))
        return op->peer >= 0 && op->peer < size
                   ? SN_OK
                   : fault(x, op, "names a member outside its group (member, size)", op->peer,
                           size);
    if (op->kind == SN_OP_EXCHANGE) /* as many rows as there are when it runs */
        return op->in[SN_MOVE_FROM].cols == op->out[SN_MOVE_TO].cols && op->attr.blocks_a == size
                   ? SN_OK
                   : fault(x, op, "has operands that do not fit its group (columns, members)",
                           op->out[SN_MOVE_TO].cols, op->attr.blocks_a);
    if (op->kind == SN_OP_GATHER_ROWS) {
        int64_t window = op->attr.inverse ? op->in[SN_MOVE_FROM].rows : op->out[SN_MOVE_TO].rows;
        int64_t share = op->attr.inverse ? op->out[SN_MOVE_TO].rows : op->in[SN_MOVE_FROM].rows;
        return op->in[SN_MOVE_FROM].cols == op->out[SN_MOVE_TO].cols && op->attr.blocks_b == size &&
                       share * size >= window
                   ? SN_OK
                   : fault(x, op,
                           "has operands that do not fit its group (rows of a share, shares)",
                           share, op->attr.blocks_b);
    }
    int64_t want = op->kind == SN_OP_ALL_GATHER       ? in * size
                   : op->kind == SN_OP_REDUCE_SCATTER ? in / size
                                                      : in;
    if (out != want)
        return fault(x, op, "has operands whose elements do not fit its group (in, out)", in, out);
    if (p->bufs[op->in[SN_MOVE_FROM].buf].dtype != p->bufs[op->out[SN_MOVE_TO].buf].dtype)
        return fault(x, op, "has operands of two types (in, out)",
                     p->bufs[op->in[SN_MOVE_FROM].buf].dtype,
                     p->bufs[op->out[SN_MOVE_TO].buf].dtype);
    return SN_OK;
}

/* --- posts ------------------------------------------------------------------------------------ */

static int port_of(struct sn_trace *t, const struct sn_trace_port *want)
{
    for (int i = 0; i < t->n_ports; i++) {
        const struct sn_trace_port *q = &t->ports[i];
        if (q->sends == want->sends && q->ring == want->ring && q->group == want->group &&
            q->peer == want->peer && q->tag == want->tag)
            return i;
    }
    if (!ROOM(t, ports))
        return -1;
    t->ports[t->n_ports] = *want;
    return t->n_ports++;
}

static void enqueue(struct sn_trace *t, struct sn_trace_queue *q)
{
    int i = t->n_posts++;
    t->posts[i].seq = q->total++;
    t->posts[i].next = -1;
    if (q->last >= 0)
        t->posts[q->last].next = i;
    else
        q->first = i;
    q->last = i;
}

static bool add_event(struct sn_trace *t, int event)
{
    if (!ROOM(t, events))
        return false;
    t->events[t->n_events++] = event;
    return true;
}

static bool add_collective(struct sn_trace *t, int op, int micro)
{
    if (!ROOM(t, posts))
        return false;
    t->posts[t->n_posts] = (struct sn_trace_post){.op = op, .micro = micro, .port = -1};
    enqueue(t, &t->collectives[sn_group_queue(t->program->ops[op].group)]);
    return add_event(t, t->n_posts);
}

/* Of no event: who waits for it waits for nobody. */
static bool add_copy(struct sn_trace *t, int op, int micro)
{
    if (!ROOM(t, posts))
        return false;
    t->posts[t->n_posts++] =
        (struct sn_trace_post){.op = op, .micro = micro, .port = -1, .seq = -1, .next = -1};
    return true;
}

static bool add_transfer(struct sn_trace *t, int op, int micro, bool sends)
{
    const struct sn_op *o = &t->program->ops[op];
    bool ring = o->kind == SN_OP_SHIFT;
    struct sn_trace_port want = {.sends = sends,
                                 .ring = ring,
                                 .group = o->group,
                                 .peer = !ring   ? o->peer
                                         : sends ? 1
                                                 : -1,
                                 .tag = o->tag,
                                 .queue = {.first = -1, .last = -1}};
    int port = port_of(t, &want);
    if (port < 0 || !ROOM(t, posts))
        return false;
    t->posts[t->n_posts] = (struct sn_trace_post){.op = op, .micro = micro, .port = port};
    enqueue(t, &t->ports[port].queue);
    return add_event(t, t->n_posts);
}

static int *posted_of(const struct tracer *x, const struct sn_op *op, int id, int slot)
{
    return &x->posted[(size_t)id * (size_t)x->slots + (size_t)(op->per_slot ? slot : 0)];
}

static enum sn_status post(struct tracer *x, const struct sn_memory_at *at, int op)
{
    struct sn_trace *t = x->t;
    const struct sn_op *o = &t->program->ops[op];
    int first = t->n_posts;
    if (sn_op_row(o->kind)->moves)
        SN_TRY(check_operands(x, o));
    bool good;
    if (!sn_op_meets_others(x->of->job, o))
        good = add_copy(t, op, at->micro);
    else if (o->kind == SN_OP_SHIFT)
        good = add_transfer(t, op, at->micro, false) && add_transfer(t, op, at->micro, true);
    else if (sn_op_is_transfer(o))
        good = add_transfer(t, op, at->micro, o->kind == SN_OP_SEND);
    else
        good = add_collective(t, op, at->micro);
    *posted_of(x, o, o->id, at->slot) = first + 1;
    return good && sn_flights_begin(&x->flights, at, op, first) ? SN_OK : no_memory(x);
}

static enum sn_status wait(struct tracer *x, const struct sn_op *op, int slot)
{
    if (op->waits_for < 0 || op->waits_for >= x->of->program->next_id)
        return fault(x, op, "is for an operation that does not exist (id, ids)", op->waits_for,
                     x->of->program->next_id);
    int p = *posted_of(x, op, op->waits_for, slot) - 1;
    if (p < 0)
        return SN_OK; /* never posted in this slot: done, as in the executor */
    bool shift = x->t->program->ops[x->t->posts[p].op].kind == SN_OP_SHIFT;
    sn_flights_end(&x->flights, p);
    if (x->t->posts[p].seq < 0)
        return SN_OK;
    bool good = add_event(x->t, -(p + 1)) && (!shift || add_event(x->t, -(p + 2)));
    return good ? SN_OK : no_memory(x);
}

static enum sn_status drain(struct tracer *x)
{
    sn_flights_end_all(&x->flights);
    return add_event(x->t, 0) ? SN_OK : no_memory(x);
}

/* --- the schedule ----------------------------------------------------------------------------- */

static enum sn_status run_op(struct tracer *x, const struct sn_memory_at *at, int op)
{
    const struct sn_op *o = &x->t->program->ops[op];
    int micros = x->t->program->micros;
    bool due = o->when == SN_EVERY || at->micro == (o->when == SN_FIRST ? 0 : micros - 1);
    if (!due || (sn_op_communicates(o) && (o->only & ~x->t->first)))
        return SN_OK;
    SN_TRY(sn_flights_check(&x->flights, at, op, x->err));
    if (sn_op_is_posted(o))
        return post(x, at, op);
    if (o->kind == SN_OP_WAIT)
        return wait(x, o, at->slot);
    if (o->kind != SN_OP_AGREE)
        return SN_OK;
    bool good = add_event(x->t, 0) && add_collective(x->t, op, at->micro) &&
                add_event(x->t, -x->t->n_posts);
    return good ? SN_OK : no_memory(x);
}

static enum sn_status run_entry(struct tracer *x, const struct sn_sched *s)
{
    const struct sn_program *p = x->t->program;
    struct sn_memory_at at = {x->of, s->micro, s->slot, s->late};
    bool known =
        s->segment >= 0 && s->segment < p->n_segments && s->micro >= 0 && s->micro < p->micros;
    if (!known || s->slot < 0 || s->slot >= p->slots[p->segments[s->segment].scope.virtual_stage])
        return sn_fail(x->err, SN_EFAIL,
                       "%s: %s: the schedule names segment %d, micro-batch %d, slot %d, which the "
                       "program does not have",
                       p->name, sn_rank_text(x->of->grid, x->of->rank).s, s->segment, s->micro,
                       s->slot);
    const struct sn_segment *c = &p->segments[s->segment];
    if (s->first < c->first || s->n < 0 || s->n > c->first + c->n - s->first)
        return sn_fail(x->err, SN_EFAIL,
                       "%s: %s: the schedule names operations %d..%d, which segment %d does not "
                       "have",
                       p->name, sn_rank_text(x->of->grid, x->of->rank).s, s->first,
                       s->first + s->n - 1, s->segment);
    for (int i = s->first; i < s->first + s->n; i++)
        SN_TRY(run_op(x, &at, i));
    return SN_OK;
}

static enum sn_status run(struct tracer *x)
{
    const struct sn_program *p = x->t->program;
    bool ends_apart = p->n_segments > 0 && p->segments[p->n_segments - 1].kind == SN_SEGMENT_UPDATE;
    for (int i = 0; i < p->n_sched; i++) {
        SN_TRY(run_entry(x, &p->sched[i]));
        ends_apart = ends_apart && p->sched[i].segment != p->n_segments - 1;
    }
    SN_TRY(drain(x));
    if (!ends_apart)
        return SN_OK;
    /* evaluation: once, after the last micro-batch */
    const struct sn_segment *end = &p->segments[p->n_segments - 1];
    SN_TRY(run_entry(x, &(struct sn_sched){.segment = p->n_segments - 1,
                                           .micro = p->micros - 1,
                                           .first = end->first,
                                           .n = end->n}));
    return drain(x);
}

enum sn_status sn_trace_init(struct sn_trace *t, const struct sn_trace_of *of, struct sn_err *err)
{
    struct tracer x = {.t = t, .of = of, .slots = 1, .err = err};
    t->program = of->program;
    t->first = sn_trace_first(of->grid, of->rank) & sn_trace_groups(of->program);
    t->rank = of->rank;
    for (int a = 0; a < SN_NAXES; a++)
        t->collectives[a] = (struct sn_trace_queue){.first = -1, .last = -1};
    for (int v = 0; v < of->program->vstages; v++)
        x.slots = of->program->slots[v] > x.slots ? of->program->slots[v] : x.slots;
    x.posted = sn_alloc_n((size_t)of->program->next_id * (size_t)x.slots + 1, sizeof(*x.posted));
    bool good = sn_flights_init(&x.flights, of->program) && x.posted;
    enum sn_status st = good ? run(&x) : no_memory(&x);
    sn_free(x.posted);
    sn_flights_fini(&x.flights);
    return st;
}

void sn_trace_fini(struct sn_trace *t)
{
    sn_free(t->events);
    sn_free(t->posts);
    sn_free(t->ports);
}
