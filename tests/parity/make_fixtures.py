#!/usr/bin/env python3
"""Reference numbers from an independent implementation: plain PyTorch in float64.

For each tiny model below this writes tests/parity/fixtures/NAME/:
  run.yaml            the run file for sennit-train (paths relative to the repository's root)
  model.safetensors   the weights, float32, with the field's (HF) names and layouts
  data.bin, data.idx  tokens in Megatron's indexed format, several documents
  data.mask           llama-prefix alone: which tokens count (lib/data/mask.h)
  data.npy            llama-prompt alone: features of each document, which is one sample
  own.safetensors     where there are any, weights for which the field has no name: sennit's names
  after.safetensors   of some, the trained weights after 3 steps
  names5.safetensors  mixtral alone: the same weights with the names of transformers 5
  logits.json         mixtral alone: some tokens, and the logits that follow each of them
  grads.safetensors   gradient of step 1's mean loss by every trained tensor, float32, HF layouts
  expected.json       losses, gradient norms (before clipping) and learning rates of 20 AdamW steps

Everything is computed in float64 from the float32 weights; only grads.safetensors is rounded.
Weights and tokens come from Python's own generator, so they do not depend on PyTorch's version.

  make_fixtures.py                        write all (needs torch; see tests/bench/torch_best.sh)
  make_fixtures.py --check                recompute and compare with the committed files; writes nothing
  make_fixtures.py --check-transformers   also compare loss, norm and gradients of step 1 with the
                                          `transformers` package's GPT2, GPTNeoX, Llama and Qwen2

The forward passes are written out on purpose, from the papers' formulas, on a plain dictionary of
tensors: they share no code with sennit or with transformers. The script must not import sennit.

Conventions under test (kernels/ops.h, docs/DATA.md):
  sample i = tokens[i S .. i S + S]; step s (from 1) uses samples (s-1) B .. (s-1) B + B - 1
  loss     = mean over the global batch's tokens of the cross-entropy
  lr(s)    = lr s / warmup                                                      s <= warmup
           = min + (lr - min)/2 (1 + cos(pi (s - warmup) / (steps - warmup)))   afterwards
  clipping = g min(1, clip / (norm + 1e-6)), torch's clip_grad_norm_
  mup      = width over a base's is r: matrices of layers learn by lr / r, logits are divided by r, scores
           are times sqrt(a base's head) / head (Yang et al., arXiv 2203.03466, table 8)
  sparse   = what is 0 at first has no gradient, in the norm for clipping, too
  decay    = decoupled, on 2-D tensors only (embeddings and head included)
  mtp      blocks that predict tokens further on: train.mtp_loss times their mean loss, over all of a sample's
           positions, is added to what is learnt, and no part of the reported loss
  routers  of a layer with E experts, over the tokens of one micro-batch (docs/EXPERTS.md):
           aux = E sum_e f_e P_e, f_e the part of all choices that are e, P_e the mean of softmax_e
           z   = mean (log sum_e exp(logit_e))^2
           both summed over layers, averaged over micro-batches, not part of the reported loss
           balance: sequence: f and P of each sequence apart (DeepSeek-V3, equations 17 to 20), the k largest
           of softmax_e, or sigmoid_e, whatever the bias; P of sigmoids over their sum
  capacity = ceil(factor S k / E) tokens of a sequence for an expert, first choices before second
           ones, in the order of tokens; the others contribute nothing
  bias     of a router: the k largest of softmax (router: sigmoid: sigmoids) + bias are chosen, the weights are those without it;
           after a step bias_e += rate sign(mean count - count_e), counts over the global batch
  jitter   of a router's input: each feature times 1 - jitter + 2 jitter u, u of Philox4x32-10 by
           (seed, step, layer, sample, element): kernels/dropout.h
  router   sparsemixer: GRIN's Algorithm 1, drawn by Philox4x32-10: kernels/mixer.h
           dense: every expert on every token, times the softmax of all logits; aux_loss weighs minus
           the mutual information H(mean p) - mean H(p) of tokens and experts
  prompt   positions 0 .. soft - 1 of what enters a layer of `layers` are columns of its own [hidden, soft], the `rows`
           behind them features of the sample times one projection [hidden, size]; each layer has its rows of an
           entry. No target is the token of such a position, of this sample or of the next
  shared   experts: one feed-forward part of `shared` times the width for every token, without weight
"""
import argparse
import fnmatch
import json
import math
import os
import random
import struct
import sys

import torch

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
STEPS, WARMUP, LR, MIN_LR, CLIP, DECAY = 20, 4, 3e-3, 3e-4, 1.0, 0.1
BETA1, BETA2, EPS = 0.9, 0.95, 1e-8
GLOBAL_BATCH, MICRO_BATCH, RUN_SEED = 4, 2, 1

