#!/bin/sh
# test_search.sh - sennit-plan search: the table, what it writes, what fits nowhere; layout: auto.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
plan=$BUILD/bin/sennit-plan

file() { # layout machine
    cat >"$tmp/run.yaml" <<EOF
run: {name: search, output: $tmp/out}
model: {preset: llama-7b}
data: {train: none}
train: {steps: 1, global_batch: 64, precision: bf16}
machine: {$2}
layout: $1
EOF
}

best_time() { # table
    printf '%s\n' "$1" | sed -n 's/^ *1 .* \([0-9.]*\) s .*/\1/p'
}

step_time() { # JSON
    printf '%s\n' "$1" | grep -oE '"step_time_s": [0-9.]{9}' | head -n 1
}

# --- the table ----------------------------------------------------------------------------------
file '{schedule: 1f1b, zero: 1}' 'preset: dgx-a100-80'
run "$plan" search "$tmp/run.yaml" --gpus 8 --top 4
is "search exits 0" "$rc" 0
like "it says how many layouts there are" "$out" '^[0-9]+ layouts of 8 ranks .* are known not to fit .* compiled'
is "one row for each of four grids" "$(printf '%s\n' "$out" | grep -cE '^ +[1-4] ')" 4
like "the winner's time is broken down" "$out" '^ +1 .*; computing [0-9.]+ %'
like "a rival's loss is named" "$out" '^ +2 .*; \+[0-9.]+ % [a-z]+'
is "named keys stand" "$(printf '%s\n' "$out" | grep -E '^ +[1-4] ' | grep -cE '1f1b.*zero [01]')" 4
is "its last line is that MFU was not measured" "$(printf '%s\n' "$out" | tail -n 1)" 'MFU: not measured on a GPU'
first=$out
run "$plan" search "$tmp/run.yaml" --gpus 8 --top 4
is "the same request gives the same table" "$out" "$first"
run "$plan" search "$tmp/run.yaml" --gpus 8 --top 1 --free
ok "--free finds at least as good a layout" awk -v a="$(best_time "$out")" -v b="$(best_time "$first")" \
    'BEGIN { exit !(a > 0 && a <= b) }'
run "$plan" search "$tmp/run.yaml" --gpus 8 --top 2 --json
is "--json exits 0" "$rc" 0
like "an array of plans" "$out" '^\[\{"layout": \{"data": [0-9]+, .*"step_time_s": [0-9.]+, "mfu": 0\.[0-9]+, "mfu_uncausal": 0\.[0-9]+, "mfu_note": "not measured on a GPU"'
like "each with its reason" "$out" '"why": "\+[0-9.]+ %'

file '{zero: 0}' 'preset: laptop-cpu'
sed 's/preset: llama-7b/preset: gpt2-124m/; s/bf16/fp32/' "$tmp/run.yaml" >"$tmp/cpu.yaml"
run "$plan" search "$tmp/cpu.yaml" --gpus 2 --top 1
like "on processors MFU stands alone" "$rc $(printf '%s\n' "$out" | tail -n 1)" '^0 +1 .* %'
file '{schedule: 1f1b, zero: 1}' 'preset: dgx-a100-80'

# --- what it writes -----------------------------------------------------------------------------
run "$plan" search "$tmp/run.yaml" --gpus 8 --top 1 --write "$tmp/best.yaml"
is "--write exits 0" "$rc" 0
run "$plan" "$tmp/best.yaml"
is "sennit-plan accepts what was written" "$rc" 0
like "and it fits" "$out" '^fits'

# --- layout: auto -------------------------------------------------------------------------------
file auto 'preset: dgx-a100-80, nodes: 1'
run "$plan" "$tmp/run.yaml"
is "layout: auto is planned for the ranks of the machine's nodes" "$rc" 0
like "and fits" "$out" '^fits'
run "$plan" search "$tmp/run.yaml" --top 1 --json
best=$(step_time "$out")
run "$plan" "$tmp/run.yaml" --json
is "auto is the search's best" "$(step_time "$out")" "$best"
file auto 'preset: dgx-a100-80'
run "$plan" "$tmp/run.yaml"
is "without a number of ranks it cannot be" "$rc" 2
like "which says what would work" "$err" 'use --ranks or machine.nodes'

