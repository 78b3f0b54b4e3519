#!/bin/sh
# test_undefined.sh - the binaries under UBSan, on what users give them: nothing that C leaves undefined is done, though the
# compiler that built the binaries may have done as meant.
#
# UBSan ends a program at the first such thing (exit 1, "runtime error: " and its place). The binaries are those of $BUILD/ub, or
# of a build that is sanitized as a whole. A row of many run files is one test, which names those that failed.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
# shellcheck source=tests/lib/train.sh
. tests/lib/train.sh
# shellcheck source=tests/lib/layouts.sh
. tests/lib/layouts.sh

case $BUILD in */san) ;; *) BUILD=$BUILD/ub ;; esac
unset UBSAN_OPTIONS
plan=$BUILD/bin/sennit-plan train=$BUILD/bin/sennit-train data=$BUILD/bin/sennit-data
convert=$BUILD/bin/sennit-convert runner=$BUILD/bin/sennit-run
for binary in "$plan" "$train" "$data" "$convert" "$runner"; do
    [ -x "$binary" ] || { echo "Bail out! $binary is not there; make check builds it" && exit 1; }
done
bad='' count=0

try() { # what command...: goes on the list where it does not exit with 0
    try_what=$1
    shift
    count=$((count + 1))
    run timeout 600 "$@"
    [ "$rc" = 0 ] || bad="$bad$try_what: exit $rc: $(printf '%s\n' "$err" | grep -m 1 . | cut -c1-200)
"
}

try_fit() { # what command...: the same of a plan, which may not fit (1)
    try_what=$1
    shift
    count=$((count + 1))
    run timeout 600 "$@"
    case "$rc:$out$err" in
    0:*) ;;
    *'runtime error: '*) bad="$bad$try_what: $(printf '%s\n' "$err" | grep -m 1 'runtime error')
" ;;
    *'refuted: '*) bad="$bad$try_what: $(printf '%s\n' "$out" | grep 'refuted: ')
" ;;
    1:*'does not fit'* | 1:*'"fits": false'*) ;;
    *) bad="$bad$try_what: exit $rc: $(printf '%s\n' "$err" | grep -m 1 . | cut -c1-200)
" ;;
    esac
}

row() { # sentence at-least: what has been tried since the last row
    is "$1" "$(printf '%s' "$bad" | head -n 10)" ''
    ok "and that were $2 or more ($count)" test "$count" -ge "$2"
    bad='' count=0
}

refused() { # sentence command...: bad input is refused, with nothing undefined on the way
    refused_what=$1
    shift
    run "$@"
    is "$refused_what: exit 2" "$rc" 2
}

# --- plans: every kind of layout (every sixth line, ALL=1: all), model, machine -----------------
grep '^[a-z].* fast' "$table" | awk -v all="${ALL:-}" 'all != "" || NR % 6 == 2' >"$tmp/fast"
while read -r line; do
    layout_file "$line" "$tmp/run.yaml" "$tmp/out"
    try "${line%% *}" "$plan" "$tmp/run.yaml" --json --verify
done <"$tmp/fast"
row "layouts of the table are planned and proven" 25

set -- 'data: 16, zero: 3, recompute: full' 'data: 4, tensor: 4, zero: 1' \
    'data: 2, tensor: 2, pipeline: 4, schedule: zero-bubble' 'context: 2, tensor: 4, data: 2, recompute: selective' \
    'pipeline: 4, schedule: interleaved, virtual_stages: 2, data: 4, compress: {scheme: mzhybrid}'