BASE = dict(share_layers=1, freeze=[], rope_theta=10000.0, norm_eps=1e-5, rotary_pct=1.0)
CASES = {
    # tied, learned positions, LayerNorm, tanh GELU, biases, Conv1D weights [in, out]
    "gpt2": dict(BASE, family="gpt2", layers=3, hidden=32, heads=4, kv_heads=4, ffn=128, vocab=97,
                 seq=24, tied=True, seed=101),
    # another activation than the family's own
    "gpt2-erf": dict(BASE, family="gpt2", activation="gelu", layers=2, hidden=24, heads=3, kv_heads=3,
                     ffn=40, vocab=61, seq=20, tied=True, seed=111),
    # parallel residual, rotary on a quarter of the head (4 of 16), erf GELU, biases
    "gpt-neox": dict(BASE, family="gpt-neox", layers=2, hidden=64, heads=4, kv_heads=4, ffn=96,
                     vocab=113, seq=33, tied=False, rotary_pct=0.25, seed=202),
    # RMSNorm, full rotary, SwiGLU, two query heads per key/value head
    "llama": dict(BASE, family="llama", layers=2, hidden=32, heads=4, kv_heads=2, ffn=72, vocab=101,
                  seq=40, tied=False, seed=303),
    "llama-tied": dict(BASE, family="llama", layers=3, hidden=32, heads=4, kv_heads=2, ffn=56,
                       vocab=127, seq=27, tied=True, rope_theta=500000.0, norm_eps=1e-6, seed=404),
    # layers 0, 1 use the weights of layer 0 and layers 2, 3 those of layer 2
    "llama-share": dict(BASE, family="llama", layers=4, hidden=32, heads=4, kv_heads=2, ffn=48,
                        vocab=101, seq=30, tied=False, share_layers=2, seed=505),
    "llama-freeze": dict(BASE, family="llama", layers=2, hidden=32, heads=4, kv_heads=2, ffn=48,
                         vocab=101, seq=30, tied=False, freeze=["embed.*"], seed=606),
    # a window in all layers but every third, and capped scores
    "llama-window": dict(BASE, family="llama", layers=3, hidden=32, heads=4, kv_heads=2, ffn=48,
                         vocab=101, seq=40, tied=False, window=9, global_every=3, score_cap=1.5,
                         seed=1515),
    # the same windows over documents apart, whose prompts are seen in both directions
    "llama-prefix": dict(BASE, family="llama", layers=2, hidden=24, heads=4, kv_heads=2, ffn=32, vocab=61,
                         seq=36, tied=True, window=9, global_every=2, score_cap=1.5, seed=1919,
                         lengths=(8, 50), prompts=(2, 20)),
    # batches of 2, then of 4, and a rate that stays and falls in the last steps
    "llama-ramp": dict(BASE, family="llama", layers=2, hidden=24, heads=4, kv_heads=2, ffn=32, vocab=61,
                       seq=20, tied=True, seed=1616, micro_batch=1,
                       train=dict(ramp="{batches: [2], until: [6]}",
                                  schedule="{kind: wsd-cosine, warmup: 4, min_lr: 3.0e-04, decay: 8}")),
    # a multiple of the logits' squared log-sum-exp beside the loss
    "llama-z": dict(BASE, family="llama", layers=2, hidden=24, heads=4, kv_heads=2, ffn=32, vocab=61, seq=20,
                    tied=False, seed=1717, train=dict(z_loss=0.03)),
    # two blocks behind the layers that predict a token further on each, by weights without names in the field's llama
    "llama-mtp": dict(BASE, family="llama", layers=1, hidden=24, heads=4, kv_heads=2, ffn=32, vocab=61, seq=20,
                      tied=False, mtp=2, seed=1919, train=dict(mtp_loss=0.3)),
    # rates and decays by groups of parameters: GROUPS has the same for the field's names
    "llama-groups": dict(BASE, family="llama", layers=2, hidden=24, heads=4, kv_heads=2, ffn=32, vocab=61,
                         seq=20, tied=False, seed=1818,
                         train=dict(groups='{names: ["embed.*", "layers.1.ffn.*", "*norm*"], '
                                           'lr: [0.2, 2.5, 1.0], weight_decay: [0.0, 0.3, 0.05]}')),
    # soft tokens and features in front of two layers; they and their projection alone are trained
    "llama-prompt": dict(BASE, family="llama", layers=3, hidden=24, heads=4, kv_heads=2, ffn=32, vocab=61, seq=20,
                         tied=False, seed=1919, prompt=dict(soft=2, rows=2, size=5, levels=True, layers=[0, 2])),
    # llama with biases of q, k and v
    "qwen2": dict(BASE, family="qwen2", layers=2, hidden=32, heads=4, kv_heads=2, ffn=48, vocab=89,
                  seq=28, tied=True, rope_theta=1000000.0, norm_eps=1e-6, seed=1414),
    # llama with four experts of two for each token, and with six that overflow
    "mixtral": dict(BASE, family="mixtral", layers=2, hidden=32, heads=4, kv_heads=2, ffn=40,
                    vocab=101, seq=30, tied=False, seed=707,
                    experts=dict(count=4, top_k=2, capacity_factor=0.0, aux_loss=0.05,
                                 z_loss=0.01)),
    "mixtral-capacity": dict(BASE, family="mixtral", layers=2, hidden=32, heads=4, kv_heads=4,
                             ffn=24, vocab=101, seq=26, tied=True, seed=808,
                             experts=dict(count=6, top_k=3, capacity_factor=1.0, aux_loss=0.02,
                                          z_loss=0.0)),
    # two shared experts; and routers that a bias balances, whose first values are not 0
    "mixtral-shared": dict(BASE, family="mixtral", layers=2, hidden=32, heads=4, kv_heads=2, ffn=20,
                           vocab=101, seq=28, tied=False, seed=909,
                           experts=dict(count=4, top_k=2, shared=2, capacity_factor=0.0,
                                        aux_loss=0.05, z_loss=0.0)),
    "mixtral-bias": dict(BASE, family="mixtral", layers=2, hidden=32, heads=4, kv_heads=2, ffn=24,
                         vocab=101, seq=30, tied=False, seed=1010,
                         experts={"count": 5, "top_k": 2, "capacity_factor": 0.0, "aux_loss": 0.0,
                                  "z_loss": 0.01, "bias": "loss-free", "bias_rate": 0.02}),
    "mixtral-jitter": dict(BASE, family="mixtral", layers=2, hidden=32, heads=4, kv_heads=2, ffn=24,
                           vocab=101, seq=21, tied=False, seed=1111,
                           experts=dict(count=4, top_k=2, capacity_factor=0.0, aux_loss=0.02,
                                        z_loss=0.0, jitter=0.2)),
    "mixtral-mixer": dict(BASE, family="mixtral", layers=2, hidden=32, heads=4, kv_heads=2, ffn=24,
                          vocab=101, seq=20, tied=False, seed=1212,
                          experts=dict(count=5, top_k=2, capacity_factor=0.0, aux_loss=0.02,
                                       z_loss=0.01, router="sparsemixer", mixer_range=0.6)),
    "mixtral-dense": dict(BASE, family="mixtral", layers=2, hidden=32, heads=4, kv_heads=2, ffn=16,
                          vocab=101, seq=24, tied=False, seed=1313,
                          experts=dict(count=5, top_k=2, capacity_factor=0.0, aux_loss=0.1,
                                       z_loss=0.01, router="dense")),
}
SMALL = dict(BASE, family="llama", layers=2, hidden=24, heads=4, kv_heads=2, ffn=32, vocab=61, seq=20)
SPARSE = '"layers.*.ffn.*.weight", "layers.*.attn.?.weight"'
CASES |= {
    # windows over documents apart and capped scores, all causal
    "llama-documents": dict(SMALL, seq=36, tied=True, window=9, global_every=2, score_cap=1.5, seed=2020,
                            lengths=(8, 50)),
    # rates of a model of a third of the width, with heads of 2
    "llama-mup": dict(SMALL, tied=False, seed=2121, after=3, base_width=8, base_head_dim=2,
                      train=dict(mup="{base_width: 8, base_head_dim: 2}")),
    # a quarter of each row of a layer's matrices, and two of each four neighbours
    "llama-sparse": dict(SMALL, tied=False, seed=2222, after=3, kept=(1, 4),
                         train=dict(sparse=f"{{targets: [{SPARSE}], density: 0.25}}")),
    "llama-sparse-2-4": dict(SMALL, tied=True, seed=2323, after=3, kept=(2, 4),
                             train=dict(sparse=f'{{targets: [{SPARSE}], kind: "2:4"}}')),
}
# Routers of sigmoids with a bias, balanced in each sequence.
CASES["mixtral-sequence"] = dict(
    BASE, family="mixtral", layers=2, hidden=16, heads=2, kv_heads=1, ffn=12, vocab=61, seq=22, tied=True, seed=1919,
    experts={"count": 6, "top_k": 2, "capacity_factor": 0.0, "aux_loss": 0.2, "z_loss": 0.0, "router": "sigmoid",
             "balance": "sequence", "bias": "loss-free", "bias_rate": 0.02})
GROUPS = (("model.embed_tokens.*", 0.2, 0.0), ("model.layers.1.mlp.*", 2.5, 0.3), ("*norm*", 1.0, 0.05))
# The tensors that a pattern over sennit's names means here.
FROZEN = {"embed.*": "model.embed_tokens.*"}


# ---- weights: name -> shape, HF layouts ---------------------------------------------------------

