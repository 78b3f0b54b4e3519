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
tap_done
