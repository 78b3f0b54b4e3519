/*
 * reach.h - does a node answer, whatever the controller knows? A TCP connection to its slurmd, made
 * and closed, for nodes that are suspected.
 *
 * slurmctld takes a node for dead when it has not answered for SlurmdTimeout, 300 s by default;
 * srun waits for one that it cannot reach for two minutes. The node of the batch script reaches
 * every slurmd of its job, since srun does. slurmd notes a connection without a message as an error
 * in its log, which is why nobody is asked without need.
 */
#ifndef SN_REACH_H
#define SN_REACH_H

#include "slurm/scheduler/hostlist.h"

#include <stdbool.h>

struct sn_reach {
    char address[SN_HOST_NAME]; /* name or number; "": not known, which answers for nothing */
    int port;
    bool answers; /* filled in */
};

/* Try all of them at once, for `seconds` in all. What could not be tried (no address, no name
 * service, no descriptors left) counts as answering: only silence is told. */
void sn_reach_try(struct sn_reach *r, int n, double seconds);

/* Addresses and ports of hosts, by `scontrol show node -o` and by SlurmdPort of `scontrol show
 * config`: out[i] is that of host i. Returns how many are known. */
int sn_reach_parse(struct sn_reach *out, const struct sn_hostlist *host, const char *nodes,
                   const char *config);

#endif
