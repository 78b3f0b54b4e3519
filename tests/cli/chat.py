#!/usr/bin/env python3
"""chat.py - conversations by transformers' apply_chat_template, for tests/cli/test_chat.sh.

usage: chat.py SENNIT-DATA TOKENIZER.json N SEED TEMPLATE...   N random conversations by each template, tokens and what counts
       by both; prints those that differ

What counts, where a template has {% generation %}: assistant_masks. Where it has none: tokens that overlap a turn, which is what
the template makes of the messages up to it, behind what it makes of those before it and its prompt."""
import json
import os
import random
import subprocess
import sys
import tempfile

from transformers import PreTrainedTokenizerFast

WORDS = ["hello", "W\u00f6rld", "\u65e5\u672c\u8a9e", "\U0001f642", " ", "\n", "\n\n", "<|im_end|>", "<|im_start|>user", "</s>", "", "a b", "it's",
         "<think>\nhm\n</think>\n\nans", "tab\t", "  lead", "trail  ", "\u00a0nb", " [INST]", "0", "12345", "\u3000", "!!!\n", "<|endoftext|>"]
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>",
           "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>",
           "<|User|>", "<|Assistant|>", "[INST]", "[/INST]"]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "does <b> & '\u00e9'", "parameters": {
    "type": "object", "properties": {"x": {"type": "integer", "description": "n"}}, "required": ["x"]}}}]


def text(r):
    return "".join(r.choice(WORDS) for _ in range(r.randint(0, 5)))


def conversation(r):
    m = [{"role": "system", "content": text(r)}] if r.random() < .3 else []
    calls = r.random() < .4
    for _ in range(r.randint(1, 4)):
        m.append({"role": "user", "content": text(r)})
        if calls and r.random() < .5:
            m.append({"role": "assistant", "content": r.choice([None, text(r)]), "tool_calls": [
                {"type": "function", "id": "abcdefghi", "function": {"name": "f", "arguments": {"x": 1, "s": text(r)}}}]})
            m.append({"role": "tool", "name": "f", "tool_call_id": "abcdefghi", "content": text(r)})
        m.append({"role": "assistant", "content": text(r)})
        if r.random() < .1:
            m[-1]["reasoning_content"] = text(r)
    line = {"messages": m}
    if calls and r.random() < .5:
        line["tools"] = TOOLS
    return line


def turns(t, line, whole, v):
    """Spans of assistants' turns, by prefixes; an error where the whole does not begin so."""
    m, spans = line["messages"], []
    for i, one in enumerate(m):
        if one["role"] != "assistant":
            continue
        ends = []
        for n, prompt in ((i, True), (i + 1, False)):
            part = t.apply_chat_template(m[:n], tools=line.get("tools"), tokenize=False, add_generation_prompt=prompt, **v)
            if not whole.startswith(part):
                raise ValueError("no prefix")
            ends.append(len(part))
        end = len(whole[:ends[1]].rstrip(" \t\r\n"))
        spans.append((ends[0], end))
    return spans


def expected(t, line, marks, v):
    m = line["messages"]
    if marks:
        out = t.apply_chat_template(m, tools=line.get("tools"), return_assistant_tokens_mask=True, return_dict=True, **v)
        return out["input_ids"], out["assistant_masks"]
    whole = t.apply_chat_template(m, tools=line.get("tools"), tokenize=False, **v)
    spans = turns(t, line, whole, v)
    enc = t(whole, add_special_tokens=False, return_offsets_mapping=True)
    return enc["input_ids"], [int(any(a < e and b > s for s, e in spans)) for a, b in enc["offset_mapping"]]


def tokens(sennit, prefix, n):
    out = subprocess.run([sennit, "print", prefix, "--document", str(n), "--tokens", "1000000"], capture_output=True, text=True, check=True).stdout
    words = out.splitlines()[-1].split() if out else []
    return [int(w.lstrip("-")) for w in words], [int(w[0] != "-") for w in words]


def compare(sennit, tokenizer, template, n, r, folder):
    with open(template, newline="") as f:
        source = f.read()
    os.makedirs(folder)
    with open(tokenizer) as f:
        file = json.load(f)
    vocab = file["model"]["vocab"]
    known = {a["content"] for a in file["added_tokens"]} | {v if isinstance(vocab, dict) else v[0] for v in vocab}
    first = max([len(vocab)] + [a["id"] + 1 for a in file["added_tokens"]])
    file["added_tokens"] += [{"id": first + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": i % 4 != 3} for i, s in enumerate(x for x in SPECIAL if x not in known)]

    def untrimmed(p):  # else what has blanks alone has no place
        if isinstance(p, dict):
            return {k: False if k == "trim_offsets" else untrimmed(x) for k, x in p.items()}
        return [untrimmed(x) for x in p] if isinstance(p, list) else p
    file["post_processor"] = untrimmed(file["post_processor"])
    path = os.path.join(folder, "tokenizer.json")
    with open(path, "w") as f:
        json.dump(file, f)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": source}, f)
    t = PreTrainedTokenizerFast(tokenizer_file=path, bos_token="<s>", eos_token="</s>", chat_template=source)
    v = {"date_string": "26 Jul 2024"}
    lines = [conversation(r) for _ in range(n)]
    want = []
    marks = "generation %}" in source or "generation -%}" in source
    for line in lines:
        try:
            want.append(expected(t, line, marks, v))
        except Exception as e:
            want.append(None)
    chats = os.path.join(folder, "chats.jsonl")
    with open(chats, "w") as f:
        f.writelines(json.dumps(x, ensure_ascii=r.random() < .5) + "\n" for x in lines)
    run = subprocess.run([sennit, "tokenize", chats, "--chat", "--tokenizer", path, "--out", os.path.join(folder, "o"), "--skip-bad", str(n),
                          "--chat-arg", "date_string=26 Jul 2024", "--chat-date", "2026-11-27"], capture_output=True, text=True)
    left = set()
    for x in run.stderr.splitlines():
        if "left out:" in x:
            left.add(int(x.split("chats.jsonl:")[1].split(":")[0]) - 1)
    document, bad, same = 0, 0, 0
    if run.returncode and len(left) < n:
        print(f"{template}: {run.stderr}")
        return 0
    for i, w in enumerate(want):
        if i in left:
            if w is not None:
                bad += 1
                print(f"{template}: {json.dumps(lines[i])[:300]}: refused: " + next(x for x in run.stderr.splitlines() if f"jsonl:{i + 1}:" in x)[-300:])
            continue
        got = tokens(sennit, os.path.join(folder, "o", "tokens"), document)
        document += 1
        same += w is not None and (list(w[0]), list(w[1])) == got
        if w is None or (list(w[0]), list(w[1])) != got:
            bad += 1
            print(f"{template}: {json.dumps(lines[i])[:400]}\n   got {got}\n  want {w}")
        if bad > 1:
            break
    return same


def main():
    sennit, tokenizer, n, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with tempfile.TemporaryDirectory() as top:
        for k, template in enumerate(sys.argv[5:]):
            same = compare(sennit, tokenizer, template, n, random.Random(seed + k), os.path.join(top, str(k)))
            if os.environ.get("VERBOSE"):
                print(f"{template}: {same} of {n} conversations by both, the same", file=sys.stderr)


if __name__ == "__main__":
    main()
