/*
 * runlock.h - one at a time works on a run directory, a supervisor or a trainer that was started
 * without one: OUTPUT/supervisor.lock.
 *
 * The file is locked (flock) as long as its holder lives, however it ends; what stands in it tells
 * others who that is. On one machine that lock is the whole truth. On a shared file system it may
 * count on its own machine alone (Lustre with localflock, BeeGFS) or not exist: there the holder
 * proves that it lives by a count in its record that grows (SN_RUNLOCK_HEARTBEAT), and another
 * machine watches it for SN_RUNLOCK_WATCH seconds before it takes over. Clocks are not compared.
 *
 *   lock      record of                         verdict
 *   refused   anybody                           held
 *   taken     nobody, or this boot of this host free
 *   none      nobody                            free
 *   none      a process beside this one         held while that process lives
 *   any       this job, before a requeue        free: a job does not run twice
 *   any       somebody elsewhere                watched: held if it has a heartbeat, else free
 *
 * "This boot" is the kernel's boot id, "beside" the same boot and the same process numbers.
 */
#ifndef SN_RUNLOCK_H
#define SN_RUNLOCK_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/config/config.h"

enum { SN_RUNLOCK_HEARTBEAT = 10, SN_RUNLOCK_WATCH = 35 }; /* seconds */

struct sn_runlock_record {
    int64_t pid, restart, heartbeat;
    int64_t started;           /* of the process, in ticks since the boot */
    char host[64], job[32];    /* job: "" outside of one */
    char boot[64], spaces[64]; /* the kernel's boot id; which process numbers */
    char program[32];          /* "sennit-run exec" */
};

enum sn_runlock_grip { SN_RUNLOCK_TAKEN, SN_RUNLOCK_REFUSED, SN_RUNLOCK_NONE };
enum sn_runlock_verdict { SN_RUNLOCK_FREE, SN_RUNLOCK_HELD, SN_RUNLOCK_UNSURE };
/* The table above. `other` NULL: nobody; `lives`: is there a process with its number and start? */
enum sn_runlock_verdict sn_runlock_judge(const struct sn_runlock_record *mine,
                                         const struct sn_runlock_record *other,
                                         enum sn_runlock_grip grip, bool lives);

enum { SN_RUNLOCK_NAME = 128 };

struct sn_runlock {
    int fd; /* -1: none, or its supervisor has it */
    double next_heartbeat;
    struct sn_runlock_record mine;
    char path[SN_PATH_MAX + 32];
};

struct sn_runlock_want {
    const char *program; /* that wants it; NULL: sennit-run exec */
    const char
        *supervisor; /* of a trainer that was started by one: its sn_runlock_name; else NULL */
    const char *output, *job; /* the directory exists; "": no job */
    int64_t restart;
    /* Called about once a second while somebody is watched; true: give up. NULL: never. */
    bool (*is_asked)(void *self);
    void *self;
    bool lacks_locks; /* test hook: as on a file system that has none */
    int watch;        /* test hook: seconds; 0: SN_RUNLOCK_WATCH */
};
/* SN_EINPUT: another one works there, who and where; SN_EFAIL: is_asked said so; SN_EIO, SN_ENOMEM.
 * Where the supervisor of a trainer has it, that is as good as having it. The caller ends with
 * sn_runlock_release; one that failed needs it not. */
enum sn_status sn_runlock_take(struct sn_runlock *out, const struct sn_runlock_want *want,
                               struct sn_err *err);
/* Who holds it, in a word, for the trainer that the holder starts; "" where nobody does. */
const char *sn_runlock_name(char buf[SN_RUNLOCK_NAME], const struct sn_runlock *l);
/* Prove that the holder lives, if it is time to. Call it every few seconds. */
void sn_runlock_heartbeat(struct sn_runlock *l);
void sn_runlock_release(struct sn_runlock *l);

#endif
