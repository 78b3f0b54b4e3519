/*
 * late.c - what a trainer's reductions wait for members that come late (sim_stage.h).
 */
#include "lib/sim/plan.h"
#include "lib/sim/sim_stage.h"

#include <math.h>

static const double BILLION = 1e9, ROOMY = 0.75; /* of memory: what is full beyond makes late */

/* Domains of the innermost level that a group lies in. */
static double nodes_of(const struct sn_pricer *p, enum sn_group q)
{
    double nodes = 1;
    for (int i = 1; i < p->machine->n_levels; i++)
        nodes *= p->span[q].at[i] > 1 ? p->span[q].at[i] : 1;
    return nodes;
}

static double nodes_of_job(const struct sn_pricer *p)
{
    double node = p->machine->n_levels > 1 ? (double)p->machine->level[0].ranks : 0;
    return node > 0 ? ceil(sn_grid_ranks(&p->grid) / node) : 1;
}

static double billions(const struct sn_stages *s)
{
    double most = 0;
    for (int i = 0; i < s->n; i++) {
        double n = 0;
        for (int b = 0; b < s->job[i]->n_buckets; b++)
            n += (double)s->job[i]->buckets[b].n;
        most = fmax(most, n / BILLION);
    }
    return most;
}

double sn_sim_late(const struct sn_stages *s, const struct sn_pricer *p)
{
    const struct sn_software *w = p->software;
    double late = w->late * (nodes_of(p, SN_GROUP_REPLICA) - 1);
    if (p->span[SN_GROUP_REPLICA].members < 2 || (w->late == 0 && w->late_full == 0))
        return 0;
    if (w->late_full > 0 && p->machine->device.memory > 0) {
        struct sn_memory_plan memory;
        sn_plan_memory(&memory, s, p);
        double full = (double)memory.total / (double)p->machine->device.memory - ROOMY;
        late += w->late_full * (nodes_of_job(p) - 1) * fmax(0, full) / (1 - ROOMY);
    }
    return late * billions(s);
}
