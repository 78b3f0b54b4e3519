#!/usr/bin/env python3
"""sennit beside transformers, on small random models: what is taken computes the same, what would not
is refused, and keys that the table calls inert change nothing there either.

  against_transformers.py BUILD WORK [PART...]

BUILD holds sennit's programs, WORK is an empty directory. Parts: same (losses of the first step, by
config.json and from it), refused (train.init_from and sennit-convert), inert (logits with other
values of each such key of docs/HUGGINGFACE.md). Prints TAP without a plan; exit 1 if a point fails.
"""
import json
import os
import random
import re
import shutil
import subprocess
import sys

import torch
import transformers as hf

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_fixtures import write_dataset  # noqa: E402

BUILD, WORK = sys.argv[1], sys.argv[2]
SEQ, VOCAB, LIMIT = 48, 301, 1e-6
RANDOM = random.Random(7)
TOKENS = [RANDOM.randrange(VOCAB) for _ in range(SEQ + 1)]
BATCH = torch.tensor([TOKENS])
SHAPE = dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
             intermediate_size=176, max_position_embeddings=SEQ, bos_token_id=None, eos_token_id=None)
SWIGLU = SHAPE | dict(num_key_value_heads=2, rms_norm_eps=1e-6)
MOE = SWIGLU | dict(rms_norm_eps=1e-5, num_local_experts=4, num_experts_per_tok=2,
                    router_aux_loss_coef=0.0)
GPT2 = dict(vocab_size=VOCAB, n_embd=64, n_layer=3, n_head=4, n_positions=SEQ, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)
HAND = {  # run files written by hand, which say nothing of what defaults are right for
    "gpt2": "family: gpt2, layers: 3, hidden: 64, heads: 4",
    "gpt_neox": "family: gpt-neox, layers: 3, hidden: 64, heads: 4, ffn: 176",
    "llama": "family: llama, layers: 3, hidden: 64, heads: 4, kv_heads: 2, ffn: 176, norm_eps: 1.0e-6",
    "mixtral": "family: mixtral, layers: 3, hidden: 64, heads: 4, kv_heads: 2, ffn: 176, "
               "rope_theta: 1.0e+6, experts: {count: 4, top_k: 2}",
    "qwen2": "family: qwen2, layers: 3, hidden: 64, heads: 4, kv_heads: 2, ffn: 176, norm_eps: 1.0e-6",
}
BASE = {"gpt2": GPT2, "gpt_neox": SHAPE, "llama": SWIGLU, "mistral": SWIGLU, "mixtral": MOE, "qwen2": SWIGLU,
        "smollm3": SWIGLU | dict(pad_token_id=None), "granite": SWIGLU, "qwen3": SWIGLU,
        "qwen3_moe": SWIGLU | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=80), "starcoder2": SHAPE,
        "qwen2_moe": SWIGLU | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=80, shared_expert_intermediate_size=96),
        "phi3": SWIGLU | dict(pad_token_id=None), "olmo2": SWIGLU | dict(pad_token_id=None),
        "gemma2": SWIGLU | dict(head_dim=16, sliding_window=8, pad_token_id=None),
        "gemma3_text": SWIGLU | dict(head_dim=16, sliding_window=8, pad_token_id=None)}
CLASS = {"gpt2": "GPT2", "gpt_neox": "GPTNeoX", "llama": "Llama", "mistral": "Mistral",
         "mixtral": "Mixtral", "qwen2": "Qwen2", "gemma": "Gemma", "granite": "Granite",
         "smollm3": "SmolLM3", "qwen3": "Qwen3", "qwen3_moe": "Qwen3Moe", "qwen2_moe": "Qwen2Moe", "starcoder2": "Starcoder2", "phi3": "Phi3", "olmo2": "Olmo2",
         "gemma2": "Gemma2", "gemma3_text": "Gemma3"}
CONFIG = {"gemma3_text": "Gemma3Text"}
bad = points = 0


def say(good, text, why=""):
    global bad, points
    points += 1
    bad += not good
    print(f"{'ok' if good else 'not ok'} {points} - {text}")
    if not good and why:
        print("# " + why.replace("\n", "\n# "))


