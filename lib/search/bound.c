#include "lib/search/bound.h"

#include <math.h>

static double over_vstages(const double *cost, const struct sn_pipeline *p, int stage)
{
    double sum = 0;
    for (int v = 0; v < p->virtual_stages; v++)
        sum += cost[v * p->stages + stage];
    return sum;
}

/* By how much the first micro-batch's forwards are longer: in a stage, in a module. */
static double first_of(const struct sn_module_costs *c, const struct sn_pipeline *p, int stage)
{
    return c->first ? over_vstages(c->first, p, stage) : 0;
}

static double first_forward(const struct sn_module_costs *c, int module)
{
    return c->forward[module] + (c->first ? c->first[module] : 0);
}

/* A backward up to its send. */
static double sent(const struct sn_module_costs *c, int module)
{
    return c->backward[module] - c->after[module];
}

/* With turns (1f1b): the longest path that turns at stage s and ends its micro-batches at s or
 * later, from the first forward of s to its last backward. */
static double turns(const struct sn_pipeline *p, const struct sn_module_costs *c, int s)
{
    int in_flight = p->stages - s, k = (p->micros - 1) / in_flight,
        rest = p->micros - k * in_flight;
    double turn = 2 * (in_flight - 1) * c->transfer, most = 0, there = 0, back = 0;
    for (int e = s; e < p->stages; e++) {
        turn += c->forward[e] + sent(c, e);
        most = fmax(most, there + rest * (c->forward[e] + c->backward[e]) - c->after[e] +
                              c->extra[e] + back);
        there += c->forward[e] + c->transfer;
        back += sent(c, e) + c->extra[e] + c->transfer;
    }
    return k * turn + most;
}

/* With sweeps (gpipe): all forwards through the slowest stage, then all backwards. */
static double sweeps(const struct sn_pipeline *p, const struct sn_module_costs *c)
{
    double forward = 0, backward = 0, f = 0, b = 0, extra = 0;
    for (int k = 0; k < p->stages; k++) {
        f += c->forward[k] + (k > 0) * c->transfer;
        b += k < c->still ? 0 : sent(c, k) + (k > c->still) * c->transfer;
    }
    for (int e = 0; e < p->stages; e++) {
        forward = fmax(forward, f + (p->micros - 1) * c->forward[e]);
        if (e < c->still)
            continue;
        extra += c->extra[e]; /* what is behind e saw the first micro-batch's gradient */
        backward = fmax(backward, b + (p->micros - 1) * c->backward[e] + extra);
    }
    return forward + backward;
}

/* With virtual stages: when the last micro-batch's gradient enters the last stage module. What the
 * last stage does after that are backwards of its other virtual stages, as many micro-batches as
 * there are stages. */
static double turn_back(const struct sn_pipeline *p, const struct sn_module_costs *c)
{
    int last = p->stages - 1, modules = p->stages * p->virtual_stages;
    double at =
        p->micros * (over_vstages(c->forward, p, last) + over_vstages(c->backward, p, last));
    for (int k = 0; k < last; k++)
        at += c->forward[k] + c->transfer;
    for (int k = last; k < modules - 1; k += p->stages)
        at -= p->stages * c->backward[k];
    return at - c->backward[modules - 1];
}

/* And when it has come down to `module`. */
static double way_down(const struct sn_pipeline *p, const struct sn_module_costs *c, int module)
{
    double way = 0;
    for (int k = p->stages * p->virtual_stages - 1; k > module; k--)
        way += sent(c, k) + c->extra[k] + c->transfer;
    return way + c->backward[module] + c->extra[module];
}

void sn_pipeline_bound(double *end, const struct sn_pipeline *p, const struct sn_module_costs *c)
{
    const struct sn_schedule_traits *t = sn_schedule_traits(p->kind);
    double *down = &end[c->still % p->stages]; /* of the last module that a gradient comes down to */
    double there = 0, back = 0; /* X_s; the end of the last backward of stage s + 1 */
    for (int k = 0; k < p->stages - 1; k++)
        there += first_forward(c, k) + c->transfer;
    for (int s = p->stages - 1; s >= 0; s--) {
        double both = over_vstages(c->forward, p, s) + over_vstages(c->backward, p, s);
        double late = t->delays_weights ? c->weight[s] : 0, work = there + p->micros * both;
        work += first_of(c, p, s);
        int before = p->micros - sn_schedule_waiting(p, s); /* weights done by the last backward */
        double last = work + before * late + c->extra[s];
        if (t->turns && s >= c->still)
            last = fmax(last, there + turns(p, c, s));
        if (s < p->stages - 1 && s >= c->still)
            last = fmax(last, back + c->transfer + c->backward[s] + c->extra[s]);
        back = last - c->after[s];
        end[s] = fmax(last + late, work + p->micros * late + c->extra[s]);
        there -= s > 0 ? first_forward(c, s - 1) + c->transfer : 0;
    }
    if (p->virtual_stages > 1)
        *down = fmax(*down, turn_back(p, c) + way_down(p, c, c->still));
    if (t->sweeps)
        *down = fmax(*down, sweeps(p, c));
}
