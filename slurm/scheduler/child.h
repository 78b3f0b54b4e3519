/*
 * child.h - the launcher as a child process: started without a shell, its stderr read as it comes.
 *
 * It leads a process group of its own, so that Ctrl-C on a terminal reaches the supervisor alone,
 * which knows what to do about it. If the supervisor dies without a word, the child gets a
 * signal that it passes on (slurm/scheduler/launcher.h), and the trainer saves and leaves.
 */
#ifndef SN_CHILD_H
#define SN_CHILD_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sn_child_want {
    char *const *argv, *const *environment; /* NULL-terminated */
    int orphaned;                           /* the signal that it gets when we die */
    bool joined;                            /* stdout is read as stderr is */
};

struct sn_child {
    pid_t pid; /* 0: none, or its end was seen */
    int err;   /* to read its stderr from, not blocking; -1: closed */
};

/* stdin is empty, stdout is the caller's unless joined, no signal is blocked or ignored. SN_EFAIL
 * with the reason if the program cannot be executed, SN_EIO without pipes or processes. */
enum sn_status sn_child_start(struct sn_child *out, const struct sn_child_want *want,
                              struct sn_err *err);
/* Bytes that it wrote on stderr: how many, 0 for none now or none any more. */
size_t sn_child_read(struct sn_child *c, char *bytes, size_t room);
/* To the launcher alone, which knows its ranks; nothing when it has ended. */
void sn_child_signal(const struct sn_child *c, int sig);
/* SIGKILL for all that it started on this host. */
void sn_child_kill(const struct sn_child *c);
/* Has it ended? Then *code is its exit code, 128 + n for signal n; once. */
bool sn_child_ended(struct sn_child *c, int *code);
void sn_child_close(struct sn_child *c); /* the pipe; a child that runs is killed and waited for */

#endif
