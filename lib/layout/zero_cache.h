/*
 * zero_cache.h - which units of a pipeline stage keep their gathered weights for a step
 * (layout.zero_cache; Singh et al., "A 4D Hybrid Algorithm to Scale Parallel Training", arXiv
 * 2305.13525, keep those of the first layers). A unit is the embedding, a layer, or the head.
 *
 * With ZeRO 3 a layer is gathered in each forward and each backward segment: 2 M times in a step of M
 * micro-batches. One that is kept is gathered once, in the first forward segment, one unit ahead
 * like all others: 2 M - 1 messages less. So all layers save the same bytes for the same memory;
 * what differs is what can be seen of them. Gathers of g seconds hide behind the unit before, which
 * computes for f in forward and b in backward:
 *
 *   a segment's first unit   nothing computes before it: all of g is waited for. Of forward that is
 *                            a stage module's first layer, of backward its last, which has just
 *                            been used.
 *   any other                g - f, g - b, if that is more than 0. Where it is not, nothing is
 *                            gained but the links' time; where it is, a gather behind r units that are
 *                            kept hides behind 1 + r units (it is posted when the last unit that is
 *                            gathered is entered): kept ones best lie apart from each other.
 *   embedding, head          are used in forward alone, and so gathered M times: M - 1 less. The
 *                            embedding is the first unit of its segment, and next to nothing
 *                            computes before the layer behind it; the head comes behind a layer.
 *
 * Hence this order, of which the first n are kept: the last layers of stage modules, their first
 * layers, the embedding, layers in the middle of the widest gaps, the head.
 */
#ifndef SN_ZERO_CACHE_H
#define SN_ZERO_CACHE_H

#include <stdbool.h>

struct sn_cache_stage {
    int units;                    /* of the stage, in the order of the model */
    const int *module;            /* [units] ascending: the stage module of each */
    bool first, last;             /* unit 0 is the embedding, the last one the head */
    bool first_again, last_again; /* which is gathered more than once in a step */
};

/* Set keeps[units]: n of them, or all that are gathered more than once. Returns how many. */
int sn_cache_choose(bool *keeps, const struct sn_cache_stage *s, int n);

#endif
