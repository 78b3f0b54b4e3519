/*
 * estimate_inner.h - a layout under estimation: what the files estimate*.c share.
 *
 *   estimate.c           seconds: segments, the pipeline, the end of the step
 *   estimate_memory.c    bytes: what is kept, temporaries, the state
 *   estimate_gathered.c  weights that stay gathered (layout.zero_cache)
 */
#ifndef SN_ESTIMATE_INNER_H
#define SN_ESTIMATE_INNER_H

#include "lib/search/estimate_cache.h"

/* A layout under estimation. */
struct sn_estimation {
    struct sn_estimator *e;
    const struct sn_layout_config *l;
    struct sn_layer_profile *shape;
    const struct sn_kept_entry *kept; /* NULL with another trainer's memory */
    const struct sn_net *net;
    struct sn_layer_profile_prices *prices;
    struct sn_pipeline pipe;
    const struct sn_holding *held;
    int modules, members;
    int still;                 /* of the first modules nothing runs backward */
    bool keeps;                /* some units their gathered weights: e->keeps */
    const int *layers, *begin; /* [modules]; begin: their first layers */
    double *forward, *backward, *weight, *after, *extra, *stream, *end, *done, *first;
    const sn_shard_seconds *
        *reduce; /* [modules] of the units of each stage module, from its last on */
    bool posts;  /* the last backwards post reductions */
    bool played; /* ends include what they wait for then */
    struct sn_coded_reduction
        wire; /* a transfer of the pipeline: without a codec `exchange` alone */
};

static inline bool sn_delays_weights(const struct sn_estimation *k)
{
    return sn_schedule_traits(k->pipe.kind)->delays_weights;
}

/* estimate.c: what a stage module holds; what decides a stage's buckets, and what they cost. */
struct sn_extent sn_module_extent(const struct sn_estimation *k, int module);
struct sn_inventory_key sn_stage_stock(const struct sn_estimation *k, int s);
enum sn_status sn_stage_cost(struct sn_estimation *k, int s, struct sn_inventory_cost *out,
                             struct sn_err *err);

/* estimate_memory.c: find out what is kept for backward; *too_much: that, if it alone is more than the
 * limit, else 0. Then of the stage that needs most all bytes. */
enum sn_status sn_estimate_kept(struct sn_estimation *k, int64_t *too_much, struct sn_err *err);
enum sn_status sn_estimate_memory(struct sn_estimation *k, int64_t *most, struct sn_err *err);
/* As sn_estimate_kept, but of every layer's input but the first's alone, which is kept with any recomputation:
 * nothing is compiled. */
enum sn_status sn_estimate_inputs(struct sn_estimation *k, int64_t *too_much, struct sn_err *err);

/* The first unit of a stage module in e->keeps: units are in the order of the model. */
static inline int sn_keeps_at(const struct sn_estimation *k, int module)
{
    return k->begin[module] + (module > 0);
}
/* estimate_gathered.c: choose the units whose gathered weights stay; of layout.zero_cache: auto as many
 * as fit at most, and none where no limit is known. e->config.layout.zero_cache: how many;
 * *each: bytes that one of them takes where that is auto. */
enum sn_status sn_keeps_find(struct sn_estimation *k, double *each, struct sn_err *err);
/* Bytes that those of a stage take; cache: of a unit of each place. */
int64_t sn_keeps_bytes(const struct sn_estimation *k, int stage, const int64_t cache[SN_NPLACES]);
/* Seconds of the first micro-batch's forward in a stage module, at least; 0: of no unit they stay. */
double sn_keeps_first(const struct sn_estimation *k, const struct sn_extent *x);

#endif
