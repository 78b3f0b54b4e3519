/*
 * thread.h - threads of our own beside the program's: they get no signals.
 */
#ifndef SN_THREAD_H
#define SN_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* As pthread_create, with all signals blocked in the new thread and `stack` bytes for it (0: the
 * system's habit). Returns 0 or an errno. Threads that it starts inherit the blocked signals. */
int sn_thread_start(pthread_t *out, size_t stack, void *(*run)(void *arg), void *arg);
/* Cores that this process may run on, at least 1. */
int sn_cores(void);

#endif
