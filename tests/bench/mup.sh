#!/bin/sh
# mup.sh - the best learning rate of three widths, with train.mup and without: with it, it stays.
#
# usage: tests/bench/mup.sh [STEPS]      default 60; a table of losses over the last 10 steps
set -eu
build=${BUILD:-build} steps=${1:-60}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$build/bin/sennit-data" build --text docs/STYLE.md docs/ARCHITECTURE.md LICENSE -o "$tmp/tok" >/dev/null

loss() { # width lr mup: mean of the last 10 losses
    cat >"$tmp/run.yaml" <<YAML
run: {name: mup, seed: 3, output: $tmp/run, threads: 1, backend: cpu}
model: {family: llama, layers: 2, hidden: $1, heads: $(($1 / 16)), ffn: $(($1 * 2)), vocab: 256, seq: 64, init_std: 0.08}
data: {train: $tmp/tok}
train:
  steps: $steps
  global_batch: 8
  optimizer: {lr: $2, weight_decay: 0}
  schedule: {kind: constant, warmup: 5}
$3
layout: {data: 1, micro_batch: 8}
checkpoint: {every: 0}
YAML
    rm -rf "$tmp/run"
    "$build/bin/sennit-train" "$tmp/run.yaml" >/dev/null 2>&1 || true
    sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$tmp/run/metrics.jsonl" | tail -n 10 |
        awk '{ s += $1 } END { printf "%.4f", NR ? s / NR : 99 }'
}

for way in plain mup; do
    mup=
    [ "$way" = plain ] || mup='  mup: {base_width: 32}'
    for width in 32 64 128; do
        best=99 at=
        printf '%-6s hidden %-4s' "$way" "$width"
        for lr in 1.0e-3 2.0e-3 4.0e-3 8.0e-3 1.6e-2 3.2e-2 6.4e-2; do
            l=$(loss "$width" "$lr" "$mup")
            printf ' %s:%s' "$lr" "$l"
            ! awk "BEGIN { exit !($l < $best) }" || best=$l at=$lr
        done
        echo "  best $at"
    done
done
