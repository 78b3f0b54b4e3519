/*
 * grid.h - which rank sits where among the parallel axes.
 *
 * A grid is arithmetic on sizes: rank = sum of coordinate x stride, the first axis of the order
 * varies fastest. It knows nothing of MPI, CUDA or Slurm, so every property of a layout can be
 * tested in one process.
 */
#ifndef SN_GRID_H
#define SN_GRID_H

#include "lib/base/err.h"

enum sn_axis {
    SN_AXIS_TENSOR,
    SN_AXIS_CONTEXT,
    SN_AXIS_DATA,
    SN_AXIS_PIPELINE,
    SN_NGRID_AXES,                  /* those that multiply to the number of ranks */
    SN_AXIS_EXPERT = SN_NGRID_AXES, /* carved out of data x tensor x context (issue of experts) */
    SN_AXIS_WORLD,                  /* all ranks */
    SN_NAXES
};

struct sn_grid {
    int size[SN_NGRID_AXES];
    int stride[SN_NGRID_AXES]; /* rank distance between neighbours on each axis */
};

/* Grid of `ranks` ranks. `size` must multiply to it; `order` lists every axis once, innermost
 * first. SN_EINPUT says which product was found. */
enum sn_status sn_grid_init(struct sn_grid *out, int ranks, const int size[SN_NGRID_AXES],
                            const enum sn_axis order[SN_NGRID_AXES], struct sn_err *err);

int sn_grid_coord(const struct sn_grid *g, int rank, enum sn_axis a);
/* List the ranks that differ from `rank` on axis a only, in order; returns how many. */
int sn_grid_peers(const struct sn_grid *g, int rank, enum sn_axis a, int *ranks);

const char *sn_axis_name(enum sn_axis a);

#endif
