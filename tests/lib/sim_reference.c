#include "tests/lib/sim_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One posted operation in one slot. */
struct request {
    const struct sn_op *op; /* NULL: never posted */
    int micro, flow;        /* of a collective: number of its flow */
};

/* A collective from its post on. */
struct flow {
    int lane;
    double left, slow; /* seconds alone; how much slower it is now, 0: not its turn */
    struct sn_link_use use;
    double end; /* -1: not yet */
};

struct world {
    const struct sn_stages *s;
    const struct sn_pricer *p;
    int micros;
    double *sent, *got, *took; /* [tag x micros]: posts of both ends; seconds by tag */
    double *came;              /* [ops x stages] to the k-th operation of the update */
    bool changed;
};

struct stage {
    struct world *w;
    const struct sn_job *j;
    double now, played; /* until then flows have been moved on */
    struct flow *flow;
    int n_flows, oldest;     /* of those that have not ended */
    struct request *request; /* [ids x slots] */
    int slots;
    struct sn_sim_stage sum;
};

static void set(struct world *w, double *cell, double value)
{
    w->changed = w->changed || *cell != value;
    *cell = value;
}

static double price(const struct world *w, const struct sn_job *j, const struct sn_op *op)
{
    double seconds =
        op->kind == SN_OP_AGREE
            ? sn_price_collective(w->p, SN_ALL_REDUCE, sn_agree_words(op), SN_F64, SN_GROUP_WORLD)
            : sn_price_comm(w->p, &j->train, op);
    return seconds * (1 - w->p->software->hidden[sn_group_axis(op->group)]);
}

/* Until `begin` for another stage, then for the transfer. */
static void stand(struct stage *g, const struct sn_op *op, double begin, double end)
{
    if (begin > g->now) {
        g->sum.idle += begin - g->now;
        g->now = begin;
    }
    if (end > g->now) {
        g->sum.exposed[sn_group_axis(op->group)] += end - g->now;
        g->now = end;
    }
}

static struct request *request_of(struct stage *g, const struct sn_op *op, int id, int slot)
{
    return &g->request[id * g->slots + (op->per_slot ? slot : 0)];
}

/* --- flows: moved on from one end to the next, all that are first in their lane at once -------- */

static bool is_first(const struct stage *g, int f)
{
    for (int i = g->oldest; i < f; i++)
        if (g->flow[i].end < 0 && g->flow[i].lane == g->flow[f].lane)
            return false;
    return g->flow[f].end < 0;
}

/* The part of a level's links that each message has: by halving, what all have sums to 1. */
static double part_of_a_message(const struct stage *g, int level)
{
    double least = 0, most = 1;
    for (int step = 0; step < 200; step++) {
        double f = (least + most) / 2, sum = 0;
        for (int i = g->oldest; i < g->n_flows; i++) {
            const struct sn_link_use *u = &g->flow[i].use;
            sum += is_first(g, i) ? fmin(u->of[level], u->messages * f) : 0;
        }
        *(sum > 1 ? &most : &least) = f;
    }
    return least;
}

/* So much longer it takes than alone. */
static double slowness(const struct stage *g, int f)
{
    double worst = 1;
    for (int l = 0; l < SN_LINK_LEVELS; l++) {
        const struct sn_link_use *u = &g->flow[f].use;
        double sum = 0;
        for (int i = g->oldest; i < g->n_flows; i++)
            sum += is_first(g, i) ? (double)g->flow[i].use.of[l] : 0;
        if (u->of[l] > 0 && sum > 1)
            worst = fmax(worst, u->of[l] / fmin(u->of[l], u->messages * part_of_a_message(g, l)));
    }
    return worst;
}

