/*
 * model.h - a model is a list of nodes over values and parameters.
 *
 * It names what is computed and at which point (`attn.in`, `ffn.out`), never a rank, an axis or a
 * collective: lowerings in lib/program turn it into program text.
 */
#ifndef SN_MODEL_H
#define SN_MODEL_H

#include "kernels/ops.h"
#include "lib/base/err.h"
#include "lib/config/config.h"

enum sn_node_kind {
    SN_NODE_EMBED,     /* ids -> x; param 0 W[V,D], param 1 P[S,D] or -1 */
    SN_NODE_LAYERNORM, /* param 0 w, param 1 b */
    SN_NODE_RMSNORM,   /* param 0 w */
    SN_NODE_LINEAR,    /* y = x W^T (+ b); param 0 W[out,in], param 1 b[out] or -1 */
    SN_NODE_HEAD_NORM, /* in: fused q | k | v columns; param 0 w[2 d]: of q's heads, of k's */
    SN_NODE_WIDE_NORM, /* in: the same; param 0 w of all of q's features, param 1 of k's */
    SN_NODE_JOIN, /* q, k | v of each head without what keys share, that: -> fused q | k | v columns */
    SN_NODE_ROPE,
    SN_NODE_ATTENTION, /* in: fused q | k | v columns */
    SN_NODE_ACT,
    SN_NODE_SWIGLU,
    SN_NODE_ADD,
    SN_NODE_DROPOUT,
    SN_NODE_HEAD_LOSS, /* x, targets -> loss; param 0 W[V,D] */
    SN_NODE_ROUTER,    /* x -> which experts each token visits; param 0 W[E,D], param 1 the bias of
                        * the choice [E] or -1 */
    SN_NODE_SCALE,     /* y = attr.scale x */
    SN_NODE_GATE,      /* y, x -> y times the sigmoid of x . w, row by row; param 0 w[1,D] */
    SN_NODE_ADAPT,     /* y, u -> y + u B^T in the columns of one tensor of the weight that gave y;
                        * param 0 B[rows of the tensor, r] */
    SN_NODE_PROMPT,    /* x -> y: x, but at some positions of a sample rows of the model's own or, by a
                        * projection, of features (attr.prompt); param 0 W[D, rows or size] */
    SN_NODE_EXPERTS,   /* x, routes -> y; params 0 gate and up, 1 down, of all experts, stacked */
    SN_NNODES
};

enum sn_init { SN_INIT_NORMAL, SN_INIT_ONES, SN_INIT_ZEROS, SN_INIT_UNIFORM };

/* A logical tensor: what checkpoints, converters and people name. A parameter holds one or several
 * of them one under the other (q, k, v of one fused GEMM; gate and up of one expert after the
 * other), each `rows` rows. */
struct sn_tensor {
    char name[96]; /* "layers.3.attn.q.weight" */
    int64_t row, rows;
    int part; /* its number among the tensors of its matrix: 0, or k and v of a fused q, k, v 1, 2 */
};

struct sn_param {
    char name[96];      /* "layers.3.attn.qkv.weight" */
    int64_t rows, cols; /* a vector is one row per element: rows = n, cols = 1 */
    enum sn_init init;
    float std;       /* SN_INIT_NORMAL; of SN_INIT_UNIFORM the bound: in [-std, std) */
    bool decay;      /* weight decay applies (not to norms and biases) */
    float rate;      /* what its learning rate is multiplied by (train.mup); 0: 1 */
    int group;       /* of train.groups; -1: none */
    bool trainable;  /* false when train.freeze matches one of its logical tensors */
    int keep, of; /* of train.sparse: how many of each `of` neighbours of a row, at most, are not 0
                        when a run begins with random weights; 0: it is dense */
    bool is_adapter; /* of train.lora (lora.c), or of train.prompt (prompt.c) */
    bool is_coded;   /* held as codes (train.lora.base) */
    bool is_bias;    /* of routers' choices: moved by counts, never by a gradient; has no moments */
    int n_tensors, cap_tensors;
    struct sn_tensor *tensor; /* the model's memory */
};

/* Of SN_NODE_ADAPT: to what its product is added, and which of u's columns it reads. */
struct sn_adapts {
    int param, tensor; /* the weight, and which tensor of it */
    int64_t col;       /* the first of u's columns; there are as many as B has */
};

enum { SN_NODE_INS = 3 };

