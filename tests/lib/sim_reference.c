#include "tests/lib/sim_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One posted operation in one slot. */
struct request {
    const struct sn_op *op; /* NULL: never posted */
    int micro;
    double begin, end; /* of a collective */
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
    double now, comm, ring;
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

static void collective(struct stage *g, struct request *t, double *stream)
{
    t->begin = fmax(g->now, *stream);
    *stream = t->end = t->begin + price(g->w, g->j, t->op);
}

/* Beside a transfer a kernel has 1 - processor of its core, until one of both ends. */
static double slowed(const struct stage *g, double seconds)
{
    double part = 1 - g->w->p->machine->level[0].processor;
    double beside = fmax(fmax(g->comm, g->ring) - g->now, 0);
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
    set(w, &w->came[k * stages + g->j->stage], fmax(g->now, g->comm));
    for (int s = 0; s < stages; s++)
        begin = fmax(begin, w->came[k * stages + s]);
    g->comm = begin + price(w, g->j, op);
    stand(g, op, begin, g->comm);
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
    else if (op->kind == SN_OP_SHIFT)
        collective(g, t, &g->ring);
    else if (!is_lazy(g, op))
        collective(g, t, &g->comm);
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
        collective(g, t, &g->comm);
    stand(g, op, g->now, t->end);
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
        for (int k = c->first; k < c->first + c->n; k++)
            run(&g, &p->ops[k], &p->sched[i], c->kind == SN_SEGMENT_UPDATE);
    }
    free(g.request);
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
