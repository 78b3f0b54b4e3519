/*
 * exec_device.h - the executor's backend for devices: its own struct, shared by exec_device.c and
 * the files below. Internal to lib/exec, whose other files do not know it.
 *
 *   exec_device.c    streams, graphs; the table of functions
 *   exec_wait.c      how far it has come, failures
 *   exec_mirror.c    memory
 *   exec_staged.c    communication through this process's memory
 *   exec_channels.c  communication between devices
 *   exec_eager.c     which of it is part of graphs
 *   exec_replay.c    micro-batches that share a graph
 *   exec_clocks.c    when operations run, and what they take
 *   exec_ranges.c    what a profiler is told
 *
 * Who waits, and where. COMPUTE, and so this process, waits for a communication at its WAIT, and
 * nowhere before it: that is what lib/verify/verify.h proves to end. A receive is posted while the
 * segment before it still has to run; a wait in between makes two stages wait for each other.
 *
 * A graph ends when all its streams have come together. So what is in a graph is waited for before
 * the next cut, and a communication whose WAIT lies behind a cut is enqueued outside graphs:
 * there is a cut before it and one at its WAIT. Where ranks agree, and at the end of a walk,
 * COMPUTE does wait for all that was posted: the verifier plays that too.
 *
 * Communications of one axis all are in graphs or all outside: a channel has them in the order of
 * the program, which is the same at all its members.
 */
#ifndef SN_EXEC_DEVICE_H
#define SN_EXEC_DEVICE_H

#include "lib/exec/accelerator.h"
#include "lib/exec/exec_inner.h"

/* Streams of a device. COMPUTE is the program's; its collectives and rings are on that of the axis
 * in whose queue they are (sn_group_queue), its transfers on that of a pipeline neighbour, each way on its own,
 * because one that waits for its peer must hold up nothing else. */
enum {
    SN_STREAM_AXIS = SN_STREAM_COMPUTE + 1,
    SN_STREAM_PAIR = SN_STREAM_AXIS + SN_NAXES,
    SN_STREAM_END = SN_STREAM_PAIR + 4,
    SN_STREAM_COPY = SN_STREAM_END /* of the state to the mirror: the steps do not wait for it */
};
_Static_assert((int)SN_STREAM_COPY < (int)SN_DEVICE_STREAMS, "a device has fewer streams");
/* Of a group's communications: in whose queue they are; of those between pipeline neighbours, which
 * are in none, the axis itself. */
static inline enum sn_axis sn_device_axis(enum sn_group q)
{
    return q == SN_GROUP_PIPELINE ? SN_AXIS_PIPELINE : sn_group_queue(q);
}
/* Events: "the operations are here" for each stream, then "it is done" for each posted place. */
enum { SN_EVENT_DONE = SN_DEVICE_STREAMS };

/* The first whole run is enqueued piece by piece (libraries make their plans), the second is kept
 * in graphs, all later ones launch those. Other walks are always enqueued piece by piece. */
enum sn_exec_mode { SN_MODE_EAGER, SN_MODE_CAPTURE, SN_MODE_REPLAY };

enum { SN_EAGER = -3, SN_STAGED = -2, SN_NEVER_POSTED = -1 };

/* Of a posted communication. */
struct sn_device_request {
    char *to; /* through the host: what comes back to the device; NULL: nothing */
    int64_t bytes;
    int cut; /* of channels in graphs: how many cuts there were before it; else one of the above */
};

/* Micro-batches 1 .. until - 1 do the same, in `each` entries of the schedule; 0: none do. */
struct sn_replay {
    int each, until;
};

struct sn_exec_device {
    struct sn_accelerator *accelerator;
    const struct sn_device_ops *ops;
    struct sn_device *d;
    char *bounce; /* mirror of the arenas, one behind the other, for what passes through here */
    bool is_pinned[SN_NSTATE_CLASSES]; /* parts of the state's mirror that saves read */
    bool is_refused;                   /* page-locking such a part, and somebody has said so */
    int64_t *first_sample;             /* by micro-batch; graphs read it when they run */

