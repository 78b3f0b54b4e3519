/*
 * drawn.h - a run played many times, with failures and slow nodes at random: what held.h says in
 * formulas, event by event, and how far single runs are from it.
 */
#ifndef SN_DRAWN_H
#define SN_DRAWN_H

#include "lib/campaign/held.h"

struct sn_drawn_of {
    double mean, error; /* and its standard error */
    double low, high;   /* of nine in ten runs */
};

struct sn_drawn {
    struct sn_drawn_of held, days; /* seconds that nodes are held; days with the queue's */
    double failures, jobs;         /* means */
    int trials;
};

/* The same for the same seed. `trials` >= 2. SN_ENOMEM; SN_EINPUT as sn_held_find. */
enum sn_status sn_drawn_play(struct sn_drawn *out, const struct sn_terms *t, uint64_t seed,
                             int trials, struct sn_err *err);

#endif
