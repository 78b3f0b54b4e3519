#!/usr/bin/env python3
"""Does transformers say the same of continuations as sennit-train --score?

  score.py DIR REQUESTS ANSWERS BEGIN

DIR is an exported model whose tokens are bytes. Each request is cut into tokens and windows as EleutherAI's
harness does it (lm_eval.models.huggingface and lm_eval.utils.get_rolling_token_windows, which this repeats
in its own words), each window goes alone through the model of transformers in float64. Prints what is off
by more than 1e-5 of a token's log-probability; exit 1 then.
"""
import json
import sys

import torch
import transformers

LIMIT = 1e-5


def tokens_of(v):
    return list(v.encode()) if isinstance(v, str) else v


def windows(request, seq, begin):
    """(inputs, predicted) of each window."""
    if "text" in request:
        all_tokens, out, done = tokens_of(request["text"]), [], 0
        while done < len(all_tokens):
            n = min(seq, len(all_tokens) - done)
            end = done + n
            before = [begin] + all_tokens[:end - 1]
            out.append((before[-seq:] if done else before, all_tokens[done:end]))
            done = end
        return out
    context, continuation = request.get("context", ""), request["continuation"]
    if isinstance(continuation, str):
        blanks = len(context) - len(context.rstrip())
        if blanks:
            continuation = context[-blanks:] + continuation
            context = context[:-blanks]
    c, x = tokens_of(context) or [begin], tokens_of(continuation)
    return [((c + x)[-(seq + 1):][:-1], x)]


def main():
    at, requests, answers, begin = sys.argv[1:5]
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(at, torch_dtype=torch.float64).eval()
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # its grouped product takes no float64
    seq, bad, tokens, worst = model.config.max_position_embeddings, 0, 0, 0.0
    with open(requests) as f, open(answers) as g:
        asked = [json.loads(line) for line in f if line.strip()]
        said = [json.loads(line) for line in g]
    assert len(asked) == len(said)
    for request, have in zip(asked, said):
        total, greedy, n = 0.0, True, 0
        for inputs, predicted in windows(request, seq, int(begin)):
            assert len(inputs) <= seq
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([inputs])).logits[0, -len(predicted):]
            p = torch.log_softmax(logits.double(), -1)
            total += sum(p[i, t].item() for i, t in enumerate(predicted))
            greedy &= logits.argmax(-1).tolist() == predicted
            n += len(predicted)
        off = abs(total - have["logprob"]) / n
        worst, tokens = max(worst, off), tokens + n
        if off > LIMIT or greedy != have["greedy"] or n != have["tokens"] or \
                have.get("id") != request.get("id"):
            bad += 1
            print(f"{request}: {total} {greedy} {n}, said {have}")
    print(f"{len(asked)} requests, {tokens} tokens: off by {worst:.1e} a token, limit {LIMIT:.0e}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
