#!/bin/sh
# test_golden_plans.sh - a plan for each machine that ships: the same figures as yesterday, in the form
# that docs/plan.schema.json describes.
#
# Where figures change for a reason: tests/golden/update.sh, and the reason in the commit.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
plan=$BUILD/bin/sennit-plan json=$BUILD/tests/cli/plan_json schema=docs/plan.schema.json

as_it_was() { # name machine
    name=$1 golden=tests/golden/plans/$1
    ok "$name has a golden plan" test -s "$golden.yaml"
    "$plan" "$golden.yaml" --json >"$tmp/$name.json" 2>"$tmp/err"
    is "$name: exit 0, or 1 where it does not fit" "$?" "$(grep -c '"fits": false' "$golden.json")"
    like "$name: by this machine" "$(cat "$tmp/$name.json")" "\"machine\": \"$2\""
    # Scratch of kernels depends on this host's instruction set, and the total with it.
    run "$json" same "$golden.json" "$tmp/$name.json" 1e-9 workspace total
    is "$name: as it was" "$err" ''
    run "$json" sums "$tmp/$name.json"
    is "$name: memory's classes sum to its total, traffic by axis to traffic by level" "$err" ''
    run "$json" schema "$schema" "$tmp/$name.json" "$golden.json"
    is "$name: in the form of the schema" "$err" ''
}
for machine in templates/machines/*.yaml; do
    as_it_was "$(basename "$machine" .yaml)" "$(basename "$machine" .yaml)"
done
as_it_was dgx-h100-experts dgx-h100
as_it_was dgx-h100-hops dgx-h100
fabric() { # bytes between nodes
    sed 's/.*"fabric": \([0-9]*\).*/\1/' "$tmp/$1.json"
}
# But for the bounds, whose gathers are rings on this machine: along rails, all of one is between nodes.
ok "two hops send as many bytes between nodes as one, but for bounds" \
    awk -v one="$(fabric dgx-h100-experts)" -v two="$(fabric dgx-h100-hops)" \
    'BEGIN { exit !(two >= one && two - one < 1e-4 * one) }'
like "and the plan says which are taken" "$("$plan" tests/golden/plans/dgx-h100-hops.yaml)" \
    'exchanges: in two hops, 8 nodes of 8: .* ms; in one '

# --- the schema refuses -------------------------------------------------------------------------
refuses() { # sentence sed-command pattern
    sed "$2" "$tmp/lassen.json" >"$tmp/bad.json"
    run "$json" schema "$schema" "$tmp/bad.json"
    is "$1" "$rc" 1
    like "and says where" "$err" "$3"
}
refuses "an unknown key" 's/"layout"/"more": 1, "layout"/' '\.more: is no key of the schema'
refuses "an unknown key inside" 's/{"params"/{"more": 1, "params"/' 'bytes\.more: is no key'
refuses "a missing key" 's/"mfu": [^,]*, //' "lacks the key 'mfu'"
refuses "a wrong type" 's/"fits": true/"fits": "yes"/' '\.fits: has the wrong type'
refuses "a word that is none" 's/"1f1b"/"2f2b"/' '\.schedule: is none of the values'
refuses "a fraction above one" 's/"mfu": [^,]*/"mfu": 1.01/' '\.mfu: is too large'
refuses "bytes below zero" 's/"grads": /"grads": -/' '\.grads: is too small'
refuses "a split that is neither" 's/"split": "auto"/"split": "even"/' '\.split: satisfies none'

grep -v '^layout:' tests/golden/plans/laptop-cpu.yaml >"$tmp/free.yaml"
"$plan" search "$tmp/free.yaml" --gpus 4 --top 3 --json >"$tmp/found.json"
run "$json" schema "$schema" "$tmp/found.json"
is "what a search finds is an array of plans" "$err" ''
is "of as many as asked for" "$(grep -c '"why": ' "$tmp/found.json")" 3

# --- the comparison refuses ---------------------------------------------------------------------
sed -E 's/("step_time_s": [0-9]+)/\19/' "$tmp/lassen.json" >"$tmp/bad.json"
run "$json" same "$tmp/lassen.json" "$tmp/bad.json" 1e-9
is "another step time is another plan" "$rc" 1
like "which is named" "$err" '\.step_time_s: '
sed 's/"params": [0-9]*/"params": 1/g' "$tmp/lassen.json" >"$tmp/bad.json"
run "$json" sums "$tmp/bad.json"
is "a class that is too small is found" "$rc" 1

# --- options of the plan that goldens do not have ------------------------------------------------
"$plan" tests/golden/plans/laptop-cpu.yaml --json --verify --mtbf-hours 100 --storage 1GB >"$tmp/more.json"
run "$json" schema "$schema" "$tmp/more.json"
is "--verify and --mtbf-hours keep to the schema" "$err" ''
like "the verdict is there" "$(cat "$tmp/more.json")" '"verified": true, "fault": null'
like "and nothing is assumed" "$(cat "$tmp/more.json")" '"mtbf_s": 360000, .*"mtbf_assumed": false, "storage_assumed": false'

# --- the picture of README.md -------------------------------------------------------------------
SN_ISA=generic "$plan" docs/img/step.yaml --svg "$tmp/step.svg" >"$tmp/out" 2>"$tmp/err"
is "the run of docs/img/step.svg is planned" "$?" 0
if [ "$(uname -m)" = x86_64 ]; then # its memory has the scratch of kernels
    ok "docs/img/step.svg is what sennit-plan draws of docs/img/step.yaml" cmp -s "$tmp/step.svg" docs/img/step.svg
else
    skip "docs/img/step.svg is what sennit-plan draws of docs/img/step.yaml" "drawn with the kernels of x86-64"
fi

# --- GPT-NeoX-20B on Lassen ---------------------------------------------------------------------
run "$plan" templates/runs/neox-20b-lassen.yaml --ranks 192 --json
is "GPT-NeoX-20B is planned on 48 nodes of Lassen" "$rc" 0
like "has its 20.55 billion parameters" "$out" '"parameters": 20554567680,'
like "and fits" "$out" '"fits": true'
run "$plan" templates/runs/neox-20b-lassen.yaml --ranks 192 --verify
like "and cannot hang" "$out" '^verified: no rank waits for ever'
for class in params grads optimizer activations comm library; do
    row=$(printf '%s\n' "$out" | grep "^  $class ")
    ok "docs/PLANNER.md has its $class" grep -qF "    $row" docs/PLANNER.md
done

# --- DeepSeek-V3 on H800 ------------------------------------------------------------------------
run "$plan" templates/runs/deepseek-v3-h800.yaml --ranks 2048 --json
is "DeepSeek-V3 is planned in its own layout on 2,048 H800" "$rc" 0
like "has its 671.03 billion parameters" "$out" '"parameters": 671026419200,'
like "and fits" "$out" '"fits": true'
like "its step takes as long as docs/PLANNER.md says" "$out" '"step_time_s": 40.9'
tap_done
