/*
 * comm.h - communicators: the one interface behind which MPI (and later NCCL) lives.
 *
 * On the CPU one communication thread per rank makes every MPI call. Collectives are in a queue for
 * each axis, side by side, so that a large sum over data ranks holds up no small one over tensor
 * ranks; within a queue they run in the order in which they were posted. The compute thread posts
 * and waits. With one rank there is neither thread nor MPI: sn_comm_self().
 *
 * Reductions are deterministic: the sum over ranks is taken in rank order 0, 1, 2, ... whatever
 * arrives first, and all ranks get the same bits.
 */
#ifndef SN_COMM_H
#define SN_COMM_H

#include "kernels/tensor.h"
#include "lib/base/err.h"
#include "lib/layout/collective.h"
#include "lib/layout/exchange.h"
#include "lib/layout/grid.h"

#include <stdbool.h>
#include <stdint.h>

struct sn_comm;            /* all ranks of the job, and the groups of a grid over them */
struct sn_flight_recorder; /* lib/comm/flight_recorder.h */

/* A request for a posted operation; 0 is "already done". */
typedef uint64_t sn_request;

/* When a communication was carried out, in seconds of sn_clock(). */
struct sn_transfer_times {
    double begin, end;
    int last; /* of a collective by messages, whose parts come last, mostly; -1: nobody's */
};

/* One communication. Memory is borrowed until the request's wait. */
struct sn_transfer {
    enum sn_collective kind;
    enum sn_group group;
    enum sn_dtype dtype; /* of elements; reductions: fp32, bf16, fp16, fp64 */
    int64_t n;           /* as enum sn_collective says */
    /* ALL_REDUCE: in NULL means in place. ALL_GATHER: `in` may be the own block of `out`;
     * REDUCE_SCATTER without add: `out` may be the own block of `in`. Else they do not overlap. */
    const void *in;
    void *out;
    bool add; /* REDUCE_SCATTER, fp32 and fp64: add the sum to out instead of writing it */
    int peer; /* SEND, RECV: member index */
    int tag;  /* SEND, RECV: 0 .. 32767; those of one pair and tag match in order of posting */
    /* planned, sn_collective_staging() of the largest group of its queue; shared by all of it */
    void *staging;
    /* Of rows: who has how many; n is an element count of a row. ALL_TO_ALL: who sends how many to
     * whom; ALL_GATHER, REDUCE_SCATTER: block i is member i's share of the window. Its memory, and
     * that of the bounds, is borrowed until the wait, too. NULL: blocks of n */
    const struct sn_exchange *exchange;
    /* ALL_GATHER, ALL_TO_ALL, SEND, RECV of SN_U8, without exchange: each block of n bytes (a
     * multiple of 8) is a sized block: a length L, 0 <= L <= n - 8, in 8 bytes little-endian, and
     * the L bytes that count. Only sn_collective_sized(L) bytes of it travel, and are written; what
     * lies behind them stays as it was. Lengths go first, so that both ends know them; another
     * length than these is the communicator's failure. Both ends of a transfer are sized or neither
     * is. */
    bool sized;
    const char *label; /* the operation's name, for messages; outlives the communicator */
    /* NULL: nobody asks. Written by whoever carries it out; not at all where nothing is to be done
     * (request 0). Several transfers may share one: from the begin of the last that begins to the
     * end of the last that ends. */
    struct sn_transfer_times *times;
};

/* What travels of the block of t that lies at `block`; -1 if it is sized and its length is none. */
int64_t sn_transfer_travels(const struct sn_transfer *t, const void *block);

/* Block m of what is gathered or scattered, in elements. */
struct sn_comm_block {
    int64_t at, n;
};
static inline struct sn_comm_block sn_transfer_block(const struct sn_transfer *t, int m)
{
    if (!t->exchange || t->kind == SN_ALL_TO_ALL)
        return (struct sn_comm_block){m * t->n, t->n};
    struct sn_exchange_rows r = sn_exchange_share(t->exchange, m);
    return (struct sn_comm_block){r.at * t->n, r.n * t->n};
}

/* What a rank says of work under way; every status is less. */
enum sn_poll { SN_POLL_WORKS = 100, SN_POLL_STUCK };

