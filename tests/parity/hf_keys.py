#!/usr/bin/env python3
"""The keys of the config classes whose files sennit reads, from transformers itself.

  hf_keys.py            add what the transformers here has to tests/parity/fixtures/hfconfig/keys.json
  hf_keys.py --check    compare it with what is there of the same version, or else name each key of
                        this version that no version there has; writes nothing

Run it once with each version: the file holds several. For each version and class (gpt2, gpt_neox,
llama ...): `defaults` of the class's own and inherited fields (of constructors, in
transformers 4), `aliases` (attribute_map) and `other` names that its constructor takes apart. For
each version `generation`, the parameters that a config may hold for generating, and `rope`, the
keys of rope_parameters. `published` are keys of files that people have published, names alone.
"""
import argparse
import dataclasses
import inspect
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "fixtures", "hfconfig", "keys.json")
CLASSES = {"gpt2": "GPT2Config", "gpt_neox": "GPTNeoXConfig", "llama": "LlamaConfig",
           "mistral": "MistralConfig", "mixtral": "MixtralConfig", "qwen2": "Qwen2Config",
           "smollm3": "SmolLM3Config", "granite": "GraniteConfig", "qwen3": "Qwen3Config",
           "qwen3_moe": "Qwen3MoeConfig", "qwen2_moe": "Qwen2MoeConfig", "dots1": "Dots1Config",
           "deepseek_v2": "DeepseekV2Config", "deepseek_v3": "DeepseekV3Config", "phi3": "Phi3Config", "olmo2": "Olmo2Config", "starcoder2": "Starcoder2Config",
           "gemma2": "Gemma2Config", "gemma3_text": "Gemma3TextConfig"}

COMMON = """_name_or_path architectures bos_token_id eos_token_id hidden_act hidden_size
    initializer_range intermediate_size max_position_embeddings model_type num_attention_heads
    num_hidden_layers tie_word_embeddings torch_dtype transformers_version use_cache vocab_size"""
