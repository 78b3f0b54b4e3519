#!/bin/sh
# test_campaign.sh - sennit-plan campaign: what it says of a whole run, and what it refuses.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
plan=$BUILD/bin/sennit-plan json=$BUILD/tests/cli/plan_json schema=docs/plan.schema.json

file() { # machine more
    cat >"$tmp/run.yaml" <<EOF
run: {name: campaign, output: $tmp/out}
model: {preset: llama-7b}
train: {steps: 1000, global_batch: 64, precision: bf16}
machine: {$1}
layout: {data: 8, tensor: 4, schedule: 1f1b, zero: 1}
$2
EOF
}
value() { # key: of the last JSON
    printf '%s\n' "$out" | grep -oE "\"$1\": [0-9.e+-]+" | head -n 1 | sed 's/.*: //'
}
equal() { # sentence expression: of awk
    ok "$1" awk "BEGIN { exit !($2) }"
}

# --- one layout ---------------------------------------------------------------------------------
file 'preset: dgx-h100' 'checkpoint: {dir: ckpt, every: 50, keep: 3}'
run "$plan" campaign "$tmp/run.yaml" --price 2.5
is "campaign exits 0" "$rc" 0
like "it says what is run" "$out" '^campaign: 1000 steps, 131 M tokens, 0\.0195 a parameter, on 4 nodes$'
like "days and their parts" "$out" '^  days +[0-9.e-]+  [0-9.e-]+ of training \([0-9.]+ % of the time that nodes are held\)'
like "that no limit of time cuts it" "$out" '^  jobs +1[0-9.]*  without a limit of time'
like "energy of devices and nodes" "$out" '^  energy .* MWh of devices \(700 W each, at most\), .* of the rest of their nodes \(4600 W each\)$'
like "money" "$out" '^  money .* \$, 2\.5 a device-hour$'
like "checkpoints, and how many stay" "$out" '^  checkpoints +2[0-9.]+  of [0-9.]+ GiB, every 50 steps \(the best are [0-9]+\); 3 stay'
run "$plan" campaign "$tmp/run.yaml" --price 2.5 --json
is "--json exits 0" "$rc" 0
printf '%s\n' "$out" >"$tmp/one.json"
run "$json" schema "$schema" "$tmp/one.json"
is "in the form of the schema" "$err" ''
out=$(cat "$tmp/one.json")
equal "device-hours are those of all devices of the nodes" "($(value device_hours) / $(value node_hours) - 8) ^ 2 < 1e-12"
equal "at that price" "$(value dollars) / $(value device_hours) - 2.5 < 1e-6"
equal "and of 700 W" "($(value device_kwh) / $(value device_hours) - 0.7) ^ 2 < 1e-12"
equal "training is steps times their planned time" \
    "($(value training_s) / $(value step_time_s) / 1000 - 1) ^ 2 < 1e-12"
equal "held is training over goodput" "($(value held_s) * $(value goodput) / $(value training_s) - 1) ^ 2 < 1e-12"
like "nothing was drawn" "$out" '"drawn": null'
once=$(value days)

run "$plan" campaign "$tmp/run.yaml" --tokens 2.62144e8 --json
is "--tokens takes the place of train.steps" "$(value steps)" 2000
run "$plan" campaign "$tmp/run.yaml" --tokens 1.31072001e8 --json
is "whole steps read at least as many" "$(value steps)" 1001
equal "and last longer" "$(value days) > $once"
sed 's/global_batch: 64/&, ramp: {batches: [32], until: [500]}/' "$tmp/run.yaml" >"$tmp/ramp.yaml"
run "$plan" campaign "$tmp/ramp.yaml" --json
printf '%s\n' "$out" >"$tmp/ramp.json"
run "$json" schema "$schema" "$tmp/ramp.json"
is "with a ramp, too" "$err" ''
out=$(cat "$tmp/ramp.json")
equal "smaller batches are fewer tokens in less time" "$(value tokens) == 98304000 && $(value days) < $once"

