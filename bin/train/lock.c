#include "bin/train/lock.h"

#include "lib/base/clock.h"
#include "lib/base/directory.h"
#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "lib/comm/solo.h"

#include <string.h>
#include <time.h>

static void *heartbeat(void *self)
{
    struct sn_train_lock *l = self;
    (void)pthread_mutex_lock(&l->mutex);
    while (!l->is_closing) {
        struct timespec next = {.tv_sec = (time_t)sn_clock() + 1};
        (void)pthread_cond_timedwait(&l->changed, &l->mutex, &next); /* the loop looks again */
        (void)pthread_mutex_unlock(&l->mutex); /* a file system may take its time */
        sn_runlock_heartbeat(&l->lock);
        (void)pthread_mutex_lock(&l->mutex);
    }
    (void)pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static bool is_asked(void *self)
{
    struct timespec moment = {.tv_nsec = 200000000};
    (void)nanosleep(&moment, NULL);
    return sn_signals_wanted(self) != 0;
}

/* In the time of SN_RUNLOCK_HEARTBEAT. Without a thread, another host may take the record for
 * stale. */
static void keep_up(struct sn_train_lock *l)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr); /* these cannot fail on Linux */
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&l->mutex, NULL);
    (void)pthread_cond_init(&l->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    int rc = sn_thread_start(&l->thread, 0, heartbeat, l);
    l->has_thread = rc == 0;
    if (rc != 0)
        sn_log(SN_LOG_WARN, "%s: no thread that keeps its record up: %s", l->lock.path,
               strerror(rc));
}

static enum sn_status take(struct sn_train_lock *l, const struct sn_train_lock_want *w,
                           struct sn_err *err)
{
    struct sn_runlock_want want = {.program = "sennit-train",
                                   .supervisor = w->supervisor,
                                   .output = w->config->run.output,
                                   .job = w->allocation->job,
                                   .restart = w->allocation->restarts,
                                   .is_asked = is_asked,
                                   .self = w->signals};
    SN_TRY(sn_directory_make(w->config->run.output, "run.output", err));
    SN_TRY(sn_runlock_take(&l->lock, &want, err));
    l->is_open = true;
    if (l->lock.fd >= 0) /* else it is the supervisor's */
        keep_up(l);
    return SN_OK;
}

enum sn_status sn_train_lock_open(struct sn_train_lock *l, const struct sn_train_lock_want *w,
                                  struct sn_err *err)
{
    struct sn_comm *comm = w->leaving->comm;
    struct sn_solo *solo = NULL;
    struct sn_solo_env env = {.comm = comm,
                              .timeout_s = w->config->run.hang_timeout,
                              .give_up = sn_train_give_up,
                              .self = w->leaving};
    *l = (struct sn_train_lock){0};
    enum sn_status st = sn_solo_create(&solo, &env, err);
    SN_TRY(comm->ops->agree(comm, st, err));
    sn_solo_begin(solo, "start: lock of the run", false);
    st = sn_solo_end(solo, comm->rank == 0 ? take(l, w, err) : SN_OK, err);
    sn_solo_destroy(solo);
    return st;
}

void sn_train_lock_close(struct sn_train_lock *l)
{
    if (!l->is_open)
        return;
    if (l->has_thread) {
        (void)pthread_mutex_lock(&l->mutex);
        l->is_closing = true;
        (void)pthread_cond_broadcast(&l->changed);
        (void)pthread_mutex_unlock(&l->mutex);
        (void)pthread_join(l->thread, NULL);
        (void)pthread_cond_destroy(&l->changed);
        (void)pthread_mutex_destroy(&l->mutex);
    }
    sn_runlock_release(&l->lock);
    *l = (struct sn_train_lock){0};
}
