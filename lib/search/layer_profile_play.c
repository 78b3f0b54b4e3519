/*
 * layer_profile_play.c - rows of intervals, each queue one after another as sim.h has them. Links are
 * not shared here: so nothing ends later than there.
 */
#include "lib/search/layer_profile.h"

#include <math.h>

struct reduction {
    double done;
    int comm;                               /* ZeRO 2 and 3: what is under way */
    const struct sn_coded_reduction *coded; /* ZeRO 0 and 1, with a codec: of which this leg */
    bool second;
};

enum { UNDER_WAY = 2 }; /* reductions: SN_MAX_POSTED of lib/program/build.h */

struct streams {
    const struct sn_layer_profile *s;
    const struct sn_layer_profile_prices *p;
    double now;                 /* of COMPUTE */
    double free[SN_LINK_LANES]; /* when queues and rings are */
    struct reduction reduced[UNDER_WAY + 1];
    int reductions; /* under way */
    const struct sn_shard_reduction
        *by_shard; /* reductions that wait for a shard alone; NULL: none */
    double post[SN_SHAPE_POSTS];
};

static void wait_until(struct streams *w, double then)
{
    w->now = fmax(w->now, then);
}

/* When it is done. What takes no time is a group's of one rank, and waits for no others. */
static double begin(struct streams *w, int lane, double seconds)
{
    if (seconds <= 0)
        return w->now;
    return w->free[lane] = fmax(w->free[lane], w->now) + seconds;
}

static int lane_of(const struct sn_layer_profile_comm *c)
{
    return c->stream == SN_STREAM_RINGS ? (int)SN_LINK_RINGS : (int)sn_group_queue(c->group);
}

/* Reductions that the text does not have (struct sn_shard_reduction). */
static double reduce_shard(struct streams *w, double seconds)
{
    return begin(w, SN_AXIS_DATA, seconds);
}

static double post(struct streams *w, int comm)
{
    w->now += w->p->before[comm];
    return begin(w, lane_of(&w->s->comm[comm]), w->p->comm[comm]);
}

/* The oldest reduction is waited for; an all-reduce with a codec goes on to its gather. */
static void take_oldest(struct streams *w)
{
    struct reduction old = w->reduced[0];
    wait_until(w, old.done);
    for (int i = 1; i < w->reductions; i++)
        w->reduced[i - 1] = w->reduced[i];
    w->reductions--;
    if (!old.coded) {
        w->now += w->p->behind[old.comm];
        return;
    }
    w->now += old.second ? old.coded->decode : old.coded->between;
    if (old.second || old.coded->gather <= 0)
        return;
    old.second = true;
    old.done = reduce_shard(w, old.coded->gather);
    w->reduced[w->reductions++] = old;
}

static void take_all(struct streams *w)
{
    while (w->reductions > 0)
        take_oldest(w);
}

/* Two at most are under way: the third waits for the first (lib/program/zero.c). */
static void reduce(struct streams *w, int comm)
{
    double done = post(w, comm);
    if (w->reductions == UNDER_WAY)
        take_oldest(w);
    w->reduced[w->reductions++] = (struct reduction){.done = done, .comm = comm};
}

/* The gradient of a shard is complete (lib/program/compress.c). */
static void complete(struct streams *w, const struct sn_shard_reduction *r)
{
    if (!r->coded) {
        if (r->seconds > 0)
            (void)reduce_shard(w, r->seconds);
        return;
    }
    while (w->reductions >= UNDER_WAY)
        take_oldest(w);
    w->now += r->coded->encode;
    double done = reduce_shard(w, r->coded->exchange);
    w->reduced[w->reductions++] = (struct reduction){.done = done, .coded = r->coded};
}

static void row(struct streams *w, enum sn_pass pass, enum sn_layer_place place)
{
    for (const struct sn_interval *b = &w->s->interval[w->s->first[pass][place]];; b++) {
        w->now += b->run;
        switch (b->kind) {
        case SN_INTERVAL_END:
            return;
        case SN_INTERVAL_POST:
            w->post[b->slot] = post(w, b->comm);
            break;
        case SN_INTERVAL_WAIT:
            wait_until(w, w->post[b->slot]);
            break;
        case SN_INTERVAL_REDUCE:
            reduce(w, b->comm);
            break;
        case SN_INTERVAL_SHARD:
            if (w->by_shard)
                complete(w, &w->by_shard[b->slot]);
            break;
        }
    }
}

void sn_layer_profile_play(struct sn_layer_profile_prices *p, const struct sn_layer_profile *s)
{
    for (int pass = 0; pass < SN_NPASSES; pass++)
        for (int place = 0; place < SN_NPLACES; place++) {
            struct streams w = {.s = s, .p = p};
            row(&w, (enum sn_pass)pass, (enum sn_layer_place)place);
            p->alone[pass][place] = w.now;
            p->quiet[pass][place] = w.free[SN_AXIS_DATA];
            p->posts[pass][place] = 0;
            const struct sn_interval *b = &s->interval[s->first[pass][place]];
            for (; b->kind != SN_INTERVAL_END; b++)
                if ((b->kind == SN_INTERVAL_POST || b->kind == SN_INTERVAL_REDUCE) &&
                    lane_of(&s->comm[b->comm]) == SN_AXIS_DATA)
                    p->posts[pass][place] += p->comm[b->comm];
        }
}

