/*
 * hfnames.c - one row per kind of tensor and family. Sources: transformers modeling_gpt2.py,
 * modeling_gpt_neox.py, modeling_llama.py, modeling_mixtral.py, modeling_qwen2.py of versions 4 and
 * 5.
 */
#include "checkpoint/hf/hfnames.h"
#include "checkpoint/hf/hfrules.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const struct sn_hf_rule gpt2[] = {
    {"embed.weight",              "wte.weight",             SN_HF_SAME,     0},
    {"embed.position",            "wpe.weight",             SN_HF_SAME,     0},
    {"layers.#.attn_norm.weight", "h.#.ln_1.weight",        SN_HF_SAME,     0},
    {"layers.#.attn_norm.bias",   "h.#.ln_1.bias",          SN_HF_SAME,     0},
    {"layers.#.attn.q.weight",    "h.#.attn.c_attn.weight", SN_HF_CONV_QKV, 0},
    {"layers.#.attn.k.weight",    "h.#.attn.c_attn.weight", SN_HF_CONV_QKV, 1},
    {"layers.#.attn.v.weight",    "h.#.attn.c_attn.weight", SN_HF_CONV_QKV, 2},
    {"layers.#.attn.q.bias",      "h.#.attn.c_attn.bias",   SN_HF_ROWS_QKV, 0},
    {"layers.#.attn.k.bias",      "h.#.attn.c_attn.bias",   SN_HF_ROWS_QKV, 1},
    {"layers.#.attn.v.bias",      "h.#.attn.c_attn.bias",   SN_HF_ROWS_QKV, 2},
    {"layers.#.attn.o.weight",    "h.#.attn.c_proj.weight", SN_HF_CONV,     0},
    {"layers.#.attn.o.bias",      "h.#.attn.c_proj.bias",   SN_HF_SAME,     0},
    {"layers.#.ffn_norm.weight",  "h.#.ln_2.weight",        SN_HF_SAME,     0},
    {"layers.#.ffn_norm.bias",    "h.#.ln_2.bias",          SN_HF_SAME,     0},
    {"layers.#.ffn.up.weight",    "h.#.mlp.c_fc.weight",    SN_HF_CONV,     0},
    {"layers.#.ffn.up.bias",      "h.#.mlp.c_fc.bias",      SN_HF_SAME,     0},
    {"layers.#.ffn.down.weight",  "h.#.mlp.c_proj.weight",  SN_HF_CONV,     0},
    {"layers.#.ffn.down.bias",    "h.#.mlp.c_proj.bias",    SN_HF_SAME,     0},
    {"final_norm.weight",         "ln_f.weight",            SN_HF_SAME,     0},
    {"final_norm.bias",           "ln_f.bias",              SN_HF_SAME,     0},
    {"head.weight",               "lm_head.weight",         SN_HF_SAME,     0},
    {0}
};

