#!/bin/sh
# generate.sh - what keeping keys and values gains when text is written: tokens a second with them, and of whole windows
# (--no-cache). The text has to be the same first, past the end of a window.
#
# usage: BUILD=build tests/bench/generate.sh        LAYERS HIDDEN SEQ THREADS TOKENS (of whole windows) in the environment
set -eu
train=${BUILD:-build}/bin/sennit-train seq=${SEQ:-512} tokens=${TOKENS:-24}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"${BUILD:-build}/bin/sennit-data" build --text docs/STYLE.md LICENSE -o "$tmp/tok" >/dev/null
cat >"$tmp/run.yaml" <<YAML
run: {name: generate, seed: 7, output: $tmp/run, threads: ${THREADS:-1}}
model: {family: llama, layers: ${LAYERS:-8}, hidden: ${HIDDEN:-256}, heads: 8, ffn: $((${HIDDEN:-256} * 8 / 3 / 32 * 32)), vocab: 256, seq: $seq}
data: {train: $tmp/tok}
train: {steps: 1, global_batch: 1, optimizer: {lr: 3.0e-3}}
layout: {micro_batch: 1}
YAML
"$train" "$tmp/run.yaml" >/dev/null 2>&1
head -c $((seq / 4)) LICENSE >"$tmp/prompt"
head -c $((seq - tokens / 2)) LICENSE >"$tmp/long" # what follows leaves the window
write() { # prompt tokens [option]: to stdout
    prompt=$1
    shift
    "$train" "$tmp/run.yaml" --prompt-file "$tmp/$prompt" --temperature 0 --tokens "$@" 2>/dev/null
}
now() { date +%s.%N; }
# Seconds for each token after the first one, of which the start and the prompt are.
each() { # tokens [option]
    n=$1
    shift
    a=$(now)
    write prompt 1 "$@" >/dev/null
    b=$(now)
    write prompt $((n + 1)) "$@" >/dev/null
    c=$(now)
    echo "$a $b $c $n" | awk '{ printf "%.6f", (($3 - $2) - ($2 - $1)) / $4 }'
}

write long "$tokens" >"$tmp/kept"
write long "$tokens" --no-cache >"$tmp/whole"
cmp "$tmp/kept" "$tmp/whole" || {
    echo 'generate.sh: the texts differ' >&2
    exit 1
}
echo "the same $tokens tokens"
whole=$(each "$tokens" --no-cache)
kept=$(each $((seq / 2)))
echo "$whole $kept" | awk '{ printf "whole windows %.1f tokens/s, kept keys and values %.1f, %.1f times as many\n", 1 / $1, 1 / $2, $1 / $2 }'
