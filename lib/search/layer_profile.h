/*
 * layer_profile.h - what one micro-batch costs in a layer, in the embedding and in the head:
 * compiled once for all layouts that cut them alike.
 *
 * The text of a layer depends on how it is cut (tensor, context, micro-batch, sequence parallelism,
 * recomputation, split backward, ZeRO's stage), not on how many layers, stages, replicas or
 * micro-batches there are. So a model of one layer is compiled for each way of cutting (of two,
 * where some layers have experts and others have none; of each kind that train.prompt makes), its kernels are priced once, and its
 * segments are reduced to intervals: seconds of kernels, posts and waits of collectives. A segment
 * of n layers is the intervals of its ends and n times those of the layer.
 *
 * Played with nothing under way before it, a row of intervals cannot end sooner than in the step
 * (what runs before can only make its streams free later), so sums of such times are lower bounds.
 */
#ifndef SN_LAYER_PROFILE_H
#define SN_LAYER_PROFILE_H

#include "lib/cost/price.h"

#include <stdbool.h>

/* Layers without and with experts; of train.prompt those below the first prompts, through which nothing runs backward,
 * those behind the first prompts, below which no gradient goes, and those behind others. */
enum sn_layer_place {
    SN_PLACE_EMBED,
    SN_PLACE_BLOCK,
    SN_PLACE_EXPERTS,
    SN_PLACE_STILL,
    SN_PLACE_FIRST_PROMPT,
    SN_PLACE_PROMPT,
    SN_PLACE_HEAD,
    SN_NPLACES
};
enum sn_pass { SN_PASS_FORWARD, SN_PASS_BACKWARD, SN_PASS_WEIGHT, SN_NPASSES };

/* How a layer is cut; members that change nothing are set to one value (sn_layer_profile_key). */
struct sn_layer_profile_key {
    int size[SN_NGRID_AXES]; /* ranks along each axis; 1 along those that cut no layer */
    int micro_batch, expert;
    int slices; /* of each expert, where tensor ranks route tokens of their own; else 0 */
    unsigned char exchange, sequence_parallel, recompute, split, zero; /* zero: 0, 2, 3 */
    bool in_nodes; /* layout.zero_node: slices are of some of the replicas */
    struct sn_coding tensor_coding, expert_coding; /* of what the layer itself sends */
    struct sn_coding pipeline_coding;              /* of what is kept for other stages */
};

/* Gathers and reductions of gradient buckets carry `raw`: elements before padding to the group. */
struct sn_layer_profile_comm {
    enum sn_collective kind;
    enum sn_dtype dtype;
    enum sn_group group;
    enum sn_op_stream stream;
    int64_t n, raw;
    bool sized; /* streams whose lengths go ahead */
};

enum sn_interval_kind {
    SN_INTERVAL_END,
    SN_INTERVAL_POST,
    SN_INTERVAL_WAIT,
    SN_INTERVAL_REDUCE,
    SN_INTERVAL_SHARD
};

/* Kernels for `run` seconds, then: nothing more; post comm; wait for the post `slot`; post a
 * reduction of gradients (ZeRO 2 and 3), of which two are under way at most; the gradient of shard
 * `slot` is complete (ZeRO 0 and 1). */
struct sn_interval {
    double run;
    enum sn_interval_kind kind;
    int comm, slot;
};

enum { SN_SHAPE_COMMS = 128, SN_SHAPE_POSTS = 256, SN_SHAPE_SHARDS = 256 };

/* A part of a parameter (lib/program/shards.c), in the order in which backward finishes them. */
struct sn_layer_profile_shard {
    enum sn_layer_place place;
    bool tied; /* also the head's: where the ends are apart, of both */
    bool is_map; /* of features, of all layers with prompts */
};