/* Until time t, or until the next one ends; false: t has come, or nothing is under way. */
static bool move_on(struct stage *g, double t)
{
    int next = -1;
    for (int i = g->oldest; i < g->n_flows; i++) {
        struct flow *f = &g->flow[i];
        f->slow = is_first(g, i) ? slowness(g, i) : 0;
        if (f->slow > 0 &&
            (next < 0 || f->left * f->slow < g->flow[next].left * g->flow[next].slow))
            next = i;
    }
    if (next < 0 || g->played >= t)
        return false;
    double step = g->flow[next].left * g->flow[next].slow;
    bool ends = g->played + step <= t;
    step = ends ? step : t - g->played;
    for (int i = g->oldest; i < g->n_flows; i++)
        if (g->flow[i].slow > 0)
            g->flow[i].left -= step / g->flow[i].slow;
    g->played += step;
    if (ends)
        g->flow[next].end = g->played;
    while (g->oldest < g->n_flows && g->flow[g->oldest].end >= 0)
        g->oldest++;
    return ends;
}

/* When a flow ends, if nothing else is posted. */
static double end_of(struct stage *g, int flow)
{
    while (g->flow[flow].end < 0)
        (void)move_on(g, INFINITY);
    return g->flow[flow].end;
}

enum { RING = 100, ALL = -1 };

/* When the last of a lane, or of all, has ended. */
static double end_of_lane(struct stage *g, int lane)
{
    double last = 0;
    for (int i = 0; i < g->n_flows; i++)
        if (lane == ALL || g->flow[i].lane == lane)
            last = fmax(last, end_of(g, i));
    return last;
}

static void collective(struct stage *g, struct request *t)
{
    bool ring = t->op->kind == SN_OP_SHIFT;
    struct flow f = {.lane = ring ? RING : (int)sn_group_queue(t->op->group), .end = -1};
    while (move_on(g, g->now))
        continue;
    g->played = fmax(g->played, g->now);
    f.left = price(g->w, g->j, t->op);
    sn_price_uses(&f.use, g->w->p, &g->j->train, t->op);
    g->flow = realloc(g->flow, (size_t)(g->n_flows + 1) * sizeof(f));
    t->flow = g->n_flows;
    g->flow[g->n_flows++] = f;
}

/* Beside a transfer a kernel has 1 - processor of its core, until one of both ends. */
static double slowed(struct stage *g, double seconds)
{
    double part = 1 - g->w->p->machine->level[0].processor, limit = g->now + seconds / part;
    if (part == 1)
        return seconds;
    while (move_on(g, limit))
        continue;
    double last = g->oldest < g->n_flows ? limit : 0;
    for (int i = 0; i < g->n_flows; i++)
        last = fmax(last, g->flow[i].end);
    double beside = fmax(last - g->now, 0);
    double done = beside * part;
    return seconds * (part > 0 ? 1 / part : INFINITY) <= beside ? seconds / part
                                                                : beside + seconds - done;
}

/* All stages' arrivals count as at time 0 until they are known. */
static void together(struct stage *g, const struct sn_op *op)
{
    struct world *w = g->w;
    int stages = g->j->stages, k = 0;
    for (const struct sn_op *o = op - 1; o >= g->j->train.ops; o--)
        k += o->group == op->group && o->kind == op->kind;
    if (op->group == SN_GROUP_WORLD)
        k += 100; /* the tied embedding's come first */
    double begin = 0;
    double free = end_of_lane(g, op->kind == SN_OP_AGREE ? ALL : (int)SN_AXIS_DATA);
    set(w, &w->came[k * stages + g->j->stage], fmax(g->now, free));
    for (int s = 0; s < stages; s++)
        begin = fmax(begin, w->came[k * stages + s]);
    stand(g, op, begin, begin + price(w, g->j, op));
}

static bool is_lazy(const struct stage *g, const struct sn_op *op)
{
    return !g->w->p->software->data_overlaps && op->is_weight_grad && op->kind != SN_OP_ALL_GATHER;
}

static void post(struct stage *g, const struct sn_op *op, const struct sn_sched *at)
{
    struct world *w = g->w;
    struct request *t = request_of(g, op, op->id, at->slot);
    *t = (struct request){.op = op, .micro = at->micro};
    int cell = op->tag * w->micros + at->micro;
    if (op->kind == SN_OP_SEND) {
        set(w, &w->sent[cell], g->now);
        w->took[op->tag] = price(w, g->j, op);
    } else if (op->kind == SN_OP_RECV)
        set(w, &w->got[cell], g->now);
    else if (!is_lazy(g, op))
        collective(g, t);
}

