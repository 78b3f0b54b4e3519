/*
 * mesh.h - the axes of the rank grid over which tensors of a model are placed.
 *
 * A mesh is a description: how many axes, in which order, how long each is, how far apart its ranks
 * are, and what it cuts. Placements (placement.h) and cuts of parameters (cut.h) are vectors over
 * its axes. Where two axes cut the same dimension, the first one's slices are cut again by the
 * second. Layouts have two axes; Singh et al., "A 4D Hybrid Algorithm", arXiv 2305.13525, have three,
 * and their names are those of enum sn_mesh_use. Z is what ZeRO 3 does over replicas (zero.c).
 */
#ifndef SN_MESH_H
#define SN_MESH_H

#include "lib/layout/grid.h"

enum { SN_MESH_AXES = 3 }; /* the most that there are */

/* What a linear layer is cut by over an axis. Every second layer is the transposed one (attn.o,
 * ffn.down), so that what one gives is placed as the next one takes it. */
enum sn_mesh_use {
    SN_MESH_OUTPUTS, /* Y: a layer's output features, a transposed layer's input features */
    SN_MESH_INPUTS,  /* X: the other way round; between blocks, features are cut */
    SN_MESH_TOKENS,  /* Z: rows of activations; weights are kept in slices and gathered for use */
    SN_NMESH_USES
};

struct sn_mesh_axis {
    const char *name;
    enum sn_mesh_use use;
    enum sn_group group; /* ranks that differ on this axis alone */
    int size, stride;    /* ranks, and the rank distance between neighbours */
};

struct sn_mesh {
    int n_axes;
    struct sn_mesh_axis axis[SN_MESH_AXES];
};

/* The mesh that tensors of a model are placed on in this grid. */
struct sn_mesh sn_mesh_of_grid(const struct sn_grid *g);
int sn_mesh_ranks(const struct sn_mesh *m);
/* Ranks that share out the rows of activations: of the axes that cut tokens. */
int sn_mesh_token_ranks(const struct sn_mesh *m);
int sn_mesh_coord(const struct sn_mesh *m, int axis, int rank);
/* The rank that `rank` would be with coordinate i on this axis: member i of its group. */
int sn_mesh_member(const struct sn_mesh *m, int axis, int rank, int i);

/* Where a rank stands on all axes: number `index` of `size`; 0 of 1 on those that there are not. */
struct sn_mesh_place {
    int size[SN_MESH_AXES], index[SN_MESH_AXES];
};
struct sn_mesh_place sn_mesh_place(const struct sn_mesh *m, int rank);

#endif
