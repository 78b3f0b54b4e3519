/*
 * exec_inner.h - the executor's own struct, shared by exec.c (this processor) and exec_device.c (a
 * device). Internal to lib/exec.
 */
#ifndef SN_EXEC_INNER_H
#define SN_EXEC_INNER_H

#include "lib/exec/exec.h"
#include "lib/exec/pace.h"
#include "lib/exec/timeline.h"
#include "lib/program/opinfo.h"

/* Requests of one posted operation in one slot; a shift has two. */
struct sn_posted {
    sn_request request[2];
    struct sn_exchange exchange;
};

struct sn_exec_device; /* exec_device.c */

struct sn_exec {
    const struct sn_job *job;
    struct sn_comm *comm;
    char *state, *scratch; /* where operations work: memory of the device, if there is one */
    char *host;            /* the state in this process's memory: `state`, or a mirror of it, */
    char *small;           /* and from offset `small_from` on: what goes over with each step */
    int64_t small_from;
    struct sn_exec_device *device; /* NULL: operations run here */
    struct sn_posted *posted; /* of an operation: one, or one for each slot where those are apart */
    int *first_posted;        /* by operation id, and the end */
    struct sn_exec_time times[SN_NKINDS];
    struct sn_pace pace;
    struct sn_routed routed;
    int64_t off_plan[SN_NAXES], off_untold[SN_NAXES]; /* since the last take, the last AGREE */
    void (*fence)(void *arg);
    void *fence_arg;
    void (*idle)(void *arg); /* on a device */
    void *idle_arg;
    int fenced; /* the operation of the train program that it stands before; -1 */
    sn_exec_tell *tell;
    void *tell_arg;
    struct sn_timeline *timeline; /* of the run under way; NULL: nobody wants it */
    bool is_timed;                /* on a device: wait for each operation, to know what it takes */
};

/* What this process has of the state, at an offset of it. */
static inline char *sn_exec_here(const struct sn_exec *x, int64_t offset)
{
    return offset < x->small_from ? x->host + offset : x->small + (offset - x->small_from);
}

/* ---- exec.c ---- */

/* A view in the memory where operations work. */
struct sn_mat sn_exec_resolve(const struct sn_exec *x, const struct sn_program *p,
                              const struct sn_view *v, const struct sn_at *at);
enum sn_acc sn_exec_acc(enum sn_acc_rule r, const struct sn_at *at);
/* All that a kernel is told. */
void sn_exec_args(const struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                  const struct sn_at *at, struct sn_args *out);
/* Does it run on this micro-batch? */
bool sn_exec_due(const struct sn_op *op, const struct sn_at *at);
/* Run what is due of a chunk. */
enum sn_status sn_exec_walk(struct sn_exec *x, const struct sn_program *p, int chunk,
                            struct sn_at at, struct sn_err *err);

/* ---- exec_comm.c ---- */

/* Which of an operation's codecs is used now. */
int sn_exec_codec_level(const struct sn_exec *x, const struct sn_op *op);
/* What an operation moves, where operations work. */
struct sn_transfer sn_exec_transfer(const struct sn_exec *x, const struct sn_program *p,
                                    const struct sn_op *op, const struct sn_at *at);
/* Who sends how many rows to whom; `bounds` in this process's memory. */
struct sn_exchange sn_exec_exchange(const struct sn_exec *x, const struct sn_op *op,
                                    const struct sn_at *at, const int32_t *bounds);
struct sn_exchange sn_exec_exchange_here(const struct sn_exec *x, const struct sn_program *p,
                                         const struct sn_op *op, const struct sn_at *at);
/* Does it move rows that are counted when it runs? */
static inline bool sn_exec_has_rows(const struct sn_op *op)
{
    return sn_op_row(op->kind)->counts_rows;
}
/* Let *t move the rows of requests->exchange, and count them. */
void sn_exec_take_rows(struct sn_exec *x, const struct sn_op *op, struct sn_transfer *t,
                       struct sn_posted *requests);