static void wait(struct stage *g, const struct sn_op *op, const struct sn_sched *at)
{
    struct request *t = request_of(g, op, op->waits_for, at->slot);
    struct world *w = g->w;
    if (!t->op)
        return;
    if (t->op->kind == SN_OP_SEND || t->op->kind == SN_OP_RECV) {
        int cell = t->op->tag * w->micros + t->micro;
        double begin = fmax(w->sent[cell], w->got[cell]);
        stand(g, op, begin, begin + w->took[t->op->tag]);
        return;
    }
    if (is_lazy(g, t->op))
        collective(g, t);
    stand(g, op, g->now, end_of(g, t->flow));
}

static bool runs(const struct stage *g, const struct sn_op *op, int micro)
{
    for (int q = 0; q < SN_NGROUPS; q++)
        if (op->only >> q & 1u && g->j->group_index[q] > 0)
            return false;
    if (op->extra)
        return false;
    return op->when == SN_EVERY || (op->when == SN_FIRST && micro == 0) ||
           (op->when == SN_LAST && micro == g->w->micros - 1);
}

static void run(struct stage *g, const struct sn_op *op, const struct sn_sched *at, bool updates)
{
    if (!runs(g, op, at->micro) || op->kind == SN_OP_ALIAS)
        return;
    if (op->kind < SN_NKERNELS) {
        double seconds = slowed(g, sn_price_op(g->w->p, &g->j->train, op));
        g->now += seconds;
        g->sum.busy += seconds;
        g->sum.update += updates ? seconds : 0;
    } else if (g->j->group_size[op->group] == 1)
        return;
    else if (op->kind == SN_OP_AGREE || (op->group == SN_GROUP_TIED && op->kind != SN_OP_WAIT))
        together(g, op);
    else if (op->kind == SN_OP_WAIT)
        wait(g, op, at);
    else
        post(g, op, at);
}

static void run_stage(struct sim_reference *out, struct world *w, int stage)
{
    struct stage g = {.w = w, .j = w->s->job[stage], .slots = 1};
    const struct sn_program *p = &g.j->train;
    for (int v = 0; v < p->vstages; v++)
        g.slots = p->slots[v] > g.slots ? p->slots[v] : g.slots;
    g.request = calloc((size_t)p->next_id * (size_t)g.slots, sizeof(*g.request));
    for (int i = 0; i < p->n_sched && g.request; i++) {
        const struct sn_segment *c = &p->segments[p->sched[i].segment];
        int first = p->sched[i].first; /* where segments take turns a piece of one */
        for (int k = first; k < first + p->sched[i].n; k++)
            run(&g, &p->ops[k], &p->sched[i], c->kind == SN_SEGMENT_UPDATE);
    }
    free(g.request);
    free(g.flow);
    out->stage[stage] = g.sum;
    out->step = fmax(out->step, g.now);
    out->stage[stage].idle -= g.now; /* completed by the caller */
}

void sim_reference_run(struct sim_reference *out, const struct sn_stages *s,
                       const struct sn_pricer *p)
{
    int micros = s->job[0]->train.micros, tags = 2 * s->job[0]->modules;
    size_t cells = (size_t)tags * (size_t)micros;
    struct world w = {.s = s, .p = p, .micros = micros};
    w.sent = calloc(cells, sizeof(double));
    w.got = calloc(cells, sizeof(double));
    w.took = calloc((size_t)tags, sizeof(double));
    w.came = calloc(200 * (size_t)s->n, sizeof(double));
    int passes = 0;
    do {
        w.changed = false;
        *out = (struct sim_reference){.passes = ++passes};
        for (int i = 0; i < s->n; i++)
            run_stage(out, &w, i);
    } while (w.changed && passes < 1000);
    for (int i = 0; i < s->n; i++)
        out->stage[i].idle += out->step; /* after its last operation it waits for the others */
    free(w.sent);
    free(w.got);
    free(w.took);
    free(w.came);
}
