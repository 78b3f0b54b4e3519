/*
 * trial.h - the planner's best layouts, tried: each trains some steps on the nodes of this job, and keeps
 * nothing but its metrics. The fastest is what the run should have.
 *
 * Trial K has its run file OUTPUT/trial/K.yaml and its run directory OUTPUT/trial/K: the run's own
 * output and checkpoints stay as they are. All layouts compute the same, so how long a step takes is
 * all that is compared: the median of the steps behind the first two, which make plans and graphs.
 */
#ifndef SN_TRIAL_H
#define SN_TRIAL_H

#include "lib/search/search.h"
#include "slurm/run/supervisor.h"

enum { SN_TRIAL_MOST = 64, SN_TRIAL_PASSED_OVER = 2 };

struct sn_trial_want {
    struct sn_supervisor_line line; /* run file, ranks, launcher, site */
    int top, steps;                 /* layouts; steps of each, more than SN_TRIAL_PASSED_OVER */
};

struct sn_trial_row {
    struct sn_layout_config layout;
    double planned, measured; /* seconds a step; measured 0: `why` */
    char why[SN_PATH_MAX + 64];
};

struct sn_trial {
    struct sn_config
        *config;        /* the run file; its layout is that of the fastest where there is one */
    int ranks, n, best; /* best: row; -1: none was measured */
    bool was_stopped;   /* somebody or the end of the job's time asked it to leave */
    struct sn_trial_row row[SN_TRIAL_MOST]; /* as planned, best first */
};

/* SN_EINPUT:
 * no layout is valid or fits. A trial that fails is a row that says why. The caller ends with
 * sn_trial_fini. */
enum sn_status sn_trial_run(struct sn_trial *out, const struct sn_trial_want *w,
                            const struct sn_platform *platform, struct sn_err *err);
void sn_trial_fini(struct sn_trial *t); /* a zeroed one is allowed */

/* The median of step_time_s of OUTPUT/metrics.jsonl behind the first SN_TRIAL_PASSED_OVER steps; 0:
 * there is none. */
double sn_trial_step_seconds(const char *output);

#endif
