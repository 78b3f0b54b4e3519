/*
 * grid.h - which rank sits where among the parallel axes, and which ranks form a group.
 *
 * A grid is arithmetic on sizes: rank = sum of coordinate x stride, the first axis of the order
 * varies fastest. It knows nothing of MPI, CUDA or Slurm, so every property of a layout can be
 * tested in one process. Planner and trainer use the same arithmetic.
 */
#ifndef SN_GRID_H
#define SN_GRID_H

#include "lib/base/err.h"

#include <stdbool.h>

enum sn_axis {
    SN_AXIS_TENSOR,
    SN_AXIS_CONTEXT,
    SN_AXIS_DATA,
    SN_AXIS_PIPELINE,
    SN_NGRID_AXES,                  /* those that multiply to the number of ranks */
    SN_AXIS_EXPERT = SN_NGRID_AXES, /* carved out of data x context */
    SN_AXIS_WORLD,                  /* all ranks */
    SN_NAXES
};

/* The sets of ranks that communicate. Members are numbered by their coordinates, so that nothing
 * depends on the order of hosts. A group that is no axis is billed to one (sn_group_axis). */
enum sn_group {
    SN_GROUP_TENSOR,
    SN_GROUP_CONTEXT,
    SN_GROUP_DATA,
    SN_GROUP_PIPELINE,
    SN_GROUP_REPLICA, /* data x context: copies of the same weights; member = data x C + context */
    SN_GROUP_REPLICA_NODE, /* members of a REPLICA group on one node, and */
    SN_GROUP_REPLICA_RAIL, /* those with the same place on each node; 1 where sums are flat */
    SN_GROUP_KV,           /* tensor ranks that hold the same key and value heads */
    SN_GROUP_TIED,         /* first and last pipeline stage: both copies of a tied embedding */
    SN_GROUP_EXPERT,       /* replicas that share the experts: between them they hold each one once;
                              with fold these are replicas x tensor, member = replica x T + tensor; if
                              u of them share each expert, member m has slice m % u of those of m / u */
    SN_GROUP_EXPERT_DATA,  /* replicas that hold the same experts */
    SN_GROUP_EXPERT_NODE,  /* members of an EXPERT group on one node, and */
    SN_GROUP_EXPERT_RAIL,  /* those with the same place on each node; 1 where exchanges are flat */
    SN_GROUP_WORLD,
    SN_NGROUPS
};

struct sn_grid {
    int size[SN_NGRID_AXES];
    int stride[SN_NGRID_AXES]; /* rank distance between neighbours on each axis */
    int kv_copies;             /* tensor ranks per key and value head; at least 1 */
    int experts;               /* members of an EXPERT group: a divisor of data x context x fold */
    int fold;           /* tensor ranks: those have different tokens for the experts, and count as
                           replicas do (parallel folding); 0 and 1: they do not */
    int expert_node;    /* neighbours of an EXPERT group that exchange among themselves first: a
                           divisor of `experts`; 0: none do */
    int replica_node;   /* neighbours of a REPLICA group that sum among themselves first where what
                           they send is coded: a divisor of it; 0: none do */
    bool experts_apart; /* members of an EXPERT_DATA group are neighbours, not those of an EXPERT
                           group */
};

/* Grid of `ranks` ranks. `size` must multiply to it; `order` lists every axis once, innermost
 * first. SN_EINPUT says which product was found. kv_copies and experts are 1. */
enum sn_status sn_grid_init(struct sn_grid *out, int ranks, const int size[SN_NGRID_AXES],
                            const enum sn_axis order[SN_NGRID_AXES], struct sn_err *err);

int sn_grid_ranks(const struct sn_grid *g);
int sn_grid_coord(const struct sn_grid *g, int rank, enum sn_axis a);
/* The rank with these coordinates. */
int sn_grid_rank(const struct sn_grid *g, const int coord[SN_NGRID_AXES]);
/* List the ranks that differ from `rank` on axis a only, in order; returns how many. */
int sn_grid_peers(const struct sn_grid *g, int rank, enum sn_axis a, int *ranks);

/* Members of a group: how many, this rank's number in its group (0 ..), and the rank of member i.
 * A rank that is in no TIED group (a middle stage) is alone there: size 1. */
int sn_group_size(const struct sn_grid *g, int rank, enum sn_group q);
int sn_group_index(const struct sn_grid *g, int rank, enum sn_group q);
int sn_group_member(const struct sn_grid *g, int rank, enum sn_group q, int i);
/* The axis that a group's traffic is billed to: itself, or data, tensor, pipeline, expert. */
enum sn_axis sn_group_axis(enum sn_group q);
const char *sn_group_name(enum sn_group q); /* "tensor", "data x context", "kv copies", ... */

const char *sn_axis_name(enum sn_axis a);

#endif
