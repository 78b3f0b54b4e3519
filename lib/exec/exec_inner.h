/*
 * exec_inner.h - the executor's own struct, and the table of functions that a backend of it fills.
 * Internal to lib/exec.
 *
 *   exec.c         walks programs; knows no backend
 *   exec_comm.c    what a communication moves, whatever it runs on
 *   exec_host.c    the backend of this processor
 *   exec_device.c  that of devices (exec_device.h lists its other files)
 */
#ifndef SN_EXEC_INNER_H
#define SN_EXEC_INNER_H

#include "lib/exec/exec.h"
#include "lib/exec/meter.h"
#include "lib/exec/pace.h"
#include "lib/exec/results.h"
#include "lib/exec/timeline.h"
#include "lib/program/opinfo.h"

/* Requests of one posted operation in one slot; a shift has two. */
struct sn_op_requests {
    sn_request request[2];
    struct sn_exchange exchange;
};

struct sn_exec_device; /* exec_device.h */

/*
 * A backend executes operations. exec.c walks a program by calls in this order; the walk of a
 * single segment has no entry:
 *
 *     begin
 *         entry                            an entry of the schedule
 *             op, op, ...                  the operations of its segment that are due, in order
 *             rounds, op, ..., rounds_end  further rounds of those for rows beyond a window
 *     end
 *
 * begin, entry, op and pull_begin are asynchronous: they may return before their work is done. The
 * results are as if each operation ran when the one before it had ended; only a communication runs
 * beside the operations between its post and its WAIT. All other functions return when their work
 * is done: after `end` the scalars of this process are those of the run, and nothing is under way
 * but a pull. A call may return the failure of work that an earlier one has left; the sentence
 * names the operation as closely as the backend knows it.
 *
 * All functions are required. create, connect, make_clocks and make_stamps allocate, the others at
 * most in the first two runs of the train program.
 */
struct sn_exec_backend {
    bool has_idle; /* op is asynchronous, so that this process has time: x->idle is called */
    /* Memory for x->arena, x->here and x->small. `a` is borrowed; NULL: the host. */
    enum sn_status (*create)(struct sn_exec *x, struct sn_accelerator *a, struct sn_err *err);
    void (*destroy)(struct sn_exec *x); /* also after a create that failed, or without one */
    /* Connections of ranks besides the communicator; collective, after it has its grid. */
    enum sn_status (*connect)(struct sn_exec *x, struct sn_err *err);

    /* Start a walk of `p`: its operations see the scalars and the batch that this process has now.
     * is_whole: of the whole schedule. */
    enum sn_status (*begin)(struct sn_exec *x, const struct sn_program *p, bool is_whole,
                            struct sn_err *err);
    /* The next operations are those of entry i, whose micro-batch has this first sample. *done:
     * this many entries, from i on, need no walk because this call has them executed; 0: walk entry
     * i. */
    enum sn_status (*entry)(struct sn_exec *x, int i, int64_t first_sample, int *done,
                            struct sn_err *err);
    /* Execute operation i. Where sn_exec_is_fence() says so, before it: calls x->fence, and ends a
     * pull that is under way. Writes the operation's event of x->timeline, and calls
     * sn_exec_take_time() if it has waited for the operation. */
    enum sn_status (*op)(struct sn_exec *x, const struct sn_program *p, int i,
                         const struct sn_at *at, struct sn_err *err);
    /* The number of rounds of the EXCHANGE at operation i; waits for the counts of rows. Until
     * rounds_end the operations are those of rounds 1 and up, whose number differs from run to
     * run. */
    enum sn_status (*rounds)(struct sn_exec *x, const struct sn_program *p, int i,
                             const struct sn_at *at, int *out, struct sn_err *err);
    void (*rounds_end)(struct sn_exec *x);
    enum sn_status (*end)(struct sn_exec *x, bool is_whole, struct sn_err *err);

