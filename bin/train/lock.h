/*
 * lock.h - one trainer at a time works on a run directory, supervised or not.
 */
#ifndef SN_TRAIN_LOCK_H
#define SN_TRAIN_LOCK_H

#include "bin/train/end.h"
#include "lib/rundir/runlock.h"
#include "lib/rundir/signals.h"
#include "slurm/scheduler/allocation.h"

#include <pthread.h>

struct sn_train_lock {
    struct sn_runlock lock;
    pthread_t thread; /* proves that this process lives, also while it works for minutes */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_open, has_thread, is_closing;
};

struct sn_train_lock_want {
    const struct sn_config *config;
    const struct sn_allocation *allocation;
    const char *supervisor; /* NULL: this trainer has none */
    struct sn_signals *signals;
    struct sn_train_leaving *leaving;
};
/* Process 0 makes run.output and takes its lock, which the supervisor may have for it; the others
 * wait for that. Collective. SN_EINPUT: another process works there, and nothing was touched. */
enum sn_status sn_train_lock_open(struct sn_train_lock *l, const struct sn_train_lock_want *w,
                                  struct sn_err *err);
void sn_train_lock_close(struct sn_train_lock *l); /* a zeroed one is allowed */

#endif
