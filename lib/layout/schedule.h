/*
 * schedule.h - which pipeline stage computes what, and in which order.
 *
 * A model is cut into stages x virtual_stages stage modules of consecutive layers; stage module
 * number vstage x stages + stage is virtual stage `vstage` of its stage. A schedule is one list of
 * tasks per stage. It is arithmetic on sizes: it knows neither times nor transfers (idle.h plays a
 * schedule through).
 *
 *   gpipe        all forwards, then all backwards (Huang et al., arXiv 1811.06965)
 *   1f1b         p-1-s forwards, then one forward and one backward in turn (Narayanan et al. 2021,
 *                arXiv 2104.04473, 2.2.1), so that stage s of p keeps p-s micro-batches and not all
 *   interleaved  the same with several virtual stages on each stage (2.2.2 there): groups of p
 *                micro-batches pass through virtual stage 0, then 1 ...; stage s begins with
 *                2(p-s-1) + (v-1)p forwards. Needs a multiple of p micro-batches. With one virtual
 *                stage it is 1f1b.
 *   zero-bubble  ZB-H1 (Qi et al., arXiv 2401.10241): forwards and input gradients as in 1f1b;
 *                stage s computes weight gradients s micro-batches late and the last s of them at
 *                the end, when 1f1b would wait. Every stage keeps up to p micro-batches.
 *   combined     interleaved, with virtual stages or without, one forward further ahead: then a
 *                forward and the backward behind it are of micro-batches that do not wait for each
 *                other on any stage, each pair needs from others what they did a pair ago, and both
 *                may be computed together. Stage s keeps 2(p-s) micro-batches where 1f1b keeps p-s,
 *                or one part of a micro-batch more than interleaved; the bubble is the same.
 */
#ifndef SN_SCHEDULE_H
#define SN_SCHEDULE_H

#include "lib/base/err.h"
#include "lib/config/config.h"

#include <stdbool.h>
#include <stdint.h>

enum sn_phase {
    SN_PHASE_FORWARD,
    SN_PHASE_BACKWARD, /* input and weight gradients; input gradients only, if those are delayed */
    SN_PHASE_WEIGHT,   /* weight gradients, where the schedule delays them */
    SN_NPHASES
};
const char *sn_phase_name(enum sn_phase f); /* "forward", "backward", "weight" */

struct sn_pipeline {
    enum sn_schedule kind;
    int stages, virtual_stages; /* virtual_stages: of a stage; 1 where the schedule has none */
    int micros;                 /* micro-batches of a step */
};

/* The pipeline of a layout, in a step of so many micro-batches. */
struct sn_pipeline sn_pipeline_of(const struct sn_layout_config *l, int micros);
/* Do these sizes make a schedule? SN_EINPUT says which would. The functions below that return no
 * status want a pipeline that passed. */
enum sn_status sn_pipeline_check(const struct sn_pipeline *p, struct sn_err *err);

/* What a stage computes at once, of a micro-batch: tasks and the segments of a program are each of
 * one scope. Who keeps something by scope has sn_scopes() of them. */
struct sn_scope {
    int virtual_stage; /* 0 .. virtual_stages-1; the stage module is virtual_stage x stages +
                        * stage */
};
int sn_scopes(const struct sn_pipeline *p);
struct sn_scope sn_scope_at(const struct sn_pipeline *p, int number); /* 0 .. sn_scopes()-1 */
bool sn_scope_equal(struct sn_scope a, struct sn_scope b);

struct sn_task {
    enum sn_phase phase;
    struct sn_scope scope;
    int micro; /* 0 .. micros-1 */
    int slot;  /* which copy of the virtual stage's kept activations, 0 .. sn_schedule_slots()-1 */
};

/* Which task of the pipeline it is, of stage `stage`: a number from 0 to sn_pipeline_tasks()-1, by
 * which whoever plays a schedule keeps what it knows of tasks. */
int64_t sn_task_number(const struct sn_pipeline *p, int stage, const struct sn_task *t);
int64_t sn_pipeline_tasks(const struct sn_pipeline *p);
/* Has the pipeline such a task? The sentence names what it has instead. */
enum sn_status sn_task_check(const struct sn_pipeline *p, const struct sn_task *t,
                             struct sn_err *err);
int sn_task_module(const struct sn_pipeline *p, int stage, const struct sn_task *t);
enum { SN_TASK_NAME = 64 };
/* For people: "backward of stage module 3, micro-batch 5". Returns `out`. */
const char *sn_task_name(char out[SN_TASK_NAME], const struct sn_pipeline *p, int64_t task);

/* What must have ended before a task begins, of stage module k of K and one micro-batch:
 *
 *   forward(k)   forward(k-1)
 *   backward(k)  forward(k), backward(k+1)
 *   weight(k)    backward(k)
 *
 * Where the stage module is another one the value crosses stages. */
struct sn_need {
    int64_t task; /* its number */
    enum sn_phase phase;
    int module;
};
enum { SN_NEEDS = 2 };
/* Fills out[]; returns how many. */
int sn_task_needs(struct sn_need out[SN_NEEDS], const struct sn_pipeline *p, int stage,
                  const struct sn_task *t);

/* The tasks of one stage (0 .. stages-1), in order. Each phase of each virtual stage and
 * micro-batch stands there once, and each phase of a virtual stage takes micro-batches in ascending
 * order. A FORWARD takes its virtual stage's lowest free slot; the last task of that micro-batch
 * gives it back. Caller frees *out with sn_free. */
enum sn_status sn_schedule_make(struct sn_task **out, int *n, const struct sn_pipeline *p,
                                int stage, struct sn_err *err);
/* The phase with which a micro-batch of a virtual stage ends. */
enum sn_phase sn_schedule_last_phase(const struct sn_pipeline *p);
/* Does each forward of the stage that has a backward right behind it take turns with it? Not where
 * there are so few micro-batches that all forwards come first: then the two may wait for each
 * other, by way of other stages. */
bool sn_schedule_pairs(const struct sn_pipeline *p, int stage);
/* Tasks of a stage. */
int sn_schedule_tasks(const struct sn_pipeline *p);
/* The most micro-batches of a virtual stage that are in flight at once on a stage (forward begun,
 * last backward task not done): that many copies of its kept activations are needed, and no more.
 * Counted, over the shortest pipeline that says it. */
int sn_schedule_slots(const struct sn_pipeline *p, int stage, int vstage);
/* The same where a stage has one virtual stage, at once:
 *   gpipe m, 1f1b min(m, p-s), zero-bubble min(m, p), combined min(m, 2(p-s)) */
int sn_schedule_slots_of_one(const struct sn_pipeline *p, int stage);
/* The same pipeline with as few micro-batches as have as many of each virtual stage in flight. */
struct sn_pipeline sn_pipeline_shortest(const struct sn_pipeline *p);
/* Where the schedule delays weight gradients: the most of a virtual stage that are due at once. */
int sn_schedule_waiting(const struct sn_pipeline *p, int stage);

#endif
