#include "bin/train/end.h"

#include "bin/common.h"
#include "bin/train/lock.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 10 }; /* then it ends in any case: what writes the record may hang as well */

void sn_train_give_up(void *self, const struct sn_err *why)
{
    struct sn_train_leaving *l = self;
    (void)alarm(SECONDS);
    if (l->comm->rank == 0)
        (void)sn_report(why);
    else
        (void)sleep(SECONDS / 3); /* rank 0 says it, and who has the record writes it down */
    sn_attempt_end(l->attempt, sn_exit_code(why->status), why);
    sn_comm_abort_mpi(sn_exit_code(why->status));
}

void sn_train_device_hangs(void *self, const struct sn_err *why)
{
    struct sn_train_leaving *l = self;
    struct sn_err said = *why;
    char host[64] = "unknown host";
    (void)alarm(SECONDS);
    if (l->comm->size > 1) {
        (void)gethostname(host, sizeof(host) - 1); /* a name cut short still helps */
        (void)sn_err_prefix(&said, "rank %d (%s)", l->comm->rank, host);
    }
    (void)sn_report(&said);
    if (l->comm->rank != 0)
        (void)sleep(SECONDS / 3); /* who has the record writes it down, and what rank 0 knows */
    sn_attempt_end(l->attempt, sn_exit_code(why->status), &said);
    if (l->comm->size == 1)
        _exit(sn_exit_code(why->status)); /* handlers of the exit would wait for the device */
    sn_comm_abort_mpi(sn_exit_code(why->status));
}

void sn_train_leave_early(void *self, int exit_code)
{
    const struct sn_train_leaving *l = self;
    const struct sn_err why = {
        .text = "asked to leave before the first step: there is nothing to save"};
    bool is_first = l->comm ? l->comm->rank == 0 : sn_comm_launched_rank() == 0;
    if (is_first)
        sn_log(SN_LOG_INFO, "%s", why.text);
    if (l->attempt)
        sn_attempt_end(l->attempt, exit_code, &why);
    if (l->lock)
        sn_train_lock_close(l->lock);
    if (!l->comm || l->comm->size == 1)
        _exit(exit_code); /* nobody waits, and the program's own thread is at work */
    if (!is_first)
        (void)sleep(1); /* all are asked, mostly; who writes records comes first */
    sn_comm_abort_mpi(exit_code);
}

struct ending {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_over;
    int rank, limit_s;
};

static void *wait_for_end(void *self)
{
    struct ending *e = self;
    double until = sn_clock() + e->limit_s;
    struct timespec t = {.tv_sec = (time_t)until + 1};
    char host[64] = "unknown host";
    (void)gethostname(host, sizeof(host) - 1); /* a name cut short still helps */
    (void)pthread_mutex_lock(&e->lock);
    while (!e->is_over && sn_clock() < until)
        (void)pthread_cond_timedwait(&e->changed, &e->lock, &t); /* the loop looks again */
    if (!e->is_over) {
        sn_log(
            SN_LOG_ERROR,
            "rank %d on %s has not ended for %d s: MPI waits for a rank that is gone or stopped; "
            "all that was to be saved is saved",
            e->rank, host, e->limit_s);
        _exit(sn_exit_code(SN_ELOST)); /* MPI's own abort would wait as well */
    }
    (void)pthread_mutex_unlock(&e->lock);
    return NULL;
}

void sn_train_end(struct sn_comm *comm, int limit_s)
{
    struct ending e = {.rank = comm->rank, .limit_s = limit_s};
    pthread_t thread;
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr); /* these cannot fail on Linux */
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&e.lock, NULL);
    (void)pthread_cond_init(&e.changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    bool is_watched = limit_s > 0 && comm->size > 1 &&
                      sn_thread_start(&thread, 0, wait_for_end, &e) == 0; /* else as before */
    comm->ops->destroy(comm);
    (void)pthread_mutex_lock(&e.lock);
    e.is_over = true;
    (void)pthread_cond_broadcast(&e.changed);
    (void)pthread_mutex_unlock(&e.lock);
    if (is_watched)
        (void)pthread_join(thread, NULL);
    (void)pthread_cond_destroy(&e.changed);
    (void)pthread_mutex_destroy(&e.lock);
}
