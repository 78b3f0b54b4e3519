#!/bin/sh
# peft.sh - adapters that sennit trained compute the same in PEFT, and merged in transformers.
#
# usage: tests/equiv/peft.sh
#
# A few steps of train.lora on the weights of a parity fixture, over two tensor ranks too; --to peft and
# --to safetensors --merge; what PEFT says of both (tests/parity/peft_logits.py). TORCH_PYTHON names a
# Python that has torch, transformers and peft (default: python3).
. tests/lib/tap.sh
. tests/lib/train.sh

python=${TORCH_PYTHON:-python3}
base=tests/parity/fixtures/lora-all
for targets in '"*.attn.q.weight", "*.attn.v.weight"' '"*.attn.*", "*.ffn.*"' '"layers.1.ffn.down.weight"'; do
    for ranks in 1 2; do
        name="$targets, $ranks ranks" at=$tmp/run
        rm -rf "$at"*
        cat >"$at.yaml" <<YAML
run: {name: peft, output: $at, seed: 3, threads: 1}
model: {config: $base/config.json}
data: {train: $base/data}
train: {steps: 20, global_batch: 4, optimizer: {lr: 1.0e-2}, init_from: $base/model.safetensors, lora: {rank: 4, alpha: 8, targets: [$targets]}}
layout: {tensor: $ranks, micro_batch: 2}
checkpoint: {dir: ckpt, every: 20}
YAML
        if [ "$ranks" = 1 ]; then run "$BUILD/bin/sennit-train" "$at.yaml"; else run mpi "$ranks" "$BUILD/bin/sennit-train" "$at.yaml"; fi
        is "$name: trains" "$rc" 0
        [ "$rc" = 0 ] || tap_lines "exit $rc" "$(printf '%s' "$err" | tail -n 3)"
        run "$BUILD/bin/sennit-convert" "$at/ckpt" "$at/adapter" --to peft
        is "$name: in PEFT's form" "$rc" 0
        run "$BUILD/bin/sennit-convert" "$at/ckpt" "$at/merged" --to safetensors --merge
        is "$name: merged" "$rc" 0
        if ! "$python" -c 'import peft, transformers' 2>/dev/null; then
            skip "$name: PEFT computes the same" "no peft in $python (TORCH_PYTHON names another)"
            continue
        fi
        run "$python" tests/parity/peft_logits.py "$base" "$at/adapter" "$at/merged"
        is "$name: PEFT computes the same ($(printf '%s' "$out" | tail -n 1))" "$rc" 0
        [ "$rc" = 0 ] || tap_lines peft "$(printf '%s' "$err" | tail -n 3)"
    done
done
tap_done
