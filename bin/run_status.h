/*
 * run_status.h - how sennit-run status and why show a run: as text for people, as JSON for others.
 */
#ifndef SN_BIN_RUN_STATUS_H
#define SN_BIN_RUN_STATUS_H

#include "lib/base/str.h"
#include "slurm/history/history.h"

/* Where the run stands as of `now` (seconds since 1970), a line a thing. */
void sn_status_text(struct sn_str *out, const struct sn_history *h, double now);
/* Each attempt, and what ended it. */
void sn_status_why_text(struct sn_str *out, const struct sn_history *h, double now);
/* One object: where the run stands; with `attempts` also all of them. */
void sn_status_json(struct sn_str *out, const struct sn_history *h, double now, bool attempts);

#endif
