#!/bin/sh
# test_study.sh - sennit-plan study: its tables are those of searches with the same keys named, and what it refuses.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
plan=$BUILD/bin/sennit-plan

file() { # machine layout
    cat >"$tmp/run.yaml" <<EOF
run: {name: study, output: $tmp/out}
model: {family: llama, layers: 4, hidden: 1024, heads: 8, ffn: 2816, vocab: 32000, seq: 2048}
train: {steps: 1000, global_batch: 16, precision: bf16}
machine: {$1}
layout: {$2}
EOF
}
step() { # layout: of the best layout with these keys
    file 'preset: dgx-h100' "$1"
    run "$plan" search "$tmp/run.yaml" --gpus 8 --top 1 --json
    printf '%s\n' "$out" | grep -oE '"step_time_s": [0-9.e-]+' | head -n 1
}
cell() { # down across row column: the step of a cell of the study
    awk -v down="$1" -v across="$2" -v row="$3" -v column="$4" '
        /"down"/ { here = index($0, "\"down\": \"" down "\", \"across\": \"" across "\""); r = 0; k = 0 }
        here { n = split($0, part, "{\"why\": ") }
        here && n > 1 { for (i = 2; i <= n; i++) {
            if (part[i - 1] ~ /\[$/ && i == 2) { r++; k = 0 }
            k++
            if (r == row && k == column && match(part[i], /"step_time_s": [0-9.e-]+/)) print substr(part[i], RSTART, RLENGTH) } }
    ' "$tmp/study.json"
}

file 'preset: dgx-h100' 'context: 1, tensor_x: 1, schedule: 1f1b'
run "$plan" study "$tmp/run.yaml" --gpus 8 --json
is "study exits 0" "$rc" 0
printf '%s\n' "$out" >"$tmp/study.json"
run "$BUILD/tests/cli/plan_json" schema docs/plan.schema.json "$tmp/study.json"
is "in the form of the schema" "$err" ''
both='context: 1, tensor_x: 1, schedule: 1f1b'
is "a micro-batch of 2, recomputing nothing: what a search with these keys finds" "$(cell micro-batch recompute 2 1)" "$(step "$both, micro_batch: 2, recompute: none")"
is "2 tensor ranks in 2 stages" "$(cell tensor pipeline 2 2)" "$(step "$both, tensor: 2, pipeline: 2")"
is "ZeRO 3 with 2 tensor ranks" "$(cell zero tensor 4 2)" "$(step "$both, zero: 3, tensor: 2")"
is "sequence parallelism over 4" "$(cell sequence_parallel tensor 2 2)" "$(step "$both, sequence_parallel: true, tensor: 4")"
is "8 tensor ranks in 2 stages are no layout of 8" "$(cell tensor pipeline 4 2)" ''
file 'preset: dgx-h100' "$both"
run "$plan" study "$tmp/run.yaml" --gpus 8
is "as text it exits 0" "$rc" 0
like "it says what is in a cell" "$out" '^study on 8 devices, dgx-h100: MFU of the best layout with each pair of values, all else searched$'
like "a table" "$out" '^micro-batch by recompute$'
like "what no layout has" "$out" '^ +8  16\.9 % t8 p1 m16 +- +-$'
is "each table has one best" "$(printf '%s\n' "$out" | grep -c 'm[0-9]* \*')" 4
is "our own kernels are not told apart" "$(printf '%s\n' "$out" | grep -c 'attention by norm')" 0
file 'preset: dgx-a100-80, software: {profile: aleph-alpha-2023}' "$both, pipeline: 1, micro_batch: 1, recompute: none, zero: 1"
run "$plan" study "$tmp/run.yaml" --gpus 8
is "of another trainer, too" "$rc" 0
like "its kernels are" "$out" '^ +flash1  [0-9.]+ % t[0-9] p1 m1 .*[0-9.]+ % t[0-9] p1 m1'
file 'preset: lassen' "$both"
sed -i 's/bf16/fp16/; s/layers: 4, hidden: 1024/layers: 40, hidden: 8192/; s/ffn: 2816/ffn: 22528/; s/heads: 8/heads: 64/' "$tmp/run.yaml"
run "$plan" study "$tmp/run.yaml" --gpus 4
is "what fits nowhere: exit 1" "$rc" 1
like "and says so" "$out" 'does not fit'
file 'preset: dgx-h100' "$both, tensor: 3"
refused=$("$plan" study "$tmp/run.yaml" --gpus 8 2>&1)
is "no layout at all: exit 2" $? 2
like "with the sentence of a search" "$refused" 'tensor'
file 'preset: dgx-h100' "$both"
run "$plan" study "$tmp/run.yaml"
is "no number of ranks: exit 2" "$rc" 2
like "and what would say it" "$err" 'use --gpus, machine.nodes or layout.data$'
run "$plan" study "$tmp/run.yaml" --gpus 8,16
is "a list of ranks: exit 2" "$rc" 2
run "$plan" study --help
is "--help exits 0" "$rc" 0
tap_done
