/*
 * axes.h - the grid that a layout asks for: how many ranks each axis has, and in which order the
 * axes lie. Who makes a grid of a layout takes both from here.
 */
#ifndef SN_AXES_H
#define SN_AXES_H

#include "lib/config/config.h"
#include "lib/layout/grid.h"

/* size[a]: ranks along axis a. */
void sn_axes_sizes(int size[SN_NGRID_AXES], const struct sn_layout_config *l);
/* Innermost first: layout.axis_order without what is carved out of others (expert). */
void sn_axes_order(enum sn_axis order[SN_NGRID_AXES], const struct sn_layout_config *l);

#endif