struct sn_comm_ops {
    const char *name; /* "self", "mpi" */
    /* Make the groups of a grid over all ranks, in O(log P) steps. Before the first post, or later
     * with nothing in flight; collective. The grid is copied. */
    enum sn_status (*set_grid)(struct sn_comm *c, const struct sn_grid *g, struct sn_err *err);
    /* Begin a communication. Collectives of the queue of an axis (sn_group_queue) run one after
     * another, in the order of posting, which is the same on all members, and beside those of other
     * axes; a SEND or RECV is under way from its post on and holds nothing up.
     * Blocks only when 256 operations are in flight. One thread posts and waits. A group of one
     * copies `in` to `out` where they differ. */
    sn_request (*post)(struct sn_comm *c, const struct sn_transfer *t);
    /* Block until the request's operation is complete on this rank: its memory may be read and
     * written. The first failure of a communicator is final: this and every later operation returns
     * it. */
    enum sn_status (*wait)(struct sn_comm *c, sn_request t, struct sn_err *err);
    /* Until everything posted is complete. */
    enum sn_status (*drain)(struct sn_comm *c, struct sn_err *err);
    /* Blocking, for start-up and shut-down only (not counted as traffic): */
    enum sn_status (*barrier)(struct sn_comm *c, struct sn_err *err);
    /* everyone gets root's bytes */
    enum sn_status (*broadcast)(struct sn_comm *c, void *buf, int64_t bytes, int root,
                                struct sn_err *err);
    /* root gets `bytes` of every rank, side by side by rank, in `all` (NULL elsewhere) */
    enum sn_status (*gather)(struct sn_comm *c, const void *mine, int64_t bytes, void *all,
                             int root, struct sn_err *err);
    /* From now on rank r is process process_of[r], of 0 .. size - 1 as they were started: the same
     * on all of them, which call it before set_grid with nothing in flight. Sends nothing. */
    enum sn_status (*renumber)(struct sn_comm *c, const int *process_of, struct sn_err *err);
    /* take the worst status over ranks; everybody leaves with the sentence of the lowest rank that
     * has it, prefixed by "rank R (host): " unless it was agreed on before and so says it. Returns
     * the agreed status. */
    enum sn_status (*agree)(struct sn_comm *c, enum sn_status mine, struct sn_err *err);
    /* As agree, of ranks of which some may still be at work: all call it again and again, with one
     * of the words of enum sn_poll until they have ended, then with a status. SN_POLL_WORKS:
     * somebody is at work. A status: all have ended, and it is that of agree. SN_ELOST at once when
     * a rank says that it is stuck, with its sentence. `label` names the work, also in the
     * recorder. */
    int (*poll)(struct sn_comm *c, int mine, const char *label, struct sn_err *err);
    /* Add to bytes[] what this rank sent in posted operations since the last call, by the axis to
     * which each group is billed. */
    void (*take_sent_bytes)(struct sn_comm *c, int64_t bytes[SN_NAXES]);
    /* sn_comm_set_watch */
    void (*set_watch)(struct sn_comm *c, struct sn_flight_recorder *recorder, int timeout_s);
    void (*destroy)(struct sn_comm *c); /* NULL is allowed */
};

struct sn_comm {
    const struct sn_comm_ops *ops;
    int rank, size;
    int node_rank, node_size; /* among the ranks of this host */
    int node_first;           /* the lowest of them */
    uint64_t nonce;           /* a number that all ranks of this job have, and no other job */
};

/* What group members of one do: out = in, or out += in. False, and nothing is done: `in` is a sized
 * block whose length is none. */
bool sn_comm_copy_alone(const struct sn_transfer *t);

/* Record every communication in `recorder` (borrowed until the communicator is destroyed or gets
 * another one; NULL: none). With timeout_s > 0 a communication that does not move for so many
 * seconds, as a send or receive only while it is waited for, is the communicator's failure with
 * status SN_ELOST: the records of the others tell who is behind, and the sentence says so. Ranks
 * need not do it at the same time. A communicator of one rank ignores it. */
static inline void sn_comm_set_watch(struct sn_comm *c, struct sn_flight_recorder *recorder,
                                     int timeout_s)
{
    c->ops->set_watch(c, recorder, timeout_s);
}

/* Are all ranks there? Rank 0 hears from each and answers: under a watch, and before renumber, the
 * sentence of rank 0 names who does not come, with its host. Collective. */
enum sn_status sn_comm_handshake(struct sn_comm *c, struct sn_err *err);

/* One rank, nothing to do. Never fails after allocation. */
enum sn_status sn_comm_create_self(struct sn_comm **out, struct sn_err *err);
/* MPI_COMM_WORLD; calls MPI_Init_thread, destroy calls MPI_Finalize: once in a process. Ranks that
 * the launcher started but MPI does not see are an error. Collective: fails on all ranks or on
 * none. Defined in comm_mpi.c, linked by binaries that start under mpirun only. Sets Open MPI's
 * settings for more ranks than cores in the environment, where the user has not. */
enum sn_status sn_comm_create_mpi(struct sn_comm **out, struct sn_err *err);
/* After an error that not every rank can know of: end the whole job with this exit code. From any
 * thread, whatever the communication thread is doing. Does not return. */
void sn_comm_abort_mpi(int exit_code) __attribute__((noreturn));
/* How many ranks the launcher (mpirun, srun, jsrun) started, by the environment; 1 if none did. */
int sn_comm_launched_ranks(void);
/* This process's number among them, for messages before MPI begins; 0 if there is none. */
int sn_comm_launched_rank(void);

#endif
