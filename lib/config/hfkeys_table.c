/*
 * hfkeys_table.c - the table of Hugging Face's keys: those of each class's own, and the types.
 *
 * tests/parity/test_hfconfig.c and test_hfconfig_values.c walk all keys of those classes, in transformers 4 and 5, and others that
 * published files hold; what a key does was read in their code, and values of ours in place of theirs
 * were tried there.
 */
#include "lib/config/hfkeys_table.h"

/* clang-format off */
/* What llama and its descendants share. */
static const struct sn_hf_key swiglu_keys[] = {
    {USED("num_hidden_layers", "layers", REQUIRED)},
    {USED("hidden_size", "hidden", REQUIRED)},
    {USED("num_attention_heads", "heads", REQUIRED)},
    {USED("vocab_size", "vocab", REQUIRED)},
    {USED("initializer_range", "init_std", "0.02")},
    {FIXED("hidden_act", "the feed-forward part is SwiGLU here", "silu", "swish"), WRITTEN},
    {FIXED("attention_dropout", "model.dropout drops other activations too", "0.0"), WRITTEN},
    {INERT("max_sequence_length", "read by no class")},
    {.name = NULL},
};

static const struct sn_hf_key untied_keys[] = {
    {USED("tie_word_embeddings", "tied_embeddings", "false")},
    {.name = NULL},
};

static const struct sn_hf_key tied_keys[] = {
    {USED("tie_word_embeddings", "tied_embeddings", "true")},
    {.name = NULL},
};

static const struct sn_hf_key dense_keys[] = {
    {USED("intermediate_size", "ffn", REQUIRED)},
    {.name = NULL},
};

/* Of those that rotate heads whole. */
static const struct sn_hf_key whole_heads_keys[] = {
    {ALIAS("rope_parameters.rope_theta", "rope_theta")},
    {FIXED("rope_parameters.partial_rotary_factor", "heads are rotated whole in this class", "1.0", "null")},
    {FIXED("partial_rotary_factor", "heads are rotated whole in this class", "1.0", "null")},
    {.name = NULL},
};

/* Of those whose heads are as wide as hidden_size and num_attention_heads make them unless the file says it. */
static const struct sn_hf_key head_dim_keys[] = {
    {USED("head_dim", "head_dim", "null")},
    {.name = NULL},
};

static const struct sn_hf_key llama_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "null")},
    {USED("max_position_embeddings", "seq", "2048")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("attention_bias", "attention_bias", "false")},
    {USED("mlp_bias", "mlp_bias", "false")},
    {FIXED("sliding_window", "this class has none", "null")},
    {FIXED("rope_interleaved", "halves of a head are turned here, not neighbours", "false")},
    {INERT("is_llama_config", "read by no class")},
    {INERT("pretraining_tp", "products in slices, with the same sums")},
    {.name = NULL},
};

static const struct sn_hf_key mistral_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "8"), NULL_OK},
    {USED("max_position_embeddings", "seq", "131072")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("sliding_window", "sliding_window", "4096"), NULL_OK, WINDOW},
    {FIXED("attention_bias", "projections have no biases here", "false")},
    {FIXED("mlp_bias", "projections have no biases here", "false")},
    {FIXED("layer_types", "all layers are alike here", "null")},
    {.name = NULL},
};

static const struct sn_hf_key mixtral_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "8"), NULL_OK},
    {USED("max_position_embeddings", "seq", "131072")},
    {USED("rms_norm_eps", "norm_eps", "1e-05")},
    {USED("rope_theta", "rope_theta", "1000000")},
    {USED("sliding_window", "sliding_window", "null"), WINDOW},
    {USED("num_local_experts", "experts.count", "8")},
    {USED("num_experts_per_tok", "experts.top_k", "2")},
    {USED("router_aux_loss_coef", "experts.aux_loss", "0.001"), SCALED},
    {FIXED("router_jitter_noise", "experts would see the noise too", "0.0"), WRITTEN},
    {FIXED("attention_bias", "projections have no biases here", "false")},
    {FIXED("mlp_bias", "projections have no biases here", "false")},
    {ALIAS("num_experts", "num_local_experts")},
    {INERT("output_router_logits", "what a call returns; here experts.aux_loss decides alone")},
    {.name = NULL},
};

