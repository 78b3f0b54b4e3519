/*
 * comm_queue.h - between the thread that posts operations and the one that carries them out. One
 * producer, one consumer; waiting threads sleep after a short spin, because hosts are shared. The
 * consumer takes operations in the order of posting and may finish them in any order. Knows nothing
 * of what an operation does. No allocation.
 */
#ifndef SN_COMM_QUEUE_H
#define SN_COMM_QUEUE_H

#include "lib/comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SN_COMM_QUEUE_DEPTH = 256 }; /* operations in flight */

enum sn_comm_kind {
    SN_COMM_TRANSFER,
    SN_COMM_START,
    SN_COMM_GRID,
    SN_COMM_WATCH,
    SN_COMM_BARRIER,
    SN_COMM_BROADCAST,
    SN_COMM_GATHER,
    SN_COMM_RENUMBER,
    SN_COMM_AGREE,
    SN_COMM_POLL,
    SN_COMM_STOP
};

struct sn_comm_op {
    enum sn_comm_kind kind;
    int root;                    /* of a broadcast or gather */
    int64_t n;                   /* bytes of a broadcast or gather, seconds of a watch */
    void *buf;                   /* what all but a transfer work on; borrowed until done */
    struct sn_transfer transfer; /* of a transfer; of a poll the label alone */
};

/* A number that only grows, and those who wait for it. */
struct sn_comm_counter {
    _Atomic uint64_t value;
    pthread_mutex_t lock;
    pthread_cond_t grown;
};

struct sn_comm_slot {
    struct sn_comm_op op;
    uint64_t uses;         /* how often the producer has filled it */
    _Atomic uint64_t done; /* how often the consumer has finished it */
};

struct sn_comm_queue {
    pthread_t consumer;
    struct sn_comm_slot slot[SN_COMM_QUEUE_DEPTH];
    int order[SN_COMM_QUEUE_DEPTH]; /* slots in the order of posting */
    struct sn_comm_counter posted, completed;
    uint64_t taken;              /* the consumer's */
    int next;                    /* the producer's: where to look for a free slot first */
    _Atomic uint64_t awaited;    /* the request that the producer waits for now; 0 if none */
    _Atomic uint64_t heartbeats; /* grows while the consumer is not stuck */
    int limit_s; /* the producer's: how long it waits without a heartbeat; 0: for good */
};

enum { SN_COMM_ANY = 1 }; /* awaited: several operations. No request has this value. */

/* Start the consumer, a thread that runs `loop(arg)` and takes no signals. The queue is zeroed
 * memory. Returns 0 or an errno, with nothing to undo. */
int sn_comm_queue_start(struct sn_comm_queue *q, void *(*loop)(void *), void *arg);
/* Producer: wait for the loop to end, which it does after SN_COMM_STOP. */
void sn_comm_queue_fini(struct sn_comm_queue *q);

/* Producer: returns the operation's request, never 0; waits while all slots are in use. */
sn_request sn_comm_queue_post(struct sn_comm_queue *q, const struct sn_comm_op *op);
/* Producer: until the request's operation is done; false when the consumer is stuck: no heartbeat
 * for limit_s seconds. */
bool sn_comm_queue_wait(struct sn_comm_queue *q, sn_request request);
/* Producer: until all that was posted is done; false as above. */
bool sn_comm_queue_drain(struct sn_comm_queue *q);

/* Consumer: the slot of the next operation in the order of posting; -1 if there is none now. */
int sn_comm_queue_take(struct sn_comm_queue *q);
/* Consumer: the operation of a slot that is done is the producer's again. */
void sn_comm_queue_done(struct sn_comm_queue *q, int slot);
/* Consumer: does the producer wait, for anything; for this operation. */
bool sn_comm_queue_is_awaited(const struct sn_comm_queue *q);
bool sn_comm_queue_awaits(const struct sn_comm_queue *q, int slot);
/* Consumer: the slot of the one operation that the producer waits for; -1: none, or for several. */
int sn_comm_queue_awaited(const struct sn_comm_queue *q);
/* Consumer: "I am not stuck"; whenever it looks around. */
static inline void sn_comm_queue_heartbeat(struct sn_comm_queue *q)
{
    atomic_fetch_add_explicit(&q->heartbeats, 1, memory_order_relaxed);
}
/* Consumer: sleep until there is an operation to take, for at most so long. */
void sn_comm_queue_idle(struct sn_comm_queue *q, int64_t ns);
/* Consumer: sleep for at most so long; less when an operation is posted or when a wait begins. */
void sn_comm_queue_nap(struct sn_comm_queue *q, int64_t ns);

#endif
