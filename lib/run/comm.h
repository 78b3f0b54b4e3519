/*
 * comm.h - communicators: the one interface behind which MPI (and later NCCL) lives.
 *
 * On the CPU one communication thread per rank makes every MPI call, in the order in which
 * operations were posted (DESIGN.md 6, "Order"). The compute thread posts and waits. With one rank
 * there is neither thread nor MPI: sn_comm_self().
 *
 * Reductions are deterministic: the sum over ranks is taken in rank order 0, 1, 2, ... whatever
 * arrives first, and all ranks get the same bits.
 */
#ifndef SN_COMM_H
#define SN_COMM_H

#include "kernels/tensor.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct sn_comm; /* a group of ranks with its own order of operations */

/* A ticket for a posted operation; 0 is "already done". */
typedef uint64_t sn_ticket;

struct sn_comm_ops {
    const char *name; /* "self", "mpi" */
    /* Sum `n` elements over the group, in place. dtype SN_F32 or SN_F64. `staging` is planned
     * memory of sn_collective_staging() bytes that stays untouched until the wait: operations in
     * flight at the same time may share it, since they run one after another. Blocks only when 256
     * operations are in flight. One thread posts and waits. */
    sn_ticket (*post_all_reduce)(struct sn_comm *c, void *buf, int64_t n, enum sn_dtype dtype,
                                 void *staging);
    /* Block until the ticket's operation, and all posted before it, are complete on this rank. The
     * first failure of a communicator is final: this and every later operation returns it. */
    enum sn_status (*wait)(struct sn_comm *c, sn_ticket t, struct sn_err *err);
    /* Blocking, for start-up and shut-down only (not counted as traffic): */
    enum sn_status (*barrier)(struct sn_comm *c, struct sn_err *err);
    /* everyone gets root's bytes */
    enum sn_status (*broadcast)(struct sn_comm *c, void *buf, int64_t bytes, int root,
                                struct sn_err *err);
    /* take the worst status over ranks; everybody leaves with the sentence of the lowest rank that
     * has it, prefixed by "rank R (host): ". Returns the agreed status. */
    enum sn_status (*agree)(struct sn_comm *c, enum sn_status mine, struct sn_err *err);
    /* bytes that this rank sent in posted operations since the last call */
    int64_t (*take_sent_bytes)(struct sn_comm *c);
    void (*destroy)(struct sn_comm *c); /* NULL is allowed */
};

struct sn_comm {
    const struct sn_comm_ops *ops;
    int rank, size;
    int node_rank, node_size; /* among the ranks of this host */
};

/* One rank, nothing to do. Never fails after allocation. */
enum sn_status sn_comm_create_self(struct sn_comm **out, struct sn_err *err);
/* MPI_COMM_WORLD; calls MPI_Init_thread, destroy calls MPI_Finalize: once in a process. Ranks that
 * the launcher started but MPI does not see are an error. Collective: fails on all ranks or on
 * none. Defined in comm_mpi.c, linked by sennit-train only. Sets Open MPI's settings for more ranks
 * than cores in the environment, where the user has not. */
enum sn_status sn_comm_create_mpi(struct sn_comm **out, struct sn_err *err);
/* After an error that not every rank can know of: end the whole job with this exit code. From any
 * thread, whatever the communication thread is doing. Does not return. */
void sn_comm_abort_mpi(int exit_code) __attribute__((noreturn));
/* How many ranks the launcher (mpirun, srun, jsrun) started, by the environment; 1 if none did. */
int sn_comm_launched_ranks(void);
/* This process's number among them, for messages before MPI begins; 0 if there is none. */
int sn_comm_launched_rank(void);

#endif