def shapes(c):
    d, f, v, q = c["hidden"], c["ffn"], c["vocab"], c["hidden"]
    kv = c["kv_heads"] * (d // c["heads"])
    own = range(0, c["layers"], c["share_layers"])
    s = {}
    if c["family"] == "gpt2":
        s["transformer.wte.weight"] = (v, d)
        s["transformer.wpe.weight"] = (c["seq"], d)
        for i in own:
            p = f"transformer.h.{i}."
            s |= {p + "ln_1.weight": (d,), p + "ln_1.bias": (d,),
                  p + "attn.c_attn.weight": (d, 3 * d), p + "attn.c_attn.bias": (3 * d,),
                  p + "attn.c_proj.weight": (d, d), p + "attn.c_proj.bias": (d,),
                  p + "ln_2.weight": (d,), p + "ln_2.bias": (d,),
                  p + "mlp.c_fc.weight": (d, f), p + "mlp.c_fc.bias": (f,),
                  p + "mlp.c_proj.weight": (f, d), p + "mlp.c_proj.bias": (d,)}
        s |= {"transformer.ln_f.weight": (d,), "transformer.ln_f.bias": (d,)}
        if not c["tied"]:
            s["lm_head.weight"] = (v, d)
    elif c["family"] == "gpt-neox":
        s["gpt_neox.embed_in.weight"] = (v, d)
        for i in own:
            p = f"gpt_neox.layers.{i}."
            s |= {p + "input_layernorm.weight": (d,), p + "input_layernorm.bias": (d,),
                  p + "post_attention_layernorm.weight": (d,),
                  p + "post_attention_layernorm.bias": (d,),
                  p + "attention.query_key_value.weight": (3 * d, d),
                  p + "attention.query_key_value.bias": (3 * d,),
                  p + "attention.dense.weight": (d, d), p + "attention.dense.bias": (d,),
                  p + "mlp.dense_h_to_4h.weight": (f, d), p + "mlp.dense_h_to_4h.bias": (f,),
                  p + "mlp.dense_4h_to_h.weight": (d, f), p + "mlp.dense_4h_to_h.bias": (d,)}
        s |= {"gpt_neox.final_layer_norm.weight": (d,), "gpt_neox.final_layer_norm.bias": (d,)}
        if not c["tied"]:
            s["embed_out.weight"] = (v, d)
    else:
        s["model.embed_tokens.weight"] = (v, d)
        further = range(c["layers"], c["layers"] + c.get("mtp", 0))
        for i in further:
            p = f"layers.{i}.mtp."
            s |= {p + "embed_norm.weight": (d,), p + "hidden_norm.weight": (d,), p + "norm.weight": (d,),
                  p + "embed_proj.weight": (d, d), p + "hidden_proj.weight": (d, d)}
        for i in [*own, *further]:
            p = f"model.layers.{i}."
            s |= {p + "input_layernorm.weight": (d,), p + "post_attention_layernorm.weight": (d,),
                  p + "self_attn.q_proj.weight": (q, d), p + "self_attn.k_proj.weight": (kv, d),
                  p + "self_attn.v_proj.weight": (kv, d), p + "self_attn.o_proj.weight": (d, q)}
            if c["family"] == "qwen2":
                s |= {p + "self_attn.q_proj.bias": (q,), p + "self_attn.k_proj.bias": (kv,),
                      p + "self_attn.v_proj.bias": (kv,)}
            if c["family"] != "mixtral":
                s |= {p + "mlp.gate_proj.weight": (f, d), p + "mlp.up_proj.weight": (f, d),
                      p + "mlp.down_proj.weight": (d, f)}
                continue
            x, own = c["experts"], f"layers.{i}.ffn."
            if "bias" in x:
                s[own + "router.bias"] = (x["count"],)
            if "shared" in x:
                s |= {own + "shared.gate.weight": (x["shared"] * f, d),
                      own + "shared.up.weight": (x["shared"] * f, d),
                      own + "shared.down.weight": (d, x["shared"] * f)}
            p += "block_sparse_moe."
            s[p + "gate.weight"] = (c["experts"]["count"], d)
            for e in range(c["experts"]["count"]):
                s |= {p + f"experts.{e}.w1.weight": (f, d), p + f"experts.{e}.w3.weight": (f, d),
                      p + f"experts.{e}.w2.weight": (d, f)}
        if "prompt" in c:
            s |= {f"layers.{i}.prompt.soft": (d, c["prompt"]["soft"]) for i in c["prompt"]["layers"]}
            s["prompt.projection"] = (d, c["prompt"]["size"])
        s["model.norm.weight"] = (d,)
        if not c["tied"]:
            s["lm_head.weight"] = (v, d)
    return s


def is_own(name):
    return name.startswith(("layers.", "prompt."))


def is_norm(name):
    return "norm" in name or "ln_" in name


def is_of_layer(name, t):
    return name.startswith("model.layers.") and t.dim() == 2


def mask_of(c, name, shape):
    """Which weights are there: so many of each four neighbours in a row, or that part of a row, by lot."""
    rng, (kept, of) = random.Random(f"{c['seed']} {name} mask"), c["kept"]
    each = of if kept > 1 else shape[1]
    rows = []
    for _ in range(shape[0] * shape[1] // each):
        here = set(rng.sample(range(each), each * kept // of))
        rows += [float(i in here) for i in range(each)]
    return torch.tensor(rows).reshape(shape)


def random_weights(c):
    """float32 values that make every term count: no norm weight is one, no bias is zero."""
    out = {}
    for name, shape in shapes(c).items():
        rng = random.Random(f"{c['seed']} {name}")
        if len(shape) == 1:
            mean, std = (1.0, 0.2) if is_norm(name) and name.endswith("weight") else (0.0, 0.1)
        elif "wte" in name or "wpe" in name or "embed" in name or "lm_head" in name:
            mean, std = 0.0, 0.15
        else:
            fan_in = shape[0] if c["family"] == "gpt2" else shape[1]
            mean, std = 0.0, fan_in ** -0.5
        values = [rng.gauss(mean, std) for _ in range(math.prod(shape))]
        out[name] = torch.tensor(values, dtype=torch.float64).float().reshape(shape)
        if "kept" in c and is_of_layer(name, out[name]):
            out[name] *= mask_of(c, name, shape)
    return out


def stacked(weights):
    """Mixtral with the names of transformers 5: a layer's experts are two tensors, gate_up_proj
    [E, 2F, D], gate above up, and down_proj [E, D, F]."""
    out, old = {}, ".block_sparse_moe."
    for name, t in weights.items():
        layer = name.split(old)[0]
        if name.endswith(old + "gate.weight"):
            mlp, count = layer + ".mlp.", len(t)
            parts = [[weights[f"{layer}{old}experts.{e}.w{i}.weight"] for i in (1, 2, 3)]
                     for e in range(count)]
            out[mlp + "gate.weight"] = t
            out[mlp + "experts.gate_up_proj"] = torch.stack([torch.cat((g, u)) for g, _, u in parts])
            out[mlp + "experts.down_proj"] = torch.stack([d for _, d, _ in parts])
        elif old not in name:
            out[name] = t
    return out


def unstacked(weights):
    """The way back; weights with the names of transformers 4 stay as they are."""
    out = {}
    for name, t in weights.items():
        at = name.split(".mlp.")[0] + ".block_sparse_moe."
        if name.endswith(".mlp.gate.weight"):
            out[at + "gate.weight"] = t
        elif name.endswith(".mlp.experts.gate_up_proj"):
            for e, both in enumerate(t):
                gate, up = both.chunk(2)
                out |= {f"{at}experts.{e}.w1.weight": gate, f"{at}experts.{e}.w3.weight": up}
        elif name.endswith(".mlp.experts.down_proj"):
            out |= {f"{at}experts.{e}.w2.weight": down for e, down in enumerate(t)}
        else:
            out[name] = t
    return out


# ---- forward passes -----------------------------------------------------------------------------

def layernorm(x, w, b, eps):
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(var + eps) * w + b


def rmsnorm(x, w, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * w


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gelu_erf(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def rotate(x, n, theta):
    """x[B,S,heads,d]: turn pairs (i, i + n/2) of the first n columns by pos theta^(-2i/n)."""
    s, half = x.shape[1], n // 2
    freq = theta ** (-2 * torch.arange(half, dtype=x.dtype) / n)
    angle = torch.arange(s, dtype=x.dtype)[:, None] * freq
    cos, sin = angle.cos()[None, :, None, :], angle.sin()[None, :, None, :]
    a, b, rest = x[..., :half], x[..., half:n], x[..., n:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def attention(q, k, v, c=None, layer=0):
    """q[B,S,H,d], k and v[B,S,G,d]: causal, or `unseen` says what is not; query head h reads head h G / H
    of k and v. A query at i sees `window` keys up to its own, and from its own on, but in every
    global_every-th layer all of them."""
    c = c or {}
    b, s, h, d = q.shape
    k = k.repeat_interleave(h // k.shape[2], 2)
    v = v.repeat_interleave(h // v.shape[2], 2)
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(d)
    if "base_head_dim" in c:
        scores = scores * math.sqrt(c["base_head_dim"] / d)
    if "score_cap" in c:
        scores = c["score_cap"] * torch.tanh(scores / c["score_cap"])
    i, j = torch.arange(s)[:, None], torch.arange(s)[None, :]
    hidden = c["unseen"][:, None] if "unseen" in c else j > i
    if "window" in c and (layer + 1) % c["global_every"]:
        hidden = hidden | (j <= i - c["window"]) | (j >= i + c["window"])
    p = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
    return torch.einsum("bhqk,bkhd->bqhd", p, v).reshape(b, s, h * d)


def gpt2_logits(w, c, ids):
    b, s = ids.shape
    d, h = c["hidden"], c["heads"]
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][:s]
    for i in range(c["layers"]):
        p = f"transformer.h.{i - i % c['share_layers']}."
        a = layernorm(x, w[p + "ln_1.weight"], w[p + "ln_1.bias"], c["norm_eps"])
        qkv = a @ w[p + "attn.c_attn.weight"] + w[p + "attn.c_attn.bias"]
        q, k, v = (t.reshape(b, s, h, d // h) for t in qkv.split(d, -1))
        x = x + attention(q, k, v) @ w[p + "attn.c_proj.weight"] + w[p + "attn.c_proj.bias"]
        a = layernorm(x, w[p + "ln_2.weight"], w[p + "ln_2.bias"], c["norm_eps"])
        gelu = gelu_erf if c.get("activation") == "gelu" else gelu_tanh
        a = gelu(a @ w[p + "mlp.c_fc.weight"] + w[p + "mlp.c_fc.bias"])
        x = x + a @ w[p + "mlp.c_proj.weight"] + w[p + "mlp.c_proj.bias"]
    x = layernorm(x, w["transformer.ln_f.weight"], w["transformer.ln_f.bias"], c["norm_eps"])
    return x @ (w["transformer.wte.weight"] if c["tied"] else w["lm_head.weight"]).T


def neox_logits(w, c, ids):
    b, s = ids.shape
    h = c["heads"]
    hd = c["hidden"] // h
    n, theta, eps = int(hd * c["rotary_pct"]), c["rope_theta"], c["norm_eps"]
    x = w["gpt_neox.embed_in.weight"][ids]
    for i in range(c["layers"]):
        p = f"gpt_neox.layers.{i - i % c['share_layers']}."
        a = layernorm(x, w[p + "input_layernorm.weight"], w[p + "input_layernorm.bias"], eps)
        # The fused rows are [head][q, k, v][column].
        qkv = a @ w[p + "attention.query_key_value.weight"].T
        qkv = (qkv + w[p + "attention.query_key_value.bias"]).reshape(b, s, h, 3, hd)
        q, k, v = rotate(qkv[..., 0, :], n, theta), rotate(qkv[..., 1, :], n, theta), qkv[..., 2, :]
        att = attention(q, k, v) @ w[p + "attention.dense.weight"].T + w[p + "attention.dense.bias"]
        m = layernorm(x if c.get("parallel", True) else x + att,
                      w[p + "post_attention_layernorm.weight"],
                      w[p + "post_attention_layernorm.bias"], eps)
        m = gelu_erf(m @ w[p + "mlp.dense_h_to_4h.weight"].T + w[p + "mlp.dense_h_to_4h.bias"])
        m = m @ w[p + "mlp.dense_4h_to_h.weight"].T + w[p + "mlp.dense_4h_to_h.bias"]
        x = x + att + m
    p = "gpt_neox.final_layer_norm."
    x = layernorm(x, w[p + "weight"], w[p + "bias"], eps)
    return x @ (w["gpt_neox.embed_in.weight"] if c["tied"] else w["embed_out.weight"]).T


def affinity(logits, x):
    return torch.sigmoid(logits) if x.get("router") == "sigmoid" else torch.softmax(logits, -1)


def sequence_balance(logits, x):
    """Equations 17 to 20 without alpha, averaged over the sequences."""
    s, k, e = affinity(logits, x), x["top_k"], x["count"]
    top = torch.zeros_like(s).scatter(-1, torch.topk(s.detach(), k, -1).indices, 1.0)
    f = e / (k * s.shape[1]) * top.sum(1)
    p = (s / s.sum(-1, keepdim=True)).mean(1)
    return (f * p).sum(-1).mean()


def routes(logits, x, bias=None):
    """logits[B,S,E] -> weights of the chosen experts [B,S,E], zero elsewhere, and the choices
    [B,S,k]."""
    k, e = x["top_k"], x["count"]
    score = logits if bias is None else affinity(logits, x) + bias
    choice = torch.argsort(score, dim=-1, descending=True, stable=True)[..., :k]
    weight = torch.softmax(logits.gather(-1, choice), -1)
    if x.get("router") == "sigmoid":
        weight = torch.sigmoid(logits.gather(-1, choice))
        weight = weight / weight.sum(-1, keepdim=True)
    keep = torch.ones_like(weight)
    if x["capacity_factor"] > 0:
        room = math.ceil(x["capacity_factor"] * logits.shape[1] * k / e)
        for sample in range(logits.shape[0]):
            used = [0] * e
            for j in range(k):
                for t in range(logits.shape[1]):
                    i = int(choice[sample, t, j])
                    keep[sample, t, j] = used[i] < room
                    used[i] += 1
    return torch.zeros_like(logits).scatter(-1, choice, weight * keep), choice


def philox(key, high, low):
    """Philox4x32-10 (Salmon et al., SC'11): four words of a 64-bit key and a 128-bit counter."""
    c = [low & 0xffffffff, low >> 32, high & 0xffffffff, high >> 32]
    k = [key & 0xffffffff, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xffffffff, a >> 32 ^ c[3] ^ k[1], a & 0xffffffff]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c


def noise(c, layer, step, first, shape):
    """Factors of a router's input [B, S, D] whose first sample is number `first` of the run."""
    (b, s, d), jitter, factors = shape, c["experts"]["jitter"], []
    k = philox(RUN_SEED, step, 0x6a697472)
    key, site = k[1] << 32 | k[0], 4 * (layer + 1) + 3
    for sample in range(first, first + b):
        for group in range(s * d // 4):
            factors += [(word >> 8) / 2 ** 24 for word in philox(key, site << 32 | sample, group)]
    return 1 - jitter + 2 * jitter * torch.tensor(factors, dtype=torch.float64).reshape(shape)


def mixes(logits, c, layer, step, first):
    """GRIN's Algorithm 1 on logits[B,S,E], whose first sample is number `first` of the run: what
    experts' results are multiplied by [B,S,E], what gradients go back by, and the choices [B,S,2]."""
    x, (b, s, n) = c["experts"], logits.shape
    k = philox(RUN_SEED, step, 0x6d697872)
    key, site, top_k = k[1] << 32 | k[0], 4 * (layer + 1) + 3, x["top_k"]
    taken = torch.zeros_like(logits, dtype=torch.bool)
    w, p_all, choices = torch.zeros_like(logits), torch.zeros_like(logits), []
    for j in range(top_k):
        left = logits.detach().masked_fill(taken, -math.inf)
        top, largest = left.max(-1, keepdim=True)
        near = ~taken & (top - logits.detach() <= x["mixer_range"] * (logits.detach().abs() + top.abs()))
        p = torch.softmax(logits.masked_fill(~near, -math.inf), -1)
        drawn, factor = torch.zeros_like(largest), torch.ones_like(top)
        sums = p.detach().cumsum(-1)
        for i in range(b):
            for t in range(s):
                words = philox(key, site << 32 | first + i, t * top_k + j)
                drawn[i, t, 0] = int((sums[i, t] <= words[0] / 2 ** 32).sum())
                if drawn[i, t, 0] != largest[i, t, 0] and words[1] >= 2 ** 30:
                    factor[i, t, 0] = 1 / 3
        own = torch.zeros_like(logits).scatter(-1, drawn, 1.0)
        p_all = p_all + p * own
        w = w + factor * p.detach() * own
        taken = taken | (own > 0)
        choices.append(drawn)
    return w, p_all, torch.cat(choices, -1)


def forward_of(value, gradient):
    """The one's value with the other's gradient."""
    return gradient + (value - gradient).detach()


def swiglu(a, gate, up, down):
    gate, up = a @ gate.T, a @ up.T
    return (gate * torch.sigmoid(gate) * up) @ down.T


def experts(w, layer, c, a, extra):
    """Every expert on every token, most of them times zero. In training the routers' losses are
    added to extra[0], what experts got to extra[1]; without (extra is None) nothing is random."""
    x, own, p = c["experts"], f"layers.{layer}.ffn.", f"model.layers.{layer}.block_sparse_moe."
    seen = a
    if "jitter" in x and extra:
        seen = a * noise(c, layer, *extra[2], a.shape).to(a.dtype)
    logits = seen @ w[p + "gate.weight"].T
    bias = own + "router.bias"
    if x.get("router") == "sparsemixer":
        weight, back, choice = mixes(logits, c, layer, *extra[2])
    elif x.get("router") == "dense":
        weight = back = torch.softmax(logits, -1)
        choice = None
    else:
        weight, choice = routes(logits, x, w.get(bias))
        back = weight
    if extra and choice is None:
        mean = torch.softmax(logits, -1).mean((0, 1))
        entropy = -(weight * torch.log_softmax(logits, -1)).sum(-1).mean()
        extra[0] = extra[0] + x["aux_loss"] * (entropy + (mean * mean.log()).sum())
    elif extra:
        got = torch.bincount(choice.flatten(), minlength=x["count"])
        if bias in w:
            extra[1][bias] = extra[1].get(bias, 0) + got
        share, mean = got.to(a.dtype) / choice.numel(), torch.softmax(logits, -1).mean((0, 1))
        if x.get("balance") == "sequence":
            balance = sequence_balance(logits, x)
        else:
            balance = x["count"] * (share * mean).sum()
        extra[0] = extra[0] + x["aux_loss"] * balance
        extra[1]["balance"] = extra[1].get("balance", 0) + balance.detach() / c["layers"]
    if extra:
        extra[0] = extra[0] + x["z_loss"] * (torch.logsumexp(logits, -1) ** 2).mean()
    y = torch.zeros_like(a)
    for e in range(x["count"]):
        q = p + f"experts.{e}."
        out = swiglu(a, w[q + "w1.weight"], w[q + "w3.weight"], w[q + "w2.weight"])
        y = y + forward_of(weight[..., e:e + 1] * out, back[..., e:e + 1] * out)
    if "shared" in x:
        y = y + swiglu(a, w[own + "shared.gate.weight"], w[own + "shared.up.weight"],
                       w[own + "shared.down.weight"])
    return y


def features(c, documents):
    """[documents, rows of all levels, size], as float32 has them."""
    p, rng = c["prompt"], random.Random(f"{c['seed']} features")
    shape = (documents, p["rows"] * len(p["layers"]), p["size"])
    return torch.tensor([rng.gauss(0, 1) for _ in range(math.prod(shape))]).float().double().reshape(shape)


def prompted(w, c, x, i, first):
    """What enters layer i, of samples from `first` on."""
    p = c["prompt"]
    if i not in p["layers"]:
        return x
    level, n = p["layers"].index(i) * p["rows"], len(x)
    f = features(c, first + n)[first:, level:level + p["rows"]].to(x.dtype)
    soft = w[f"layers.{i}.prompt.soft"].T.expand(n, -1, -1)
    return torch.cat((soft, f @ w["prompt.projection"].T, x[:, p["soft"] + p["rows"]:]), 1)


def llama_block(w, c, x, i, extra=None):
    (b, s, _), h, g = x.shape, c["heads"], c["kv_heads"]
    hd, theta, eps = c["hidden"] // h, c["rope_theta"], c["norm_eps"]
    own = i - i % c["share_layers"]
    p = f"model.layers.{own}."
    a = rmsnorm(x, w[p + "input_layernorm.weight"], eps)
    q, k, v = (a @ w[f"{p}self_attn.{n}_proj.weight"].T for n in "qkv")
    if c["family"] == "qwen2":
        q, k, v = (t + w[f"{p}self_attn.{n}_proj.bias"] for t, n in zip((q, k, v), "qkv"))
    q = rotate(q.reshape(b, s, h, hd), hd, theta)
    k = rotate(k.reshape(b, s, g, hd), hd, theta)
    v = v.reshape(b, s, g, hd)
    x = x + attention(q, k, v, c, i) @ w[p + "self_attn.o_proj.weight"].T
    a = rmsnorm(x, w[p + "post_attention_layernorm.weight"], eps)
    if c["family"] == "mixtral":
        return x + experts(w, own, c, a, extra)
    return x + swiglu(a, w[p + "mlp.gate_proj.weight"], w[p + "mlp.up_proj.weight"],
                      w[p + "mlp.down_proj.weight"])


def llama_hidden(w, c, ids, extra=None, first=0):
    """What the head reads."""
    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["layers"]):
        x = prompted(w, c, x, i, first) if "prompt" in c else x
        x = llama_block(w, c, x, i, extra)
    return rmsnorm(x, w["model.norm.weight"], c["norm_eps"])


def llama_head(w, c, x):
    logits = x @ (w["model.embed_tokens.weight"] if c["tied"] else w["lm_head.weight"]).T
    return logits / (c["hidden"] / c["base_width"]) if "base_width" in c else logits


def llama_logits(w, c, ids, extra=None, first=0):
    return llama_head(w, c, llama_hidden(w, c, ids, extra, first))


def further_loss(w, c, batch):
    """DeepSeek-V3's multi-token prediction (arXiv 2412.19437, 2.2): the mean over depths k of one over T times the sum of
    losses for tokens k + 1 further on, as far as the sample has them. Tokens behind the sample's last are it: nothing
    that counts reads them."""
    eps, h = c["norm_eps"], llama_hidden(w, c, batch[:, :-1])
    s, total = h.shape[1], 0.0
    for k in range(1, c["mtp"] + 1):
        p = f"layers.{c['layers'] + k - 1}.mtp."
        ids = torch.cat([batch[:, k:], batch[:, -1:].expand(-1, k)], 1)[:, :s]
        e = rmsnorm(w["model.embed_tokens.weight"][ids], w[p + "embed_norm.weight"], eps)
        x = torch.cat([e, rmsnorm(h, w[p + "hidden_norm.weight"], eps)], -1)
        x = x @ torch.cat([w[p + "embed_proj.weight"], w[p + "hidden_proj.weight"]], 1).T
        h = rmsnorm(llama_block(w, c, x, c["layers"] + k - 1), w[p + "norm.weight"], eps)
        logits, target = llama_head(w, c, h)[:, :s - k], batch[:, k + 1:]
        loss = torch.logsumexp(logits, -1) - logits.gather(-1, target[..., None])[..., 0]
        total = total + loss.sum() / (len(batch) * s)
    return total / c["mtp"]


LOGITS = {"gpt2": gpt2_logits, "gpt-neox": neox_logits, "llama": llama_logits,
          "mixtral": llama_logits, "qwen2": llama_logits}


def mean_loss(w, c, batch, step):
    """batch[B, S+1] -> mean over tokens of log sum exp(logits) - logits[target], what else is
    minimised, what experts got by the name of their router's bias, and the loss of tokens further on."""
    target, counts = batch[:, 1:, None], {}
    if "prompt" in c:
        logits, extra = llama_logits(w, c, batch[:, :-1], None, (step - 1) * GLOBAL_BATCH), 0.0
    elif c["family"] != "mixtral":
        logits, extra = LOGITS[c["family"]](w, c, batch[:, :-1]), 0.0
    else:
        parts, extras = [], []
        for first in range(0, len(batch), MICRO_BATCH):
            extras.append([0.0, counts, (step, (step - 1) * GLOBAL_BATCH + first)])
            ids = batch[first:first + MICRO_BATCH, :-1]
            parts.append(llama_logits(w, c, ids, extras[-1]))
        logits, extra = torch.cat(parts), sum(x[0] for x in extras) / len(extras)
    lse = torch.logsumexp(logits, -1)
    losses = lse - logits.gather(-1, target)[..., 0]
    if "prompt" in c:
        losses = losses[:, c["prompt"]["soft"] + c["prompt"]["rows"] - 1:-1]
    loss = losses[c["counts"]].mean() if "counts" in c else losses.mean()
    extra = extra + c.get("train", {}).get("z_loss", 0.0) * (lse * lse).mean()
    further = further_loss(w, c, batch) if "mtp" in c else None
    extra = extra + c["train"]["mtp_loss"] * further if "mtp" in c else extra
    return loss, extra, counts, further


# ---- data ---------------------------------------------------------------------------------------

def make_documents(c):
    """Documents of uneven lengths that hold 20 steps' samples, one target more and a few to spare.
    A third of the tokens are random, the others follow from their predecessor: there is something
    to learn."""
    rng = random.Random(f"{c['seed']} tokens")
    v, total = c["vocab"], STEPS * GLOBAL_BATCH * c["seq"] + 1 + 11
    tokens = [rng.randrange(v)]
    while len(tokens) < total:
        tokens.append(rng.randrange(v) if rng.random() < 1 / 3 else (5 * tokens[-1] + 7) % v)
    docs = []
    if "prompt" in c:
        return [tokens[i:i + c["seq"]] for i in range(0, len(tokens), c["seq"])]
    while tokens:
        n = rng.randrange(*c.get("lengths", (20, 400)))
        docs.append(tokens[:n])
        tokens = tokens[n:]
    return docs


def batch_of_step(flat, c, step):
    """Of llama-ramp the first 6 steps take 2 samples each."""
    s, few = c["seq"], 6 if "ramp" in c.get("train", {}) else 0
    before = min(step - 1, few)
    first, n = before * 2 + (step - 1 - before) * GLOBAL_BATCH, 2 if step <= few else GLOBAL_BATCH
    return torch.tensor([flat[i * s:i * s + s + 1] for i in range(first, first + n)])


def prompts_of(c, docs):
    """Of each token: does it count, where does its document begin, and where that document's first one that counts
    is, or its end. Four of five count behind so many of a document."""
    rng, counts, begin, answer = random.Random(f"{c['seed']} prompts"), [], [], []
    for d in docs:
        first, n = len(counts), rng.randrange(*c["prompts"]) if "prompts" in c else 0
        mine = [k >= n and ("prompts" not in c or rng.random() < 0.8) for k in range(len(d))]
        begin += [first] * len(d)
        answer += [first + (mine.index(True) if True in mine else len(d))] * len(d)
        counts += mine
    return torch.tensor(counts), torch.tensor(begin), torch.tensor(answer)


def seen_of_step(c, step):
    """Which keys are hidden from which queries of the step's samples, and which targets count."""
    counts, begin, answer = c["told"]
    s = c["seq"]
    at = ((step - 1) * GLOBAL_BATCH + torch.arange(GLOBAL_BATCH))[:, None] * s + torch.arange(s)
    q, k = at[:, :, None], at[:, None, :]
    seen = (begin[q] == begin[k]) & ((k <= q) | (k < answer[q]))
    return dict(unseen=~seen, counts=counts[at + 1] & (begin[at + 1] == begin[at]))


# ---- the 20 steps -------------------------------------------------------------------------------

def lr_of_step(s, c=None):
    if s <= WARMUP:
        return LR * s / WARMUP
    if c and "wsd-cosine" in c.get("train", {}).get("schedule", ""):
        y = max(0, s - (STEPS - 8)) / 8
        return MIN_LR + 0.5 * (LR - MIN_LR) * (1 + math.cos(math.pi * y))
    return MIN_LR + 0.5 * (LR - MIN_LR) * (1 + math.cos(math.pi * (s - WARMUP) / (STEPS - WARMUP)))


def train(c, weights, flat, dtype):
    w = {n: t.to(dtype).clone() for n, t in weights.items()}
    trained = {n: t for n, t in w.items()
               if not n.endswith("router.bias") and
               not any(fnmatch.fnmatchcase(n, FROZEN[f]) for f in c["freeze"]) and
               ("prompt" not in c or is_own(n))}
    for t in trained.values():
        t.requires_grad_(True)
    groups = {}
    for n, t in trained.items():
        own = [g for g in GROUPS if "groups" in c.get("train", {}) and fnmatch.fnmatchcase(n, g[0])]
        rate = c["base_width"] / c["hidden"] if "base_width" in c and is_of_layer(n, t) else 1.0
        key = own[0][1:] if own else (rate, DECAY if t.dim() == 2 else 0.0)
        groups.setdefault(key, []).append(t)
    optimizer = torch.optim.AdamW(
        [dict(params=ts, factor=f, weight_decay=d) for (f, d), ts in groups.items()],
        lr=LR, betas=(BETA1, BETA2), eps=EPS, foreach=False)
    here = {n: w[n] != 0 for n in trained if "kept" in c and is_of_layer(n, w[n])}
    out = dict(loss=[], grad_norm=[], lr=[], balance=[])
    for step in range(1, STEPS + 1):
        optimizer.zero_grad(set_to_none=True)
        if "told" in c:
            c = dict(c, **seen_of_step(c, step))
        loss, extra, counts, further = mean_loss(w, c, batch_of_step(flat, c, step), step)
        (loss + extra).backward()
        for n, mask in here.items():
            w[n].grad *= mask
        if step == 1:
            out["grads"] = {n: t.grad.clone() for n, t in trained.items()}
        norm = torch.nn.utils.clip_grad_norm_(list(trained.values()), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = group["factor"] * lr_of_step(step, c)
        optimizer.step()
        if "balance" in counts and c["experts"].get("balance"):
            out["balance"].append(counts.pop("balance").item() / (GLOBAL_BATCH // MICRO_BATCH))
        counts.pop("balance", None)
        for n, got in counts.items():
            w[n] += c["experts"]["bias_rate"] * torch.sign(got.to(dtype).mean() - got)
        if step == c.get("after"):
            out["after"] = {n: t.detach().clone() for n, t in trained.items()}
        out["loss"].append(loss.item())
        if further is not None:
            out.setdefault("mtp_loss", []).append(further.item())
        out["grad_norm"].append(norm.item())
        out["lr"].append(lr_of_step(step, c))
    out["router_bias"] = {n: t.tolist() for n, t in w.items() if n.endswith("router.bias")}
    out["final_norm"] = {n: t.detach().norm().item() for n, t in w.items()}
    return out


# ---- files --------------------------------------------------------------------------------------

def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name in sorted(tensors):
        t = tensors[name].detach().float().contiguous()
        raw = struct.pack(f"<{t.numel()}f", *t.flatten().tolist())
        header[name] = dict(dtype="F32", shape=list(t.shape),
                            data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__", None)
    out = {}
    for name, e in header.items():
        begin, end = e["data_offsets"]
        values = struct.unpack_from(f"<{(end - begin) // 4}f", raw, 8 + n + begin)
        out[name] = torch.tensor(values, dtype=torch.float64).reshape(e["shape"])
    return out


def write_dataset(prefix, docs):
    """Megatron's MMIDIDX, dtype code 8 = uint16; one sequence per document."""
    lengths = [len(d) for d in docs]
    offsets = [2 * sum(lengths[:i]) for i in range(len(docs))]
    with open(prefix + ".bin", "wb") as f:
        for d in docs:
            f.write(struct.pack(f"<{len(d)}H", *d))
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(docs), len(docs) + 1))
        f.write(struct.pack(f"<{len(docs)}i", *lengths))
        f.write(struct.pack(f"<{len(docs)}q", *offsets))
        f.write(struct.pack(f"<{len(docs) + 1}q", *range(len(docs) + 1)))


def write_mask(path, counts):
    bits = [sum(int(b) << k for k, b in enumerate(counts[i:i + 8])) for i in range(0, len(counts), 8)]
    with open(path, "wb") as f:
        f.write(b"SNTMASK\0" + struct.pack("<QQQ", 1, len(counts), sum(map(int, counts))) + bytes(bits))


def write_npy(path, x):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(x.shape)}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        f.write(struct.pack(f"<{x.numel()}f", *x.flatten().tolist()))


def run_file(name, c):
    at = f"tests/parity/fixtures/{name}"
    theta = f"  rope_theta: {c['rope_theta']}\n" if c["family"] != "gpt2" else ""
    neox = f"  rotary_pct: {c['rotary_pct']}\n  parallel_residual: true\n"
    freeze = ", ".join(f'"{p}"' for p in c["freeze"])
    moe = "".join(f"{', ' if i else ''}{k}: {v}" for i, (k, v) in enumerate(c.get("experts", {}).items()))
    moe = f"  experts: {{{moe}}}\n" if moe else ""
    activation = f"  activation: {c['activation']}\n" if "activation" in c else ""
    window = (f"  sliding_window: {c['window']}\n  global_every: {c['global_every']}\n"
              f"  score_cap: {c['score_cap']}\n") if "window" in c else ""
    prompts = ", documents: apart, loss: mask, prefix: prompt" if "prompts" in c else ""
    mtp = f"  mtp: {c['mtp']}\n" if "mtp" in c else ""
    more = c.get("train", {})
    schedule = more.get("schedule", f"{{kind: cosine, warmup: {WARMUP}, min_lr: {MIN_LR:.1e}}}")
    rest = "".join(f"  {k}: {v}\n" for k, v in more.items() if k not in ("schedule",))
    if "prompt" in c:
        rest += f"  prompt: {json.dumps(c['prompt'])}\n"
    return f"""# Written by tests/parity/make_fixtures.py; the numbers to meet are in expected.json.
run: {{name: parity-{name}, seed: {RUN_SEED}, output: build/parity/{name}, backend: cpu}}
model:
  family: {c['family']}
  layers: {c['layers']}
  hidden: {c['hidden']}
  heads: {c['heads']}
  kv_heads: {c['kv_heads']}
  ffn: {c['ffn']}
  vocab: {c['vocab']}
  seq: {c['seq']}
  tied_embeddings: {str(c['tied']).lower()}
{activation}{window}{theta}{neox if c['family'] == 'gpt-neox' else ''}  norm_eps: {c['norm_eps']:.1e}
  init_std: 0.02
  dropout: 0.0
  share_layers: {c['share_layers']}
{mtp}{moe}data: {{train: {at}/data, order: sequential{prompts}}}
train:
  steps: {STEPS}
  global_batch: {GLOBAL_BATCH}
  precision: fp32
  optimizer:
    kind: adamw
    lr: {LR:.1e}
    beta1: {BETA1}
    beta2: {BETA2}
    eps: {EPS:.1e}
    weight_decay: {DECAY}
    clip: {CLIP}
  schedule: {schedule}
{rest}  init_from: {at}/model.safetensors
  eval_every: 0
  freeze: [{freeze}]
layout: {{data: 1, micro_batch: {c.get('micro_batch', MICRO_BATCH)}}}
checkpoint: {{dir: ckpt, every: 0}}
"""


def expected(name, c, weights, r, r32):
    drift = max(abs(a - b) / abs(a) for a, b in zip(r["loss"], r32["loss"]))
    drift_norm = max(abs(a - b) / abs(a) for a, b in zip(r["grad_norm"], r32["grad_norm"]))
    scale = max(g.abs().max().item() for g in r["grads"].values())
    drift_grad = max((g - r32["grads"][n]).abs().max().item() for n, g in r["grads"].items())
    digits = lambda xs: [float(f"{x:.12g}") for x in xs]
    return {
        "name": name, "torch": torch.__version__, "dtype": "float64",
        "params": sum(t.numel() for t in weights.values()),
        "trained": sum(g.numel() for g in r["grads"].values()),
        "steps": STEPS, "tokens_per_step": GLOBAL_BATCH * c["seq"],
        "loss": digits(r["loss"]), "grad_norm": digits(r["grad_norm"]), "lr": digits(r["lr"]),
        # What float32 arithmetic alone changes (the same steps, by PyTorch): a tolerance's reason.
        # The gradients' difference is over the largest gradient element of the model.
        "float32_relative_difference": {"loss": float(f"{drift:.2g}"),
                                        "grad_norm": float(f"{drift_norm:.2g}"),
                                        "grads": float(f"{drift_grad / scale:.2g}")},
        # L2 norm of every tensor after the 20 steps.
        "final_norm": {n: float(f"{x:.12g}") for n, x in sorted(r["final_norm"].items())},
    } | ({"balance": digits(r["balance"])} if r["balance"] else {}) | ({"router_bias": {n: digits(b) for n, b in r["router_bias"].items()}}
         if r["router_bias"] else {}) | ({"mtp_loss": digits(r["mtp_loss"])} if "mtp_loss" in r else {})


def some_logits(c, weights):
    """What follows each of 20 tokens, in float64."""
    ids = [(7 * i + 3) % c["vocab"] for i in range(20)]
    with torch.no_grad():
        w = {n: t.double() for n, t in weights.items()}
        rows = LOGITS[c["family"]](w, c, torch.tensor([ids]))[0].tolist()
    return {"tokens": ids, "logits": [[float(f"{x:.9g}") for x in row] for row in rows]}


def write_names5(at, c, weights):
    """What only mixtral has."""
    write_safetensors(os.path.join(at, "names5.safetensors"), stacked(weights))
    with open(os.path.join(at, "logits.json"), "w") as f:
        json.dump(some_logits(c, weights), f)
        f.write("\n")


def check_names5(at, c, weights):
    stored = unstacked(read_safetensors(os.path.join(at, "names5.safetensors")))
    with open(os.path.join(at, "logits.json")) as f:
        old = json.load(f)
    far = max(abs(a - b) for p, q in zip(some_logits(c, weights)["logits"], old["logits"])
              for a, b in zip(p, q))
    return far < 1e-7 and stored.keys() == weights.keys() and all(
        torch.equal(stored[n], t.double()) for n, t in weights.items())


def write_json(path, e):
    """One line per key, arrays and maps inside a line, so that a diff is readable."""
    lines = []
    for k, v in e.items():
        if k == "final_norm":
            inner = ",\n".join(f"    {json.dumps(n)}: {json.dumps(x)}" for n, x in v.items())
            lines.append(f"  {json.dumps(k)}: {{\n{inner}\n  }}")
        else:
            lines.append(f"  {json.dumps(k)}: {json.dumps(v)}")
    with open(path, "w") as f:
        f.write("{\n" + ",\n".join(lines) + "\n}\n")


# ---- checks -------------------------------------------------------------------------------------

def check(name, e, r, weights):
    """The committed files against this run: 1e-9 on losses (another BLAS orders sums otherwise)."""
    at = os.path.join(HERE, name)
    with open(os.path.join(at, "expected.json")) as f:
        old = json.load(f)
    worst = max(abs(a - b) / abs(b) for k in ("loss", "grad_norm", "lr", "mtp_loss")
                for a, b in zip(e.get(k, []), old.get(k, [])))
    stored = read_safetensors(os.path.join(at, "model.safetensors"))
    if any(is_own(n) for n in weights):
        stored |= read_safetensors(os.path.join(at, "own.safetensors"))
    same = stored.keys() == weights.keys() and all(torch.equal(stored[n], t.double())
                                                   for n, t in weights.items())
    grads = read_safetensors(os.path.join(at, "grads.safetensors"))
    far = max((grads[n] - g).abs().max().item() / g.abs().max().item()
              for n, g in r["grads"].items() if g.abs().max() > 1e-12)
    ok = worst < 1e-9 and same and far < 1e-6 and grads.keys() == r["grads"].keys()
    if "after" in r:
        after = read_safetensors(os.path.join(at, "after.safetensors"))
        ok &= after.keys() == r["after"].keys() and all(
            (after[n] - t).abs().max() < 1e-7 for n, t in r["after"].items())
    ok &= name != "mixtral" or check_names5(at, CASES[name], weights)
    print(f"{name}: {'ok' if ok else 'DIFFERS'} (numbers {worst:.1e}, gradients {far:.1e}, "
          f"weights {'equal' if same else 'differ'})")
    return ok


def transformers_model(c):
    import transformers as hf
    if c["family"] == "gpt2":
        cfg = hf.GPT2Config(vocab_size=c["vocab"], n_positions=c["seq"], n_embd=c["hidden"],
                            n_layer=c["layers"], n_head=c["heads"], n_inner=c["ffn"],
                            activation_function=c.get("activation", "gelu_new"),
                            bos_token_id=None, eos_token_id=None, resid_pdrop=0.0,
                            embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=c["norm_eps"])
        return hf.GPT2LMHeadModel, cfg
    if c["family"] == "gpt-neox":
        cfg = hf.GPTNeoXConfig(vocab_size=c["vocab"], hidden_size=c["hidden"],
                               num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
                               intermediate_size=c["ffn"], hidden_act="gelu",
                               rotary_pct=c["rotary_pct"], rotary_emb_base=c["rope_theta"],
                               max_position_embeddings=c["seq"], layer_norm_eps=c["norm_eps"],
                               use_parallel_residual=True, tie_word_embeddings=c["tied"],
                               attention_dropout=0.0, hidden_dropout=0.0, bos_token_id=None,
                               eos_token_id=None)
        return hf.GPTNeoXForCausalLM, cfg
    kind, cfg = (hf.Qwen2ForCausalLM, hf.Qwen2Config) if c["family"] == "qwen2" else (
        hf.LlamaForCausalLM, hf.LlamaConfig)
    cfg = cfg(vocab_size=c["vocab"], hidden_size=c["hidden"],
                         intermediate_size=c["ffn"], num_hidden_layers=c["layers"],
                         num_attention_heads=c["heads"], num_key_value_heads=c["kv_heads"],
                         max_position_embeddings=c["seq"], rms_norm_eps=c["norm_eps"],
                         rope_theta=c["rope_theta"], tie_word_embeddings=c["tied"])
    return kind, cfg


def check_transformers(name, c, weights, r, batch):
    """Its rotary tables and norms compute in float32 whatever the model's type: 1e-5, not 1e-12."""
    kind, cfg = transformers_model(c)
    cfg._attn_implementation = "eager"
    model = kind(cfg).double().eval()
    # Shared layers: transformers gets a copy per layer, and the copies' gradients add up. Its
    # version 5 calls NeoX's head lm_head in memory; files still say embed_out.
    source = {}
    for full, _ in model.named_parameters():
        neox_head = c["family"] == "gpt-neox" and full == "lm_head.weight"
        part = ("embed_out.weight" if neox_head else full).split(".")
        at = next((i for i, p in enumerate(part) if p.isdigit()), None)
        if at is not None:
            part[at] = str(int(part[at]) - int(part[at]) % c["share_layers"])
        source[full] = ".".join(part)
    missing = set(weights) - set(source.values())
    with torch.no_grad():
        for full, p in model.named_parameters():
            p.copy_(weights[source[full]])
    logits = model(input_ids=batch[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), batch[:, 1:].flatten())
    loss.backward()
    grads = {}
    for full, p in model.named_parameters():
        grads[source[full]] = grads.get(source[full], 0) + p.grad
    norm = math.sqrt(sum(grads[n].square().sum().item() for n in r["grads"]))
    e_loss = abs(loss.item() - r["loss"][0]) / r["loss"][0]
    e_norm = abs(norm - r["grad_norm"][0]) / r["grad_norm"][0]
    top = max(g.abs().max().item() for g in r["grads"].values())
    e_grad = max((grads[n] - g).abs().max().item() for n, g in r["grads"].items()) / top
    ok = not missing and max(e_loss, e_norm, e_grad) < 1e-5
    print(f"{name}: transformers {'agrees' if ok else 'DISAGREES'} (loss {e_loss:.1e}, "
          f"norm {e_norm:.1e}, gradients {e_grad:.1e}, names missing there: {len(missing)})")
    return ok


def main():
    a = argparse.ArgumentParser(description="write or check the parity fixtures")
    a.add_argument("--check", action="store_true", help="compare with the committed files")
    a.add_argument("--check-transformers", action="store_true", help="compare with transformers")
    a.add_argument("names", nargs="*", help="cases (default: all of %s)" % ", ".join(CASES))
    a = a.parse_args()
    torch.set_num_threads(1)
    ok = True
    for name in a.names or CASES:
        c = CASES[name]
        weights, docs = random_weights(c), make_documents(c)
        if "lengths" in c:
            c = dict(c, told=prompts_of(c, docs))
        flat = [t for d in docs for t in d]
        r = train(c, weights, flat, torch.float64)
        e = expected(name, c, weights, r, train(c, weights, flat, torch.float32))
        if a.check:
            ok &= check(name, e, r, weights)
        if a.check_transformers and c["family"] != "mixtral" and not c.keys() & {"window", "prompt", "mtp"}:  # its losses are defined otherwise
            ok &= check_transformers(name, c, weights, r, batch_of_step(flat, c, 1))
        if a.check or a.check_transformers:
            continue
        at = os.path.join(HERE, name)
        os.makedirs(at, exist_ok=True)
        own = {n: t for n, t in weights.items() if is_own(n)}
        write_safetensors(os.path.join(at, "model.safetensors"),
                          {n: t for n, t in weights.items() if not is_own(n)})
        if own:
            write_safetensors(os.path.join(at, "own.safetensors"), own)
        write_safetensors(os.path.join(at, "grads.safetensors"), r["grads"])
        if "after" in r:
            write_safetensors(os.path.join(at, "after.safetensors"), r["after"])
        if name == "mixtral":
            write_names5(at, c, weights)
        write_dataset(os.path.join(at, "data"), docs)
        if "prompts" in c:
            write_mask(os.path.join(at, "data.mask"), c["told"][0].tolist())
        if "prompt" in c:
            write_npy(os.path.join(at, "data.npy"), features(c, len(docs)))
        with open(os.path.join(at, "run.yaml"), "w") as f:
            f.write(run_file(name, c))
        write_json(os.path.join(at, "expected.json"), e)
        print(f"{name}: loss {r['loss'][0]:.6f} -> {r['loss'][-1]:.6f}, norm "
              f"{r['grad_norm'][0]:.4f} .. {r['grad_norm'][-1]:.4f}, "
              f"float32 {e['float32_relative_difference']}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
