#!/bin/sh
# test_score.sh - sennit-train --score: probabilities of continuations, in several layouts, and what is refused.
# Held to transformers with a Python that has it (TORCH_PYTHON; default python3): tests/parity/score.py. With ALL=1
# each family in each layout.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
python=${TORCH_PYTHON:-python3}
theirs=yes
"$python" -c 'import torch, transformers' 2>/dev/null || theirs=
make_tokens "$tmp/tok"

# Long ones, short ones, no context, blanks at the end of one; more than a sample holds.
cat >"$tmp/ask.jsonl" <<'J'
{"context": "The source code ", "continuation": "of the work"}
{"id": 7, "context": "The source code", "continuation": " of the work"}
{"context": "Errors\u0020", "continuation": "are \u00e9", "id": {"a": [1, "x y"]}}

{"id": null, "text": "A text of more than sixty-four bytes, which has to be looked at through two windows, or is it three, of which each has what fits before it."}
{"text": [65, 66, 67]}
{"context": "Whatever is far before the end of a long context is left out of what the model sees, since it sees so many tokens at once and no more,", "continuation": " here"}
{"context": "", "continuation": "an"}
{"context": [84, 104, 101, 32], "continuation": [101]}
J
requests=8

# The same answers: logprobs within 2e-6 of their size, all else equal.
same() { # file file
    paste -d'|' "$1" "$2" | awk -F'|' '
        { for (i = 1; i <= 2; i++) { n[i] = rest[i] = $i; sub(/.*"logprob": /, "", n[i]); sub(/,.*/, "", n[i])
                                     sub(/"logprob": [^,]*/, "", rest[i]) }
          d = n[1] - n[2]; d = d < 0 ? -d : d; lines++
          if (rest[1] != rest[2] || d > 2e-6 * (n[2] < 0 ? -n[2] : n[2])) { print "# " $0; bad = 1 } }
        END { exit bad || !lines }'
}

one() { # family [model keys]: trained and asked
    family=$1
    run_file "$tmp/$family.yaml" "$tmp/$family"
    [ -z "${2:-}" ] || sed -i "s/^  vocab: .*/&\n  $2/" "$tmp/$family.yaml"
    run "$train" "$tmp/$family.yaml"
    is "$family: trains" "$rc" 0
    # What it would write itself, the likeliest each time.
    text=$("$train" "$tmp/$family.yaml" --generate 'The source' --tokens 6 --temperature 0 2>/dev/null | tail -c 7)
    { cat "$tmp/ask.jsonl" && printf '{"context": "The source", "continuation": "%s"}\n' "$text"; } >"$tmp/$family.ask"
    run "$train" "$tmp/$family.yaml" --score "$tmp/$family.ask" --begin 10
    is "$family: an answer to each" "$rc $(printf '%s\n' "$out" | wc -l)" "0 $((requests + 1))"
    [ "$rc" = 0 ] || tap_lines "$family" "$err"
    printf '%s\n' "$out" >"$tmp/$family.out"
    like "$family: what it writes is the likeliest" "$(tail -n 1 "$tmp/$family.out")" '"greedy": true, "tokens": 6,'
    if [ -z "$theirs" ]; then
        skip "$family: transformers says the same" "no transformers in $python (TORCH_PYTHON names another)"
        return
    fi
    "$BUILD/bin/sennit-convert" "$tmp/$family/ckpt" "$tmp/$family/hf" --to safetensors >/dev/null 2>&1
    run "$python" tests/parity/score.py "$tmp/$family/hf" "$tmp/$family.ask" "$tmp/$family.out" 10
    is "$family: transformers says the same" "$rc" 0
    tap_lines "$family" "$out"
}

in_layout() { # name ranks keys
    sed "s/^layout: {/&$3, /" "$tmp/$family.yaml" >"$tmp/$1.yaml"
    run mpi "$2" "$train" "$tmp/$1.yaml" --score "$tmp/$family.ask" --begin 10
    printf '%s\n' "$out" >"$tmp/$1.out"
    [ "$rc" = 0 ] || tap_lines "$1" "$err"
    ok "$family, $1: the same answers" same "$tmp/$1.out" "$tmp/$family.out"
}