# --- what does not work -------------------------------------------------------------------------
file '{tensor: 2, recompute: none}' 'preset: marconi100, memory_fraction: 0.1'
sed 's/bf16/fp16/' "$tmp/run.yaml" >"$tmp/small.yaml"
run "$plan" search "$tmp/small.yaml" --gpus 4
is "nothing fits: exit 1" "$rc" 1
like "it says so" "$err" 'none of [0-9]+ layouts fits'
like "and names the nearest with what they miss" "$err" 'tensor 2, .*: .*iB, .*iB too much'
file '{pipeline: 1}' 'preset: dgx-a100-80'
run "$plan" search "$tmp/run.yaml" --gpus 13
is "no valid layout: exit 2" "$rc" 2
like "with numbers that work" "$err" 'no layout of 13 ranks is valid: .* would work'
run "$plan" search "$tmp/run.yaml"
is "no number of ranks: exit 2" "$rc" 2
like "it says where one can stand" "$err" 'use --gpus, machine.nodes or layout.data'
sed 's/precision: bf16/&, grad_dtype: bf16/; s/^layout: {/&optimizer_tile: 4194304, /' "$tmp/run.yaml" >"$tmp/half.yaml"
run "$plan" search "$tmp/half.yaml" --gpus 8 --top 8 --write "$tmp/half-best.yaml"
is "gradients in bf16, updates by tiles: search exits 0" "$rc" 0
is "and finds no layout that takes none of them" "$(printf '%s\n' "$out" | grep -c 'zero [23]')" 0
run "$plan" "$tmp/half-best.yaml" --json
is "what it writes is a run" "$rc" 0
like "with them" "$(cat "$tmp/half-best.yaml")" 'optimizer_tile: 4194304'
file '{schedule: 1f1b, compress: {data: powersgd-4, feedback: true}}' 'preset: dgx-a100-80'
run "$plan" search "$tmp/run.yaml" --gpus 16 --top 3 --write "$tmp/factors.yaml"
is "layouts are ranked with gradients as factors" "$(printf '%s\n' "$out" | grep -cE '^ +[1-3] .*zero [01], data powersgd-4')" 3
run "$plan" "$tmp/factors.yaml"
like "and the best one is a run" "$rc $out" 'codecs: data powersgd-4 with feedback'
file '{schedule: 1f1b, compress: {data: int8/int4-hadamard, zero: int8, tensor: fp8, node: 8}}' 'preset: dgx-a100-80'
run "$plan" search "$tmp/run.yaml" --gpus 16 --top 3
is "and with codecs that are named" "$(printf '%s\n' "$out" | grep -cE '^ +[1-3] .*data int8/int4-hadamard')" 3
sed 's/^run: {/&backend: cuda, /; /^machine:/d' "$tmp/run.yaml" >"$tmp/nowhere.yaml"
run "$plan" search "$tmp/nowhere.yaml" --gpus 8
is "GPUs that nobody describes: exit 2" "$rc" 2
like "this host's memory is not theirs" "$err" 'run.backend is cuda, and no machine says what its GPUs hold; want machine.preset'
run "$plan" search
is "no run file: exit 2" "$rc" 2
run "$plan" search --help
is "--help exits 0" "$rc" 0

# --- experts ------------------------------------------------------------------------------------
experts() { # layout
    file "$1" 'preset: dgx-a100-80'
    sed 's/llama-7b/mixtral-8x7b/' "$tmp/run.yaml" >"$tmp/experts.yaml"
}
experts '{schedule: 1f1b, recompute: full, micro_batch: 1}'
run "$plan" search "$tmp/experts.yaml" --gpus 64 --top 3 --write "$tmp/best.yaml"
is "experts: search exits 0" "$rc" 0
like "the winner shares them out" "$out" '^ +1 .*experts over [248]'
run "$plan" "$tmp/best.yaml"
is "what it wrote is a layout" "$rc" 0
like "which fits" "$out" '^fits'
experts '{expert: 4, schedule: 1f1b, recompute: full, micro_batch: 1}'
run "$plan" search "$tmp/experts.yaml" --gpus 64 --top 3
is "layout.expert, named, stands" "$(printf '%s\n' "$out" | grep -c 'experts over 4')" 3
experts '{schedule: 1f1b, recompute: full, micro_batch: 1, expert_chunks: 4}'
run "$plan" search "$tmp/experts.yaml" --gpus 64 --top 2
is "so does layout.expert_chunks" "$(printf '%s\n' "$out" | grep -cE '^ +[12] .*experts over [0-9]+ in 4 chunks')" 2
run "$plan" "$tmp/best.yaml" --activations
is "--activations knows experts" "$rc" 0
like "as the arena has them" "$out" 'ffn\.experts\.back +32 .*given by a collective'
is "and nothing differs" "$(printf '%s\n' "$out" | grep -c 'takes every parameter')" 0

# --- one layout that does not fit ---------------------------------------------------------------
file '{data: 8, zero: 0}' 'preset: dgx-a100-80'
run "$plan" "$tmp/run.yaml"
is "a layout that does not fit: exit 1" "$rc" 1
like "is priced all the same" "$out" '^step: '
like "and layouts that fit are named" "$err" '^layouts of 8 ranks that fit'
is "three of them" "$(printf '%s\n' "$err" | grep -c 's a step$')" 3
tap_done
