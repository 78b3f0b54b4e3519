/*
 * verify_trace.h - what a program posts and waits for, in order. Internal to the verifier.
 *
 * A trace belongs to a program, not to a rank: ranks that share a text share it. While it is made,
 * memory under way is checked (verify_memory.c), because that depends on the order of one rank's
 * operations alone.
 */
#ifndef SN_VERIFY_TRACE_H
#define SN_VERIFY_TRACE_H

#include "lib/program/opinfo.h"
#include "lib/program/program.h"

/* One communication. Collectives of a rank are a queue for each axis (sn_group_queue), each port is
 * another. */
struct sn_trace_post {
    int op, micro;
    int port; /* -1: a collective */
    int seq;  /* its number in its queue; -1: it is in none, as no other rank meets it */
    int next; /* the following post of that queue; -1 */
};

/* Posts, one after another. */
struct sn_trace_queue {
    int first, last, total; /* -1: none */
};

/* Sends to, or receives from, one member with one tag. */
struct sn_trace_port {
    bool sends;
    bool ring; /* of a SHIFT: `peer` is +1 (next) or -1 (previous) from the own index */
    enum sn_group group;
    int peer, tag;
    struct sn_trace_queue queue;
};

/* Events: p + 1 posts post p, -(p + 1) waits for it, 0 waits for everything posted so far. */
struct sn_trace {
    const struct sn_program *program;
    unsigned first; /* bit g: for member 0 of group g (only of groups that matter) */
    int rank;       /* the lowest that runs it */
    int *events;
    struct sn_trace_post *posts;
    struct sn_trace_port *ports;
    int n_events, n_posts, n_ports;
    int cap_events, cap_posts, cap_ports;
    struct sn_trace_queue collectives[SN_NAXES];
};

/* A rank's place, and what it runs. */
struct sn_trace_of {
    const struct sn_grid *grid;
    const struct sn_job *job;
    const struct sn_program *program;
    int rank;
};

/* Groups whose members 0 may post something else than the others. */
unsigned sn_trace_groups(const struct sn_program *p);
/* Bit g: the rank is member 0 of group g. */
unsigned sn_trace_first(const struct sn_grid *g, int rank);
/* SN_EFAIL: a fault that one rank alone shows. *t is zeroed memory; caller ends it either way. */
enum sn_status sn_trace_init(struct sn_trace *t, const struct sn_trace_of *of, struct sn_err *err);
void sn_trace_fini(struct sn_trace *t);

/* What a post is on the wire. A SHIFT is a send or a receive by its port. */
struct sn_trace_wire {
    enum sn_collective kind;
    enum sn_group group;
    enum sn_dtype dtype;
    int64_t n;
    const char *label;
};
struct sn_trace_wire sn_trace_wire(const struct sn_trace *t, int post);

/* "rank 3 (data 0, tensor 1, context 0, pipeline 1)" */
struct sn_rank_text {
    char s[192];
};
struct sn_rank_text sn_rank_text(const struct sn_grid *g, int rank);

/* --- memory under way (verify_memory.c) ------------------------------------------------------- */

/* Rows of `width` bytes, `stride` apart; addresses count through all arenas. */
struct sn_byte_span {
    int64_t at, width, stride, rows; /* rows 0: none */
};

/* Memory that an operation under way reads or writes. Those of one state buffer are a list, and
 * those of the scratch arena, whose buffers share memory, are one: a reduction of gradients may be
 * under way for the whole of backward, and there are as many of these as there are layers. */
struct sn_buffer_use {
    int op, post;
    bool writes;
    struct sn_byte_span span;
    int list, next, before; /* its list and its neighbours there; -1: none */
    int other;              /* the operation's other use; -1 */
};

struct sn_flights {
    struct sn_buffer_use *uses;
    int n_uses, cap_uses, free; /* the free ones follow one another from `free` by `next`; -1 */
    int *first, n_lists;        /* the newest use of each list; -1 */
    int *of_post, n_posts, cap_posts; /* a use of each post; -1: it is not under way */
};

struct sn_memory_at {
    const struct sn_trace_of *of;
    int micro, slot, late;
};

/* False: no memory. Caller ends it either way. */
bool sn_flights_init(struct sn_flights *f, const struct sn_program *p);
void sn_flights_fini(struct sn_flights *f);
/* SN_EFAIL when operation `op` uses what is under way. */
enum sn_status sn_flights_check(const struct sn_flights *f, const struct sn_memory_at *at, int op,
                                struct sn_err *err);
/* Operation `op` is under way as post `post`. False: no memory. */
bool sn_flights_begin(struct sn_flights *f, const struct sn_memory_at *at, int op, int post);
void sn_flights_end(struct sn_flights *f, int post);
void sn_flights_end_all(struct sn_flights *f);

/* SN_EFAIL when some operation reads what nothing has written, or has other operands than its kind
 * (verify_written.c). */
enum sn_status sn_written_check(const struct sn_trace_of *of, struct sn_err *err);

#endif
