/*
 * hfkeys.c - the table of Hugging Face's keys: those of GPT2Config, GPTNeoXConfig, LlamaConfig,
 * MistralConfig, MixtralConfig, Qwen2Config and of the class that they are derived from, in
 * transformers 4 and 5, and others that published files hold.
 *
 * tests/parity/test_hfconfig.c walks all keys of those classes; what a key does was read in their
 * code, and values of ours in place of theirs were tried there.
 */
#include "lib/config/hfkeys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USED(key, to, otherwise)                                                                   \
    .name = (key), .class = SN_HF_USED, .ours = (to), .value = (otherwise), .is_written = true
#define FIXED(key, reason, ...)                                                                    \
    .name = (key), .class = SN_HF_FIXED, .why = (reason), .values = {__VA_ARGS__}
#define REPEAT(key, of)    .name = (key), .class = SN_HF_REPEAT, .ours = (of)
#define OBJECT(key)        .name = (key), .class = SN_HF_OBJECT
#define ALIAS(key, of)     .name = (key), .class = SN_HF_ALIAS, .ours = (of)
#define INERT(key, reason) .name = (key), .class = SN_HF_INERT, .why = (reason)
#define WRITTEN            .is_written = true
#define SCALED             .scale = SN_HF_TOP_K_OVER_LAYERS
#define NULL_OK            .may_be_null = true
#define WINDOW             .words = {{"null", "none"}}
#define GELUS                                                                                      \
    .words = {{"gelu_new", "gelu_tanh"},                                                           \
              {"gelu_pytorch_tanh", "gelu_tanh"},                                                  \
              {"gelu_fast", "gelu_tanh"},                                                          \
              {"gelu", "gelu"},                                                                    \
              {"gelu_python", "gelu"}}
#define REQUIRED NULL

/* clang-format off */
static const struct sn_hf_key gpt2_keys[] = {
    {USED("n_layer", "layers", "12")},
    {USED("n_embd", "hidden", "768")},
    {USED("n_head", "heads", "12")},
    {USED("n_inner", "ffn", "null")},
    {USED("vocab_size", "vocab", "50257")},
    {USED("n_positions", "seq", "1024")},
    {USED("layer_norm_epsilon", "norm_eps", "1e-05")},
    {USED("initializer_range", "init_std", "0.02")},
    {USED("tie_word_embeddings", "tied_embeddings", "true")},
    {USED("activation_function", "activation", "gelu_new"), GELUS},
    {FIXED("scale_attn_weights", "scores are divided by the root of a head's width here", "true"), WRITTEN},
    {FIXED("scale_attn_by_inverse_layer_idx", "scores are not divided by the layer's number here", "false"), WRITTEN},
    {USED("resid_pdrop", "dropout", "0.1")},
    {USED("embd_pdrop", "dropout", "0.1")},
    {USED("attn_pdrop", "dropout", "0.1")},
    {ALIAS("num_hidden_layers", "n_layer")},
    {ALIAS("hidden_size", "n_embd")},
    {ALIAS("num_attention_heads", "n_head")},
    {ALIAS("max_position_embeddings", "n_positions")},
    {REPEAT("head_dim", "n_embd"), .per = "n_head"},
    {FIXED("rope_theta", "this class has no rotary embedding", "null")},
    {FIXED("rope_scaling", "this class has no rotary embedding", "null")},
    {FIXED("partial_rotary_factor", "this class has no rotary embedding", "null")},
    {INERT("n_ctx", "size of an old buffer of masks")},
    {INERT("reorder_and_upcast_attn", "order of operations in half precision")},
    {INERT("n_special", "read by no class")},
    {INERT("predict_special_tokens", "read by no class")},
    {INERT("output_past", "old name of use_cache")},
    {INERT("summary_type", "head of another task")},
    {INERT("summary_use_proj", "head of another task")},
    {INERT("summary_activation", "head of another task")},
    {INERT("summary_proj_to_labels", "head of another task")},
    {INERT("summary_first_dropout", "head of another task")},
    {INERT("summary_last_dropout", "head of another task")},
    {.name = NULL},
};

