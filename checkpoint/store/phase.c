#include "checkpoint/store/phase.h"

#include "checkpoint/store/store.h"
#include "lib/base/thread.h"

#include <string.h>

enum sn_status sn_phase_init(struct sn_background_phase *p, struct sn_err *err)
{
    *p = (struct sn_background_phase){0};
    int rc = pthread_mutex_init(&p->lock, NULL);
    if (rc == 0 && (rc = pthread_cond_init(&p->changed, NULL)) != 0)
        (void)pthread_mutex_destroy(&p->lock);
    if (rc != 0)
        return sn_fail(err, SN_ENOMEM, "checkpoint: no lock for saving: %s", strerror(rc));
    return SN_OK;
}

void sn_phase_fini(struct sn_background_phase *p)
{
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
}

static void *run(void *self)
{
    struct sn_store *store = self;
    struct sn_background_phase *p = &store->phase;
    enum sn_status st = sn_store_save(store, &p->state, p->kind, &p->err);
    (void)pthread_mutex_lock(&p->lock);
    p->status = st;
    p->copied = p->ended = true;
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

enum sn_status sn_phase_begin(struct sn_store *store, const struct sn_state *s,
                              enum sn_save_phase kind, struct sn_err *err)
{
    struct sn_background_phase *p = &store->phase;
    if (p->begun)
        return sn_fail(err, SN_EFAIL,
                       "checkpoint: a phase of saving is still under way; this is a "
                       "defect of sennit, please report it");
    p->state = *s;
    p->kind = kind;
    p->copied = kind != SN_SAVE_WRITE;
    p->ended = false;
    int rc = sn_thread_start(&p->thread, 0, run, store);
    if (rc != 0)
        return sn_fail(err, SN_EFAIL, "checkpoint: cannot start a thread for saving: %s",
                       strerror(rc));
    p->begun = true;
    return SN_OK;
}

void sn_phase_set_copied(struct sn_background_phase *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->copied = true;
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
}

void sn_phase_wait_copied(struct sn_background_phase *p)
{
    if (!p->begun)
        return;
    (void)pthread_mutex_lock(&p->lock);
    while (!p->copied)
        (void)pthread_cond_wait(&p->changed, &p->lock);
    (void)pthread_mutex_unlock(&p->lock);
}

enum sn_status sn_phase_finish(struct sn_background_phase *p, bool wait, bool *ended,
                               struct sn_err *err)
{
    *ended = true;
    if (!p->begun)
        return SN_OK;
    (void)pthread_mutex_lock(&p->lock);
    while (wait && !p->ended)
        (void)pthread_cond_wait(&p->changed, &p->lock);
    *ended = p->ended;
    (void)pthread_mutex_unlock(&p->lock);
    if (!*ended)
        return SN_OK;
    (void)pthread_join(p->thread, NULL);
    p->begun = false;
    if (p->status != SN_OK)
        *err = p->err;
    return p->status;
}
