#!/bin/sh
# campaigns.sh - totals of published trainings beside those of sennit-plan campaign, in Markdown.
#
# usage: tests/bench/campaigns.sh        seconds; nothing is measured
#
# Nothing is fitted to a total. A trainer's constants are those of the profile that was fitted to published steps of
# its kind (docs/ACCURACY.md), chosen by trainer and device before any total was planned; failures are counted ones.
#
#   Llama 3 405B   arXiv 2407.21783: table 4 (16,384 H100: tensor 8, pipeline 16, data 128 at 8,192 tokens, and with
#                  context 16, data 8 at 131,072; batches of 16M tokens; MFU 41 and 38 %), section 3.4 (15.6T tokens: 8M a
#                  step until 2.87T, then 16M, 800B of long context), table 5 (419 unexpected and 47 planned interruptions
#                  in 54 days, more than 90 % effective), 3.3.1 (storage takes 2 TB/s); 30.84M hours: the model card of 3.1.
#                  Assumed: 8,192 devices while a step has 8M tokens (row 1 of table 4, data 64). Its first 252M tokens in 4M are
#                  counted as 8M. Published grids, the rest searched: the published layout without recomputation does not fit here.
#   BLOOM-176B     Hugging Face, "The Technology Behind BLOOM Training": 384 A100 80 GB, tensor 4, pipeline 12, data 8,
#                  micro-batch 2, 1 to 2 failures a week, a checkpoint every 100 steps; bigscience tr11-176B-ml (batches from 192
#                  to 2,048 over 20B tokens, here in steps of 32; jobs of 100 h); model card: 366B tokens; arXiv 2211.02001:
#                  1,082,990 hours, which times 400 W are its 433,196 kWh.
#   GPT-NeoX-20B   arXiv 2204.06745: 96 A100 40 GB, tensor 2, pipeline 4, micro-batch 4, 150,000 steps of 1,538 sequences (1,536 =
#                  4 x 12 x 32), 1,830 hours. Failures are not published: Llama 3's a device.
#   LLaMA-65B      arXiv 2302.13971: 1.4T tokens in batches of 4M, 2,048 A100 80 GB, 1,022,362 hours. Layout and kernels are not
#   Llama 2 70B    arXiv 2307.09288: 2T tokens in batches of 4M, 1,720,320 hours.   published: searched with tensor 8, and with
#                  no profile of their trainer, under profiles of A100s and H100s; the spread is what not knowing a trainer costs.
set -eu
cd "$(dirname "$0")/../.."
plan=${BUILD:-build}/bin/sennit-plan
[ -x "$plan" ] || { echo "campaigns.sh: no $plan; run make first" >&2; exit 2; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

# model train machine profile layout rest-of-the-file
file() {
    printf 'model: {%s}\ntrain: {steps: 1, %s}\nmachine: {%s, software: {profile: %s}}\nlayout: {%s}\n%s\n' "$@" >"$tmp/run.yaml"
}

# ranks tokens option...: adds to what the run has so far
campaign() {
    ranks=$1 tokens=$2
    shift 2
    "$plan" campaign "$tmp/run.yaml" --gpus "$ranks" --tokens "$tokens" --json "$@" >>"$tmp/all" 2>"$tmp/err" || {
        cat "$tmp/err" >&2
        exit 1
    }
}

# name profile layouts published-hours
row() {
    tr ',{' '\n\n' <"$tmp/all" | awk -v name="$1" -v profile="$2" -v how="$3" -v known="$4" '
        / *"campaign": *$/ { inside = 1 }
        inside && /"(held_s|training_s|device_hours|failures|device_kwh)":/ { gsub(/[ ":]+/, " "); sum[$1] += $2 }
        /"mfu":/ { mfu = mfu (mfu ? ", " : "") sprintf("%.1f", 100 * $2) }
        /"drawn":/ { inside = 0 }
        END {
            printf "| %s | %s | %s | %s | %.1f | %.0f | %.1f | %.0f | %d | %+.1f |\n", name, profile, how, mfu,
                100 * sum["training_s"] / sum["held_s"], sum["failures"], sum["held_s"] / 86400, sum["device_hours"], known,
                100 * (sum["device_hours"] / known - 1)
        }'
    rm -f "$tmp/all"
}

echo '| training | constants | layout | MFU, % | useful, % | failures | days | device-hours | published | off, % |'
echo '|---|---|---|---|---|---|---|---|---|---|'

llama3() { # tokens-of-a-sequence sequences grid ranks tokens
    file "preset: llama3.1-405b, seq: $1" "global_batch: $2, precision: bf16" 'preset: dgx-h100' nemo-2025 \
        "$3, tensor: 8, pipeline: 16, tensor_x: 1" 'checkpoint: {dir: checkpoints, every: 0}
slurm: {spares: 1}'
    campaign "$4" "$5" --mtbf-hours "$(awk 'BEGIN { print 2048 * 54 * 24 / 466 }')" --storage 2TB
}
llama3 8192 1024 'data: 64, context: 1' 8192 2.87e12
llama3 8192 2048 'data: 128, context: 1' 16384 11.93e12
llama3 131072 128 'data: 8, context: 16' 16384 0.8e12
row 'Llama 3 405B' nemo-2025 'published grids, rest searched' 30840000

ramp=$(awk 'BEGIN {
    for (k = 0; k < 58; k++) {
        sizes = sizes (k ? ", " : "") 208 + 32 * k
        until = until (k ? ", " : "") sprintf("%.0f", (k + 1) * 2e10 / 58)
    }
    print "ramp: {batches: [" sizes "], until_tokens: [" until "]}" }')
file 'family: gpt2, layers: 70, hidden: 14336, heads: 112, vocab: 250880, seq: 2048' \
    "global_batch: 2048, precision: bf16, $ramp" "file: $PWD/tests/bench/machines/jean-zay-a100.yaml" megatron-deepspeed-2022 \
    'data: 8, tensor: 4, pipeline: 12, context: 1, tensor_x: 1, micro_batch: 2, zero: 1, recompute: full, schedule: 1f1b, overlap: none' \
    'checkpoint: {dir: checkpoints, every: 100}
slurm: {time: "100:00:00"}'
campaign 384 366e9 --mtbf-hours "$(awk 'BEGIN { print 48 * 7 * 24 / 1.5 }')"
row BLOOM-176B megatron-deepspeed-2022 published 1082990

file 'preset: gpt-neox-20b' 'global_batch: 1536, precision: fp16' "file: $PWD/tests/bench/machines/dgx-a100-40.yaml" \
    megatron-deepspeed-2022 \
    'data: 12, tensor: 2, pipeline: 4, context: 1, tensor_x: 1, micro_batch: 4, zero: 1, recompute: full, schedule: 1f1b' ''
campaign 96 471859200000
row GPT-NeoX-20B megatron-deepspeed-2022 published 175680

llama() { # name model sequences tokens published
    for profile in sennit megatron-2021 nemo-2025 llm-foundry-2023; do
        file "$2" "global_batch: $3, precision: bf16" 'preset: dgx-a100-80' $profile \
            'tensor: 8, context: 1, tensor_x: 1, zero: 1' ''
        campaign 2048 "$4"
        row "$1" $profile 'searched' "$5"
    done
}
llama LLaMA-65B 'preset: llama-65b' 2048 1.4e12 1022362
llama 'Llama 2 70B' 'preset: llama3-70b, vocab: 32000, seq: 4096, rope_theta: 10000.0' 1024 2e12 1720320