PUBLISHED = {
    "gpt2": """activation_function architectures attn_pdrop bos_token_id embd_pdrop eos_token_id
        id2label initializer_range label2id layer_norm_epsilon model_type n_ctx n_embd n_head n_layer
        n_positions n_special output_past _num_labels predict_special_tokens resid_pdrop
        summary_activation summary_first_dropout summary_proj_to_labels summary_type
        summary_use_proj task_specific_params gradient_checkpointing n_inner
        scale_attn_weights transformers_version use_cache vocab_size""",
    "gpt_neox": COMMON + """ attention_bias attention_dropout classifier_dropout hidden_dropout
        layer_norm_eps rope_scaling rotary_emb_base rotary_pct use_parallel_residual
        attention_probs_dropout_prob hidden_dropout_prob custom_pipelines""",
    "llama": COMMON + """ attention_bias attention_dropout head_dim mlp_bias num_key_value_heads
        pad_token_id pretraining_tp rms_norm_eps rope_scaling rope_theta max_sequence_length
        max_length is_llama_config rope_interleaved transformers.js_config unsloth_version
        unsloth_fixed quantization_config auto_map _attn_implementation_autoset
        _flash_attn_2_enabled""",
    "mistral": COMMON + """ attention_dropout head_dim num_key_value_heads rms_norm_eps rope_theta
        sliding_window pad_token_id unsloth_version""",
    "mixtral": COMMON + """ attention_dropout num_experts_per_tok num_key_value_heads
        num_local_experts output_router_logits rms_norm_eps rope_theta router_aux_loss_coef
        router_jitter_noise sliding_window""",
    "qwen2": COMMON + """ attention_dropout max_window_layers num_key_value_heads rms_norm_eps rope_theta
        rope_scaling sliding_window use_sliding_window use_mrope""",
    "smollm3": COMMON + """ attention_bias attention_dropout layer_types max_window_layers mlp_bias
        no_rope_layer_interval no_rope_layers num_key_value_heads pad_token_id pretraining_tp rms_norm_eps
        rope_scaling rope_theta sliding_window use_sliding_window""",
    "granite": COMMON + """ attention_bias attention_dropout attention_multiplier embedding_multiplier
        logits_scaling mlp_bias num_key_value_heads pad_token_id residual_multiplier rms_norm_eps rope_scaling
        rope_theta""",
    "qwen3": COMMON + """ attention_bias attention_dropout head_dim max_window_layers num_key_value_heads
        rms_norm_eps rope_scaling rope_theta sliding_window use_sliding_window""",
    "qwen3_moe": COMMON + """ attention_bias attention_dropout decoder_sparse_step head_dim max_window_layers
        mlp_only_layers moe_intermediate_size norm_topk_prob num_experts num_experts_per_tok
        num_key_value_heads output_router_logits qkv_bias rms_norm_eps rope_scaling rope_theta router_aux_loss_coef
        shared_expert_intermediate_size sliding_window use_qk_norm use_sliding_window""",
    "qwen2_moe": COMMON + """ attention_dropout decoder_sparse_step max_window_layers mlp_only_layers
        moe_intermediate_size norm_topk_prob num_experts num_experts_per_tok num_key_value_heads
        output_router_logits qkv_bias rms_norm_eps rope_theta router_aux_loss_coef
        shared_expert_intermediate_size sliding_window use_sliding_window""",
    "dots1": COMMON + """ attention_bias attention_dropout first_k_dense_replace head_dim max_window_layers
        moe_intermediate_size n_group n_routed_experts n_shared_experts norm_topk_prob num_experts_per_tok
        num_key_value_heads rms_norm_eps rope_scaling rope_theta routed_scaling_factor sliding_window topk_group""",
    "deepseek_v2": COMMON + """ attention_bias attention_dropout auto_map aux_loss_alpha ep_size first_k_dense_replace
        kv_lora_rank moe_intermediate_size moe_layer_freq n_group n_routed_experts n_shared_experts norm_topk_prob
        num_experts_per_tok num_key_value_heads pretraining_tp q_lora_rank qk_head_dim qk_nope_head_dim qk_rope_head_dim
        rms_norm_eps rope_scaling rope_theta routed_scaling_factor scoring_func seq_aux topk_group topk_method
        v_head_dim""",
    "deepseek_v3": COMMON + """ attention_bias attention_dropout auto_map aux_loss_alpha ep_size first_k_dense_replace
        kv_lora_rank moe_intermediate_size moe_layer_freq n_group n_routed_experts n_shared_experts norm_topk_prob
        num_experts_per_tok num_key_value_heads num_nextn_predict_layers pretraining_tp q_lora_rank qk_head_dim
        qk_nope_head_dim qk_rope_head_dim quantization_config rms_norm_eps rope_interleave rope_scaling rope_theta
        routed_scaling_factor scoring_func seq_aux topk_group topk_method v_head_dim""",
    "olmo2": COMMON + """ attention_bias attention_dropout num_key_value_heads pad_token_id rms_norm_eps
        rope_scaling rope_theta""",
    "phi3": COMMON + """ attention_bias attention_dropout embd_pdrop layer_types num_key_value_heads
        original_max_position_embeddings pad_token_id partial_rotary_factor resid_pdrop rms_norm_eps rope_scaling
        rope_theta sliding_window auto_map full_attn_mod interpolate_factor lm_head_bias mlp_bias""",
    "gemma2": COMMON + """ attention_bias attention_dropout attn_logit_softcapping cache_implementation
        final_logit_softcapping head_dim hidden_activation num_key_value_heads pad_token_id query_pre_attn_scalar
        rms_norm_eps rope_theta sliding_window""",
    "gemma3_text": COMMON + """ _sliding_window_pattern attention_bias attention_dropout attn_logit_softcapping
        cache_implementation final_logit_softcapping head_dim hidden_activation layer_types num_key_value_heads
        pad_token_id query_pre_attn_scalar rms_norm_eps rope_local_base_freq rope_scaling rope_theta sliding_window
        sliding_window_pattern use_bidirectional_attention""",
    "starcoder2": COMMON + """ attention_dropout activation_function embedding_dropout mlp_type norm_epsilon
        norm_type num_key_value_heads residual_dropout rope_theta sliding_window use_bias layer_norm_epsilon
        attention_softmax_in_fp32 scale_attention_softmax_in_fp32 scale_attn_weights""",
}
# Keys of rotary embeddings that versions take from files without saying so in a type.
OLD_ROPE = ["type", "mscale", "mscale_all_dim", "truncate"]


