#include "lib/layout/mesh.h"

/* Which axes of the grid are axes of tensors, the outermost first. */
static const struct {
    enum sn_axis axis;
    enum sn_mesh_use use;
    enum sn_group group;
} axes[] = {
    {SN_AXIS_TENSOR, SN_MESH_OUTPUTS, SN_GROUP_TENSOR},
    {SN_AXIS_TENSOR_X, SN_MESH_INPUTS, SN_GROUP_TENSOR_X},
};

struct sn_mesh sn_mesh_of_grid(const struct sn_grid *g)
{
    struct sn_mesh m = {.n_axes = sizeof(axes) / sizeof(axes[0])};
    for (int a = 0; a < m.n_axes; a++)
        m.axis[a] = (struct sn_mesh_axis){.name = sn_axis_name(axes[a].axis),
                                          .use = axes[a].use,
                                          .group = axes[a].group,
                                          .size = g->size[axes[a].axis],
                                          .stride = g->stride[axes[a].axis]};
    return m;
}

int sn_mesh_ranks(const struct sn_mesh *m)
{
    int n = 1;
    for (int a = 0; a < m->n_axes; a++)
        n *= m->axis[a].size;
    return n;
}

int sn_mesh_token_ranks(const struct sn_mesh *m)
{
    int n = 1;
    for (int a = 0; a < m->n_axes; a++)
        n *= m->axis[a].use == SN_MESH_TOKENS ? m->axis[a].size : 1;
    return n;
}

int sn_mesh_coord(const struct sn_mesh *m, int axis, int rank)
{
    return rank / m->axis[axis].stride % m->axis[axis].size;
}

int sn_mesh_member(const struct sn_mesh *m, int axis, int rank, int i)
{
    return rank + (i - sn_mesh_coord(m, axis, rank)) * m->axis[axis].stride;
}

struct sn_mesh_place sn_mesh_place(const struct sn_mesh *m, int rank)
{
    struct sn_mesh_place p;
    for (int a = 0; a < SN_MESH_AXES; a++) {
        p.size[a] = a < m->n_axes ? m->axis[a].size : 1;
        p.index[a] = a < m->n_axes ? sn_mesh_coord(m, a, rank) : 0;
    }
    return p;
}
