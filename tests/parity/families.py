#!/usr/bin/env python3
"""Random small models of each family that transformers has, held against sennit.

  families.py BUILD WORK [--draws N] [--seed S] [TYPE...]      needs torch, transformers and safetensors

For each type N models with traits drawn at random (heads and their width, depth, tied embeddings, scaled
wavelengths, multipliers, experts ...) and random weights. Of each, in files as transformers writes them:

  logits      of a sequence, fp32: within 1e-5 of the largest, or four times what transformers' own fp32 is from its float64;
              and the same first choice at each place
  text        that sennit-train --generate continues some tokens with, one by one from keys and values kept, and
              computing all of it for each: what transformers' generate() gives, without sampling
  gradients   all tensors': of transformers' loss in float64, against what one step of SGD with a rate of
              1 takes off the weights: within 1e-4 of a tensor's largest, or of 1e-3 of all tensors', or
              four times as far as the worst of transformers' own in fp32
  round trip  sennit-convert --from safetensors, then --to safetensors: the same names and bytes

BUILD is a build with bin/ and tests/unit/test_logits. Prints TAP without a plan; exit 1 if a point fails.
"""
import argparse
import copy
import json
import os
import random
import shutil
import subprocess
import sys

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_fixtures import write_dataset  # noqa: E402

SEQ, VOCAB = 24, 61
CLASS = {"gpt2": "GPT2", "gpt_neox": "GPTNeoX", "llama": "Llama", "mistral": "Mistral", "mixtral": "Mixtral", "qwen2": "Qwen2", "qwen3": "Qwen3",
         "qwen3_moe": "Qwen3Moe", "qwen2_moe": "Qwen2Moe", "dots1": "Dots1", "deepseek_v2": "DeepseekV2", "deepseek_v3": "DeepseekV3", "smollm3": "SmolLM3", "granite": "Granite", "starcoder2": "Starcoder2",
         "phi3": "Phi3", "olmo2": "Olmo2", "gemma2": "Gemma2", "gemma3_text": "Gemma3"}
HEAD = {"gpt2": "GPT2LMHeadModel"}
CONFIG = {"gemma3_text": "Gemma3Text"}
bad = points = 0


def say(good, text, why=""):
    global bad, points
    points += 1
    bad += not good
    print(f"{'ok' if good else 'not ok'} {points} - {text}", flush=True)
    if not good and why:
        print("# " + why.strip().replace("\n", "\n# "), flush=True)
    return good


# ---- draws ---------------------------------------------------------------------------------------

def rope(r, pairs, theta):
    """rope_parameters of any type; sequences are longer than what they are scaled from, or not."""
    kind = r.choice(["default", "linear", "dynamic" if pairs > 1 else "linear", "yarn", "llama3", "longrope"])
    p = dict(rope_type=kind, rope_theta=theta)
    if kind != "default":
        p["factor"] = r.choice([2.0, 4.0, 8.0])
    if kind in ("yarn", "llama3", "longrope"):
        p["original_max_position_embeddings"] = r.choice([8, 16])
    if kind == "llama3":
        p |= dict(low_freq_factor=1.0, high_freq_factor=4.0)
    if kind == "yarn":
        p |= r.choice([{}, dict(beta_fast=16.0, beta_slow=2.0), dict(attention_factor=1.25), dict(truncate=False),
                       dict(mscale=1.5, mscale_all_dim=0.5)])
    if kind == "longrope":
        p |= dict(short_factor=[r.uniform(1, 2) for _ in range(pairs)],
                  long_factor=[r.uniform(1, 8) for _ in range(pairs)])
        if r.random() < 0.5:
            del p["factor"]
    return p


def draw_gpt2(r):
    """Positions are of a table, as long as samples."""
    heads = r.choice([1, 3, 4])
    return dict(vocab_size=VOCAB, n_layer=r.choice([1, 2, 3]), n_head=heads, n_embd=heads * r.choice([7, 8, 16]), n_positions=SEQ,
                n_inner=r.choice([None, 40, 56]), activation_function=r.choice(["gelu_new", "gelu", "gelu_pytorch_tanh", "gelu_fast"]),
                layer_norm_epsilon=r.choice([1e-5, 1e-2]), tie_word_embeddings=r.random() < 0.5, resid_pdrop=0.0, embd_pdrop=0.0,
                attn_pdrop=0.0, bos_token_id=None, eos_token_id=None, pad_token_id=None)


