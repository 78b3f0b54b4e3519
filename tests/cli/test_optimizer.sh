#!/bin/sh
# test_optimizer.sh - a run goes on with the optimizer that it began with, and converts with it.
. tests/lib/tap.sh
. tests/lib/train.sh
make_tokens "$tmp/tok"

# A run of 6 steps with another optimizer than the default; and the same run file without it.
with() { # kind path
    run_file "$tmp/plain.yaml" "$tmp/run"
    sed "s/optimizer: {lr: 3.0e-4,/optimizer: {kind: $1, lr: 3.0e-4,/" "$tmp/plain.yaml" >"$2"
}

for kind in lion sgd; do
    steps=6 with "$kind" "$tmp/$kind.yaml"
    run "$BUILD/bin/sennit-train" "$tmp/$kind.yaml"
    is "$kind: trains" "$rc" 0
    steps=9 with "$kind" "$tmp/$kind.yaml"
    run "$BUILD/bin/sennit-train" "$tmp/plain.yaml"
    is "$kind: its checkpoint is refused by adamw" "$rc" 2
    like "$kind: in a sentence that names both" "$err" \
        "holds the state of optimizer $kind, and this run's is adamw; set train.optimizer.kind: $kind, or"
    run "$BUILD/bin/sennit-train" "$tmp/$kind.yaml"
    is "$kind: goes on" "$rc" 0
    newest=$(find "$tmp/run" -type d -name 'step-*' | sort | tail -n 1)
    run "$BUILD/bin/sennit-convert" "$newest" "$tmp/converted" --layout "$tmp/plain.yaml"
    is "$kind: converts, whatever the layout's file says of optimizers$err" "$rc" 0
    rm -rf "${tmp:?}/run" "${tmp:?}/converted"
done
tap_done