/* Which layers are of which place: EXPERTS (model.experts; every 0: none is), those of train.prompt, BLOCK. */
struct sn_kinds {
    int every, from;
    const struct sn_prompt_config *prompt; /* NULL: none */
    int still; /* layers through which nothing runs backward: adapters train all */
};
static inline struct sn_kinds sn_kinds_of(const struct sn_config *c)
{
    const struct sn_experts_config *x = &c->model.experts;
    const struct sn_prompt_config *p = &c->train.prompt;
    struct sn_kinds k = {0};
    if (x->count > 0)
        k = (struct sn_kinds){.every = x->every, .from = x->from};
    if (sn_prompt_positions(p) > 0)
        k.prompt = p;
    if (k.prompt && p->n_layers > 0 && c->train.lora.r == 0)
        k.still = p->layers[0];
    return k;
}
static inline bool sn_kinds_mix(struct sn_kinds k)
{
    return k.every > 1 || k.from > 0 || k.prompt;
}
static inline enum sn_layer_place sn_kinds_place(struct sn_kinds k, int layer)
{
    int level = k.prompt ? sn_prompt_level(k.prompt, layer) : -1;
    if (level >= 0 || layer < k.still)
        return level > 0 ? SN_PLACE_PROMPT : level == 0 ? SN_PLACE_FIRST_PROMPT : SN_PLACE_STILL;
    bool experts = k.every > 0 && layer >= k.from && (layer + 1) % k.every == 0;
    return experts ? SN_PLACE_EXPERTS : SN_PLACE_BLOCK;
}

struct sn_layer_profile {
    struct sn_layer_profile_key key;
    struct sn_interval *interval;
    int n_intervals, cap_intervals;
    int first[SN_NPASSES][SN_NPLACES]; /* interval; a row ends with SN_INTERVAL_END */
    struct sn_layer_profile_comm comm[SN_SHAPE_COMMS];
    int n_comms;
    /* ZeRO 3: what is gathered on entering a layer or an end; comm[gather[..][i]] */
    int gather[SN_NPASSES][SN_NPLACES][16], n_gathers[SN_NPASSES][SN_NPLACES];
    struct sn_layer_profile_shard shard[SN_SHAPE_SHARDS];
    int n_shards;
    bool reduces; /* gradients, in its segments (sn_gradients_are_temporary) */
    struct sn_kinds kinds;
    int64_t temp[SN_NPASSES][SN_NPLACES], workspace[SN_NPLACES]; /* bytes, at least */
    int64_t lean[SN_NPASSES]
                [SN_NPLACES]; /* temp without whole weights and gradients of ZeRO 2, 3 */
    int64_t sent;             /* elements that a stage sends to the next */
    double least[SN_NPASSES][SN_NPLACES]; /* of a whole, seconds: sums of sn_price_least */
};

/* What all shapes of a search have in common. */
struct sn_layer_profile_env {
    const struct sn_config *config; /* model, train; the layout is not read */
    const struct sn_model *model;   /* of sn_layer_profile_model */
    const struct sn_ops *ops;
    int threads;
    const struct sn_pricer *pricer; /* machine, software, precision, threads */
};

/* The key of a layout. */
struct sn_layer_profile_key sn_layer_profile_key(const struct sn_config *c);
/* That of one rank which computes one sequence, cut in no way and without recomputation, in the segments that layouts
 * with key k have: their ranks together have no less arithmetic for a sequence. */
struct sn_layer_profile_key sn_layer_profile_whole(const struct sn_layer_profile_key *k);
/* The model of one layer of each kind, which stands for all of them. So that it costs no more than
 * any, what train.freeze freezes of some layers is frozen. Of models that mix layers with experts and others,
 * those of train.prompt are no kinds. */
void sn_layer_profile_model(struct sn_model_config *m, struct sn_train_config *t);
/* Have all layers the same adapters, as far as patterns tell? Else there is no such model. */
bool sn_layer_profile_stands_for_all(const struct sn_train_config *t);
/* The run file of such a model on one stage, cut so. */
void sn_layer_profile_config(struct sn_config *out, const struct sn_config *c,
                             const struct sn_layer_profile_key *k);
enum sn_status sn_layer_profile_create(struct sn_layer_profile **out,
                                       const struct sn_layer_profile_env *env,
                                       const struct sn_layer_profile_key *key, struct sn_err *err);