def make(name, kind, raw=None, **more):
    """A random model with its files; `raw` is put into config.json by hand, None there removes."""
    at = os.path.join(WORK, name)
    shutil.rmtree(at, ignore_errors=True)
    torch.manual_seed(11)
    config = getattr(hf, CONFIG.get(kind, CLASS[kind]) + "Config")(**(BASE.get(kind, SWIGLU) | more))
    config._attn_implementation = "eager"
    model = getattr(hf, CLASS[kind] + ("LMHeadModel" if kind == "gpt2" else "ForCausalLM"))(config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * (0.25 if p.dim() > 1 else 0.1) + (p.dim() == 1))
    model.save_pretrained(at)
    if raw:
        file = os.path.join(at, "config.json")
        with open(file) as f:
            text = json.load(f)
        for key, value in raw.items():
            text.pop(key, None) if value is None else text.__setitem__(key, value)
        with open(file, "w") as f:
            json.dump(text, f)
    return at


def logits(at, **more):
    model = hf.AutoModelForCausalLM.from_pretrained(at, dtype=torch.float32,
                                                    attn_implementation="eager", **more)
    with torch.no_grad():
        return model.eval()(input_ids=BATCH[:, :-1]).logits


def their_loss(at):
    return torch.nn.functional.cross_entropy(logits(at)[0], BATCH[0, 1:]).item()


def run(*words):
    p = subprocess.run(words, capture_output=True, text=True)
    return p.returncode, p.stderr


def train(name, model, weights, more=""):
    """Exit code, words, and the loss of one step from the weights."""
    out, file = os.path.join(WORK, "run-" + name), os.path.join(WORK, name + ".yaml")
    shutil.rmtree(out, ignore_errors=True)
    with open(file, "w") as f:
        f.write(f"run: {{output: {out}, backend: cpu}}\nmodel: {{{model}}}\n"
                f"data: {{train: {WORK}/tok, order: sequential}}\n"
                f"train: {{steps: 1, global_batch: 1, init_from: {weights}{more}}}\n")
    rc, err = run(f"{BUILD}/bin/sennit-train", file)
    if rc:
        return rc, err, None
    with open(os.path.join(out, "metrics.jsonl")) as f:
        return rc, err, json.loads(f.readline())["loss"]


def same(name, kind, raw=None, **more):
    at = make("zoo", kind, raw, **more)
    want = their_loss(at)
    for how, weights in (("", at), (", converted", os.path.join(WORK, "ckpt"))):
        if how:
            shutil.rmtree(weights, ignore_errors=True)
            run(f"{BUILD}/bin/sennit-convert", at, weights, "--from", "safetensors")
        rc, err, got = train("same", f"config: {at}/config.json, seq: {SEQ}, dropout: 0.0", weights)
        off = abs(got / want - 1) if got else float("nan")
        say(rc == 0 and off <= LIMIT, f"{kind}: {name}{how}: the same loss ({want:.6f}, off {off:.0e})", err)


def refused(name, words, kind, raw=None, run_as=None, converted=None, **more):
    """By a run file written by hand; and by the converter, or (`converted`) then by the run file."""
    at = make("zoo", kind, raw, **more)
    hand = HAND[run_as or kind] + f", vocab: {VOCAB}, seq: {SEQ}"
    rc, err, got = train("refused", hand, at)
    say(rc == 2 and re.search(words, err), f"{kind}: {name}: refused", f"rc {rc}, {err}")
    if rc == 2:
        print("# " + err.strip().split("\n")[-1].replace(WORK + "/", ""))
    ckpt = os.path.join(WORK, "ckpt")
    shutil.rmtree(ckpt, ignore_errors=True)
    rc, err = run(f"{BUILD}/bin/sennit-convert", at, ckpt, "--from", "safetensors")
    if not converted:
        say(rc == 2 and re.search(words, err), f"{kind}: {name}: not converted", f"rc {rc}, {err}")
        return
    rc, err, got = train("refused", hand, ckpt)
    say(rc == 2 and re.search(words, err), f"{kind}: {name}: refused, converted", f"rc {rc}, {err}")


