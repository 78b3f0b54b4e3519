/*
 * model_config.h - the model section of the run file.
 */
#ifndef SN_MODEL_CONFIG_H
#define SN_MODEL_CONFIG_H

#include "lib/config/family.h"

#include <stdbool.h>
#include <stdint.h>

enum sn_router {
    SN_ROUTER_SOFTMAX,
    SN_ROUTER_SPARSEMIXER,
    SN_ROUTER_DENSE, /* in training; otherwise softmax */
    SN_ROUTER_SIGMOID
};

enum sn_balance { SN_BALANCE_BATCH, SN_BALANCE_SEQUENCE };

enum sn_router_bias { SN_BIAS_NONE, SN_BIAS_LOSS_FREE };

struct sn_experts_config {  /* of a layer that has experts */
    int count, top_k;       /* count 0: none */
    int shared;             /* experts that every token visits beside its own */
    int shared_ffn;         /* their width together; 0: shared times ffn */
    int every;              /* layers every - 1, 2 every - 1, ... have them, the others are dense */
    int from;               /* and so are those before this one */
    double capacity_factor; /* 0: dropless */
    double aux_loss, z_loss;
    enum sn_balance balance;  /* tokens that aux_loss is of */
    enum sn_router_bias bias; /* of the choice alone, moved by counts */
    double bias_rate;
    double jitter; /* of routers' inputs in training: factors 1 - jitter .. 1 + jitter */
    enum sn_router router;
    bool unnormalised;  /* weights of a token's experts are probabilities among all of them */
    int groups;         /* of experts; a token's are of top_groups of them */
    int top_groups;
    double route_scale; /* of weights */
    double mixer_range; /* of a sparsemixer: how near the largest logit what may be drawn is */
};

/* Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434, 2.1): queries, keys and values are
 * products of latents, and a part of each key, which alone is rotated, is that of all heads. */
struct sn_latent_config {
    int kv;         /* width of the latent of keys and values; 0: attention has none */
    int q;          /* of that of queries; 0: queries are a product of the block's input */
    int nope, rope; /* features of a head of q and k that are not rotated, and of those behind them */
    int v;          /* features of a head of v */
};

/* Numbers, for example one for each pair of features of a head that is rotated. */
enum { SN_FLOATS_MAX = 128 };
struct sn_floats {
    int n;
    double v[SN_FLOATS_MAX];
};

enum sn_rope_kind {
    SN_ROPE_PLAIN,
    SN_ROPE_LINEAR,
    SN_ROPE_DYNAMIC,
    SN_ROPE_YARN,
    SN_ROPE_LLAMA3,
    SN_ROPE_LONGROPE
};

/* How wavelengths of the rotary embedding are scaled (lib/model/rope.c has the formulas). A kind reads
 * some of the numbers; others have no effect. */
struct sn_rope_config {
    enum sn_rope_kind kind;
    double factor;
    int original_seq; /* tokens of the sequences before; 0: model.seq */
    double low_freq_factor, high_freq_factor;
    double beta_fast, beta_slow;
    double attention_factor; /* of sines and cosines; 0: as the kind has it */
    double mscale, mscale_all_dim;
    bool truncate;
    struct sn_floats short_factor, long_factor;
};

/* Members of which 0 says "as usual" are asked for by the functions below. */
struct sn_model_config {
    enum sn_family family;
    int layers, hidden, heads, kv_heads, ffn, vocab, seq; /* all resolved, > 0 */
    int head_dim;                                         /* 0: hidden / heads */
    struct sn_latent_config latent;
    int dense_ffn; /* inner width where some layers have experts, of those without; 0: ffn */
    enum sn_activation activation;
    bool attention_bias; /* of q, k, v and o, in families that have none */
    bool mlp_bias;       /* the same of the feed-forward part */
    bool tied_embeddings;
    double rope_theta;
    double
        rope_local_theta; /* of layers with a window, whose wavelengths are not scaled; 0: as others */
    struct sn_rope_config rope_scaling;
    int no_rope_every;      /* layers n - 1, 2 n - 1, ... rotate nothing; 0: all do */
    double rotary_pct;      /* part of head_dim that is rotated; 0: positions are learned */
    int sliding_window;     /* tokens that a token attends to, itself included; 0: all before it */
    int window_from;        /* layers before this one have no window */
    int global_every;       /* nor have layers n - 1, 2 n - 1, ...; 0: all others have it */
    double score_cap;       /* cap tanh(score / cap); 0: none */
    bool parallel_residual; /* attention and ffn read the same input */
    double attention_scale; /* of scores; 0: one over the root of a head's width */
    double embed_scale;     /* of what the embedding gives; 0: 1, or as the family has it */
    double residual_scale;  /* of what attention and feed-forward add; 0: 1 */
    double logits_divisor;  /* 0: 1 */
    double logit_cap;       /* cap tanh(logit / cap), after they are divided; 0: none */
    double norm_eps, init_std, dropout;
    int share_layers;
    int mtp; /* blocks behind the last layer that predict a token further on each */
    struct sn_experts_config experts;
};