# Of each family's models every second one, the first among them (ALL=1: all).
awk -v all="${ALL:-}" '/^family:/ { if (all != "" || n[$2]++ % 2 == 0) print FILENAME }' templates/models/*.yaml >"$tmp/models"
while read -r model; do
    preset=$(basename "$model" .yaml)
    # A layout's tensor has to divide the heads of every model; gpt2-1.5b has 25, qwen2-0.5b 14 and 2 of keys.
    layout=$1
    case $preset:$layout in gpt2-1.5b:*tensor* | qwen2-0.5b:*tensor*) layout='data: 16, zero: 2' ;; esac
    shift
    set -- "$@" "$layout"
    cat >"$tmp/run.yaml" <<YAML
model: {preset: $preset}
train: {steps: 5, global_batch: 64, precision: fp16}
layout: {$layout}
machine: {preset: dgx-a100-80, nodes: 2}
YAML
    # Text would search where a plan does not fit; to prove 128 or 256 experts in each layer takes minutes under UBSan.
    case $preset in qwen3-*-a*b | deepseek-v3) proof='' ;; *) proof=--verify ;; esac
    # shellcheck disable=SC2086  # an option or none
    try_fit "$preset, $layout" "$plan" "$tmp/run.yaml" --json $proof
done <"$tmp/models"
for run_yaml in tests/golden/plans/*.yaml; do
    try_fit "$run_yaml" "$plan" "$run_yaml" --json
    try "$run_yaml --activations" "$plan" "$run_yaml" --activations
done
try "pictures and the page" "$plan" tests/golden/plans/laptop-cpu.yaml --timeline --svg "$tmp/svg" --trace "$tmp/trace" --report "$tmp/page"
try templates/runs/example.yaml "$plan" templates/runs/example.yaml --explain 0
try templates/runs/neox-20b-lassen.yaml "$plan" templates/runs/neox-20b-lassen.yaml
try templates/runs/demo.yaml "$plan" templates/runs/demo.yaml --ranks 2
try --help-keys "$plan" --help-keys=markdown
row "models, machines and run files that ship are planned" 50

small='layers: 4, hidden: 512, heads: 8, vocab: 1000, seq: 512'
for model in 'preset: llama-7b' "family: mixtral, $small, ffn: 1024, experts: {count: 8}"; do
    cat >"$tmp/run.yaml" <<YAML
model: {$model}
train: {steps: 5, global_batch: 64, precision: bf16}
layout: auto
machine: {preset: dgx-h100, nodes: 1}
YAML
    try "search, $model" "$plan" search "$tmp/run.yaml" --top 2 --write "$tmp/best.yaml"
    try "layout: auto, $model" "$plan" "$tmp/run.yaml"
done
sed 's/^layout.*/layout: {data: 4, tensor: 2, compress: {scheme: auto, budget: 0.01}}/' "$tmp/run.yaml" >"$tmp/coded.yaml"
try "codecs for a budget" "$plan" "$tmp/coded.yaml"
try calibrate "$plan" calibrate templates/runs/demo.yaml -o "$tmp/machine.yaml" --seconds 0 --threads 1
row "layouts and codecs are searched, a machine is measured" 6

# --- data, training, checkpoints ----------------------------------------------------------------
make_tokens "$tmp/tok"
try "sennit-data print" "$data" print "$tmp/tok"
try "sennit-data tokenize" "$data" tokenize README.md --tokenizer tests/unit/fixtures/token/llama3.json --out "$tmp/tokenized"
try "sennit-data train-tokenizer" "$data" train-tokenizer README.md --vocab-size 400 -o "$tmp/trained.json"
try "sennit-data merge" "$data" merge "$tmp/tokenized/tokens" "$tmp/tok" -o "$tmp/tokenized/merged"
try "sennit-data shuffle" "$data" shuffle "$tmp/tokenized/merged" -o "$tmp/tokenized/shuffled" --memory 1
try "sennit-data dedup" "$data" dedup "$tmp/tokenized/shuffled" "$tmp/tok" -o "$tmp/tokenized/dedup"
try "sennit-data stats" "$data" stats "$tmp/tokenized/dedup" --json
try "sennit-data check" "$data" check "$tmp/tokenized/dedup"
row "token files are built and shown" 1
steps=6 every=2 eval_every=2 batch=4 eval_sequences=4 run_file "$tmp/one.yaml" "$tmp/one"
try "one rank" "$train" "$tmp/one.yaml" --stop-after 2
try "one rank goes on" "$train" "$tmp/one.yaml"
try "it writes" "$train" "$tmp/one.yaml" --generate 'the '
printf '{"prompt": "the ", "until": ["\\n", "e"], "tokens": 9, "id": [1]}\n{"prompt": [1, 200]}\n' >"$tmp/asked"
try "it answers" "$train" "$tmp/one.yaml" --answer "$tmp/asked" --tokens 20
for layout in 'data: 2, zero: 3' 'tensor: 2, recompute: full' 'pipeline: 2, schedule: zero-bubble' 'context: 2' \
    'data: 2, compress: {data: int8}'; do
    sed "s,$tmp/one,$tmp/two,; s/^layout: {/&$layout, /" "$tmp/one.yaml" >"$tmp/two.yaml"
    try "two ranks, $layout" tests/mpi/run -n 2 "$train" "$tmp/two.yaml"
    rm -rf "$tmp/two"
