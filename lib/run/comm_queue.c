#include "lib/run/comm_queue.h"

#include <signal.h>

enum { SPINS = 2000 }; /* a load each: about 2 us, the price of going to sleep */

static void counter_init(struct sn_comm_counter *c)
{
    (void)pthread_mutex_init(&c->lock, NULL); /* default attributes: cannot fail on Linux */
    (void)pthread_cond_init(&c->grown, NULL);
}

static void counter_fini(struct sn_comm_counter *c)
{
    (void)pthread_cond_destroy(&c->grown);
    (void)pthread_mutex_destroy(&c->lock);
}

static void counter_add(struct sn_comm_counter *c)
{
    (void)pthread_mutex_lock(&c->lock);
    atomic_fetch_add(&c->value, 1);
    (void)pthread_cond_broadcast(&c->grown);
    (void)pthread_mutex_unlock(&c->lock);
}

static void counter_wait(struct sn_comm_counter *c, uint64_t value)
{
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&c->value, memory_order_acquire) >= value)
            return;
    (void)pthread_mutex_lock(&c->lock);
    while (atomic_load(&c->value) < value)
        (void)pthread_cond_wait(&c->grown, &c->lock);
    (void)pthread_mutex_unlock(&c->lock);
}

int sn_comm_queue_start(struct sn_comm_queue *q, void *(*loop)(void *), void *arg)
{
    sigset_t all, before;
    counter_init(&q->posted);
    counter_init(&q->done);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited, also by threads of MPI */
    int rc = pthread_create(&q->consumer, NULL, loop, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        counter_fini(&q->done);
        counter_fini(&q->posted);
        return rc;
    }
    (void)pthread_setname_np(q->consumer, "sennit-comm"); /* for people with a debugger */
    return 0;
}

void sn_comm_queue_fini(struct sn_comm_queue *q)
{
    (void)pthread_join(q->consumer, NULL);
    counter_fini(&q->done);
    counter_fini(&q->posted);
}

uint64_t sn_comm_queue_post(struct sn_comm_queue *q, const struct sn_comm_op *op)
{
    uint64_t last = atomic_load(&q->posted.value);
    if (last >= SN_COMM_RING)
        counter_wait(&q->done, last + 1 - SN_COMM_RING);
    q->ring[last % SN_COMM_RING] = *op;
    counter_add(&q->posted);
    return last + 1;
}

void sn_comm_queue_wait(struct sn_comm_queue *q, uint64_t ticket)
{
    atomic_store(&q->awaited, ticket);
    counter_wait(&q->done, ticket);
}

bool sn_comm_queue_is_awaited(const struct sn_comm_queue *q)
{
    return atomic_load(&q->awaited) > atomic_load(&q->done.value);
}

struct sn_comm_op sn_comm_queue_next(struct sn_comm_queue *q)
{
    uint64_t done = atomic_load(&q->done.value); /* only this thread changes it */
    counter_wait(&q->posted, done + 1);
    return q->ring[done % SN_COMM_RING];
}

void sn_comm_queue_done(struct sn_comm_queue *q)
{
    counter_add(&q->done);
}
