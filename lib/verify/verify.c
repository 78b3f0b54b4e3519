/*
 * verify.c - the ranks of a job play their traces through.
 *
 * Driven by events: a rank is looked at when something that it posted is complete, so that the time
 * is proportional to the number of operations that are posted.
 */
#include "lib/verify/verify.h"

#include "lib/base/mem.h"
#include "lib/verify/verify_world.h"

#include <string.h>

/* --- what is complete ------------------------------------------------------------------------- */

enum sn_axis sn_world_queue_of(const struct sn_world_rank *r, int post)
{
    return sn_group_queue(r->trace->program->ops[r->trace->posts[post].op].group);
}

bool sn_world_is_done(const struct sn_world_rank *r, int post)
{
    const struct sn_trace_post *p = &r->trace->posts[post];
    return p->seq <
           (p->port < 0 ? r->queue[sn_world_queue_of(r, post)].done : r->ports[p->port].matched);
}

bool sn_world_may_pass(const struct sn_world_rank *r, int event, int *post)
{
    *post = -1;
    if (event >= 0)
        return r->under_way < (event == 0 ? 1 : SN_VERIFY_IN_FLIGHT);
    if (sn_world_is_done(r, -event - 1))
        return true;
    *post = -event - 1;
    return false;
}

/* --- ranks ------------------------------------------------------------------------------------ */

static void wake(struct sn_world *w, int rank)
{
    if (w->rank[rank].queued)
        return;
    w->rank[rank].queued = true;
    w->list[(w->list_first + w->list_n++) % w->ranks] = rank;
}

static bool same_wire(const struct sn_trace_wire *a, const struct sn_trace_wire *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->n == b->n &&
           strcmp(a->label, b->label) == 0;
}

/* Those of the group have all come to the fronts of their queues. */
static void pass(struct sn_world *w, int rank, enum sn_group q)
{
    for (int i = 0; i < sn_group_size(w->grid, rank, q); i++) {
        int other = sn_group_member(w->grid, rank, q, i);
        struct sn_world_rank *o = &w->rank[other];
        struct sn_world_queue *k = &o->queue[sn_group_queue(q)];
        k->arrived = false;
        k->done++;
        o->under_way--;
        k->front = o->trace->posts[k->front].next;
        wake(w, other);
    }
}

/* The front of a queue of this rank meets those of the other members. */
static enum sn_status arrive(struct sn_world *w, int rank, int queue, struct sn_err *err)
{
    struct sn_world_rank *r = &w->rank[rank];
    int front = r->queue[queue].front;
    struct sn_trace_wire mine = sn_trace_wire(r->trace, front);
    int member0 = sn_group_member(w->grid, rank, mine.group, 0);
    struct sn_world_meeting *m =
        &w->meetings[(size_t)mine.group * (size_t)w->ranks + (size_t)member0];
    r->queue[queue].arrived = true;
    if (m->arrived++ == 0)
        m->first = rank;
    const struct sn_world_rank *f = &w->rank[m->first];
    int first = f->queue[queue].front;
    struct sn_trace_wire theirs = sn_trace_wire(f->trace, first);
    if (!same_wire(&mine, &theirs) || r->trace->posts[front].micro != f->trace->posts[first].micro)
        return sn_world_mismatch(w, (const int[]){m->first, rank}, (const int[]){first, front},
                                 err);
    if (m->arrived < sn_group_size(w->grid, rank, mine.group))
        return SN_OK;
    m->arrived = 0;
    pass(w, rank, mine.group);
    return SN_OK;
}

/* A send and its receive have both been posted. */
static enum sn_status match(struct sn_world *w, int rank, int port, struct sn_err *err)
{
    struct sn_world_rank *r = &w->rank[rank];
    struct sn_world_port *a = &r->ports[port];
    if (a->peer_port < 0)
        return SN_OK; /* never matched: the hang tells */
    struct sn_world_rank *o = &w->rank[a->peer];
    struct sn_world_port *b = &o->ports[a->peer_port];
    if (b->posted <= a->matched)
        return SN_OK;
    struct sn_trace_wire x = sn_trace_wire(r->trace, a->next), y = sn_trace_wire(o->trace, b->next);
    bool ring = r->trace->ports[port].ring; /* members have the same text */
    if (x.n != y.n || x.dtype != y.dtype || (ring && strcmp(x.label, y.label) != 0) ||
        r->trace->posts[a->next].micro != o->trace->posts[b->next].micro)
        return sn_world_mismatch(w, (const int[]){rank, a->peer}, (const int[]){a->next, b->next},
                                 err);
    a->matched++;
    b->matched++;
    r->under_way--;
    o->under_way--;
    a->next = r->trace->posts[a->next].next;
    b->next = o->trace->posts[b->next].next;
    wake(w, a->peer);
    return SN_OK;
}

