/*
 * comm_engine.h - a communicator over a port: one communication thread that carries out what the
 * compute thread posts. Collectives are in lanes, one for each axis that has a queue
 * (sn_group_queue): those of a lane run one after another in the order of posting, and lanes side by
 * side. Sends and receives are under way from the moment this thread sees them. What is under way
 * never blocks the thread: it is asked for a step, which does what can be done now.
 *
 *   comm_engine.c      the thread, requests, start-up operations
 *   comm_lanes.c       whose turn it is
 *   comm_hosts.c       who shares a host, and memory there
 *   comm_groups.c      the groups of a grid, and who of them shares memory
 *   comm_collective.c  collectives by messages
 *   comm_shm.c         collectives through memory that the ranks of a host share
 *   comm_p2p.c         sends and receives
 *   comm_sized.c       lengths of sized blocks
 *   comm_watch.c       what is recorded, and the clock that looks at it
 *   comm_hang_report.c who is waited for, when nothing moves
 */
#ifndef SN_COMM_ENGINE_H
#define SN_COMM_ENGINE_H

#include "lib/base/clock.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_port.h"
#include "lib/comm/comm_queue.h"
#include "lib/comm/flight_recorder.h"

#include <stdatomic.h>

struct sn_engine_group {
    int size, index; /* this rank's number among the members */
    bool on_host;    /* all members are on one host, */
    int *seat;       /* where member i is node rank seat[i] */
    uint64_t
        phase; /* of the shared memory, and chunks that went through it: the same on all members */
    uint64_t chunks;
    uint64_t number; /* of the last collective, 1, 2, ... the same on all members */
    uint64_t p2p;    /* of the last send or receive of this rank */
};

/* Memory shared by the ranks of this host: one part each, by node rank. */
struct sn_shm {
    char **area;        /* NULL: there is none */
    int queues;         /* for so many there are slots */
    atomic_bool is_off; /* tests compare transports */
};

/* A collective by messages under way; lengths in elements. */
struct sn_exchange_run {
    struct sn_engine *e;
    const struct sn_transfer *t;
    const char *in;
    char *out;
    int slot, lane; /* of the operation; its axis */
    int size, index;
    int64_t width;          /* bytes of an element */
    int64_t n, chunk;       /* of what is cut: the buffer or a block */
    int64_t chunks, stride; /* stride: bytes between parts in staging */
    int64_t at;             /* chunk that is waited for */
    int way, phase;         /* private to comm_collective.c */
};

/* A collective through shared memory under way; lengths in elements. */
struct sn_shm_run {
    struct sn_engine *e;
    struct sn_engine_group *q;
    const struct sn_transfer *t;
    const char *in;
    char *out;
    int slot, lane; /* of the operation; its axis */
    int64_t width;  /* bytes of an element */
    int64_t at;     /* where the chunk begins in the buffer or in each block */
    int64_t count;  /* its length, in the longest block */
    int64_t length; /* of chunks */
    int64_t n;      /* of the buffer or the longest block, of which known lengths leave less */
    int64_t sent;   /* of the chunk, in blocks */
    int phase;      /* private to comm_shm.c */
};

/* What a step of a collective has done; DONE also where the communicator has failed. */
enum sn_comm_step { SN_STEP_WAITS, SN_STEP_MOVED, SN_STEP_DONE };

/* The collectives of an axis. */
struct sn_comm_lane {
    int waiting[SN_COMM_QUEUE_DEPTH]; /* slots of those that wait for their turn: a ring */
    unsigned first, n;
    int slot;       /* of the one under way; -1: none */
    bool has_moved; /* since the watch has last looked */
    bool by_shm;    /* which of these it is */
    struct sn_exchange_run messages;
    struct sn_shm_run shm;
    int latest, lead; /* whose messages came last in most of its batches, and in how many more */
    int place;        /* of its slots in the shared memory */
    struct {
        int group;      /* whose members have read this rank's slot, */
        uint64_t phase; /* when all of them have come to this phase */
    } user[SN_COLLECTIVE_SLOTS];
    int awaited; /* slot that may not be filled yet; -1: none is waited for */
};

enum { SN_HOST_NAME = 64 };

/* Who is where. */
struct sn_engine_hosts {
    struct sn_host_table *table;   /* what process 0 has sent all */
    struct sn_engine_place *place; /* on process 0: what the others have said */
    char (*name)[SN_HOST_NAME];    /* on process 0, by process; NULL elsewhere */
    int *process_of;               /* by rank */
    int *ranks, n_ranks;           /* those of this host, ascending */
    char *mapped;                  /* shared memory */
    size_t mapped_bytes;
    int maps;      /* how often it was mapped: part of its name */
    bool has_name; /* its file: until all have mapped it */
};