static const struct sn_hf_rule gpt_neox[] = {
    {"embed.weight",              "embed_in.weight",                           SN_HF_SAME,      0},
    {"layers.#.attn_norm.weight", "layers.#.input_layernorm.weight",           SN_HF_SAME,      0},
    {"layers.#.attn_norm.bias",   "layers.#.input_layernorm.bias",             SN_HF_SAME,      0},
    {"layers.#.attn.q.weight",    "layers.#.attention.query_key_value.weight", SN_HF_HEADS_QKV, 0},
    {"layers.#.attn.k.weight",    "layers.#.attention.query_key_value.weight", SN_HF_HEADS_QKV, 1},
    {"layers.#.attn.v.weight",    "layers.#.attention.query_key_value.weight", SN_HF_HEADS_QKV, 2},
    {"layers.#.attn.q.bias",      "layers.#.attention.query_key_value.bias",   SN_HF_HEADS_QKV, 0},
    {"layers.#.attn.k.bias",      "layers.#.attention.query_key_value.bias",   SN_HF_HEADS_QKV, 1},
    {"layers.#.attn.v.bias",      "layers.#.attention.query_key_value.bias",   SN_HF_HEADS_QKV, 2},
    {"layers.#.attn.o.weight",    "layers.#.attention.dense.weight",           SN_HF_SAME,      0},
    {"layers.#.attn.o.bias",      "layers.#.attention.dense.bias",             SN_HF_SAME,      0},
    {"layers.#.ffn_norm.weight",  "layers.#.post_attention_layernorm.weight",  SN_HF_SAME,      0},
    {"layers.#.ffn_norm.bias",    "layers.#.post_attention_layernorm.bias",    SN_HF_SAME,      0},
    {"layers.#.ffn.up.weight",    "layers.#.mlp.dense_h_to_4h.weight",         SN_HF_SAME,      0},
    {"layers.#.ffn.up.bias",      "layers.#.mlp.dense_h_to_4h.bias",           SN_HF_SAME,      0},
    {"layers.#.ffn.down.weight",  "layers.#.mlp.dense_4h_to_h.weight",         SN_HF_SAME,      0},
    {"layers.#.ffn.down.bias",    "layers.#.mlp.dense_4h_to_h.bias",           SN_HF_SAME,      0},
    {"final_norm.weight",         "final_layer_norm.weight",                   SN_HF_SAME,      0},
    {"final_norm.bias",           "final_layer_norm.bias",                     SN_HF_SAME,      0},
    {"head.weight",               "embed_out.weight",                          SN_HF_SAME,      0},
    {0}
};

/* What llama, mixtral and qwen2 share: the block without its feed-forward part, ... */
static const struct sn_hf_rule llama_attention[] = {
    {"embed.weight",              "embed_tokens.weight",                      SN_HF_SAME, 0},
    {"layers.#.attn_norm.weight", "layers.#.input_layernorm.weight",          SN_HF_SAME, 0},
    {"layers.#.attn.q.weight",    "layers.#.self_attn.q_proj.weight",         SN_HF_SAME, 0},
    {"layers.#.attn.k.weight",    "layers.#.self_attn.k_proj.weight",         SN_HF_SAME, 0},
    {"layers.#.attn.v.weight",    "layers.#.self_attn.v_proj.weight",         SN_HF_SAME, 0},
    {"layers.#.attn.o.weight",    "layers.#.self_attn.o_proj.weight",         SN_HF_SAME, 0},
    {"layers.#.ffn_norm.weight",  "layers.#.post_attention_layernorm.weight", SN_HF_SAME, 0},
    {0}
};

static const struct sn_hf_rule qwen2_biases[] = {
    {"layers.#.attn.q.bias",      "layers.#.self_attn.q_proj.bias",           SN_HF_SAME, 0},
    {"layers.#.attn.k.bias",      "layers.#.self_attn.k_proj.bias",           SN_HF_SAME, 0},
    {"layers.#.attn.v.bias",      "layers.#.self_attn.v_proj.bias",           SN_HF_SAME, 0},
    {0}
};

/* The others of model.attention_bias and model.mlp_bias. */
static const struct sn_hf_rule llama_biases[] = {
    {"layers.#.attn.o.bias",      "layers.#.self_attn.o_proj.bias",           SN_HF_SAME, 0},
    {"layers.#.ffn.gate.bias",    "layers.#.mlp.gate_proj.bias",              SN_HF_SAME, 0},
    {"layers.#.ffn.up.bias",      "layers.#.mlp.up_proj.bias",                SN_HF_SAME, 0},
    {"layers.#.ffn.down.bias",    "layers.#.mlp.down_proj.bias",              SN_HF_SAME, 0},
    {0}
};

static const struct sn_hf_rule qwen3_norms[] = {
    {"layers.#.attn.q_norm.weight", "layers.#.self_attn.q_norm.weight",       SN_HF_SAME, 0},
    {"layers.#.attn.k_norm.weight", "layers.#.self_attn.k_norm.weight",       SN_HF_SAME, 0},
    {0}
};

