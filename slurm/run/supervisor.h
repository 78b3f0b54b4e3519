/*
 * supervisor.h - what `sennit-run exec` knows of its job, and what it does with it, attempt after attempt:
 *
 *   run.c         attempt after attempt
 *   supervisor.c  run file, allocation, site, run directory: read once
 *   usable.c      which nodes can be used now
 *   attempt.c     one attempt: nodes, layout, command line; then watched to its end
 *   end.c         why it ended, who brought it about, what that says about nodes
 *   next.c        what follows from it, and doing it
 *   preflight.c   are the nodes well, before the first attempt?
 *
 * How an end is judged, and what is decided, are functions of structs in slurm/supervisor.
 */
#ifndef SN_SUPERVISOR_H
#define SN_SUPERVISOR_H

#include "lib/config/config.h"
#include "lib/rundir/runlock.h"
#include "slurm/scheduler/ask.h"
#include "slurm/scheduler/deadline.h"
#include "slurm/scheduler/ledger.h"
#include "slurm/site/launch.h"
#include "slurm/supervisor/decide.h"
#include "slurm/supervisor/fate.h"
#include "slurm/supervisor/journal.h"
#include "slurm/supervisor/nodes.h"
#include "slurm/supervisor/preempt.h"
#include "slurm/supervisor/rundir.h"
#include "slurm/supervisor/vigil.h"
#include "slurm/supervisor/watch.h"
#include "slurm/supervisor/platform.h"

struct sn_supervisor_line {
    const char *run_file, *launcher; /* NULL: the site's, or mpirun outside of a job */
    const char *site;                /* NULL: the run file's */
    long long ranks, stop_after;     /* 0: not said */
    bool fresh, help;
    bool trial;          /* keep nothing but metrics */
    bool only_counts;    /* ranks: what is open of the layout stays so, and none is refused */
    const char *version; /* of this program, for the journal */
    const char *trainer; /* NULL: it lies beside this program */
};

/* What does not change from attempt to attempt. */
struct sn_supervisor_shape {
    enum sn_launcher launcher;
    const char *program; /* of the launcher, by name */
    bool is_sites;       /* the launcher is the site's: so are its flags */
    int ranks, ranks_per_node, nodes, cpus_per_rank; /* as the run file's layout wants them */
    int slurm_version;
    char trainer[SN_PATH_MAX];
    char ledger[2 * SN_PATH_MAX];
    struct sn_preemption preempt; /* asked for at the first end, not before the first start */
    bool knows_preemption;
    bool may_requeue;
    bool is_searched; /* layout: auto: what was found is told to the trainer */
};

/* One of each per host of the allocation. */
struct sn_supervisor_nodes {
    enum sn_node_health *health; /* as it was found last */
    double *until; /* of the clock, up to which it is dead, whatever the controller says */
    int *strikes;  /* times in a row that it stood still and did not answer */
    double next_look;
};

struct sn_supervisor_attempt;

struct sn_supervisor {
    const struct sn_platform *platform;
    struct sn_supervisor_line line;
    struct sn_config *config;  /* the run file, resolved */
    struct sn_config *current; /* the layout of this attempt */
    struct sn_environment own; /* without the marks of a step that this process may be */
    struct sn_argv environment;
    struct sn_allocation allocation;
    struct sn_site site;
    struct sn_supervisor_shape shape;
    struct sn_rundir rundir;
    struct sn_journal journal;
    struct sn_ledger ledger;
    struct sn_supervisor_nodes nodes;
    const struct sn_supervisor_attempt *step; /* the attempt that runs; NULL: none */
    struct sn_runlock lock;
    struct sn_deadline deadline;
    enum sn_fate fate;  /* of the job, as it was asked for last */
    int started;        /* attempts of this process */
    int pause;          /* seconds before the next one */
    bool has_lost_node; /* the attempt before did: its step may stay in Slurm's books for long */
    int old_steps;      /* steps that were still there when it was launched */
    bool is_controller_down; /* when it was asked last */
    int64_t free_at_end; /* bytes that were free when a full disk ended the attempt before; -1 */
    char last_host[64];  /* where the attempt before lost a rank; "": it did not */
};

static inline double sn_supervisor_now(const struct sn_supervisor *x)
{
    return sn_platform_now(x->platform);
}

/* Whole seconds since 1970. */
static inline int64_t sn_supervisor_date(const struct sn_supervisor *x)
{
    return (int64_t)sn_platform_date(x->platform);
}

/* Run file, allocation, site and ranks, without a look at the run directory or a line in its journal;
 * sn_supervisor_close in any case. */
enum sn_status sn_supervisor_read(struct sn_supervisor *x, const struct sn_supervisor_line *line,
                                  const struct sn_platform *platform, struct sn_err *err);
