/*
 * platform.h - what a supervisor asks of the world and does to it: the time and who asks it to
 * leave, the launcher that it starts, the ranks' records, the disk, the scheduler.
 *
 * A table of functions, so that a test plays hours of a job in milliseconds, with children and a
 * scheduler that follow a script (tests/lib/stage.h). What a process does lies in
 * slurm/supervisor/host_platform.h. All else that a supervisor knows it reads from files of the run
 * directory, which a script can write as well as a trainer.
 *
 * `self` is the platform's own and goes first into each function.
 */
#ifndef SN_PLATFORM_H
#define SN_PLATFORM_H

#include "lib/comm/flight_recorder.h"
#include "slurm/scheduler/ask.h"
#include "slurm/scheduler/child.h"
#include "slurm/scheduler/launcher.h"
#include "slurm/scheduler/reach.h"
#include "slurm/supervisor/preempt.h"

struct sn_platform_clock {
    double (*now)(void *self);  /* seconds of a clock that never goes back */
    double (*date)(void *self); /* seconds since 1970 */
    /* Until somebody asks, a child says something or ends, or so many seconds have passed: who
     * asked, enum sn_asked. */
    unsigned (*wait)(void *self, double seconds);
};

/* One child at a time, as slurm/scheduler/child.h has it. */
struct sn_platform_launcher {
    enum sn_launcher (*mpirun)(void *self); /* whose is the one on PATH? */
    enum sn_status (*start)(void *self, const struct sn_child_want *want, struct sn_err *err);
    size_t (*read)(void *self, char *bytes, size_t room); /* its words, which people see, too */
    bool (*ended)(void *self, int *code);
    void (*signal)(void *self, int sig);
    void (*kill)(void *self);
    void (*kill_rank)(void *self, const struct sn_flight_view *v); /* that it left on this host */
    void (*close)(void *self);
};

struct sn_platform_files {
    /* What a rank wrote in `folder`, not before `since` (seconds since 1970). False: nothing. */
    bool (*record)(void *self, struct sn_flight_view *out, const char *folder, int rank,
                   int64_t since);
    int64_t (*room)(void *self, const char *path); /* free bytes; -1: not known */
};

/* As slurm/scheduler/ask.h, reach.h and slurm/supervisor/preempt.h have them. */
struct sn_platform_scheduler {
    void (*job)(void *self, struct sn_job_facts *out, const char *job, bool shortly);
    bool (*chained)(void *self, const char *job, const char *name);
    bool (*nodes)(void *self, enum sn_node_health *health, const struct sn_hostlist *host,
                  const char *job, double seconds, struct sn_str *text);
    bool (*config)(void *self, struct sn_str *out);
    void (*reach)(void *self, struct sn_reach *r, int n, double seconds);
    int (*steps)(void *self, const char *job);
    enum sn_status (*requeue)(void *self, const char *job, struct sn_err *err);
    int (*version)(void *self);
    enum sn_status (*preemption)(void *self, struct sn_preemption *out, const char *partition,
                                 struct sn_err *err);
};

struct sn_platform {
    void *self;
    const struct sn_platform_clock *clock;
    const struct sn_platform_launcher *launcher;
    const struct sn_platform_files *files;
    const struct sn_platform_scheduler *scheduler;
};

static inline double sn_platform_now(const struct sn_platform *p)
{
    return p->clock->now(p->self);
}

static inline double sn_platform_date(const struct sn_platform *p)
{
    return p->clock->date(p->self);
}

static inline unsigned sn_platform_wait(const struct sn_platform *p, double seconds)
{
    return p->clock->wait(p->self, seconds);
}

#endif