/* Blocks for multi-token prediction (DeepSeek-AI, "DeepSeek-V3", arXiv 2412.19437, 2.2) have the numbers
 * behind the layers'; in what differs from layer to layer they are as the last one, but that they have experts where any layer has. */
static inline int sn_model_blocks(const struct sn_model_config *m)
{
    return m->layers + m->mtp;
}
static inline int sn_layer_like(const struct sn_model_config *m, int layer)
{
    return layer < m->layers ? layer : m->layers - 1;
}
/* Do the first and the last stage both read the embedding's table? */
static inline bool sn_model_table_is_shared(const struct sn_model_config *m)
{
    return m->tied_embeddings || m->mtp > 0;
}

static inline bool sn_model_has_latents(const struct sn_model_config *m)
{
    return m->latent.kv > 0;
}
/* Features of a head of q and of k. */
static inline int sn_model_head_dim(const struct sn_model_config *m)
{
    if (sn_model_has_latents(m))
        return m->latent.nope + m->latent.rope;
    return m->head_dim > 0 ? m->head_dim : m->hidden / m->heads;
}
/* Features of a head of v. */
static inline int sn_model_value_dim(const struct sn_model_config *m)
{
    return sn_model_has_latents(m) ? m->latent.v : sn_model_head_dim(m);
}
/* Features of all query heads. */
static inline int sn_model_query_width(const struct sn_model_config *m)
{
    bool own = m->head_dim > 0 || sn_model_has_latents(m);
    return own ? m->heads * sn_model_head_dim(m) : m->hidden;
}
/* Features that attention gives. */
static inline int sn_model_value_width(const struct sn_model_config *m)
{
    return sn_model_has_latents(m) ? m->heads * m->latent.v : sn_model_query_width(m);
}
/* Features of a head that the rotary embedding turns. */
static inline int sn_model_rotated(const struct sn_model_config *m)
{
    if (sn_model_has_latents(m))
        return m->latent.rope;
    return (int)(m->rotary_pct * sn_model_head_dim(m) + 1e-9); /* 0.58 of 100 is 57.99999... */
}
/* Inner width of the shared experts together. */
static inline int64_t sn_model_shared_ffn(const struct sn_model_config *m)
{
    return m->experts.shared_ffn > 0 ? m->experts.shared_ffn
                                     : (int64_t)m->experts.shared * m->ffn;
}
static inline bool sn_layer_has_experts(const struct sn_model_config *m, int layer)
{
    if (layer >= m->layers) /* of a model that has any, blocks behind its layers do */
        return m->experts.count > 0;
    return m->experts.count > 0 && layer >= m->experts.from && (layer + 1) % m->experts.every == 0;
}
/* Layers that have some, of those before this one. */
static inline int sn_expert_layers_before(const struct sn_model_config *m, int layer)
{
    const struct sn_experts_config *x = &m->experts;
    if (layer > m->layers && x->count > 0)
        return sn_expert_layers_before(m, m->layers) + layer - m->layers;
    return x->count == 0 || layer <= x->from ? 0 : layer / x->every - x->from / x->every;
}
/* Have some layers experts and others none, as far as the keys tell? */
static inline bool sn_model_mixes_layers(const struct sn_model_config *m)
{
    return m->experts.count > 0 && (m->experts.every > 1 || m->experts.from > 0);
}
/* Of which linear maps there are biases: bits of enum sn_linear. */
unsigned sn_model_biases(const struct sn_model_config *m);
/* What families multiply by what the embedding gives, where model.embed_scale does not say it. */
double sn_model_embed_scale(const struct sn_model_config *m);
/* Is a layer one of those with a window, be it longer than sequences are? */
static inline bool sn_layer_is_local(const struct sn_model_config *m, int layer)
{
    int like = sn_layer_like(m, layer);
    bool global =
        like < m->window_from || (m->global_every > 0 && (like + 1) % m->global_every == 0);
    return !global && m->sliding_window > 0;
}
/* Tokens that a token attends to in a layer, itself included; 0: all before it. */
static inline int sn_layer_window(const struct sn_model_config *m, int layer)
{
    return !sn_layer_is_local(m, layer) || m->sliding_window >= m->seq ? 0 : m->sliding_window;
}
/* Has a layer a window, or scores a cap? */
static inline bool sn_model_has_mask(const struct sn_model_config *m)
{
    return m->score_cap > 0 || (m->sliding_window > 0 && m->sliding_window < m->seq);
}

#endif
