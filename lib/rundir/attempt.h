/*
 * attempt.h - OUTPUT/attempt-N.json: one file per start of a run, with what ended it.
 */
#ifndef SN_ATTEMPT_H
#define SN_ATTEMPT_H

#include "lib/base/str.h"
#include "lib/config/config.h"

#include <stdint.h>

struct sn_attempt {
    int number;        /* 0: this rank keeps no record */
    int64_t planned;   /* bytes of this rank by the plan; 0: not known yet. The caller sets it, */
    double stepping;   /* and the time at which the first step began, since 1970; 0: none has */
    int64_t from_step; /* that it began from: 0: anew; -1: not known yet */
    uint64_t certificate; /* of the programs of all ranks, as sennit-plan --verify prints it; 0: not
                             known yet. The caller sets it */
    int64_t started;   /* seconds since 1970 */
    char path[SN_PATH_MAX + 64];
    struct sn_str passed_over; /* members of a JSON array */
};

/* Make run.output and, on rank 0, the record of a new attempt: `number`, anew where it is there
 * already, or for 0 the first that is free. */
enum sn_status sn_attempt_begin(struct sn_attempt *a, const struct sn_config *c, int rank,
                                int number, struct sn_err *err);
/* What it goes on from is known: written down at once, since a killed attempt writes no end. */
void sn_attempt_resumed(struct sn_attempt *a, int64_t step);
/* A damaged checkpoint was passed over for an older one: into the record at once, whose readers
 * wonder why a run has fallen back. As at the end, failures are logged only. */
void sn_attempt_pass_over(struct sn_attempt *a, int64_t step, const struct sn_err *why);
/* Most memory that this process has had resident so far, in bytes; 0 where it cannot be read. */
int64_t sn_peak_resident(void);
/* Write how it ended, with the time of the first step, and the planned and the peak resident bytes
 * of rank 0; `why` is NULL when nothing failed. Failure to write is logged only: the run is over
 * and its own outcome matters more. */
void sn_attempt_end(struct sn_attempt *a, int exit_code, const struct sn_err *why);

#endif
