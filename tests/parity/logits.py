#!/usr/bin/env python3
"""Are an exported model's logits, by PyTorch in float64, the ones that sennit gives?

  logits.py DIR LOGITS TOKEN...

DIR holds config.json and model.safetensors (or numbered files and their index), as sennit-convert
--to safetensors writes them. LOGITS is a text file: one line of logits for each token. The forward
passes are those of make_fixtures.py; with the `transformers` package installed, its own loader and
classes must agree too. Prints one line for each implementation; exit 1 when one is off by more than
1e-5 (of the largest logit, or of 1 where all are smaller).
"""
import json
import os
import struct
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_fixtures import LOGITS  # noqa: E402

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
    family = {"gpt2": "gpt2", "gpt_neox": "gpt-neox", "llama": "llama"}[c["model_type"]]
    get = lambda *names: next(c[n] for n in names if n in c)
    return dict(family=family, layers=get("n_layer", "num_hidden_layers"),
                hidden=get("n_embd", "hidden_size"), heads=get("n_head", "num_attention_heads"),
                kv_heads=c.get("num_key_value_heads"), tied=c["tie_word_embeddings"],
                norm_eps=get("layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps"),
                rope_theta=c.get("rope_theta", c.get("rotary_emb_base")),
                rotary_pct=c.get("rotary_pct"), parallel=c.get("use_parallel_residual"),
                share_layers=1)


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
    return model.eval()(input_ids=ids).logits[0].double()


def main():
    at, ours, tokens = sys.argv[1], sys.argv[2], [int(t) for t in sys.argv[3:]]
    torch.set_num_threads(1)
    with open(ours) as f:
        have = torch.tensor([[float(x) for x in line.split()] for line in f], dtype=torch.float64)
    ids, good = torch.tensor([tokens]), True
    c = read_model(at)
    with torch.no_grad():
        results = {"PyTorch": LOGITS[c["family"]](read_weights(at), c, ids)[0],
                   "transformers": by_transformers(at, ids)}
    for name, want in results.items():
        if want is None:
            continue
        off = (have - want).abs().max().item() / max(1.0, want.abs().max().item())
        good &= have.shape == want.shape and off <= LIMIT
        print(f"{name}: off by {off:.1e}, limit {LIMIT:.0e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
