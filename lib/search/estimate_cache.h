/*
 * estimate_cache.h - what an estimator remembers. Internal to lib/search.
 */
#ifndef SN_ESTIMATE_CACHE_H
#define SN_ESTIMATE_CACHE_H

#include "lib/layout/schedule.h"
#include "lib/search/estimate.h"
#include "lib/search/inventory.h"
#include "lib/search/kept.h"

/* How the groups of a grid lie on the machine: in one order of the axes, or in any of them, each
 * way that a group may lie once. */
enum { SN_NET_WAYS = 48 };
struct sn_net_key {
    int size[SN_NGRID_AXES];
    int expert, fold, slices; /* members of an expert group; lib/config/config.h */
    int zero_node;            /* layout.zero_node */
    int order; /* of the axes, in base 8, and which of expert and data is inner; -1: any */
};
struct sn_net {
    struct sn_net_key key;
    int members[SN_NGROUPS];
    int ways[SN_NGROUPS];
    struct sn_span span[SN_NGROUPS][SN_NET_WAYS];
    int hop_ways; /* in which an exchange may take two hops (lib/cost/hops.h) */
    struct sn_net_hops {
        struct sn_span node, rail;
    } hop[SN_NET_WAYS];
    struct sn_net *next; /* of the same hash */
};

struct sn_layer_profile_entry {
    struct sn_layer_profile *shape;
    struct sn_layer_profile_prices prices; /* in this net, with these codecs: */
    const struct sn_net *net;
    struct sn_coding data, zero;
    struct sn_layer_profile_entry *next;
};

/* What layers keep that are cut alike, and what stages with these ends and begins do: by micro-batch. */
struct sn_kept_family {
    struct sn_layer_profile_key key; /* of no micro-batch */
    struct sn_kept_line by_layers, of[2][2][SN_KEPT_BEGINS];
    struct sn_kept_family *next;
};

struct sn_kept_modules {
    bool is[2][2][SN_KEPT_BEGINS];
};
/* By (first, last, begin), read when it is wanted. What replicas divide (zero, in_nodes) changes nothing that is
 * kept, and is not in the key. */
struct sn_kept_entry {
    struct sn_layer_profile_key key;
    struct sn_kept_family *family;
    struct sn_kept_pair of[2][2][SN_KEPT_BEGINS], by_layers;
    struct sn_kept_modules read;
    bool has_layers;
    struct sn_kept_entry *smaller; /* the same with fewer sequences in a micro-batch; NULL */
    struct sn_kept_entry *next;
};

/* What decides the buckets of a stage, beside how its layers are cut. */
struct sn_inventory_key {
    struct sn_extent x; /* all of its stage modules */
    const unsigned char
        *kinds;           /* [x.layers] enum sn_layer_place of each, from the head on; NULL: all
                                   are of one kind */
    bool apart;           /* first and last stage module are on different stages */
    int replicas, copies; /* of the experts' weights */
    int zero_node;
    const struct sn_holding *held;
};

/* What the end of a step costs a stage: seconds; bytes of its state. */
struct sn_inventory_cost {
    double gather, shared; /* all buckets, one after another; sums over other groups */
    double coded;          /* kernels of codecs beside the gathers */
    double sq_norm, update;
    double all;                     /* reductions of gradients: all buckets */
    const sn_shard_seconds *reduce; /* [units] those that wait for a shard of a unit of backward */
    int64_t state;
    const int64_t *cache; /* [SN_NPLACES] of a unit that keeps its gathered weights */
    int64_t wide;         /* the largest fp32 copy of gradients: a temporary of the update */
};

struct sn_inventory_entry {
    struct sn_inventory_key key; /* its kinds are the entry's own: */
    unsigned char *kinds;
    int size[SN_NGRID_AXES]; /* of the layer's key */
    int expert, slices;
    unsigned char sequence_parallel;
    struct sn_inventory inventory;
    struct sn_coding data, zero;   /* codecs of its buckets */
    struct sn_inventory_cost cost; /* communication in this net: */
    const struct sn_net *net;
    sn_shard_seconds *reduce;         /* [inventory.units]: cost.reduce */
    struct sn_coded_reduction *coded; /* [inventory.n] of each class; NULL: without codecs */
    struct sn_inventory_entry *next;
};

struct sn_slots_key {
    struct sn_pipeline pipe; /* the shortest that has as many */
    int stage;
};
struct sn_slots_entry {
    struct sn_slots_key key;
    int slots[SN_MAX_VSTAGES];
    struct sn_slots_entry *next;
};

enum { SN_CACHE_ROWS = 4096 };