/* Windows of qwen2 and qwen3. */
static const struct sn_hf_key qwen_window_keys[] = {
    {LAYERS("layer_types", .on = "use_sliding_window", .from = "max_window_layers", .window = "sliding_window")},
    {PART("use_sliding_window", "layer_types", "false")},
    {PART("sliding_window", "layer_types", "4096")},
    {PART("max_window_layers", "layer_types", "28")},
    {.name = NULL},
};

/* Its code has biases of q, k and v alone, without a key for them. */
static const struct sn_hf_key qwen2_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "32"), NULL_OK},
    {USED("max_position_embeddings", "seq", "32768")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {FIXED("use_mrope", "positions are those of text here", "false")},
    {.name = NULL},
};

static const struct sn_hf_key smollm3_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "4"), NULL_OK},
    {USED("max_position_embeddings", "seq", "32768")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "2000000")},
    {USED("no_rope_layer_interval", "no_rope_every", "4")},
    {EVERY("no_rope_layers", "no_rope_layer_interval")},
    {USED("attention_bias", "attention_bias", "false")},
    {USED("mlp_bias", "mlp_bias", "false")},
    {FIXED("use_sliding_window", "a window that cuts something off is not built", "false"), WRITTEN},
    {INERT("sliding_window", "where it counts, use_sliding_window is refused")},
    {INERT("max_window_layers", "read by no class")},
    {FIXED("layer_types", "all layers attend alike here", "full_attention", "null"), .is_list = true},
    {INERT("pretraining_tp", "products in slices, with the same sums")},
    {.name = NULL},
};

static const struct sn_hf_key granite_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "null")},
    {USED("max_position_embeddings", "seq", "2048")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("embedding_multiplier", "embed_scale", "1.0")},
    {USED("attention_multiplier", "attention_scale", "1.0")},
    {USED("residual_multiplier", "residual_scale", "1.0")},
    {USED("logits_scaling", "logits_divisor", "1.0")},
    {USED("attention_bias", "attention_bias", "false")},
    {USED("mlp_bias", "mlp_bias", "false")},
    {.name = NULL},
};

static const struct sn_hf_key starcoder2_keys[] = {
    {USED("num_hidden_layers", "layers", REQUIRED)},
    {USED("hidden_size", "hidden", REQUIRED)},
    {USED("num_attention_heads", "heads", REQUIRED)},
    {USED("intermediate_size", "ffn", REQUIRED)},
    {USED("vocab_size", "vocab", REQUIRED)},
    {USED("num_key_value_heads", "kv_heads", "2")},
    {USED("max_position_embeddings", "seq", "4096")},
    {USED("norm_epsilon", "norm_eps", "1e-05")},
    {USED("initializer_range", "init_std", "0.018042")},
    {USED("tie_word_embeddings", "tied_embeddings", "true")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("sliding_window", "sliding_window", "null"), WINDOW},
    {USED("hidden_act", "activation", "gelu_pytorch_tanh"), GELUS_OF_TORCH},
    {FIXED("use_bias", "projections have biases here", "true"), WRITTEN},
    {USED("residual_dropout", "dropout", "0.0")},
    {USED("embedding_dropout", "dropout", "0.0")},
    {USED("attention_dropout", "dropout", "0.0")},
    {FIXED("layer_types", "all layers are alike here", "null")},
    {FIXED("scale_attn_weights", "scores are divided by the root of a head's width here", "true")},
    {INERT("mlp_type", "read by no class")},
    {INERT("norm_type", "read by no class")},
    {INERT("layer_norm_epsilon", "read by no class; norm_epsilon counts")},
    {INERT("attention_softmax_in_fp32", "read by no class")},
    {INERT("scale_attention_softmax_in_fp32", "read by no class")},
    {INERT("activation_function", "read by no class")},
    {.name = NULL},
};

/* Its code has norms of q and k for each head, without a key for them. */
static const struct sn_hf_key qwen3_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "32"), NULL_OK},
    {USED("max_position_embeddings", "seq", "32768")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("head_dim", "head_dim", "128")},
    {USED("attention_bias", "attention_bias", "false")},
    {.name = NULL},
};

/* Its code has norms of q and k over all heads, without a key for them. */
static const struct sn_hf_key olmo2_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "null")},
    {USED("max_position_embeddings", "seq", "2048")},
    {USED("rms_norm_eps", "norm_eps", "1e-05")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("attention_bias", "attention_bias", "false")},
    {.name = NULL},
};

