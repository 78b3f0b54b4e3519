/*
 * end.h - leaving the communicator when all is done, also without a rank that does not come.
 */
#ifndef SN_TRAIN_END_H
#define SN_TRAIN_END_H

#include "lib/comm/comm.h"
#include "lib/rundir/attempt.h"

struct sn_train_lock;

/* What a process needs to end from any thread. */
struct sn_train_leaving {
    struct sn_comm *comm;       /* NULL: not yet, */
    struct sn_attempt *attempt; /* nor this one, */
    struct sn_train_lock *lock; /* nor this one */
};
/* struct sn_solo_env.give_up, of a struct sn_train_leaving: this process's own thread does not
 * come back, so nobody else will report, write the attempt's record and return an exit code. */
void sn_train_give_up(void *self, const struct sn_err *why);

/* struct sn_accelerator.give_up, of the same: the device hangs, and what would be released waits
 * for it. Each rank says so, because each has a device of its own. */
void sn_train_device_hangs(void *self, const struct sn_err *why);

/* For sn_signals_set_early, of the same: nothing was begun that could be saved. */
void sn_train_leave_early(void *self, int exit_code);

/* comm->ops->destroy. Libraries wait there for all ranks, for good: where it takes longer than
 * `limit_s` (0: never) the process says so and exits with the code of a lost rank. */
void sn_train_end(struct sn_comm *comm, int limit_s);

#endif
