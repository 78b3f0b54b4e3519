/*
 * inventory.h - the gradient buckets of a pipeline stage and what the end of a step does with them,
 * counted without compiling the stage.
 *
 * Buckets are dealt as lib/program/shards.c deals them, from the parts of a layer and of the ends;
 * many are equal, so a stage of 80 layers has a handful of classes.
 */
#ifndef SN_INVENTORY_H
#define SN_INVENTORY_H

#include "lib/search/layer_profile.h"

struct sn_inventory_class {
    int64_t raw; /* elements before padding */
    int kind;    /* of the shape's */
    int count;
    bool tied; /* summed over first and last stage */
};

/* A bucket is complete with this part of this unit of a stage's backward (ends and layers, from the
 * head on). */
struct sn_inventory_event {
    short unit, part, cls;
};

struct sn_inventory {
    struct sn_inventory_class *cls;
    int n, cap;
    struct sn_inventory_event *event; /* one for each bucket */
    int n_events, cap_events;
    int units;
};

/* What a stage holds: pieces that may lie apart. */
struct sn_inventory_stage {
    struct sn_extent x;
    const unsigned char
        *kinds; /* [x.layers] enum sn_layer_place of each, from the head on; NULL: all are
                                   of one kind */
    bool apart; /* first and last piece are on different stages */
};
enum sn_status sn_inventory_deal(struct sn_inventory *out, const struct sn_layer_profile *s,
                                 int64_t bucket_bytes, const struct sn_inventory_stage *stage,
                                 struct sn_err *err);
void sn_inventory_fini(struct sn_inventory *s); /* a zeroed one is allowed */

/* Elements of a bucket in all, and what a rank keeps of arrays that are divided. */
struct sn_inventory_size {
    int64_t n, slice;
};
struct sn_inventory_size sn_inventory_size(int64_t raw, int zero, int members);

/* The ZeRO stage that a bucket is under (sn_bucket_zero). */
int sn_inventory_zero(const struct sn_bucket *b, int zero);

/* Who shares a bucket's gradients: all replicas, or those that hold the same experts. And what
 * codecs add to a rank's state (lib/program/state.c): what was lost of gradients, masters in fp32.
 */
struct sn_inventory_members {
    int replicas, copies;
    bool feedback, masters;
};
int sn_inventory_members_of(const struct sn_bucket *b, const struct sn_inventory_members *m);

/* Bytes of weights, gradients and optimizer state, each buffer rounded up to 64. */
struct sn_inventory_bytes {
    int64_t params, grads, optimizer;
};
struct sn_inventory_bytes sn_inventory_bytes(const struct sn_inventory *s,
                                             const struct sn_layer_profile *shape,
                                             enum sn_dtype dtype, int zero,
                                             const struct sn_inventory_members *members);

#endif
