/*
 * price_comm.c - seconds of a collective or transfer on a machine's levels, and the bytes that
 * cross each.
 *
 *   seconds = launch + sum over levels of rounds x latency
 *                    + max over levels of V (1 + sqrt(h/S)) / B
 *
 * S is the whole message; V the bytes that cross the border of one domain of the level below, B
 * what the group's members in it can send: each min(device, domain / sharing) x efficiency. h is
 * the level's half_bytes: a message of that size reaches half of B. On NCCL's all-reduces the
 * square root errs 0.4 to 5 % (median of a series) where a plain latency and rate err 1 to 11 %
 * (tests/bench/bench_collectives.c). Rounds: 2 log2 n for an all-reduce, log2 n for the others
 * (trees; the latency of NCCL's grows with the logarithm up to 8,192 GPUs).
 *
 * Where a level states the time of a ring's hop, gathers and scatters take n - 1 steps instead of
 * rounds, as many over a border as there are domains less one (NCCL, src/graph/tuning.cc).
 *
 * An all-to-all is a message to every other member (what is direct, too), one after another: to m
 * members that one meets at a level, m times the level's `message` (pairwise exchange, Thakur,
 * Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005,
 * 3.3; LogP's gap instead of its latency, because none waits for an answer).
 *
 * RING (NCCL): all links of a group work at the same time, so that the slowest level decides, and
 * n members pass 2(n-1)/n S over every border (all-reduce; gather, scatter half of it).
 * DIRECT (lib/comm/comm_collective.c): each member sends S/n to each of the others, twice in an
 * all-reduce; what goes to members beyond the border crosses it.
 */
#include "lib/cost/price.h"

#include "kernels/codec.h"
#include "lib/program/opinfo.h"

#include <math.h>

static double or_one(double x)
{
    return x > 0 ? x : 1;
}

static const struct sn_level *level(const struct sn_pricer *p, int i)
{
    return &p->machine->level[i];
}

/* By how much longer messages of level i take than in a job of one node: with every further node
 * more groups meet on the links above them (software.h). */
static double spread(const struct sn_pricer *p, int i, enum sn_axis axis)
{
    int64_t below = i > 0 ? level(p, i - 1)->ranks : 0, ranks = sn_grid_ranks(&p->grid);
    double others = below > 0 ? (double)((ranks + below - 1) / below - 1) : 0;
    return 1 + p->software->per_node[axis] * others;
}

/* What one member can send at level i to `others` others, when `sharing` devices of its domain
 * below do the same. */
static double rate(const struct sn_pricer *p, int i, int others, int sharing, enum sn_axis axis)
{
    const struct sn_level *l = level(p, i);
    double rate = l->device;
    if (l->peer > 0 && l->peer * others < rate)
        rate = l->peer * others;
    if (l->domain > 0 && l->domain / sharing < rate)
        rate = l->domain / sharing;
    return rate * or_one(l->efficiency) * p->software->bandwidth[axis] / spread(p, i, axis);
}

/* 1 + sqrt(h/S) */
static double ramp(const struct sn_level *l, double bytes)
{
    return 1 + sqrt(l->half_bytes / bytes);
}

/* The outermost level that a group uses; -1: none. */
static int outermost(const struct sn_pricer *p, const struct sn_span *s)
{
    int top = -1;
    for (int i = 0; i < p->machine->n_levels; i++)
        top = s->at[i] > 1 ? i : top;
    return top;
}

/* Seconds in which links of level `top` pass on what each member sends to its neighbour. */
static double crossing(const struct sn_pricer *p, double bytes, enum sn_group q, int top)
{
    const struct sn_level *l = level(p, top);
    return bytes * ramp(l, bytes) / rate(p, top, 1, p->span[q].hops[top], sn_group_axis(q));
}

/* One member sends `bytes` to its neighbour; the farthest neighbours are at the group's outermost
 * level. */
static double transfer(const struct sn_pricer *p, double bytes, enum sn_group q)
{
    int top = outermost(p, &p->span[q]);
    return top < 0 ? 0
                   : p->machine->launch +
                         p->software->latency[sn_group_axis(q)] * level(p, top)->latency +
                         crossing(p, bytes, q, top);
}

/* Does the switch of level i sum for this group? */
static double switch_gain(const struct sn_pricer *p, enum sn_collective kind, int i, int at)
{
    const struct sn_level *l = level(p, i);
    int64_t below = i > 0 ? level(p, i - 1)->ranks : 1;
    bool sums = kind == SN_ALL_REDUCE && l->ranks > 0 && 2 * at > l->ranks / below;
    return sums ? or_one(l->all_reduce) : 1;
}

/* Seconds in which level i passes on its part of a collective of S bytes. `inside`: members in one
 * domain of the level below. */
