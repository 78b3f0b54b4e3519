#include "lib/comm/comm_queue.h"

#include "lib/base/thread.h"

#include <time.h>

enum { SPINS = 2000 }; /* a load each: about 2 us, the price of going to sleep */

static void counter_init(struct sn_comm_counter *c)
{
    pthread_condattr_t attr; /* none of these can fail on Linux */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->grown, &attr);
    (void)pthread_condattr_destroy(&attr);
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

/* Until `value`, which grows together with the counter, has come up to `least`. */
static void wait_for(struct sn_comm_counter *c, const _Atomic uint64_t *value, uint64_t least)
{
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(value, memory_order_acquire) >= least)
            return;
    (void)pthread_mutex_lock(&c->lock);
    while (atomic_load(value) < least)
        (void)pthread_cond_wait(&c->grown, &c->lock);
    (void)pthread_mutex_unlock(&c->lock);
}

static struct timespec after(int64_t ns)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    ns += t.tv_nsec;
    t.tv_sec += ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    return t;
}

/* One second from now. */
static struct timespec soon(void)
{
    return after(1000000000);
}

/* As wait_for, of what the consumer does; false when it is stuck. */
static bool wait_for_consumer(struct sn_comm_queue *q, const _Atomic uint64_t *value,
                              uint64_t least)
{
    struct sn_comm_counter *c = &q->completed;
    uint64_t heartbeats = atomic_load(&q->heartbeats);
    int still = 0; /* seconds without a heartbeat */
    if (q->limit_s == 0) {
        wait_for(c, value, least);
        return true;
    }
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(value, memory_order_acquire) >= least)
            return true;
    (void)pthread_mutex_lock(&c->lock);
    struct timespec until = soon();
    while (atomic_load(value) < least && still < q->limit_s) {
        if (pthread_cond_timedwait(&c->grown, &c->lock, &until) == 0)
            continue;
        still = atomic_load(&q->heartbeats) == heartbeats ? still + 1 : 0;
        heartbeats = atomic_load(&q->heartbeats);
        until = soon();
    }
    bool done = atomic_load(value) >= least;
    (void)pthread_mutex_unlock(&c->lock);
    return done;
}

int sn_comm_queue_start(struct sn_comm_queue *q, void *(*loop)(void *), void *arg)
{
    counter_init(&q->posted);
    counter_init(&q->completed);
    int rc = sn_thread_start(&q->consumer, 0, loop, arg); /* MPI starts its own from there */
    if (rc) {
        counter_fini(&q->completed);
        counter_fini(&q->posted);
        return rc;
    }
    (void)pthread_setname_np(q->consumer, "sennit-comm"); /* for people with a debugger */
    return 0;
}

void sn_comm_queue_fini(struct sn_comm_queue *q)
{
    (void)pthread_join(q->consumer, NULL);
    counter_fini(&q->completed);
    counter_fini(&q->posted);
}

/* ---- the producer --------------------------------------------------------------------------- */

/* Tell the consumer, should it nap, that from now on every microsecond counts. */
static void await(struct sn_comm_queue *q, uint64_t what)
{
    (void)pthread_mutex_lock(&q->posted.lock);
    atomic_store(&q->awaited, what);
    (void)pthread_cond_broadcast(&q->posted.grown);
    (void)pthread_mutex_unlock(&q->posted.lock);
}

static int find_free(struct sn_comm_queue *q)
{
    for (int i = 0; i < SN_COMM_QUEUE_DEPTH; i++) {
        int at = (q->next + i) % SN_COMM_QUEUE_DEPTH;
        if (atomic_load_explicit(&q->slot[at].done, memory_order_acquire) == q->slot[at].uses)
            return at;
    }
    return -1;
}

static int get_free(struct sn_comm_queue *q)
{
    for (;;) {
        uint64_t seen = atomic_load(&q->completed.value); /* before the search: misses nothing */
        int at = find_free(q);
        if (at >= 0)
            return at;
        await(q, SN_COMM_ANY);
        wait_for(&q->completed, &q->completed.value, seen + 1);
        await(q, 0);
    }
}

