/*
 * allocation.h - what the scheduler says about this job, from its environment alone.
 *
 * One struct whoever asks (batch script, task, login node) and whichever scheduler answers: Slurm
 * 22.05 to 26.05, LSF with jsrun, or a bare mpirun. Texts come from the process' environment or
 * from a recorded one (`env` output, one NAME=VALUE a line; `env -0` output, too), so that a map
 * can be made for a machine that is elsewhere.
 *
 * Versions differ: 22.05 leaves SLURM_RESTART_COUNT out when it is 0, has no SLURM_JOB_END_TIME,
 * and may give wrong SLURM_TASKS_PER_NODE without --ntasks; the step's variables win over the job's
 * where both are there. Rank to node is never computed from node lists: in a task it is what
 * SLURM_PROCID, SLURM_NODEID and SLURM_LOCALID say, elsewhere it is unknown.
 */
#ifndef SN_ALLOCATION_H
#define SN_ALLOCATION_H

#include "slurm/scheduler/hostlist.h"

#include <stdbool.h>

enum sn_scheduler { SN_SCHED_NONE, SN_SCHED_SLURM, SN_SCHED_LSF };
const char *sn_scheduler_name(enum sn_scheduler s); /* "none", "slurm", "lsf" */

/* Names and values. */
struct sn_environment {
    char *text;  /* all of them, each with a NUL */
    char **line; /* NAME=VALUE, inside text or of the process */
    int n;
};

/* The process' own; borrows it, so nobody may change it meanwhile. */
enum sn_status sn_environment_own(struct sn_environment *out, struct sn_err *err);
/* A recorded one. Lines without '=' continue the value before (values may hold newlines). SN_EINPUT
 * if nothing in it is a variable, SN_EIO if the file cannot be read. */
enum sn_status sn_environment_load(struct sn_environment *out, const char *path,
                                   struct sn_err *err);
enum sn_status sn_environment_parse(struct sn_environment *out, const char *text, size_t len,
                                    const char *path, struct sn_err *err);
void sn_environment_fini(struct sn_environment *e); /* a zeroed one is allowed */
/* NULL: not set, or empty. */
const char *sn_environment_get(const struct sn_environment *e, const char *name);
/* Is such a program on its PATH? */
bool sn_environment_has_program(const struct sn_environment *e, const char *name);

/* Where one task is. */
struct sn_task_place {
    int rank, node, local; /* -1: this process is no task */
};

struct sn_allocation {
    enum sn_scheduler scheduler;
    bool in_step; /* a task, not the batch script */
    char job[32]; /* id; "" outside of a job */
    char cluster[64], partition[64], account[64], qos[64];
    int64_t restarts;        /* requeues of this job so far */
    int64_t end_time;        /* seconds since 1970; 0: unknown */
    struct sn_hostlist host; /* of the step in a task, of the job elsewhere; as the scheduler orders
                                them */
    int *tasks;              /* [host.n]; NULL: not asked for */
    int *cpus;               /* [host.n]: of the job; NULL: unknown */
    int ntasks;              /* 0: unknown */
    int cpus_per_task;       /* 0: not asked for */
    int gpus_per_node;       /* of this node; 0: none or unknown */
    struct sn_task_place self;
    char topology[256], topology_pattern[256]; /* "core.s0.n3", "switch.switch.node" */
};

/* SN_EINPUT names the variable that cannot be. Outside of any job: scheduler NONE, no hosts. The
 * caller ends with sn_allocation_fini. */
enum sn_status sn_allocation_read(struct sn_allocation *out, const struct sn_environment *e,
                                  struct sn_err *err);
void sn_allocation_fini(struct sn_allocation *a);

#endif
