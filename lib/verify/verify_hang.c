/*
 * verify_hang.c - why a job does not go on, as one sentence.
 */
#include "lib/base/mem.h"
#include "lib/verify/verify_world.h"

#include <stdio.h>

enum {
    LINKS = 5,
    LINK_BYTES = 256
}; /* ranks of a chain that are named; a sentence has 767 bytes */

static const char *program_of(const struct sn_world *w)
{
    return w->rank[0].trace->program->name;
}

/* "all_reduce 'l0.attn' (384 fp32 elements over tensor, micro-batch 0)" */
static void describe(const struct sn_world *w, int rank, int post, char out[LINK_BYTES])
{
    const struct sn_trace *t = w->rank[rank].trace;
    struct sn_trace_wire x = sn_trace_wire(t, post);
    (void)snprintf(out, LINK_BYTES, "%s '%s' (%lld %s over %s, micro-batch %d)",
                   sn_collective_name(x.kind), x.label, (long long)x.n, sn_dtype_name(x.dtype),
                   sn_group_name(x.group), t->posts[post].micro);
}

enum sn_status sn_world_mismatch(const struct sn_world *w, const int rank[2], const int post[2],
                                 struct sn_err *err)
{
    char a[LINK_BYTES], b[LINK_BYTES];
    describe(w, rank[0], post[0], a);
    describe(w, rank[1], post[1], b);
    return sn_fail(err, SN_EFAIL, "%s: %s posts %s, which meets %s of %s; both sides must agree",
                   program_of(w), sn_rank_text(w->grid, rank[0]).s, a, b,
                   sn_rank_text(w->grid, rank[1]).s);
}

/* --- sends without receives ------------------------------------------------------------------- */

/* A port with more posts than the other end will ever match; -1: none. */
static int short_port(const struct sn_world *w, int rank)
{
    const struct sn_world_rank *r = &w->rank[rank];
    for (int q = 0; q < r->trace->n_ports; q++) {
        const struct sn_world_port *x = &r->ports[q];
        int total = x->peer_port < 0 ? 0 : w->rank[x->peer].trace->ports[x->peer_port].queue.total;
        if (r->trace->ports[q].queue.total > total)
            return q;
    }
    return -1;
}

static enum sn_status unmatched(const struct sn_world *w, int rank, int port, struct sn_err *err)
{
    const struct sn_world_rank *r = &w->rank[rank];
    const struct sn_world_port *x = &r->ports[port];
    int total = x->peer_port < 0 ? 0 : w->rank[x->peer].trace->ports[x->peer_port].queue.total;
    int post = r->trace->ports[port].queue.first;
    bool sends = r->trace->ports[port].sends;
    char what[LINK_BYTES];
    describe(w, rank, post, what);
    return sn_fail(err, SN_EFAIL, "%s: %s posts %s %d times %s %s, which posts its %s %d times",
                   program_of(w), sn_rank_text(w->grid, rank).s, what,
                   r->trace->ports[port].queue.total, sends ? "to" : "from",
                   sn_rank_text(w->grid, x->peer).s, sends ? "recv" : "send", total);
}

/* --- chains of waiting ranks ------------------------------------------------------------------ */

/* A rank, and what of it is waited for: its compute thread, or the queue of an axis. */
struct at {
    int rank;  /* -1: nobody */
    int queue; /* COMPUTE, or an axis */
};
enum { COMPUTE = -1 };

/* The first communication of a drain that is not complete. */
static int first_open(const struct sn_world_rank *r)
{
    for (int q = 0; q < r->trace->n_ports; q++)
        if (r->ports[q].matched < r->ports[q].posted)
            return r->ports[q].next;
    int q = 0;
    while (q < SN_NAXES - 1 && r->queue[q].done == r->queue[q].posted)
        q++;
    return r->queue[q].front;
}

