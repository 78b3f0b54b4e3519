/*
 * submit_plan.h - how long a step and a save of a run take, as far as anybody knows.
 */
#ifndef SN_BIN_SUBMIT_PLAN_H
#define SN_BIN_SUBMIT_PLAN_H

#include "slurm/preempt.h"

/* What the run measured before, or what the planner says for the machine that the run file or the
 * site names; all 0 where none is named, or the site's cannot be planned for. `output` is the run's
 * directory. */
enum sn_status sn_submit_plan(struct sn_save_time *out, const struct sn_config *c,
                              const struct sn_site *s, const char *output, struct sn_err *err);

#endif