# --- jobs ---------------------------------------------------------------------------------------
file 'preset: dgx-h100' 'slurm: {time: "00:10:00"}'
run "$plan" campaign "$tmp/run.yaml" --tokens 1e10 --queue-hours 6 --json
is "jobs of ten minutes" "$(value job_s)" 600
equal "wait six hours each" "($(value queue_s) / $(value jobs) / 21600 - 1) ^ 2 < 1e-12 && $(value jobs) > 20"
equal "which days have" "($(value days) * 86400 - $(value held_s) - $(value queue_s)) ^ 2 < 1e-3"
short=$(value held_s)
file 'preset: dgx-h100' 'slurm: {time: "1-00:00:00", spares: 1}'
run "$plan" campaign "$tmp/run.yaml" --tokens 1e10 --json
equal "longer jobs start less often" "$(value held_s) < $short && $(value jobs) == 1"
equal "a spare node is held, too" "($(value node_hours) * 3600 / $(value held_s) - 5) ^ 2 < 1e-12"
run "$plan" campaign "$tmp/run.yaml" --tokens 1e12 --mtbf-hours 200 --slow 100,30,1.5 --trials 200 --seed 3
is "runs are played at random" "$rc" 0
like "slow nodes are told" "$out" '^  slow nodes +[0-9.]+  steps go at 9[0-9.]+ % of their pace'
like "and how far runs are apart" "$out" '^drawn at random, 200 times: [0-9.]+ days \(\+- [0-9.e-]+\), nine in ten [0-9.]+ to [0-9.]+; '
run "$plan" campaign "$tmp/run.yaml" --tokens 1e12 --mtbf-hours 200 --slow 100,30,1.5 --trials 200 --seed 3 --json
printf '%s\n' "$out" >"$tmp/drawn.json"
formula=$(value days)
out=$(sed 's/.*"drawn": //' "$tmp/drawn.json")
equal "their mean is that of the formulas" "($(value days) / $formula - 1) ^ 2 < 0.005 ^ 2"
run "$json" schema "$schema" "$tmp/drawn.json"
is "in the form of the schema, too" "$err" ''