static const struct sn_hf_key neox_keys[] = {
    {USED("num_hidden_layers", "layers", REQUIRED)},
    {USED("hidden_size", "hidden", REQUIRED)},
    {USED("num_attention_heads", "heads", REQUIRED)},
    {USED("intermediate_size", "ffn", REQUIRED)},
    {USED("vocab_size", "vocab", REQUIRED)},
    {USED("max_position_embeddings", "seq", "2048")},
    {USED("layer_norm_eps", "norm_eps", "1e-05")},
    {USED("initializer_range", "init_std", "0.02")},
    {USED("tie_word_embeddings", "tied_embeddings", "false")},
    {USED("rotary_pct", "rotary_pct", "0.25")},
    {USED("rotary_emb_base", "rope_theta", "10000")},
    {USED("use_parallel_residual", "parallel_residual", "true")},
    {USED("hidden_act", "activation", "gelu"), GELUS},
    {FIXED("attention_bias", "projections have biases here", "true"), WRITTEN},
    {USED("hidden_dropout", "dropout", "0.0")},
    {USED("attention_dropout", "dropout", "0.0")},
    {ALIAS("rope_parameters.rope_theta", "rotary_emb_base")},
    {ALIAS("rope_parameters.partial_rotary_factor", "rotary_pct")},
    {REPEAT("rope_theta", "rotary_emb_base")},
    {REPEAT("partial_rotary_factor", "rotary_pct")},
    {REPEAT("head_dim", "hidden_size"), .per = "num_attention_heads"},
    {INERT("attention_probs_dropout_prob", "read by no class")},
    {INERT("hidden_dropout_prob", "read by no class")},
    {INERT("custom_pipelines", "how to call it")},
    {.name = NULL},
};

/* What llama, mistral, mixtral and qwen2 share. */
static const struct sn_hf_key swiglu_keys[] = {
    {USED("num_hidden_layers", "layers", REQUIRED)},
    {USED("hidden_size", "hidden", REQUIRED)},
    {USED("num_attention_heads", "heads", REQUIRED)},
    {USED("intermediate_size", "ffn", REQUIRED)},
    {USED("vocab_size", "vocab", REQUIRED)},
    {USED("initializer_range", "init_std", "0.02")},
    {USED("tie_word_embeddings", "tied_embeddings", "false")},
    {FIXED("hidden_act", "the feed-forward part is SwiGLU here", "silu", "swish"), WRITTEN},
    {FIXED("attention_dropout", "model.dropout drops other activations too", "0.0"), WRITTEN},
    {ALIAS("rope_parameters.rope_theta", "rope_theta")},
    {FIXED("rope_parameters.partial_rotary_factor", "heads are rotated whole in this class", "1.0", "null")},
    {FIXED("partial_rotary_factor", "heads are rotated whole in this class", "1.0", "null")},
    {REPEAT("head_dim", "hidden_size"), .per = "num_attention_heads"},
    {INERT("max_sequence_length", "read by no class")},
    {.name = NULL},
};

