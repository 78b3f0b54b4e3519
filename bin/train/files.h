/*
 * files.h - what a trainer has open in run.output.
 */
#ifndef SN_TRAIN_FILES_H
#define SN_TRAIN_FILES_H

#include "bin/train/lock.h"
#include "lib/comm/flight_recorder.h"
#include "lib/rundir/attempt.h"
#include "lib/state/state.h"

struct sn_train_files {
    struct sn_train_lock lock;
    struct sn_attempt attempt;
    struct sn_saver saver;
    struct sn_flight_recorder *recorder; /* NULL: one rank */
};

enum sn_train_files_of {
    SN_FILES_TRAINED, /* the run file is left there, too */
    SN_FILES_PACED,
    SN_FILES_READ /* nothing is written */
};
/* Those of this rank, behind the lock and the attempt's record. The caller ends with
 * sn_train_files_close, also after a failure. */
enum sn_status sn_train_files_open(struct sn_train_files *f, const struct sn_config *c,
                                   const struct sn_comm *comm, enum sn_train_files_of of,
                                   struct sn_err *err);
void sn_train_files_close(struct sn_train_files *f); /* a zeroed one is allowed */

#endif