struct sn_node {
    enum sn_node_kind kind;
    char point[64]; /* "l3.attn.qkv" */
    int layer;      /* -1 before the first and after the last block */
    int depth;      /* EMBED, HEAD_LOSS: of the tokens so many further on (model.mtp) */
    int in[SN_NODE_INS]; /* values; -1: none. Value 0 is the token ids */
    int out;        /* value */
    int param[2];   /* -1: none */
    struct sn_adapts adapts;
    struct sn_attr attr;
};

struct sn_value {
    int64_t cols; /* features per token */
};

struct sn_model {
    struct sn_param *params;
    struct sn_node *nodes;
    struct sn_value *values;
    int n_params, n_nodes, n_values;
    int cap_params, cap_nodes, cap_values;
    double *frequencies; /* of rotary embeddings with scaled wavelengths (rope.c); NULL: none */
};

/* Build the node list of a family. Caller destroys *out. */
enum sn_status sn_model_create(struct sn_model **out, const struct sn_model_config *m,
                               const struct sn_train_config *t, struct sn_err *err);
void sn_model_destroy(struct sn_model *m); /* NULL is allowed */

/* Is it learnt by gradients, and has moments? */
bool sn_param_trains(const struct sn_param *p);
/* Logical tensors of all parameters. */
int sn_model_tensor_count(const struct sn_model *m);
int sn_expert_layers(const struct sn_model_config *c); /* how many have */
/* Of a sequence's tokens so many may visit an expert; 0: all that want to. */
int64_t sn_expert_capacity(const struct sn_model_config *c);
/* Multiply-adds of a node with weights, per token: each matrix, the experts that a token visits. */
double sn_node_multiplies(const struct sn_model *m, const struct sn_model_config *c,
                          const struct sn_node *n);
/* Number of learnt values (tied and shared weights once). */
int64_t sn_model_param_count(const struct sn_model *m);
/* Model FLOPs per token, forward and backward: 6 x matmul parameters (head included; of experts
 * those that a token visits) + 6 x layers x heads x head_dim (of keys and values on average) x seq (causal attention counted half; of
 * layers with a window 12 x heads x head_dim x the keys that a token sees: kernels/mask.h); no recomputation
 * (docs/PLANNER-MODEL.md). Of frozen matrices 4 in place of 6, and a third of all that lies before
 * whatever trains. */
double sn_model_flops_per_token(const struct sn_model *m, const struct sn_model_config *c);
/* The same where a token sees so many keys on average, in layers without a window and in those with
 * one: documents that are apart. */
double sn_model_flops_of_keys(const struct sn_model *m, const struct sn_model_config *c,
                              double keys, double window_keys);
/* Keys that a token sees on average as far as the run file tells (keys.c): of documents and prompts as long as
 * data.document_length and data.prefix_length say, else of whole causal samples; where these are cut into pieces of
 * `length` tokens (data.curriculum), 1 .. model.seq, which is whole. window 0: none. */
double sn_model_expected_keys(const struct sn_config *c, int64_t length, int64_t window);
/* The way back, for samples of `seq` tokens and no window: the data.document_length (0: samples are documents) and
 * data.prefix_length with which a token sees so many keys, and so many more of its prompt. */
void sn_model_documents_of(int64_t seq, double keys, double prompt_keys, int64_t *length,
                           int64_t *prompt);
/* Tokens of a document's prompt that is seen in both directions: data.prefix_length, and no fewer than train.prompt
 * fills. */
int64_t sn_model_expected_prompt(const struct sn_config *c);
/* FLOPs per token of such keys. */
double sn_model_flops_of_length(const struct sn_model *m, const struct sn_config *c,
                                int64_t length);
/* FLOPs per token with all of the scores counted, masked or not, 6 N + 12 L C T: as nanoGPT and llm.c count (PaLM,
 * appendix B), whose MFU is the larger for the same speed. */
double sn_model_flops_uncausal(const struct sn_model *m, const struct sn_model_config *c);

/* The matrices of train.sparse (sparse.c). */
struct sn_sparsity {
    int matrices;         /* logical tensors */
    int64_t values, kept; /* all, and those that are not 0, at most */
    double flops;         /* share of the model's FLOPs in which no factor is such a 0 */
};
void sn_model_sparsity(struct sn_sparsity *out, const struct sn_model *m,
                       const struct sn_config *c);

/* What stands for a logit that the head gives: it, or less where the model has a cap. */
double sn_model_logit(const struct sn_model_config *c, float z);

/* Fill `out` (rows x cols, fp32) with the initial values of rows row .. row + rows - 1 of a
 * parameter: a function of (seed, tensor's name, element) alone. */
void sn_param_init(const struct sn_param *p, uint64_t seed, int64_t row, int64_t rows, float *out);

#endif
