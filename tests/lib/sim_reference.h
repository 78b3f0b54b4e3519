/*
 * sim_reference.h - a simulated step as plainly as it can be said, to hold lib/sim/sim to.
 */
#ifndef SIM_REFERENCE_H
#define SIM_REFERENCE_H

#include "lib/sim/sim.h"

enum { REFERENCE_STAGES = 16 };

struct sim_reference {
    double step;
    struct sn_sim_stage stage[REFERENCE_STAGES]; /* idle is counted where it happens */
    int passes;
};

/* Every operation of every micro-batch of every stage, again and again, with what the stages told
 * each other in the pass before, until nothing changes. No stage ever waits in it, so it says
 * nothing of programs that wait for ever. For machines of one level, and hosts that issue at once.
 */
void sim_reference_run(struct sim_reference *out, const struct sn_stages *s,
                       const struct sn_pricer *p);

#endif
