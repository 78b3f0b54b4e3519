/*
 * nodes.h - which nodes of the allocation an attempt uses. Pure.
 */
#ifndef SN_NODES_H
#define SN_NODES_H

#include "slurm/scheduler/ask.h"
#include "slurm/scheduler/hostlist.h"
#include "slurm/scheduler/ledger.h"
#include "slurm/site/launch.h"

struct sn_nodes {
    int *use, *spare; /* indices in the host list, in its order; what is not usable is in none */
    int n_use, n_spare;
};
/* Up to `wanted` nodes: good ones first, doubtful ones and those that leave if there are too few,
 * never those that are dead, silent or bad. health: one per host; NULL: all are good. SN_ENOMEM.
 * The caller ends with sn_nodes_fini. */
enum sn_status sn_nodes_choose(struct sn_nodes *out, const struct sn_hostlist *host,
                               const enum sn_node_health *health, const struct sn_ledger *ledger,
                               int wanted, struct sn_err *err);
void sn_nodes_fini(struct sn_nodes *n); /* a zeroed one is allowed */
/* Names as words, and as one compressed list. SN_ENOMEM. */
enum sn_status sn_nodes_names(struct sn_argv *out, const struct sn_hostlist *host, const int *index,
                              int n, struct sn_err *err);
enum sn_status sn_nodes_list(struct sn_str *out, const struct sn_argv *names, struct sn_err *err);

#endif
