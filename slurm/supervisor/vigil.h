/*
 * vigil.h - the records of all ranks seen again and again: whose stands still while others' move?
 *
 * Each rank's communication thread writes heartbeats into its record (lib/comm/flight_recorder.h) as long as its process is
 * there and runs, whether it waits, computes or saves. So a record that stands still is that of a
 * rank that is stopped, or whose host is gone. A record of another host comes through a file
 * system, late or never; so one that stands still says something only if another one of another
 * host was seen to move meanwhile, or if it was itself seen to move before.
 *
 * When a rank gives up waiting, the ranks end each other: from then on nothing is learnt.
 */
#ifndef SN_VIGIL_H
#define SN_VIGIL_H

#include "lib/comm/flight_recorder.h"

struct sn_vigil_rank {
    uint64_t seen;  /* heartbeats and events of its record as one number; 0: no record yet */
    double changed; /* when that became another number, seconds of this process' clock */
    int changes;
    bool is_here; /* its host is this one */
    char host[64];
};

struct sn_vigil {
    int ranks;
    struct sn_vigil_rank *rank;
    double first, last; /* looks; 0: none */
    bool is_over;       /* a rank has given up */
};

/* SN_ENOMEM. The caller ends with sn_vigil_fini. */
enum sn_status sn_vigil_init(struct sn_vigil *out, int ranks, struct sn_err *err);
void sn_vigil_fini(struct sn_vigil *w); /* a zeroed one is allowed */

/* A look at all records begins; then the record of each rank that has one. */
void sn_vigil_look(struct sn_vigil *w, double now);
void sn_vigil_see(struct sn_vigil *w, int rank, const struct sn_flight_view *v);
/* Has the record of a rank stood still for `seconds`, as far as that can be known? */
bool sn_vigil_is_silent(const struct sn_vigil *w, int rank, double seconds);
/* All ranks of a host, one at least. `host` as its ranks name it, or with or without a domain. */
bool sn_vigil_host_is_silent(const struct sn_vigil *w, const char *host, double seconds);
/* Are two names those of one host, which may have its domain behind it? */
bool sn_host_is(const char *a, const char *b);

#endif
