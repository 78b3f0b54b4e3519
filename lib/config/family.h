/*
 * family.h - what a model family is: one row of traits.
 *
 * A family is a block with choices made: which norm, which linear maps have biases, how the
 * feed-forward part is activated, how positions enter. Who builds, counts or checks a model reads
 * the traits and never asks which family it is (tools/lint families). What a family is called in
 * Hugging Face's files is in lib/config/hfkeys_table.c (keys) and checkpoint/hf/hfnames.c (tensors).
 */
#ifndef SN_FAMILY_H
#define SN_FAMILY_H

#include <stdbool.h>

enum sn_norm { SN_LAYERNORM, SN_RMSNORM };
enum sn_activation { SN_GELU_TANH, SN_GELU, SN_SILU };
enum sn_norm_at { SN_NORM_BEFORE, SN_NORM_AFTER, SN_NORM_AROUND };
enum sn_positions { SN_LEARNED, SN_ROTARY };

/* The linear maps of a block, as bits. */
enum sn_linear {
    SN_LINEAR_NONE = 0, /* never has one */
    SN_LINEAR_QKV = 1,
    SN_LINEAR_O = 2,
    SN_LINEAR_UP = 4, /* gate and up, where it is gated */
    SN_LINEAR_DOWN = 8,
    SN_LINEAR_ALL = 15
};

struct sn_traits {
    enum sn_norm norm;
    unsigned biases; /* of which linear maps, always: bits of enum sn_linear */
    enum sn_activation activation;
    bool gated; /* the feed-forward part is down(activation(gate x) * up x) */
    enum sn_positions positions;
    double rotary_pct; /* the default; 0 with learned positions */
    /* what attention and feed-forward part read is normalised, or what they give, or both */
    enum sn_norm_at norm_at;
    double norm_shift; /* weights of RMS norms are w + so much, and w begins at 1 - so much */
    bool embed_root;   /* the default: what the embedding gives is times the root of model.hidden */
    bool wide_norms;   /* RMS norms of q and of k over all of their heads */
    bool head_norms;   /* RMS norms of q and of k, each head by itself, before they are rotated */
    bool tied_embeddings;   /* the default */
    bool grouped_heads;     /* model.kv_heads may be fewer than model.heads */
    bool parallel_residual; /* the default; where it is false, true is refused */
    bool shared_gate;       /* what shared experts give is times the sigmoid of a product with x */
    bool sigmoid_router;    /* routers are of sigmoids, with a bias of the choice */
    bool latents;           /* attention is of latents */
    bool experts;           /* a feed-forward part of experts, never without; else never with */
    int ffn;                /* the default, times model.hidden; 0: to be named */
};

