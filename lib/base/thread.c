#include "lib/base/thread.h"

#include <sched.h>
#include <signal.h>

int sn_thread_start(pthread_t *out, size_t stack, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc)
        return rc;
    if (stack > 0)
        rc = pthread_attr_setstacksize(&attr, stack);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc == 0)
        rc = pthread_create(out, &attr, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return rc;
}

int sn_cores(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return cores > 0 ? cores : 1;
}
