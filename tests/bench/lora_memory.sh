#!/bin/sh
# lora_memory.sh - what sennit-plan says of the memory of llama3-8b with and without adapters, whose base may be codes: the table of docs/FINETUNE.md.
set -eu
plan=${BUILD:-build}/bin/sennit-plan
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
adapters='lora: {rank: 16, alpha: 32, targets: ["*.attn.*", "*.ffn.*"]}, '
int8='lora: {rank: 16, alpha: 32, targets: ["*.attn.*", "*.ffn.*"], base: int8}, '
int4='lora: {rank: 16, alpha: 32, targets: ["*.attn.*", "*.ffn.*"], base: int4}, '
row() { # machine ranks precision layout adapters
    cat >"$tmp/run.yaml" <<YAML
run: {name: memory, output: $tmp/run}
model: {preset: llama3-8b, seq: 4096}
data: {train: none}
train: {steps: 1, global_batch: 16, precision: $3, $5optimizer: {lr: 1.0e-4}}
layout: {micro_batch: 1, $4}
machine: {preset: $1}
YAML
    "$plan" "$tmp/run.yaml" --ranks "$2" 2>/dev/null |
        awk -v what="$2 x $1, $3, $4, ${5:+adapters}${5:-all weights}" -v lora="${5:+1}" '
            BEGIN {
                base = what ~ /base: int/ ? " of an int" (what ~ /int4/ ? 4 : 8) " base" : ""
                sub(/adapterslora.*/, "adapters" base, what)
            }
            /^  (params|grads|optimizer|activations|total) / { printf "%s%s %.2f GiB", n++ ? ", " : what ": ", $1, $2 / 2 ^ 30 }
            /fit:|^fits/ { printf "; %s", $0 }
            END { print "" }'
}
row dgx-h100 1 bf16 'recompute: full' ''
row dgx-h100 1 bf16 'recompute: full' "$adapters"
row dgx-h100 1 bf16 'recompute: selective' "$adapters"
row dgx-h100 1 bf16 'recompute: full' "$int8"
row dgx-h100 1 bf16 'recompute: full' "$int4"
row dgx-h100 1 bf16 'recompute: selective' "$int4"
row marconi100 1 fp16 'recompute: full' "$int4"
row marconi100 4 fp16 'zero: 3, recompute: full' ''
row marconi100 4 fp16 'zero: 3, recompute: full' "$adapters"
row marconi100 4 fp16 'tensor: 4, recompute: full' "$adapters"
row marconi100 4 fp16 'zero: 3, recompute: full' "$int4"
row marconi100 4 fp16 'tensor: 4, recompute: full' "$int4"
