#!/usr/bin/env python3
"""Are an exported model's logits, by PyTorch in float64, the ones that sennit gives?

  logits.py [--spoil gates|experts] DIR LOGITS TOKEN...

DIR holds config.json and model.safetensors (or numbered files and their index), as sennit-convert
--to safetensors writes them. LOGITS is a text file: one line of logits for each token. The forward
passes are those of make_fixtures.py; with the `transformers` package installed, its own loader and
classes must agree too. Prints one line for each implementation; exit 1 when one is off by more than
1e-5 (of the largest logit, or of 1 where all are smaller).

Mixtral's experts may have the names of transformers 4 or 5. --spoil reads them wrongly, gate for up
or two experts of a layer for one another: the answer must be no.
"""
import argparse
import json
import os
import struct
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_fixtures import LOGITS, unstacked  # noqa: E402

TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
LIMIT = 1e-5


def read_file(path):
    with open(path, "rb") as f:
        raw = bytearray(f.read())
    n = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:8 + n])
    assert header.pop("__metadata__") == {"format": "pt"} and n % 8 == 0
    data, out = memoryview(raw)[8 + n:], {}
    for name, e in header.items():
        begin, end = e["data_offsets"]
        flat = torch.frombuffer(data[begin:end], dtype=TYPES[e["dtype"]])
        out[name] = flat.double().reshape(e["shape"])
    return out


def read_weights(at):
    index = os.path.join(at, "model.safetensors.index.json")
    if not os.path.exists(index):
        return read_file(os.path.join(at, "model.safetensors"))
    with open(index) as f:
        files = json.load(f)["weight_map"]
    out = {}
    for file in sorted(set(files.values())):
        part = read_file(os.path.join(at, file))
        assert all(files[name] == file for name in part)
        out |= part
    assert out.keys() == files.keys()
    return out


def read_model(at):
    """config.json in the words of make_fixtures.py."""
    with open(os.path.join(at, "config.json")) as f:
        c = json.load(f)
    family = {"gpt_neox": "gpt-neox"}.get(c["model_type"], c["model_type"])
    get = lambda *names: next(c[n] for n in names if n in c)
    return dict(family=family, layers=get("n_layer", "num_hidden_layers"),
                hidden=get("n_embd", "hidden_size"), heads=get("n_head", "num_attention_heads"),
                kv_heads=c.get("num_key_value_heads"), tied=c["tie_word_embeddings"],
                norm_eps=get("layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps"),
                rope_theta=c.get("rope_theta", c.get("rotary_emb_base")),
                rotary_pct=c.get("rotary_pct"), parallel=c.get("use_parallel_residual"),
                activation={"gelu_new": "gelu_tanh"}.get(c.get("activation_function"),
                                                         c.get("activation_function")),
                share_layers=1,
                experts=dict(count=c.get("num_local_experts"), top_k=c.get("num_experts_per_tok"),
                             capacity_factor=0.0))


def spoil(weights, how):
    """In place: layer 1's gates for ups, or its last two experts for one another."""
    names = [n for n in weights if ".1.block_sparse_moe.experts." in n]
    last = max(int(n.split(".")[-3]) for n in names)
    other = {"gates": {"w1": "w3", "w3": "w1", "w2": "w2"}, "experts": {last: last - 1, last - 1: last}}
    def from_where(name):
        part = name.split(".")
        if how == "gates":
            part[-2] = other[how][part[-2]]
        else:
            part[-3] = str(other[how].get(int(part[-3]), part[-3]))
        return ".".join(part)
    weights |= {n: weights[from_where(n)] for n in names}


def by_transformers(at, ids):
    try:
        import transformers
    except ImportError:
        return None
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        at, torch_dtype=torch.float64, output_loading_info=True)
    lost = {k: v for k, v in info.items() if v}
    assert not lost, lost
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # its grouped product takes no float64
    return model.eval()(input_ids=ids).logits[0].double()


def main():
    a = argparse.ArgumentParser(description="compare the logits of an exported model with ours")
    a.add_argument("--spoil", choices=["gates", "experts"])
    a.add_argument("dir")
    a.add_argument("logits")
    a.add_argument("tokens", type=int, nargs="+")
    a = a.parse_args()
    at, ours, tokens = a.dir, a.logits, a.tokens
    torch.set_num_threads(1)
    with open(ours) as f:
        have = torch.tensor([[float(x) for x in line.split()] for line in f], dtype=torch.float64)
    ids, good = torch.tensor([tokens]), True
    c, weights = read_model(at), unstacked(read_weights(at))
    if a.spoil:
        spoil(weights, a.spoil)
    with torch.no_grad():
        results = {"PyTorch": LOGITS[c["family"]](weights, c, ids)[0],
                   "transformers": None if a.spoil else by_transformers(at, ids)}
    for name, want in results.items():
        if want is None:
            continue
        off = (have - want).abs().max().item() / max(1.0, want.abs().max().item())
        good &= have.shape == want.shape and off <= LIMIT
        print(f"{name}: off by {off:.1e}, limit {LIMIT:.0e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