/* --- ZeRO 2 and 3: what is under way passes from layer to layer ------------------------------- */

static int units_of(const struct sn_extent *x)
{
    return x->layers + x->first + x->last;
}

/* The i-th unit of a segment, as its extent counts them. */
static int number(int i, const struct sn_extent *x, bool backward)
{
    return backward ? units_of(x) - 1 - i : i;
}

/* The units of a segment in order: ends and layers. */
static enum sn_layer_place unit(const struct sn_layer_profile *s, int i, const struct sn_extent *x,
                                bool backward)
{
    return sn_extent_unit(x, s->kinds, number(i, x, backward));
}

/* Weights on their way: of a unit, in order. */
struct gathered {
    double done[16];
    enum sn_layer_place place;
};

static struct gathered gather(struct streams *w, enum sn_pass pass, enum sn_layer_place place)
{
    struct gathered g = {.place = place};
    for (int i = 0; i < w->s->n_gathers[pass][place]; i++)
        g.done[i] = post(w, w->s->gather[pass][place][i]);
    return g;
}

static void take_gathered(struct streams *w, enum sn_pass pass, const struct gathered *g)
{
    for (int i = 0; i < w->s->n_gathers[pass][g->place]; i++) {
        wait_until(w, g->done[i]);
        w->now += w->p->behind[w->s->gather[pass][g->place][i]];
    }
}

/* The first unit from `i` on that gathers its weights. */
static int gathers_next(int i, const struct sn_extent *x, bool backward)
{
    while (x->keeps && i < units_of(x) && x->keeps[number(i, x, backward)] != SN_KEEPS_NONE)
        i++;
    return i;
}

/* Weights are gathered one unit ahead, or more where units between keep theirs, gradients reduced
 * behind, both waited for in the segment. */
static double under_way(const struct sn_layer_profile *s, const struct sn_layer_profile_prices *p,
                        enum sn_pass pass, const struct sn_extent *x, double *after)
{
    bool backward = pass != SN_PASS_FORWARD;
    int units = units_of(x), ahead = gathers_next(0, x, backward);
    struct streams w = {.s = s, .p = p};
    struct gathered there, next = {.place = SN_PLACE_BLOCK};
    if (ahead < units)
        next = gather(&w, pass, unit(s, ahead, x, backward));
    for (int i = 0; i < units; i++) {
        if (i == ahead) {
            there = next;
            ahead = gathers_next(i + 1, x, backward);
            if (ahead < units)
                next = gather(&w, pass, unit(s, ahead, x, backward));
            take_gathered(&w, pass, &there);
        }
        row(&w, pass, unit(s, i, x, backward));
    }
    double sent = w.now;
    take_all(&w);
    *after = w.now - sent;
    return w.now;
}

double sn_layer_profile_segment(const struct sn_layer_profile *s,
                                const struct sn_layer_profile_prices *p, enum sn_pass pass,
                                const struct sn_extent *x, double *after)
{
    *after = 0;
    if (s->reduces)
        return under_way(s, p, pass, x, after);
    const double *alone = p->alone[pass];
    double sum = x->first * alone[SN_PLACE_EMBED] + x->last * alone[SN_PLACE_HEAD];
    for (int at = 0; at < SN_NPLACES; at++)
        sum += x->of[at] * alone[at];
    return sum;
}

static bool any_reduction(const struct sn_shard_reduction *reductions, int n)
{
    for (int q = 0; reductions && q < n; q++)
        if (reductions[q].coded || reductions[q].seconds > 0)
            return true;
    return false;
}

struct sn_layer_profile_end sn_layer_profile_busy(const struct sn_layer_profile *s,
                                                  const struct sn_layer_profile_prices *p,
                                                  enum sn_pass pass, const struct sn_extent *x,
                                                  const sn_shard_seconds *reduce, double busy)
{
    struct streams w = {.s = s, .p = p, .free[SN_AXIS_DATA] = busy};
    double *sums = &w.free[SN_AXIS_DATA];
    for (int u = 0; u < x->layers + x->first + x->last; u++) {
        enum sn_layer_place at = unit(s, u, x, pass != SN_PASS_FORWARD);
        bool head = at == SN_PLACE_HEAD; /* the only unit that completes a shard in forward */
        w.by_shard = !reduce || (pass == SN_PASS_FORWARD && !head) ? NULL : reduce[head ? 0 : u];
        bool waits = *sums > w.now && p->posts[pass][at] > 0;
        if (waits || any_reduction(w.by_shard, s->n_shards)) {
            row(&w, pass, at);
        } else { /* as it would alone: what came before is done, or it posts nothing */
            *sums = fmax(*sums, w.now + p->quiet[pass][at]);
            w.now += p->alone[pass][at];
        }
    }
    double sent = w.now;
    take_all(&w);
    return (struct sn_layer_profile_end){w.now, fmax(*sums, w.now), sent};
}
