#include "lib/cost/fit_links.h"

#include "lib/cost/fit.h"
#include "lib/cost/price.h"

#include <math.h>

static double predicted(const struct sn_machine *m, const struct sn_measured_link *x)
{
    struct sn_software software;
    sn_software_default(&software);
    struct sn_pricer p = {.machine = m, .software = &software, .precision = SN_F32, .threads = 1};
    p.grid = (struct sn_grid){.kv_copies = 1};
    for (int a = 0; a < SN_NGRID_AXES; a++)
        p.grid.size[a] = p.grid.stride[a] = 1;
    p.grid.size[SN_AXIS_DATA] = x->members;
    sn_span_of(&p.span[SN_GROUP_DATA], m, &p.grid, SN_GROUP_DATA);
    return sn_price_collective(&p, x->kind, x->bytes / 4, SN_F32, SN_GROUP_DATA);
}

/* The formula is asked for a machine of this level alone, through which one group communicates.
 * x: latency, device, half_bytes. */
static double loss(const double *x, const void *arg)
{
    const struct sn_level *level = arg;
    const struct sn_links *l = &level->measured;
    struct sn_machine m = {.n_levels = 1, .algorithm = SN_ALGORITHM_DIRECT, .level = {*level}};
    double sum = 0;
    m.level[0].ranks = 0;
    m.level[0].measured = (struct sn_links){0};
    m.level[0].latency = x[0];
    m.level[0].device = x[1];
    m.level[0].half_bytes = x[2];
    for (int i = 0; i < l->n; i++) {
        if (l->v[i].kind == SN_RECV)
            continue;
        double e = log(predicted(&m, &l->v[i]) / l->v[i].seconds);
        sum += e * e;
    }
    return sum;
}

void sn_fit_level(struct sn_level *level)
{
    double x[] = {10e-6, 1e9, 1024};
    sn_fit_minimise(x, 3, loss, level);
    level->latency = x[0];
    level->device = x[1];
    level->half_bytes = x[2] > 1 ? x[2] : 0;
}