static const struct sn_hf_key llama_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "null")},
    {USED("max_position_embeddings", "seq", "2048")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {FIXED("attention_bias", "projections have no biases here", "false"), WRITTEN},
    {FIXED("mlp_bias", "projections have no biases here", "false"), WRITTEN},
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

/* Its code has biases of q, k and v alone, without a key for them. */
static const struct sn_hf_key qwen2_keys[] = {
    {USED("num_key_value_heads", "kv_heads", "32"), NULL_OK},
    {USED("max_position_embeddings", "seq", "32768")},
    {USED("rms_norm_eps", "norm_eps", "1e-06")},
    {USED("rope_theta", "rope_theta", "10000")},
    {FIXED("use_sliding_window", "a window that cuts something off is not built", "false"), WRITTEN,
        .idle = {{"max_window_layers", "num_hidden_layers"},
                 {"sliding_window", "max_position_embeddings", "sliding_window",
                  "max_window_layers", "window_from"}}},
    {INERT("sliding_window", "where it counts, use_sliding_window is refused"), .value = "4096"},
    {INERT("max_window_layers", "where it counts, use_sliding_window is refused"), .value = "28"},
    {FIXED("use_mrope", "positions are those of text here", "false")},
    {FIXED("layer_types", "all layers attend alike here", "full_attention", "null"), .is_list = true,
        .idle = {{"sliding_window", "max_position_embeddings", "sliding_window"}}},
    {.name = NULL},
};

/* Of classes with rotary embeddings; files of transformers 4 say rope_scaling. */
static const struct sn_hf_key rope_keys[] = {
    {OBJECT("rope_parameters")},
    {ALIAS("rope_scaling", "rope_parameters")},
    {FIXED("rope_parameters.rope_type", "wavelengths are not scaled here", "default")},
    {FIXED("rope_parameters.type", "wavelengths are not scaled here", "default")},
    {FIXED("rope_parameters.mrope_section", "positions are those of text here", "null")},
    {INERT("rope_parameters.factor", "of other types")},
    {INERT("rope_parameters.original_max_position_embeddings", "of other types")},
    {INERT("rope_parameters.attention_factor", "of other types")},
    {INERT("rope_parameters.beta_fast", "of other types")},
    {INERT("rope_parameters.beta_slow", "of other types")},
    {INERT("rope_parameters.truncate", "of other types")},
    {INERT("rope_parameters.mscale", "of other types")},
    {INERT("rope_parameters.mscale_all_dim", "of other types")},
    {INERT("rope_parameters.short_factor", "of other types")},
    {INERT("rope_parameters.long_factor", "of other types")},
    {INERT("rope_parameters.low_freq_factor", "of other types")},
    {INERT("rope_parameters.high_freq_factor", "of other types")},
    {.name = NULL},
};

/* Of the class from which all others are derived. */
static const struct sn_hf_key base_keys[] = {
    {FIXED("quantization_config", "weights are plain numbers here", "null")},
    {FIXED("compression_config", "weights are plain numbers here", "null")},
    {FIXED("auto_map", "code beside the weights may compute another model", "null")},
    {FIXED("per_layer_config", "all layers are alike here", "null", "{}")},
    {FIXED("pruned_heads", "all heads are there here", "null", "{}")},
    {FIXED("is_causal", "a token attends to those before it here", "true")},
    {FIXED("is_encoder_decoder", "there is no encoder here", "false")},
    {FIXED("add_cross_attention", "there is no encoder here", "false")},
    {FIXED("cross_attention_hidden_size", "there is no encoder here", "null")},
    {INERT("model_type", "names the family")},
    {INERT("architectures", "the tensors say whether the head is there")},
    {INERT("dtype", "each tensor has its own")},
    {INERT("torch_dtype", "each tensor has its own")},
    {INERT("transformers_version", "where it comes from")},
    {INERT("_name_or_path", "where it comes from")},
    {INERT("name_or_path", "where it comes from")},
    {INERT("_commit_hash", "where it comes from")},
    {INERT("unsloth_version", "where it comes from")},
    {INERT("unsloth_fixed", "where it comes from")},
    {INERT("transformers.js_config", "for another library")},
    {INERT("attn_implementation", "which kernel computes it")},
    {INERT("_attn_implementation_autoset", "which kernel computes it")},
    {INERT("_flash_attn_2_enabled", "which kernel computes it")},
    {INERT("experts_implementation", "which kernel computes it")},
    {INERT("chunk_size_feed_forward", "products in slices, with the same sums")},
    {INERT("gradient_checkpointing", "how it is trained")},
    {INERT("use_bfloat16", "how it is trained")},
    {INERT("tf_legacy_loss", "for another library")},
    {INERT("torchscript", "what a call returns")},
    {INERT("output_hidden_states", "what a call returns")},
    {INERT("output_attentions", "what a call returns")},
    {INERT("tie_last_hidden_states", "what a call returns")},
    {INERT("return_dict", "what a call returns")},
    {INERT("use_cache", "how it generates")},
    {INERT("is_decoder", "all of them are")},
    {INERT("tie_encoder_decoder", "there is no encoder")},
    {INERT("id2label", "head of another task")},
    {INERT("label2id", "head of another task")},
    {INERT("num_labels", "head of another task")},
    {INERT("_num_labels", "head of another task")},
    {INERT("problem_type", "head of another task")},
    {INERT("finetuning_task", "head of another task")},
    {INERT("classifier_dropout", "head of another task")},
    {INERT("task_specific_params", "how it generates")},
    {INERT("tokenizer_class", "of the tokenizer")},
    {INERT("prefix", "of the tokenizer")},
    {INERT("bos_token_id", "of the tokenizer")},
    {INERT("eos_token_id", "of the tokenizer")},
    {INERT("pad_token_id", "of the tokenizer; transformers alone does not train its row")},
    {INERT("sep_token_id", "of the tokenizer")},
    {INERT("decoder_start_token_id", "of the tokenizer")},
    {INERT("max_length", "how it generates")},
    {INERT("min_length", "how it generates")},
    {INERT("do_sample", "how it generates")},
    {INERT("early_stopping", "how it generates")},
    {INERT("num_beams", "how it generates")},
    {INERT("num_beam_groups", "how it generates")},
    {INERT("diversity_penalty", "how it generates")},
    {INERT("temperature", "how it generates")},
    {INERT("top_k", "how it generates")},
    {INERT("top_p", "how it generates")},
    {INERT("typical_p", "how it generates")},
    {INERT("epsilon_cutoff", "how it generates")},
    {INERT("eta_cutoff", "how it generates")},
    {INERT("repetition_penalty", "how it generates")},
    {INERT("encoder_repetition_penalty", "how it generates")},
    {INERT("length_penalty", "how it generates")},
    {INERT("no_repeat_ngram_size", "how it generates")},
    {INERT("encoder_no_repeat_ngram_size", "how it generates")},
    {INERT("bad_words_ids", "how it generates")},
    {INERT("num_return_sequences", "how it generates")},
    {INERT("output_scores", "how it generates")},
    {INERT("return_dict_in_generate", "how it generates")},
    {INERT("forced_bos_token_id", "how it generates")},
    {INERT("forced_eos_token_id", "how it generates")},
    {INERT("remove_invalid_values", "how it generates")},
    {INERT("exponential_decay_length_penalty", "how it generates")},
    {INERT("suppress_tokens", "how it generates")},
    {INERT("begin_suppress_tokens", "how it generates")},
    {INERT("num_assistant_tokens", "how it generates")},
    {INERT("num_assistant_tokens_schedule", "how it generates")},
    {INERT("assistant_confidence_threshold", "how it generates")},
    {INERT("assistant_lookbehind", "how it generates")},
    {INERT("target_lookbehind", "how it generates")},
    {.name = NULL},
};

/* Of types of one family, the first is written. */
static const struct sn_hf_type types[] = {
    {"gpt2", SN_GPT2, "GPT2LMHeadModel", false, {gpt2_keys, base_keys}},
    {"gpt_neox", SN_GPT_NEOX, "GPTNeoXForCausalLM", false, {neox_keys, rope_keys, base_keys}},
    {"llama", SN_LLAMA, "LlamaForCausalLM", false, {swiglu_keys, llama_keys, rope_keys, base_keys}},
    {"mistral", SN_LLAMA, "MistralForCausalLM", true, {swiglu_keys, mistral_keys, rope_keys, base_keys}},
    {"mixtral", SN_MIXTRAL, "MixtralForCausalLM", true, {swiglu_keys, mixtral_keys, rope_keys, base_keys}},
    {"qwen2", SN_QWEN2, "Qwen2ForCausalLM", false, {swiglu_keys, qwen2_keys, rope_keys, base_keys}},
};
/* clang-format on */

enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* --- types ----------------------------------------------------------------------------------- */

static bool has_list(const struct sn_hf_type *t, const struct sn_hf_key *list)
{
    for (int l = 0; t->lists[l]; l++)
        if (t->lists[l] == list)
            return true;
    return false;
}

const struct sn_hf_type *sn_hf_type_find(const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const struct sn_hf_type *sn_hf_type_of(const struct sn_model_config *m)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].family == m->family && (types[i].has_window || m->sliding_window == 0))
            return &types[i];
    return NULL;
}