/* Number of a posted operation's place in x->posted. */
int sn_exec_posted(const struct sn_exec *x, const struct sn_op *op, int id, int slot);
/* Neighbours in a ring: who to receive from, who to send to. */
int sn_exec_previous(const struct sn_exec *x, const struct sn_op *op);
int sn_exec_next(const struct sn_exec *x, const struct sn_op *op);
/* Post on the communicator; both halves of a shift. */
void sn_exec_post(struct sn_exec *x, const struct sn_op *op, const struct sn_transfer *t,
                  struct sn_posted *requests);
/* The whole of a communication operation, where operations work in this process's memory. */
void sn_exec_begin(struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                   const struct sn_at *at);
enum sn_status sn_exec_wait(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at,
                            struct sn_err *err);
/* The ranks agree on the end of a step: adds up the scalars of this process's memory. */
enum sn_status sn_exec_agree(struct sn_exec *x, const struct sn_op *op, struct sn_err *err);

/* ---- timeline.c: nothing where no timeline is kept ---- */

/* Around a run. */
enum sn_status sn_timeline_start(struct sn_exec *x, struct sn_err *err);
enum sn_status sn_timeline_finish(struct sn_exec *x, struct sn_err *err);
/* Around an operation, with the host's clock. */
void sn_timeline_begin(struct sn_exec *x, int op, const struct sn_at *at, double now);
void sn_timeline_end(struct sn_exec *x, double now);
/* This operation is moved by the communicator: where it says when, or NULL. */
struct sn_transfer_times *sn_timeline_moves(struct sn_exec *x, const struct sn_op *op);
/* On a device: this operation is moved on a stream of its own, */
void sn_timeline_moves_on(struct sn_exec *x, const struct sn_op *op);
/* and begins or ends when the stream comes here. */
enum sn_status sn_timeline_stamp(struct sn_exec *x, int stream, bool is_end, struct sn_err *err);

/* ---- exec_device.c: each returns at once but where it says so ---- */

/* Memory of the device for x->state and x->scratch, and what goes with it. */
enum sn_status sn_exec_device_create(struct sn_exec *x, struct sn_accelerator *a,
                                     struct sn_err *err);
void sn_exec_device_destroy(struct sn_exec *x);
/* Around a walk of `p`: scalars and batch go to the device; scalars come back, which waits. Whole
 * runs of the train program become graphs. */
enum sn_status sn_exec_device_begin(struct sn_exec *x, const struct sn_program *p, bool is_whole,
                                    struct sn_err *err);
enum sn_status sn_exec_device_end(struct sn_exec *x, bool is_whole, struct sn_err *err);
/* Clocks around each operation, for x->tell. */
enum sn_status sn_exec_device_clocks(struct sn_exec *x, struct sn_err *err);
/* From here on operations are those of an entry of the schedule, whose micro-batch has this first
 * sample. done: so many entries, from this one on, are enqueued by that and need no walk. */
enum sn_status sn_exec_device_micro(struct sn_exec *x, int entry, int64_t first_sample, int *done,
                                    struct sn_err *err);
/* One operation: enqueued, kept in a graph, or part of a graph that is there. */
enum sn_status sn_exec_device_op(struct sn_exec *x, const struct sn_program *p, int i,
                                 const struct sn_at *at, struct sn_err *err);
/* How many rounds the EXCHANGE at operation i takes; waits for the bounds. Operations of further
 * rounds, which nobody can count before, are enqueued up to rounds_end. */
enum sn_status sn_exec_device_rounds(struct sn_exec *x, const struct sn_program *p, int i,
                                     const struct sn_at *at, int *rounds, struct sn_err *err);
void sn_exec_device_rounds_end(struct sn_exec *x);
/* Add what went through channels, by their logical sizes. */
void sn_exec_device_take_sent(struct sn_exec *x, int64_t bytes[SN_NAXES]);
enum sn_status sn_exec_device_pull(struct sn_exec *x, struct sn_err *err);
/* These wait. */
enum sn_status sn_exec_device_pulled(struct sn_exec *x, struct sn_err *err);
enum sn_status sn_exec_device_push(struct sn_exec *x, struct sn_err *err);
enum sn_status sn_exec_device_fetch(struct sn_exec *x, const char *at, int64_t bytes,
                                    const void **out, struct sn_err *err);

#endif
