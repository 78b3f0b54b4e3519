/*
 * idle.h - play a pipeline schedule through: does it end, and how long does each stage wait?
 *
 * Every stage runs its list in order; a task starts when the stage is free and what it needs
 * (sn_task_needs) is there. Transfers take no time.
 *
 * Times are integers in the caller's unit, so that formulas can be compared exactly. With equal
 * stage modules (F, B, W: one task of one stage module) every stage idles for the same time:
 *
 *   gpipe, 1f1b, interleaved  (p-1)(F+B+W), a fraction (p-1)/(v m + p-1) of the makespan
 *   zero-bubble               (p-1)(F+B) - (min(m,p)-1) min(F,B,W)
 *
 * Zero-bubble is the (p-1)(F+B-W) of its paper when m >= p and W <= F and W <= B. With fewer
 * micro-batches there are too few weight gradients to fill the gap; one longer than F or B makes
 * the gap (p-1) max(F,B), because it stands in the way of what the next stage waits for.
 */
#ifndef SN_IDLE_H
#define SN_IDLE_H

#include "lib/layout/schedule.h"

#include <stdint.h>

/* Of one stage module and one micro-batch, not negative. Where the schedule does not delay weight
 * gradients a BACKWARD task costs backward + weight, so that the same costs price them all. */
struct sn_task_cost {
    int64_t forward, backward, weight; /* weight: the weight gradients alone */
};

struct sn_pipeline_cost {
    struct sn_task_cost each;           /* of every stage module */
    const struct sn_task_cost *modules; /* or of each, [virtual_stages x stages]; NULL: `each` */
};

/* Task lists made elsewhere (what a compiled program runs): of each stage its tasks and their
 * number. Slots are not looked at. */
struct sn_task_lists {
    const struct sn_task *const *tasks; /* [stages] */
    const int *n;                       /* [stages] */
};

struct sn_stage_time {
    int64_t start, end; /* of its first and of its last task */
    int64_t busy;       /* sum of its tasks */
    int64_t idle;       /* makespan - busy */
};

struct sn_pipeline_time {
    int64_t makespan;            /* from 0 to the end of the last task of any stage */
    struct sn_stage_time *stage; /* [stages] */
};

/* The schedule of schedule.h. The caller ends with sn_pipeline_time_fini. */
enum sn_status sn_pipeline_simulate(const struct sn_pipeline *p, const struct sn_pipeline_cost *c,
                                    struct sn_pipeline_time *out, struct sn_err *err);
/* Any lists. SN_EINPUT if a task is unknown, missing or there twice; SN_EFAIL names a stage that
 * would wait for ever and what it waits for. */
enum sn_status sn_pipeline_simulate_lists(const struct sn_pipeline *p,
                                          const struct sn_task_lists *lists,
                                          const struct sn_pipeline_cost *c,
                                          struct sn_pipeline_time *out, struct sn_err *err);
void sn_pipeline_time_fini(struct sn_pipeline_time *t);

/* Idle over total time of all stages (sennit-plan's bubble_fraction); 0 if nothing takes time. */
double sn_pipeline_idle_fraction(const struct sn_pipeline_time *t, int stages);

#endif