/* Its older types of scaling are longrope under other names. */
static const struct sn_hf_key phi3_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "null")},
    {USED("max_position_embeddings", "seq", "4096")},
    {USED("rms_norm_eps", "norm_eps", "1e-05")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("partial_rotary_factor", "rotary_pct", "1.0")},
    {USED("sliding_window", "sliding_window", "null"), WINDOW},
    {USED("original_max_position_embeddings", "rope_scaling.original_seq", "4096")},
    {ALIAS("rope_parameters.original_max_position_embeddings", "original_max_position_embeddings")},
    {ALIAS("rope_parameters.rope_theta", "rope_theta")},
    {ALIAS("rope_parameters.partial_rotary_factor", "partial_rotary_factor")},
    {USED("rope_parameters.rope_type", "rope_scaling.type", "default"),
        .words = {{"default", "default"}, {"longrope", "longrope"}, {"su", "longrope"}, {"yarn", "longrope"}}},
    {FIXED("resid_pdrop", "model.dropout drops other activations too", "0.0"), WRITTEN},
    {FIXED("embd_pdrop", "model.dropout drops other activations too", "0.0"), WRITTEN},
    {FIXED("attention_bias", "projections have no biases here", "false")},
    {FIXED("mlp_bias", "projections have no biases here", "false")},
    {FIXED("lm_head_bias", "the head has no bias here", "false")},
    {FIXED("full_attn_mod", "all layers are alike here", "1")},
    {FIXED("interpolate_factor", "positions are counted by 1 here", "1")},
    {FIXED("layer_types", "all layers are alike here", "null")},
    {.name = NULL},
};

/* Of both; its code has a norm before and behind each part, and weights of norms less 1, without keys for them. */
static const struct sn_hf_key gemma_keys[] = {
    {USED("num_hidden_layers", "layers", "26")},
    {USED("hidden_size", "hidden", "2304")},
    {USED("num_attention_heads", "heads", "8")},
    {USED("num_key_value_heads", "kv_heads", "4")},
    {USED("head_dim", "head_dim", "256")},
    {USED("intermediate_size", "ffn", "9216")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("initializer_range", "init_std", "0.02")},
    {USED("query_pre_attn_scalar", "attention_scale", "256"), INVERSE_ROOT},
    {USED("sliding_window", "sliding_window", "4096")},
    {FIXED("hidden_activation", "the gate is by gelu with tanh here", "gelu_pytorch_tanh"), WRITTEN},
    {USED("attention_bias", "attention_bias", "false")},
    {FIXED("attention_dropout", "model.dropout drops other activations too", "0.0"), WRITTEN},
    {FIXED("use_bidirectional_attention", "a token attends to those before it here", "false", "null")},
    {INERT("hidden_act", "read by no class")},
    {INERT("cache_implementation", "how it generates")},
    {.name = NULL},
};

static const struct sn_hf_key gemma2_keys[] = {
    {USED("vocab_size", "vocab", "256000")},
    {USED("max_position_embeddings", "seq", "8192")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("final_logit_softcapping", "logit_cap", "30.0"), NULL_OK, WINDOW},
    {USED("attn_logit_softcapping", "score_cap", "50.0"), NULL_OK, WINDOW},
    {LAYERS("layer_types", .every = "2")},
    {.name = NULL},
};

/* Two embeddings of positions: that of layers with a window is never scaled. */
static const struct sn_hf_key gemma3_keys[] = {
    {USED("vocab_size", "vocab", "262208")},
    {USED("max_position_embeddings", "seq", "131072")},
    {USED("rope_theta", "rope_theta", "1000000")},
    {USED("rope_local_base_freq", "rope_local_theta", "10000")},
    {USED("final_logit_softcapping", "logit_cap", "null"), WINDOW},
    {INERT("attn_logit_softcapping", "its attention does not read it")},
    {LAYERS("layer_types", .every = "sliding_window_pattern")},
    {PART("sliding_window_pattern", "layer_types", "6")},
    {INERT("_sliding_window_pattern", "where layer_types is left out, sliding_window_pattern counts")},
    {ALIAS("rope_parameters.full_attention", "rope_parameters")},
    {OBJECT("rope_parameters.sliding_attention")},
    {ALIAS("rope_parameters.sliding_attention.rope_theta", "rope_local_base_freq")},
    {FIXED("rope_parameters.sliding_attention.rope_type", "wavelengths of layers with a window are not scaled here", "default")},
    {.name = NULL},
};