sn_request sn_comm_queue_post(struct sn_comm_queue *q, const struct sn_comm_op *op)
{
    int at = get_free(q);
    q->next = (at + 1) % SN_COMM_QUEUE_DEPTH;
    q->slot[at].op = *op;
    q->slot[at].uses++;
    q->order[atomic_load(&q->posted.value) % SN_COMM_QUEUE_DEPTH] = at;
    counter_add(&q->posted);
    return q->slot[at].uses * SN_COMM_QUEUE_DEPTH + (uint64_t)at;
}

bool sn_comm_queue_wait(struct sn_comm_queue *q, sn_request request)
{
    const struct sn_comm_slot *s = &q->slot[request % SN_COMM_QUEUE_DEPTH];
    uint64_t use = request / SN_COMM_QUEUE_DEPTH;
    if (atomic_load_explicit(&s->done, memory_order_acquire) >= use)
        return true;
    await(q, request);
    bool done = wait_for_consumer(q, &s->done, use);
    await(q, 0);
    return done;
}

bool sn_comm_queue_drain(struct sn_comm_queue *q)
{
    uint64_t all = atomic_load(&q->posted.value);
    if (atomic_load_explicit(&q->completed.value, memory_order_acquire) >= all)
        return true;
    await(q, SN_COMM_ANY);
    bool done = wait_for_consumer(q, &q->completed.value, all);
    await(q, 0);
    return done;
}

/* ---- the consumer --------------------------------------------------------------------------- */

int sn_comm_queue_take(struct sn_comm_queue *q)
{
    if (atomic_load_explicit(&q->posted.value, memory_order_acquire) == q->taken)
        return -1;
    return q->order[q->taken++ % SN_COMM_QUEUE_DEPTH];
}

void sn_comm_queue_done(struct sn_comm_queue *q, int slot)
{
    atomic_fetch_add(&q->slot[slot].done, 1);
    counter_add(&q->completed);
}

bool sn_comm_queue_is_awaited(const struct sn_comm_queue *q)
{
    return atomic_load_explicit(&q->awaited, memory_order_relaxed) != 0;
}

bool sn_comm_queue_awaits(const struct sn_comm_queue *q, int slot)
{
    uint64_t what = atomic_load(&q->awaited);
    return what == SN_COMM_ANY || (what != 0 && (int)(what % SN_COMM_QUEUE_DEPTH) == slot);
}

int sn_comm_queue_awaited(const struct sn_comm_queue *q)
{
    uint64_t what = atomic_load(&q->awaited);
    return what == 0 || what == SN_COMM_ANY ? -1 : (int)(what % SN_COMM_QUEUE_DEPTH);
}

void sn_comm_queue_idle(struct sn_comm_queue *q, int64_t ns)
{
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&q->posted.value, memory_order_acquire) != q->taken)
            return;
    struct timespec until = after(ns);
    (void)pthread_mutex_lock(&q->posted.lock);
    while (atomic_load(&q->posted.value) == q->taken)
        if (pthread_cond_timedwait(&q->posted.grown, &q->posted.lock, &until) != 0)
            break;
    (void)pthread_mutex_unlock(&q->posted.lock);
}

void sn_comm_queue_nap(struct sn_comm_queue *q, int64_t ns)
{
    bool was_awaited = sn_comm_queue_is_awaited(q);
    struct timespec until = after(ns);
    (void)pthread_mutex_lock(&q->posted.lock);
    if (atomic_load(&q->posted.value) == q->taken && was_awaited == sn_comm_queue_is_awaited(q))
        (void)pthread_cond_timedwait(&q->posted.grown, &q->posted.lock, &until); /* or sooner */
    (void)pthread_mutex_unlock(&q->posted.lock);
}
