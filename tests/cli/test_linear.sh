#!/bin/sh
# test_linear.sh - four times the layers are four times the work, and no more: in planning, proving, drawing, searching and starting
# a run. A loop over all layers inside another would be 16 times as much.
#
# Work is counted, not timed: blocks of the program that were run (tests/ub/count.c), so that the numbers are the same on
# every machine. A model of 10,000 layers, which the run file permits, then takes 20 times as long as one of 500.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
# shellcheck source=tests/lib/train.sh
. tests/lib/train.sh

case $BUILD in */san)
    skip "work is counted" "this build does not count it; make check without SAN does"
    tap_done
    ;;
esac
ub=$BUILD/ub/bin few=160 many=640

run_of() { # layers family layout
    case $2 in mixtral) model='mixtral, experts: {count: 4}' ;; *) model=$2 ;; esac
    cat <<YAML
run: {name: deep, output: $tmp/out, threads: 1}
model: {family: $model, layers: $1, hidden: 64, ffn: 64, heads: 4, vocab: 256, seq: 64}
train: {steps: 1, global_batch: 8, precision: bf16}
layout: $3
machine: {preset: dgx-a100-80, nodes: 1}
YAML
}

work() { # layers command... with @ for them: sets $count, to 0 if the command fails
    work_layers=$1
    shift
    for work_word; do
        shift
        set -- "$@" "$(printf '%s' "$work_word" | sed "s,@,$work_layers,")"
    done
    SN_TEST_COUNT=$tmp/count run "$@"
    count=$(cat "$tmp/count")
    [ "$rc" = 0 ] || count=0
    [ "$rc" = 0 ] || tap_lines "exit $rc" "$err"
}

linear() { # sentence limit command... with @ for the number of layers
    linear_what=$1 limit=$2
    shift 2
    work $few "$@"
    small=$count
    work $many "$@"
    ok "$linear_what: $small and $count blocks" \
        awk "BEGIN { exit !($small > 1e6 && $count > $small && $count <= $limit * $small) }"
}

planned() { # family layout limit
    for layers in $few $many; do run_of "$layers" "$1" "$2" >"$tmp/$layers.yaml"; done
    linear "$1, $2" "$3" "$ub/sennit-plan" "$tmp/@.yaml" --json --verify
}

# Limits are 4, and what sorting takes beyond it; more where temporaries are placed in one order up to some size, and then in up
# to 205, none of which meets the lower bound (lib/program/pack.c): each of them is linear.
planned llama '{data: 4, zero: 1, bucket: 64KiB}' 4.2
planned llama '{data: 4, zero: 3, recompute: full, bucket: 64KiB}' 4.2
planned gpt2 '{tensor: 2, pipeline: 2, schedule: zero-bubble, data: 2}' 4.2
planned gpt-neox '{pipeline: 2, schedule: interleaved, virtual_stages: 4, recompute: selective}' 4.2
planned llama '{context: 2, data: 2}' 5.2
planned mixtral '{data: 4, expert: 4, expert_chunks: 2, compress: {expert: fp8}}' 4.2
planned mixtral '{data: 4, tensor: 2, expert: 2, zero: 3, recompute: full, bucket: 64KiB}' 4.2
planned llama '{data: 4, compress: {data: powersgd-2}, bucket: 64KiB}' 4.2
planned llama '{data: 4, zero: 1, compress: {scheme: mzhybrid}, bucket: 64KiB}' 4.8
for option in --activations --timeline '--explain 0' "--svg $tmp/svg" "--trace $tmp/trace"; do
    # shellcheck disable=SC2086  # options
    linear "$option" 4.2 "$ub/sennit-plan" "$tmp/@.yaml" $option
done
for layers in $few $many; do run_of "$layers" llama '{zero_cache: 0}' >"$tmp/$layers.yaml"; done
linear "a search" 4.2 "$ub/sennit-plan" search "$tmp/@.yaml" --top 2

# Four times the switches of a machine.
cat >"$tmp/env" <<ENV
SLURM_JOB_ID=7
SLURM_JOB_NUM_NODES=2
SLURM_JOB_NODELIST=n[10-11]
SLURM_TASKS_PER_NODE=4(x2)
SLURM_DISTRIBUTION=block
ENV
few=4000 many=16000
for switches in $few $many; do
    run_of 2 gpt2 '{data: 8}' >"$tmp/$switches.yaml"
    {
        echo "SwitchName=core Switches=s[0-$((switches - 1))]"
        awk "BEGIN { for (i = 0; i < $switches; i++) printf \"SwitchName=s%d Nodes=n%d\\n\", i, i }"
    } >"$tmp/$switches.conf"
done
linear "a map of switches" 4.8 "$ub/sennit-run" map "$tmp/@.yaml" --env "$tmp/env" --topology "$tmp/@.conf" --ranks 8

make_tokens "$tmp/tok"
few=40 many=160
for deep in $few $many; do
    layers=$deep hidden=16 heads=2 ffn=16 seq=16 batch=1 steps=2 eval_every=0 run_file "$tmp/$deep.yaml" "$tmp/out-$deep"
    sed -i 's/warmup: 5/warmup: 0/' "$tmp/$deep.yaml"
done
linear "a run of one rank begins and saves" 4.2 "$ub/sennit-train" "$tmp/@.yaml" --stop-after 1
tap_done