    /* Between walks. Copy the state that saves read from where operations work to x->here, beside
     * the next run; wait for that copy; copy it back, for the next run. */
    enum sn_status (*pull_begin)(struct sn_exec *x, struct sn_err *err);
    enum sn_status (*pull_wait)(struct sn_exec *x, struct sn_err *err);
    enum sn_status (*push)(struct sn_exec *x, struct sn_err *err);
    /* *out: in this process's memory, the bytes at an address where operations work. */
    enum sn_status (*fetch)(struct sn_exec *x, const char *at, int64_t bytes, const void **out,
                            struct sn_err *err);
    /* Add what was sent without the communicator since the last call. */
    void (*take_sent)(struct sn_exec *x, int64_t bytes[SN_NAXES]);

    /* Clocks for x->tell; for a timeline of so many operations. */
    enum sn_status (*make_clocks)(struct sn_exec *x, struct sn_err *err);
    enum sn_status (*make_stamps)(struct sn_exec *x, int64_t operations, struct sn_err *err);
};

const struct sn_exec_backend *sn_exec_backend_host(void);
const struct sn_exec_backend *sn_exec_backend_device(void);

struct sn_exec {
    const struct sn_job *job;
    struct sn_comm *comm;
    const struct sn_exec_backend *backend;
    char *arena[SN_NARENAS]; /* where operations work */
    char *here[SN_NARENAS];  /* what this process has of it: the same, or a mirror; NULL: nothing */
    char *small;             /* and of the state from offset `small_from` on: what goes over with */
    int64_t small_from;      /* each step */
    struct sn_exec_device *device;   /* of the backend for devices, and read by its files alone */
    struct sn_op_requests *requests; /* one for an operation, or one for each slot where those
                                        are apart */
    int *first_request;              /* by operation id, and the end */
    struct sn_exec_time times[SN_NKINDS];
    struct sn_pace pace; /* of the host */
    struct sn_routed routed;
    int64_t off_plan[SN_NAXES], off_unreported[SN_NAXES]; /* since the last take, the last AGREE */
    int fence_at; /* operation of the train program; -1: none */
    bool is_past_fence;
    void (*fence)(void *arg);
    void *fence_arg;
    void (*idle)(void *arg); /* called by a backend that would wait */
    void *idle_arg;
    sn_exec_report *report;
    void *report_arg;
    struct sn_timeline *timeline; /* of the run under way; NULL: nobody wants it */
    struct sn_meter *meter;       /* NULL: nobody asks */
    struct sn_results *results;   /* NULL: nobody looks */
    int entry;                    /* of the schedule, that runs now */
    bool is_timed;                /* wait for each operation, to know what it takes */
};

/* An address where operations work. */
static inline char *sn_exec_there(const struct sn_exec *x, struct sn_address at)
{
    return x->arena[at.arena] + at.offset;
}

/* What this process has of it. */
static inline char *sn_exec_here(const struct sn_exec *x, struct sn_address at)
{
    bool is_small = at.arena == SN_ARENA_STATE && at.offset >= x->small_from;
    return is_small ? x->small + (at.offset - x->small_from) : x->here[at.arena] + at.offset;
}

/* Where a class of the state begins. */
static inline struct sn_address sn_exec_class(const struct sn_exec *x, enum sn_class c)
{
    return (struct sn_address){sn_class_row(c)->arena, x->job->class_offset[c]};
}

/* ---- exec.c ---- */

/* A view in the memory where operations work. */
struct sn_mat sn_exec_resolve(const struct sn_exec *x, const struct sn_program *p,
                              const struct sn_view *v, const struct sn_at *at);
enum sn_acc sn_exec_acc(enum sn_acc_rule r, const struct sn_at *at);
/* All that a kernel is told. */
void sn_exec_args(const struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                  const struct sn_at *at, struct sn_args *out);
/* Is this rank member 0 of every group of the mask? */
bool sn_exec_is_first(const struct sn_exec *x, unsigned groups);
/* Does it run on this micro-batch? */
bool sn_exec_due(const struct sn_op *op, const struct sn_at *at);
/* It took so long: for sn_exec_times(), and x->tell. */
void sn_exec_take_time(struct sn_exec *x, const struct sn_op *op, double seconds);

