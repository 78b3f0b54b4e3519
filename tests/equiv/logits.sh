#!/bin/sh
# logits.sh - a trained model, exported, says the same to another implementation.
#
# usage: tests/equiv/logits.sh [NAME...]       only these models
#
# For each family: a few steps of training, --to safetensors, then the logits of 40 tokens by the
# PyTorch reference of tests/parity (and by transformers, where it is installed) against ours, and
# the way back into a checkpoint. TORCH_PYTHON names a Python that has torch (default: python3).
. tests/lib/tap.sh
. tests/lib/train.sh

names=$*
python=${TORCH_PYTHON:-python3}
train=$BUILD/bin/sennit-train convert=$BUILD/bin/sennit-convert logits=$BUILD/tests/unit/test_logits
tokens=$(seq 3 5 200)
make_tokens "$tmp/tok"
torch=yes
"$python" -c 'import torch' 2>/dev/null || torch=

say() { # sentence path: logits of the tokens, into path.txt beside it
    # shellcheck disable=SC2086
    run "$logits" "$2" $tokens
    printf '%s\n' "$out" >"$2.txt"
    ok "$1" test "$rc" -eq 0 -a "$(wc -l <"$2.txt")" -eq 40
    [ -z "$err" ] || tap_lines logits "$err"
}

agree() { # sentence directory logits [spoil]: the other implementations say the same; spoiled they do not
    if [ -z "$torch" ]; then
        skip "$1" "no torch in $python (TORCH_PYTHON names another)"
        return
    fi
    # shellcheck disable=SC2086
    run "$python" tests/parity/logits.py ${4:+--spoil "$4"} "$2" "$3" $tokens
    want=0
    [ -z "${4:-}" ] || want=1
    is "$1" "$rc" "$want"
    tap_lines "$family" "$out$err"
}

check() { # name
    case " ${names:-$1} " in *" $1 "*) ;; *) return 1 ;; esac
    at=$tmp/$1
    mkdir -p "$at"
    run_file "$at.yaml" "$at"
    [ -z "$more" ] || sed -i "s/^  vocab: .*/&\n  $more/" "$at.yaml"
    run "$train" "$at.yaml"
    is "$1: trains" "$rc" 0
    [ "$rc" -eq 0 ] || { tap_lines "$1" "$err" && return 1; }
    say "$1: speaks" "$at/ckpt"
    run "$convert" "$at/ckpt" "$at/hf" --to safetensors
    is "$1: is exported" "$rc" 0
    [ -z "$err" ] || tap_lines "$1" "$err"
    agree "$1: another implementation has the same logits" "$at/hf" "$at/ckpt.txt"
    say "$1: speaks as an export" "$at/hf"
    ok "$1: says the same, bit for bit" cmp "$at/hf.txt" "$at/ckpt.txt"
    run "$convert" "$at/hf" "$at/back/step-00000000" --from safetensors
    is "$1: is taken back" "$rc" 0
    say "$1: speaks as a checkpoint" "$at/back"
    ok "$1: says the same still" cmp "$at/back.txt" "$at/ckpt.txt"
    run "$convert" "$at/ckpt" "$at/bf16" --to safetensors --dtype bf16 --shard-size 1MiB
    is "$1: is exported as bf16, in several files" "$rc" 0
    ok "$1: with an index" test -f "$at/bf16/model.safetensors.index.json"
    say "$1: speaks in bf16" "$at/bf16"
    agree "$1: another implementation has the same logits in bf16" "$at/bf16" "$at/bf16.txt"
}

# Names of transformers 5, out and in; and gates or experts in each other's place are found in both.
both_names() { # name: what check has left
    at=$tmp/$1
    run "$convert" "$at/ckpt" "$at/hf5" --to safetensors --names 5
    is "$1: is exported with later names" "$rc" 0
    ok "$1: which are others" sh -c "! cmp -s '$at/hf/model.safetensors' '$at/hf5/model.safetensors'"
    agree "$1: another implementation has the same logits with later names" "$at/hf5" "$at/ckpt.txt"
    say "$1: speaks with later names" "$at/hf5"
    ok "$1: says the same" cmp "$at/hf5.txt" "$at/ckpt.txt"
    run "$convert" "$at/hf5" "$at/back5/step-00000000" --from safetensors
    is "$1: is taken back from them" "$rc" 0
    say "$1: speaks as that checkpoint" "$at/back5"
    ok "$1: says the same as ever" cmp "$at/back5.txt" "$at/ckpt.txt"
    for form in hf hf5; do
        agree "$1: $form: gates for ups are found" "$at/$form" "$at/ckpt.txt" gates
        agree "$1: $form: an expert for another is found" "$at/$form" "$at/ckpt.txt" experts
    done
}

steps=8 hidden=256 eval_every=0 lr=3.0e-3
family=gpt2 more= check gpt2
family=gpt2 more='tied_embeddings: false' check gpt2-untied
family=gpt-neox more='rotary_pct: 0.5' check gpt-neox
family=gpt-neox more='parallel_residual: false' check gpt-neox-sequential
family=llama kv_heads=2 more='rope_theta: 500000.0' check llama
family=llama kv_heads=2 more='tied_embeddings: true' check llama-tied
family=llama layers=4 more='share_layers: 2' check llama-share
family=qwen2 kv_heads=2 more='rope_theta: 1000000.0' check qwen2
experts='experts: {count: 4, top_k: 2}'
family=mixtral kv_heads=2 ffn=96 layers=2 more=$experts check mixtral && both_names mixtral
tap_done