/* The names of the types that have a list, or of all (NULL), with commas and a last `word`. */
static void join_names(char buf[SN_HF_NAMES_SIZE], const struct sn_hf_key *list, const char *word)
{
    const char *name[TYPES];
    int n = 0;
    size_t len = 0;
    for (int t = 0; t < TYPES; t++)
        if (!list || has_list(&types[t], list))
            name[n++] = types[t].name;
    for (int i = 0; i < n && len < SN_HF_NAMES_SIZE; i++)
        len += (size_t)snprintf(buf + len, SN_HF_NAMES_SIZE - len, "%s%s",
                                i == 0       ? ""
                                : i == n - 1 ? word
                                             : ", ",
                                name[i]);
}

const char *sn_hf_type_names(char buf[SN_HF_NAMES_SIZE])
{
    join_names(buf, NULL, " or ");
    return buf;
}

const struct sn_hf_key *sn_hf_list_at(int i, char names[SN_HF_NAMES_SIZE])
{
    for (int t = 0; t < TYPES; t++)
        for (int l = 0; types[t].lists[l]; l++) {
            const struct sn_hf_key *list = types[t].lists[l];
            bool is_later = false; /* of a type before */
            for (int u = 0; u < t; u++)
                is_later = is_later || has_list(&types[u], list);
            if (is_later || i-- > 0)
                continue;
            join_names(names, list, " and ");
            return list;
        }
    return NULL;
}

