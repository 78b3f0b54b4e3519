/*
 * replay.h - sennit-train --replay: what differs from the run, on stdout.
 */
#ifndef SN_BIN_TRAIN_REPLAY_H
#define SN_BIN_TRAIN_REPLAY_H

#include "lib/config/config.h"
#include "lib/train/trainer.h"

struct sn_train_replay {
    long long step; /* 0: not asked for */
    long long rank; /* of the recorded run, whose results are compared; -1: all ranks' */
};
/* Collective. *exit_code: 1 if something differs. */
enum sn_status sn_train_replay(struct sn_trainer *t, const struct sn_config *c,
                               struct sn_comm *comm, const struct sn_train_replay *what,
                               int *exit_code, struct sn_err *err);

#endif
