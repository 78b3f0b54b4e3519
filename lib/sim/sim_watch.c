/*
 * sim_watch.c - what messages are hidden behind: kernels that ran while they were under way.
 *
 * Lanes are played ahead of computing where a kernel's time depends on them, so that a message may
 * have ended before it is known what ran beside it: it is compared when computing has come so far.
 */
#include "lib/sim/sim_stage.h"

#include "lib/base/mem.h"

#include <math.h>

void sn_sim_player_watch(struct sn_sim_player *g, struct sn_sim_wait *waits)
{
    g->waits = waits;
}

/* From the latest kernel back to the first that ran beside it. */
static void compare(struct sn_sim_player *g, const struct sn_sim_span *m)
{
    struct sn_sim_wait *w = &g->waits[m->op];
    w->message += m->end - m->begin;
    for (int k = g->watch.n_span - 1; k >= 0 && g->watch.span[k].end > m->begin; k--) {
        const struct sn_sim_span *s = &g->watch.span[k];
        double both = fmin(s->end, m->end) - fmax(s->begin, m->begin);
        if (both <= 0)
            continue;
        w->hidden += both;
        w->behind = both > w->most ? s->op : w->behind;
        w->most = fmax(both, w->most);
    }
}

/* Those that ended by then. */
static void compare_ended(struct sn_sim_player *g, double then)
{
    struct sn_sim_watch *w = &g->watch;
    int left = 0;
    for (int i = 0; i < w->n_ended; i++)
        if (w->ended[i].end <= then)
            compare(g, &w->ended[i]);
        else
            w->ended[left++] = w->ended[i];
    w->n_ended = left;
    if (left == 0 && g->lanes.busy == 0)
        w->n_span = 0;
}

static void add(struct sn_sim_player *g, struct sn_sim_span **list, int *n, int *cap,
                struct sn_sim_span s)
{
    if (sn_grow((void **)list, *n, cap, sizeof(**list)))
        (*list)[(*n)++] = s;
    else
        g->failed = true;
}

void sn_sim_watch_kernel(struct sn_sim_player *g, int op, double begin)
{
    struct sn_sim_watch *w = &g->watch;
    if (!g->waits || (g->lanes.busy == 0 && w->n_ended == 0))
        return;
    add(g, &w->span, &w->n_span, &w->cap_span, (struct sn_sim_span){op, begin, g->clock.now});
    compare_ended(g, g->clock.now);
}

void sn_sim_watch_ended(struct sn_sim_player *g, int op, double begin, double end)
{
    struct sn_sim_watch *w = &g->watch;
    if (!g->waits)
        return;
    add(g, &w->ended, &w->n_ended, &w->cap_ended, (struct sn_sim_span){op, begin, end});
    compare_ended(g, g->clock.now);
}

void sn_sim_watch_done(struct sn_sim_player *g)
{
    if (g->waits)
        compare_ended(g, INFINITY);
}
