/*
 * flow.h - who sends how much to whom in a step, from the compiled programs.
 *
 * Bytes between ordered pairs of ranks as the communicator sends them (lib/comm/comm_collective.c):
 * collectives exchange directly, everybody with everybody, a shift goes to the next member, a send
 * to one. They are kept per group and not per pair, so that 16,384 ranks are some hundred
 * kilobytes: in a group, member i sends to member j
 *
 *   all + give[i] + take[j]
 *
 * bytes: of an all-reduce each gives its own slice to everybody and gets everybody's part of it,
 * and slices differ in length. The sum over all pairs is sn_job_traffic_of_stage (a test says so).
 */
#ifndef SN_FLOW_H
#define SN_FLOW_H

#include "lib/sim/stages.h"

/* Ranks that exchange with each other; all groups of a term have the same sizes and bytes. */
struct sn_flow_term {
    enum sn_group group;
    int stage; /* whose ranks send; -1: all */
    int size;  /* members of each group */
    int64_t all;
    int64_t *give, *take; /* [size] */
    int64_t sum;          /* of both over all members */
};

/* One transfer of each rank of a stage. */
struct sn_flow_send {
    enum sn_group group;
    int stage;
    int to; /* member; -1: the next one */
    int64_t bytes;
};

struct sn_flow {
    struct sn_grid grid;
    struct sn_flow_term *term;
    struct sn_flow_send *send;
    int n_terms, n_sends;
    int room_terms, room_sends;
};

/* Of one step. The caller ends with sn_flow_fini. */
enum sn_status sn_flow_create(struct sn_flow *out, const struct sn_stages *s, struct sn_err *err);
void sn_flow_fini(struct sn_flow *f); /* a zeroed one is allowed */

/* Bytes that rank `from` sends to rank `to`: for tests and small jobs, not quick. */
int64_t sn_flow_pair(const struct sn_flow *f, int from, int to);
/* The same between parts of the job: bytes[from * n + to], of ranks whose part_of[rank] is 0 .. n - 1.
 * What ranks of a part send each other is on the diagonal. Quick for any number of ranks. */
enum sn_status sn_flow_parts(int64_t *bytes, const struct sn_flow *f, const int *part_of, int n,
                             struct sn_err *err);

#endif
