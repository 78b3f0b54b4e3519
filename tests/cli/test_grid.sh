#!/bin/sh
# test_grid.sh - AxoNN's grid of tensors as a user has it: {x, y, z} trains as one rank does, its special cases send what they
# specialise, what it sends is the paper's formula, and inside a block nothing is redistributed.
. tests/lib/tap.sh
. tests/lib/train.sh

plan=$BUILD/bin/sennit-plan
"$BUILD/bin/sennit-data" build --text docs/STYLE.md -o "$tmp/tok" >/dev/null

run_file() { # layout
    cat >"$tmp/r.yaml" <<YAML
run: {name: grid, seed: 3, output: $tmp/out, threads: 1}
model: {family: llama, layers: 2, hidden: 64, heads: 8, kv_heads: 4, ffn: 96, vocab: 256, seq: 32}
data: {train: $tmp/tok}
train: {steps: 6, global_batch: 8, eval_every: 0, optimizer: {lr: 1.0e-3}}
layout: {micro_batch: 1, $1}
checkpoint: {dir: ckpt, every: 3}
YAML
}

traffic() { # layout ranks
    run_file "$1"
    "$plan" "$tmp/r.yaml" --ranks "$2" --json 2>/dev/null | grep -o '"traffic_bytes": {[^}]*}'
}

axis() { # traffic name
    echo "$1" | tr ',' '\n' | sed -n "s/.*\"$2\": \([0-9]*\).*/\1/p"
}

# --- special cases ----------------------------------------------------------------------------------
plain=$(traffic 'tensor: 4, sequence_parallel: false' 4)
is "{1, 4, 1} sends what tensor: 4 does" "$(traffic 'tensor: {x: 1, y: 4, z: 1}, sequence_parallel: false' 4)" "$plain"
ok "which is something" test "$(axis "$plain" tensor)" -gt 0
whole=$(traffic 'data: 4, zero: 3' 4)
is "{1, 1, 4} of 4 ranks sends what zero: 3 does" "$(traffic 'tensor: {x: 1, y: 1, z: 4}, data: 4' 4)" "$whole"
groups=$(traffic 'data: 4, zero: 3, zero_node: 2' 4)
is "{1, 1, 2} of 4 ranks, what zero_node: 2 does" "$(traffic 'tensor: {z: 2}, data: 4' 4)" "$groups"

# What is written beside an inclusion takes the place of what it brings: of a grid all of it.
grid_of() { # layout of the included file, what stands beside it: tensor, tensor_x, zero
    echo "layout: {$1}" >"$tmp/base.yaml"
    run_file "file: $tmp/base.yaml, data: 4, $2"
    "$plan" "$tmp/r.yaml" --ranks "$3" --json 2>/dev/null | sed -n 's/.*"tensor": \([0-9]*\), "tensor_x": \([0-9]*\),.*"zero": \([0-9]*\),.*/\1 \2 \3/p'
}
is "a grid comes from a file" "$(grid_of 'tensor: {x: 2, y: 2, z: 2}' 'overlap: none' 16)" '2 2 3'
is "another grid is that alone" "$(grid_of 'tensor: {x: 2, y: 2, z: 2}' 'tensor: {x: 4}' 16)" '1 4 0'
is "and so is one axis" "$(grid_of 'tensor: {x: 2, y: 2, z: 2}' 'tensor: 4' 16)" '4 1 0'
is "but keys of their own stay" "$(grid_of 'tensor_x: 2, zero: 1' 'tensor: 2' 16)" '2 2 1'