/* Compute goes as far as it can; then the queues. */
static enum sn_status go_on(struct sn_world *w, int rank, struct sn_err *err)
{
    struct sn_world_rank *r = &w->rank[rank];
    for (int needed; r->at < r->trace->n_events; r->at++) {
        int event = r->trace->events[r->at];
        if (!sn_world_may_pass(r, event, &needed))
            break;
        if (event <= 0)
            continue;
        r->under_way++;
        int port = r->trace->posts[event - 1].port;
        if (port < 0) {
            r->queue[sn_world_queue_of(r, event - 1)].posted++;
            continue;
        }
        r->ports[port].posted++;
        SN_TRY(match(w, rank, port, err));
    }
    for (int q = 0; q < SN_NAXES; q++)
        if (!r->queue[q].arrived && r->queue[q].done < r->queue[q].posted)
            SN_TRY(arrive(w, rank, q, err));
    return SN_OK;
}

static enum sn_status play(struct sn_world *w, struct sn_err *err)
{
    for (int i = 0; i < w->ranks; i++)
        wake(w, i);
    while (w->list_n > 0) {
        int rank = w->list[w->list_first];
        w->list_first = (w->list_first + 1) % w->ranks;
        w->list_n--;
        w->rank[rank].queued = false;
        SN_TRY(go_on(w, rank, err));
    }
    for (int i = 0; i < w->ranks; i++)
        if (w->rank[i].at < w->rank[i].trace->n_events)
            return sn_world_hang(w, err);
    return SN_OK;
}

/* --- the world -------------------------------------------------------------------------------- */

/* The trace that this rank runs; made when it is the first. */
static enum sn_status find_trace(struct sn_world *w, const struct sn_trace_of *of,
                                 struct sn_err *err)
{
    unsigned first = sn_trace_first(w->grid, of->rank) & sn_trace_groups(of->program);
    for (int i = w->n_traces - 1; i >= 0; i--)
        if (w->traces[i].program == of->program && w->traces[i].first == first) {
            w->rank[of->rank].trace = &w->traces[i];
            return SN_OK;
        }
    w->rank[of->rank].trace = &w->traces[w->n_traces++];
    return sn_trace_init(&w->traces[w->n_traces - 1], of, err);
}

static int peer_rank(const struct sn_world *w, int rank, const struct sn_trace_port *q)
{
    int size = sn_group_size(w->grid, rank, q->group);
    int member = q->ring ? sn_group_index(w->grid, rank, q->group) + q->peer : q->peer;
    return sn_group_member(w->grid, rank, q->group, (member + size) % size);
}

static int other_end(const struct sn_world *w, int rank, const struct sn_trace_port *q, int peer)
{
    const struct sn_trace *t = w->rank[peer].trace;
    for (int i = 0; i < t->n_ports; i++) {
        const struct sn_trace_port *o = &t->ports[i];
        if (o->sends != q->sends && o->group == q->group && o->tag == q->tag &&
            o->ring == q->ring && peer_rank(w, peer, o) == rank)
            return i;
    }
    return -1;
}

static enum sn_status connect(struct sn_world *w, struct sn_err *err)
{
    size_t n = 0;
    for (int i = 0; i < w->ranks; i++)
        n += (size_t)w->rank[i].trace->n_ports;
    struct sn_world_port *port = w->ports = sn_alloc_n(n + 1, sizeof(*w->ports));
    if (!port)
        return sn_fail(err, SN_ENOMEM, "verify: no memory for the transfers of %d ranks", w->ranks);
    for (int i = 0; i < w->ranks; i++) {
        const struct sn_trace *t = w->rank[i].trace;
        w->rank[i].ports = port;
        for (int q = 0; q < SN_NAXES; q++)
            w->rank[i].queue[q].front = t->collectives[q].first;
        for (int q = 0; q < t->n_ports; q++, port++) {
            port->next = t->ports[q].queue.first;
            port->peer = peer_rank(w, i, &t->ports[q]);
            port->peer_port = other_end(w, i, &t->ports[q], port->peer);
        }
    }
    return SN_OK;
}

