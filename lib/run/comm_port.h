/*
 * comm_port.h - what communicators need of a message-passing library: non-blocking messages in
 * batches, some collectives for start-up, and memory shared by the ranks of a host. comm_mpi.c is
 * the one implementation; nothing above it knows MPI. Only the communication thread calls it.
 *
 * The first failure is the port's last word: from then on nothing is sent and every test says that
 * all is complete.
 */
#ifndef SN_COMM_PORT_H
#define SN_COMM_PORT_H

#include "lib/base/err.h"
#include "lib/layout/collective.h"
#include "lib/run/comm_queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages that are waited for together. Collectives use the first batches, with room for twice
 * the other ranks in each; every operation of the queue has one more, with room for a few. */
enum {
    SN_PORT_SCATTER = 0,
    SN_PORT_GATHER = SN_COLLECTIVE_SLOTS,
    SN_PORT_WORLD = 2 * SN_COLLECTIVE_SLOTS, /* the port's own collectives: one at a time */
    SN_PORT_P2P,                             /* + slot of the queue */
    SN_PORT_BATCHES = SN_PORT_P2P + SN_COMM_RING,
    SN_PORT_P2P_PIECES = 16,     /* messages of one such batch */
    SN_PORT_PIECE_MAX = 1 << 30, /* bytes: counts of MPI are ints */
    SN_PORT_TAGS = 1 << 15,      /* of one channel */
    SN_PORT_COLLECTIVE = -1      /* channel of collectives; others are groups */
};

struct sn_message {
    int batch;
    int channel; /* messages of different channels never match */
    int tag;     /* 0 .. SN_PORT_TAGS - 1 */
    int peer;    /* rank in the job */
    void *data;  /* only read when sending; borrowed until the batch is complete */
    int64_t bytes;
};

struct sn_port;

struct sn_port_ops {
    /* Begin; 0 bytes: nothing. Messages of one pair, channel and tag match in order. */
    void (*send)(struct sn_port *p, const struct sn_message *m);
    void (*receive)(struct sn_port *p, const struct sn_message *m);
    /* True when all of the batch is complete, which empties it, or when the port has failed. */
    bool (*test)(struct sn_port *p, int batch);
    /* Is message i of a batch, in order of beginning, still under way? */
    bool (*is_open)(struct sn_port *p, int batch, int i);
    /* The host of rank 0 or, on rank 0, of any; "" if unknown, as after renumber. */
    const char *(*host_of)(const struct sn_port *p, int rank);
    /* Begin a collective of all ranks, as batch SN_PORT_WORLD. */
    void (*barrier)(struct sn_port *p);
    void (*broadcast)(struct sn_port *p, void *buf, int64_t bytes, int root);
    /* Collective, blocks: rank, node_rank and node_ranks are by new numbers from now on; before
     * find_neighbours. */
    void (*renumber)(struct sn_port *p, int rank);
    /* worst = the largest mine[0] of all ranks, and the lowest mine[1] among those who have it;
     * borrowed until the batch is complete */
    void (*worst)(struct sn_port *p, const int mine[2], int worst[2]);
    /* Collective over the host. Afterwards node_ranks exists. */
    void (*find_neighbours)(struct sn_port *p);
    /* Collective over the host: map `bytes` of each of its ranks, this one's zeroed; `at` takes the
     * addresses of all by node rank, each moved up to a multiple of SN_COLLECTIVE_LINE. Freed by
     * finish. */
    void (*open_window)(struct sn_port *p, int64_t bytes, char **at);
    /* Why it failed, in the library's words. */
    void (*explain)(struct sn_port *p, char *text, size_t room);
    /* Collective over all ranks; nothing may be called after it. */
    void (*finish)(struct sn_port *p);
};

struct sn_port {
    const struct sn_port_ops *ops;
    int rank, size;
    int node_rank, node_size;
    const int *node_ranks; /* [node_size], ascending; after find_neighbours */
    bool failed;
};

#endif
