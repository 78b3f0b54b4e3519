#!/bin/sh
# paper_grids.sh - AxoNN's published runs (arXiv 2305.13525, 2502.08145) on paper: which layout the search takes for their models and
# machines, which grid of tensors is best, and the rate that is planned, beside the published one.
#
# usage: tests/bench/paper_grids.sh        seconds; nothing is measured
#
# Of each run, with our own constants and with a published trainer's (machine.software.profile), the best layout
#   any       of all
#   grid      of grids of tensors: tensor_x > 1, with tensor, data and ZeRO, but without pipeline and context
#   classic   of Megatron-LM's: tensor, pipeline and data, ZeRO 0 or 1, no tensor_x
# MFU counts 6N + 6LCT for a token, whatever is computed again. The models' shapes and the batches (4 and 16 million tokens) are those
# that we know of the papers' runs; what was published as part of the peak may count recomputation.
set -eu
cd "$(dirname "$0")/../.."
plan=${BUILD:-build}/bin/sennit-plan
[ -x "$plan" ] || { echo "paper_grids.sh: no $plan; run make first" >&2; exit 2; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

key() { # name file: of the first plan
    tr '\n' ' ' <"$2" | sed -n "s/^[^{]*{\"layout\": {\([^}]*\)}\(.*\)/\1 \2/p" | tr ',' '\n' | sed -n "s/^.*\"$1\": \"\{0,1\}\([^\"}]*\)\"\{0,1\}.*/\1/p" | head -n 1
}

search() { # layout file: false where nothing fits
    cat >"$tmp/run.yaml" <<YAML
model: {family: gpt2, layers: $layers, hidden: $hidden, heads: $heads, vocab: 51200, seq: 2048}
train: {steps: 10, global_batch: $batch, precision: bf16}
layout: {$1}
machine: {preset: $machine, software: {profile: $profile}}
YAML
    "$plan" search "$tmp/run.yaml" --gpus "$gpus" --top 1 --json >"$2" 2>"$tmp/err" || {
        [ $? = 1 ] || { cat "$tmp/err" >&2; exit 1; }
        return 1
    }
}

row() { # kind file
    pipeline=$(key pipeline "$2") context=$(key context "$2") again=$(key recompute "$2")
    {
        for k in data tensor tensor_x zero zero_node micro_batch step_time_s mfu; do
            v=$(key $k "$2")
            echo "${v:-0}"
        done
    } | tr '\n' ' ' | awk -v kind="$1" -v name="$name" -v profile="$profile" -v p="$pipeline" -v c="$context" -v again="$again" \
        -v published="$published" '{
            grid = "data " $1 ", tensor " $2
            if ($3 > 1) grid = grid ", tensor_x " $3
            if (p > 1) grid = grid ", pipeline " p
            if (c > 1) grid = grid ", context " c
            grid = grid ", zero " $4 ($5 > 0 ? " in groups of " $5 : "") ", micro-batch " $6 ", recompute " again
            printf "| %s | %s | %s | %s | %.2f | %.1f | %s |\n", name, profile, kind, grid, $7, 100 * $8, published }'
}

run() { # profile
    profile=$1
    if search '' "$tmp/any"; then row any "$tmp/any"; fi
    best='' found=''
    for x in 2 4 8; do
        search "pipeline: 1, context: 1, tensor_x: $x" "$tmp/grid-$x" || continue
        step=$(key step_time_s "$tmp/grid-$x")
        if [ -z "$best" ] || awk "BEGIN { exit !($step < $best) }"; then best=$step found=$tmp/grid-$x; fi
    done
    [ -z "$found" ] || row grid "$found"
    best='' found=''
    for zero in 0 1; do
        search "tensor_x: 1, context: 1, zero: $zero" "$tmp/classic-$zero" || continue
        step=$(key step_time_s "$tmp/classic-$zero")
        if [ -z "$best" ] || awk "BEGIN { exit !($step < $best) }"; then best=$step found=$tmp/classic-$zero; fi
    done
    [ -z "$found" ] || row classic "$found"
}

echo '| run | constants | layouts | best | step s | MFU % | published, % of peak |'
echo '|---|---|---|---|---|---|---|'
name='80B, 1,024 A100' layers=42 hidden=12288 heads=96 batch=2048 gpus=1024 machine=perlmutter-80
published='57 (26 % over Megatron-LM)'
run sennit
run megatron-2021
name='40B, 4,096 A100' layers=38 hidden=9216 heads=72 batch=8192 gpus=4096 published='48.5 (620.1 Pflop/s)'
run sennit
run megatron-2021
name='60B, 6,144 GH200' layers=56 hidden=9216 heads=72 batch=8192 gpus=6144 machine=gh200-4 published='23.4 (1,423.1 Pflop/s)'
run sennit
run nemo-2025