static const struct sn_hf_rule qwen3_moe_ffn[] = {
    {"layers.#.ffn.router.weight",         "layers.#.mlp.gate.weight",                SN_HF_SAME, 0},
    {"layers.#.ffn.experts.#.gate.weight", "layers.#.mlp.experts.#.gate_proj.weight", SN_HF_SAME, 0},
    {"layers.#.ffn.experts.#.up.weight",   "layers.#.mlp.experts.#.up_proj.weight",   SN_HF_SAME, 0},
    {"layers.#.ffn.experts.#.down.weight", "layers.#.mlp.experts.#.down_proj.weight", SN_HF_SAME, 0},
    {0}
};

static const struct sn_hf_rule qwen2_moe_shared[] = {
    {"layers.#.ffn.shared.gate.weight",    "layers.#.mlp.shared_expert.gate_proj.weight",  SN_HF_SAME, 0},
    {"layers.#.ffn.shared.up.weight",      "layers.#.mlp.shared_expert.up_proj.weight",    SN_HF_SAME, 0},
    {"layers.#.ffn.shared.down.weight",    "layers.#.mlp.shared_expert.down_proj.weight",  SN_HF_SAME, 0},
    {"layers.#.ffn.shared_gate.weight",    "layers.#.mlp.shared_expert_gate.weight",       SN_HF_SAME, 0},
    {0}
};

static const struct sn_hf_rule dots1_ffn[] = {
    {"layers.#.ffn.router.bias",           "layers.#.mlp.gate.e_score_correction_bias",     SN_HF_SAME, 0},
    {"layers.#.ffn.router.weight",         "layers.#.mlp.gate.weight",                      SN_HF_SAME, 0},
    {"layers.#.ffn.experts.#.gate.weight", "layers.#.mlp.experts.#.gate_proj.weight",       SN_HF_SAME, 0},
    {"layers.#.ffn.experts.#.up.weight",   "layers.#.mlp.experts.#.up_proj.weight",         SN_HF_SAME, 0},
    {"layers.#.ffn.experts.#.down.weight", "layers.#.mlp.experts.#.down_proj.weight",       SN_HF_SAME, 0},
    {"layers.#.ffn.shared.gate.weight",    "layers.#.mlp.shared_experts.gate_proj.weight",  SN_HF_SAME, 0},
    {"layers.#.ffn.shared.up.weight",      "layers.#.mlp.shared_experts.up_proj.weight",    SN_HF_SAME, 0},
    {"layers.#.ffn.shared.down.weight",    "layers.#.mlp.shared_experts.down_proj.weight",  SN_HF_SAME, 0},
    {0}
};

static const struct sn_hf_rule latents[] = {
    {"embed.weight",                  "embed_tokens.weight",                          SN_HF_SAME,        0},
    {"layers.#.attn_norm.weight",     "layers.#.input_layernorm.weight",              SN_HF_SAME,        0},
    {"layers.#.attn.q.weight",        "layers.#.self_attn.q_proj.weight",             SN_HF_SAME,        0},
    {"layers.#.attn.q_a.weight",      "layers.#.self_attn.q_a_proj.weight",           SN_HF_SAME,        0},
    {"layers.#.attn.q_a_norm.weight", "layers.#.self_attn.q_a_layernorm.weight",      SN_HF_SAME,        0},
    {"layers.#.attn.q_b.weight",      "layers.#.self_attn.q_b_proj.weight",           SN_HF_SAME,        0},
    {"layers.#.attn.kv_a.weight",     "layers.#.self_attn.kv_a_proj_with_mqa.weight", SN_HF_ROWS_LATENT, 0},
    {"layers.#.attn.k_rope.weight",   "layers.#.self_attn.kv_a_proj_with_mqa.weight", SN_HF_ROWS_LATENT, 1},
    {"layers.#.attn.kv_a_norm.weight", "layers.#.self_attn.kv_a_layernorm.weight",    SN_HF_SAME,        0},
    {"layers.#.attn.kv_b.weight",     "layers.#.self_attn.kv_b_proj.weight",          SN_HF_SAME,        0},
    {"layers.#.attn.o.weight",        "layers.#.self_attn.o_proj.weight",             SN_HF_SAME,        0},
    {"layers.#.ffn_norm.weight",      "layers.#.post_attention_layernorm.weight",     SN_HF_SAME,        0},
    {0}
};

