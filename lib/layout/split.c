#include "lib/layout/split.h"

#include <math.h>

static enum sn_status check(const struct sn_split_cost *c, int layers, int parts,
                            struct sn_err *err)
{
    if (parts < 1)
        return sn_fail(err, SN_EINPUT, "layout: %d pipeline pieces; at least 1 would work", parts);
    if (layers < parts)
        return sn_fail(err, SN_EINPUT,
                       "layout: %d layers on %d pipeline pieces (stages x virtual stages), one "
                       "layer each at least; up to %d pieces or from %d layers on would work",
                       layers, parts, layers > 0 ? layers : 1, parts);
    if (!isfinite(c->first) || !isfinite(c->last) || c->first < 0 || c->last < 0)
        return sn_fail(err, SN_EINPUT,
                       "layout.split: the ends cost %g and %g layers; finite costs from 0 on would "
                       "work",
                       c->first, c->last);
    return SN_OK;
}

/* What piece i costs with n layers. */
static double cost(const struct sn_split_cost *c, int i, int parts, int n)
{
    return n + (i == 0 ? c->first : 0) + (i == parts - 1 ? c->last : 0);
}

/* One layer at a time to the piece that is cheapest with it: for a sum of convex functions of the
 * counts (the largest cost and the sum of squares behave so) that is optimal, not only good. */
enum sn_status sn_split_layers(int *layers_per_part, const struct sn_split_cost *c, int layers,
                               int parts, struct sn_err *err)
{
    SN_TRY(check(c, layers, parts, err));
    for (int i = 0; i < parts; i++)
        layers_per_part[i] = 1;
    for (int left = layers - parts; left > 0; left--) {
        int best = parts - 1;
        for (int i = parts - 2; i >= 0; i--)
            if (cost(c, i, parts, layers_per_part[i]) < cost(c, best, parts, layers_per_part[best]))
                best = i;
        layers_per_part[best]++;
    }
    return SN_OK;
}
