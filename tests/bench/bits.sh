#!/bin/sh
# bits.sh - what run.bits: all costs on this processor: seconds of one core that both settings take for
# the same steps, one after the other, start and initial weights included.
#
# usage: tests/bench/bits.sh [MICRO_BATCHES]      in a step (default 12)
BUILD=${BUILD:-build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat docs/*.md LICENSE >"$tmp/text"
"$BUILD/bin/sennit-data" build --text "$tmp/text" -o "$tmp/tok" >/dev/null
for bits in layout all; do
    cat >"$tmp/$bits.yaml" <<YAML
run: {name: bits, output: $tmp/$bits, threads: 1, backend: cpu, bits: $bits}
model: {family: llama, layers: 2, hidden: 1024, heads: 16, ffn: 2816, vocab: 8192, seq: 1024}
data: {train: $tmp/tok}
train: {steps: 2, global_batch: ${1:-12}, optimizer: {lr: 1.0e-3}}
layout: {data: 1, micro_batch: 1}
YAML
    (
        "$BUILD/bin/sennit-train" "$tmp/$bits.yaml" >"$tmp/$bits.log" 2>&1 || cat "$tmp/$bits.log"
        times
    ) | tail -1 | sed "s/ .*//; s/^/bits: $bits, user time /"
done