/* Blocks for multi-token prediction (as DeepSeek-V3 publishes them): beside a block's tensors. */
static const struct sn_hf_rule further[] = {
    {"layers.#.mtp.embed_norm.weight",  "layers.#.enorm.weight",            SN_HF_SAME,      0},
    {"layers.#.mtp.hidden_norm.weight", "layers.#.hnorm.weight",            SN_HF_SAME,      0},
    {"layers.#.mtp.embed_proj.weight",  "layers.#.eh_proj.weight",          SN_HF_COLS_PAIR, 0},
    {"layers.#.mtp.hidden_proj.weight", "layers.#.eh_proj.weight",          SN_HF_COLS_PAIR, 1},
    {"layers.#.mtp.norm.weight",        "layers.#.shared_head.norm.weight", SN_HF_SAME,      0},
    {0}
};
static const struct sn_hf_rule further_copies[] = {
    {"embed.weight",                    "layers.#.embed_tokens.weight",     SN_HF_SAME,      0},
    {"head.weight",                     "layers.#.shared_head.head.weight", SN_HF_SAME,      0},
    {0}
};

/* Norms behind what they are of, and of q and k. */
static const struct sn_hf_rule olmo2[] = {
    {"embed.weight",                "embed_tokens.weight",                        SN_HF_SAME, 0},
    {"layers.#.attn.q.weight",      "layers.#.self_attn.q_proj.weight",           SN_HF_SAME, 0},
    {"layers.#.attn.k.weight",      "layers.#.self_attn.k_proj.weight",           SN_HF_SAME, 0},
    {"layers.#.attn.v.weight",      "layers.#.self_attn.v_proj.weight",           SN_HF_SAME, 0},
    {"layers.#.attn.o.weight",      "layers.#.self_attn.o_proj.weight",           SN_HF_SAME, 0},
    {"layers.#.attn_norm.weight",   "layers.#.post_attention_layernorm.weight",   SN_HF_SAME, 0},
    {"layers.#.ffn_norm.weight",    "layers.#.post_feedforward_layernorm.weight", SN_HF_SAME, 0},
    {0}
};

/* Norms before and behind. */
static const struct sn_hf_rule gemma2[] = {
    {"embed.weight",                   "embed_tokens.weight",                        SN_HF_SAME, 0},
    {"layers.#.attn_norm.weight",      "layers.#.input_layernorm.weight",            SN_HF_SAME, 0},
    {"layers.#.attn.q.weight",         "layers.#.self_attn.q_proj.weight",           SN_HF_SAME, 0},
    {"layers.#.attn.k.weight",         "layers.#.self_attn.k_proj.weight",           SN_HF_SAME, 0},
    {"layers.#.attn.v.weight",         "layers.#.self_attn.v_proj.weight",           SN_HF_SAME, 0},
    {"layers.#.attn.o.weight",         "layers.#.self_attn.o_proj.weight",           SN_HF_SAME, 0},
    {"layers.#.attn_post_norm.weight", "layers.#.post_attention_layernorm.weight",   SN_HF_SAME, 0},
    {"layers.#.ffn_norm.weight",       "layers.#.pre_feedforward_layernorm.weight",  SN_HF_SAME, 0},
    {"layers.#.ffn_post_norm.weight",  "layers.#.post_feedforward_layernorm.weight", SN_HF_SAME, 0},
    {0}
};

