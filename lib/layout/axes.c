/*
 * axes.c - the axes of the run file as those of the grid.
 */
#include "lib/layout/axes.h"

static const enum sn_axis ordered[SN_NORDER_AXES] = {
    [SN_ORDER_TENSOR] = SN_AXIS_TENSOR,   [SN_ORDER_TENSOR_X] = SN_AXIS_TENSOR_X,
    [SN_ORDER_CONTEXT] = SN_AXIS_CONTEXT, [SN_ORDER_EXPERT] = SN_AXIS_EXPERT,
    [SN_ORDER_DATA_AXIS] = SN_AXIS_DATA,  [SN_ORDER_PIPELINE] = SN_AXIS_PIPELINE};

void sn_axes_sizes(int size[SN_NGRID_AXES], const struct sn_layout_config *l)
{
#define SIZE(ID, key, ...) size[SN_AXIS_##ID] = l->key;
    SN_GRID_AXES(SIZE)
#undef SIZE
}

void sn_axes_set_sizes(struct sn_layout_config *l, const int size[SN_NGRID_AXES])
{
#define SET(ID, key, ...) l->key = size[SN_AXIS_##ID];
    SN_GRID_AXES(SET)
#undef SET
}

void sn_axes_set_one(struct sn_layout_config *l)
{
#define SET_ONE(ID, key, ...) l->key = 1;
    SN_GRID_AXES(SET_ONE)
#undef SET_ONE
}

enum sn_axis sn_axes_ordered(enum sn_order_axis o)
{
    return ordered[o];
}

void sn_axes_order(enum sn_axis order[SN_NGRID_AXES], const struct sn_layout_config *l)
{
    bool names_y = false;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        order[a] = (enum sn_axis)a;
    for (int i = 0; i < l->n_axis_order; i++)
        names_y = names_y || l->axis_order[i] == SN_ORDER_TENSOR_X;
    for (int i = 0, n = 0; i < l->n_axis_order && n < SN_NGRID_AXES; i++) {
        if (ordered[l->axis_order[i]] != SN_AXIS_EXPERT)
            order[n++] = ordered[l->axis_order[i]];
        if (l->axis_order[i] == SN_ORDER_TENSOR && !names_y)
            order[n++] = SN_AXIS_TENSOR_X; /* beside the axis that it is a half of */
    }
}