all_layouts() {
    in_layout tensor 2 'tensor: 2'
    in_layout pipeline 2 'pipeline: 2'
    in_layout data 2 'data: 2, zero: 3'
    in_layout ring 2 'context: 2'
    in_layout swapped 2 'context: 2, context_kind: all-to-all'
    in_layout grid 4 'tensor: 2, context: 2'
}

steps=20 eval_every=0 lr=3.0e-3 batch=4
one llama 'rope_theta: 10000.0'
is "what does not fit is left out" "$(sed -n '1s/.*left_out/left_out/p; 6s/.*left_out/left_out/p' "$tmp/llama.out")" \
    "$(printf 'left_out": 0}\nleft_out": 74}')"
in_layout tensor 2 'tensor: 2'
in_layout mixed 4 'data: 2, zero: 3, pipeline: 2'
in_layout ring 2 'context: 2'
one gpt2
if [ -n "${ALL:-}" ]; then
    all_layouts
    kv_heads=2 one qwen3 'sliding_window: 24'
    all_layouts
    kv_heads=2 ffn=96 one mixtral 'experts: {count: 4, top_k: 2}'
    all_layouts
    in_layout experts 2 'data: 2, expert: 2'
fi

refused() { # sentence request pattern [option...]
    what=$1 pattern=$3
    printf '{"context": "a", "continuation": "b"}\n%s\n' "$2" >"$tmp/bad.jsonl"
    shift 3
    run "$train" "$tmp/gpt2.yaml" --score "$tmp/bad.jsonl" "$@"
    is "$what: exit code" "$rc$out" 2
    like "$what: the sentence" "$err" "bad.jsonl:2: $pattern"
}
refused "half an object" '{"context": "a"' 'is no JSON object; want \{"context"'
refused "a list" '["context"]' 'is no JSON object'
refused "no continuation" '{"context": "a"}' 'want context and continuation, or text alone'
refused "two kinds" '{"context": "a", "continuation": [3]}' 'want context and continuation, or text alone'
refused "an unknown member" '{"context": "a", "continuation": "b", "until": 3}' "unknown member 'until'; want"
refused "a member twice" '{"context": "a", "context": "a", "continuation": "b"}' "has 'context' twice"
refused "nothing to predict" '{"context": "a", "continuation": ""}' 'continuation: there is nothing in it'
refused "a token that is none" '{"context": [1, 256], "continuation": [3]}' "context: '256' is no token; this model knows 0..255"
refused "a number that is none" '{"text": [1.5]}' "text: '1.5' is no token"
refused "more than fits" "{\"context\": \"a\", \"continuation\": \"$(printf '%065d' 0)\"}" \
    'continuation: 65 tokens; this model predicts at most 64'
sed "s/^  vocab: .*/&\n  experts: {count: 4, top_k: 2, capacity_factor: 1.0}/; s/gpt2/mixtral/" "$tmp/gpt2.yaml" >"$tmp/full.yaml"
run "$train" "$tmp/full.yaml" --score "$tmp/llama.ask"
like "experts that are full" "$rc $err" '^2 .*full.yaml: --score: with model.experts.capacity_factor: 1 .*want 0'
refused "no begin" '{"text": "a"}' 'a text begins behind the token that begins documents, which nobody has told; want --begin TOKEN'
run "$train" "$tmp/gpt2.yaml" --score "$tmp/bad.jsonl" --begin 256
like "a begin that is no token" "$rc $err" "^--begin: '256': no tokenizer is known; want --tokenizer FILE, or a number from 0 to 255"
run "$train" "$tmp/gpt2.yaml" --score "$tmp/none.jsonl"
like "no file" "$err" 'none.jsonl: cannot be read'
: >"$tmp/empty.jsonl"
run "$train" "$tmp/gpt2.yaml" --score "$tmp/empty.jsonl"
like "an empty file" "$rc$err" 'empty.jsonl: there is no request in it'
run "$train" "$tmp/gpt2.yaml" --score "$tmp/bad.jsonl" --fresh
like "with --fresh" "$rc $err" '^2 .*--score: only reads the newest checkpoint; leave --fresh out'
run "$train" "$tmp/gpt2.yaml" --begin 3
like "--begin alone" "$rc $err" '^2 .*--begin: is for --score, which is not asked for'
tap_done
