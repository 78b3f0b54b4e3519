#!/bin/sh
# test_map - which process computes which rank: what sennit-train makes of places that are told to it,
# that losses do not depend on it, and what sennit-run map predicts from recorded environments.
# Runs alone: it measures time.
set -eu
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
# shellcheck source=tests/lib/train.sh
. tests/lib/train.sh

# Eight processes, number p on node p % 4; nodes alternate between two leaves. Tensor groups of four
# processes in the launcher's order lie under both.
make_tokens "$tmp/tok"
for p in 0 1 2 3 4 5 6 7; do
    echo "$p core.s$((p % 2)).n$((p % 4))"
done >"$tmp/places"
steps=6 eval_every=0 layers=4 run_file "$tmp/run.yaml" "$tmp/out"
sed "s,$tmp/out,$tmp/auto,; s/layout: {/layout: {tensor: 4, pipeline: 2, /" "$tmp/run.yaml" >"$tmp/auto.yaml"
sed "s,$tmp/auto,$tmp/default,; s/layout: {/layout: {placement: default, /" "$tmp/auto.yaml" >"$tmp/default.yaml"

bytes() { # field level file
    sed -n "s/.*\"level\": \"$2\"[^}]*\"$1\": \([0-9]*\).*/\1/p" "$3"
}

column() { # key file: of all ranks, in one line
    sed -n "s/.*{\"rank\".*\"$1\": \"\{0,1\}\([^\",}]*\).*/\1/p" "$2" | tr '\n' ' '
}

run mpi 8 "$BUILD/bin/sennit-train" "$tmp/auto.yaml" --places "$tmp/places"
is "a job that is arranged trains" "$rc" 0
like "it says what that saves" "$err" 'map: 8 processes on 4 nodes, arranged; .* over spine instead of'
run mpi 8 "$BUILD/bin/sennit-train" "$tmp/default.yaml" --places "$tmp/places"
is "the same in the launcher's order" "$rc" 0
like "it says so" "$err" "map: 8 processes on 4 nodes, in the launcher's order"
metric loss "$tmp/auto/metrics.jsonl" >"$tmp/auto.loss"
metric loss "$tmp/default/metrics.jsonl" >"$tmp/default.loss"
is "six losses" "$(wc -l <"$tmp/auto.loss")" 6
ok "losses are the same bits" cmp -s "$tmp/auto.loss" "$tmp/default.loss"
is "default: rank n is process n" "$(column process "$tmp/default/map.json")" '0 1 2 3 4 5 6 7 '
is "arranged: all processes, once each" \
    "$(column process "$tmp/auto/map.json" | tr ' ' '\n' | sort -n | tr '\n' ' ' | sed 's/^ //')" '0 1 2 3 4 5 6 7 '
is "each stage's four tensor ranks are under one leaf" \
    "$(column switch "$tmp/auto/map.json" | awk '{ print ($1 == $2) + ($1 == $3) + ($1 == $4) + ($5 == $6) + ($5 == $7) + ($5 == $8) }')" 6
default=$(bytes bytes_arranged spine "$tmp/default/map.json")
auto=$(bytes bytes_arranged spine "$tmp/auto/map.json")
ok "at least 30 % fewer bytes over the spine: $auto instead of $default" test $((auto * 10)) -le $((default * 7))
is "both know the launcher's order" "$(bytes bytes_in_order spine "$tmp/auto/map.json")" "$default"
total=$(sed -n 's/.*"traffic_bytes": {\([^}]*\)}.*/\1/p' "$tmp/auto/metrics.jsonl" | tail -1 |
    tr ',' '\n' | awk -F: '{ s += $2 } END { printf "%d", s }')
levels=0
for level in node leaf spine; do
    levels=$((levels + $(bytes bytes_arranged "$level" "$tmp/auto/map.json")))
done
is "bytes of all levels are the traffic that the trainer counts" "$levels" "$total"

# One process, no launcher.
sed "s,$tmp/out,$tmp/one," "$tmp/run.yaml" >"$tmp/one.yaml"
run "$BUILD/bin/sennit-train" "$tmp/one.yaml"
is "one process has a map, too" "$(column process "$tmp/one/map.json")" '0 '
is "of this host" "$(column host "$tmp/one/map.json")" "$(hostname) "

run env SLURM_JOB_ID=1 SLURM_JOB_NODELIST='n[0-1' "$BUILD/bin/sennit-train" "$tmp/one.yaml" --fresh
is "variables of a scheduler that did not start it are not its mistake" "$rc" 0

# Mismatches are named before anything is trained, and all processes leave with one code.
head -7 "$tmp/places" >"$tmp/short"
run mpi 8 "$BUILD/bin/sennit-train" "$tmp/auto.yaml" --fresh --places "$tmp/short"
is "a file without one of the processes: exit 2" "$rc" 2
like "the process is named" "$err" 'short: no line for process 7 of 8'
sed 's/^7 .*/7 core.s0.n0/' "$tmp/places" >"$tmp/uneven"
run mpi 8 "$BUILD/bin/sennit-train" "$tmp/auto.yaml" --fresh --places "$tmp/uneven"
is "three processes on one node and one on another: exit 2" "$rc" 2
like "the node is named" "$err" 'map: .* processes on n[0-3], but .* on n[0-3]'
like "the attempt's record has the sentence" "$(cat "$tmp"/auto/attempt-3.json)" 'same number on every'