struct sn_estimator {
    struct sn_config config; /* the layout is the one at hand */
    const struct sn_machine *machine;
    const struct sn_software *software;
    struct sn_model *whole; /* stages are dealt out of it */
    struct sn_model *model; /* of one layer of each kind */
    struct sn_job *job;     /* of it, on one rank: its update is priced in other sizes */
    const struct sn_op *sq_norm, *update, *average, *widen, *decide; /* widen: of bf16 gradients */
    struct sn_op prune; /* of buckets that are sparse */
    struct sn_pricer pricer;
    struct sn_layer_profile_env env;
    bool foreign_memory;
    double head_layers;
    double *room; /* for costs of stage modules */
    const sn_shard_seconds **reduce;
    int **split;          /* [layers + 1] by number of stage modules */
    struct sn_kinds of;   /* which layers have experts, prompts */
    int *begin;           /* [layers + 1] room for stage modules' first layers */
    unsigned char *kinds; /* [layers] and for those of a stage */
    unsigned char *keeps; /* [layers + 2] by unit: enum sn_keeps */
    int *units;           /* [2 x (layers + 2)] room for units of a stage, and where they are */
    bool *picked;         /* [layers + 2] likewise */
    struct sn_layer_profile_entry *shape[SN_CACHE_ROWS];
    struct sn_net *net[SN_CACHE_ROWS];
    struct sn_inventory_entry *inventory[SN_CACHE_ROWS];
    struct sn_slots_entry *slots[SN_CACHE_ROWS];
    struct sn_kept_entry *kept[SN_CACHE_ROWS];
    struct sn_kept_family *families[SN_CACHE_ROWS];
    struct sn_kept_models models;
    int shapes;
    int64_t limit, room_for;
};

enum sn_status sn_split_cached(const int **layers, struct sn_estimator *e, int modules,
                               struct sn_err *err);
/* The row of a cache where a key of n bytes belongs. */
static inline unsigned sn_cache_row(const void *key, size_t n)
{
    const unsigned char *c = key;
    unsigned h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ c[i]) * 16777619u;
    return h % SN_CACHE_ROWS;
}

/* Bytes of tokens, scalars, staging and shared memory, the same on every stage, for the layout at
 * hand. */
int64_t sn_common_bytes(const struct sn_estimator *e, const struct sn_net *net, int micros);
/* What is known already of the stage modules of the layout at hand, of which there are these: all,
 * or what a smaller micro-batch keeps, which is no more. NULL: nothing. */
enum sn_status sn_kept_known(const struct sn_kept_entry **out, struct sn_estimator *e,
                             const struct sn_kept_modules *wanted, struct sn_err *err);
/* What they keep. */
enum sn_status sn_kept_cached(const struct sn_kept_entry **out, struct sn_estimator *e,
                              const struct sn_kept_modules *wanted, struct sn_err *err);
enum sn_status sn_layer_profile_cached(struct sn_layer_profile **out, struct sn_estimator *e,
                                       struct sn_err *err);
/* Of sn_layer_profile_whole. */
enum sn_status sn_layer_profile_whole_cached(struct sn_layer_profile **out, struct sn_estimator *e,
                                             struct sn_err *err);
enum sn_status sn_net_cached(const struct sn_net **out, struct sn_estimator *e, bool any,
                             struct sn_err *err);
enum sn_status sn_prices_cached(struct sn_layer_profile_prices **out, struct sn_estimator *e,
                                struct sn_layer_profile *s, const struct sn_net *net,
                                struct sn_err *err);
void sn_inventory_entry_destroy(struct sn_inventory_entry *x);
/* Of stage number `stage` of the layout at hand, whose buckets `key` decides. */
enum sn_status sn_inventory_cost(struct sn_inventory_cost *out, struct sn_estimator *e,
                                 const struct sn_layer_profile *s, const struct sn_net *net,
                                 const struct sn_inventory_key *key, int stage, struct sn_err *err);
/* Slots of every virtual stage of a stage. Counted anew where there is no memory to remember
 * them. */
void sn_slots_of(int slots[SN_MAX_VSTAGES], struct sn_estimator *e, const struct sn_pipeline *p,
                 int stage);
/* Codecs on a bucket's reduction and gather (`updated`: by the update of ZeRO 1 and 2), and on a
 * transfer of n elements. */
void sn_coded_reduce(struct sn_coded_reduction *out, struct sn_estimator *e,
                     const struct sn_net *net, const struct sn_bucket *b);
void sn_coded_gather(struct sn_coded_reduction *out, struct sn_estimator *e,
                     const struct sn_net *net, const struct sn_bucket *b, bool updated);
void sn_coded_transfer(struct sn_coded_reduction *out, struct sn_estimator *e,
                       const struct sn_net *net, int64_t n);
/* Seconds to encode and to decode n values of a type, as a gradient or a weight where the coding is
 * of one. */
void sn_coded_speed(double *encoding, double *decoding, struct sn_estimator *e,
                    const struct sn_coding *z, enum sn_dtype t, int64_t n);
/* The least price of the ways in which the group may lie. */
double sn_net_price(struct sn_estimator *e, const struct sn_net *net, enum sn_collective kind,
                    int64_t n, enum sn_dtype dtype, enum sn_group q);

#endif
