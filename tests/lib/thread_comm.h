/*
 * thread_comm.h - ranks as threads of one process, for tests: layouts of any size without MPI.
 *
 * A collective is carried out when it is posted: the poster waits for all members of the group.
 * Sends are copied into a mailbox; receives are carried out in wait. Sums are in member order, as
 * the contract of lib/comm/comm.h asks; bytes are counted by the formulas of lib/layout/collective.
 */
#ifndef SN_THREAD_COMM_H
#define SN_THREAD_COMM_H

#include "lib/comm/comm.h"

struct thread_world;

struct thread_world *thread_world_create(int ranks); /* aborts without memory */
void thread_world_destroy(struct thread_world *w);
/* The communicator of one rank; belongs to the world. */
struct sn_comm *thread_world_comm(struct thread_world *w, int rank);
/* Run body(arg, rank) on a thread for each rank; returns when all have returned. */
void thread_world_run(struct thread_world *w, void (*body)(void *arg, int rank), void *arg);
/* Bytes of rows that exchanges have sent so far from one rank to another, in how many pieces. */
int64_t thread_world_rows(const struct thread_world *w, int from, int to, int64_t *messages);

#endif
