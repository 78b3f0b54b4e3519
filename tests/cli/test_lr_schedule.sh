#!/bin/sh
# test_lr_schedule.sh - a run that left and goes on has the rates and losses of one that did not.
. tests/lib/tap.sh
. tests/lib/train.sh
make_tokens "$tmp/tok"

with() { # schedule path output: a run file of 8 steps
    steps=8 eval_every=0 run_file "$tmp/plain.yaml" "$3"
    sed "s/^  schedule: .*/  schedule: {$1}/" "$tmp/plain.yaml" >"$2"
}
numbers() { # output
    sed 's/.*\("step": [0-9]*\),.*\("loss": [^,]*\),.*\("lr": [^,]*\),.*/\1 \2 \3/' "$1/metrics.jsonl"
}

# How many rates its 8 steps have, and the schedule.
for schedule in '7 kind: rsqrt, warmup: 2, min_lr: 1.0e-4' '6 kind: wsd, warmup: 1, decay: 5' '6 kind: wsd-sqrt, warmup: 1, decay: 5'; do
    rates=${schedule%% *} schedule=${schedule#* }
    kind=${schedule#kind: } kind=${kind%%,*}
    with "$schedule" "$tmp/whole.yaml" "$tmp/whole"
    with "$schedule" "$tmp/parts.yaml" "$tmp/parts"
    run "$BUILD/bin/sennit-train" "$tmp/whole.yaml"
    is "$kind: trains" "$rc" 0
    run "$BUILD/bin/sennit-train" "$tmp/parts.yaml" --stop-after 5
    is "$kind: leaves after step 5" "$rc" 0
    is "$kind: before its last step" "$(numbers "$tmp/parts" | wc -l)" 5
    run "$BUILD/bin/sennit-train" "$tmp/parts.yaml"
    is "$kind: goes on" "$rc" 0
    is "$kind: with the rates and losses of a run that did not leave" "$(numbers "$tmp/parts")" "$(numbers "$tmp/whole")"
    is "$kind: rates" "$(numbers "$tmp/whole" | cut -d ' ' -f 6 | sort -u | wc -l)" "$rates"
    rm -rf "${tmp:?}/whole" "${tmp:?}/parts"
done
# Several decays leave one stable checkpoint, which stays as it is.
decay() { # name steps kind: a run of so many steps that decays in the last 3, from step 5 of the stable one
    steps=$2 eval_every=0 run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s|^  schedule: .*|  schedule: {kind: $3, warmup: 1, decay: 3}${4:+\n  continue_from: $4}|" "$tmp/$1.yaml"
}
decay whole 8 wsd-cosine
run "$BUILD/bin/sennit-train" "$tmp/whole.yaml"
is "wsd-cosine trains" "$rc" 0
decay stable 100 wsd-cosine
run "$BUILD/bin/sennit-train" "$tmp/stable.yaml" --stop-after 5
is "a stable run leaves" "$rc" 0
before=$(find "$tmp/stable/ckpt" -type f -exec cksum {} + | sort)
decay first 8 wsd-cosine "$tmp/stable/ckpt"
run "$BUILD/bin/sennit-plan" "$tmp/first.yaml"
like "the plan says where a decay begins" "$out" "start: goes on from the checkpoint of step 5 in $tmp/stable/ckpt"
run "$BUILD/bin/sennit-train" "$tmp/first.yaml"
is "a decay begins there" "$rc" 0
like "and says so" "$err" "continuing from the checkpoint of step 5 in $tmp/stable/ckpt"
is "with the rates and losses of a run in one go" "$(numbers "$tmp/first")" "$(numbers "$tmp/whole" | tail -n 3)"
decay second 9 wsd-sqrt "$tmp/stable/ckpt/step-00000005"
run mpi 2 "$BUILD/bin/sennit-train" "$tmp/second.yaml" --stop-after 7
is "another decay, of another layout" "$rc" 0
is "as far as it went" "$(numbers "$tmp/second" | cut -d ' ' -f 2 | tr '\n' ' ')" '6 7 '
run mpi 2 "$BUILD/bin/sennit-train" "$tmp/second.yaml"
like "goes on from its own checkpoint" "$err" 'continuing from the checkpoint of step 7([^0-9]|$)'
is "to its end" "$(numbers "$tmp/second" | wc -l)" 4
is "the stable checkpoint is as it was" "$(find "$tmp/stable/ckpt" -type f -exec cksum {} + | sort)" "$before"
decay astray 8 wsd "$tmp/text"
mkdir "$tmp/text"
run "$BUILD/bin/sennit-train" "$tmp/astray.yaml"
is "no checkpoint there: refused" "$rc" 2
like "by name" "$err" "$tmp/text: holds no checkpoint; want"
run "$BUILD/bin/sennit-plan" "$tmp/astray.yaml"
is "by the planner, too" "$rc" 2
tap_done
