/*
 * estimate.h - bounds on the time and memory of a layout in microseconds, without compiling it.
 *
 * A search prices each way of cutting a layer once (layer_profile.h), deals the buckets of each
 * kind of stage once (inventory.h), and bounds any layout from these by formulas:
 *
 *   segments       sums over layers: never longer than in the step (layer_profile.h)
 *   pipeline     the longest of some paths (bound.h), or the schedule played through with transfers
 *   gradients    ZeRO 0 and 1 post all reductions in the last backward of a virtual stage, behind
 *                whatever is on the same stream; the update waits for all of them: not before the
 *                begin of that segment + the sum of all that it posts
 *   update       the norm of everything, one agreement of all ranks, the optimizer with gathers
 *                beside it: not shorter than either
 *   memory       state to the byte; kept activations, read off small texts (kept.h), to the byte,
 *                of the first two and last two stages; temporaries: what is alive at one operation
 *
 * So `seconds` is at most what the simulation gives, and `memory` at most what the arenas take
 * (tests/unit/search/test_estimate.c compares both on hundreds of layouts). Where another trainer's
 * profile changes what memory holds, memory is not bounded: 0.
 */
#ifndef SN_ESTIMATE_H
#define SN_ESTIMATE_H

#include "lib/search/layer_profile.h"

struct sn_estimator;

struct sn_estimate {
    double seconds; /* of a step, at least */
    int64_t memory; /* bytes of the stage that needs most, at least; the library apart */
    int zero_cache; /* layout.zero_cache; where that is auto as many as fit at most: 0 without a limit */
    double cache_each; /* bytes that one less of those would need less, where that is auto */
};

/* For one model on a number of ranks of a machine. Borrows all. Caller destroys *out. */
enum sn_status sn_estimator_create(struct sn_estimator **out, const struct sn_config *c,
                                   const struct sn_machine *m, const struct sn_software *s,
                                   const struct sn_ops *ops, int threads, struct sn_err *err);
void sn_estimator_destroy(struct sn_estimator *e); /* NULL is allowed */

/* Of a layout whose kept activations alone are more, only these are told: seconds are 0 then, and
 * nothing is compiled. 0: no limit. `library`: of these, what is not estimated. */
void sn_estimator_limit(struct sn_estimator *e, int64_t bytes, int64_t library);

enum sn_estimate_detail {
    SN_ESTIMATE_ANY_ORDER, /* of all axis orders, each group as in the one that suits it best;
                              tensor and tensor_x are neighbours in all of them */
    SN_ESTIMATE_ORDER,     /* in the layout's order */
    SN_ESTIMATE_PLAYED,    /* and with its schedule played through: tighter, 100 times slower */
    /* Of all layouts that differ from it in what replicas hold alone, or, where it computes nothing again
     * and the run file leaves that open, in recomputation, too: a step with no more than it computes
     * again, and nothing gathered, reduced or updated. Bytes only where they are over the limit, and
     * then no seconds. */
    SN_ESTIMATE_GROUP,
    /* Of the same layouts, from the arithmetic of a whole layer at the best rate of any shape: no layer that is cut
     * is compiled, and memory is not looked at. */
    SN_ESTIMATE_FLOOR
};
/* Of a valid layout with layout.data set. */
enum sn_status sn_estimate(struct sn_estimate *out, struct sn_estimator *e,
                           const struct sn_layout_config *l, enum sn_estimate_detail detail,
                           struct sn_err *err);
/* Two orders of the axes of a grid are the same on this machine: every group lies alike. */
enum sn_status sn_estimate_same_order(bool *same, struct sn_estimator *e,
                                      const struct sn_layout_config *a,
                                      const struct sn_layout_config *b, struct sn_err *err);
/* Seconds of the ends in units of a layer's, for sn_split_layers: what balances time, not FLOPs. */
enum sn_status sn_estimate_ends(double *first, double *last, struct sn_estimator *e,
                                const struct sn_layout_config *l, struct sn_err *err);

/* Shapes compiled so far. */
int sn_estimator_shapes(const struct sn_estimator *e);

#endif
