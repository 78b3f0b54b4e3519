#!/bin/sh
# qlora.sh - train.lora.base against PEFT's training of the weights that the codes stand for.
#
# usage: tests/equiv/qlora.sh
#
# 20 steps in fp32, of float64 there: tests/parity/qlora_reference.py. TORCH_PYTHON names a Python that has torch,
# transformers and peft (default: python3).
. tests/lib/tap.sh
. tests/lib/train.sh

python=${TORCH_PYTHON:-python3}
for base in int8 int4 nf4; do
    if ! "$python" -c 'import peft, transformers' 2>/dev/null; then
        skip "$base: PEFT trains the same" "no peft in $python (TORCH_PYTHON names another)"
        continue
    fi
    at=$tmp/$base
    run "$python" tests/parity/qlora_reference.py "$at" $base
    is "$base: PEFT trains" "$rc" 0
    [ "$rc" = 0 ] || tap_lines peft "$(printf '%s' "$err" | tail -n 3)"
    run "$BUILD/bin/sennit-train" "$at/run.yaml"
    is "$base: trains" "$rc" 0
    [ "$rc" = 0 ] || tap_lines train "$(printf '%s' "$err" | tail -n 3)"
    for key in loss grad_norm; do
        metric $key "$at/out/metrics.jsonl" >"$at/ours"
        within "$base: 20 of $key are PEFT's" "$(worst "$at/ours" "$at/$key")" 1e-5
    done
done
tap_done