/* What this thread of the rank needs next; -1: it is at its end. */
static int needed(const struct sn_world *w, struct at at)
{
    const struct sn_world_rank *r = &w->rank[at.rank];
    int post = -1;
    if (at.queue != COMPUTE && r->queue[at.queue].arrived)
        return r->queue[at.queue].front;
    if (r->at == r->trace->n_events)
        return -1;
    (void)sn_world_may_pass(r, r->trace->events[r->at], &post);
    post = post < 0 ? first_open(r) : post;
    if (r->trace->posts[post].port >= 0)
        return post;
    return r->queue[sn_world_queue_of(r, post)].front; /* collectives before it come first */
}

/* Who has to act before `post` of this rank is complete? */
static struct at blocker(const struct sn_world *w, int rank, int post)
{
    const struct sn_world_rank *r = &w->rank[rank];
    int port = r->trace->posts[post].port;
    if (port >= 0)
        return (struct at){r->ports[port].peer, COMPUTE};
    enum sn_group q = sn_trace_wire(r->trace, post).group;
    int queue = (int)sn_group_queue(q);
    for (int i = 0; i < sn_group_size(w->grid, rank, q); i++) {
        int other = sn_group_member(w->grid, rank, q, i);
        const struct sn_world_rank *o = &w->rank[other];
        const struct sn_world_queue *k = &o->queue[queue];
        if (!k->arrived || sn_trace_wire(o->trace, k->front).group != q)
            return (struct at){other, queue};
    }
    return (struct at){-1, COMPUTE};
}

static struct at next_of(const struct sn_world *w, struct at at)
{
    int post = needed(w, at);
    return post < 0 ? (struct at){-1, COMPUTE} : blocker(w, at.rank, post);
}

/* A member of the cycle that the chain from `at` ends in, or `at` when it ends with a rank that has
 * nothing left to do. */
static struct at into_cycle(const struct sn_world *w, struct at at)
{
    struct at slow = at, fast = at; /* Floyd's two walkers */
    do {
        slow = next_of(w, slow);
        for (int i = 0; i < 2 && fast.rank >= 0; i++)
            fast = next_of(w, fast);
        if (fast.rank < 0)
            return at;
    } while (slow.rank != fast.rank || slow.queue != fast.queue);
    return fast;
}

static enum sn_status report_chain(const struct sn_world *w, struct at start, struct sn_err *err)
{
    char text[LINKS * LINK_BYTES], what[LINK_BYTES];
    int n = snprintf(text, sizeof(text), "%s", sn_rank_text(w->grid, start.rank).s);
    struct at at = start;
    for (int i = 0; i < LINKS; i++) {
        int post = needed(w, at);
        if (post < 0) {
            (void)snprintf(text + n, sizeof(text) - (size_t)n, ", which has ended without it");
            break;
        }
        struct sn_trace_wire x = sn_trace_wire(w->rank[at.rank].trace, post);
        (void)snprintf(what, sizeof(what), "%s '%s'", sn_collective_name(x.kind), x.label);
        at = blocker(w, at.rank, post);
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%s waits in %s for %s",
                      i ? ", which" : "", what,
                      at.rank < 0 ? "nobody" : sn_rank_text(w->grid, at.rank).s);
        if (at.rank < 0 || (at.rank == start.rank && at.queue == start.queue))
            break;
    }
    return sn_fail(err, SN_EFAIL, "%s: %s", program_of(w), text);
}

enum sn_status sn_world_hang(const struct sn_world *w, struct sn_err *err)
{
    int first = -1;
    for (int i = w->ranks - 1; i >= 0; i--)
        first = w->rank[i].at < w->rank[i].trace->n_events ? i : first;
    for (int i = 0; i < w->ranks; i++) {
        int port = short_port(w, i);
        if (port >= 0)
            return unmatched(w, i, port, err);
    }
    return report_chain(w, into_cycle(w, (struct at){first, COMPUTE}), err);
}
