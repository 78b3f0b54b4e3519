/*
 * submit_check.h - is the job worth its wait? What was looked at, what was found, and what speaks
 * against submitting it.
 */
#ifndef SN_BIN_SUBMIT_CHECK_H
#define SN_BIN_SUBMIT_CHECK_H

#include "bin/inputs.h"
#include "slurm/run/forecast.h"

struct sn_submit_findings {
    struct sn_str good;     /* a line for each check that was made: "memory: ..." */
    struct sn_str doubtful; /* what works otherwise than somebody might think */
    struct sn_str bad;      /* the job would fail, or nobody can tell that it does not */
};

/* Look at the files that the run reads, the memory that it takes and how long it takes. A failure
 * is one to look, not what was found. */
enum sn_status sn_submit_look(struct sn_submit_findings *out, const struct sn_batch *b,
                              const struct sn_submit_plan *p, struct sn_err *err);
void sn_submit_findings_fini(struct sn_submit_findings *f);

#endif
