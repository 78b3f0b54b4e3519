#!/usr/bin/env python3
"""Reference numbers from transformers itself: its Mixtral with its load-balancing loss, in training.

  make_theirs.py            write tests/parity/fixtures/mixtral-theirs (needs torch and transformers)
  make_theirs.py --check    recompute and compare with the committed numbers; writes nothing

The files are those of make_fixtures.py, but config.json and model.safetensors are as transformers
writes them, and run.yaml takes its model from that config.json: what is tested is what the file's
keys mean. One layer, and all sequences of a step in one micro-batch: there transformers' loss,
router_aux_loss_coef times E sum_e f_e P_e over all tokens of all layers at once, is exactly
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

NAME = "mixtral-theirs"
AT = os.path.join(own.HERE, NAME)
SEQ, SEED = 24, 1414
RUN = f"""# Written by tests/parity/make_theirs.py; the numbers to meet are in expected.json.
run: {{name: parity-{NAME}, seed: 1, output: build/parity/{NAME}, backend: cpu}}
model: {{config: tests/parity/fixtures/{NAME}/config.json}}
data: {{train: tests/parity/fixtures/{NAME}/data, order: sequential}}
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
  init_from: tests/parity/fixtures/{NAME}
  eval_every: 0
layout: {{data: 1, micro_batch: {own.GLOBAL_BATCH}}}
checkpoint: {{dir: ckpt, every: 0}}
"""


def build():
    torch.manual_seed(SEED)
    config = transformers.MixtralConfig(
        vocab_size=61, hidden_size=16, intermediate_size=20, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=SEQ,
        rope_parameters={"rope_type": "default", "rope_theta": 3000.0}, rms_norm_eps=1e-4,
        num_local_experts=5, num_experts_per_tok=2, router_aux_loss_coef=0.75,
        output_router_logits=True, sliding_window=SEQ)
    config._attn_implementation = "eager"
    model = transformers.MixtralForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * (0.2 if p.dim() > 1 else 0.1) + (p.dim() == 1))
    return model


def train(model, tokens):
    """Losses, norms and rates of the steps, and the gradients of the first, in float64."""
    model = model.double().train()
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
        aux = transformers.models.mixtral.modeling_mixtral.load_balancing_loss_func(
            got.router_logits, model.config.num_local_experts, model.config.num_experts_per_tok)
        loss = torch.nn.functional.cross_entropy(got.logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        (loss + model.config.router_aux_loss_coef * aux).backward()
        if step == 1:
            out["grads"] = own.unstacked({n: p.grad.clone() for n, p in model.named_parameters()})
        norm = torch.nn.utils.clip_grad_norm_(list(model.parameters()), own.CLIP)
        for g in optimizer.param_groups:
            g["lr"] = own.lr_of_step(step)
        optimizer.step()
        for key, x in (("loss", loss), ("grad_norm", norm), ("aux_loss", aux)):
            out[key].append(float(f"{x.item():.12g}"))
        out["lr"].append(own.lr_of_step(step))
    return out


def main():
    a = argparse.ArgumentParser(description="write or check the fixture from transformers' Mixtral")
    a.add_argument("--check", action="store_true", help="compare with the committed numbers")
    a = a.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    docs = own.make_documents(dict(vocab=61, seq=SEQ, seed=SEED))
    tokens = [t for d in docs for t in d]
    if a.check:
        model = transformers.AutoModelForCausalLM.from_pretrained(AT, dtype=torch.float32,
                                                                  attn_implementation="eager")
        r = train(model, tokens)
        with open(os.path.join(AT, "expected.json")) as f:
            old = json.load(f)
        far = max(abs(x - y) / abs(y) for k in ("loss", "grad_norm") for x, y in zip(r[k], old[k]))
        print(f"{NAME}: {'ok' if far < 1e-6 else 'DIFFERS'} ({far:.1e})")
        return 0 if far < 1e-6 else 1
    model = build()
    os.makedirs(AT, exist_ok=True)
    model.save_pretrained(AT)
    os.remove(os.path.join(AT, "generation_config.json"))
    os.chmod(os.path.join(AT, "model.safetensors"), 0o644)
    own.write_dataset(os.path.join(AT, "data"), docs)
    r = train(model, tokens)
    own.write_safetensors(os.path.join(AT, "grads.safetensors"), r.pop("grads"))
    own.write_json(os.path.join(AT, "expected.json"),
                   {"name": NAME, "torch": torch.__version__, "dtype": "float64",
                    "transformers": transformers.__version__, "steps": own.STEPS} | r)
    with open(os.path.join(AT, "run.yaml"), "w") as f:
        f.write(RUN)
    return 0


if __name__ == "__main__":
    sys.exit(main())
