/*
 * verify_world.h - all ranks on their way through their traces. Internal to the verifier.
 */
#ifndef SN_VERIFY_WORLD_H
#define SN_VERIFY_WORLD_H

#include "lib/verify/verify_trace.h"

/* A port of one rank: how far it is, and the other end of it. */
struct sn_world_port {
    int posted, matched;
    int next;      /* the post that is matched next */
    int peer;      /* rank */
    int peer_port; /* -1: that rank has no such port */
};

/* A queue of collectives of one rank: how far it is. */
struct sn_world_queue {
    int posted, done;
    int front;    /* the first post that is not done */
    bool arrived; /* it is posted: waiting for its group */
};

struct sn_world_rank {
    const struct sn_trace *trace;
    struct sn_world_port *ports;
    int at; /* event that the compute thread is at */
    struct sn_world_queue queue[SN_NAXES];
    int under_way; /* posts that are not done */
    bool queued;   /* on the world's list of ranks that may go on */
};

/* Members of a group whose front is an operation of this group. */
struct sn_world_meeting {
    int arrived, first; /* how many, and which rank was the first */
};

struct sn_world {
    const struct sn_grid *grid;
    int ranks;
    struct sn_world_rank *rank;
    struct sn_world_port *ports;       /* of all ranks, one after another */
    struct sn_world_meeting *meetings; /* by group and rank of member 0 */
    struct sn_trace *traces;
    int n_traces;
    int *list, list_first, list_n; /* ring of the ranks that may go on */
};

bool sn_world_is_done(const struct sn_world_rank *r, int post);
/* The axis in whose queue a collective is. */
enum sn_axis sn_world_queue_of(const struct sn_world_rank *r, int post);
/* Does compute go on behind this event? Otherwise *post is the communication that it needs first
 * (-1: any of several). */
bool sn_world_may_pass(const struct sn_world_rank *r, int event, int *post);

/* SN_EFAIL with the sentence for a world in which no rank can go on (verify_hang.c). */
enum sn_status sn_world_hang(const struct sn_world *w, struct sn_err *err);
/* ... and for two ends of one communication that differ. */
enum sn_status sn_world_mismatch(const struct sn_world *w, const int rank[2], const int post[2],
                                 struct sn_err *err);

#endif
