/*
 * source.h - logical tensors from anywhere, box by box: a checkpoint, the field's files, or another
 * source seen through a transformation (grow, delink, upcycle).
 *
 * What will be read is announced in order, then read in that order, so that every implementation
 * can fetch ahead in bounded memory.
 */
#ifndef SN_SOURCE_H
#define SN_SOURCE_H

#include "checkpoint/io/box.h"
#include "kernels/tensor.h"
#include "lib/base/err.h"
#include "lib/state/state.h"

struct sn_source_tensor {
    const char *group, *name; /* as in struct sn_state_tensor */
    int64_t rows, cols;
    enum sn_dtype dtype; /* as stored there */
};

struct sn_source_want {
    int tensor; /* number in `tensors` */
    struct sn_box box;
};

struct sn_source {
    void *self;
    const char *name; /* for messages: a path */
    int n_tensors;
    const struct sn_source_tensor *tensors; /* sorted by group and name, each once */
    struct sn_state_scalars scalars;
    const char *model_text;           /* the model section, as in struct sn_state */
    struct sn_tokenizer_id tokenizer; /* of its tokens, where it is known */
    uint64_t identity; /* of the content: another value means another source (for resuming) */
    int64_t least;     /* bytes that begin takes even if its `memory` is less */
    /* The boxes that `next` will be asked for, one call each, in this order; ends what an earlier
     * begin announced. `wants` stay the caller's until the next begin or close. */
    enum sn_status (*begin)(void *self, const struct sn_source_want *wants, int64_t n,
                            int64_t memory, struct sn_err *err);
    enum sn_status (*next)(void *self, float *out, int64_t ld, struct sn_err *err);
    void (*close)(void *self);
};

/* The number in "layers.12.attn.q.weight" and what follows it; -1 for a tensor of no layer. */
int sn_source_layer(const char *name, const char **rest);
/* The tensor of that group and name: its number, or -1. */
int sn_source_find(const struct sn_source *s, const char *group, const char *name);
static inline void sn_source_close(struct sn_source *s)
{
    if (s->close)
        s->close(s->self);
    *s = (struct sn_source){0};
}

/* One of our checkpoints: a directory step-N, or a directory of them (the newest). */
enum sn_status sn_source_open_checkpoint(struct sn_source *out, const char *path,
                                         struct sn_err *err);
struct sn_model_config;
/* The field's files with the model that their config.json describes: group "model" alone. Tensors
 * that the model has no place for are SN_EINPUT, as in sn_init_from. */
enum sn_status sn_source_open_safetensors(struct sn_source *out, const char *path,
                                          const struct sn_model_config *m, struct sn_err *err);
/* The name of the config.json in the directory `path`, or beside the file `path`; caller frees it.
 * NULL without memory. */
char *sn_hf_config_path(const char *path);
/* The model that it describes. */
enum sn_status sn_hf_load_model(struct sn_model_config *out, const char *path, struct sn_err *err);

/* Pseudo-to-Real (arXiv 2110.03888): layers that share weights become layers with their own, Adam's
 * moments copied along. `inner` is owned by *out from success on. A model whose share_layers is 1
 * is SN_EINPUT. */
enum sn_status sn_source_delink(struct sn_source *out, struct sn_source *inner, struct sn_err *err);
/* The first `mtp` of its blocks for multi-token prediction stay, the other *dropped do not: SN_EINPUT where it has
 * fewer. Ownership as above. */
enum sn_status sn_source_further(struct sn_source *out, struct sn_source *inner, int mtp,
                                 int *dropped, struct sn_err *err);
/* Sparse upcycling (arXiv 2212.05055): a dense llama becomes a mixtral whose experts are copies of
 * its feed-forward parts, top_k of them for a token, the function unchanged; Adam's moments divided
 * by their number, and its square. The router is new. Ownership as above. */
enum sn_status sn_source_upcycle(struct sn_source *out, struct sn_source *inner, int experts,
                                 int top_k, struct sn_err *err);
/* What layout.compress adds to the state, as a trainer of the resolved layout in `c` has it: its
 * replicas of weights or none, feedback summed up for its holders or none (lib/state/state.h); with
 * `c` NULL none of either. *dropped counts tensors that are left out. Ownership as above. */
struct sn_config;
enum sn_status sn_source_fold(struct sn_source *out, struct sn_source *inner,
                              const struct sn_config *c, int *dropped, struct sn_err *err);
/* Adapters (train.lora) in the weights that they adapt: W + scale B A, and none left, nor moments of
 * them. A source without adapters is SN_EINPUT. Ownership as above. */
enum sn_status sn_source_merge(struct sn_source *out, struct sn_source *inner, struct sn_err *err);
/* Has it any? */
bool sn_source_has_adapters(const struct sn_source *s);
bool sn_source_has_prompts(const struct sn_source *s); /* of train.prompt */
/* The averages of weights (train.ema) as the weights, and nothing else. A source without them is SN_EINPUT.
 * Ownership as above. */
enum sn_status sn_source_average(struct sn_source *out, struct sn_source *inner, struct sn_err *err);

enum { SN_PRUNE_TARGETS = 64 };
/* What sn_source_prune leaves of each row of the matrices that a pattern names. */
struct sn_prune {
    bool is_2_4;    /* two of each four neighbours; else: */
    double density; /* the share of a row */
    int n_targets;
    const char *target[SN_PRUNE_TARGETS]; /* name patterns (* and ?); borrowed while it is open */
};
/* Those of the largest magnitude; the others are 0, in the optimizer's state, too. A pattern without
 * a matrix is SN_EINPUT. Ownership as above. */
enum sn_status sn_source_prune(struct sn_source *out, struct sn_source *inner,
                               const struct sn_prune *how, struct sn_err *err);
/* HyperCloning (arXiv 2409.12903): every width times n, the function unchanged. Weights tile(W, n x
 * n) / n; embeddings and biases and norms tiled; head tiled / n (tied: final_norm carries the 1/n);
 * heads and kv_heads times n at the same head_dim. exp_avg and exp_avg_sq follow the gradients'
 * scale s and s^2, which each kind of tensor has in the larger model (docs/CONVERT.md). n from 2 to
 * 64.
 *
 * Divided weights times 1 +- noise, from 0 to SN_GROW_NOISE_MAX, such that it cancels: without it
 * and without dropout, the n copies of everything stay equal in all later training. */
#define SN_GROW_NOISE     0.3
#define SN_GROW_NOISE_MAX 0.9
enum sn_status sn_source_grow(struct sn_source *out, struct sn_source *inner, int n, double noise,
                              struct sn_err *err);

#endif
