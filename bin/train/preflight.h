/*
 * preflight.h - sennit-train --preflight: are the nodes of this job well?
 */
#ifndef SN_BIN_TRAIN_PREFLIGHT_H
#define SN_BIN_TRAIN_PREFLIGHT_H

#include "lib/comm/comm.h"
#include "lib/config/config.h"

/* Collective. Prints the table and writes OUTPUT/preflight.json (rank 0, or whoever notices that a
 * rank does not answer). *exit_code is 0 or 77. */
enum sn_status sn_train_preflight(const struct sn_config *c, struct sn_comm *comm, int *exit_code,
                                  struct sn_err *err);

#endif
