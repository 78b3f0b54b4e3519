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

/* What an axis is: one row. Who tells, draws, reads or writes something for each axis loops over the
 * rows, and never lists the axes. */
struct sn_axis_row {
    const char *name;    /* key of the run file and of profiles; for people too */
    const char *heading; /* of the grid, over a narrow column */
    int told;            /* its number among those that people are told of, the grid's first */
    bool is_even;        /* its ranks do the same work at the same time: a proof needs but two */
    bool is_of_step;     /* its collectives are few, at the end of a step: in data's queue */
    bool is_rare;        /* told of only where it has more than one rank */
    const char *colour;  /* of its communication in pictures, */
    const char *dark;    /* and on dark paper; NULL: the same */
};

/* clang-format off */
/* Id, name, and the rest of the row. The axes of the rank grid are those that multiply to the
 * number of ranks; in default order, the innermost first. tensor_x and tensor are X and Y of the grid
 * that tensors are cut over (mesh.h). */
#define SN_GRID_AXES(ROW)                                                                          \
    ROW(TENSOR,   tensor,   .heading = "tens", .told = 1, .is_even = true, .colour = "#d64550")    \
    ROW(TENSOR_X, tensor_x, .heading = "tx",   .told = 2, .is_even = true, .colour = "#a8323c",    \
        .is_rare = true)                                                                           \
    ROW(CONTEXT,  context,  .heading = "cont", .told = 3, .is_even = true, .colour = "#c9781f")    \
    ROW(DATA,     data,     .heading = "data", .told = 0, .is_even = true, .colour = "#cc4f9a")    \
    ROW(PIPELINE, pipeline, .heading = "pipe", .told = 4, .colour = "#8492a0", .dark = "#66737f",  \
        .is_of_step = true)
/* Expert is carved out of the others; world is all ranks. */
#define SN_AXES(ROW)                                                                               \
    SN_GRID_AXES(ROW)                                                                              \
    ROW(EXPERT,   expert,   .told = 5, .colour = "#8f6a3c")                                        \
    ROW(WORLD,    world,    .told = 6, .colour = "#3f4b57", .dark = "#a9b4be", .is_of_step = true)
/* clang-format on */

#define SN_AXIS_ID(ID, ...) SN_AXIS_##ID,
enum sn_axis { SN_AXES(SN_AXIS_ID) SN_NAXES, SN_NGRID_AXES = SN_AXIS_EXPERT };
#undef SN_AXIS_ID

const struct sn_axis_row *sn_axis_row(enum sn_axis a);
const char *sn_axis_name(enum sn_axis a);
bool sn_axis_find(enum sn_axis *out, const char *name); /* false: none is called so */
/* The i-th axis of which people are told; the first SN_NGRID_AXES are those of the grid: data,
 * tensor, tensor_x, context, pipeline. */
enum sn_axis sn_axis_told(int i);
/* Are people told of an axis of so many ranks? */
bool sn_axis_is_told(enum sn_axis a, int size);

/* The sets of ranks that communicate. Members are numbered by their coordinates, so that nothing
 * depends on the order of hosts. A group that is no axis is billed to one (sn_group_axis). */
#define SN_AXIS_GROUP(ID, ...) SN_GROUP_##ID,
enum sn_group {
    SN_GRID_AXES(SN_AXIS_GROUP) /* ranks that differ on this axis alone */
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
#undef SN_AXIS_GROUP

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
/* The axes of the grid on which members differ, the outermost first: how many. 0: members are not
 * all that differ on some axes. */
int sn_group_axes(enum sn_group q, const enum sn_axis **axes);
/* The axis that a group's traffic is billed to: itself, or data, tensor, pipeline, expert. */
enum sn_axis sn_group_axis(enum sn_group q);
/* Collectives of a rank run one after another in the queue of an axis, and beside those of the queues
 * of other axes. The axis whose queue a group's are in: that which it is billed to, or data. */
enum sn_axis sn_group_queue(enum sn_group q);
/* How many of the axes before this one (SN_NAXES: of all) have groups of several ranks in their
 * queue. If there are several ranks data's has. */
int sn_grid_queues(const struct sn_grid *g, enum sn_axis before);
const char *sn_group_name(enum sn_group q); /* "tensor", "data x context", "kv copies", ... */
/* Do members do the same work at the same time? Those that differ on even axes. */
bool sn_group_is_even(enum sn_group q);

#endif
