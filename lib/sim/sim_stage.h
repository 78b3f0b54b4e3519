/*
 * sim_stage.h - one pipeline stage of the simulation; for the files sim*.c alone.
 *
 * A stage advances through its schedule until it needs to know when another stage does something
 * that the board does not tell yet. No time depends on the order in which stages are advanced.
 */
#ifndef SN_SIM_STAGE_H
#define SN_SIM_STAGE_H

#include "lib/program/opinfo.h"
#include "lib/sim/sim.h"

#define SN_SIM_NOT_YET (-1.0)
enum { SN_SIM_WAYS = 4 }; /* a segment runs on the first, last, only or another micro-batch */

/* What stages tell each other: when they posted sends and receives, by tag and micro-batch, and
 * when they came to collectives over several stages. Else SN_SIM_NOT_YET. */
struct sn_sim_board {
    int stages, micros;
    int tags, rows;
    double *sent, *received; /* [tags x micros] */
    double *seconds;         /* [tags]: of the transfer */
    double *arrived;         /* [rows x stages] */
};

struct sn_sim_clock {
    double now;   /* of COMPUTE */
    double share; /* of the processor that what is under way takes */
    double busy, exposed[SN_NAXES];
    double host; /* when the host has issued the operation at hand */
};

struct sn_sim_events {
    struct sn_event *event;
    int64_t n;
    int cap;
};

/* A post of a segment that is waited for outside of it. */
struct sn_sim_left {
    int op;
    double
        at; /* seconds from the run's begin: a send is posted, a collective is complete, or NOT_YET */
};

/* An operation, from when until when. */
struct sn_sim_span {
    int op;
    double begin, end;
};

/* Kernels that ran since nothing was under way, in order; messages that ended and have not been
 * compared with them. */
struct sn_sim_watch {
    struct sn_sim_span *span, *ended;
    int n_span, cap_span, n_ended, cap_ended;
};

/* What a segment does from the end of its head on, when it begins at 0 with all streams free. */
struct sn_sim_run {
    bool known;
    struct sn_sim_clock end;
    struct sn_lanes lanes; /* what is under way then */
    int first_left, n_left;
    int64_t first_event, n_events;
};

struct sn_sim_player {
    const struct sn_job *job;
    struct sn_sim_board *board;
    struct sn_sim_clock clock;
    struct sn_lanes lanes;             /* collectives and rings */
    double update;                     /* busy seconds of the update segment */
    int entry, op;                     /* of the schedule, and the next operation of its segment */
    double segment_begin, busy_before; /* when the segment at hand was begun */
    double *seconds;                   /* [ops] of a kernel or a transfer */
    double *done;            /* [ops] when the collective posted last is complete; NOT_YET: later */
    struct sn_link_use *use; /* [ops] */
    double host;             /* seconds in which the host issues an operation */
    double share[SN_NGROUPS]; /* of the processor that transfers of a group take */
    bool *is_lazy;            /* [ops] a collective that begins when it is waited for */
    int *index;               /* [ops] of a WAIT: what it waits for; of a send or receive: its first
                               place in `micro`; of a collective over stages: its row of the board */
    int *micro;               /* micro-batch posted last, by slot; -1 */
    int *head; /* [segments] operations that need other stages or earlier segments: until
                               here a segment is always played one by one */
    struct sn_sim_run *run; /* [segments x 4] */
    struct sn_sim_left *left;
    int n_left;
    struct sn_sim_wait *waits;    /* [ops] what is hidden behind what; NULL: nobody asks */
    struct sn_sim_watch watch;    /* then: what has run and ended lately */
    bool records, failed;         /* failed: no memory for events */
    struct sn_sim_events *events; /* where events are written now: one of these */
    struct sn_sim_events recorded, model;
};

/* The lane of a collective or a step of a ring. */
static inline int sn_sim_lane(const struct sn_op *op)
{
    bool rings = sn_op_row(op->kind)->stream == SN_STREAM_RINGS;
    return rings ? (int)SN_LINK_RINGS : (int)sn_group_queue(op->group);
}

/* Has it members on other stages? Such collectives are in the update,
 * which waits for them at once. */
bool sn_sim_spans_stages(const struct sn_job *j, const struct sn_op *op);
/* Rows of the board that the collectives of this job over several stages need. */
int sn_sim_rows(const struct sn_job *j);
/* Tags of the board that its transfers need. */
int sn_sim_tags(const struct sn_job *j);
/* `board` has its sizes and memory already; the stage's transfers are priced into it. */
enum sn_status sn_sim_player_init(struct sn_sim_player *out, const struct sn_job *j,
                                  const struct sn_pricer *p, struct sn_sim_board *board,
                                  struct sn_err *err);
/* Its lanes tell it what has ended; where it lies now. */
void sn_sim_player_listen(struct sn_sim_player *g);
void sn_sim_player_fini(struct sn_sim_player *g); /* a zeroed one is allowed */
/* As far as the board allows; false if that was nowhere. */
bool sn_sim_player_advance(struct sn_sim_player *g);
/* Let it write what is hidden behind what (sim_watch.c). A kernel has run from `begin` until now; a
 * message that began and ends then is over. Nothing, where nobody asks. */
void sn_sim_player_watch(struct sn_sim_player *g, struct sn_sim_wait *waits);
void sn_sim_watch_kernel(struct sn_sim_player *g, int op, double begin);
void sn_sim_watch_ended(struct sn_sim_player *g, int op, double begin, double end);
/* The step is over. */
void sn_sim_watch_done(struct sn_sim_player *g);
bool sn_sim_player_is_done(const struct sn_sim_player *g);

/* Seconds by which reductions over replicas end later, because members come late: by the trainer's
 * constants (software.h). Every bucket waits for the last of the nodes; where memory is nearly full,
 * staging buffers are found late. */
double sn_sim_late(const struct sn_stages *s, const struct sn_pricer *p);

#endif
