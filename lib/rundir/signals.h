/*
 * signals.h - how a run is asked to leave.
 *
 * SIGINT, SIGUSR1, SIGUSR2: save, then exit 75. SIGTERM, and SIGHUP unless it is ignored (nohup):
 * save, then exit 76. A second SIGINT ends the process at once with 130. The signals are blocked in
 * every thread and taken by one watcher thread, so no code runs in signal context and no state is
 * global.
 */
#ifndef SN_SIGNALS_H
#define SN_SIGNALS_H

#include "lib/base/err.h"

struct sn_signals;

/* The first thing that a program does: from here on the signals wait for sn_signals_create instead
 * of ending it. */
void sn_signals_hold(void);
/* Before any other thread exists (they inherit the blocked signals). Caller destroys. */
enum sn_status sn_signals_create(struct sn_signals **out, struct sn_err *err);
void sn_signals_destroy(struct sn_signals *s); /* NULL is allowed */
/* As long as there is nothing to save: who is asked to leave does so at once, in `leave`, on the
 * watcher's thread; it gets the exit code and does not return. A request from before is met, too.
 * NULL: from here on requests are kept for sn_signals_wanted. */
void sn_signals_set_early(struct sn_signals *s, void (*leave)(void *self, int code), void *self);
/* 0, or the exit code that was asked for: 75 or 76. */
int sn_signals_wanted(struct sn_signals *s);

#endif