/* Its block is llama's, with matrices side by side. */
static const struct sn_hf_rule phi3[] = {
    {"embed.weight",              "embed_tokens.weight",                      SN_HF_SAME,         0},
    {"layers.#.attn_norm.weight", "layers.#.input_layernorm.weight",          SN_HF_SAME,         0},
    {"layers.#.attn.q.weight",    "layers.#.self_attn.qkv_proj.weight",       SN_HF_ROWS_QKV,     0},
    {"layers.#.attn.k.weight",    "layers.#.self_attn.qkv_proj.weight",       SN_HF_ROWS_QKV,     1},
    {"layers.#.attn.v.weight",    "layers.#.self_attn.qkv_proj.weight",       SN_HF_ROWS_QKV,     2},
    {"layers.#.attn.o.weight",    "layers.#.self_attn.o_proj.weight",         SN_HF_SAME,         0},
    {"layers.#.ffn_norm.weight",  "layers.#.post_attention_layernorm.weight", SN_HF_SAME,         0},
    {"layers.#.ffn.gate.weight",  "layers.#.mlp.gate_up_proj.weight",         SN_HF_ROWS_GATE_UP, 0},
    {"layers.#.ffn.up.weight",    "layers.#.mlp.gate_up_proj.weight",         SN_HF_ROWS_GATE_UP, 1},
    {"layers.#.ffn.down.weight",  "layers.#.mlp.down_proj.weight",            SN_HF_SAME,         0},
    {0}
};

/* Beside the attention of llama and the biases of qwen2. */
static const struct sn_hf_rule starcoder2[] = {
    {"layers.#.attn_norm.bias",   "layers.#.input_layernorm.bias",            SN_HF_SAME, 0},
    {"layers.#.attn.o.bias",      "layers.#.self_attn.o_proj.bias",           SN_HF_SAME, 0},
    {"layers.#.ffn_norm.bias",    "layers.#.post_attention_layernorm.bias",   SN_HF_SAME, 0},
    {"layers.#.ffn.up.weight",    "layers.#.mlp.c_fc.weight",                 SN_HF_SAME, 0},
    {"layers.#.ffn.up.bias",      "layers.#.mlp.c_fc.bias",                   SN_HF_SAME, 0},
    {"layers.#.ffn.down.weight",  "layers.#.mlp.c_proj.weight",               SN_HF_SAME, 0},
    {"layers.#.ffn.down.bias",    "layers.#.mlp.c_proj.bias",                 SN_HF_SAME, 0},
    {"final_norm.bias",           "norm.bias",                                SN_HF_SAME, 0},
    {0}
};

/* ... and what is behind the blocks. */
static const struct sn_hf_rule llama_end[] = {
    {"final_norm.weight",         "norm.weight",                              SN_HF_SAME, 0},
    {"head.weight",               "lm_head.weight",                           SN_HF_SAME, 0},
    {0}
};

static const struct sn_hf_rule llama_ffn[] = {
    {"layers.#.ffn.gate.weight",  "layers.#.mlp.gate_proj.weight",            SN_HF_SAME, 0},
    {"layers.#.ffn.up.weight",    "layers.#.mlp.up_proj.weight",              SN_HF_SAME, 0},
    {"layers.#.ffn.down.weight",  "layers.#.mlp.down_proj.weight",            SN_HF_SAME, 0},
    {0}
};

static const struct sn_hf_rule mixtral_ffn[] = {
    {"layers.#.ffn.router.weight", "layers.#.block_sparse_moe.gate.weight",   SN_HF_SAME, 0},
    {"layers.#.ffn.experts.#.gate.weight", "layers.#.block_sparse_moe.experts.#.w1.weight", SN_HF_SAME, 0},
    {"layers.#.ffn.experts.#.up.weight",   "layers.#.block_sparse_moe.experts.#.w3.weight", SN_HF_SAME, 0},
    {"layers.#.ffn.experts.#.down.weight", "layers.#.block_sparse_moe.experts.#.w2.weight", SN_HF_SAME, 0},
    {0}
};

/* Version 5: the experts of a layer are two tensors. */
static const struct sn_hf_rule mixtral_ffn_later[] = {
    {"layers.#.ffn.router.weight",         "layers.#.mlp.gate.weight",          SN_HF_SAME, 0},
    {"layers.#.ffn.experts.#.gate.weight", "layers.#.mlp.experts.gate_up_proj", SN_HF_STACK_GATE_UP, 0},
    {"layers.#.ffn.experts.#.up.weight",   "layers.#.mlp.experts.gate_up_proj", SN_HF_STACK_GATE_UP, 1},
    {"layers.#.ffn.experts.#.down.weight", "layers.#.mlp.experts.down_proj",    SN_HF_STACK, 0},
    {0}
};