/* clang-format off */
#define SN_FAMILIES(ROW)                                                                           \
    /* Radford et al. 2019, with the code of GPT-2 */                                              \
    ROW(SN_GPT2, "gpt2",                                                                           \
        .norm = SN_LAYERNORM, .biases = SN_LINEAR_ALL, .activation = SN_GELU_TANH, .ffn = 4,       \
        .positions = SN_LEARNED, .tied_embeddings = true)                                          \
    /* Black et al. 2022 (arXiv 2204.06745, 2.1) */                                                \
    ROW(SN_GPT_NEOX, "gpt-neox",                                                                   \
        .norm = SN_LAYERNORM, .biases = SN_LINEAR_ALL, .activation = SN_GELU, .ffn = 4,            \
        .positions = SN_ROTARY, .rotary_pct = 0.25, .grouped_heads = true,                         \
        .parallel_residual = true)                                                                 \
    /* Touvron et al. 2023 (arXiv 2302.13971, 2.2) */                                              \
    ROW(SN_LLAMA, "llama",                                                                         \
        .norm = SN_RMSNORM, .activation = SN_SILU, .gated = true,                                  \
        .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)                            \
    /* Jiang et al. 2024 (arXiv 2401.04088, 2) */                                                  \
    ROW(SN_MIXTRAL, "mixtral",                                                                     \
        .norm = SN_RMSNORM, .activation = SN_SILU, .gated = true, .experts = true,                 \
        .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)                            \
    /* Yang et al. 2024 (arXiv 2407.10671, 2.2); Qwen2.5 is the same */                            \
    ROW(SN_QWEN2, "qwen2",                                                                         \
        .norm = SN_RMSNORM, .biases = SN_LINEAR_QKV, .activation = SN_SILU, .gated = true,         \
        .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)                            \
    /* Yang et al. 2024 (arXiv 2407.10671, 2.2.2), with the code of Qwen1.5-MoE */                 \
    ROW(SN_QWEN2_MOE, "qwen2-moe",                                                                 \
        .norm = SN_RMSNORM, .biases = SN_LINEAR_QKV, .activation = SN_SILU, .gated = true,         \
        .experts = true, .shared_gate = true,                                                      \
        .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)                            \
    /* Yang et al. 2025 (arXiv 2505.09388, 2) */                                                   \
    ROW(SN_QWEN3, "qwen3",                                                                         \
        .norm = SN_RMSNORM, .activation = SN_SILU, .gated = true, .head_norms = true,              \
        .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)                            \
    ROW(SN_QWEN3_MOE, "qwen3-moe",                                                                 \
        .norm = SN_RMSNORM, .activation = SN_SILU, .gated = true, .head_norms = true,              \
        .experts = true, .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)           \
    /* Huo et al. 2025 (arXiv 2506.05767, 2), with the router of DeepSeek-V3 */                    \
    ROW(SN_DOTS1, "dots1",                                                                         \
        .norm = SN_RMSNORM, .activation = SN_SILU, .gated = true, .head_norms = true,              \
        .experts = true, .sigmoid_router = true,                                                   \
        .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)                            \
    /* DeepSeek-AI 2024 (arXiv 2405.04434, 2) */                                                   \
    ROW(SN_DEEPSEEK_V2, "deepseek-v2",                                                             \
        .norm = SN_RMSNORM, .activation = SN_SILU, .gated = true, .latents = true,                 \
        .experts = true, .positions = SN_ROTARY, .rotary_pct = 1)                                  \
    /* DeepSeek-AI 2024 (arXiv 2412.19437, 2.1) */                                                 \
    ROW(SN_DEEPSEEK_V3, "deepseek-v3",                                                             \
        .norm = SN_RMSNORM, .activation = SN_SILU, .gated = true, .latents = true,                 \
        .experts = true, .sigmoid_router = true, .positions = SN_ROTARY, .rotary_pct = 1)          \
    /* OLMo et al. 2025 (arXiv 2501.00656, 2.1) */                                                 \
    ROW(SN_OLMO2, "olmo2",                                                                         \
        .norm = SN_RMSNORM, .activation = SN_SILU, .gated = true, .norm_at = SN_NORM_AFTER,            \
        .wide_norms = true, .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)        \
    /* Abdin et al. 2024 (arXiv 2404.14219, 2); llama but for how its files have q, k, v, gate and up */ \
    ROW(SN_PHI3, "phi3",                                                                           \
        .norm = SN_RMSNORM, .activation = SN_SILU, .gated = true,                                  \
        .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)                            \
    /* Gemma Team 2024 (arXiv 2408.00118, 2) */                                                    \
    ROW(SN_GEMMA2, "gemma2",                                                                       \
        .norm = SN_RMSNORM, .norm_at = SN_NORM_AROUND, .norm_shift = 1, .embed_root = true,        \
        .activation = SN_GELU_TANH, .gated = true, .tied_embeddings = true,                        \
        .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)                            \
    /* Gemma Team 2025 (arXiv 2503.19786, 2) */                                                    \
    ROW(SN_GEMMA3, "gemma3",                                                                       \
        .norm = SN_RMSNORM, .norm_at = SN_NORM_AROUND, .norm_shift = 1, .embed_root = true,        \
        .activation = SN_GELU_TANH, .gated = true, .tied_embeddings = true, .head_norms = true,    \
        .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true)                            \
    /* Lozhkov et al. 2024 (arXiv 2402.19173, 5) */                                                \
    ROW(SN_STARCODER2, "starcoder2",                                                               \
        .norm = SN_LAYERNORM, .biases = SN_LINEAR_ALL, .activation = SN_GELU_TANH, .ffn = 4,       \
        .positions = SN_ROTARY, .rotary_pct = 1, .grouped_heads = true, .tied_embeddings = true)
/* clang-format on */

#define SN_FAMILY_ID(id, ...) id,
enum sn_family { SN_FAMILIES(SN_FAMILY_ID) SN_NFAMILIES };
#undef SN_FAMILY_ID

extern const char *const sn_family_names[SN_NFAMILIES + 1]; /* the last is NULL */

const char *sn_family_name(enum sn_family f);
const struct sn_traits *sn_family_traits(enum sn_family f);
/* The family with experts whose block is this one's otherwise; false: there is none, or this one
 * has them. */
bool sn_family_with_experts(enum sn_family f, enum sn_family *out);
/* Those for which `has` is true: "gpt2, llama or mixtral"; returns buf. */
enum { SN_FAMILIES_SIZE = 256 };
const char *sn_families_that(char buf[SN_FAMILIES_SIZE], bool (*has)(enum sn_family f));

#endif
