/*
 * phase.h - one phase of a save in the background; internal to checkpoint/.
 *
 * Each phase gets a thread of its own, so that nothing runs between saves (and a process may fork).
 */
#ifndef SN_PHASE_H
#define SN_PHASE_H

#include "lib/state/state.h"

#include <pthread.h>

struct sn_store;

struct sn_background_phase {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool begun;         /* and its end not yet told: known to the caller's thread alone */
    bool copied, ended; /* under the lock */
    enum sn_save_phase kind;
    struct sn_state state;
    enum sn_status status; /* once it has ended */
    struct sn_err err;
};

enum sn_status sn_phase_init(struct sn_background_phase *p, struct sn_err *err);
void sn_phase_fini(struct sn_background_phase *p); /* nothing is under way */
/* As in struct sn_saver. */
enum sn_status sn_phase_begin(struct sn_store *store, const struct sn_state *s,
                              enum sn_save_phase kind, struct sn_err *err);
void sn_phase_wait_copied(struct sn_background_phase *p);
enum sn_status sn_phase_finish(struct sn_background_phase *p, bool wait, bool *ended,
                               struct sn_err *err);
/* The phase's own thread: the values in the boxes may change from now on. */
void sn_phase_set_copied(struct sn_background_phase *p);

#endif