/* Many files have the prefix before all names, or before all but the head's. Lists follow each
 * other as the tensors do; a NULL ends them. */
enum { LISTS = 7 };
static const struct family {
    const char *prefix;
    const struct sn_hf_rule *rules[LISTS + 1], *later[LISTS + 1];
    const struct sn_hf_rule *copies; /* in blocks for multi-token prediction, where files have them */
} families[] = {
    [SN_GPT2]     = {"transformer.", {gpt2}, {0}},
    [SN_GPT_NEOX] = {"gpt_neox.",    {gpt_neox}, {0}},
    [SN_LLAMA]    = {"model.",       {llama_attention, qwen2_biases, llama_ffn, llama_biases, llama_end}, {0}},
    [SN_MIXTRAL]  = {"model.",       {llama_attention, mixtral_ffn, llama_end}, {mixtral_ffn_later}},
    [SN_QWEN2]    = {"model.",       {llama_attention, qwen2_biases, llama_ffn, llama_end}, {0}},
    [SN_QWEN3]    = {"model.",       {llama_attention, qwen2_biases, qwen3_norms, llama_ffn, llama_biases, llama_end}, {0}},
    [SN_QWEN3_MOE] = {"model.",      {llama_attention, qwen2_biases, qwen3_norms, llama_ffn, llama_biases, qwen3_moe_ffn, llama_end}, {mixtral_ffn_later}},
    [SN_QWEN2_MOE] = {"model.",      {llama_attention, qwen2_biases, llama_ffn, qwen3_moe_ffn, qwen2_moe_shared, llama_end}, {mixtral_ffn_later}},
    [SN_DOTS1]    = {"model.",      {llama_attention, qwen2_biases, qwen3_norms, llama_ffn, llama_biases, dots1_ffn, llama_end}, {mixtral_ffn_later}},
    [SN_DEEPSEEK_V2] = {"model.",    {latents, llama_ffn, dots1_ffn, llama_end}, {mixtral_ffn_later}},
    [SN_DEEPSEEK_V3] = {"model.",    {latents, llama_ffn, dots1_ffn, further, llama_end}, {mixtral_ffn_later}, further_copies},
    [SN_OLMO2]    = {"model.",       {olmo2, qwen2_biases, qwen3_norms, llama_ffn, llama_biases, llama_end}, {0}},
    [SN_PHI3]     = {"model.",       {phi3, llama_end}, {0}},
    [SN_GEMMA2]   = {"model.",       {gemma2, qwen2_biases, llama_ffn, llama_biases, llama_end}, {0}},
    [SN_GEMMA3]   = {"model.",       {gemma2, qwen2_biases, qwen3_norms, llama_ffn, llama_biases, llama_end}, {0}},
    [SN_STARCODER2] = {"model.",     {llama_attention, qwen2_biases, starcoder2, llama_end}, {0}},
};
_Static_assert(sizeof(families) / sizeof(families[0]) == SN_NFAMILIES, "a family lacks its names");
/* clang-format on */

/* Does the name fit the pattern? *at is what stands for each #. */
static bool fits(const char *pattern, const char *name, struct sn_hf_at *at)
{
    int *number[] = {&at->layer, &at->expert};
    for (int n = 0; *pattern; n += *pattern++ == '#') {
        if (*pattern != '#') {
            if (*pattern != *name++)
                return false;
            continue;
        }
        size_t digits = strspn(name, "0123456789");
        if (digits < 1 || digits > 6)
            return false;
        *number[n] = (int)strtol(name, NULL, 10);
        name += digits;
    }
    return !*name;
}

static struct sn_hf_name numbered(const char *prefix, const char *pattern, struct sn_hf_at at)
{
    const int number[] = {at.layer, at.expert};
    struct sn_hf_name n;
    size_t len = (size_t)snprintf(n.text, sizeof(n.text), "%s", prefix);
    for (int i = 0; *pattern; i++) {
        size_t plain = strcspn(pattern, "#");
        len += (size_t)snprintf(n.text + len, sizeof(n.text) - len, "%.*s", (int)plain, pattern);
        pattern += plain;
        if (*pattern++)
            len += (size_t)snprintf(n.text + len, sizeof(n.text) - len, "%d", number[i]);
        else
            break;
    }
    return n;
}

