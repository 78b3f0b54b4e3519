/*
 * tune.h - ways of a device's libraries: measured by sennit-train --tune, kept in a machine
 * file, taken by the runs that name it.
 */
#ifndef SN_BIN_TRAIN_TUNE_H
#define SN_BIN_TRAIN_TUNE_H

#include "lib/comm/comm.h"
#include "lib/config/config.h"
#include "lib/exec/accelerator.h"

/* Give the device what the run's machine file has for it (machine.file; a preset has nothing).
 * Before the first operation. */
enum sn_status sn_train_tune_take(const struct sn_accelerator *a, const struct sn_config *c,
                                  int rank, struct sn_err *err);
/* Write the machine that the run names, with what all ranks' devices have found, to a file;
 * collective. *found: lines in it. */
enum sn_status sn_train_tune_save(const struct sn_accelerator *a, const struct sn_config *c,
                                  struct sn_comm *comm, const char *path, int *found,
                                  struct sn_err *err);

#endif