done
layout_tokens "$tmp/tok"
layout_file "$(layout_line ep2)" "$tmp/run.yaml" "$tmp/moe"
try "two ranks, experts" tests/mpi/run -n 2 "$train" "$tmp/run.yaml" --stop-after 2
layout_file 'one prompt={"soft":1,"rows":2,"size":6,"levels":true,"layers":[0,2]}' "$tmp/run.yaml" "$tmp/prompts"
try "prompts" "$train" "$tmp/run.yaml" --stop-after 2
printf '%s\n' '{"context": [], "continuation": [1, 2]}' '{"text": [3]}' >"$tmp/ask"
layout_prompt "$tmp/two" 1 2 <"$tmp/text-prompt"
try "it writes behind features" "$train" "$tmp/run.yaml" --generate '1 2' --features "$tmp/two.npy" --tokens 50
try "and scores" "$train" "$tmp/run.yaml" --score "$tmp/ask" --features "$tmp/two.npy"
row "one rank and two train" 11

echo 'layout: {tensor: 2}' >"$tmp/layout.yaml"
try --layout "$convert" "$tmp/one/ckpt" "$tmp/as-two" --layout "$tmp/layout.yaml"
try --verify "$convert" --verify "$tmp/as-two"
try --diff "$convert" --diff "$tmp/one/ckpt" "$tmp/as-two"
try --inspect "$convert" --inspect "$tmp/as-two"
try '--to safetensors' "$convert" "$tmp/as-two" "$tmp/hf" --to safetensors --dtype bf16
try --grow "$convert" "$tmp/one/ckpt" "$tmp/grown" --grow 2x
row "checkpoints are converted, verified, compared, shown, exported and grown" 6

# --- jobs ---------------------------------------------------------------------------------------
for site in templates/sites/*.yaml; do
    name=$(basename "$site" .yaml)
    try "$name" "$runner" submit "tests/golden/sites/$name.yaml" --print
done
for folder in tests/golden/status/*/; do
    for words in status 'why --json'; do
        # shellcheck disable=SC2086  # options
        try "$words $folder" "$runner" $words "${folder}run"
    done
done
printf 'SLURM_JOB_ID=1\nSLURM_JOB_NODELIST=n[0-3]\nSLURM_NTASKS=8\nSLURM_TASKS_PER_NODE=2(x4)\n' >"$tmp/job.env"
printf 'SwitchName=s0 Nodes=n[0,2]\nSwitchName=s1 Nodes=n[1,3]\nSwitchName=core Switches=s[0-1]\n' >"$tmp/switches"
batch=8 run_file "$tmp/map.yaml" "$tmp/map"
sed -i 's/^layout: {/&data: 4, tensor: 2, /' "$tmp/map.yaml"
try map "$runner" map "$tmp/map.yaml" --env "$tmp/job.env" --topology "$tmp/switches"
row "scripts of all sites, states of runs, places of ranks" 20

# --- numbers at the end of what keys take -------------------------------------------------------
batch=4 run_file "$tmp/deep.yaml" "$tmp/deep"
sed 's/^model:/model: {family: llama, layers: 1, hidden: 1048576, heads: 4, ffn: 4194304, vocab: 256, seq: 1048576}\nx:/' \
    "$tmp/deep.yaml" | sed '/^x:/,/^data:/{/^data:/!d}' | sed 's/^data:.*/data: {train: none, valid: none}/' >"$tmp/huge.yaml"
try_fit "the widest model" "$plan" "$tmp/huge.yaml"
sed 's/global_batch: 4/global_batch: 1048576/; s/eval_sequences: 4/eval_sequences: 1048576/; s/^layout: {/&data: 16384, tensor: 4, /' "$tmp/one.yaml" >"$tmp/many.yaml"
try "the most sequences on many ranks" "$plan" "$tmp/many.yaml" --json
row "the largest numbers are planned" 2
refused "more than a key takes" "$plan" "$tmp/one.yaml" --ranks 99999999999999999999
sed 's/^  layers: .*/  layers: 999999999999999999999999/' "$tmp/one.yaml" >"$tmp/over.yaml"
refused "more than a number holds" "$plan" "$tmp/over.yaml"
printf 'not a checkpoint' >"$tmp/none"
refused "no checkpoint" "$convert" --verify "$tmp/none"
tap_done
