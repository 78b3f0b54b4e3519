/*
 * say.h - the first lines of a run: what it runs on, and what that takes.
 */
#ifndef SN_BIN_TRAIN_SAY_H
#define SN_BIN_TRAIN_SAY_H

#include "lib/exec/accelerator.h"
#include "lib/exec/exec.h"

/* What runs the operations, and with which libraries of its maker. Rank 0 says it. */
void sn_train_say_backend(const struct sn_config *c, const struct sn_comm *comm,
                          const struct sn_accelerator *a, int threads);
/* What the arenas take of the device, beside what the plan says. Rank 0 says it. */
void sn_train_say_memory(const struct sn_comm *comm, const struct sn_accelerator *a,
                         const struct sn_exec *x);

#endif
