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
/* One rank. */
void sn_axes_set_one(struct sn_layout_config *l);
void sn_axes_set_sizes(struct sn_layout_config *l, const int size[SN_NGRID_AXES]);
/* The axis that layout.axis_order calls so. */
enum sn_axis sn_axes_ordered(enum sn_order_axis o);
/* Innermost first: layout.axis_order without what is carved out of others (expert). */
void sn_axes_order(enum sn_axis order[SN_NGRID_AXES], const struct sn_layout_config *l);

#endif
