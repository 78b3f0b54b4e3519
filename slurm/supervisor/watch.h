/*
 * watch.h - one attempt under the supervisor's eyes: signals, stderr, flight recorders and metrics
 * in one poll loop, from the start of the launcher to its end.
 *
 * What to do is decided by slurm/supervisor/supervise.h; here it is done: a signal to the launcher
 * that it passes on to every rank, or one that ends a step that hangs (slurm/scheduler/launcher.h),
 * and lines in the journal.
 */
#ifndef SN_WATCH_H
#define SN_WATCH_H

#include "lib/base/tail.h"
#include "lib/layout/grid.h"
#include "slurm/supervisor/culprit.h"
#include "slurm/supervisor/journal.h"
#include "slurm/supervisor/rundir.h"
#include "slurm/supervisor/supervise.h"
#include "slurm/supervisor/vigil.h"
#include "slurm/supervisor/platform.h"

struct sn_watch_want {
    const struct sn_platform *platform;
    const struct sn_argv *command, *environment;
    const struct sn_launcher_ways *ways;
    const struct sn_rundir *rundir;
    const struct sn_journal *journal;
    struct sn_supervise_limits limits;
    const struct sn_grid *grid;
    int attempt, ranks;
    bool on_this_host; /* the ranks are processes here: what mpirun leaves may be killed */
    /* About once a second, a few seconds long at most; may move the deadline. NULL: nothing. */
    void (*meanwhile)(void *self, int64_t *deadline);
    /* While nothing moves, by what was seen of the records: is a node of it dead? NULL:
     * not asked. */
    bool (*has_lost_node)(void *self, const struct sn_vigil *vigil);
    void *self;
};

struct sn_watch_end {
    int exit_code;
    unsigned asked;                /* enum sn_asked, all of the attempt */
    bool has_hung;                 /* the supervisor ended it because nothing moved, */
    bool has_lost;                 /* or because a node of it is dead */
    struct sn_culprit culprit;     /* kind NONE: the flight recorders told nothing */
    struct sn_tail words;          /* the launcher's last lines */
    double seconds, start_seconds; /* in all; to the first finished step, 0: there was none */
    struct sn_rundir_progress progress;
};
/* Start it and stay until it has ended. SN_OK whatever its end was; SN_EFAIL if it could not be
 * started, and SN_EIO, SN_ENOMEM. */
enum sn_status sn_watch_run(struct sn_watch_end *out, const struct sn_watch_want *w,
                            struct sn_err *err);

#endif
