#!/usr/bin/env python3
"""PEFT's word on train.lora.base: qlora_reference.py DIR BASE

Writes into DIR a small Llama of transformers, adapters of PEFT's and data; DIR/run.yaml, which trains them with
train.lora.base BASE; and DIR/loss and DIR/grad_norm, what PEFT's training gives in float64 when the weights of
attention and of the feed-forward part are those that the codes stand for. The codes are made here, by the words of
docs/FINETUNE.md and in numpy.
"""
import os
import sys

import numpy
import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_fixtures as own  # noqa: E402
import make_lora as lora  # noqa: E402

CASE = dict(r=4, alpha=10, targets=list(lora.OURS), seed=1618)
TOPS = {"int8": 127, "int4": 7, "nf4": 1}
# Dettmers et al., arXiv 2305.14314, appendix E
NF4 = numpy.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                   -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                   0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                   0.7229568362236023, 1.0], dtype=numpy.float32)


def to_bfloat16(x):
    """The nearest, to even in the middle."""
    bits = x.astype(numpy.float32).view(numpy.uint32).astype(numpy.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(numpy.uint32).view(numpy.float32)


def coded(weight, base):
    """Blocks of 128 of a row: scale = bf16(max / top), codes = round(w / scale) in -top .. top; of nf4 the nearest level."""
    top = numpy.float32(TOPS[base])
    blocks = weight.detach().numpy().astype(numpy.float32).reshape(-1, 128)
    scale = to_bfloat16(numpy.abs(blocks).max(axis=1, keepdims=True) / top)
    if base == "nf4":
        codes = NF4[numpy.abs((blocks / scale)[:, :, None] - NF4).argmin(axis=2)]
    else:
        codes = numpy.clip(numpy.rint(blocks / scale), -top, top)
    return torch.from_numpy((codes * scale).reshape(tuple(weight.shape)))


def build():
    torch.manual_seed(CASE["seed"])
    config = transformers.LlamaConfig(
        vocab_size=lora.VOCAB, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=lora.SEQ,
        rope_parameters={"rope_type": "default", "rope_theta": 3000.0}, rms_norm_eps=1e-4)
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * (0.07 if p.dim() > 1 else 0.1) + (p.dim() == 1))
    return model


def main():
    at, base = sys.argv[1:]
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    model = build()
    model.save_pretrained(at)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.split(".")[-2] in lora.OURS:
                p.copy_(coded(p, base))
    model = lora.adapt(model, CASE)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.mul_(0.1)  # as small beside the weights as those of make_lora.py are
    model.save_pretrained(os.path.join(at, "adapter"))
    docs = own.make_documents(dict(vocab=lora.VOCAB, seq=lora.SEQ, seed=CASE["seed"]))
    own.write_dataset(os.path.join(at, "data"), docs)
    result = lora.train(model, [t for d in docs for t in d])
    for key in ("loss", "grad_norm"):
        with open(os.path.join(at, key), "w") as f:
            f.writelines(f"{x}\n" for x in result[key])
    text = lora.run_file("qlora", CASE).replace("tests/parity/fixtures/qlora", at)
    text = text.replace("output: build/parity/qlora", f"output: {at}/out")
    with open(os.path.join(at, "run.yaml"), "w") as f:
        f.write(text.replace("lora: {", f"lora: {{base: {base}, "))


if __name__ == "__main__":
    main()