def all_same():
    same("as it is", "gpt2")
    for act in ("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu", "gelu_python"):
        same(act, "gpt2", activation_function=act)
        same(act, "gpt_neox", hidden_act=act)
    same("other names of keys", "gpt2", dict(n_head=None, num_attention_heads=4, n_embd=None, hidden_size=64))
    same("n_inner, untied, epsilon", "gpt2", n_inner=100, tie_word_embeddings=False, layer_norm_epsilon=1e-2)
    same("reorder_and_upcast_attn", "gpt2", reorder_and_upcast_attn=True)
    for pct in (0.25, 0.5, 1.0):
        same(f"rotary_pct {pct}", "gpt_neox", rotary_pct=pct)
    same("sequential, tied, theta", "gpt_neox", use_parallel_residual=False, tie_word_embeddings=True,
         rotary_emb_base=500)
    same("keys of transformers 4", "gpt_neox",
         dict(rope_parameters=None, rotary_pct=0.5, rotary_emb_base=500, rope_theta=500,
              partial_rotary_factor=0.5), rotary_pct=0.5, rotary_emb_base=500)
    same("as it is", "llama")
    for heads in (1, 4):
        same(f"{heads} heads of keys", "llama", num_key_value_heads=heads)
    same("theta, epsilon, tied", "llama", rope_parameters=dict(rope_type="default", rope_theta=200.0),
         rms_norm_eps=1e-2, tie_word_embeddings=True)
    same("theta outside", "llama", dict(rope_parameters=None, rope_theta=200.0, rope_scaling=None))
    same("rope_scaling of type default", "llama",
         dict(rope_parameters=None, rope_theta=200.0, rope_scaling=dict(type="default")))
    same("keys left out", "llama", dict(rope_parameters=None, hidden_act=None, head_dim=None,
                                        rms_norm_eps=None, tie_word_embeddings=None))
    same("biases", "llama", attention_bias=True, mlp_bias=True)
    same("layers without experts", "qwen3_moe", decoder_sparse_step=2, head_dim=16, attention_bias=True)
    same("a gate over shared experts, first layers without", "qwen2_moe", mlp_only_layers=[0])
    same("without a window", "mistral", sliding_window=None)
    same("a window past its sequences", "mistral", sliding_window=SEQ)
    same("a window", "mistral", sliding_window=8)
    same("a window", "mixtral", sliding_window=8)
    same("mistral's own window", "mistral", dict(sliding_window=None))
    same("as it is", "qwen2")
    same("theta, epsilon, tied", "qwen2", rope_parameters=dict(rope_type="default", rope_theta=200.0),
         rms_norm_eps=1e-2, tie_word_embeddings=True)
    same("a window past its sequences", "qwen2", use_sliding_window=True, sliding_window=SEQ,
         max_window_layers=0)
    same("a window of no layer", "qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=3)
    window = dict(use_sliding_window=True, sliding_window=8, max_window_layers=2)
    same("a window", "qwen2", **window)
    same("a window without layer_types", "qwen2", dict(layer_types=None), **window)
    same("windows by layer_types", "qwen3", head_dim=16, use_sliding_window=True, sliding_window=8,
         layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    same("as it is", "gemma2", dict(layer_types=None))
    same("neither cap", "gemma2", attn_logit_softcapping=None, final_logit_softcapping=None)
    same("as version 4 writes it", "gemma3_text", dict(
        layer_types=None, rope_parameters=None, rope_theta=5000.0, rope_local_base_freq=50.0,
        sliding_window_pattern=2, rope_scaling=dict(rope_type="linear", factor=8.0)))
    for top_k in (1, 2, 3):
        same(f"top {top_k}", "mixtral", num_experts_per_tok=top_k)
    same("theta, epsilon, tied, a window past its sequences", "mixtral", rms_norm_eps=1e-3,
         rope_parameters=dict(rope_type="default", rope_theta=200.0), tie_word_embeddings=True,
         sliding_window=64)
    same("num_experts", "mixtral", dict(num_local_experts=None, num_experts=4))


def both(key, theirs, ours):
    return f"come with '{key}: {theirs}', but the run file has '{key}: {ours}'"


def all_refused():
    rope = lambda **more: dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0) | more)
    refused("theta 200", both("rope_theta", "200", "10000"), "llama", converted=True, **rope(rope_theta=200.0))
    refused("linear", both("rope_scaling.type", "linear", "default"), "llama", converted=True,
            **rope(rope_type="linear", factor=4.0))
    refused("linear without a factor", "factor is missing", "llama",
            dict(rope_parameters=dict(type="linear", rope_theta=10000.0)))
    refused("partial_rotary_factor", "partial_rotary_factor: 0.5 is not supported", "llama",
            dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)))
    refused("epsilon", both("norm_eps", "0.01", "1e-06"), "llama", converted=True, rms_norm_eps=1e-2)
    refused("gelu", "hidden_act: gelu is not supported", "llama", hidden_act="gelu")
    refused("8 heads", both("heads", "8", "4"), "llama", converted=True, num_attention_heads=8,
            num_key_value_heads=4)
    refused("attention_dropout", "attention_dropout: 0.5 is not supported", "llama", attention_dropout=0.5)
    refused("biases", both("attention_bias", "true", "false"), "llama", converted=True, attention_bias=True)
    refused("window 8", both("sliding_window", "8", "none"), "mistral", run_as="llama", converted=True,
            sliding_window=8)
    refused("another norm", "model_type: 'gemma' is not supported", "gemma", run_as="llama", head_dim=16)
    refused("multipliers", both("attention_scale", "1", "auto"), "granite", run_as="llama", converted=True)
    refused("relu", "activation_function: relu is not supported", "gpt2", activation_function="relu")
    refused("scale_attn_weights", "scale_attn_weights: false is not", "gpt2", scale_attn_weights=False)
    refused("scores by layer", "inverse_layer_idx: true is not", "gpt2", scale_attn_by_inverse_layer_idx=True)
    refused("two numbers of heads", "n_head: 4, but num_attention_heads: 8, another name", "gpt2",
            dict(num_attention_heads=8))
    refused("relu", "hidden_act: relu is not supported", "gpt_neox", hidden_act="relu")
    refused("sequential", both("parallel_residual", "false", "true"), "gpt_neox", converted=True,
            use_parallel_residual=False)
    refused("theta 500", both("rope_theta", "500", "10000"), "gpt_neox", converted=True, rotary_emb_base=500)
    refused("rotary_pct", both("rotary_pct", "0.5", "0.25"), "gpt_neox", converted=True, rotary_pct=0.5)
    refused("wavelengths of no kind of layers", "unknown key 'rope_parameters.rope_theta'", "gemma3_text",
            dict(rope_parameters=dict(rope_theta=5000.0)), run_as="llama")
    refused("another gate", "hidden_activation: gelu is not supported", "gemma2",
            dict(hidden_activation="gelu"), run_as="llama")
    refused("window 8", both("sliding_window", "8", "none"), "mixtral", converted=True, sliding_window=8)
    refused("top 1", both("experts.top_k", "1", "2"), "mixtral", converted=True, num_experts_per_tok=1)
    refused("theta 200", re.escape(both("rope_theta", "200", "1e+06")), "mixtral", converted=True, **rope(rope_theta=200.0))
    refused("jitter", "router_jitter_noise: 0.1[0-9]* is not", "mixtral", router_jitter_noise=0.1)


