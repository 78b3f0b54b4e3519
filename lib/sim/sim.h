/*
 * sim.h - the compiled step executed with a clock: what sennit-train does, with prices for kernels.
 *
 * Each stage has a computing stream, which runs its schedule, and a queue for each axis, in which
 * collectives run one after another in the order of posting (as lib/comm/comm_engine.h has them, and
 * devices their streams). Queues are under way side by side, and slower where they want more of a
 * link together than it has (lib/program/lanes.h). Sends and receives are under way apart from both: a
 * transfer begins when both of its ends are posted; the steps of a ring share a link and so follow
 * one another. Where ranks agree all that was posted is waited for first. A WAIT stops computing until what it
 * waits for is complete. What is lost so is `idle` until the other stage has begun its part, and
 * exposed communication of that axis from then on. Data, tensor and context ranks of a stage do the
 * same at the same time, so one job a stage says everything.
 *
 * Another trainer's habits (software.h): a transfer takes 1 - hidden of its time, so that what its
 * trainer hides is not exposed; without data_overlaps a reduction of gradients begins when it is
 * waited for; step_fixed and layer_fixed are computing time.
 *
 * A segment is played once for each way it runs (first, middle, last micro-batch) and then is one
 * event with its transfers, unless something is still under way that was posted before: a
 * step of 16 stages and 512 micro-batches takes milliseconds. Segments that take turns are played
 * operation by operation, and each piece is an event.
 */
#ifndef SN_SIM_H
#define SN_SIM_H

#include "lib/cost/price.h"
#include "lib/sim/stages.h"

enum sn_event_kind {
    SN_EVENT_FORWARD,
    SN_EVENT_BACKWARD,
    SN_EVENT_WEIGHT,
    SN_EVENT_UPDATE,
    SN_EVENT_WAIT,     /* computing stands for axis `axis` */
    SN_EVENT_TRANSFER, /* of the communication stream, or a send */
    SN_EVENT_IDLE, /* it stands because another stage is late, maybe in the middle of a segment */
    SN_NEVENTS
};

struct sn_event {
    enum sn_event_kind kind;
    int stage;         /* of a send: who sends */
    int vstage, micro; /* -1 where they mean nothing */
    int entry;         /* of computing (until UPDATE): the entry of its stage's schedule */
    enum sn_axis axis; /* of WAIT, IDLE and TRANSFER */
    double begin, end; /* seconds from the step's begin */
    int64_t bytes;     /* TRANSFER: of one rank */
    const char *label; /* of the operation, in the compiled job; "" */
};

struct sn_sim_stage {
    double busy;              /* seconds of kernels */
    double exposed[SN_NAXES]; /* computing stood for communication of the axis */
    double idle;              /* and for other stages (bubble): busy + exposed + idle = step */
    double update;            /* of busy: the update segment */
};

struct sn_sim {
    double step;              /* seconds */
    double bubble;            /* idle over total time of all stages */
    int longest;              /* the stage that is busy longest, */
    double exposed[SN_NAXES]; /* and its exposed communication */
    struct sn_sim_stage *stage;
    int stages;
    struct sn_event *event; /* in order of begin; only when recorded */
    int64_t n_events;
};

/* Play one step. `record` keeps the events (labels point into `s`). Caller runs sn_sim_fini. */
enum sn_status sn_sim_run(struct sn_sim *out, const struct sn_stages *s, const struct sn_pricer *p,
                          bool record, struct sn_err *err);
void sn_sim_fini(struct sn_sim *s); /* a zeroed one is allowed */

/* Of an operation that is posted, over a step. */
struct sn_sim_wait {
    double message; /* seconds: of its messages */
    double hidden;  /* of those, while the stage computed */
    double exposed; /* for which the stage stood in its waits: for messages before it, too */
    double most;    /* of hidden, while one operation ran; */
    int behind;     /* which */
};
struct sn_sim_waits {
    int stage;
    struct sn_sim_wait *of; /* [operations of the stage's train program], zero */
};
/* The same step, operation by operation. */
enum sn_status sn_sim_waits(struct sn_sim *out, const struct sn_stages *s,
                            const struct sn_pricer *p, const struct sn_sim_waits *waits,
                            struct sn_err *err);

/* Bytes of a communication, as its event has them: those that this rank sends, of a RECV those that
 * its peer does. */
int64_t sn_sim_bytes(const struct sn_job *j, const struct sn_op *op);

/* Bytes of a stage's scratch and state in use over the step, as steps (time, bytes) in order:
 * slots as they are taken and given back, temporaries and workspace while their segment runs. Never
 * more than the plan's total without the library, and as much where all slots are full at once and
 * `train` is the program that needs the largest arena. Wants a recorded simulation. The caller
 * frees *out with sn_free. */
struct sn_memory_point {
    double time;
    int64_t bytes;
};
enum sn_status sn_sim_memory(struct sn_memory_point **out, int *n, const struct sn_sim *s,
                             const struct sn_job *stage, struct sn_err *err);

#endif