def plain(value):
    return value if isinstance(value, (bool, int, float, str, list, dict)) else None


def fields_of(kind):
    """Defaults by name: of a dataclass, or of the constructors of a class and its bases."""
    if dataclasses.is_dataclass(kind):
        return {f.name: plain(f.default) for f in dataclasses.fields(kind)}
    out = {}
    for base in reversed(kind.__mro__[:-1]):
        if "__init__" not in vars(base):
            continue
        for name, p in inspect.signature(base.__init__).parameters.items():
            if name != "self" and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                out[name] = plain(p.default)
    return out


def taken_apart(kind):
    """Names that constructors take out of what they are given beside their own."""
    found = set()
    for base in kind.__mro__[:-1]:
        for name in ("__init__", "__post_init__", "convert_rope_params_to_dict"):
            try:
                text = inspect.getsource(vars(base)[name]) if name in vars(base) else ""
            except OSError:
                continue  # made by dataclass
            found |= set(re.findall(r'kwargs\.(?:pop|get)\(\s*"(\w+)"', text))
    return found


def describe(transformers):
    kinds = {name: getattr(transformers, kind) for name, kind in CLASSES.items()}
    one = kinds["llama"]()
    generation = (transformers.GenerationConfig._get_default_generation_params()
                  if hasattr(transformers.GenerationConfig, "_get_default_generation_params")
                  else one._get_global_generation_defaults())
    from transformers import modeling_rope_utils as rope
    out = {"generation": sorted(generation),
           "rope": sorted(set(getattr(getattr(rope, "RopeParameters", None), "__annotations__", {}))
                          | set(OLD_ROPE))}
    for name, kind in kinds.items():
        written = set(kind().to_dict())
        fields = fields_of(kind)
        other = (taken_apart(kind) | written) - set(fields) - {"kwargs"}
        out[name] = {"defaults": fields, "aliases": dict(kind.attribute_map),
                     "other": sorted(other - set(generation))}
    return out


def names_of(version):
    """All that a version knows, "class key"."""
    out = set()
    for name in CLASSES:
        c = version[name]
        keys = set(c["defaults"]) | set(c["aliases"]) | set(c["other"]) | set(version["generation"])
        out |= {f"{name} {k}" for k in keys}
    return out | {f"rope {k}" for k in version["rope"]}


def main():
    a = argparse.ArgumentParser(description="the keys of config classes, from transformers itself")
    a.add_argument("--check", action="store_true", help="compare; write nothing")
    a = a.parse_args()
    import transformers
    here, version = describe(transformers), transformers.__version__
    known = json.load(open(FILE)) if os.path.exists(FILE) else {"versions": {}}
    if a.check:
        there = known["versions"].get(version)
        new = names_of(here) - set().union(*map(names_of, known["versions"].values()))
        same = there is None or there == json.loads(json.dumps(here))
        if new or not same:
            print(f"transformers {version}: others than committed: {sorted(new)[:20] or 'defaults'}")
            return 1
        print(f"transformers {version}: {'as committed' if there else 'all names are known'}")
        return 0
    known["versions"][version] = here
    known["published"] = {k: sorted(v.split()) for k, v in PUBLISHED.items()}
    os.makedirs(os.path.dirname(FILE), exist_ok=True)
    with open(FILE, "w") as f:
        json.dump(known, f, indent=1, sort_keys=True)
        f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