void sn_layer_profile_destroy(struct sn_layer_profile *s); /* NULL is allowed */
/* The place of a layer of a model; of its ends those of layer -1 and of the one behind the last. */
enum sn_layer_place sn_layer_profile_place(const struct sn_config *c, int layer);
/* The parameter that is the map of train.prompt, which layers share; -1: there is none. It looks at each node. */
int sn_layer_profile_map(const struct sn_model *m);
/* What lies in a buffer of a bucket before it was padded to its members: elements, of codes bytes. */
int64_t sn_layer_profile_raw(const struct sn_job *j, const struct sn_buffer *x);

/* Seconds of everything that the shape posts, in a grid whose replicas are `members`. */
struct sn_layer_profile_prices {
    double comm[SN_SHAPE_COMMS];
    /* kernels that a codec adds before a post and behind its wait, of buckets: their sizes depend
     * on the replicas, so that the text has them without */
    double before[SN_SHAPE_COMMS], behind[SN_SHAPE_COMMS];
    double alone[SN_NPASSES][SN_NPLACES]; /* a row of intervals, played by itself */
    double quiet[SN_NPASSES][SN_NPLACES]; /* when its collectives in data's queue are done then */
    double posts[SN_NPASSES][SN_NPLACES]; /* sum of those */
};
/* What a segment holds. */
struct sn_extent {
    int layers, of[SN_NPLACES]; /* all, and those of each kind */
    int begin; /* its first layer; where layers come in turn, one of the first of which the same follows */
    bool first, last;
    /* ZeRO 3: by unit, in the order of the model, enum sn_keeps; NULL: none is kept. A unit whose
     * gathered weights stay, its own or those that it shares, gathers none. */
    const unsigned char *keeps;
};
enum sn_keeps { SN_KEEPS_NONE, SN_KEEPS_OWN, SN_KEEPS_OTHERS };
/* `begin` is the first layer's number in the model. */
struct sn_extent sn_extent_of(struct sn_kinds k, int begin, int layers);
/* The kind of layer i of an extent. */
static inline enum sn_layer_place sn_extent_place(const struct sn_extent *x, struct sn_kinds k, int i)
{
    return sn_kinds_place(k, x->begin + i);
}
/* Of unit u: its ends are units, too. */
static inline enum sn_layer_place sn_extent_unit(const struct sn_extent *x, struct sn_kinds k, int u)
{
    int layer = u - x->first;
    if (layer < 0 || layer >= x->layers)
        return layer < 0 ? SN_PLACE_EMBED : SN_PLACE_HEAD;
    return sn_extent_place(x, k, layer);
}
/* Play rows of intervals with these prices; fills the others. */
void sn_layer_profile_play(struct sn_layer_profile_prices *p, const struct sn_layer_profile *s);
/* A segment of `layers` layers with or without the ends. *after: the part of it, at its end, in
 * which it only waits for reductions, when it has sent what the next stage needs. */
double sn_layer_profile_segment(const struct sn_layer_profile *s,
                                const struct sn_layer_profile_prices *p, enum sn_pass pass,
                                const struct sn_extent *x, double *after);

/* A reduction with a codec (lib/program/compress.c): kernels before the exchange, its seconds,
 * kernels behind it, those of the gather that follows in an all-reduce (else 0), kernels behind
 * that. */
struct sn_coded_reduction {
    double encode, exchange, between, gather, decode;
};
/* Reductions whose bucket is complete with a shard: seconds, or those with a codec. */
struct sn_shard_reduction {
    double seconds;
    const struct sn_coded_reduction *coded;
};
typedef struct sn_shard_reduction sn_shard_seconds[SN_SHAPE_SHARDS];

/* A segment of ZeRO 0 or 1 that finds reductions under way for `busy` seconds, and the last of a
 * step, which also posts reductions of gradients in data's queue: reduce[u][q] those whose
 * bucket is complete with shard q of unit u, units from the head or the last layer on; NULL: none.
 * Seconds from the segment's begin until its kernels, and until all collectives are done; `sent`:
 * until it has sent what the next stage needs, before it waits for reductions with a codec. */
struct sn_layer_profile_end {
    double kernels, collectives, sent;
};
struct sn_layer_profile_end sn_layer_profile_busy(const struct sn_layer_profile *s,
                                                  const struct sn_layer_profile_prices *p,
                                                  enum sn_pass pass, const struct sn_extent *x,
                                                  const sn_shard_seconds *reduce, double busy);

#endif
