/*
 * score.h - sennit-train --score: how likely the continuations of a file are, as JSON lines on
 * stdout.
 */
#ifndef SN_TRAIN_SCORE_H
#define SN_TRAIN_SCORE_H

#include "lib/comm/comm.h"
#include "lib/config/config.h"
#include "lib/train/trainer.h"

struct sn_train_score {
    const char *file;              /* of requests (lib/data/score.h); NULL: not asked for */
    const char *tokenizer, *begin; /* NULL: what the run's data says */
    const char *features;          /* an entry for each request (bin/train/features.h); or NULL */
};

/* In any layout; documents of the configuration are apart. On rank 0 a line for each request, in the order
 * of the file, when all are done. */
enum sn_status sn_train_score(struct sn_trainer *t, const struct sn_config *c, struct sn_comm *comm,
                              const struct sn_train_score *s, struct sn_err *err);

#endif