/* Read all of it. The platform outlives it. SN_EINPUT and so on; sn_supervisor_close in any case. */
enum sn_status sn_supervisor_open(struct sn_supervisor *x, const struct sn_supervisor_line *line,
                                  const struct sn_platform *platform, struct sn_err *err);
void sn_supervisor_close(struct sn_supervisor *x);

/* Attempt after attempt until the run is done or somebody else goes on: the exit code of the batch
 * script. */
enum sn_status sn_supervisor_run(struct sn_supervisor *x, int *exit_code, struct sn_err *err);

/* Ask the scheduler about the job, if it is time to or `now`: x->fate, and when its time ends,
 * whose move is written down. The end of a job that is being ended is not that of its time. */
void sn_supervisor_ask_job(struct sn_supervisor *x, bool now);
/* What is to be done while an attempt runs (struct sn_watch_want); self: a struct sn_supervisor. */
void sn_supervisor_meanwhile(void *self, int64_t *deadline);

/* Until the next attempt may begin: the pause, and the end of the step before, whose memory and
 * processors it needs; a step that lost a node is not waited for, since Slurm keeps it while it
 * waits for that node, and the trainer itself sees to what is left of it on the others
 * (lib/rundir/leftover.h). Returns what the supervisor was asked meanwhile (enum sn_asked). */
unsigned sn_supervisor_rest(struct sn_supervisor *x);

/* ---- nodes ----------------------------------------------------------------------------------- */

enum sn_status sn_supervisor_nodes_init(struct sn_supervisor_nodes *out, int n, struct sn_err *err);
void sn_supervisor_nodes_fini(struct sn_supervisor_nodes *n);
/* Find out x->nodes.health anew: ask the controller, and the nodes that are doubted; or all. */
void sn_supervisor_look_at_nodes(struct sn_supervisor *x, bool all);
/* The launcher says that a node failed, which the controller may learn later. */
void sn_supervisor_node_died(struct sn_supervisor *x, const char *name);
/* Is a node dead or silent? */
bool sn_supervisor_is_lost(const struct sn_supervisor *x, const char *name);
/* The first of `names` that is; NULL: none. */
const char *sn_supervisor_lost_node(const struct sn_supervisor *x, const struct sn_argv *names);
/* While nothing moves (struct sn_watch_want): is a node of the attempt dead? */
bool sn_supervisor_has_lost_node(void *self, const struct sn_vigil *vigil);

/* One attempt. `few` if no layout fits on the nodes that are left: then nothing was started. */
struct sn_supervisor_attempt {
    int number, nodes; /* used */
    bool few;
    struct sn_argv names;
    struct sn_watch_end end;
    int64_t from_step;
};
enum sn_status sn_supervisor_attempt(struct sn_supervisor_attempt *s, struct sn_supervisor *x,
                                     struct sn_err *err);
void sn_supervisor_attempt_fini(struct sn_supervisor_attempt *s);
/* Nodes that may still be used. */
int sn_supervisor_good_nodes(const struct sn_supervisor *x);
/* The layout for as many of `most` nodes as one fits on, into x->current; 0: none does. */
int sn_supervisor_relayout(struct sn_supervisor *x, int most);

/* Before the first launch in an allocation: are its nodes well? Those that are not go into the
 * ledger. *asked: enum sn_asked, what the supervisor was asked meanwhile. */
enum sn_status sn_supervisor_preflight(struct sn_supervisor *x, unsigned *asked,
                                       struct sn_err *err);
/* Write down that a node is not to be used, or only in need. */
enum sn_status sn_supervisor_blame(struct sn_supervisor *x, const char *host,
                                   enum sn_ledger_grade grade, const char *why, struct sn_err *err);

/* Is more free where checkpoints are written than when the last attempt ended for lack of it? */
bool sn_supervisor_has_room(const struct sn_supervisor *x);

/* Why it ended, written down, with what it says about nodes. */
enum sn_status sn_supervisor_record(enum sn_cause *out, struct sn_supervisor *x,
                                    struct sn_supervisor_attempt *s, struct sn_err *err);
/* The same, then what to do. */
enum sn_status sn_supervisor_judge(struct sn_decision *out, struct sn_supervisor *x,
                                   struct sn_supervisor_attempt *s, struct sn_err *err);
/* Asked to leave before anything was started: the decision. */
enum sn_status sn_supervisor_leave_early(struct sn_decision *out, struct sn_supervisor *x,
                                         unsigned asked, struct sn_err *err);
/* Requeue, wait or just leave: returns the exit code. RETRY and SHRINK are the caller's. */
int sn_supervisor_leave(struct sn_supervisor *x, const struct sn_decision *d);

#endif
