/*
 * train_end.h - leaving the communicator when all is done, also without a rank that does not come.
 */
#ifndef SN_TRAIN_END_H
#define SN_TRAIN_END_H

#include "lib/run/attempt.h"
#include "lib/run/comm.h"

/* What a process needs to end from any thread. */
struct sn_train_leaving {
    struct sn_comm *comm;
    struct sn_attempt *attempt;
};
/* struct sn_vigil_env.give_up, of a struct sn_train_leaving: this process's own thread does not
 * come back, so nobody else will report, write the attempt's record and return an exit code. */
void sn_train_give_up(void *self, const struct sn_err *why);

/* comm->ops->destroy. Libraries wait there for all ranks, for good: where it takes longer than
 * `limit_s` (0: never) the process says so and exits with the code of a lost rank. */
void sn_train_end(struct sn_comm *comm, int limit_s);

#endif