static double passing(const struct sn_pricer *p, enum sn_collective kind, enum sn_group q, int i,
                      double inside, double bytes)
{
    const struct sn_span *s = &p->span[q];
    double n = s->members, one = bytes / n, times = kind == SN_ALL_REDUCE ? 2 : 1;
    double member = rate(p, i, s->at[i] - 1, s->sharing[i], sn_group_axis(q)) *
                    switch_gain(p, kind, i, s->at[i]);
    bool direct = p->machine->algorithm == SN_ALGORITHM_DIRECT || kind == SN_ALL_TO_ALL;
    /* Direct: each member sends its own; ring: those in the domain share what crosses. */
    double each = direct ? (n - inside) * one : (n - 1) * one / inside;
    if (direct && s->at[i] > 2)
        member *= or_one(level(p, i)->crowd);
    return times * each * ramp(level(p, i), bytes) / member;
}

/* Seconds that the messages of level i take one after another; `outside`: domains of the level that
 * the group has. */
static double waiting(const struct sn_pricer *p, enum sn_collective kind, int i, int at,
                      double outside)
{
    const struct sn_level *l = level(p, i);
    bool gathers = kind == SN_ALL_GATHER || kind == SN_REDUCE_SCATTER;
    if (gathers && l->hop > 0 && p->machine->algorithm == SN_ALGORITHM_RING)
        return outside * (at - 1) * l->hop;
    return (kind == SN_ALL_REDUCE ? 2 : 1) * log2(at) * l->latency;
}

/* Messages of a member to each other one: neighbours on a node exchange one for each node. */
static double messages(const struct sn_pricer *p, enum sn_collective kind, enum sn_group q)
{
    if (kind == SN_ALL_TO_ALL)
        return q == SN_GROUP_EXPERT_NODE ? p->span[SN_GROUP_EXPERT_RAIL].members : 1;
    bool direct = p->machine->algorithm == SN_ALGORITHM_DIRECT;
    return direct ? kind == SN_ALL_REDUCE ? 2 : 1 : 0;
}

/* S bytes in all: of an all-reduce its buffer, of the others the size x n elements. */
static double collective(const struct sn_pricer *p, enum sn_collective kind, double bytes,
                         enum sn_group q)
{
    const struct sn_span *s = &p->span[q];
    double latency = 0, slowest = 0, inside = 1;
    for (int i = 0; i < p->machine->n_levels; i++) {
        if (s->at[i] == 1)
            continue;
        slowest = fmax(slowest, passing(p, kind, q, i, inside, bytes));
        double below = inside;
        inside = fmin(inside * s->at[i], s->members);
        latency += waiting(p, kind, i, s->at[i], s->members / inside);
        latency += messages(p, kind, q) * (inside - below) * level(p, i)->message;
    }
    return p->machine->launch + latency * p->software->latency[sn_group_axis(q)] + slowest;
}

/* Bytes of an element on the wire: gradients may be reduced in another width than they are kept. */
static double wire_bytes(const struct sn_pricer *p, enum sn_collective kind, enum sn_dtype dtype,
                         enum sn_group q)
{
    bool sums = kind == SN_ALL_REDUCE || kind == SN_REDUCE_SCATTER;
    bool is_gradient = sums && dtype == SN_F32 && sn_group_axis(q) == SN_AXIS_DATA;
    return is_gradient && p->software->grad_wire_bytes > 0 ? p->software->grad_wire_bytes
                                                           : (double)sn_dtype_size(dtype);
}

/* The only level that a group uses; -1 if there are several. */
static int only_level(const struct sn_pricer *p, const struct sn_span *s)
{
    int only = -1;
    for (int i = 0; i < p->machine->n_levels; i++)
        if (s->at[i] > 1) {
            if (only >= 0)
                return -1;
            only = i;
        }
    return only;
}

/* By what was measured between as many ranks; `bytes` are those of n elements. */
static bool measured(double *seconds, const struct sn_pricer *p, enum sn_collective kind,
                     double bytes, enum sn_group q)
{
    int i = only_level(p, &p->span[q]);
    struct sn_measured_link x = {
        .kind = kind, .members = kind == SN_SEND ? 2 : p->span[q].members, .bytes = (int64_t)bytes};
    if (i < 0)
        return false;
    if (kind == SN_SEND && q == SN_GROUP_PIPELINE) { /* the sender goes on computing */
        struct sn_measured_link late = x;
        late.kind = SN_RECV;
        if (sn_links_find(seconds, &level(p, i)->measured, &late))
            return true;
    }
    return sn_links_find(seconds, &level(p, i)->measured, &x);
}