    enum sn_exec_mode mode;
    enum sn_exec_mode kept; /* while rounds that nobody can count are enqueued: of the rest, */
    int kept_cut;           /* and its cuts */
    bool is_open;           /* a graph is being kept */
    int noted;              /* notes of the device that the log has */
    bool is_pulling;        /* COPY may have something to do */
    int64_t runs;           /* of the train program, ended */
    int cut;                /* of this walk, so far */
    int cuts;               /* of a whole run of the train program */
    void **graph;           /* by cut: what is enqueued before it; NULL: nothing */
    bool uses[SN_DEVICE_STREAMS]; /* streams that COMPUTE has not waited for yet */
    bool eager[SN_NAXES];         /* by sn_device_axis, in this program: it is in no graph */

    const struct sn_program *program;  /* walked now, */
    const struct sn_sched *sched;      /* and in which order; that of the graphs, NULL: none */
    const struct sn_sched *captured;
    int micro;                         /* micro-batch of the segment that is walked now */
    bool is_watched;                   /* by a tool that is told of ranges */
    struct sn_replay replay;           /* of its micro-batches */
    uint32_t unmarked;                 /* operations since the last mark */
    const struct sn_op *agree;         /* of a rank alone: done when the walk is over */
    struct sn_device_request *request; /* by place of sn_exec.requests */
    int places;
    struct sn_device_rows *rows;   /* room for twice the members of any group */
    int64_t sent[SN_NAXES];        /* through channels, since somebody asked */
    struct sn_exec_clocks *clocks; /* NULL: nobody wants to know what operations take */
};

/* ---- exec_device.c ---- */

/* Is it part of a graph that is there already? Else it is to be enqueued now. */
enum sn_status sn_device_skips(struct sn_exec *x, bool *skips, struct sn_err *err);
/* Everything up to here is enqueued, and COMPUTE waits for what is not outside graphs; what follows
 * is no part of a graph until the next operation is. */
enum sn_status sn_device_cut(struct sn_exec *x, struct sn_err *err);
/* Who sends how many rows in an EXCHANGE: fetches the bounds, and waits. After a cut. */
enum sn_status sn_device_bounds(struct sn_exec *x, const struct sn_program *p,
                                const struct sn_op *op, const struct sn_at *at,
                                struct sn_exchange *out, struct sn_err *err);
/* The graph of a cut, now, if it has one. */
enum sn_status sn_device_launch(struct sn_exec *x, int cut, struct sn_err *err);
/* The number of a micro-batch's first sample, to where operations read it. */
enum sn_status sn_device_first_sample(struct sn_exec *x, int micro, struct sn_err *err);
/* `bytes` (0: nothing), on COMPUTE. */
enum sn_status sn_device_copy(struct sn_exec *x, void *to, const void *from, int64_t bytes,
                              enum sn_device_way way, struct sn_err *err);

/* ---- exec_wait.c ---- */

/* The sentence of a call that failed, after the name of the operation. */
enum sn_status sn_device_fail(const struct sn_exec *x, const struct sn_op *op, struct sn_err *err);
/* Before operation i of the program walked now is enqueued: who waits sees how far the device
 * is. */
enum sn_status sn_device_mark(struct sn_exec *x, int i, struct sn_err *err);
/* Until all that was enqueued on a stream is done. */
enum sn_status sn_device_wait_on(struct sn_exec *x, int stream, struct sn_err *err);
/* Of COMPUTE, that is, but for what nobody waits for: of all. */
enum sn_status sn_device_wait(struct sn_exec *x, struct sn_err *err);

/* ---- exec_mirror.c: of the table, but for the first ---- */

