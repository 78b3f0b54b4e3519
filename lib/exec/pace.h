/*
 * pace.h - a rank that spends planned time asleep instead of computing (sennit-train --pace).
 *
 * Computing advances a deadline by its planned time and sleeps until it: late wake-ups of one
 * operation are made up for by the next, so that short operations do not lose time to timers.
 * Communication is real: a rank that really waited goes on from when it was let go.
 */
#ifndef SN_PACE_H
#define SN_PACE_H

#include "lib/cost/price.h"

struct sn_pace {
    bool on; /* else the rank computes */
    struct sn_software software;
    struct sn_pricer pricer; /* of the machine, which is borrowed, under `software` */
    double due;              /* sn_clock() at which what was planned so far is over */
};

/* The calling thread sleeps by it from now on, for the prices of `j` on the machine. */
void sn_pace_begin(struct sn_pace *p, const struct sn_machine *machine, const struct sn_job *j);
/* Time passed that was not planned (loading a batch): go on from now. */
void sn_pace_restart(struct sn_pace *p);
/* Sleep until `seconds` after the end of what came before. */
void sn_pace_spend(struct sn_pace *p, double seconds);
/* A communication call began at `began` and has returned now. */
void sn_pace_communicated(struct sn_pace *p, double began);

#endif
