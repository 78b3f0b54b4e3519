#!/usr/bin/env python3
"""Reference numbers from transformers itself: small models of its own classes, in training.

  make_theirs.py            write tests/parity/fixtures/NAME of all below (needs torch and transformers)
  make_theirs.py --check    recompute and compare with the committed numbers; writes nothing

The files are those of make_fixtures.py, but config.json and model.safetensors are as transformers
writes them, and run.yaml takes its model from that config.json: what is tested is what the file's
keys mean. Routers' losses: one layer, and all sequences of a step in one micro-batch: there transformers'
loss, router_aux_loss_coef times E sum_e f_e P_e over all tokens of all layers at once, is exactly
experts.aux_loss times ours, with experts.aux_loss = router_aux_loss_coef x top_k / layers.
"""
import argparse
import json
import os
import sys

import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_fixtures as own  # noqa: E402

SEQ = 24
SHAPE = dict(vocab_size=61, hidden_size=16, intermediate_size=20, num_attention_heads=2, num_key_value_heads=1,
             max_position_embeddings=SEQ, bos_token_id=None, eos_token_id=None, pad_token_id=None)
PLAIN = dict(rope_type="default", rope_theta=3000.0)
CASES = {
    "mixtral-theirs": ("Mixtral", 1414, dict(
        vocab_size=61, hidden_size=16, intermediate_size=20, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=SEQ, rope_parameters=PLAIN, rms_norm_eps=1e-4,
        num_local_experts=5, num_experts_per_tok=2, router_aux_loss_coef=0.75, output_router_logits=True,
        sliding_window=SEQ)),
    "llama3-theirs": ("Llama", 1501, SHAPE | dict(
        num_hidden_layers=2, head_dim=12, rope_parameters=dict(
            rope_type="llama3", rope_theta=100.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=16))),
    "longrope-theirs": ("Llama", 1502, SHAPE | dict(
        num_hidden_layers=2, rope_parameters=dict(
            rope_type="longrope", rope_theta=100.0, original_max_position_embeddings=16,
            short_factor=[1.0, 1.5, 2.0, 2.5], long_factor=[1.5, 2.0, 4.0, 6.0]))),
    "smollm3-theirs": ("SmolLM3", 1503, SHAPE | dict(
        num_hidden_layers=3, no_rope_layer_interval=2, rope_parameters=dict(
            rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16))),
    "granite-theirs": ("Granite", 1504, SHAPE | dict(
        num_hidden_layers=2, rope_parameters=PLAIN, embedding_multiplier=12.0, attention_multiplier=0.25,
        residual_multiplier=0.22, logits_scaling=4.0)),
    "qwen3-theirs": ("Qwen3", 1505, SHAPE | dict(num_hidden_layers=2, head_dim=12, rope_parameters=PLAIN)),
    "qwen3-moe-theirs": ("Qwen3Moe", 1506, SHAPE | dict(
        num_hidden_layers=1, head_dim=12, rope_parameters=PLAIN, moe_intermediate_size=12, num_experts=5,
        num_experts_per_tok=2, norm_topk_prob=False, router_aux_loss_coef=0.25, output_router_logits=True)),
    "qwen2-moe-theirs": ("Qwen2Moe", 1513, SHAPE | dict(
        num_hidden_layers=2, rope_parameters=PLAIN, moe_intermediate_size=12, num_experts=5, num_experts_per_tok=2,
        shared_expert_intermediate_size=20, mlp_only_layers=[0], router_aux_loss_coef=0.25, output_router_logits=True)),
    "olmo2-theirs": ("Olmo2", 1510, SHAPE | dict(num_hidden_layers=2, rope_parameters=PLAIN)),
    "gemma2-theirs": ("Gemma2", 1511, SHAPE | dict(
        num_hidden_layers=2, head_dim=12, rope_parameters=PLAIN, sliding_window=6, query_pre_attn_scalar=7,
        attn_logit_softcapping=3.0, final_logit_softcapping=2.0)),
    "gemma3-theirs": ("Gemma3", 1512, SHAPE | dict(
        num_hidden_layers=2, head_dim=12, sliding_window=6, sliding_window_pattern=2, query_pre_attn_scalar=16,
        rope_parameters=dict(full_attention=dict(rope_type="linear", rope_theta=3000.0, factor=2.0),
                             sliding_attention=dict(rope_type="default", rope_theta=100.0)))),
    "mistral-theirs": ("Mistral", 1508, SHAPE | dict(num_hidden_layers=2, rope_parameters=PLAIN, sliding_window=6)),
    "phi3-theirs": ("Phi3", 1509, SHAPE | dict(
        num_hidden_layers=2, original_max_position_embeddings=16, rope_parameters=dict(
            rope_type="longrope", rope_theta=100.0, partial_rotary_factor=0.5, short_factor=[1.0, 1.5],
            long_factor=[1.5, 4.0]))),
    "starcoder2-theirs": ("Starcoder2", 1507, SHAPE | dict(
        num_hidden_layers=2, rope_parameters=dict(rope_type="dynamic", rope_theta=3000.0, factor=2.0))),
}
def run_file(name):
    return f"""# Written by tests/parity/make_theirs.py; the numbers to meet are in expected.json.
run: {{name: parity-{name}, seed: 1, output: build/parity/{name}, backend: cpu}}
model: {{config: tests/parity/fixtures/{name}/config.json}}
data: {{train: tests/parity/fixtures/{name}/data, order: sequential}}
train:
  steps: {own.STEPS}
  global_batch: {own.GLOBAL_BATCH}
  precision: fp32
  optimizer:
    kind: adamw
    lr: {own.LR:.1e}
    beta1: {own.BETA1}
    beta2: {own.BETA2}
    eps: {own.EPS:.1e}
    weight_decay: {own.DECAY}
    clip: {own.CLIP}
  schedule: {{kind: cosine, warmup: {own.WARMUP}, min_lr: {own.MIN_LR:.1e}}}
  init_from: tests/parity/fixtures/{name}
  eval_every: 0
layout: {{data: 1, micro_batch: {own.GLOBAL_BATCH}}}
checkpoint: {{dir: ckpt, every: 0}}
"""


