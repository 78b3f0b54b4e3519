/*
 * build.h - how a family writes its node list. Internal to lib/model.
 */
#ifndef SN_MODEL_BUILD_H
#define SN_MODEL_BUILD_H

#include "lib/model/model.h"

struct sn_model_builder {
    struct sn_model *model;
    const struct sn_model_config *config;
    const struct sn_traits *traits; /* of the family */
    const struct sn_train_config *train;
    int layer;            /* written into nodes; -1 outside the blocks */
    int *by_name;         /* hash table of the parameters' names: number + 1, 0: free */
    int n_by_name;        /* its rows, a power of two; at most half of them are taken */
    bool failed;          /* an allocation failed: further calls do nothing harmful */
    struct sn_node spare; /* what they write into */
};

int sn_model_value(struct sn_model_builder *b, int64_t cols);
struct sn_node *sn_model_node(struct sn_model_builder *b, enum sn_node_kind kind, const char *fmt,
                              ...) __attribute__((format(printf, 3, 4)));
/* Append a logical tensor of `rows` rows to a parameter under construction, whose logical tensors
 * are handed on by sn_model_param. */
void sn_model_tensor(struct sn_model_builder *b, struct sn_param *p, int64_t rows, const char *fmt,
                     ...) __attribute__((format(printf, 4, 5)));
/* Find a parameter by name or add it. Takes want->tensor. */
int sn_model_param(struct sn_model_builder *b, const struct sn_param *want);

/* Random streams: of the embedding 0; four in each layer: attention, its residual, the ffn's, the
 * router's. */
uint32_t sn_model_site(const struct sn_model_builder *b, uint32_t which);
/* The first behind them. */
uint32_t sn_model_sites(const struct sn_model_config *c);
/* rope.c: how much each pair of features of a head turns a position, where wavelengths are scaled; the
 * model's memory. NULL: they are not. And what sines and cosines are multiplied by. */
const double *sn_rope_frequencies(struct sn_model_builder *b);
double sn_rope_amplitude(const struct sn_model_config *c);
/* What scores are multiplied by beside one over the root of a head's width. */
double sn_rope_score_scale(const struct sn_model_config *c);
/* families.c: the nodes of a model of any family. */
void sn_family_build(struct sn_model_builder *b);
/* experts.c: router and experts of a layer, which read x; the weights are those of layer `owner`.
 * The value that they give. */
int sn_experts_build(struct sn_model_builder *b, int owner, int x);
/* lora.c: the adapters of `weight` (train.lora), which gives y of x at a point of the current layer:
 * nodes behind its own. The value that they give; y where it has none. */
int sn_lora_build(struct sn_model_builder *b, int weight, int x, int y, const char *point);
/* prompt.c: what train.prompt puts in front of the current layer, into x. The value that it gives; x
 * where it puts nothing there. */
int sn_prompt_build(struct sn_model_builder *b, int x);
/* Mark the frozen matrices of products, where train.lora.base has codes of them. */
void sn_lora_code(struct sn_model *m, const struct sn_train_config *t);
/* Does every pattern of train.lora.targets match, and matrices that can have adapters alone? */
enum sn_status sn_lora_check(const struct sn_model *m, const struct sn_train_config *t,
                             struct sn_err *err);

/* sparse.c: what of a parameter is not 0, where train.sparse names it. */
void sn_sparse_mark(struct sn_param *p, const struct sn_sparse_config *c);
/* Does every pattern of train.sparse.targets match, and whole matrices of products alone? */
enum sn_status sn_sparse_check(const struct sn_model *m, const struct sn_sparse_config *c,
                               struct sn_err *err);
/* Values of a sparse parameter that are not 0, at most. */
int64_t sn_sparse_kept(const struct sn_param *p);
/* Of the values of a node's matrices (1: they are dense). */
double sn_sparse_share(const struct sn_model *m, const struct sn_node *n);
/* Make what is dropped 0 in rows row .. row + rows - 1, all of one logical tensor. */
void sn_sparse_begin(const struct sn_param *p, const struct sn_tensor *tensor, uint64_t seed,
                     int64_t row, int64_t rows, float *out);

#endif
