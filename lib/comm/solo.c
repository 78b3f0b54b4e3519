#include "lib/comm/solo.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FIRST_S 0.05 /* until the first meeting, so that short work needs one only */
#define MOST_S  0.25 /* between two */
#define GRACE_S 3.0  /* for the caller to come back by itself when all give up */

struct sn_solo {
    struct sn_solo_env env;
    struct sn_progress progress;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    const char *what;
    bool moves;
    enum sn_status started; /* of the thread, */
    enum sn_status status;  /* and what it has come to, */
    struct sn_err err;      /* when it has ended */
    /* under the lock: */
    bool has_ended; /* the work, so: */
    enum sn_status mine;
    struct sn_err my_err;
};

enum sn_status sn_solo_create(struct sn_solo **out, const struct sn_solo_env *env,
                              struct sn_err *err)
{
    struct sn_solo *v = sn_alloc(sizeof(*v));
    pthread_condattr_t attr; /* none of these can fail on Linux */
    if (!v)
        return sn_fail(err, SN_ENOMEM, "solo: no memory");
    v->env = *env;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&v->lock, NULL);
    (void)pthread_cond_init(&v->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    *out = v;
    return SN_OK;
}

void sn_solo_destroy(struct sn_solo *v)
{
    if (!v)
        return;
    (void)pthread_cond_destroy(&v->changed);
    (void)pthread_mutex_destroy(&v->lock);
    sn_free(v);
}

struct sn_progress *sn_solo_progress(struct sn_solo *v)
{
    return &v->progress;
}

/* --- the thread that meets the others --------------------------------------------------------- */

static struct timespec at_time(double clock)
{
    struct timespec t = {.tv_sec = (time_t)clock};
    t.tv_nsec = (long)((clock - (double)t.tv_sec) * 1e9);
    return t;
}

/* Until the work has ended, or the clock says `until`; under the lock. */
static void wait_for_end(struct sn_solo *v, double until)
{
    struct timespec t = at_time(until);
    while (!v->has_ended && sn_clock() < until)
        (void)pthread_cond_timedwait(&v->changed, &v->lock, &t); /* the loop looks again */
}

/* Marks as they were seen last, and when they had changed. */
struct moved {
    uint64_t marks;
    double at;
    struct sn_awake awake; /* whose time that is */
};

static bool is_stuck(struct sn_solo *v, struct moved *m)
{
    uint64_t marks = atomic_load_explicit(&v->progress.marks, memory_order_relaxed);
    double now = sn_awake_look(&m->awake, sn_clock());
    if (marks != m->marks) {
        m->marks = marks;
        m->at = now;
    }
    return v->moves && v->env.timeout_s > 0 && now - m->at > v->env.timeout_s;
}

static void say_stuck(const struct sn_solo *v, struct sn_err *err)
{
    char host[64] = "unknown host";
    (void)gethostname(host, sizeof(host) - 1); /* a name cut short still helps */
    (void)sn_fail(
        err, SN_ELOST,
        "rank %d on %s has not moved for %d s in '%s'; its file system or its memory does "
        "not answer, or run.hang_timeout is less than one block takes",
        v->env.comm->rank, host, v->env.timeout_s, v->what);
    err->agreed = 1; /* with the rank's name */
}

/* One meeting. Returns true when it was the last, with the outcome in *err. */
static bool poll_all(struct sn_solo *v, struct moved *m, int *word, struct sn_err *err)
{
    (void)pthread_mutex_lock(&v->lock);
    bool has_ended = v->has_ended;
    *err = v->my_err;
    *word = has_ended ? (int)v->mine : SN_POLL_WORKS;
    (void)pthread_mutex_unlock(&v->lock);
    if (!has_ended && is_stuck(v, m)) {
        say_stuck(v, err);
        *word = SN_POLL_STUCK;
    }
    *word = v->env.comm->ops->poll(v->env.comm, *word, v->what, err);
    return *word != SN_POLL_WORKS;
}

/* It is over, and the caller may still work: it comes back soon, or never. */
static void leave_without(struct sn_solo *v, const struct sn_err *why)
{
    (void)pthread_mutex_lock(&v->lock);
    wait_for_end(v, sn_clock() + GRACE_S);
    bool has_ended = v->has_ended;
    (void)pthread_mutex_unlock(&v->lock);
    if (!has_ended)
        v->env.give_up(v->env.self, why);
}

static void *watch_over(void *self)
{
    struct sn_solo *v = self;
    struct sn_err err = {0};
    struct moved m = {.marks = atomic_load(&v->progress.marks), .at = sn_clock()};
    int word = SN_POLL_WORKS;
    double pause = FIRST_S, most = v->env.timeout_s > 0 ? v->env.timeout_s / 8.0 : MOST_S;
    most = most < MOST_S ? most : MOST_S;
    do {
        (void)pthread_mutex_lock(&v->lock);
        wait_for_end(v, sn_clock() + pause); /* who has ended waits in the meeting */
        (void)pthread_mutex_unlock(&v->lock);
        pause = 2 * pause < most ? 2 * pause : most;
    } while (!poll_all(v, &m, &word, &err));
    leave_without(v, &err);
    v->status = (enum sn_status)word; /* for who joins this thread */
    v->err = err;
    return NULL;
}

/* --- the caller ------------------------------------------------------------------------------- */

void sn_solo_begin(struct sn_solo *v, const char *what, bool moves)
{
    if (v->env.comm->size == 1)
        return;
    v->what = what;
    v->moves = moves;
    v->has_ended = false;
    v->my_err = (struct sn_err){0};
    int rc = sn_thread_start(&v->thread, 0, watch_over, v);
    v->started = SN_OK;
    if (rc != 0)
        v->started = sn_fail(&v->err, SN_ENOMEM, "%s: no thread to look after the others: %s", what,
                             strerror(rc));
}

/* Without its thread this rank comes to the meetings when it has done its work. */
static enum sn_status end_alone(struct sn_solo *v, struct sn_err *err)
{
    int word;
    do {
        *err = v->err;
        word = v->env.comm->ops->poll(v->env.comm, (int)v->started, v->what, err);
    } while (word == SN_POLL_WORKS);
    return (enum sn_status)word;
}

enum sn_status sn_solo_end(struct sn_solo *v, enum sn_status mine, struct sn_err *err)
{
    if (v->env.comm->size == 1)
        return mine;
    if (v->started != SN_OK)
        return end_alone(v, err);
    (void)pthread_mutex_lock(&v->lock);
    v->has_ended = true;
    v->mine = mine;
    if (mine != SN_OK)
        v->my_err = *err;
    (void)pthread_cond_broadcast(&v->changed);
    (void)pthread_mutex_unlock(&v->lock);
    (void)pthread_join(v->thread, NULL);
    if (v->status != SN_OK)
        *err = v->err;
    return v->status;
}
