#!/bin/sh
# bench_convert.sh - re-sharding TP4 x PP2 -> TP2 x PP4, optimizer state included, against copying the same
# bytes with O_DIRECT.
#
#   tests/bench/bench_convert.sh [PAIRS] [DIR]      10 pairs; about 6 GB in DIR
#
# The checkpoint is a small model trained one step on 8 ranks and grown four times as wide (2 GB). A pair is
# one dd of every shard (8 MiB blocks, direct on both sides, synced) and one conversion. Each conversion's
# result is compared with the source first of all. Ratios are of the pair; medians are reported.
# shellcheck disable=SC2012,SC2015
set -eu
BUILD=${BUILD:-build}
pairs=${1:-10}
dir=${2:-$(mktemp -d)}
mkdir -p "$dir"
trap 'rm -rf "$dir"' EXIT

file() { # path layout
    cat >"$1" <<YAML
run: {name: bench, seed: 1, output: $dir/run, threads: 1}
model: {family: gpt2, layers: 12, hidden: 256, heads: 8, ffn: 1024, vocab: 2048, seq: 64}
data: {train: $dir/tok}
train: {steps: 1, global_batch: 4}
layout: {data: 1, $2}
YAML
}

"$BUILD/bin/sennit-data" build --text docs/STYLE.md LICENSE -o "$dir/tok" >/dev/null
file "$dir/a.yaml" "tensor: 4, pipeline: 2"
printf 'layout: {data: 1, tensor: 4, pipeline: 2}\n' >"$dir/from.yaml"
printf 'layout: {data: 1, tensor: 2, pipeline: 4}\n' >"$dir/b.yaml"
tests/mpi/run -n 8 "$BUILD/bin/sennit-train" "$dir/a.yaml" >/dev/null
"$BUILD/bin/sennit-convert" "$dir/run/ckpt" "$dir/src" --grow 4x --layout "$dir/from.yaml" >/dev/null
src=$(ls -d "$dir"/src/step-*)
bytes=$(cat "$src"/shard-*.h5 | wc -c)

seconds() { # command...: how long it took
    seconds_t=$(date +%s.%N)
    "$@" >/dev/null || { echo "bench_convert.sh: failed: $*" >&2 && exit 1; }
    date +%s.%N | awk -v t="$seconds_t" '{ printf "%.3f\n", $1 - t }'
}
copy_all() {
    mkdir "$dir/copy"
    for f in "$src"/shard-*.h5; do
        dd if="$f" of="$dir/copy/${f##*/}" bs=8M iflag=direct oflag=direct conv=fsync 2>/dev/null ||
            dd if="$f" of="$dir/copy/${f##*/}" bs=8M conv=fsync
    done
}
convert() {
    "$BUILD/bin/sennit-convert" "$src" "$dir/dst" --layout "$dir/b.yaml" --memory 256MiB --json
}

convert >"$dir/report" 2>/dev/null
"$BUILD/bin/sennit-convert" --diff "$src" "$dir/dst" >/dev/null ||
    { echo "bench_convert.sh: the conversion differs from its source" >&2 && exit 1; }
rm -rf "$dir/dst"
i=0
while [ "$i" -lt "$pairs" ]; do
    c=$(seconds copy_all)
    rm -rf "$dir/copy"
    x=$(seconds convert)
    rm -rf "$dir/dst"
    echo "$c $x" | awk '{ print $1 / $2, $1, $2 }'
    i=$((i + 1))
done | sort -n >"$dir/pairs"
awk -v b="$bytes" '{ r[NR] = $1; c[NR] = $2; x[NR] = $3 }
    END { m = int((NR + 1) / 2)
        printf "%.2f GB, %d pairs: conversion / copy speed %.2f (%.2f .. %.2f); ", b / 1e9, NR, r[m], r[1], r[NR]
        printf "in the median pair the copy took %.2f s, the conversion %.2f s\n", c[m], x[m] }' "$dir/pairs"
cat "$dir/report"