static const struct sn_hf_key qwen3_moe_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "4"), NULL_OK},
    {USED("max_position_embeddings", "seq", "32768")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("num_local_experts", "experts.count", "128"), .as = "num_experts"}, /* that of transformers 4 */
    {ALIAS("num_experts", "num_local_experts")},
    {USED("num_experts_per_tok", "experts.top_k", "8")},
    {USED("moe_intermediate_size", "ffn", "768")},
    {USED("router_aux_loss_coef", "experts.aux_loss", "0.001"), SCALED},
    {USED("norm_topk_prob", "experts.unnormalised", "false"), NEGATED},
    {USED("decoder_sparse_step", "experts.every", "1")},
    {DENSE_LAYERS("mlp_only_layers", "decoder_sparse_step")},
    {USED("attention_bias", "attention_bias", "false")},
    {FIXED("use_sliding_window", "a window that cuts something off is not built", "false"), WRITTEN},
    {INERT("sliding_window", "where it counts, use_sliding_window is refused")},
    {INERT("max_window_layers", "where it counts, use_sliding_window is refused")},
    {USED("intermediate_size", "dense_ffn", "6144")},
    {FIXED("shared_expert_intermediate_size", "no expert is shared in this class here", "0")},
    {FIXED("use_qk_norm", "q and k have norms in this class here", "true")},
    {FIXED("qkv_bias", "attention_bias says it for all projections here", "false")},
    {INERT("output_router_logits", "what a call returns; here experts.aux_loss decides alone")},
    {.name = NULL},
};

/* Its code has biases of q, k and v, and a gate over the shared experts, the latter without a key for it. */
static const struct sn_hf_key qwen2_moe_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "16"), NULL_OK},
    {USED("max_position_embeddings", "seq", "32768")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("num_experts", "experts.count", "60")},
    {ALIAS("num_local_experts", "num_experts")},
    {USED("num_experts_per_tok", "experts.top_k", "4")},
    {USED("moe_intermediate_size", "ffn", "1408")},
    {USED("shared_expert_intermediate_size", "experts.shared_ffn", "5632")},
    {USED("router_aux_loss_coef", "experts.aux_loss", "0.001"), SCALED},
    {USED("norm_topk_prob", "experts.unnormalised", "false"), NEGATED},
    {USED("decoder_sparse_step", "experts.every", "1")},
    {DENSE_LAYERS("mlp_only_layers", "decoder_sparse_step")},
    {USED("intermediate_size", "dense_ffn", "5632")},
    {FIXED("qkv_bias", "projections to q, k and v have biases in this class here", "true")},
    {FIXED("use_sliding_window", "a window that cuts something off is not built", "false"), WRITTEN},
    {INERT("sliding_window", "where it counts, use_sliding_window is refused")},
    {INERT("max_window_layers", "where it counts, use_sliding_window is refused")},
    {FIXED("layer_types", "all layers attend alike here", "full_attention", "null"), .is_list = true},
    {INERT("output_router_logits", "what a call returns; here experts.aux_loss decides alone")},
    {.name = NULL},
};

/* Its code has norms of q and k for each head, and a bias of the choice in routers of sigmoids, without keys for them. */
static const struct sn_hf_key dots1_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "32"), NULL_OK},
    {USED("max_position_embeddings", "seq", "2048")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {USED("n_routed_experts", "experts.count", REQUIRED)},
    {ALIAS("num_local_experts", "n_routed_experts")},
    {USED("num_experts_per_tok", "experts.top_k", REQUIRED)},
    {USED("n_shared_experts", "experts.shared", REQUIRED)},
    {USED("moe_intermediate_size", "ffn", "1408")},
    {USED("intermediate_size", "dense_ffn", "10944")},
    {USED("n_group", "experts.groups", "1")},
    {USED("topk_group", "experts.top_groups", "1")},
    {USED("norm_topk_prob", "experts.unnormalised", "false"), NEGATED},
    {USED("routed_scaling_factor", "experts.route_scale", "1.0")},
    {USED("first_k_dense_replace", "experts.from", "0")},
    {USED("attention_bias", "attention_bias", "false")},
    {FIXED("sliding_window", "a window that cuts something off is not built", "null", "4096"), WRITTEN}, /* from max_window_layers on */
    {REPEAT("max_window_layers", "num_hidden_layers"), .value = "62"},
    {FIXED("layer_types", "all layers attend alike here", "full_attention", "null"), .is_list = true},
    {INERT("output_router_logits", "what a call returns; there is no loss of routers")},
    {.name = NULL},
};

