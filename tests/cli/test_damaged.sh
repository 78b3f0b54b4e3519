#!/bin/sh
# test_damaged.sh - the newest checkpoint is damaged: checkpoint.damaged: stop says how to step over it, older
# does so; nothing of it is lost, and the numbers are those of a run that went on from the older one by itself.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train convert=$BUILD/bin/sennit-convert damage=$BUILD/tests/cli/damage run=$BUILD/bin/sennit-run
make_tokens "$tmp/tok"
layers=1 hidden=32 ffn=48 seq=16 batch=4 eval_every=0 steps=20 every=2
ckpt=$tmp/run/ckpt

losses() { # folder: "step loss norm" of its metrics
    sed -n 's/^{"step": \([0-9]*\), "loss": \([^,]*\), "grad_norm": \([^,]*\), .*}$/\1 \2 \3/p' "$1/metrics.jsonl"
}

names() { # what lies in the folder of checkpoints, without numbers of processes
    find "$ckpt" -mindepth 1 -maxdepth 1 -name 'step-*' -printf '%f\n' | sed 's/\.\([a-z]*\)\.[0-9.]*$/.\1/' | sort | tr '\n' ' '
}

two() { # path output: a run file of two ranks
    run_file "$1" "$2"
    sed -i 's/^layout: {/layout: {tensor: 2, /' "$1"
}
two "$tmp/whole.yaml" "$tmp/whole"
run mpi 2 "$train" "$tmp/whole.yaml" --stop-after 12
is "a run that nobody disturbs" "$rc" 0
losses "$tmp/whole" | sort >"$tmp/want"

# Two tensor ranks have saved steps 6 and 8; the shard of the second is damaged, so that the first loads its own.
run_file "$tmp/stop.yaml" "$tmp/run"
two "$tmp/two.yaml" "$tmp/run"
run mpi 2 "$train" "$tmp/two.yaml" --stop-after 8
is "two ranks train and save" "$rc:$(names)" "0:step-00000006 step-00000008 "
read -r _ _ offset _ <<EOF
$("$damage" where "$ckpt/step-00000008" | grep '^shard-00001.h5 /model/embed')
EOF
"$damage" flip "$ckpt/step-00000008/shard-00001.h5" "$offset"
cp -a "$tmp/run" "$tmp/base"

fresh() { # a copy to go on from
    rm -rf "$tmp/run"
    cp -a "$tmp/base" "$tmp/run"
}

goes_on() { # case: the run ended well, and did what a run does that nobody disturbs
    is "$1: it goes on to its end" "$rc" 0
    losses "$tmp/run" >"$tmp/got"
    is "$1: after step 6 it does 7 to 12" "$(sed -n 's/ .*//p' "$tmp/got" | tail -n 6 | tr '\n' ' ')" "7 8 9 10 11 12 "
    is "$1: with equal losses" "$(sort "$tmp/got" | comm -13 "$tmp/want" -)" ""
}

# --- stop -------------------------------------------------------------------------------------------
run mpi 2 "$train" "$tmp/two.yaml" --stop-after 12
is "stop: exit code" "$rc" 1
like "stop: rank, file and dataset are named" "$err" \
    "^rank 1 \([^)]*\): $ckpt/step-00000008/shard-00001.h5: the bytes of /model/embed.weight@128,0 are not those that were saved"
like "stop: and what to do" "$err" \
    "; to go on from step 6: mv '$ckpt/step-00000008' '$ckpt/step-00000008.damaged', or checkpoint.damaged: older$"
is "stop: one rank is named once" "$(printf '%s\n' "$err" | grep -c 'rank 1 ([^)]*): rank')" 0
is "stop: nothing is touched" "$(names)" "step-00000006 step-00000008 "
eval "$(printf '%s\n' "$err" | sed -n "s/.*: \(mv '[^']*' '[^']*'\),.*/\1/p")"
run mpi 2 "$train" "$tmp/two.yaml" --stop-after 12
like "stop: the command that it gives steps over it" "$err" 'continuing from the checkpoint of step 6'
goes_on "stop"
is "stop: what was moved is still there" "$(names)" "step-00000008.damaged step-00000010 step-00000012 "

