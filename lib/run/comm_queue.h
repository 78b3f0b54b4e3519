/*
 * comm_queue.h - the ring between the thread that posts operations and the one that carries them
 * out. One producer, one consumer; waiting threads sleep after a short spin, because hosts are
 * shared. Knows nothing of what an operation does. No allocation.
 */
#ifndef SN_COMM_QUEUE_H
#define SN_COMM_QUEUE_H

#include "kernels/tensor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SN_COMM_RING = 256 };

enum sn_comm_kind {
    SN_COMM_START,
    SN_COMM_ALL_REDUCE,
    SN_COMM_BARRIER,
    SN_COMM_BROADCAST,
    SN_COMM_AGREE,
    SN_COMM_STOP
};

struct sn_comm_op {
    enum sn_comm_kind kind;
    enum sn_dtype dtype;
    int root;
    int64_t n;           /* elements of an all-reduce, bytes of a broadcast */
    void *buf, *staging; /* borrowed until the operation is done */
};

/* A number that only grows, and those who wait for it. */
struct sn_comm_counter {
    _Atomic uint64_t value;
    pthread_mutex_t lock;
    pthread_cond_t grown;
};

struct sn_comm_queue {
    pthread_t consumer;
    struct sn_comm_op ring[SN_COMM_RING];
    struct sn_comm_counter posted, done;
    _Atomic uint64_t awaited; /* the last ticket that the producer waited for */
};

/* Start the consumer, a thread that runs `loop(arg)` and takes no signals. The queue is zeroed
 * memory. Returns 0 or an errno, with nothing to undo. */
int sn_comm_queue_start(struct sn_comm_queue *q, void *(*loop)(void *), void *arg);
/* Producer: wait for the loop to end, which it does after SN_COMM_STOP. */
void sn_comm_queue_fini(struct sn_comm_queue *q);

/* Producer: returns the operation's ticket (1, 2, ...); waits while the ring is full. */
uint64_t sn_comm_queue_post(struct sn_comm_queue *q, const struct sn_comm_op *op);
/* Producer: until the ticket's operation is done. */
void sn_comm_queue_wait(struct sn_comm_queue *q, uint64_t ticket);
/* Consumer: the oldest operation that is not done; waits for one. */
struct sn_comm_op sn_comm_queue_next(struct sn_comm_queue *q);
/* Consumer: is the producer waiting for that operation or for one behind it? */
bool sn_comm_queue_is_awaited(const struct sn_comm_queue *q);
/* Consumer: that operation is done. */
void sn_comm_queue_done(struct sn_comm_queue *q);

#endif
