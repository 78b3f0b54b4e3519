/*
 * launch.h - the command line and the environment that start a training step.
 *
 * Pure: what to start comes in as a struct, a list of words goes out, nothing is started and no
 * shell will read it. Why each flag of srun is there:
 *
 *   --kill-on-bad-exit=1 --wait=60  its defaults wait for ever for tasks whose peers have died
 *   --unbuffered                    lines appear when they are written
 *   --export=ALL                    what SBATCH_EXPORT or a site says otherwise does not count
 *   -N -n -c [--ntasks-per-node]    never inherited: versions differ on what is (SLURM_NTASKS
 *                                   22.05 to 23.02, -c from 22.05 to 23.11)
 *   --cpu-bind                      cores where the number of cores is known, else none
 *   --gpu-bind=none                 ranks see their peers' GPUs; from 24.05 --tres-bind
 *   -w --no-kill                    on chosen nodes, past the death of others
 *   --overlap --mem=0               beside a step that is not quite gone: it holds its CPUs, and
 *                                   its memory, until its last node has answered
 */
#ifndef SN_LAUNCH_H
#define SN_LAUNCH_H

#include "slurm/site/site.h"

/* Words for exec; word[n] is NULL. */
struct sn_argv {
    char **word;
    int n, room;
    bool failed; /* an allocation failed: what came after it was dropped */
};
void sn_argv_add(struct sn_argv *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sn_argv_fini(struct sn_argv *a); /* a zeroed one is allowed */
/* As one would type it into a shell: quoted where needed. For logs and people. */
void sn_argv_format(struct sn_str *out, const struct sn_argv *a);

struct sn_launch {
    enum sn_launcher launcher;
    const char *program; /* of the launcher, such as /opt/slurm/bin/srun; NULL: by name */
    const char *mpi;     /* srun --mpi; NULL: pmix */
    const char *trainer, *run_file;
    const char *supervisor; /* sn_runlock_name of who launches; NULL or "": it is not said */
    int attempt;
    bool fresh, preflight, trial;
    int64_t stop_after;                              /* 0: not said */
    int nodes, ranks, ranks_per_node, cpus_per_rank; /* the last: 0: not known */
    int gpus_per_node;                               /* 0: none */
    const char *node_list; /* the nodes to use, as a hostlist; NULL: all */
    int slurm_version;     /* 2205 for 22.05; 0: unknown */
    bool may_lose_nodes, beside_others;
    const char *const *options; /* more words for the launcher, before the trainer; NULL-terminated;
                                   NULL: none */
};
/* SN_ENOMEM. The caller ends with sn_argv_fini. */
enum sn_status sn_launch_format(struct sn_argv *out, const struct sn_launch *l, struct sn_err *err);

/* NAME=VALUE of `from` without what must not reach a step: options of sbatch and srun that a
 * surrounding job or step left there (bindings, counts, distribution), and the ends of its PMI.
 * With mpirun, what lets more ranks than cores run and root start it is added where it is not set;
 * with srun, a cure for its PMIx.
 * SN_ENOMEM. The caller ends with sn_argv_fini. */
enum sn_status sn_launch_environment(struct sn_argv *out, const struct sn_environment *from,
                                     enum sn_launcher l, struct sn_err *err);
/* Is a variable left out? */
bool sn_launch_drops(const char *name_and_value, enum sn_launcher l);
/* One NAME=VALUE a line, to be kept; values of names that speak of a secret are not shown. */
void sn_launch_record(struct sn_str *out, const struct sn_argv *environment);

#endif