/* Of both DeepSeeks; their code has norms of latents, with 1e-6 added whatever rms_norm_eps is, without a key for them. */
static const struct sn_hf_key latent_keys[] = {
    {USED("kv_lora_rank", "latent.kv_rank", "512")},
    {USED("q_lora_rank", "latent.q_rank", "1536"), NULL_OK, WINDOW},
    {USED("qk_nope_head_dim", "latent.nope_dim", "128")},
    {USED("qk_rope_head_dim", "latent.rope_dim", "64")},
    {USED("v_head_dim", "latent.v_dim", "128")},
    {REPEAT("head_dim", "qk_rope_head_dim")},
    {INERT("qk_head_dim", "follows from qk_nope_head_dim and qk_rope_head_dim")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {FIXED("attention_bias", "projections of latents have no biases here", "false")},
    {FIXED("moe_layer_freq", "all layers from first_k_dense_replace on have experts here", "1")},
    {INERT("ep_size", "how experts are dealt to ranks")},
    {INERT("pretraining_tp", "products in slices, with the same sums")},
    {INERT("output_router_logits", "what a call returns; here experts.aux_loss decides alone")},
    {.name = NULL},
};

/* Weights of a token's experts are of a softmax of all. A balancing loss of each sequence is not built: ours is of a
 * micro-batch. */
static const struct sn_hf_key deepseek_v2_keys[] = {
    {REPEAT("num_key_value_heads", "num_attention_heads")},
    {USED("max_position_embeddings", "seq", "2048")},
    {USED("n_routed_experts", "experts.count", "64")},
    {ALIAS("num_experts", "n_routed_experts")},
    {USED("num_experts_per_tok", "experts.top_k", REQUIRED)},
    {USED("n_shared_experts", "experts.shared", "2")},
    {USED("moe_intermediate_size", "ffn", "1407")},
    {USED("intermediate_size", "dense_ffn", "11008")},
    {USED("n_group", "experts.groups", "null")},
    {USED("topk_group", "experts.top_groups", "null")},
    {GROUPED("topk_method", "n_group", "greedy", "group_limited_greedy")},
    {FIXED("scoring_func", "routers are of a softmax in this class here", "softmax")},
    {USED("norm_topk_prob", "experts.unnormalised", "false"), .words = {{"false", "true"}}},
    {USED("routed_scaling_factor", "experts.route_scale", "1.0")},
    {USED("aux_loss_alpha", "experts.aux_loss", "0.001")},
    {USED("seq_aux", "experts.balance", "true"), .words = {{"true", "sequence"}, {"false", "batch"}}},
    {USED("first_k_dense_replace", "experts.from", "0")},
    {FIXED("mlp_bias", "projections have no biases here", "false")},
    {.name = NULL},
};

static const struct sn_hf_key deepseek_v3_keys[] = {
    {REPEAT("num_key_value_heads", "num_attention_heads"), .value = "128", WRITTEN},
    {USED("max_position_embeddings", "seq", "4096")},
    {USED("n_routed_experts", "experts.count", "256")},
    {ALIAS("num_local_experts", "n_routed_experts")},
    {USED("num_experts_per_tok", "experts.top_k", "8")},
    {USED("n_shared_experts", "experts.shared", "1")},
    {USED("moe_intermediate_size", "ffn", "2048")},
    {USED("intermediate_size", "dense_ffn", "18432")},
    {USED("n_group", "experts.groups", "8")},
    {USED("topk_group", "experts.top_groups", "4")},
    {FIXED("topk_method", "the choice goes by groups and a bias here", "noaux_tc")},
    {FIXED("scoring_func", "routers are of sigmoids in this class here", "sigmoid")},
    {USED("norm_topk_prob", "experts.unnormalised", "true"), NEGATED},
    {USED("routed_scaling_factor", "experts.route_scale", "2.5")},
    {INERT("aux_loss_alpha", "how it was trained; its class has a bias alone, and experts.aux_loss is for more")},
    {INERT("seq_aux", "how it was trained; its class has a bias alone, and experts.balance is for more")},
    {USED("first_k_dense_replace", "experts.from", "3")},
    {FIXED("rope_interleave", "neighbours are turned here, not halves of a head", "true")},
    {FIXED("num_nextn_predict_layers", "how many blocks that predict a token further on there are, of which model.mtp takes so many, or none", "0", "1", "2", "3", "4"), .ours = "mtp", WRITTEN},
    {ALIAS("num_mtp_layers", "num_nextn_predict_layers")},
    {.name = NULL},
};

#define DENSE  swiglu_keys, dense_keys
#define ROTARY whole_heads_keys, sn_hf_rope_type_keys, sn_hf_rope_keys, sn_hf_base_keys

/* Of types of one family, the first that knows all keys of a model is written. */
const struct sn_hf_type sn_hf_types[] = {
    {"gpt2", SN_GPT2, "GPT2LMHeadModel", {sn_hf_gpt2_keys, sn_hf_base_keys}},
    {"gpt_neox", SN_GPT_NEOX, "GPTNeoXForCausalLM", {sn_hf_neox_keys, sn_hf_rope_type_keys, sn_hf_rope_keys, sn_hf_base_keys}},
    {"llama", SN_LLAMA, "LlamaForCausalLM", {DENSE, untied_keys, head_dim_keys, llama_keys, ROTARY}},
    {"mistral", SN_LLAMA, "MistralForCausalLM", {DENSE, untied_keys, head_dim_keys, mistral_keys, ROTARY}},
    {"smollm3", SN_LLAMA, "SmolLM3ForCausalLM", {DENSE, tied_keys, head_dim_keys, smollm3_keys, ROTARY}},
    {"granite", SN_LLAMA, "GraniteForCausalLM", {DENSE, untied_keys, head_dim_keys, granite_keys, ROTARY}},
    {"mixtral", SN_MIXTRAL, "MixtralForCausalLM", {DENSE, untied_keys, head_dim_keys, mixtral_keys, ROTARY}},
    {"qwen2", SN_QWEN2, "Qwen2ForCausalLM", {DENSE, untied_keys, head_dim_keys, qwen2_keys, qwen_window_keys, ROTARY}},
    {"qwen3", SN_QWEN3, "Qwen3ForCausalLM", {DENSE, untied_keys, qwen3_keys, qwen_window_keys, ROTARY}},
    {"qwen3_moe", SN_QWEN3_MOE, "Qwen3MoeForCausalLM", {swiglu_keys, untied_keys, head_dim_keys, qwen3_moe_keys, ROTARY}},
    {"qwen2_moe", SN_QWEN2_MOE, "Qwen2MoeForCausalLM", {swiglu_keys, untied_keys, head_dim_keys, qwen2_moe_keys, ROTARY}},
    {"dots1", SN_DOTS1, "Dots1ForCausalLM", {swiglu_keys, untied_keys, head_dim_keys, dots1_keys, ROTARY}},
    {"deepseek_v2", SN_DEEPSEEK_V2, "DeepseekV2ForCausalLM", {swiglu_keys, untied_keys, latent_keys, deepseek_v2_keys, ROTARY}},
    {"deepseek_v3", SN_DEEPSEEK_V3, "DeepseekV3ForCausalLM", {swiglu_keys, untied_keys, latent_keys, deepseek_v3_keys, ROTARY}},
    {"olmo2", SN_OLMO2, "Olmo2ForCausalLM", {DENSE, untied_keys, head_dim_keys, olmo2_keys, ROTARY}},
    {"phi3", SN_PHI3, "Phi3ForCausalLM", {DENSE, untied_keys, head_dim_keys, phi3_keys, sn_hf_rope_keys, sn_hf_base_keys}},
    {"gemma2", SN_GEMMA2, "Gemma2ForCausalLM", {gemma_keys, tied_keys, gemma2_keys, ROTARY}},
    {"gemma3_text", SN_GEMMA3, "Gemma3ForCausalLM", {gemma_keys, tied_keys, gemma3_keys, ROTARY}},
    {"starcoder2", SN_STARCODER2, "Starcoder2ForCausalLM", {starcoder2_keys, head_dim_keys, ROTARY}},
};
/* clang-format on */

const int sn_hf_n_types = sizeof(sn_hf_types) / sizeof(sn_hf_types[0]);
_Static_assert(sizeof(sn_hf_types) / sizeof(sn_hf_types[0]) <= SN_HF_TYPES_MOST,
               "room for more types");
