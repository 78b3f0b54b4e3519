#include "lib/layout/split.h"

#include <math.h>

static enum sn_status check(const struct sn_split_cost *c, int layers, int modules,
                            struct sn_err *err)
{
    if (modules < 1)
        return sn_fail(err, SN_EINPUT,
                       "layout: %d stage modules of the pipeline; at least 1 would work", modules);
    if (layers < modules)
        return sn_fail(
            err, SN_EINPUT,
            "layout: %d layers on %d stage modules of the pipeline (stages x virtual stages), one "
            "layer each at least; up to %d stage modules or from %d layers on would work",
            layers, modules, layers > 0 ? layers : 1, modules);
    if (!isfinite(c->first) || !isfinite(c->last) || c->first < 0 || c->last < 0)
        return sn_fail(err, SN_EINPUT,
                       "layout.split: the ends cost %g and %g layers; finite costs from 0 on would "
                       "work",
                       c->first, c->last);
    return SN_OK;
}

/* What stage module i costs with n layers. */
static double cost(const struct sn_split_cost *c, int i, int modules, int n)
{
    return n + (i == 0 ? c->first : 0) + (i == modules - 1 ? c->last : 0);
}

/* One layer at a time to the stage module that is cheapest with it: for a sum of convex functions
 * of the counts (the largest cost and the sum of squares behave so) that is optimal, not only
 * good. */
enum sn_status sn_split_layers(int *layers_per_module, const struct sn_split_cost *c, int layers,
                               int modules, struct sn_err *err)
{
    SN_TRY(check(c, layers, modules, err));
    for (int i = 0; i < modules; i++)
        layers_per_module[i] = 1;
    for (int left = layers - modules; left > 0; left--) {
        int best = modules - 1;
        for (int i = modules - 2; i >= 0; i--)
            if (cost(c, i, modules, layers_per_module[i]) <
                cost(c, best, modules, layers_per_module[best]))
                best = i;
        layers_per_module[best]++;
    }
    return SN_OK;
}