# The same job before it runs, from the environment of its batch script.
cat >"$tmp/env" <<ENV
SLURM_JOB_ID=77
SLURM_JOB_NODELIST=n[0-3]
SLURM_JOB_NUM_NODES=4
SLURM_NTASKS=8
SLURM_TASKS_PER_NODE=2(x4)
SLURM_GPUS_ON_NODE=4
SLURM_DISTRIBUTION=cyclic
HOME=/nowhere
ENV
cat >"$tmp/topology.conf" <<CONF
SwitchName=s0 Nodes=n[0,2]
SwitchName=s1 Nodes=n[1,3]
SwitchName=core Switches=s[0-1]
CONF
map() { # run-file option...
    run "$BUILD/bin/sennit-run" map "$@"
}
map "$tmp/auto.yaml" --env "$tmp/env" --topology "$tmp/topology.conf" --json
is "a map of a recorded environment" "$rc" 0
printf '%s\n' "$out" >"$tmp/predicted.json"
like "says that it is predicted" "$out" '"predicted": "cyclic distribution of 8 processes over 4 nodes'
for key in rank process host node local tensor switch; do
    is "$key of every rank as sennit-train has it" "$(column $key "$tmp/predicted.json")" \
        "$(column $key "$tmp/auto/map.json")"
done
is "bytes of all levels, too" "$(grep '"levels"' "$tmp/predicted.json")" "$(grep '"levels"' "$tmp/auto/map.json")"
is "each process of a node has a GPU of its own" "$(column gpu "$tmp/predicted.json" | tr ' ' '\n' | sort | uniq -c |
    awk 'NF == 2 { printf "%s:%s ", $2, $1 }')" '0:4 1:4 '
map "$tmp/auto.yaml" --env "$tmp/env" --topology "$tmp/topology.conf"
like "as a table" "$out" '^rank +process +data tensor context pipeline +host +local'
is "a line for each rank" "$(printf '%s\n' "$out" | grep -cE '^ +[0-7] +[0-7] ')" 8
like "with bytes by level" "$out" '^  spine .*MiB .*KiB'
map "$tmp/auto.yaml" --env "$tmp/env"
like "without switches it says so" "$err" 'no switches are known; --topology'
like "and parts nodes from the network between them" "$out" '^  network '
map "$tmp/auto.yaml" --env "$tmp/env" --ranks 16
is "more processes than the job has: as many as are asked for" "$(printf '%s\n' "$out" | grep -c ' n[0-3] ')" 16
map "$tmp/auto.yaml" --ranks 8
like "outside of a job all are on this host" "$out" " $(hostname) "

# What cannot be is refused.
sed '/NODELIST/s/\[0-3\]/[0-4]/' "$tmp/env" >"$tmp/mixed"
map "$tmp/auto.yaml" --env "$tmp/mixed"
is "an environment of two jobs: exit 2" "$rc" 2
sed 's/n\[0,2\]/n0/' "$tmp/topology.conf" >"$tmp/lacks.conf"
map "$tmp/auto.yaml" --env "$tmp/env" --topology "$tmp/lacks.conf"
like "a host without a switch is named" "$rc $err" '^2 .*--topology: host n2 is not in it'
map "$tmp/auto.yaml" --env "$tmp/env" --ranks 9
is "a number of ranks that the layout does not have: exit 2" "$rc" 2
map "$tmp/auto.yaml" --env "$tmp/env" --ranks 8 --quick
like "an unknown option is named" "$rc $err" '^2 .*--quick'

# 16,384 processes on 4,096 nodes whose names alternate between 256 leaves.
cat >"$tmp/big.env" <<ENV
SLURM_JOB_ID=78
SLURM_JOB_NODELIST=n[0000-4095]
SLURM_NTASKS=16384
SLURM_TASKS_PER_NODE=4(x4096)
ENV
awk 'BEGIN { for (i = 0; i < 4096; i++) printf "core.leaf%d.n%04d\n", i % 256, i }' >"$tmp/big.places"
cat >"$tmp/big.yaml" <<YAML
run: {name: big}
model: {preset: llama3-70b}
data: {train: nothing}
train: {steps: 10, global_batch: 2048, precision: bf16}
layout: {tensor: 8, pipeline: 16, zero: 1}
YAML
began=$(date +%s%3N)
map "$tmp/big.yaml" --env "$tmp/big.env" --topology "$tmp/big.places"
took=$(($(date +%s%3N) - began))
is "16,384 ranks: a line each" "$(printf '%s\n' "$out" | grep -c ' n[0-9][0-9][0-9][0-9] ')" 16384
ok "in less than 5 s ($took ms)" test "$took" -lt 5000
tap_done
