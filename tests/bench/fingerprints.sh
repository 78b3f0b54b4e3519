#!/bin/sh
# fingerprints.sh - what run.fingerprints: 1 costs on this processor: the median step of a run that keeps those of every step
# beside that of one that keeps none, in turns, and the bytes that a step leaves. Their losses are the same.
#
# usage: tests/bench/fingerprints.sh [STEPS]      of each run (default 10)
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build} steps=${1:-10}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat docs/*.md LICENSE >"$tmp/text"
"$BUILD/bin/sennit-data" build --text "$tmp/text" -o "$tmp/tok" >/dev/null

train() { # fingerprints
    rm -rf "$tmp/$1"
    cat >"$tmp/$1.yaml" <<YAML
run: {name: fingerprints, output: $tmp/$1, threads: 1, backend: cpu, fingerprints: $1}
model: {family: llama, layers: 4, hidden: $hidden, heads: 8, ffn: $((hidden * 11 / 4)), vocab: 8192, seq: 512}
data: {train: $tmp/tok}
train: {steps: $steps, global_batch: 4, precision: $precision, optimizer: {lr: 1.0e-3}}
layout: {data: 1, micro_batch: 1}
YAML
    "$BUILD/bin/sennit-train" "$tmp/$1.yaml" >"$tmp/$1.log" 2>&1 || { cat "$tmp/$1.log" && exit 1; }
    sed 's/.*"step_time_s": \([0-9.e-]*\).*/\1/' "$tmp/$1/metrics.jsonl" | tail -n +3 >>"$tmp/$1.times"
}

median() { # file
    sort -g "$1" | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
}

for shape in "256 fp32" "512 fp32" "512 bf16"; do
    hidden=${shape% *} precision=${shape#* }
    rm -f "$tmp"/*.times
    for _ in 1 2 3; do
        train 0
        train 1
    done
    for f in 0 1; do sed 's/, "lr".*//' "$tmp/$f/metrics.jsonl" >"$tmp/$f.losses"; done
    cmp "$tmp/0.losses" "$tmp/1.losses"
    bytes=$(wc -c <"$tmp/1/fingerprints/step-$(printf %08d "$steps")/rank-00000")
    awk -v a="$(median "$tmp/0.times")" -v b="$(median "$tmp/1.times")" -v n="$bytes" -v s="$shape" \
        'BEGIN { printf "hidden %s: %.3f s a step, with fingerprints %.3f s: %.1f %% more, %d bytes a step\n", s, a, b, 100 * (b / a - 1), n }'
done