/* Where the mirror has what is at an address of the device. */
char *sn_device_bounce(const struct sn_exec *x, const void *at);
enum sn_status sn_mirror_create(struct sn_exec *x, struct sn_accelerator *a, struct sn_err *err);
void sn_mirror_destroy(struct sn_exec *x);
/* Graphs of the train program: the next run is the first one again. */
void sn_mirror_forget_graphs(struct sn_exec *x);
enum sn_status sn_mirror_pull_begin(struct sn_exec *x, struct sn_err *err);
enum sn_status sn_mirror_pull_wait(struct sn_exec *x, struct sn_err *err);
enum sn_status sn_mirror_push(struct sn_exec *x, struct sn_err *err);
enum sn_status sn_mirror_fetch(struct sn_exec *x, const char *at, int64_t bytes, const void **out,
                               struct sn_err *err);

/* ---- exec_staged.c ---- */

enum sn_status sn_staged_post(struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                              const struct sn_at *at, struct sn_err *err);
enum sn_status sn_staged_wait(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at,
                              struct sn_err *err);

/* ---- exec_channels.c: the first two of the table ---- */

enum sn_status sn_channels_join(struct sn_exec *x, struct sn_err *err);
void sn_channels_take_sent(struct sn_exec *x, int64_t bytes[SN_NAXES]);
enum sn_status sn_channel_post(struct sn_exec *x, const struct sn_program *p,
                               const struct sn_op *op, const struct sn_at *at, struct sn_err *err);
enum sn_status sn_channel_wait(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at,
                               struct sn_err *err);

/* ---- exec_clocks.c ---- */

/* Of the table. */
enum sn_status sn_clocks_make(struct sn_exec *x, struct sn_err *err);
enum sn_status sn_stamps_make(struct sn_exec *x, int64_t operations, struct sn_err *err);
/* Around each operation, where there are clocks; and what they say, which waits. */
enum sn_status sn_clocks_begin(struct sn_exec *x, const struct sn_op *op, struct sn_err *err);
enum sn_status sn_clocks_end(struct sn_exec *x, const struct sn_op *op, struct sn_err *err);
enum sn_status sn_clocks_report(struct sn_exec *x, struct sn_err *err);
/* Of x->timeline, if there is one. When a run begins, before anything runs: what the device's clock
 * says at a time of this host's; waits. */
enum sn_status sn_stamps_start(struct sn_exec *x, struct sn_err *err);
/* The operation under way begins or ends when the stream comes here. */
enum sn_status sn_stamps_put(struct sn_exec *x, int stream, bool is_end, struct sn_err *err);
/* It is moved on a stream of its own. */
void sn_stamps_move(struct sn_exec *x, const struct sn_op *op);
/* What the stamps say, when all are done. */
enum sn_status sn_stamps_read(struct sn_exec *x, struct sn_err *err);

/* ---- exec_ranges.c: nothing where no tool listens ---- */

/* When the device is there: does one? */
void sn_ranges_open(struct sn_exec *x);
/* Begin that of a walk of `p`, of an operation that is enqueued, of a graph that is launched. */
void sn_range_run(struct sn_exec *x, const struct sn_program *p);
void sn_range_op(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at);
void sn_range_graph(struct sn_exec *x, int cut);
/* End that of an operation; of a walk or a graph. */
void sn_range_op_end(struct sn_exec *x);
void sn_range_end(struct sn_exec *x);

/* ---- exec_replay.c ---- */

/* Find v->repeat for the program that is walked from now on. */
void sn_replay_find(struct sn_exec *x, const struct sn_program *p);
/* Before an entry of the schedule, of a micro-batch of v->repeat: what begins there. done: so many
 * entries need no walk, because a graph has them. */
enum sn_status sn_replay_micro(struct sn_exec *x, int entry, int micro, int *done,
                               struct sn_err *err);

/* ---- exec_eager.c ---- */

/* Find v->eager for the program that is walked from now on. */
void sn_eager_find(struct sn_exec *x, const struct sn_program *p);

#endif