bool sn_hf_is_expert(const struct sn_hf_rule *r)
{
    return strchr(r->ours, '#') != strrchr(r->ours, '#');
}

/* Row i of lists, one after the other; NULL behind the last. */
static const struct sn_hf_rule *rule_at(const struct sn_hf_rule *const *lists, int i)
{
    for (; *lists; lists++)
        for (const struct sn_hf_rule *r = *lists; r->ours; r++)
            if (i-- == 0)
                return r;
    return NULL;
}

const struct sn_hf_rule *sn_hf_rule_at(enum sn_family family, int i)
{
    return rule_at(families[family].rules, i);
}

const struct sn_hf_rule *sn_hf_later_rule_at(enum sn_family family, int i)
{
    return rule_at(families[family].later, i);
}

static const struct sn_hf_rule *rule_among(const struct sn_hf_rule *const *lists,
                                           const char *tensor, struct sn_hf_at *at)
{
    const struct sn_hf_rule *r;
    for (int i = 0; (r = rule_at(lists, i)); i++)
        if (fits(r->ours, tensor, at))
            return r;
    return NULL;
}

const struct sn_hf_rule *sn_hf_rule_of(enum sn_family family, const char *tensor,
                                       struct sn_hf_at *at)
{
    return rule_among(families[family].rules, tensor, at);
}

struct sn_hf_name sn_hf_ours(const struct sn_hf_rule *r, struct sn_hf_at at)
{
    return numbered("", r->ours, at);
}

struct sn_hf_name sn_hf_theirs(enum sn_family family, const struct sn_hf_rule *r,
                               struct sn_hf_at at)
{
    bool is_head = strcmp(r->ours, "head.weight") == 0 && !strchr(r->theirs, '#');
    return numbered(is_head ? "" : families[family].prefix, r->theirs, at);
}

struct sn_hf_size sn_hf_size(enum sn_hf_form form, int64_t rows, int64_t cols)
{
    int64_t all = sn_hf_parts(form) * rows;
    bool turned = form == SN_HF_CONV || form == SN_HF_CONV_QKV;
    if (form == SN_HF_COLS_PAIR)
        return (struct sn_hf_size){rows, 2 * cols};
    return turned ? (struct sn_hf_size){cols, all} : (struct sn_hf_size){all, cols};
}

struct sn_hf_span sn_hf_span(const struct sn_model_config *m, const struct sn_hf_rule *r,
                             int64_t rows)
{
    int64_t q = sn_model_query_width(m), kv = (int64_t)m->kv_heads * sn_model_head_dim(m);
    if (r->form == SN_HF_ROWS_QKV)
        return (struct sn_hf_span){r->part == 0 ? 0 : q + (r->part - 1) * kv, q + 2 * kv};
    if (r->form == SN_HF_ROWS_LATENT)
        return (struct sn_hf_span){r->part * (int64_t)m->latent.kv, m->latent.kv + m->latent.rope};
    if (r->form == SN_HF_COLS_PAIR)
        return (struct sn_hf_span){0, rows};
    return (struct sn_hf_span){r->part * rows, sn_hf_parts(r->form) * rows};
}

int sn_hf_parts(enum sn_hf_form form)
{
    bool one = form == SN_HF_SAME || form == SN_HF_CONV || form == SN_HF_STACK;
    bool two = form == SN_HF_STACK_GATE_UP || form == SN_HF_ROWS_GATE_UP ||
               form == SN_HF_ROWS_LATENT || form == SN_HF_COLS_PAIR;
    return one ? 1 : two ? 2 : 3;
}

bool sn_hf_is_stack(enum sn_hf_form form)
{
    return form == SN_HF_STACK || form == SN_HF_STACK_GATE_UP;
}

/* --- in a file ------------------------------------------------------------------------------- */

