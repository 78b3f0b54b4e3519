/*
 * inventory.h - the gradient buckets of a pipeline stage, read off what the compiler deals out for
 * it (sn_job_create_shards): many are equal, so a stage of 80 layers has a handful of classes.
 */
#ifndef SN_INVENTORY_H
#define SN_INVENTORY_H

#include "lib/search/layer_profile.h"

struct sn_inventory_class {
    struct sn_bucket like; /* as each of them is */
    int count;
    bool decoded; /* weights come from the masters with a codec, and the update writes none */
};

/* A bucket is complete with this shard (of the profile) of this unit of a stage's backward (ends
 * and layers, from the head on). */
struct sn_inventory_event {
    short unit, shard, cls;
};

struct sn_inventory {
    struct sn_inventory_class *cls;
    int n;
    struct sn_inventory_event *event; /* one for each bucket */
    int n_events;
    int units;
    int64_t state;             /* bytes of weights, gradients and optimizer state */
    int64_t cache[SN_NPLACES]; /* of a unit's weights that are gathered where they are divided */
};

/* `s` is the profile of its layers. */
enum sn_status sn_inventory_read(struct sn_inventory *out, const struct sn_job *stage,
                                 const struct sn_layer_profile *s, struct sn_err *err);
void sn_inventory_fini(struct sn_inventory *s); /* a zeroed one is allowed */

#endif
