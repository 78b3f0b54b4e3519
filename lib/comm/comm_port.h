/*
 * comm_port.h - what communicators need of a message-passing library: non-blocking messages in
 * batches, and some collectives for start-up. comm_mpi.c is the one implementation; nothing above
 * it knows MPI. Only the communication thread calls it. No call waits for other ranks, but finish.
 *
 * The first failure is the port's last word: from then on nothing is sent and every test says that
 * all is complete.
 */
#ifndef SN_COMM_PORT_H
#define SN_COMM_PORT_H

#include "lib/base/err.h"
#include "lib/comm/comm_queue.h"
#include "lib/layout/collective.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages that are waited for together. Collectives of each axis use some of the first batches, with
 * room for twice the other ranks in each; every operation of the queue has one more, with room for a
 * few. */
enum {
    SN_PORT_SCATTER = 0, /* + SN_PORT_LANE x axis */
    SN_PORT_GATHER = SN_COLLECTIVE_SLOTS,
    SN_PORT_LANE = 2 * SN_COLLECTIVE_SLOTS,
    SN_PORT_WORLD = SN_PORT_LANE * SN_NAXES, /* the port's own collectives: one at a time */
    SN_PORT_P2P,                             /* + slot of the queue */
    SN_PORT_BATCHES = SN_PORT_P2P + SN_COMM_QUEUE_DEPTH,
    SN_PORT_P2P_PIECES = 17,          /* messages of one such batch: a length and 16 pieces */
    SN_PORT_PIECE_MAX = 1 << 30,      /* bytes: counts of MPI are ints */
    SN_PORT_TAGS = 1 << 15,           /* of one channel */
    SN_PORT_COLLECTIVE = -1,          /* channel of collectives; others are groups, */
    SN_PORT_BODY = SN_NGROUPS,        /* + group: what follows the lengths of sized blocks */
    SN_PORT_CHANNELS = 2 * SN_NGROUPS /* from 0 on */
};

struct sn_message {
    int batch;
    int channel; /* messages of different channels never match */
    int tag;     /* 0 .. SN_PORT_TAGS - 1 */
    int peer;    /* rank in the job, as process_of has them */
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
    /* Begin a collective of all ranks, as batch SN_PORT_WORLD. */
    void (*barrier)(struct sn_port *p);
    void (*broadcast)(struct sn_port *p, void *buf, int64_t bytes, int root);
    /* `bytes` of each process to process 0, side by side in `all` (NULL elsewhere) */
    void (*gather)(struct sn_port *p, const void *mine, int64_t bytes, void *all);
    /* worst = the largest mine[0] of all ranks, and the lowest mine[1] among those who have it;
     * borrowed until the batch is complete */
    void (*worst)(struct sn_port *p, const int mine[2], int worst[2]);
    /* Why it failed, in the library's words. */
    void (*explain)(struct sn_port *p, char *text, size_t room);
    /* Collective over all ranks; nothing may be called after it. */
    void (*finish)(struct sn_port *p);
};

struct sn_port {
    const struct sn_port_ops *ops;
    int process, size;     /* this process's number among those that were started */
    const int *process_of; /* by rank, borrowed; NULL: rank r is process r */
    bool failed;
    int last; /* by test, when it says true: rank of the message that came last; -1: several did at
               * once, or it was sent from here, or was here before */
};

#endif
