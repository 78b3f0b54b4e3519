/*
 * placement.h - how a tensor lies over the axes of the mesh, and what takes it to another placement.
 *
 * A lowering says where its operation needs its input and where its output comes; the moves between
 * the two follow, forward and backward, from one table. Collectives of the model have no other
 * source. The kinds are those of DTensor and of GSPMD (Xu et al., arXiv 2105.04663); because the
 * moves of gradients are derived as well, REPLICATE is two of them, which differ in nothing but the
 * gradient.
 */
#ifndef SN_PLACEMENT_H
#define SN_PLACEMENT_H

#include "lib/layout/mesh.h"

#include <stdint.h>

enum sn_placement_kind {
    /* All ranks of the axis hold it and use it alike; its gradient is REPLICATE. */
    SN_REPLICATE,
    /* All ranks hold it, each uses it its own way; its gradient is PARTIAL. */
    SN_REPLICATE_PARTIAL_GRAD,
    /* Each rank holds one slice along a dimension; its gradient is SHARD along the same. */
    SN_SHARD,
    /* The value is the sum over ranks; its gradient is REPLICATE_PARTIAL_GRAD: all summands want
     * the same. */
    SN_PARTIAL,
    SN_NPLACEMENT_KINDS
};

enum sn_dim { SN_ROWS, SN_COLS, SN_NDIMS }; /* what SHARD cuts: tokens or features */

/* Over one axis. */
struct sn_axis_placement {
    enum sn_placement_kind kind;
    enum sn_dim dim; /* of SHARD; SN_ROWS otherwise */
};

/* Over all axes of a mesh; REPLICATE over those that it does not have. Of axes that cut the same
 * dimension a later one cuts the slices of the earlier. */
struct sn_placement {
    struct sn_axis_placement axis[SN_MESH_AXES];
};

bool sn_placement_equal(struct sn_placement a, struct sn_placement b);
/* The same on a mesh: REPLICATE over axes of one rank, where all kinds are the same. */
struct sn_placement sn_placement_on(const struct sn_mesh *m, struct sn_placement p);
/* How the gradient of a tensor lies. */
struct sn_placement sn_placement_of_gradient(struct sn_placement p);
/* Does an axis cut this dimension? */
bool sn_placement_cuts(struct sn_placement p, int axis, enum sn_dim dim);
/* How long a dimension of n is on each rank; n is a multiple of what it is divided by. */
int64_t sn_placement_local(const struct sn_mesh *m, struct sn_placement p, enum sn_dim dim,
                           int64_t n);
/* Bit g: an axis with group g has this kind. */
unsigned sn_placement_groups(const struct sn_mesh *m, struct sn_placement p,
                             enum sn_placement_kind kind);

enum sn_move {
    SN_KEEP,
    SN_SLICE,
    SN_MOVE_ALL_GATHER,
    SN_MOVE_ALL_REDUCE,
    SN_MOVE_REDUCE_SCATTER,
    SN_MOVE_ALL_TO_ALL,
    SN_NEVER /* no such move makes sense: a mistake in a lowering */
};

/* What ranks of one axis do: to a value, and to its gradient on the way back. At least one of the
 * two is not SN_KEEP in what sn_redistribute lists. */
struct sn_axis_move {
    int axis;
    enum sn_move forward, backward;
    enum sn_dim from, to; /* dimensions that the axis cuts before and after, where it does */
};

/* Over one axis: what turns `have` into `want`, and the gradient of `want` into that of `have`. SHARD
 * along one dimension into SHARD along the other is an all-to-all. */
struct sn_axis_move sn_axis_move(struct sn_axis_placement have, struct sn_axis_placement want);

/* The moves that turn `have` into `want`, at most one for each axis, in the order in which they are
 * done; gradients go back through them from the last to the first. Returns how many they are, 0 to
 * SN_MESH_AXES; -1 where an axis would need an SN_NEVER, or more than one move: of two axes that cut
 * the same dimension the outer cannot gather, or exchange, while the inner cuts. (Whether an axis of
 * the same size could take its place is not looked for: moves do not depend on sizes.)
 *
 * What makes a tensor smaller comes first, what makes it larger last: slices and reduce-scatters,
 * then all-to-alls, all-reduces and moves of gradients alone, then all-gathers from the innermost
 * axis on; another order where nesting demands it. */
int sn_redistribute(struct sn_axis_move moves[SN_MESH_AXES], struct sn_placement have,
                    struct sn_placement want);

#endif
