/*
 * schedule.h - which pipeline stage computes what, and in which order.
 *
 * A model is cut into stages x virtual_stages pieces of consecutive layers; piece number
 * part x stages + stage is `part` of its stage. A schedule is one list of tasks per stage. It is
 * arithmetic on sizes: it knows neither times nor transfers (idle.h plays a schedule through).
 *
 *   gpipe        all forwards, then all backwards (Huang et al., arXiv 1811.06965)
 *   1f1b         p-1-s forwards, then one forward and one backward in turn (Narayanan et al. 2021,
 *                arXiv 2104.04473, 2.2.1), so that stage s of p keeps p-s micro-batches and not all
 *   interleaved  the same with several parts on each stage (2.2.2 there): groups of p micro-batches
 *                pass through part 0, then part 1 ...; stage s begins with 2(p-s-1) + (v-1)p
 *                forwards. Needs a multiple of p micro-batches. With one part it is 1f1b.
 *   zero-bubble  ZB-H1 (Qi et al., arXiv 2401.10241): forwards and input gradients as in 1f1b;
 *                stage s computes weight gradients s micro-batches late and the last s of them at
 *                the end, when 1f1b would wait. Every stage keeps up to p micro-batches.
 */
#ifndef SN_SCHEDULE_H
#define SN_SCHEDULE_H

#include "lib/base/err.h"
#include "lib/config/config.h"

enum sn_phase {
    SN_PHASE_FORWARD,
    SN_PHASE_BACKWARD, /* input and weight gradients; input gradients only, if those are delayed */
    SN_PHASE_WEIGHT,   /* weight gradients, where the schedule delays them */
    SN_NPHASES
};
const char *sn_phase_name(enum sn_phase f); /* "forward", "backward", "weight" */

struct sn_pipeline {
    enum sn_schedule kind;
    int stages,
        virtual_stages; /* virtual_stages: parts of a stage; 1 where the schedule has none */
    int micros;         /* micro-batches of a step */
};

struct sn_task {
    enum sn_phase phase;
    int part;  /* 0 .. virtual_stages-1; the piece is part x stages + stage */
    int micro; /* 0 .. micros-1 */
    int slot;  /* which copy of the part's kept activations, 0 .. sn_schedule_slots()-1 */
};

/* What must have ended before a task begins, of piece k of K and one micro-batch:
 *
 *   forward(k)   forward(k-1)
 *   backward(k)  forward(k), backward(k+1)
 *   weight(k)    backward(k)
 *
 * Where the piece is another one the value crosses stages. */
struct sn_need {
    enum sn_phase phase;
    int piece;
};
enum { SN_NEEDS = 2 };
/* Fills out[]; returns how many. */
int sn_task_needs(struct sn_need out[SN_NEEDS], const struct sn_pipeline *p, enum sn_phase phase,
                  int piece);

/* Do these sizes make a schedule? SN_EINPUT says which would. The functions below that return no
 * status want a pipeline that passed. */
enum sn_status sn_pipeline_check(const struct sn_pipeline *p, struct sn_err *err);

/* The tasks of one stage (0 .. stages-1), in order. Each phase of each part and micro-batch stands
 * there once, and each phase of a part takes micro-batches in ascending order. A FORWARD takes its
 * part's lowest free slot; the last task of that micro-batch gives it back. Caller frees *out with sn_free. */
enum sn_status sn_schedule_make(struct sn_task **out, int *n, const struct sn_pipeline *p,
                                int stage, struct sn_err *err);
/* The phase with which a micro-batch of a part ends. */
enum sn_phase sn_schedule_last_phase(const struct sn_pipeline *p);
/* Tasks of a stage: phases x parts x micro-batches. */
int sn_schedule_tasks(const struct sn_pipeline *p);
/* The most micro-batches of a part that are in flight at once on a stage (forward begun, last
 * backward task not done): that many copies of its kept activations are needed, and no more.
 * Counted, in O(v m) time. */
int sn_schedule_slots(const struct sn_pipeline *p, int stage, int part);
/* The same where a stage has one part, at once:
 *   gpipe m, 1f1b min(m, p-s), zero-bubble min(m, p) */
int sn_schedule_slots_of_one(const struct sn_pipeline *p, int stage);
/* Where the schedule delays weight gradients: the most of a part that are due at once. */
int sn_schedule_waiting(const struct sn_pipeline *p, int stage);

#endif
