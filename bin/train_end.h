/*
 * train_end.h - leaving the communicator when all is done, also without a rank that does not come.
 */
#ifndef SN_TRAIN_END_H
#define SN_TRAIN_END_H

#include "lib/run/comm.h"

/* comm->ops->destroy. Libraries wait there for all ranks, for good: where it takes longer than
 * `limit_s` (0: never) the process says so and exits with the code of a lost rank. */
void sn_train_end(struct sn_comm *comm, int limit_s);

#endif
