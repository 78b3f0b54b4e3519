#!/usr/bin/env python3
"""Reference numbers from PEFT itself: LoRA on transformers' Llama and GPT-2, in training.

  make_lora.py              write tests/parity/fixtures/lora-* (needs torch, transformers and peft)
  make_lora.py --check      recompute and compare with the committed numbers; writes nothing

The files are those of make_fixtures.py, but config.json, model.safetensors and adapter/ are as
transformers and PEFT write them, and read as such (train.lora.init_from). All adapters begin at
random, B too, so that every gradient of step 1 tells something.
"""
import argparse
import json
import os
import sys

import peft
import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_fixtures as own  # noqa: E402

VOCAB, SEQ = 61, 24
OURS = {"q_proj": "attn.q", "k_proj": "attn.k", "v_proj": "attn.v", "o_proj": "attn.o", "gate_proj": "ffn.gate",
        "up_proj": "ffn.up", "down_proj": "ffn.down"}
CASES = {  # rank, alpha, which matrices
    "lora-all": dict(r=4, alpha=10, targets=list(OURS), seed=2718),
    "lora-some": dict(r=3, alpha=6, targets=["q_proj", "v_proj", "down_proj"], seed=3141),
}


def run_file(name, c):
    at = f"tests/parity/fixtures/{name}"
    targets = ", ".join(f'"*.{OURS[t]}.weight"' for t in c["targets"])
    return f"""# Written by tests/parity/make_lora.py; the numbers to meet are in expected.json.
run: {{name: parity-{name}, seed: 1, output: build/parity/{name}, backend: cpu}}
model: {{config: {at}/config.json}}
data: {{train: {at}/data, order: sequential}}
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
  init_from: {at}/model.safetensors
  eval_every: 0
  lora: {{rank: {c['r']}, alpha: {c['alpha']}, targets: [{targets}],
         init_from: {at}/adapter}}
layout: {{data: 1, micro_batch: {own.MICRO_BATCH}}}
checkpoint: {{dir: ckpt, every: 0}}
"""


def build(c):
    torch.manual_seed(c["seed"])
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=SEQ,
        rope_parameters={"rope_type": "default", "rope_theta": 3000.0}, rms_norm_eps=1e-4)
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * (0.2 if p.dim() > 1 else 0.1) + (p.dim() == 1))
    return model


def adapt(model, c):
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=c["r"], lora_alpha=c["alpha"], target_modules=c["targets"], lora_dropout=0.0, bias="none",
        task_type="CAUSAL_LM"))
    with torch.no_grad():
        for n, p in model.named_parameters():
            if "lora_" in n:
                p.copy_(torch.randn_like(p) * 0.2)
    return model


def ours(theirs):
    """base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight -> layers.0.attn.q.lora_a"""
    p = theirs.split(".")
    at = p.index("layers")
    return f"layers.{p[at + 1]}.{OURS[p[at + 3]]}.lora_{p[at + 4][-1].lower()}"


def train(model, tokens):
    """Losses and norms of the steps, and the gradients of the first, in float64."""
    model = model.double().train()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert all("lora_" in n for n in trained)
    optimizer = torch.optim.AdamW(trained.values(), lr=0.0, betas=(own.BETA1, own.BETA2), eps=own.EPS,
                                  weight_decay=own.DECAY)
    out = {"loss": [], "grad_norm": []}
    for step in range(1, own.STEPS + 1):
        first = (step - 1) * own.GLOBAL_BATCH
        batch = torch.tensor([tokens[i * SEQ:i * SEQ + SEQ + 1] for i in range(first, first + own.GLOBAL_BATCH)])
        logits = model(input_ids=batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        if step == 1:
            out["grads"] = {ours(n): p.grad.clone() for n, p in trained.items()}
        norm = torch.nn.utils.clip_grad_norm_(list(trained.values()), own.CLIP)
        for g in optimizer.param_groups:
            g["lr"] = own.lr_of_step(step)
        optimizer.step()
        for key, x in (("loss", loss), ("grad_norm", norm)):
            out[key].append(float(f"{x.item():.12g}"))
    return out


def check(name, c, tokens):
    at = os.path.join(own.HERE, name)
    base = transformers.AutoModelForCausalLM.from_pretrained(at, dtype=torch.float32, attn_implementation="eager")
    model = peft.PeftModel.from_pretrained(base, os.path.join(at, "adapter"), is_trainable=True)
    r = train(model, tokens)
    with open(os.path.join(at, "expected.json")) as f:
        old = json.load(f)
    far = max(abs(x - y) / abs(y) for k in ("loss", "grad_norm") for x, y in zip(r[k], old[k]))
    print(f"{name}: {'ok' if far < 1e-6 else 'DIFFERS'} ({far:.1e})")
    return far < 1e-6


def write(name, c, docs, tokens):
    at = os.path.join(own.HERE, name)
    os.makedirs(at, exist_ok=True)
    model = build(c)
    model.save_pretrained(at)
    os.remove(os.path.join(at, "generation_config.json"))
    model = adapt(model, c)
    model.save_pretrained(os.path.join(at, "adapter"))
    os.remove(os.path.join(at, "adapter", "README.md"))
    for f in ("model.safetensors", "adapter/adapter_model.safetensors"):
        os.chmod(os.path.join(at, f), 0o644)
    own.write_dataset(os.path.join(at, "data"), docs)
    r = train(model, tokens)
    own.write_safetensors(os.path.join(at, "grads.safetensors"), r.pop("grads"))
    own.write_json(os.path.join(at, "expected.json"),
                   {"name": name, "torch": torch.__version__, "dtype": "float64", "peft": peft.__version__,
                    "transformers": transformers.__version__, "steps": own.STEPS} | r)
    with open(os.path.join(at, "run.yaml"), "w") as f:
        f.write(run_file(name, c))


def main():
    a = argparse.ArgumentParser(description="write or check the fixtures from PEFT's LoRA")
    a.add_argument("--check", action="store_true", help="compare with the committed numbers")
    a = a.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    good = True
    for name, c in CASES.items():
        docs = own.make_documents(dict(vocab=VOCAB, seq=SEQ, seed=c["seed"]))
        tokens = [t for d in docs for t in d]
        if a.check:
            good = check(name, c, tokens) and good
        else:
            write(name, c, docs, tokens)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
