/*
 * bubble.h - how long pipeline stages wait, in the schedule that was compiled, with costs of the
 * test's own or FLOPs alone (the plan's figure is of lib/sim/sim, with prices and transfers).
 *
 * The schedules of all stages' programs, as they will be executed, are turned back into tasks and
 * played through (lib/layout/idle.h). A segment costs the multiply-adds of its operations, so that
 * recomputation, the head and uneven splits count; transfers and memory-bound operations cost
 * nothing.
 */
#ifndef BUBBLE_H
#define BUBBLE_H

#include "lib/layout/idle.h"
#include "lib/program/program.h"

/* FLOPs of one run of a virtual stage's segments. */
struct vstage_work {
    double forward, backward, weight; /* weight: only where it is a segment of its own */
};

/* What a stage does in a step. */
struct stage_work {
    struct sn_task *tasks; /* [n], in the order of its program's schedule */
    int n, vstages;
    struct vstage_work vstage[SN_MAX_VSTAGES];
};

/* From the compiled program of any rank of a stage. The caller ends with stage_work_fini. */
enum sn_status stage_work_init(struct stage_work *out, const struct sn_job *j, struct sn_err *err);
void stage_work_fini(struct stage_work *w); /* zeroed ones are allowed */

/* The pipeline that a job is a stage of. */
struct sn_pipeline job_pipeline(const struct sn_job *j);

/* Play the stages' tasks with costs of the caller's; end with sn_pipeline_time_fini. Errors as
 * sn_pipeline_simulate_lists. */
enum sn_status bubble_play(struct sn_pipeline_time *out, const struct sn_pipeline *p,
                           const struct stage_work *stage, const struct sn_pipeline_cost *c,
                           struct sn_err *err);
/* Idle over total time of all stages [p->stages] with segments that cost their FLOPs; 0 for one. */
enum sn_status bubble_fraction(double *out, const struct sn_pipeline *p,
                               const struct stage_work *stage, struct sn_err *err);

#endif