# --- several numbers of ranks, and machines -----------------------------------------------------
file 'preset: dgx-h100' 'slurm: {time: "02:00:00"}'
sed -i 's/^layout:.*/layout: {tensor: 4, micro_batch: 1, schedule: 1f1b, recompute: none, context: 1, tensor_x: 1}/' "$tmp/run.yaml"
run "$plan" campaign "$tmp/run.yaml" --gpus 32,8,16,7 --tokens 1e10
is "several numbers of ranks: exit 0" "$rc" 0
is "are a line each, in order" "$(printf '%s\n' "$out" | sed -n 's/^dgx-h100 *\([0-9]*\) .*/\1/p' | tr '\n' ' ')" '7 8 16 32 '
like "one that has no layout says why" "$out" '^dgx-h100 +7  .*no layout of 7 ranks is valid'
is "and a bar of days each" "$(printf '%s\n' "$out" | grep -cE '^ +[0-9]+ \|#+ [0-9.]+$')" 3
run "$plan" campaign "$tmp/run.yaml" --gpus 32,8,16,7 --tokens 1e10 --json
printf '%s\n' "$out" >"$tmp/points.json"
run "$json" schema "$schema" "$tmp/points.json"
is "in the form of the schema" "$err" ''
run "$plan" campaign "$tmp/run.yaml" --gpus 32,8,16,7 --tokens 1e10 --svg "$tmp/curve.svg"
is "--svg draws them" "$rc:$(grep -c '<circle ' "$tmp/curve.svg")" 0:6
is "to the end" "$(tail -n 1 "$tmp/curve.svg")" '</svg>'
like "with labels" "$(cat "$tmp/curve.svg")" '>32 ranks: [0-9.]+ days</text>'
wait_h=$(sed -n 's/.*"ranks": 32, "patience_h": \([0-9.]*\),.*/\1/p' "$tmp/points.json")
few=$(grep '"ranks": 8,' "$tmp/points.json" | grep -oE '"days": [0-9.]+' | sed 's/.*: //')
run "$plan" campaign "$tmp/run.yaml" --gpus 32 --tokens 1e10 --queue-hours "$wait_h" --json
equal "jobs that wait as long as they may end with those of fewer ranks" "($(value days) / $few - 1) ^ 2 < 1e-9"
run "$plan" search "$tmp/run.yaml" --gpus 8,16
is "search has the same table" "$rc:$(printf '%s\n' "$out" | grep -c '^dgx-h100 ')" 0:2
run "$plan" search "$tmp/run.yaml" --gpus 8,16 --write "$tmp/best.yaml"
is "but writes one layout alone: exit 2" "$rc" 2
like "and says so" "$err" '^sennit-plan search: --write wants one number of ranks, got 2 of --gpus$'
run "$plan" campaign "$tmp/run.yaml" --gpus 8 --machines all --json
is "all machines that ship: exit 0" "$rc" 0
is "are a point each" "$(printf '%s\n' "$out" | grep -oE '"machine": "[^"]*", "ranks"' | wc -l)" "$(ls templates/machines | wc -l)"
like "one that cannot says why" "$out" '"machine": "summit", "ranks": 8, "patience_h": null, "why": "train.precision: V100-SXM2-16GB has no bf16'
printf '%s\n' "$out" >"$tmp/machines.json"
run "$json" schema "$schema" "$tmp/machines.json"
is "in the form of the schema, too" "$err" ''
run "$plan" campaign "$tmp/run.yaml" --gpus 8 --machines summit
is "where no machine can: exit 1" "$rc" 1

# --- what a budget buys -------------------------------------------------------------------------
file 'preset: dgx-h100' ''
sed -i 's/^layout:.*/layout: {tensor: 4, pipeline: 1, micro_batch: 1, schedule: 1f1b, zero: 1, context: 1, tensor_x: 1}/' "$tmp/run.yaml"
run "$plan" campaign "$tmp/run.yaml" --gpus 16 --budget 2000
is "a budget: exit 0" "$rc" 0
like "by a law that is cited" "$out" '^budget: 2000 node-hours of dgx-h100 on 16 ranks; law epoch-2024: .* arXiv 2404.10102'
like "tokens of the run's model" "$out" "^  the run's model +6\.74e\+09 parameters, .* tokens, .* a parameter, loss [12]\.[0-9]+$"
is "the best size by each law" "$(printf '%s\n' "$out" | grep -c '^  best by ')" 3
like "and the largest that was planned" "$out" '^  largest of its shape .* a parameter, loss'
run "$plan" campaign "$tmp/run.yaml" --gpus 16 --budget 2000 --law 20 --json --svg "$tmp/budget.svg"
is "its curve has three marks" "$rc:$(grep -c '<circle class="update"' "$tmp/budget.svg")" 0:3
printf '%s\n' "$out" >"$tmp/budget.json"
run "$json" schema "$schema" "$tmp/budget.json"
is "in the form of the schema" "$err" ''
out=$(sed -n 's/.*"largest": //p' "$tmp/budget.json")
equal "which sees 20 tokens a parameter, and no next one would twice as many" \
    "$(value tokens) / $(value parameters) >= 20 && $(value tokens) / $(value parameters) < 60"
out=$(grep -o '"campaign": {.*' "$tmp/budget.json" | head -n 1)
equal "the hours are spent" "$(value node_hours) <= 2000 && $(value node_hours) > 1990"
run "$plan" campaign "$tmp/run.yaml" --gpus 16 --tokens "$(value tokens)" --json
equal "as the campaign of so many tokens says" "($(value node_hours) - 2000) ^ 2 < 100"

# --- what does not work -------------------------------------------------------------------------
refuses() { # sentence pattern option...
    what=$1 pattern=$2
    shift 2
    run "$plan" campaign "$@"
    is "$what: exit 2" "$rc" 2
    is "in one line" "$(printf '%s\n' "$err" | wc -l)" 1
    like "that says what is wrong" "$err" "$pattern"
}
file 'preset: dgx-h100' ''
refuses "no run file" 'want one run file, got 0'
refuses "an unknown option" 'unknown option --node; see sennit-plan campaign --help' "$tmp/run.yaml" --node 3
refuses "no number of tokens" "--tokens: 'many' is no number from 1 to 1e\+18" "$tmp/run.yaml" --tokens many
refuses "more tokens than steps may read" '--tokens: .* take more than .* steps' "$tmp/run.yaml" --tokens 9e17
refuses "hours below zero" "--queue-hours: '-1' is no number from 0" "$tmp/run.yaml" --queue-hours -1
refuses "no time between failures" "--mtbf-hours: 'nan' is no number" "$tmp/run.yaml" --mtbf-hours nan
refuses "a slow node without a factor" "--slow: '10,20' is no HOURS,MINUTES,FACTOR" "$tmp/run.yaml" --slow 10,20
refuses "a slow node that is fast" "--slow: '10,20,0.5' .* one above 1" "$tmp/run.yaml" --slow 10,20,0.5
refuses "a single trial" "--trials: '1' is no number from 2" "$tmp/run.yaml" --trials 1
refuses "a seed without trials" '--seed is of runs played at random; want --trials N' "$tmp/run.yaml" --seed 3
refuses "failures faster than restarts" 'leave less than 0.001 of the time.*want fewer nodes' "$tmp/run.yaml" --mtbf-hours 0.01
refuses "no list of ranks" "--gpus: '8,,16' is no number from 1 to .*, and no list" "$tmp/run.yaml" --gpus 8,,16
refuses "several ranks on several machines" '--machines wants one number of ranks, got 2' "$tmp/run.yaml" --gpus 8,16 --machines all
refuses "two ways to say how many" 'want one of them' "$tmp/run.yaml" --gpus 8 --ranks 8
refuses "a curve of one layout" 'want --gpus N,N... or --budget H' "$tmp/run.yaml" --svg "$tmp/no.svg"
refuses "a curve of one point" '1 of 2 numbers of ranks has a layout' "$tmp/run.yaml" --gpus 7,32 --svg "$tmp/no.svg"
refuses "no machine at all" "--machines: ',' names none" "$tmp/run.yaml" --gpus 8 --machines ,
refuses "a law that nobody published" "--law: there is no '21'; want epoch-2024, hoffmann-2022 or 20" "$tmp/run.yaml" --law 21
refuses "a law without a budget" 'want --budget H' "$tmp/run.yaml" --law 20
refuses "no budget" "--budget: '0' is no number" "$tmp/run.yaml" --budget 0
refuses "a budget that is said twice" 'want it without --tokens' "$tmp/run.yaml" --gpus 8 --budget 10 --tokens 1e9
refuses "hours in which nothing is done" 'in which no step is done and saved' "$tmp/run.yaml" --budget 0.01
refuses "a machine that does not ship" "--machines: .*no preset 'dgx-b300'; did you mean 'dgx-h[12]00'" "$tmp/run.yaml" --gpus 8 --machines dgx-b300
file 'preset: dgx-h100' 'slurm: {time: 1}'
refuses "jobs that are over before they have saved" 'want a longer slurm.time' "$tmp/run.yaml"
sed 's/^node: {/price: {device_hour: 2, node_hour: 16}\n&/' templates/machines/dgx-h100.yaml >"$tmp/twice.yaml"
file "file: $tmp/twice.yaml" ''
refuses "a price that is said twice" 'price: device_hour 2 and node_hour 16 both say' "$tmp/run.yaml"
file 'preset: marconi100' ''
sed -i 's/bf16/fp16/; s/tensor: 4/tensor: 1/' "$tmp/run.yaml"
run "$plan" campaign "$tmp/run.yaml"
is "what does not fit: exit 1" "$rc" 1
like "and says so" "$out" '^does not fit: a rank needs .* of 15\.77 GiB$'
like "but is counted" "$out" '^campaign: '
sed '/^machine:/d; /^layout:/d; s/fp16/fp32/' "$tmp/run.yaml" >"$tmp/anywhere.yaml"
run "$plan" campaign "$tmp/anywhere.yaml"
is "without a machine its memory is no verdict" "$rc" 0
run "$plan" campaign --help
is "--help exits 0" "$rc" 0
tap_done