double sn_price_collective(const struct sn_pricer *p, enum sn_collective kind, int64_t n,
                           enum sn_dtype dtype, enum sn_group q)
{
    double seconds;
    int members = p->span[q].members;
    double bytes = (double)n * wire_bytes(p, kind, dtype, q);
    if (members == 1 || n == 0 || kind == SN_RECV || p->machine->n_levels == 0)
        return 0;
    if (measured(&seconds, p, kind, bytes, q))
        return seconds;
    if (kind == SN_SEND)
        return transfer(p, bytes, q);
    return collective(p, kind, kind == SN_ALL_REDUCE ? bytes : bytes * members, q);
}

/* Streams whose length is known only when they are there: it goes ahead, 8 bytes of each. */
bool sn_price_is_sized(const struct sn_op *op)
{
    return op->is_coded && !sn_codec_is_fixed(&op->attr.stream.codec[0]);
}

double sn_price_comm(const struct sn_pricer *p, const struct sn_program *prog,
                     const struct sn_op *op)
{
    struct sn_communication c;
    if (!sn_op_communication(&c, prog, op))
        return 0;
    double ahead = sn_price_is_sized(op)
                       ? sn_price_collective(p, c.kind, SN_PRICE_LENGTH, SN_U8, op->group)
                       : 0;
    return ahead + sn_price_collective(p, c.kind, c.n, c.dtype, op->group);
}

_Static_assert((int)SN_LINK_LEVELS == (int)SN_MAX_LEVELS, "each level has links");
_Static_assert((int)SN_LINK_RINGS >= (int)SN_NAXES, "each axis has a lane");

/* For which share of `all` seconds each level is busy with a collective; its messages are those that cross
 * the outermost one: direct, one to each member beyond, else one to a neighbour. */
static void collective_uses(struct sn_link_use *out, const struct sn_pricer *p,
                            const struct sn_communication *c, enum sn_group q, double bytes,
                            double all)
{
    const struct sn_span *s = &p->span[q];
    bool direct = p->machine->algorithm == SN_ALGORITHM_DIRECT || c->kind == SN_ALL_TO_ALL;
    double inside = 1;
    for (int i = 0; i < p->machine->n_levels; i++) {
        if (s->at[i] == 1)
            continue;
        double busy = passing(p, c->kind, q, i, inside,
                              c->kind == SN_ALL_REDUCE ? bytes : bytes * s->members);
        out->of[i] = (float)fmin(busy / all, 1);
        out->messages = direct ? (float)(s->members - inside) : 1;
        inside = fmin(inside * s->at[i], s->members);
    }
}

void sn_price_gather_uses(struct sn_link_use *out, const struct sn_pricer *p, int64_t bytes,
                          enum sn_group q)
{
    const struct sn_communication c = {.kind = SN_ALL_GATHER, .n = bytes, .dtype = SN_U8};
    double all = sn_price_collective(p, SN_ALL_GATHER, bytes, SN_U8, q);
    *out = (struct sn_link_use){.messages = 0};
    if (all > 0)
        collective_uses(out, p, &c, q, (double)bytes, all);
}

/* What was measured on one level is all busy time: it has no parts. */
void sn_price_uses(struct sn_link_use *out, const struct sn_pricer *p,
                   const struct sn_program *prog, const struct sn_op *op)
{
    struct sn_communication c;
    double all = sn_price_comm(p, prog, op), seconds;
    *out = (struct sn_link_use){.messages = 0};
    if (all <= 0 || sn_op_is_transfer(op) || !sn_op_communication(&c, prog, op))
        return;
    double bytes = (double)c.n * wire_bytes(p, c.kind, c.dtype, op->group);
    int top = outermost(p, &p->span[op->group]);
    if (c.kind == SN_SEND) { /* a ring's */
        out->messages = 1;
        out->of[top] = (float)fmin(crossing(p, bytes, op->group, top) / all, 1);
    } else
        collective_uses(out, p, &c, op->group, bytes, all);
    if (measured(&seconds, p, c.kind, bytes, op->group))
        out->of[top] = 1;
}

double sn_price_shown(const struct sn_pricer *p, const struct sn_program *prog,
                      const struct sn_op *op)
{
    if (!sn_op_communicates(op))
        return sn_price_op(p, prog, op);
    return (1 - p->software->hidden[sn_group_axis(op->group)]) * sn_price_comm(p, prog, op);
}

/* ---- bytes by level -------------------------------------------------------------------------- */

/* Whom a member sends to. */
enum reach { TO_ALL, TO_NEXT, TO_PEER };

/* Ordered pairs (sender, receiver) that meet at each level, over the senders of a stage. */
struct pairs {
    enum sn_group group;
    enum reach reach;
    int peer;
    int64_t at[SN_MAX_LEVELS], all;
};

