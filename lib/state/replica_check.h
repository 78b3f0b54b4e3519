/*
 * replica_check.h - ranks that hold the same weights and moments compare them before they are saved.
 *
 * Without ZeRO all replicas (data x context) hold the same values; norms, key and value heads and
 * tied embeddings have copies in other groups. All of them do the same arithmetic in the same
 * order, so they are equal bit for bit, and a checkpoint takes each value from one of them. Where
 * they differ, memory or the network has altered bits in silence: such a state is not saved.
 *
 * Hashing reads everything that has copies and needs neither communication nor the step loop's
 * thread; comparing is one small gather for each group.
 */
#ifndef SN_REPLICA_CHECK_H
#define SN_REPLICA_CHECK_H

#include "lib/exec/exec.h"

struct sn_replica_check;

/* All memory that is needed. `x` and `j` are borrowed. Caller destroys *out. */
enum sn_status sn_replica_check_create(struct sn_replica_check **out, struct sn_exec *x,
                                       const struct sn_job *j, struct sn_err *err);
void sn_replica_check_destroy(struct sn_replica_check *c); /* NULL is allowed; waits */

/* Hash in a thread; until the wait, masters and moments must not change. Fails without a thread. */
enum sn_status sn_replica_check_begin(struct sn_replica_check *c, struct sn_err *err);
void sn_replica_check_wait(struct sn_replica_check *c); /* nothing where nothing was begun */

/* Collective, after the wait. SN_EIO on all ranks when copies anywhere differ: the sentence names
 * the first parameter and two ranks. What `comm` has counted as sent so far is forgotten, so take
 * it before. */
enum sn_status sn_replica_check_compare(struct sn_replica_check *c, struct sn_comm *comm,
                                        struct sn_err *err);

/* All of it, one after the other; collective. */
enum sn_status sn_replica_check_check(struct sn_exec *x, const struct sn_job *j,
                                      struct sn_comm *comm, struct sn_err *err);

#endif
