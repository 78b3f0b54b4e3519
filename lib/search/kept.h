/*
 * kept.h - bytes that a pipeline stage keeps from forward to backward, read off compiled texts.
 *
 * A stage of n layers keeps what its ends keep and n times what a layer keeps: stages of one, two
 * (and three) layers between others are compiled, and stages of a layer of each kind that hold one
 * end of the model or both. tests/unit/report/test_activations.c holds the sums to stages of more layers.
 */
#ifndef SN_KEPT_H
#define SN_KEPT_H

#include "lib/search/layer_profile.h"

/* What the ends keep, and each layer of a kind. */
struct sn_kept_bytes {
    int64_t end, of[SN_NPLACES];
};

static inline int64_t sn_kept_sum(const struct sn_kept_bytes *b, const struct sn_extent *x)
{
    int64_t sum = b->end;
    for (int at = 0; at < SN_NPLACES; at++)
        sum += x->of[at] * b->of[at];
    return sum;
}

/* What a stage module's first layers are, where the ends keep more or less for it. */
enum sn_kept_begin {
    SN_BEGIN_ANY, /* without prompts, which others may have */
    SN_BEGIN_PROMPT,
    SN_BEGIN_FIRST_PROMPT,
    SN_BEGIN_STILL,      /* and so are all of them */
    SN_BEGIN_STILL_THEN, /* then those behind the first prompts */
    SN_KEPT_BEGINS
};
enum sn_kept_begin sn_kept_begin_of(struct sn_kinds k, const struct sn_extent *x);

/* Of one slot, and of one copy of what waits for delayed weight gradients (SN_CLASS_LATE). */
struct sn_kept_pair {
    struct sn_kept_bytes slot, late;
};

/* What is kept by how many sequences are in a micro-batch: a line, mostly, since rows of buffers are
 * so many times those of a sequence. Two were compiled; where a third was found on their line the
 * others are taken from it. */
struct sn_kept_line {
    int n, micro[2];
    struct sn_kept_pair of[2];
    bool holds, bends; /* a third one is on it, or is not */
};

/* False: it has to be compiled, and is told to the line. */
bool sn_kept_on_line(struct sn_kept_pair *out, const struct sn_kept_line *l, int micro);
void sn_kept_tell_line(struct sn_kept_line *l, int micro, const struct sn_kept_pair *is);

/* Models of 1 to SN_KEPT_LAYERS layers that are like the run file's, made when they are needed. */
enum { SN_KEPT_LAYERS = 6 };
struct sn_kept_models {
    struct sn_model *of[SN_KEPT_LAYERS + 1];
};
void sn_kept_models_fini(struct sn_kept_models *m); /* a zeroed one is allowed */

/* What a layer keeps, and the ends of a stage that holds neither end of the model, cut as `key`
 * says. Buckets that are kept count without their padding, which depends on how many replicas there
 * are. */
enum sn_status sn_kept_by_layers(struct sn_kept_pair *out, struct sn_kept_models *models,
                                 const struct sn_layer_profile_env *env,
                                 const struct sn_layer_profile_key *key, struct sn_err *err);
/* And the ends of a stage with the embedding (end[0]), with the head (end[1]), that begins so; *out is what
 * sn_kept_by_layers gave. */
enum sn_status sn_kept_by_ends(struct sn_kept_pair *out, struct sn_kept_models *models,
                               const struct sn_layer_profile_env *env,
                               const struct sn_layer_profile_key *key, const bool end[2],
                               enum sn_kept_begin begin, struct sn_err *err);

#endif