static const struct sn_st_tensor *lookup(const struct sn_safetensors *st, enum sn_family family,
                                         const struct sn_hf_rule *r, struct sn_hf_at at)
{
    const struct sn_st_tensor *t =
        sn_safetensors_find(st, numbered(families[family].prefix, r->theirs, at).text);
    return t ? t : sn_safetensors_find(st, numbered("", r->theirs, at).text);
}

const struct sn_st_tensor *sn_hf_find(const struct sn_safetensors *st, enum sn_family family,
                                      const char *tensor, const struct sn_hf_rule **rule,
                                      struct sn_hf_at *at)
{
    const struct sn_hf_rule *const *const of[] = {families[family].rules, families[family].later};
    for (int i = 0; i < 2; i++) {
        const struct sn_hf_rule *r = rule_among(of[i], tensor, at);
        const struct sn_st_tensor *t = r ? lookup(st, family, r, *at) : NULL;
        if (!t)
            continue;
        *rule = r;
        return t;
    }
    return NULL;
}

const struct sn_st_tensor *sn_hf_source(const struct sn_safetensors *st, enum sn_family family,
                                        const char *tensor)
{
    struct sn_hf_at at = {0, 0};
    const struct sn_hf_rule *rule;
    return sn_hf_find(st, family, tensor, &rule, &at);
}

/* As sn_hf_sibling, of the names of one version. */
static const struct sn_st_tensor *sibling(const struct sn_safetensors *st, enum sn_family family,
                                          const struct sn_hf_rule *const *lists, const char *theirs,
                                          int share, int *layer)
{
    const struct sn_hf_rule *r;
    for (int i = 0; (r = rule_at(lists, i)); i++) {
        struct sn_hf_at at = {0, 0};
        if (!strchr(r->theirs, '#') || !fits(r->theirs, theirs, &at))
            continue;
        *layer = at.layer;
        at.layer -= at.layer % share;
        return *layer != at.layer ? lookup(st, family, r, at) : NULL;
    }
    return NULL;
}

int sn_hf_further(enum sn_family family, const char *theirs, int layers)
{
    static const char layer[] = "layers.";
    const struct family *f = &families[family];
    const char *name = theirs + (strncmp(theirs, f->prefix, strlen(f->prefix)) == 0 ? strlen(f->prefix) : 0);
    const char *number = name + sizeof(layer) - 1;
    if (!f->copies || strncmp(name, layer, sizeof(layer) - 1) != 0)
        return -1;
    size_t digits = strspn(number, "0123456789");
    if (digits < 1 || digits > 6 || number[digits] != '.')
        return -1;
    int at = (int)strtol(number, NULL, 10);
    return at >= layers ? at - layers : -1;
}

const struct sn_hf_rule *sn_hf_copy_rule_at(enum sn_family family, int i)
{
    const struct sn_hf_rule *const lists[] = {families[family].copies, NULL};
    return rule_at(lists, i);
}

const struct sn_st_tensor *sn_hf_copied(const struct sn_safetensors *st,
                                        const struct sn_model_config *m, const char *theirs)
{
    const struct family *f = &families[m->family];
    size_t skip = strncmp(theirs, f->prefix, strlen(f->prefix)) == 0 ? strlen(f->prefix) : 0;
    const struct sn_hf_rule *r;
    struct sn_hf_at at;
    for (int i = 0; (r = sn_hf_copy_rule_at(m->family, i)); i++)
        if (fits(r->theirs, theirs + skip, &at))
            return sn_hf_source(st, m->family, m->tied_embeddings ? "embed.weight" : r->ours);
    return NULL;
}

const struct sn_st_tensor *sn_hf_sibling(const struct sn_safetensors *st, enum sn_family family,
                                         const char *theirs, int share, int *layer)
{
    const struct family *f = &families[family];
    size_t skip = strncmp(theirs, f->prefix, strlen(f->prefix)) == 0 ? strlen(f->prefix) : 0;
    const struct sn_st_tensor *t = sibling(st, family, f->rules, theirs + skip, share, layer);
    return t ? t : sibling(st, family, f->later, theirs + skip, share, layer);
}
