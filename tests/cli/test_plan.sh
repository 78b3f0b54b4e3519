#!/bin/sh
# test_plan.sh - sennit-plan: what a stage keeps, and how long stages wait.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
plan=$BUILD/bin/sennit-plan

file() { # layout
    cat >"$tmp/run.yaml" <<EOF
run: {name: plan}
model: {family: gpt2, layers: 8, hidden: 96, heads: 6, kv_heads: 6, ffn: 384, vocab: 64, seq: 64, tied_embeddings: false}
data: {train: none}
train: {steps: 1, global_batch: 8}
layout: {$1}
EOF
}

number() { # key: of the JSON in $out, the first one
    printf '%s\n' "$out" | grep -oE "\"$1\": [0-9.]+" | sed 's/.* //; q'
}

# --- activations --------------------------------------------------------------------------------
file 'pipeline: 4, schedule: 1f1b'
run "$plan" "$tmp/run.yaml" --activations
is "--activations exits 0" "$rc" 0
is "a table for each stage" "$(printf '%s\n' "$out" | grep -c '^stage')" 4
is "slots of 1f1b" "$(printf '%s\n' "$out" | sed -n 's/^stage.*flight: //p' | tr '\n' ' ')" '4 3 2 1 '
like "the scores' absence has a reason" "$out" 'scores  *0 .*never kept'
run "$plan" "$tmp/run.yaml" --activations --json
is "a slot of the arena is what the formula says" "$(number arena_bytes)" "$(number formula_bytes)"
like "a tensor has its bytes and the paper's" "$out" '"name": "mid".*"bytes": 98304, "literature_bytes": 49152'
like "and its differences" "$out" '"differences": \["fp32: 4 bytes an element, not 2"\]'

# --- the bubble ---------------------------------------------------------------------------------
file ''
run "$plan" "$tmp/run.yaml" --json
is "one stage never waits" "$(number bubble_fraction)" 0.000000
like "null figures stay null" "$out" '"step_time_s": null'

# Equal stages but for a small head: close to (p-1)/(m+p-1) = 3/11, and a quarter of it is saved by
# delaying weight gradients.
file 'pipeline: 4, schedule: 1f1b'
run "$plan" "$tmp/run.yaml" --json
plain=$(number bubble_fraction)
ok "1f1b waits for about 3/11" awk -v f="$plain" 'BEGIN { exit !(f > 0.27 && f < 0.31) }'
file 'pipeline: 4, schedule: zero-bubble'
run "$plan" "$tmp/run.yaml" --json
ok "zero-bubble waits less" awk -v f="$(number bubble_fraction)" -v g="$plain" 'BEGIN { exit !(f > 0 && f < 0.75 * g) }'
run "$plan" "$tmp/run.yaml"
like "the text says so too" "$out" '^bubble: stages wait for [0-9.]+ % of'

# --- an asynchronous save -----------------------------------------------------------------------
file 'data: 2'
run "$plan" "$tmp/run.yaml" --json
without=$(number total)
is "no copy without checkpoint.async" "$(number snapshot)" 0
echo 'checkpoint: {async: true}' >>"$tmp/run.yaml"
run "$plan" "$tmp/run.yaml" --json
ok "a copy with it" test "$(number snapshot)" -gt 0
is "which is a part of the total" "$(number total)" $((without + $(number snapshot)))
run "$plan" "$tmp/run.yaml"
like "the text says so too" "$out" '^  snapshot  *[1-9]'
tap_done