/* --- keys ------------------------------------------------------------------------------------ */

const struct sn_hf_key *sn_hf_key_at(const struct sn_hf_type *t, int i)
{
    for (int l = 0; t->lists[l]; l++)
        for (const struct sn_hf_key *k = t->lists[l]; k->name; k++)
            if (i-- == 0)
                return k;
    return NULL;
}

static const struct sn_hf_key *find(const struct sn_hf_type *t, const char *name, size_t len)
{
    for (int l = 0; t->lists[l]; l++)
        for (const struct sn_hf_key *k = t->lists[l]; k->name; k++)
            if (strncmp(k->name, name, len) == 0 && !k->name[len])
                return k;
    return NULL;
}

const struct sn_hf_key *sn_hf_key_of(const struct sn_hf_type *t, const struct sn_hf_key *k)
{
    return k->class == SN_HF_ALIAS ? find(t, k->ours, strlen(k->ours)) : k;
}

/* --- words ----------------------------------------------------------------------------------- */

static bool passes(const struct sn_hf_key *k, const char *text)
{
    char *end;
    (void)strtod(text, &end);
    return !k->words[0].theirs || (end != text && !*end);
}

const char *sn_hf_word_ours(const struct sn_hf_key *k, const char *theirs)
{
    for (const struct sn_hf_word *w = k->words; w->theirs; w++)
        if (strcmp(w->theirs, theirs) == 0)
            return w->ours;
    return passes(k, theirs) ? theirs : NULL;
}

const char *sn_hf_word_theirs(const struct sn_hf_key *k, const char *ours)
{
    for (const struct sn_hf_word *w = k->words; w->theirs; w++)
        if (strcmp(w->ours, ours) == 0)
            return w->theirs;
    return passes(k, ours) ? ours : NULL;
}

const char *sn_hf_words(const struct sn_hf_key *k, char buf[SN_HF_NAMES_SIZE])
{
    size_t len = 0;
    buf[0] = '\0';
    for (const struct sn_hf_word *w = k->words; w->theirs && len < SN_HF_NAMES_SIZE; w++)
        len += (size_t)snprintf(buf + len, SN_HF_NAMES_SIZE - len, "%s%s",
                                w == k->words  ? ""
                                : !w[1].theirs ? " or "
                                               : ", ",
                                w->theirs);
    return buf;
}

/* --- keys by name ---------------------------------------------------------------------------- */

const struct sn_hf_key *sn_hf_key_find(const struct sn_hf_type *t, const char *name)
{
    const char *dot = strchr(name, '.');
    const struct sn_hf_key *k = find(t, name, strlen(name));
    const struct sn_hf_key *object = !k && dot ? find(t, name, (size_t)(dot - name)) : NULL;
    if (!object)
        return k;
    char real[96]; /* of an object under another name */
    int n = snprintf(real, sizeof(real), "%s%s", sn_hf_key_of(t, object)->name, dot);
    return n > 0 && (size_t)n < sizeof(real) ? find(t, real, (size_t)n) : NULL;
}
