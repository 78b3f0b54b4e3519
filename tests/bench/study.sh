#!/bin/sh
# study.sh - sennit-plan study beside the published study of layouts, in Markdown.
#
# usage: tests/bench/study.sh        minutes; nothing is measured
#
# The four sheets of arXiv 2311.05610 that are in tests/bench/layouts, each planned by one command with the profile of its trainer. Of each pair of
# values the best published row (MFU as the sheets count it), and the best that the search finds; the sheets tried a
# grid of layouts, the search takes all that the trainer has (1F1B, ZeRO 1, recomputation of all or nothing).
set -eu
cd "$(dirname "$0")/../.."
plan=${BUILD:-build}/bin/sennit-plan
[ -x "$plan" ] || { echo "study.sh: no $plan; run make first" >&2; exit 2; }
command -v python3 >/dev/null || { echo "study.sh: SKIP: no python3" >&2; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

sheet() { # title csv sheet devices model batch layout
    cat >"$tmp/run.yaml" <<EOF
model: {family: llama, vocab: 128000, $5}
train: {steps: 1, global_batch: $6, precision: bf16}
machine: {preset: dgx-a100-80, software: {profile: aleph-alpha-2023}}
layout: {schedule: 1f1b, zero: 1, context: 1, tensor_x: 1$7}
EOF
    "$plan" study "$tmp/run.yaml" --gpus "$4" --json >"$tmp/study.json"
    printf '\n### %s\n' "$1"
    python3 tests/bench/study.py "$tmp/study.json" "tests/bench/layouts/$2" "$3"
}

small='layers: 40, hidden: 5120, heads: 40, ffn: 13824'
large='layers: 60, hidden: 6656, heads: 52, ffn: 17888'
off=', sequence_parallel: false'
sheet '13B, 64 A100, 2,048 tokens' aa_layouts_sweep.csv llama_13B_bfloat16_64_GPUs_all_runs 64 "$small, seq: 2048" 2048 "$off"
sheet '13B, 64 A100, 8,192 tokens' aa_layouts_sweep.csv llama_13B_bfloat16_8k_seq_length_64_GPUs_sequence_parallelism 64 "$small, seq: 8192" 512 ''
sheet '30B, 128 A100, 8,192 tokens' aa_layouts_sweep.csv llama_30B_8k_seq_length_bfloat16_128_GPUs_all_runs 128 "$large, seq: 8192" 512 "$off"
sheet '30B, 256 A100, 2,048 tokens' aa_llama_30b_256.csv llama_30B_bfloat16_256_GPUs_all_runs 256 "$large, seq: 2048" 2048 "$off"