def draw_gpt_neox(r):
    heads, width, part = r.choice([1, 3, 4]), r.choice([8, 16]), r.choice([0.25, 0.5, 0.75, 1.0])
    p = rope(r, int(width * part) // 2, r.choice([100.0, 10000.0, 500000.0])) | dict(partial_rotary_factor=part)
    return dict(vocab_size=VOCAB, num_hidden_layers=r.choice([1, 2, 3]), num_attention_heads=heads, hidden_size=heads * width,
                intermediate_size=r.choice([24, 40, 56]), max_position_embeddings=r.choice([SEQ, 2 * SEQ]), rope_parameters=p,
                hidden_act=r.choice(["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast"]), layer_norm_eps=r.choice([1e-5, 1e-2]),
                use_parallel_residual=r.random() < 0.5, tie_word_embeddings=r.random() < 0.5, hidden_dropout=0.0, attention_dropout=0.0,
                bos_token_id=None, eos_token_id=None, pad_token_id=None)


def draw(r, kind):
    if kind in DRAWS:
        return DRAWS[kind](r)
    heads, kv = r.choice([(4, 2), (4, 4), (4, 1), (6, 3), (2, 2)])
    width = r.choice([8, 16])
    own = kind not in ("starcoder2",) and r.random() < 0.5
    c = dict(vocab_size=VOCAB, num_hidden_layers=r.choice([1, 2, 3]), num_attention_heads=heads,
             num_key_value_heads=kv, hidden_size=heads * r.choice([8, 10, 12]) if own else heads * width,
             intermediate_size=r.choice([24, 40, 56]), max_position_embeddings=r.choice([SEQ, 2 * SEQ]),
             tie_word_embeddings=r.random() < 0.5, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if own or kind in ("qwen3", "mistral", "mixtral"):  # two of which stumble without it
        c["head_dim"] = width
    c["rope_parameters"] = rope(r, width // 2, r.choice([100.0, 10000.0, 500000.0]))
    if kind == "starcoder2":
        c |= dict(sliding_window=r.choice([None, 8]), norm_epsilon=r.choice([1e-5, 1e-2]), hidden_act=r.choice(["gelu_pytorch_tanh", "gelu"]))
    else:
        c["rms_norm_eps"] = r.choice([1e-6, 1e-2])
    if kind == "phi3":
        part = r.choice([1.0, 0.5])
        p = r.choice([dict(rope_type="default"), dict(rope_type="longrope", short_factor=[r.uniform(1, 2) for _ in range(int(width * part) // 2)],
                                                       long_factor=[r.uniform(1, 8) for _ in range(int(width * part) // 2)])])
        c |= dict(hidden_size=heads * width, original_max_position_embeddings=r.choice([8, 16, 2 * SEQ]),
                  sliding_window=r.choice([None, 8]), rope_parameters=p | dict(rope_theta=100.0, partial_rotary_factor=part))
        c.pop("head_dim", None)
    if kind in ("qwen2", "qwen3") and r.random() < 0.5:
        c |= dict(use_sliding_window=True, sliding_window=r.choice([4, 8]), max_window_layers=r.choice([0, 1, 2]))
    if kind.startswith("gemma"):
        every = r.choice([2, 3])
        layers = ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(c["num_hidden_layers"])]
        c |= dict(head_dim=width, sliding_window=r.choice([4, 8, 4096]), query_pre_attn_scalar=r.choice([width, 4, 7]),
                  layer_types=r.choice([None, layers, ["full_attention"] * len(layers)]),
                  attn_logit_softcapping=r.choice([None, 2.0, 50.0]), final_logit_softcapping=r.choice([None, 1.5, 30.0]))
    if kind == "gemma3_text":
        c["rope_parameters"] = dict(full_attention=c["rope_parameters"],
                                    sliding_attention=dict(rope_type="default", rope_theta=r.choice([50.0, 10000.0])))
    if kind == "mistral":
        c["sliding_window"] = r.choice([None, 8, 4096])
    if kind == "smollm3":
        c["no_rope_layer_interval"] = r.choice([1, 2, 3])
    if kind == "granite":
        c |= dict(embedding_multiplier=r.choice([1.0, 12.0]), attention_multiplier=r.choice([0.0625, 0.25]),
                  residual_multiplier=r.choice([1.0, 0.22]), logits_scaling=r.choice([1.0, 8.0]))
    if kind == "mixtral":
        c |= dict(sliding_window=r.choice([None, 8]), num_local_experts=r.choice([3, 4]), num_experts_per_tok=r.choice([1, 2]), router_aux_loss_coef=0.0)
    if kind in ("llama", "smollm3", "granite", "qwen3", "qwen3_moe", "dots1", "olmo2", "gemma2", "gemma3_text"):
        c["attention_bias"] = r.random() < 0.5
    if kind in ("llama", "smollm3", "granite"):
        c["mlp_bias"] = r.random() < 0.5
    if kind == "qwen3_moe":
        c["decoder_sparse_step"] = r.choice([1, 1, 2]) if c["num_hidden_layers"] > 1 else 1
        c |= dict(num_experts=r.choice([3, 4]), num_experts_per_tok=r.choice([1, 2]), norm_topk_prob=r.random() < 0.5,
                  moe_intermediate_size=r.choice([16, 24]), router_aux_loss_coef=0.0)
    if kind == "dots1":
        layers, groups = c["num_hidden_layers"], r.choice([(1, 1), (2, 1), (4, 2), (4, 3)])
        c |= dict(n_routed_experts=8, num_experts_per_tok=r.choice([1, 2, 4]) if groups[1] > 1 or groups[0] < 4 else 2, n_group=groups[0],
                  topk_group=groups[1], norm_topk_prob=r.random() < 0.5, routed_scaling_factor=r.choice([1.0, 2.5, 16.0]),
                  moe_intermediate_size=r.choice([16, 24]), n_shared_experts=r.choice([1, 2]), sliding_window=None,
                  max_window_layers=layers, first_k_dense_replace=r.choice([0, 0, 1]) if layers > 1 else 0)
    if kind.startswith("deepseek"):
        layers, groups = c["num_hidden_layers"], r.choice([(1, 1), (2, 1), (4, 2), (4, 3)])
        rotated, nope = r.choice([(4, 8), (8, 4), (8, 16), (16, 8)])
        third = kind == "deepseek_v3"
        c |= dict(num_key_value_heads=heads, kv_lora_rank=r.choice([12, 20, 32]), q_lora_rank=r.choice([None, 12, 40]),
                  qk_nope_head_dim=nope, qk_rope_head_dim=rotated, v_head_dim=r.choice([4, 12, nope + rotated, 40]),
                  n_routed_experts=8, num_experts_per_tok=r.choice([1, 2, 4]) if groups[1] > 1 or groups[0] < 4 else 2,
                  n_group=groups[0], topk_group=groups[1], norm_topk_prob=third and r.random() < 0.5,
                  routed_scaling_factor=r.choice([1.0, 2.5, 16.0]), moe_intermediate_size=r.choice([16, 24]),
                  n_shared_experts=r.choice([1, 2]), first_k_dense_replace=r.choice([0, 0, 1]) if layers > 1 else 0,
                  rope_parameters=rope(r, rotated // 2, r.choice([100.0, 10000.0, 500000.0])))
        c.pop("head_dim", None)
        c |= {} if third else dict(topk_method="group_limited_greedy" if groups[0] > 1 else "greedy", aux_loss_alpha=0.0)
        c["hidden_size"] = heads * width
    if kind == "qwen2_moe":
        layers = c["num_hidden_layers"]
        step, first = (r.choice([1, 1, 2]), r.choice([0, 0, 1])) if layers > 2 else (1, r.choice([0, layers - 1]))
        c |= dict(num_experts=r.choice([3, 4]), num_experts_per_tok=r.choice([1, 2]), norm_topk_prob=r.random() < 0.5,
                  moe_intermediate_size=r.choice([16, 24]), shared_expert_intermediate_size=r.choice([16, 20, 48]),
                  decoder_sparse_step=step, mlp_only_layers=r.choice([None, list(range(first))]), router_aux_loss_coef=0.0)
    return c


DRAWS = {"gpt2": draw_gpt2, "gpt_neox": draw_gpt_neox}


def make(at, kind, c, seed):
    shutil.rmtree(at, ignore_errors=True)
    torch.manual_seed(seed)
    config = getattr(hf, CONFIG.get(kind, CLASS[kind]) + "Config")(**c)
    config._attn_implementation = "eager"
    model = getattr(hf, HEAD.get(kind, CLASS[kind] + "ForCausalLM"))(config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * (p.shape[-1] ** -0.5 if p.dim() > 1 else 0.2) + (p.dim() == 1))
        for n, b in model.named_buffers():
            if n.endswith("e_score_correction_bias"):
                b.copy_(torch.randn_like(b) * 0.1)
    model.save_pretrained(at)
    if kind == "deepseek_v3":  # as published: with the block for multi-token prediction
        file = os.path.join(at, "model.safetensors")
        model.further = Further(model, c["num_hidden_layers"])
        save_file(load_file(file) | model.further.published(model), file, metadata={"format": "pt"})
    return model.eval()


class Further(torch.nn.Module):
    """DeepSeek-V3's block behind the last layer (arXiv 2412.19437, 2.2), of transformers' own layer."""

    def __init__(self, model, layer):
        super().__init__()
        last, d = model.model.layers[-1], model.config.hidden_size
        norm = type(model.model.norm)
        self.at = f"model.layers.{layer}."
        self.enorm, self.hnorm = norm(d, model.config.rms_norm_eps), norm(d, model.config.rms_norm_eps)
        self.eh_proj = torch.nn.Linear(2 * d, d, bias=False)
        self.block = type(last)(model.config, layer)
        self.shared_head = torch.nn.ModuleDict({"norm": norm(d, model.config.rms_norm_eps)})
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn_like(p) * (p.shape[-1] ** -0.5 if p.dim() > 1 else 0.2) + (p.dim() == 1))
            for n, b in self.named_buffers():
                b.copy_(torch.randn_like(b) * 0.1 if n.endswith("e_score_correction_bias") else b)

    def named(self, tensors):
        """As files have them."""
        return split({self.at + n.removeprefix("block."): t.detach().clone() for n, t in tensors})

    def published(self, model):
        state = self.named(self.state_dict().items())
        copies = {self.at + "embed_tokens.weight": model.model.embed_tokens.weight.detach().clone()}
        if not model.config.tie_word_embeddings:  # as with lm_head.weight itself
            copies[self.at + "shared_head.head.weight"] = model.lm_head.weight.detach().clone()
        return state | copies

    def loss(self, model, batch):
        """Over all of the positions; the last one has no target."""
        h = model.model(input_ids=batch[:, :-1]).last_hidden_state
        ids, s = batch[:, 1:], h.shape[1]
        x = self.eh_proj(torch.cat([self.enorm(model.model.embed_tokens(ids)), self.hnorm(h)], -1))
        at = torch.arange(s)[None]
        mask = torch.full((s, s), torch.finfo(h.dtype).min, dtype=h.dtype).triu(1)[None, None]
        x = self.block(x, attention_mask=mask, position_ids=at, position_embeddings=model.model.rotary_emb(x, position_ids=at))
        logits = model.lm_head(self.shared_head["norm"](x))[:, :-1]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 2:].flatten(), reduction="sum") / h[..., 0].numel()


# ---- checks --------------------------------------------------------------------------------------

def run(*words):
    p = subprocess.run(words, capture_output=True, text=True)
    return p.returncode, p.stdout, p.stderr


def in_double(model):
    """A copy; the fused products of experts know no float64."""
    own = copy.deepcopy(model)
    if hasattr(own, "set_experts_implementation"):
        own.set_experts_implementation("eager")
    return own.double()


def logits_agree(model, at, name, tokens):
    rc, out, err = run(f"{BUILD}/tests/unit/test_logits", at, *map(str, tokens))
    if not say(rc == 0, f"{name}: is read", err):
        return
    ours = torch.tensor([[float(x) for x in line.split()] for line in out.splitlines()], dtype=torch.float64)
    with torch.no_grad():
        theirs = model(input_ids=torch.tensor([tokens])).logits[0].double()
        exact = in_double(model)(input_ids=torch.tensor([tokens])).logits[0]
    scale = max(theirs.abs().max().item(), 1)
    off, rounded = (((a - theirs).abs().max() / scale).item() for a in (ours, exact))
    top = theirs.topk(2).values
    clear = top[:, 0] - top[:, 1] > 1e-4
    same = bool((ours.argmax(-1) == theirs.argmax(-1))[clear].all())
    say(off <= max(1e-5, 4 * rounded) and same, f"{name}: the same logits (off {off:.0e}, transformers itself {rounded:.0e})",
        f"greedy: {same}")


def run_file(at, model="", train=""):
    """Of the weights in at, whose training is one step of SGD. More keys of these sections."""
    out, file = (os.path.join(WORK, x) for x in ("run", "run.yaml"))
    shutil.rmtree(out, ignore_errors=True)
    with open(file, "w") as f:
        f.write(f"run: {{output: {out}, backend: cpu, threads: 1}}\nmodel: {{config: {at}/config.json, seq: {SEQ}{model}}}\n"
                f"data: {{train: {WORK}/tok, order: sequential}}\n"
                f"train: {{steps: 1, global_batch: 2{train}, optimizer: {{kind: sgd, lr: 1.0, momentum: 0.0, "
                f"weight_decay: 0.0, clip: 0.0}}, schedule: {{kind: constant, warmup: 0}}, init_from: {at}}}\n"
                "checkpoint: {every: 1}\n")
    return file, out


def of_one_length(model):
    """Longrope by the window, as in sennit: transformers goes from short to long factors within a text."""
    config = copy.deepcopy(model.config)
    p = getattr(config, "rope_parameters", None) or dict(rope_type="default")
    p = p.get("full_attention", p)
    if p["rope_type"] != "longrope" or SEQ <= p["original_max_position_embeddings"]:
        return model
    p["short_factor"] = p["long_factor"]
    own = type(model)(config)
    own.load_state_dict(model.state_dict(), strict=False)
    return own.eval()


def texts_agree(model, at, name, tokens):
    """From the first token on that is no clear choice, either may go on as it likes."""
    model = of_one_length(model)
    begin, new = tokens[:5], SEQ - 5
    with torch.no_grad():
        ids = model.generate(torch.tensor([begin]), max_new_tokens=new, do_sample=False, use_cache=True)[0]
        top = model(input_ids=ids[None]).logits[0].topk(2).values
    clear = (top[4:-1, 0] - top[4:-1, 1] > 1e-4).tolist()
    n = clear.index(False) if False in clear else new
    file, _ = run_file(at)
    for how in ([], ["--no-cache"]):
        rc, out, err = run(f"{BUILD}/bin/sennit-train", file, "--generate", " ".join(map(str, begin)), "--tokens", str(new),
                           "--temperature", "0", *how)
        got = [int(word) for word in out.split()][len(begin):]
        say(rc == 0 and len(got) == new and got[:n] == ids[5:5 + n].tolist(),
            f"{name}: the same text{' '.join(['', *how])} ({n} clear choices of {new})", f"rc {rc}: {err}\n{got}\n{ids[5:].tolist()}")


def gradients_of(model, batch, further=0.0):
    """With so much of the loss of tokens further on, in the precision of the model."""
    logits = model(input_ids=batch[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    model.zero_grad()
    if further:
        loss = loss + further * model.further.loss(model, batch)
    loss.backward()
    own = {n: p.grad for n, p in model.named_parameters() if not n.startswith("further.")}
    if model.config.model_type == "gpt_neox" and "lm_head.weight" in own:  # in files
        own["embed_out.weight"] = own.pop("lm_head.weight")
    if further:
        own |= model.further.named((n, p.grad) for n, p in model.further.named_parameters())
    return own


def stepped(at, name, model="", train=""):
    """One step of SGD by sennit, exported: its files."""
    back = os.path.join(WORK, "stepped")
    shutil.rmtree(back, ignore_errors=True)
    file, out = run_file(at, model, train)
    rc, _, err = run(f"{BUILD}/bin/sennit-train", file)
    if rc == 0:
        rc, _, err = run(f"{BUILD}/bin/sennit-convert", f"{out}/ckpt", back, "--to", "safetensors")
    say(rc == 0, f"{name}: takes a step", err)
    return load_file(os.path.join(back, "model.safetensors")) if rc == 0 else None


def split(tensors):
    """Stacks of experts as transformers 5 has them in memory, as its files have them."""
    out = {}
    for n, t in tensors.items():
        if n.endswith("experts.gate_up_proj"):
            for e, both in enumerate(t):
                gate, up = both.chunk(2)
                out |= {n[:-12] + f"{e}.gate_proj.weight": gate, n[:-12] + f"{e}.up_proj.weight": up}
        elif n.endswith("experts.down_proj"):
            out |= {n[:-9] + f"{e}.down_proj.weight": d for e, d in enumerate(t)}
        else:
            out[n] = t
    if any(".block_sparse_moe." in n for n in LAST):
        words = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
        out = {n.replace(".mlp.", ".block_sparse_moe."): t for n, t in out.items()}
        for a, b in words.items():
            out = {n.replace(a, b): t for n, t in out.items()}
    return out


def gradients_agree(model, at, name, batch, further=0.0):
    global LAST
    keys = (", mtp: 1", f", mtp_loss: {further}") if further else ("", "")
    new, old = stepped(at, name, *keys), load_file(os.path.join(at, "model.safetensors"))
    if new is None:
        return
    LAST = new
    rounded = split(gradients_of(model, batch, further))
    want = split(gradients_of(in_double(model), batch, further))
    old = split(old)
    norm = max(g.abs().max().item() for g in want.values())
    worst, where, noise = 0.0, "", 0.0
    moved = ("e_score_correction_bias", ".embed_tokens.weight", ".shared_head.head.weight")  # by counts; copies
    missing = [n for n in new if n not in want and not n.endswith(moved)]
    missing += [n for n in want if further and n not in new]
    for n in new:
        if n not in want:
            continue
        got = old[n].double() - new[n].double()
        scale = max(want[n].abs().max().item(), 1e-3 * norm)
        off = ((got - want[n]).abs().max().item() - 2e-7 * new[n].abs().max().item()) / scale
        noise = max(noise, (rounded[n].double() - want[n]).abs().max().item() / scale)
        worst, where = max((off, n), (worst, where))
    say(worst <= max(1e-4, 4 * noise) and not missing, f"{name}: the same gradients (off {worst:.0e}, transformers itself {noise:.0e})", f"{where} {missing[:3]}")


def renamed(model, first):
    """Three functions are the tanh of gelu, and one of them is written; they round in other places."""
    return any(getattr(model.config, k, None) != getattr(first.config, k, None) for k in ("hidden_act", "activation_function"))


def goes_round(at, name, *further):
    """With these options of blocks behind the last layer, which are dropped without."""
    ckpt, back = os.path.join(WORK, "ckpt"), os.path.join(WORK, "back")
    for path in (ckpt, back):
        shutil.rmtree(path, ignore_errors=True)
    rc, _, err = run(f"{BUILD}/bin/sennit-convert", at, ckpt, "--from", "safetensors", *further)
    if rc == 0:
        rc, _, err = run(f"{BUILD}/bin/sennit-convert", ckpt, back, "--to", "safetensors")
    if not say(rc == 0, f"{name}: is converted, and back", err):
        return
    a, b = (load_file(os.path.join(x, "model.safetensors")) for x in (at, back))
    config = json.load(open(os.path.join(back, "config.json")))
    kind, behind = config["model_type"], f"model.layers.{config.get('num_hidden_layers')}."
    a, b = split({n: t for n, t in a.items() if further or not n.startswith(behind)}), split(b)
    same = a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)
    same &= not further or config["num_nextn_predict_layers"] == 1
    model = hf.AutoModelForCausalLM.from_pretrained(back, dtype=torch.float32, attn_implementation="eager")
    first = hf.AutoModelForCausalLM.from_pretrained(at, dtype=torch.float32, attn_implementation="eager")
    ids = torch.tensor([list(range(SEQ))])
    with torch.no_grad():
        one, other = model.eval()(input_ids=ids).logits, first.eval()(input_ids=ids).logits
        again = torch.equal(one, other) or (renamed(model, first) and (one - other).abs().max() <= 1e-5 * max(other.abs().max(), 1))
    say(same and again, f"{name}: the same bytes, as {kind}, and logits by transformers",
        f"tensors {same}, logits {again}: {sorted(a.keys() ^ b.keys())[:4]}")


def is_refused(at, name, words, *further):
    ckpt = os.path.join(WORK, "ckpt")
    shutil.rmtree(ckpt, ignore_errors=True)
    rc, _, err = run(f"{BUILD}/bin/sennit-convert", at, ckpt, "--from", "safetensors", *further)
    say(rc == 2 and words in err, f"{name}: {words}", f"rc {rc}: {err}")


def with_further(model, at, name, batch):
    """Blocks for multi-token prediction: bytes, gradients, and files that do not have them."""
    goes_round(at, f"{name}, with its further block", "--mtp", "1")
    gradients_agree(model, at, f"{name}, with its further block", batch, 0.3)
    file = os.path.join(at, "model.safetensors")
    tensors, behind = load_file(file), model.further.at
    of, own = (("embed_tokens", "model.embed_tokens") if model.config.tie_word_embeddings else ("shared_head.head", "lm_head"))
    shared = f"{behind}{of}.weight"
    save_file(tensors | {shared: tensors[shared] + 1}, file, metadata={"format": "pt"})
    is_refused(at, name, f"differs from '{own}.weight', which the model's blocks", "--mtp", "1")
    save_file({n: t for n, t in tensors.items() if not n.startswith(behind)}, file, metadata={"format": "pt"})
    is_refused(at, name, "without blocks for multi-token prediction, want model.mtp: 0", "--mtp", "1")


LAST = {}


def main():
    global BUILD, WORK
    a = argparse.ArgumentParser(description="random models of each family against transformers")
    a.add_argument("build")
    a.add_argument("work")
    a.add_argument("--draws", type=int, default=20)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("types", nargs="*")
    a = a.parse_args()
    BUILD, WORK = a.build, a.work
    hf.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    os.makedirs(WORK, exist_ok=True)
    r = random.Random("tokens")
    tokens = [r.randrange(VOCAB) for _ in range(2 * SEQ + 1)]
    write_dataset(os.path.join(WORK, "tok"), [tokens])
    batch = torch.tensor([tokens[:SEQ + 1], tokens[SEQ:]])
    for kind in a.types or CLASS:
        for i in range(a.draws):
            c = draw(random.Random(f"{a.seed} {kind} {i}"), kind)
            at, name = os.path.join(WORK, "theirs"), f"{kind} {i}"
            print(f"# {name}: {json.dumps({k: v for k, v in c.items() if v is not None})}")
            model = make(at, kind, c, a.seed * 1000 + i)
            logits_agree(model, at, name, tokens[:SEQ])
            texts_agree(model, at, name, tokens)
            goes_round(at, name)
            gradients_agree(model, at, name, batch)
            if hasattr(model, "further"):
                with_further(model, at, name, batch)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