# ---- inert keys ----------------------------------------------------------------------------------

def inert_keys():
    """By type, from the page that the table is printed as."""
    page = subprocess.run([f"{BUILD}/bin/sennit-plan", "--help-keys=huggingface"], capture_output=True,
                          text=True, check=True).stdout
    out = {kind: [] for kind in BASE}
    for section in page.split("\n## ")[1:]:
        title, text = section.split("\n", 1)
        keys = re.findall(r"^\| `([^`]*)` \| changes nothing", text, re.M)
        for kind in re.split(r", | and ", title):
            out[kind] += keys
    return out


def all_inert():
    for kind, keys in inert_keys().items():
        at = make("zoo", kind)
        file = os.path.join(at, "config.json")
        with open(file) as f:
            base = json.load(f)
        want, tried, refusals, changed = logits(at), 0, 0, []
        for key in keys:
            if key == "model_type":
                continue
            old = base.get(key)
            values = [not old] if isinstance(old, bool) else [True, 3, 0.5, "x", {"a": 1}]
            for value in values:
                text = json.loads(json.dumps(base))
                if key.startswith("rope_parameters.") and kind != "gemma3_text":
                    text["rope_parameters"][key.split(".")[1]] = value
                else:
                    text[key] = value
                with open(file, "w") as f:
                    json.dump(text, f)
                tried += 1
                try:
                    if not torch.equal(logits(at), want):
                        changed.append(f"{key}: {value}")
                except Exception:  # such a file is no model there
                    refusals += 1
        say(not changed, f"{kind}: {len(keys)} inert keys change no logit there ({tried} values, "
                         f"{refusals} refused there)", ", ".join(changed))


def main():
    hf.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    os.makedirs(WORK, exist_ok=True)
    write_dataset(os.path.join(WORK, "tok"), [TOKENS])
    parts = {"same": all_same, "refused": all_refused, "inert": all_inert}
    for name in sys.argv[3:] or parts:
        parts[name]()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
