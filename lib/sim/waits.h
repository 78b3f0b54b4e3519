/*
 * waits.h - what a stage's messages are hidden behind in a step, and how much of their time no
 * order of its operations hides.
 */
#ifndef SN_WAITS_H
#define SN_WAITS_H

#include "lib/cost/price.h"
#include "lib/program/opinfo.h"
#include "lib/sim/sim.h"
#include "lib/sim/stages.h"

/* Of all messages that carry the same. */
struct sn_waits_sum {
    double message, hidden, exposed; /* seconds of a step: as of struct sn_sim_wait */
    double alone;                    /* of `message`, if each had the links to itself */
    double least;                    /* the bound below, were there no other messages */
};

struct sn_waits {
    const struct sn_job *job; /* of the stage; borrowed, as all below */
    struct sn_sim_wait *of;   /* [operations] */
    struct sn_sim_stage stage;
    double step;              /* seconds */
    double message[SN_NAXES]; /* sums over `of` */
    double hidden[SN_NAXES], exposed[SN_NAXES];
    struct sn_waits_sum of_what[SN_NCARRIED];
    /* No order of the stage's operations stands for less; where other stages are late some of it
     * may pass meanwhile. From Carlier's bound for one machine (waits.c). */
    double least;
};

/* Plays the step once more. Caller runs sn_waits_fini. */
enum sn_status sn_waits_find(struct sn_waits *out, const struct sn_stages *s,
                             const struct sn_pricer *p, int stage, struct sn_err *err);
void sn_waits_fini(struct sn_waits *w); /* a zeroed one is allowed */

/* As a table: each wait of a segment in the order of the text, the axes, what messages carry, the bound. */
void sn_waits_text(struct sn_str *out, const struct sn_waits *w);

#endif
