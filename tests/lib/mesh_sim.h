/*
 * mesh_sim.h - the ranks of a small mesh, each with its part of a matrix, and the moves that they
 * make: what placements and redistributions (lib/layout/placement.h) are held to.
 *
 * It knows the definitions of the kinds and of the collectives, and no table. Values are small whole
 * numbers, so that sums are exact in any order.
 */
#ifndef MESH_SIM_H
#define MESH_SIM_H

#include "lib/layout/placement.h"

enum { MESH_SIM_RANKS = 24, MESH_SIM_N = 24 }; /* most ranks; rows and columns of the matrix */

/* All of it, or what a rank holds. */
struct mesh_matrix {
    int rows, cols;
    double v[MESH_SIM_N * MESH_SIM_N];
};

struct mesh_sim {
    const struct sn_mesh *mesh; /* borrowed; its ranks are 0 .. product of its sizes - 1 */
    struct mesh_matrix local[MESH_SIM_RANKS];
};

/* A mesh of n axes of these sizes, the last of which varies fastest. */
struct sn_mesh mesh_of_sizes(int n, const int *size);
/* a b, of which either may be transposed. */
struct mesh_matrix mesh_product(const struct mesh_matrix *a, bool trans_a,
                                const struct mesh_matrix *b, bool trans_b);
/* Whole numbers from -4 to 4. */
void mesh_random(struct mesh_matrix *m, unsigned *seed);
/* Every rank gets what the placement says of x; summands are random, and add up to it. */
void mesh_sim_place(struct mesh_sim *s, struct sn_placement p, const struct mesh_matrix *x,
                    unsigned *seed);
/* Do the ranks hold what the placement says of x? */
bool mesh_sim_is(const struct mesh_sim *s, struct sn_placement p, const struct mesh_matrix *x);
/* All ranks move along `axis`; false, and nothing is done: it does not fit, a slice of something
 * that does not divide, or more than a whole matrix. */
bool mesh_sim_move(struct mesh_sim *s, int axis, enum sn_move move, enum sn_dim from,
                   enum sn_dim to);
/* <g, x> of a tensor placed as p, and its gradient g: a sum over ranks, in which those that use it
 * alike count once. */
double mesh_sim_inner(const struct mesh_sim *g, const struct mesh_sim *x, struct sn_placement p);

#endif
