/*
 * shape_play.c - rows of beats on three streams, as sim.h has them: kernels, collectives one after
 * another, steps of a ring one after another.
 */
#include "lib/plan/shape.h"

#include <math.h>

struct streams {
    const struct sn_shape *s;
    const struct sn_shape_prices *p;
    double now;        /* of kernels */
    double comm, ring; /* of collectives, of the steps of a ring */
    double reduced[2];
    int reductions;      /* under way: 0 .. 2 */
    const double *parts; /* seconds of reductions that wait for a part alone; NULL: none */
    double post[SN_SHAPE_POSTS];
};

static bool is_ring(const struct sn_shape_comm *c)
{
    return c->kind == SN_SEND && c->group == SN_GROUP_CONTEXT;
}

static void wait_until(struct streams *w, double then)
{
    w->now = fmax(w->now, then);
}

static double post(struct streams *w, int comm)
{
    double *stream = is_ring(&w->s->comm[comm]) ? &w->ring : &w->comm;
    return *stream = fmax(*stream, w->now) + w->p->comm[comm];
}

/* Two at most are under way: the third waits for the first (lib/program/zero.c). */
static void reduce(struct streams *w, int comm)
{
    double done = post(w, comm);
    if (w->reductions == 2) {
        wait_until(w, w->reduced[0]);
        w->reduced[0] = w->reduced[1];
        w->reductions = 1;
    }
    w->reduced[w->reductions++] = done;
}

static void row(struct streams *w, enum sn_pass pass, enum sn_place place)
{
    for (const struct sn_beat *b = &w->s->beat[w->s->first[pass][place]];; b++) {
        w->now += b->run;
        switch (b->kind) {
        case SN_BEAT_END:
            return;
        case SN_BEAT_POST:
            w->post[b->slot] = post(w, b->comm);
            break;
        case SN_BEAT_WAIT:
            wait_until(w, w->post[b->slot]);
            break;
        case SN_BEAT_REDUCE:
            reduce(w, b->comm);
            break;
        case SN_BEAT_PART:
            if (w->parts && w->parts[b->slot] > 0)
                w->comm = fmax(w->comm, w->now) + w->parts[b->slot];
            break;
        }
    }
}

void sn_shape_play(struct sn_shape_prices *p, const struct sn_shape *s)
{
    for (int pass = 0; pass < SN_NPASSES; pass++)
        for (int place = 0; place < SN_NPLACES; place++) {
            struct streams w = {.s = s, .p = p};
            row(&w, (enum sn_pass)pass, (enum sn_place)place);
            p->alone[pass][place] = w.now;
            p->quiet[pass][place] = w.comm;
            p->posts[pass][place] = 0;
            const struct sn_beat *b = &s->beat[s->first[pass][place]];
            for (; b->kind != SN_BEAT_END; b++)
                if ((b->kind == SN_BEAT_POST || b->kind == SN_BEAT_REDUCE) &&
                    !is_ring(&s->comm[b->comm]))
                    p->posts[pass][place] += p->comm[b->comm];
        }
}

/* --- ZeRO 2 and 3: what is under way passes from layer to layer ---------------------------------
 */

/* The units of a chunk in order: ends and layers. */
static enum sn_place unit(const struct sn_shape *s, int i, const struct sn_extent *x, bool backward)
{
    int layer = i - (backward ? x->last : x->first);
    enum sn_place before = backward ? SN_PLACE_HEAD : SN_PLACE_EMBED;
    enum sn_place behind = backward ? SN_PLACE_EMBED : SN_PLACE_HEAD;
    if (layer < 0 || layer >= x->layers)
        return layer < 0 ? before : behind;
    return sn_extent_place(x, s->every, backward ? x->layers - 1 - layer : layer);
}

static double gather(struct streams *w, enum sn_pass pass, enum sn_place place)
{
    double done = 0;
    for (int i = 0; i < w->s->n_gathers[pass][place]; i++)
        done = post(w, w->s->gather[pass][place][i]);
    return done;
}

/* Weights are gathered one unit ahead, gradients reduced behind, both waited for in the chunk. */
static double under_way(const struct sn_shape *s, const struct sn_shape_prices *p,
                        enum sn_pass pass, const struct sn_extent *x, double *after)
{
    bool backward = pass != SN_PASS_FORWARD;
    int units = x->layers + x->first + x->last;
    struct streams w = {.s = s, .p = p};
    double there = 0, next = gather(&w, pass, unit(s, 0, x, backward));
    for (int i = 0; i < units; i++) {
        there = next;
        if (i + 1 < units)
            next = gather(&w, pass, unit(s, i + 1, x, backward));
        wait_until(&w, there);
        row(&w, pass, unit(s, i, x, backward));
    }
    double sent = w.now;
    for (int i = 0; i < w.reductions; i++)
        wait_until(&w, w.reduced[i]);
    *after = w.now - sent;
    return w.now;
}

double sn_shape_chunk(const struct sn_shape *s, const struct sn_shape_prices *p, enum sn_pass pass,
                      const struct sn_extent *x, double *after)
{
    *after = 0;
    if (s->key.zero)
        return under_way(s, p, pass, x, after);
    const double *alone = p->alone[pass];
    return (x->layers - x->experts) * alone[SN_PLACE_BLOCK] + x->experts * alone[SN_PLACE_EXPERTS] +
           x->first * alone[SN_PLACE_EMBED] + x->last * alone[SN_PLACE_HEAD];
}

static bool any_reduction(const double *parts, int n)
{
    for (int q = 0; parts && q < n; q++)
        if (parts[q] > 0)
            return true;
    return false;
}

struct sn_shape_end sn_shape_busy(const struct sn_shape *s, const struct sn_shape_prices *p,
                                  enum sn_pass pass, const struct sn_extent *x,
                                  const sn_part_seconds *reduce, double busy)
{
    struct streams w = {.s = s, .p = p, .comm = busy};
    for (int u = 0; u < x->layers + x->first + x->last; u++) {
        enum sn_place at = unit(s, u, x, pass != SN_PASS_FORWARD);
        bool head = at == SN_PLACE_HEAD; /* the only unit that completes a part in forward */
        w.parts = !reduce || (pass == SN_PASS_FORWARD && !head) ? NULL : reduce[head ? 0 : u];
        bool waits = w.comm > w.now && p->posts[pass][at] > 0;
        if (waits || any_reduction(w.parts, s->n_parts)) {
            row(&w, pass, at);
        } else { /* as it would alone: what came before is done, or it posts nothing */
            w.comm = fmax(w.comm, w.now + p->quiet[pass][at]);
            w.now += p->alone[pass][at];
        }
    }
    return (struct sn_shape_end){w.now, fmax(w.comm, w.now)};
}
