#include "lib/rundir/signals.h"

#include "lib/base/exit_code.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

struct sn_signals {
    pthread_t thread;
    sigset_t set;
    atomic_int wanted;
    atomic_bool closing;
    pthread_mutex_t lock; /* of: */
    void (*leave)(void *self, int code);
    void *self;
};

/* While nothing is to be saved it does not return. */
static void leave_if_asked(struct sn_signals *s)
{
    (void)pthread_mutex_lock(&s->lock);
    int code = atomic_load(&s->wanted);
    if (s->leave && code)
        s->leave(s->self, code);
    (void)pthread_mutex_unlock(&s->lock);
}

static void *watch(void *self)
{
    struct sn_signals *s = self;
    int interrupts = 0;
    for (;;) {
        int sig;
        if (sigwait(&s->set, &sig) != 0)
            continue;
        if (atomic_load(&s->closing))
            return NULL;
        if (sig == SIGINT && ++interrupts > 1)
            _exit(SN_EXIT_NOW);
        /* the gentler code wins: SIGTERM after SIGINT does not change what was promised */
        int none = 0;
        int code = sig == SIGTERM || sig == SIGHUP ? SN_EXIT_TERMINATED : SN_EXIT_SAVED;
        (void)atomic_compare_exchange_strong(&s->wanted, &none, code);
        leave_if_asked(s);
    }
}

static void list_signals(sigset_t *set)
{
    struct sigaction hangup;
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGUSR1); /* what MPICH's launcher passes on */
    (void)sigaddset(set, SIGUSR2);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        (void)sigaddset(set, SIGHUP);
}

void sn_signals_hold(void)
{
    sigset_t set;
    list_signals(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* cannot fail on these */
}

enum sn_status sn_signals_create(struct sn_signals **out, struct sn_err *err)
{
    struct sn_signals *s = sn_alloc(sizeof(*s));
    if (!s)
        return sn_fail(err, SN_ENOMEM, "signals: no memory");
    list_signals(&s->set);
    (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail on Linux */
    int rc = pthread_sigmask(SIG_BLOCK, &s->set, NULL);
    if (rc == 0)
        rc = pthread_create(&s->thread, NULL, watch, s);
    if (rc != 0) {
        sn_free(s);
        return sn_fail(err, SN_EFAIL, "signals: cannot start the watcher thread: %s", strerror(rc));
    }
    *out = s;
    return SN_OK;
}

void sn_signals_destroy(struct sn_signals *s)
{
    if (!s)
        return;
    atomic_store(&s->closing, true);
    (void)pthread_kill(s->thread, SIGUSR2); /* wakes sigwait; the thread exists until joined */
    (void)pthread_join(s->thread, NULL);
    (void)pthread_mutex_destroy(&s->lock);
    sn_free(s);
}

void sn_signals_set_early(struct sn_signals *s, void (*leave)(void *self, int code), void *self)
{
    if (!s)
        return;
    (void)pthread_mutex_lock(&s->lock);
    s->leave = leave;
    s->self = self;
    (void)pthread_mutex_unlock(&s->lock);
    leave_if_asked(s);
}

int sn_signals_wanted(struct sn_signals *s)
{
    return s ? atomic_load(&s->wanted) : 0;
}