/* ---- exec_comm.c ---- */

/* Which of an operation's codecs is used now. */
int sn_exec_codec_level(const struct sn_exec *x, const struct sn_op *op);
/* What an operation moves, where operations work. */
struct sn_transfer sn_exec_transfer(const struct sn_exec *x, const struct sn_program *p,
                                    const struct sn_op *op, const struct sn_at *at);
/* What is posted and meets no other rank is a COPY: of this. False: it lies there already. */
bool sn_exec_copy_args(const struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                       const struct sn_at *at, struct sn_args *out);
/* Who sends how many rows to whom; `bounds` in this process's memory. */
struct sn_exchange sn_exec_exchange(const struct sn_exec *x, const struct sn_op *op,
                                    const struct sn_at *at, const int32_t *bounds);
/* Does it move rows that are counted when it runs? */
static inline bool sn_exec_has_rows(const struct sn_op *op)
{
    return sn_op_row(op->kind)->counts_rows;
}
/* Let *t move the rows of requests->exchange, and count them. */
void sn_exec_take_rows(struct sn_exec *x, const struct sn_op *op, struct sn_transfer *t,
                       struct sn_op_requests *requests);
/* Number of a posted operation's place in x->requests. */
int sn_exec_request_place(const struct sn_exec *x, const struct sn_op *op, int id, int slot);
/* Neighbours in a ring: who to receive from, who to send to. */
int sn_exec_previous(const struct sn_exec *x, const struct sn_op *op);
int sn_exec_next(const struct sn_exec *x, const struct sn_op *op);
/* Post on the communicator; both halves of a shift. */
void sn_exec_post(struct sn_exec *x, const struct sn_op *op, const struct sn_transfer *t,
                  struct sn_op_requests *requests);
/* Until what was posted is done. */
enum sn_status sn_exec_wait(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at,
                            struct sn_err *err);
/* Is operation i the one before which the state must have been copied? Once in a walk. */
bool sn_exec_is_fence(struct sn_exec *x, const struct sn_program *p, int i);
/* The ranks agree on the end of a step: adds up the scalars of this process's memory. */
enum sn_status sn_exec_agree(struct sn_exec *x, const struct sn_op *op, struct sn_err *err);

/* ---- timeline.c: nothing where no timeline is kept ---- */

/* Around a run. */
void sn_timeline_start(struct sn_exec *x);
void sn_timeline_finish(struct sn_exec *x);
/* Around an operation, which began now by the host's clock. */
void sn_timeline_begin(struct sn_exec *x, int op, const struct sn_at *at, double now);
void sn_timeline_end(struct sn_exec *x);
/* Before its end: if it computes, it has ended now by the host's clock. */
void sn_timeline_computed(struct sn_exec *x, double now);
/* This operation is moved by the communicator: where it says when, or NULL. */
struct sn_transfer_times *sn_timeline_moves(struct sn_exec *x, const struct sn_op *op);

/* ---- meter.c: nothing without a meter ---- */

/* Around a run, and before each entry of its schedule. */
void sn_meter_start(struct sn_exec *x, const struct sn_program *p);
void sn_meter_entry(struct sn_exec *x, int sched);
void sn_meter_finish(struct sn_exec *x);
void sn_meter_took(struct sn_meter *m, const struct sn_op *op, double seconds);
/* All ranks have agreed, now. */
void sn_meter_agreed(struct sn_exec *x);
/* As sn_timeline_moves. */
struct sn_transfer_times *sn_meter_moves(struct sn_exec *x, const struct sn_op *op);

/* ---- results.c: nothing where nobody looks ---- */

/* Operation i has ended. */
void sn_results_tell(struct sn_exec *x, const struct sn_program *p, int i, const struct sn_at *at);

#endif