# --- the paper's volumes ----------------------------------------------------------------------------
# A rank's in a ring of n all-reduces of S elements: 2 (n - 1) / n S, so 2 (n - 1) S of a group. Of a layer and a micro-batch of
# m = 32 rows, forward: over x the outputs of qkv and gate_up (64 + 2 x 32 and 2 x 96 features, / y), over y those of o and down (64 /
# x); backward: over y the inputs of qkv and gate_up (64 / x), over x those of o and down (64 and 96, / y). Over x also the norms': each
# gathers one number of a row forward and one back, P (P - 1) of a group. Of the model: embedding and head, which are cut over both.
grid=$(traffic 'tensor: {x: 2, y: 2}, sequence_parallel: false' 4)
expected() { # x y of an axis: name
    awk -v x=2 -v y=2 -v m=32 -v L=2 -v micros=8 -v axis="$1" 'BEGIN {
        if (axis == "x") {
            layer = 2 * (x - 1) * m * (128 + 192 + 64 + 96) / y * y  # in each of the y groups
            norms = (2 * L + 1) * 2 * x * (x - 1) * m * y
            ends = (x - 1) * m * 64 * y * 2       # embedding: sum to slices, its gradient gathered
            ends += (x - 1) * m * 64 * y * 2      # before the head gathered, behind it summed to slices
            ends += x * (x - 1) * m * 3 * y       # three numbers a row
        } else {
            layer = 2 * (y - 1) * m * (64 + 64 + 64 + 64) / x * x
            norms = 0
            ends = 2 * (y - 1) * m * 64 / x * x   # embedding
            ends += 2 * (y - 1) * m * 64 / x * x  # the gradient behind the head
            ends += y * (y - 1) * m * 3 * x * x   # three numbers a row, of both slices
        }
        printf "%d\n", micros * 4 * (L * layer + norms + ends)
    }'
}
is "what crosses x is the formula" "$(axis "$grid" tensor_x)" "$(expected x)"
is "and what crosses y" "$(axis "$grid" tensor)" "$(expected y)"

# --- no redistribution inside a block ---------------------------------------------------------------
"$plan" "$tmp/r.yaml" --ranks 4 --explain 0 >"$tmp/text" 2>/dev/null
awk '$2 == "gemm" && /layers.0.attn.qkv/ { on = 1 } on { print } $2 == "gemm" && /layers.1.ffn.down.weight ->/ { exit }' "$tmp/text" >"$tmp/blocks"
ok "the program has both blocks" test "$(grep -c ' gemm ' "$tmp/blocks")" = 8
is "in which ranks sum, and gather what norms know" "$(awk '{ print $2 }' "$tmp/blocks" | grep -E 'all_|reduce_|transpose' | sort | uniq -c | tr -s ' \n' ' ')" " 3 all_gather 7 all_reduce "
is "and nothing else is gathered" "$(grep all_gather "$tmp/blocks" | grep -cv norm)" 0

# --- it trains --------------------------------------------------------------------------------------
losses() { sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' "$tmp/out/metrics.jsonl"; }
near() { paste "$1" "$2" | awk 'NF != 2 { exit 1 } { d = $1 - $2; d = d < 0 ? -d : d; bad += d > 1e-5 * $2 } END { exit bad || NR != 6 }'; }
start() { # ranks options...
    n=$1
    shift
    tests/mpi/run -n "$n" "$BUILD/bin/sennit-train" "$tmp/r.yaml" "$@" >"$tmp/log" 2>&1
}
run_file 'data: 1'
ok "one rank trains" start 1 --fresh
losses >"$tmp/one"
run_file 'tensor: {x: 2, y: 2, z: 2}, data: 2'
ok "so do eight, in a grid" start 8 --fresh
losses >"$tmp/grid"
ok "with its losses" near "$tmp/one" "$tmp/grid"
rm -rf "$tmp/out"
ok "they stop after three steps" start 8 --fresh --stop-after 3
run_file 'data: 2, pipeline: 2'
ok "and four, in other layout, go on" start 4
losses >"$tmp/others"
ok "to the same losses" near "$tmp/one" "$tmp/others"
run_file 'tensor: {x: 2, y: 2}'
ok "the layout is proven" "$plan" "$tmp/r.yaml" --ranks 4 --verify --json
tap_done
