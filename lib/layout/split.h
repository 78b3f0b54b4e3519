/*
 * split.h - how many layers each piece of a pipeline gets.
 *
 * All layers cost the same, the first piece also holds the embedding and the last one the head.
 * Arithmetic on costs; where costs come from is the caller's business.
 */
#ifndef SN_SPLIT_H
#define SN_SPLIT_H

#include "lib/base/err.h"

/* What the ends cost beyond their layers, in units of one layer; finite, not negative. */
struct sn_split_cost {
    double first, last; /* with one piece it bears both */
};

/* Cut `layers` layers into `parts` consecutive pieces of at least one layer each;
 * layers_per_part[parts] is the caller's. The piece that costs most costs as little as possible.
 * Among such splits the most even one is taken: costs with the least sum of squares; and among
 * those the one with fewer layers in front, where a schedule keeps most activations (compare
 * layers_per_part piece by piece, the first difference decides). SN_EINPUT if there are fewer
 * layers than pieces, with what would work. */
enum sn_status sn_split_layers(int *layers_per_part, const struct sn_split_cost *c, int layers,
                               int parts, struct sn_err *err);

#endif
