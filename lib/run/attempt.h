/*
 * attempt.h - OUTPUT/attempt-N.json: one file per start of a run, with what ended it.
 */
#ifndef SN_ATTEMPT_H
#define SN_ATTEMPT_H

#include "lib/config/config.h"

struct sn_attempt {
    int number; /* 0: this rank keeps no record */
    char path[SN_PATH_MAX + 64];
};

/* Make run.output and, on rank 0, the record of a new attempt. */
enum sn_status sn_attempt_begin(struct sn_attempt *a, const struct sn_config *c, int rank,
                                struct sn_err *err);
/* Write how it ended; `why` is NULL when nothing failed. Failure to write is logged only: the run is
 * over and its own outcome matters more. */
void sn_attempt_end(const struct sn_attempt *a, int exit_code, const struct sn_err *why);

#endif
