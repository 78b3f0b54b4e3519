/*
 * axes.c - the axes of the run file as those of the grid.
 */
#include "lib/layout/axes.h"

void sn_axes_sizes(int size[SN_NGRID_AXES], const struct sn_layout_config *l)
{
    size[SN_AXIS_TENSOR] = l->tensor;
    size[SN_AXIS_CONTEXT] = l->context;
    size[SN_AXIS_DATA] = l->data;
    size[SN_AXIS_PIPELINE] = l->pipeline;
}

void sn_axes_order(enum sn_axis order[SN_NGRID_AXES], const struct sn_layout_config *l)
{
    static const enum sn_axis axis[SN_NORDER_AXES] = {[SN_ORDER_TENSOR] = SN_AXIS_TENSOR,
                                                      [SN_ORDER_CONTEXT] = SN_AXIS_CONTEXT,
                                                      [SN_ORDER_EXPERT] = SN_AXIS_EXPERT,
                                                      [SN_ORDER_DATA_AXIS] = SN_AXIS_DATA,
                                                      [SN_ORDER_PIPELINE] = SN_AXIS_PIPELINE};
    for (int a = 0; a < SN_NGRID_AXES; a++)
        order[a] = (enum sn_axis)a;
    for (int i = 0, n = 0; i < l->n_axis_order && n < SN_NGRID_AXES; i++)
        if (axis[l->axis_order[i]] != SN_AXIS_EXPERT)
            order[n++] = axis[l->axis_order[i]];
}