static enum sn_status load(struct sn_world *w, const struct sn_verify_world *from,
                           const struct sn_program *const *override, int set, struct sn_err *err)
{
    size_t ranks = (size_t)w->ranks;
    w->rank = sn_alloc_n(ranks, sizeof(*w->rank));
    w->traces = sn_alloc_n(ranks, sizeof(*w->traces));
    w->meetings = sn_alloc_n(ranks * SN_NGROUPS, sizeof(*w->meetings));
    w->list = sn_alloc_n(ranks, sizeof(*w->list));
    if (!w->rank || !w->traces || !w->meetings || !w->list)
        return sn_fail(err, SN_ENOMEM, "verify: no memory for %d ranks", w->ranks);
    for (int i = 0; i < w->ranks; i++) {
        const struct sn_job *j = from->jobs[i];
        const struct sn_program *own = sn_job_programs(j).of[set];
        SN_TRY(
            find_trace(w, &(struct sn_trace_of){w->grid, j, override ? override[i] : own, i}, err));
    }
    return connect(w, err);
}

static void unload(struct sn_world *w)
{
    for (int i = 0; i < w->n_traces; i++)
        sn_trace_fini(&w->traces[i]);
    sn_free(w->rank);
    sn_free(w->ports);
    sn_free(w->traces);
    sn_free(w->meetings);
    sn_free(w->list);
}

/* Each text once. */
static enum sn_status check_written(const struct sn_world *w, const struct sn_verify_world *from,
                                    struct sn_err *err)
{
    for (int i = 0; i < w->n_traces; i++) {
        const struct sn_trace *t = &w->traces[i];
        bool known = false;
        for (int k = 0; k < i; k++)
            known |= w->traces[k].program == t->program;
        struct sn_trace_of of = {w->grid, from->jobs[t->rank], t->program, t->rank};
        if (!known)
            SN_TRY(sn_written_check(&of, err));
    }
    return SN_OK;
}

enum sn_status sn_verify(const struct sn_verify_world *w, const struct sn_program *const *override,
                         struct sn_err *err)
{
    for (int set = 0; set < (override ? 1 : SN_NPROGRAMS); set++) {
        if (!override && sn_job_programs(w->jobs[0]).of[set]->n_ops == 0)
            continue;
        struct sn_world world = {.grid = w->grid, .ranks = sn_grid_ranks(w->grid)};
        enum sn_status st = load(&world, w, override, set, err);
        if (st == SN_OK)
            st = play(&world, err);
        if (st == SN_OK)
            st = check_written(&world, w, err);
        unload(&world);
        SN_TRY(st);
    }
    return SN_OK;
}

struct sn_grid sn_verify_grid(const struct sn_grid *g)
{
    struct sn_grid out = *g;
    for (int i = 0; i < SN_NGRID_AXES && sn_grid_ranks(&out) > SN_VERIFY_RANKS; i++) {
        enum sn_axis a = sn_axis_told(i);
        if (sn_axis_row(a)->is_even && out.size[a] > 2)
            out.size[a] = 2;
    }
    out.fold = out.fold > 1 ? out.size[SN_AXIS_TENSOR] : out.fold;
    int replicas =
        out.size[SN_AXIS_DATA] * out.size[SN_AXIS_CONTEXT] * (out.fold > 1 ? out.fold : 1);
    while (replicas % (out.experts > 1 ? out.experts : 1) != 0)
        out.experts--;
    while (out.expert_node > 1 && out.experts % out.expert_node != 0)
        out.expert_node--;
    replicas = out.size[SN_AXIS_DATA] * out.size[SN_AXIS_CONTEXT];
    while (out.replica_node > 0 && replicas % out.replica_node != 0)
        out.replica_node--;
    if (out.kv_copies > out.size[SN_AXIS_TENSOR])
        out.kv_copies = out.size[SN_AXIS_TENSOR];
    int stride = 1; /* every axis keeps its place in the order */
    for (int done = 0; done < SN_NGRID_AXES; done++) {
        int next = -1;
        for (int a = 0; a < SN_NGRID_AXES; a++)
            if (out.stride[a] > 0 &&
                (next < 0 || g->stride[a] < g->stride[next] ||
                 (g->stride[a] == g->stride[next] && g->size[a] < g->size[next])))
                next = a;
        out.stride[next] = -stride; /* negative: dealt with */
        stride *= out.size[next];
    }
    for (int a = 0; a < SN_NGRID_AXES; a++)
        out.stride[a] = -out.stride[a];
    return out;
}
