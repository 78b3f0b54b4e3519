#include "lib/layout/grid.h"

const char *sn_axis_name(enum sn_axis a)
{
    static const char *const name[SN_NAXES] = {"tensor",   "context", "data",
                                               "pipeline", "expert",  "world"};
    return name[a];
}

static enum sn_status check_sizes(int ranks, const int size[SN_NGRID_AXES], struct sn_err *err)
{
    long product = 1;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        if (size[a] < 1 || __builtin_mul_overflow(product, (long)size[a], &product))
            return sn_fail(err, SN_EINPUT, "layout.%s: %d; want 1..%d",
                           sn_axis_name((enum sn_axis)a), size[a], ranks);
    if (product != ranks)
        return sn_fail(
            err, SN_EINPUT,
            "layout: tensor %d x context %d x data %d x pipeline %d = %ld, but the job has "
            "%d ranks",
            size[SN_AXIS_TENSOR], size[SN_AXIS_CONTEXT], size[SN_AXIS_DATA], size[SN_AXIS_PIPELINE],
            product, ranks);
    return SN_OK;
}

enum sn_status sn_grid_init(struct sn_grid *out, int ranks, const int size[SN_NGRID_AXES],
                            const enum sn_axis order[SN_NGRID_AXES], struct sn_err *err)
{
    SN_TRY(check_sizes(ranks, size, err));
    struct sn_grid g = {{0}, {0}};
    int stride = 1;
    for (int i = 0; i < SN_NGRID_AXES; i++) {
        enum sn_axis a = order[i];
        if (a >= SN_NGRID_AXES || g.stride[a] != 0)
            return sn_fail(
                err, SN_EINPUT,
                "layout.axis_order: %s stands twice or is no axis of the rank grid; want "
                "tensor, context, data and pipeline once each",
                sn_axis_name(a));
        g.size[a] = size[a];
        g.stride[a] = stride;
        stride *= size[a];
    }
    *out = g;
    return SN_OK;
}

int sn_grid_coord(const struct sn_grid *g, int rank, enum sn_axis a)
{
    return rank / g->stride[a] % g->size[a];
}

int sn_grid_peers(const struct sn_grid *g, int rank, enum sn_axis a, int *ranks)
{
    int first = rank - sn_grid_coord(g, rank, a) * g->stride[a];
    for (int i = 0; i < g->size[a]; i++)
        ranks[i] = first + i * g->stride[a];
    return g->size[a];
}