def build(name):
    kind, seed, more = CASES[name]
    torch.manual_seed(seed)
    config = getattr(transformers, {"Gemma3": "Gemma3Text"}.get(kind, kind) + "Config")(**more)
    config._attn_implementation = "eager"
    model = getattr(transformers, kind + "ForCausalLM")(config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * (0.2 if p.dim() > 1 else 0.1) + (p.dim() == 1))
    return model


def train(model, tokens):
    """Losses, norms and rates of the steps, and the gradients of the first, in float64."""
    model = model.double().train()
    routes = getattr(model.config, "output_router_logits", False)
    if routes:
        model.set_experts_implementation("eager")  # its grouped product takes no float64
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": own.DECAY},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(own.BETA1, own.BETA2), eps=own.EPS)
    out = {"loss": [], "grad_norm": [], "lr": [], "aux_loss": []}
    for step in range(1, own.STEPS + 1):
        first = (step - 1) * own.GLOBAL_BATCH
        rows = [tokens[i * SEQ:i * SEQ + SEQ + 1] for i in range(first, first + own.GLOBAL_BATCH)]
        batch = torch.tensor(rows)
        got = model(input_ids=batch[:, :-1])
        aux = torch.zeros(1, dtype=torch.float64) if not routes else (
            transformers.models.mixtral.modeling_mixtral.load_balancing_loss_func(
                got.router_logits, getattr(model.config, "num_local_experts", None) or model.config.num_experts, model.config.num_experts_per_tok))
        loss = torch.nn.functional.cross_entropy(got.logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        (loss + (model.config.router_aux_loss_coef if routes else 0) * aux).backward()
        if step == 1:
            grads = {n: p.grad.clone() for n, p in model.named_parameters()}
            out["grads"] = own.unstacked(grads) if "Mixtral" in type(model).__name__ else grads
        norm = torch.nn.utils.clip_grad_norm_(list(model.parameters()), own.CLIP)
        for g in optimizer.param_groups:
            g["lr"] = own.lr_of_step(step)
        optimizer.step()
        for key, x in (("loss", loss), ("grad_norm", norm), ("aux_loss", aux)):
            out[key].append(float(f"{x.item():.12g}"))
        out["lr"].append(own.lr_of_step(step))
    return out


def check(name, tokens):
    at = os.path.join(own.HERE, name)
    model = transformers.AutoModelForCausalLM.from_pretrained(at, dtype=torch.float32,
                                                              attn_implementation="eager")
    r = train(model, tokens)
    with open(os.path.join(at, "expected.json")) as f:
        old = json.load(f)
    far = max(abs(x - y) / abs(y) for k in ("loss", "grad_norm") for x, y in zip(r[k], old[k]))
    print(f"{name}: {'ok' if far < 1e-6 else 'DIFFERS'} ({far:.1e})")
    return far < 1e-6


def write(name, docs, tokens):
    at = os.path.join(own.HERE, name)
    model = build(name)
    os.makedirs(at, exist_ok=True)
    model.save_pretrained(at)
    for more in ("generation_config.json",):
        if os.path.exists(os.path.join(at, more)):
            os.remove(os.path.join(at, more))
    os.chmod(os.path.join(at, "model.safetensors"), 0o644)
    own.write_dataset(os.path.join(at, "data"), docs)
    r = train(model, tokens)
    own.write_safetensors(os.path.join(at, "grads.safetensors"), r.pop("grads"))
    own.write_json(os.path.join(at, "expected.json"),
                   {"name": name, "torch": torch.__version__, "dtype": "float64",
                    "transformers": transformers.__version__, "steps": own.STEPS} | r)
    with open(os.path.join(at, "run.yaml"), "w") as f:
        f.write(run_file(name))


def main():
    a = argparse.ArgumentParser(description="write or check the fixtures from transformers' models")
    a.add_argument("--check", action="store_true", help="compare with the committed numbers")
    a.add_argument("names", nargs="*", help="cases (default: all of %s)" % ", ".join(CASES))
    a = a.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    good = True
    for name in a.names or CASES:
        docs = own.make_documents(dict(vocab=61, seq=SEQ, seed=CASES[name][1]))
        tokens = [t for d in docs for t in d]
        if a.check:
            good &= check(name, tokens)
        else:
            write(name, docs, tokens)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
