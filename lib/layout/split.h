/*
 * split.h - how many layers each stage module of a pipeline gets.
 *
 * All layers cost the same, the first stage module also holds the embedding and the last one the
 * head. Arithmetic on costs; where costs come from is the caller's business.
 */
#ifndef SN_SPLIT_H
#define SN_SPLIT_H

#include "lib/base/err.h"

/* What the ends cost beyond their layers, in units of one layer; finite, not negative. */
struct sn_split_cost {
    double first, last; /* with one stage module it bears both */
};

/* Cut `layers` layers into `modules` consecutive stage modules of at least one layer each;
 * layers_per_module[modules] is the caller's. The stage module that costs most costs as little as
 * possible. Among such splits the most even one is taken: costs with the least sum of squares; and
 * among those the one with fewer layers in front, where a schedule keeps most activations (compare
 * layers_per_module piece by piece, the first difference decides). SN_EINPUT if there are fewer
 * layers than stage modules, with what would work. */
enum sn_status sn_split_layers(int *layers_per_module, const struct sn_split_cost *c, int layers,
                               int modules, struct sn_err *err);

#endif