/* What each operation in flight is called, and since when it stands. */
struct sn_engine_mark {
    uint64_t number; /* in its group */
    uint64_t record; /* in the flight recorder */
    bool is_awaited; /* the record says that somebody waits for it */
    double moved;    /* when it was last seen to move, by sn_watch.awake */
};

struct sn_watch {
    struct sn_flight_recorder *recorder; /* NULL: none */
    int timeout_s;                       /* 0: never */
    int current;                         /* slot of what blocks the thread (start-up); -1: none, */
    bool has_moved;                      /* which has moved since the last look */
    struct sn_awake awake;               /* the time of its looks */
    double next_look;                    /* by that */
    struct sn_engine_mark mark[SN_COMM_QUEUE_DEPTH]; /* by slot */
};

struct sn_engine {
    struct sn_comm base;
    struct sn_comm_ops ops; /* base.ops points here */
    struct sn_comm_queue queue;
    struct sn_port *port;
    struct sn_grid grid;
    struct sn_engine_group group[SN_NGROUPS]; /* sizes are 0 before set_grid */
    int *seats;                               /* the memory behind theirs */
    struct sn_engine_hosts hosts;
    struct sn_shm shm;
    struct sn_watch watch;
    struct sn_comm_lane lane[SN_NAXES];
    int in_lanes; /* collectives under way, or waiting for their turn */
    int order;    /* slot of what is for this thread itself, when all collectives are done; -1 */
    int flying[SN_COMM_QUEUE_DEPTH]; /* slots of sends and receives under way */
    int n_flying;
    /* By slot: the receive of a sized block whose length is not here. */
    bool headless[SN_COMM_QUEUE_DEPTH];
    int idle;        /* looks in vain since something last moved */
    int64_t woke_ns; /* when the last nap ended */
    int64_t look_ns; /* what a look takes from one nap to the next */
    int64_t late_ns; /* how much later than asked naps end: the wait for a core */
    _Atomic int64_t sent[SN_NAXES];
    atomic_bool failed; /* `error` is written, once and for all */
    struct sn_err error;
};

/* What the communication thread does first: set e->port. A failure before there is a port must be
 * the same on all ranks; one after it is agreed on. */
typedef enum sn_status sn_engine_starter(struct sn_engine *e, struct sn_err *err);

/* Start a communicator in zeroed memory. On failure its thread is gone; the memory is the
 * caller's. */
enum sn_status sn_engine_start(struct sn_engine *e, const char *name, sn_engine_starter *start,
                               struct sn_err *err);
/* Stop the thread, when what was posted is done; a port that has not failed is finished. */
void sn_engine_stop(struct sn_engine *e);
/* Test hook: collectives that begin from now on use messages only, or shared memory again. All
 * members alike, with nothing in flight. */
void sn_engine_use_shm(struct sn_comm *c, bool use);

/* ---- for the files of the engine; on the communication thread ---- */

static inline bool sn_engine_has_failed(const struct sn_engine *e)
{
    return atomic_load_explicit(&e->failed, memory_order_relaxed);
}
/* The port has failed in this operation: the communicator has, too. */
void sn_engine_fail(struct sn_engine *e, const char *what);
/* `what` of a sentence: "tensor all_reduce 'l3.attn.o' (number 812)". */
void sn_engine_describe(struct sn_engine *e, int slot, char *text, size_t room);
/* One look around between two looks at what is waited for: begin what was posted meanwhile, move
 * sends and receives, look at the clock; give the core away. */
void sn_engine_pause(struct sn_engine *e);
/* Is a batch of the port complete, or over because something has failed? */
bool sn_engine_is_complete(struct sn_engine *e, int batch);
/* Something moved: be quick for a while. */
void sn_engine_moved(struct sn_engine *e);
/* Until a batch of the port is complete; false if the communicator has failed. */
bool sn_engine_complete(struct sn_engine *e, int batch);
/* The verdict of the lowest rank that has the worst status, for all; collective. */
void sn_engine_agree(struct sn_engine *e, struct sn_err *mine);
/* What polls hand over, and what comes back. */
struct sn_engine_poll {
    int word; /* a status, or of enum sn_poll */
    struct sn_err err;
};
void sn_engine_poll(struct sn_engine *e, struct sn_engine_poll *mine);
static inline void sn_engine_count(struct sn_engine *e, enum sn_group q, int64_t bytes)
{
    atomic_fetch_add_explicit(&e->sent[sn_group_axis(q)], bytes, memory_order_relaxed);
}
static inline int sn_engine_member(const struct sn_engine *e, enum sn_group q, int i)
{
    return sn_group_member(&e->grid, e->base.rank, q, i);
}