fresh
echo >>"$ckpt/step-00000008/manifest.json"
run "$train" "$tmp/stop.yaml" --stop-after 12
is "stop, a manifest: exit code" "$rc" 1
like "stop, a manifest: the sentence" "$err" "step-00000008/manifest.json: is not what COMMIT was written for; .*to go on from step 6: mv '"
echo >>"$ckpt/step-00000006/manifest.json"
run "$train" "$tmp/stop.yaml" --stop-after 12
like "stop, both: no older one is offered" "$err" 'no older one is whole: restore it, or begin anew with --fresh$'

# A checkpoint under another step's name would be the newest.
fresh
mv "$ckpt/step-00000006" "$ckpt/step-00000009"
run "$train" "$tmp/stop.yaml" --stop-after 12
is "renamed: exit code" "$rc" 1
like "renamed: the sentence" "$err" "step-00000009: bears the name of step 9, but its manifest is of step 6; it was renamed: call it step-00000006 again"
run "$convert" --inspect "$ckpt/step-00000009"
is "renamed: it is not inspected as step 9" "$rc" 1

# --- older ------------------------------------------------------------------------------------------
saving="damaged: older"
run_file "$tmp/older.yaml" "$tmp/run"
two "$tmp/two-older.yaml" "$tmp/run"
fresh
run mpi 2 "$train" "$tmp/two-older.yaml" --stop-after 7
like "older: it is said loudly" "$err" \
    "the checkpoint of step 8 is damaged and passed over \(checkpoint.damaged: older\): rank 1 .*shard-00001.h5: the bytes of"
like "older: and where it goes on" "$err" 'continuing from the checkpoint of step 6'
like "older: the attempt's record has it" "$(cat "$tmp/run/attempt-2.json")" \
    '"passed_over": \[\{"step": 8, "why": "rank 1 .*shard-00001.h5'
is "older: the first save moves it out of the way" "$(names)" "step-00000006 step-00000007 step-00000008.damaged "
run "$run" why "$tmp/run"
like "older: sennit-run why tells" "$out" 'passed over: the damaged checkpoint of step 8: rank 1 .*shard-00001.h5'
run "$run" status "$tmp/run"
like "older: so does status" "$out" 'passed over: the damaged checkpoint of step 8: '
run mpi 2 "$train" "$tmp/two-older.yaml" --stop-after 12
goes_on "older"
is "older: two whole ones are kept beside it" "$(names)" "step-00000008.damaged step-00000010 step-00000012 "
run "$convert" --verify "$ckpt"
is "older: which are whole" "$rc" 0

# The step that is damaged is the next to be saved.
fresh
run "$train" "$tmp/older.yaml" --stop-after 8
is "older, saved again: it ends well" "$rc" 0
is "older, saved again: both are there" "$(names)" "step-00000006 step-00000008 step-00000008.damaged "
run "$convert" --verify "$ckpt"
is "older, saved again: the new one is whole" "$rc" 0

# With asynchronous saves the thread that commits moves it.
saving="damaged: older, async: true"
two "$tmp/async.yaml" "$tmp/run"
fresh
touch "$ckpt/step-00000008/old"
run mpi 2 "$train" "$tmp/async.yaml" --stop-after 12
goes_on "older, async"
is "older, async: two are kept" "$(names)" "step-00000008.damaged step-00000010 step-00000012 "
ok "older, async: what was damaged is what is kept" test -f "$ckpt"/step-00000008.damaged.*/old

fresh
for step in 6 8; do echo >>"$ckpt/step-0000000$step/manifest.json"; done
run "$train" "$tmp/older.yaml"
is "older, all damaged: exit code" "$rc" 1
like "older, all damaged: nothing begins anew unasked" "$err" '^checkpoint: none is whole; restore one, or begin anew with --fresh$'
is "older, all damaged: nothing is touched" "$(names)" "step-00000006 step-00000008 "

tap_done
