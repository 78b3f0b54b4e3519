#!/usr/bin/env python3
"""PEFT's word on adapters that sennit exported: peft_logits.py BASE ADAPTER MERGED

BASE and MERGED are directories of transformers, ADAPTER is one of PEFT. Prints how far the logits of
20 tokens are apart, of the merged model and of the base with its adapters, and how far the merged
weights and those that PEFT merges itself; exits with 1 if the first is more than 1e-5 of the largest
logit, the second more than 1e-6.
"""
import sys

import peft
import torch
import transformers


def load(path):
    return transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager").eval()


def main():
    base, adapter, merged = sys.argv[1:]
    transformers.logging.set_verbosity_error()
    model = load(merged)
    adapted = peft.PeftModel.from_pretrained(load(base), adapter).eval()
    ids = torch.tensor([[(7 * i + 3) % model.config.vocab_size for i in range(20)]])
    with torch.no_grad():
        ours, theirs, without = model(ids).logits, adapted(ids).logits, load(base)(ids).logits
    far = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    moved = ((without - theirs).abs().max() / theirs.abs().max()).item()
    weights = adapted.merge_and_unload().state_dict()
    apart = max((w - weights[n]).abs().max().item() for n, w in model.state_dict().items())
    print(f"logits off by {far:.1e} of the largest (without adapters {moved:.1e}), weights by {apart:.1e}")
    return 0 if far < 1e-5 < 1e-3 < moved and apart < 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