/* As that of sn_comm_ops, until complete: a failure of the port is the caller's to look at. */
void sn_engine_broadcast(struct sn_engine *e, char *buf, int64_t bytes, int root);

/* Memory for what sn_hosts_discover learns: who shares a host with whom; collective. Afterwards
 * node_rank, node_size and node_first are known. */
enum sn_status sn_hosts_prepare(struct sn_engine *e, struct sn_err *err);
void sn_hosts_discover(struct sn_engine *e);
/* Rank r is process process_of[r] from now on. */
void sn_hosts_renumber(struct sn_engine *e, const int *process_of);
/* The host of the rank that is process 0 or, there, of any; "" if unknown. */
const char *sn_hosts_name(const struct sn_engine *e, int rank);
/* The node rank of a rank of this host; -1 if it is on another. */
int sn_hosts_seat(const struct sn_engine *e, int rank);
/* Can the ranks of this host map memory together, and are there several? */
bool sn_hosts_share(const struct sn_engine *e);
/* Map zeroed memory of `bytes` for each rank of this host: shm.area, on pages of its own, in place of
 * what was mapped before. Every rank says when all have done it, or have failed: sn_hosts_mapped. */
enum sn_status sn_hosts_map(struct sn_engine *e, int64_t bytes, struct sn_err *err);
void sn_hosts_mapped(struct sn_engine *e);
void sn_hosts_fini(struct sn_engine *e);

/* Make the groups of a grid; collective. */
void sn_engine_set_grid(struct sn_engine *e, const struct sn_grid *g, struct sn_err *verdict);

/* All lanes are empty; when the engine starts. */
void sn_lanes_init(struct sn_engine *e);
/* A collective waits for its turn. */
void sn_lanes_add(struct sn_engine *e, int slot);
/* A step of each lane; true if something moved. After a failure all are over. */
bool sn_lanes_progress(struct sn_engine *e);

/* A collective by messages, of n > 0 elements over at least two members; over one only to say why a
 * sized block is none. Begun, and then asked for steps until it is done. */
void sn_collective_begin(struct sn_exchange_run *x, struct sn_engine *e, int slot);
enum sn_comm_step sn_collective_step(struct sn_exchange_run *x);

/* True if all members use the shared memory for this. The rest as above. */
bool sn_shm_takes(const struct sn_engine *e, const struct sn_transfer *t);
void sn_shm_begin(struct sn_shm_run *p, struct sn_engine *e, int slot);
enum sn_comm_step sn_shm_step(struct sn_shm_run *p);
/* While this rank's slot of a lane may not be filled: a rank that still reads it, in a collective of
 * group *q that this rank has left already. -1: none. */
int sn_shm_holder(const struct sn_engine *e, const struct sn_comm_lane *l, enum sn_group *q);

/* Is the length of rank's sized block one that a block of this operation can have? If not the
 * communicator has failed, with a sentence. */
bool sn_sized_fits(struct sn_engine *e, int slot, int rank, const void *block);

void sn_p2p_begin(struct sn_engine *e, int slot);
/* Finish those that are complete, or all after a failure; true if something moved. */
bool sn_p2p_progress(struct sn_engine *e);

/* Number an operation and record it; note that it begins and ends, and when, if anybody asks. */
void sn_watch_posted(struct sn_engine *e, int slot);
void sn_watch_begun(struct sn_engine *e, int slot);
void sn_watch_done(struct sn_engine *e, int slot);
/* Fail the communicator if something has waited too long. */
void sn_watch_look(struct sn_engine *e);
#define SN_WATCH_PERIOD_S 0.05 /* seconds between two looks */
/* Who is to blame that an operation does not move, as far as the records say. */
void sn_watch_report_hang(struct sn_engine *e, int slot, char *text, size_t room);
static inline bool sn_watch_is_p2p(const struct sn_comm_op *op)
{
    return op->kind == SN_COMM_TRANSFER &&
           (op->transfer.kind == SN_SEND || op->transfer.kind == SN_RECV);
}
static inline enum sn_group sn_watch_group(const struct sn_comm_op *op)
{
    return op->kind == SN_COMM_TRANSFER ? op->transfer.group : SN_GROUP_WORLD;
}

#endif