struct levels {
    const struct sn_pricer *p;
    const struct sn_job *stage;
    struct pairs seen[16]; /* a stage has few kinds of communication */
    int n_seen;
};

static void count_one(const struct levels *l, struct pairs *c, int rank)
{
    const struct sn_grid *g = &l->stage->grid;
    int size = sn_group_size(g, rank, c->group), index = sn_group_index(g, rank, c->group);
    int to = c->reach == TO_PEER ? c->peer : (index + 1) % size;
    int other = sn_group_member(g, rank, c->group, to);
    if (other == rank)
        return;
    c->at[sn_span_meeting(l->p->machine, rank, other)]++;
    c->all++;
}

static void count_pairs(const struct levels *l, struct pairs *c)
{
    const struct sn_grid *g = &l->stage->grid;
    if (c->reach == TO_ALL && c->group != SN_GROUP_TIED) {
        sn_span_pairs(c->at, l->p->machine, g, c->group, l->stage->stage);
        for (int i = 0; i < SN_MAX_LEVELS; i++)
            c->all += c->at[i];
        return;
    }
    for (int r = 0; r < sn_grid_ranks(g); r++)
        if (c->group == SN_GROUP_WORLD || sn_grid_coord(g, r, SN_AXIS_PIPELINE) == l->stage->stage)
            count_one(l, c, r);
}

static enum reach reach_of(const struct levels *l, const struct sn_op *op, enum sn_collective kind)
{
    if (op->kind == SN_OP_SEND)
        return TO_PEER;
    bool direct = l->p->machine->algorithm == SN_ALGORITHM_DIRECT || kind == SN_ALL_TO_ALL;
    return op->kind == SN_OP_SHIFT || !direct ? TO_NEXT : TO_ALL;
}

static const struct pairs *pairs_of(struct levels *l, const struct sn_op *op,
                                    enum sn_collective kind)
{
    struct pairs c = {.group = op->group, .reach = reach_of(l, op, kind)};
    c.peer = c.reach == TO_PEER ? op->peer : 0;
    for (int i = 0; i < l->n_seen; i++)
        if (l->seen[i].group == c.group && l->seen[i].reach == c.reach && l->seen[i].peer == c.peer)
            return &l->seen[i];
    count_pairs(l, &c);
    int room = (int)(sizeof(l->seen) / sizeof(l->seen[0]));
    int at = l->n_seen < room ? l->n_seen++ : room - 1;
    l->seen[at] = c;
    return &l->seen[at];
}

/* All bytes of an operation's group, once, times the groups of the stage: as lib/program/account.c
 * counts traffic. */
static int64_t sent_by_stage(const struct sn_job *j, const struct sn_op *op,
                             const struct sn_communication *c)
{
    int64_t ranks = sn_grid_ranks(&j->grid) / j->stages;
    int size = j->group_size[op->group];
    int64_t total = sn_collective_total(c->kind, c->n, c->dtype, size);
    if (op->group == SN_GROUP_WORLD)
        return j->stage == 0 ? total : 0;
    if (op->group == SN_GROUP_PIPELINE || op->kind == SN_OP_SHIFT)
        return ranks * total;
    return op->group == SN_GROUP_TIED ? ranks * (total / size) : ranks / size * total;
}

/* In proportion to the pairs; what rounding leaves goes to the outermost level used. */
static void distribute(int64_t bytes[SN_MAX_LEVELS], int64_t total, const struct pairs *c)
{
    int64_t left = total;
    int top = 0;
    if (c->all == 0)
        return;
    for (int i = 0; i < SN_MAX_LEVELS; i++) {
        int64_t here = total / c->all * c->at[i] + total % c->all * c->at[i] / c->all;
        bytes[i] += here;
        left -= here;
        top = c->at[i] > 0 ? i : top;
    }
    bytes[top] += left;
}

void sn_price_levels(const struct sn_pricer *p, const struct sn_job *stage,
                     int64_t bytes[SN_MAX_LEVELS])
{
    struct levels l = {.p = p, .stage = stage};
    const struct sn_program *prog = &stage->train;
    for (int i = 0; i < SN_MAX_LEVELS; i++)
        bytes[i] = 0;
    for (int c = 0; c < prog->n_segments; c++)
        for (int i = prog->segments[c].first; i < prog->segments[c].first + prog->segments[c].n;
             i++) {
            const struct sn_op *op = &prog->ops[i];
            struct sn_communication what;
            if (op->extra || !sn_op_communication(&what, prog, op) || what.kind == SN_RECV)
                continue;
            int64_t total = sent_by_stage(stage, op, &what);
            if (total > 0)
                distribute(bytes, total * sn_program_runs(prog, c, op->when),
                           pairs_of(&l, op, what.kind));
        }
}
