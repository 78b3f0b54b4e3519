/*
 * links.h - measured collectives: seconds by kind, members and bytes, and what lies between them.
 *
 * A rate and a latency say little of memory that ranks share: an all-reduce of 1 MiB may run from a
 * cache at twice the rate of one of 16 MiB. So calibration keeps its points, and the formula
 * (price.c) is for groups and kinds of which there are none.
 */
#ifndef SN_LINKS_H
#define SN_LINKS_H

#include "lib/base/err.h"
#include "lib/layout/collective.h"

#include <stdbool.h>
#include <stdint.h>

struct sn_measured_link {
    /* SEND: one way, between ranks that do nothing else. RECV: from the post of a sender that goes
     * on computing to the end of the wait of who waits for it, as between pipeline stages. */
    enum sn_collective kind;
    int members;
    int64_t bytes; /* n elements, as enum sn_collective says */
    double seconds;
};

/* A growing list. */
struct sn_links {
    struct sn_measured_link *v;
    int n, cap;
};
enum sn_status sn_links_add(struct sn_links *l, struct sn_measured_link x, struct sn_err *err);
void sn_links_fini(struct sn_links *l); /* a zeroed one is allowed */

/* Seconds of a kind: between the two nearest sizes on a line in logarithms; a smaller
 * message takes as long as the smallest, a larger one goes on at the rate of the two largest. False
 * if no point is of this kind and as many members. */
bool sn_links_find(double *seconds, const struct sn_links *l,
                   const struct sn_measured_link *wanted);

#endif
