#!/bin/sh
# test_trace.sh - sennit-train --trace: a step as it ran beside the planned one, on one rank, on four and on a device of
# host memory; the run is the same one.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train json=$BUILD/tests/cli/plan_json
fake=$PWD/$BUILD/tests/gpu/libfake_device.so
make_tokens "$tmp/tok"
steps=6 hidden=48 batch=8 eval_every=0

series() { metric loss "$tmp/$1/metrics.jsonl" && metric grad_norm "$tmp/$1/metrics.jsonl"; }

drawn() { # name ranks operations: the trace of a run, of which the planner's text has so many
    run "$json" parse "$tmp/$1.json"
    is "$1: the trace is JSON" "$rc$err" 0
    is "$1: a process for each rank" "$(grep -c '"measured: rank ' "$tmp/$1.json")" "$2"
    is "$1: and for each planned stage" "$(grep -c '"planned: stage ' "$tmp/$1.json")" "$3"
    # Two rows of one stage's micro-batches: planned and measured.
    is "$1: every forward is there, planned and measured" "$(grep -c '"cat":"forward"' "$tmp/$1.json")" "$4"
    is "$1: each weight is updated once" "$(grep -c '"cat":"adamw"' "$tmp/$1.json")" \
        "$(for r in $(seq 0 $(($2 - 1))); do
            "$BUILD/bin/sennit-plan" "$tmp/$1.yaml" --ranks "$2" --explain "$r"
        done | grep -c ' adamw ')"
}

# --- one rank --------------------------------------------------------------------------------------
run_file "$tmp/plain.yaml" "$tmp/plain"
run "$train" "$tmp/plain.yaml"
run_file "$tmp/one.yaml" "$tmp/one"
run "$train" "$tmp/one.yaml" --trace "$tmp/one.json"
is "one rank: it trains" "$rc" 0
like "one rank: which step it is" "$err" 'step 4 is drawn in .*/one.json, beside the planned one'
is "one rank: the losses are those of a run without" "$(series one)" "$(series plain)"
drawn one 1 1 16
like "one rank: the title says what was planned for" "$(cat "$tmp/one.json")" 'step 4 as planned for laptop-cpu \(no machine is named\)'
like "one rank: products know what was planned" "$(grep '"cat":"gemm"' "$tmp/one.json" | head -1)" '"planned_us":[0-9]'

# --- four ranks: two stages of two -------------------------------------------------------------------
several() {
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i 's/^layout: {/layout: {pipeline: 2, tensor: 2, /' "$tmp/$1.yaml"
}
several plain4
run mpi 4 "$train" "$tmp/plain4.yaml"
several four
run mpi 4 "$train" "$tmp/four.yaml" --trace "$tmp/four.json" --stop-after 3
is "four ranks: they train" "$rc" 0
like "four ranks: of three steps the last is drawn" "$err" 'step 3 is drawn in'
is "four ranks: the losses are those of a run without" "$(series four)" \
    "$(metric loss "$tmp/plain4/metrics.jsonl" | head -3; metric grad_norm "$tmp/plain4/metrics.jsonl" | head -3)"
drawn four 4 2 48
is "four ranks: on one host there is one clock" "$(grep -c 'clock within' "$tmp/four.json")" 0
for axis in tensor pipeline; do
    ok "four ranks: planned and measured have a thread for the $axis axis" \
        test "$(grep -c "\"name\": \"$axis\"" "$tmp/four.json")" -ge 6
done
ok "four ranks: transfers take time" sh -c \
    "grep -E '\"cat\":\"(transfer|receive)\".*\"slot\"' '$tmp/four.json' | grep -vq '\"dur\":0.000000,'"

# --- a device ----------------------------------------------------------------------------------------
run_file "$tmp/device.yaml" "$tmp/device"
sed -i 's/^run: {/run: {backend: cuda, /' "$tmp/device.yaml"
run env SN_PLUGIN="$fake" "$train" "$tmp/device.yaml" --trace "$tmp/device.json"
is "a device: it trains" "$rc" 0
is "a device: the losses are those of a run without" "$(series device)" "$(series plain)"
SN_PLUGIN=$fake && export SN_PLUGIN
drawn device 1 1 16
SN_PLUGIN=none && export SN_PLUGIN
like "a device: how well its clock is known" "$(cat "$tmp/device.json")" 'measured: rank 0, stage 0, clock within [0-9.]+ [mu]s'

# --- what cannot be drawn ------------------------------------------------------------------------------
run "$train" "$tmp/one.yaml" --trace "$tmp/again.json"
is "nothing to do: it ends well" "$rc" 0
like "nothing to do: and says that nothing is drawn" "$err" "--trace $tmp/again.json: no step was made"
run "$train" "$tmp/one.yaml" --fresh --trace "$tmp/none/a.json"
is "a folder that is not there: exit 2" "$rc" 2
like "a folder that is not there: the sentence" "$err" "--trace $tmp/none/a.json: No such file or directory"
for other in --profile --preflight "--generate x" "--tune m.yaml"; do
    # shellcheck disable=SC2086
    run "$train" "$tmp/one.yaml" --trace "$tmp/again.json" $other
    is "with $other: exit 2" "$rc" 2
    like "with $other: the sentence" "$err" "^--trace: draws a step as it is trained; leave ${other%% *} out"
done
if [ -w /dev/full ]; then
    run "$train" "$tmp/one.yaml" --fresh --trace /dev/full
    is "a full disk: the run goes on" "$rc" 0
    like "a full disk: which is said" "$err" '--trace /dev/full: No space left on device; the run goes on'
    is "a full disk: with all its steps" "$(series one)" "$(series plain)"
else
    skip "a full disk" "no /dev/full"
fi
tap_done
