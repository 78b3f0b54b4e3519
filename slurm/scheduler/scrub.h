/*
 * scrub.h - the environment with which a job is submitted: without what another job left in it.
 *
 * sbatch takes SBATCH_* for options, and they go before the script's own; what SLURM_*, SRUN_* and
 * PMI* of a surrounding job say reaches the new job's steps (SLURM_CPU_BIND made a job three times
 * slower for days, spd#955). So:
 *
 *   inside a job    every SLURM_*, SRUN_*, SBATCH_*, PMI*, PMIX_*, and Open MPI's marks of a rank
 *                   go
 *   outside         SBATCH_* go that stand for an option which the script has; others are the
 *                   user's or the site's wish
 *   SLURM_CONF, SLURM_CLUSTERS and SLURM_JWT stay: they say which cluster is meant
 */
#ifndef SN_SCRUB_H
#define SN_SCRUB_H

#include "slurm/scheduler/allocation.h"

struct sn_scrubbed {
    char **variable; /* NULL-terminated, for sn_command.environment; borrowed of the original */
    int n;
    const char **removed; /* NAME=VALUE of those that went */
    int n_removed;
};

/* `script` is the batch script, whose #SBATCH lines say which options it has. SN_ENOMEM. The caller
 * ends with sn_scrubbed_fini. */
enum sn_status sn_scrub(struct sn_scrubbed *out, const struct sn_environment *own,
                        const char *script, struct sn_err *err);
void sn_scrubbed_fini(struct sn_scrubbed *s); /* a zeroed one is allowed */

/* Does the variable belong to a surrounding job or step? `name` may have "=VALUE" behind. */
bool sn_is_of_a_job(const char *name);

#endif
