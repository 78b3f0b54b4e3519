/*
 * relayout.h - another layout for a run whose number of nodes has changed.
 *
 * The global batch, the model and everything else that decides the losses stay; the layout is
 * searched anew, without the keys that the run file names: they were chosen for another number of
 * ranks. Any checkpoint can be read in any layout.
 */
#ifndef SN_RELAYOUT_H
#define SN_RELAYOUT_H

#include "kernels/ops.h"
#include "lib/config/config.h"

struct sn_relayout_want {
    const struct sn_config *config;
    int most_nodes, ranks_per_node;
    int64_t node_memory; /* bytes of a node, where no machine is known */
    const char *machine; /* of the site, as in struct sn_search_auto_want */
    const struct sn_ops *ops;
    int threads;
};
/* The best layout on as many of the nodes as have one that fits: *nodes of them, whole. *out is a
 * whole configuration. SN_EINPUT if there is none on any number, or no machine to judge by. */
enum sn_status sn_relayout(struct sn_config *out, int *nodes, const struct sn_relayout_want *w,
                           struct sn_err *err);

#endif
