#!/bin/sh
# test_replay.sh - sennit-train --replay: steps of a run again, held against what it has left.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"
steps=12 eval_every=5 every=4 saving='async: true, snapshot_every: 1'
run_file "$tmp/run.yaml" "$tmp/run"
sed -i 's/threads: 1}/threads: 1, fingerprints: 2}/; s/layout: {/layout: {data: 2, tensor: 2, zero: 1, /' "$tmp/run.yaml"
run mpi 4 "$train" "$tmp/run.yaml"
is "the run that is recorded" "$rc" 0
is "every second step has fingerprints of all ranks" "$(ls "$tmp/run/fingerprints" | tr '\n' ' ')$(ls "$tmp/run/fingerprints/step-00000012" | tr '\n' ' ')" \
    'step-00000002 step-00000004 step-00000006 step-00000008 step-00000010 step-00000012 rank-00000 rank-00001 rank-00002 rank-00003 '

everything() { # a line for each file of the run, with its time and content
    find "$tmp/run" -type f -printf '%p %T@\n' -exec sha256sum {} + | sort
}

# --- the same ---------------------------------------------------------------------------------------
everything >"$tmp/before"
run mpi 4 "$train" "$tmp/run.yaml" --replay 11
is "replayed: exit code" "$rc" 0
like "replayed: from the checkpoint before" "$out" 'replaying steps 9 to 11 from the checkpoint of step 8'
like "replayed: losses" "$out" 'step 11: loss [0-9.]+, gradient norm [0-9.]+, as recorded'
like "replayed: every result of all ranks" "$out" '[0-9]{4} results of 4 ranks are those that were recorded, to the last bit'
everything >"$tmp/after"
ok "replayed: no file of the run has changed" cmp -s "$tmp/before" "$tmp/after"
run mpi 4 "$train" "$tmp/run.yaml" --replay 4
like "a step with a checkpoint begins at the one before" "$out" "replaying steps 1 to 4 from the run's begin"
is "from the run's begin: exit code" "$rc" 0

# --- on another processor: other kernels round otherwise ------------------------------------------------
run mpi 4 env SN_ISA=generic "$train" "$tmp/run.yaml" --replay 12
is "other kernels: exit code" "$rc" 0
like "other kernels: every result, but for rounding where there is any" "$out" \
    '[0-9]{4} results of 4 ranks are those that were recorded(, to the last bit|, [0-9]+ of them but for rounding| but for rounding)'

# --- in another layout ------------------------------------------------------------------------------
sed 's/data: 2, tensor: 2, zero: 1/data: 1/' "$tmp/run.yaml" >"$tmp/one.yaml"
run "$train" "$tmp/one.yaml" --replay 12
is "one rank: exit code" "$rc" 0
like "one rank: losses" "$out" 'step 12: loss .*, as recorded'
like "one rank: what four ranks gave" "$out" '[0-9]{4} results of 4 ranks are those that were recorded but for rounding \([0-9.]*e-[0-9]+ at most\); [0-9]+ more are of their layout alone'
sed 's/data: 1/data: 2/' "$tmp/one.yaml" >"$tmp/two.yaml"
run mpi 2 "$train" "$tmp/two.yaml" --replay 12
is "two ranks in another layout: exit code" "$rc" 0
like "two ranks in another layout: they say what they compare" "$out" 'the run had another layout: losses alone are compared, because only one rank alone'
like "two ranks in another layout: losses" "$out" 'step 12: loss .*, as recorded'
run "$train" "$tmp/one.yaml" --replay 12 --rank 3
like "one rank's results" "$out" '[0-9]+ results of 1 rank are'
everything >"$tmp/after"
ok "in another layout: no file of the run has changed" cmp -s "$tmp/before" "$tmp/after"

# --- something else ---------------------------------------------------------------------------------
sed 's/^\({"step": 11, "loss": [0-9]*\.[0-9]\)[0-9]/\19/' "$tmp/run/metrics.jsonl" >"$tmp/metrics"
cp "$tmp/run/metrics.jsonl" "$tmp/metrics.kept"
cp "$tmp/metrics" "$tmp/run/metrics.jsonl"
run mpi 4 "$train" "$tmp/run.yaml" --replay 12
is "another loss: exit code" "$rc" 1
like "another loss: of which step" "$out" 'step 11: loss .*; recorded are loss '
like "another loss: no operation can be named" "$out" 'step 11: the run kept no fingerprints of it, .*run.fingerprints: 1'
ok "another loss: it ends there" sh -c "! printf '%s' '$out' | grep -q 'step 12'"
cp "$tmp/metrics.kept" "$tmp/run/metrics.jsonl"

sed "s|tok\\b|alike|; s|tok-valid|alike-valid|" "$tmp/run.yaml" >"$tmp/other.yaml"
(cat docs/DEBUG.md LICENSE) >"$tmp/text"
"$BUILD/bin/sennit-data" build --text "$tmp/text" -o "$tmp/alike" --valid 0.2 >/dev/null
run mpi 4 "$train" "$tmp/other.yaml" --replay 12
is "other tokens: exit code" "$rc" 1
like "other tokens: found at the first step with fingerprints, or by its loss" "$out" 'step 9: loss .*; recorded are loss '
run mpi 4 "$train" "$tmp/other.yaml" --replay 2
like "other tokens: step 1" "$out" 'step 1: loss .*; recorded'

tail -n 1 "$tmp/metrics.kept" >"$tmp/run/metrics.jsonl"
run mpi 4 "$train" "$tmp/other.yaml" --replay 2
like "losses that are gone: it goes on" "$out" 'step 1: loss .*; the run recorded none'
like "what a rank begins with is named" "$out" "rank 0 begins the step with another '"
like "and where to look" "$out" 'the cause lies before this step'
cp "$tmp/metrics.kept" "$tmp/run/metrics.jsonl"

# --- what is refused --------------------------------------------------------------------------------
run mpi 4 "$train" "$tmp/run.yaml" --replay 13
is "no such step: exit code" "$rc" 2
like "no such step: sentence" "$err" '\-\-replay: step 13; the run has 12 \(train.steps\)'
run "$train" "$tmp/run.yaml" --replay 3 --fresh
is "with --fresh: exit code" "$rc" 2
like "with --fresh: sentence" "$err" '\-\-replay: makes steps again and keeps nothing of them; leave --fresh out'
run "$train" "$tmp/run.yaml" --rank 1
like "--rank alone: sentence" "$err" '\-\-rank: is for --replay, which is not asked for'
is "--rank alone: exit code" "$rc" 2
run mpi 4 "$train" "$tmp/run.yaml" --replay 3 --rank 4
like "no such rank: sentence" "$err" '\-\-rank: 4; the run had ranks 0 to 3'
mv "$tmp/run/metrics.jsonl" "$tmp/run/metrics.away"
run mpi 4 "$train" "$tmp/run.yaml" --replay 11
is "no losses: exit code" "$rc" 2
like "no losses: sentence" "$err" 'metrics.jsonl: cannot be read'
mv "$tmp/run/metrics.away" "$tmp/run/metrics.jsonl"
for what in cut flip; do
    f=$tmp/run/fingerprints/step-00000010/rank-00002
    cp "$f" "$tmp/kept"
    if [ $what = cut ]; then head -c -8 "$tmp/kept" >"$f"; else printf 'x' | dd of="$f" bs=1 seek=300 conv=notrunc 2>/dev/null; fi
    run mpi 4 "$train" "$tmp/run.yaml" --replay 10
    is "$what: exit code" "$rc" 2
    like "$what: sentence" "$err" 'step-00000010/rank-00002: is damaged'
    cp "$tmp/kept" "$f"
done
run mpi 4 "$train" "$tmp/run.yaml" --replay 10 --rank 1
is "one rank: exit code" "$rc" 0
like "one rank: its results alone" "$out" 'results of 1 rank are those that were recorded, to the last bit'

# --- a defect of memory: floats of a rank are altered while it runs -----------------------------------
steps=100000 eval_every=0 every=20 hidden=128 ffn=320 saving=
run_file "$tmp/memory.yaml" "$tmp/memory"
sed -i 's/threads: 1}/threads: 1, fingerprints: 1}/; s/layout: {/layout: {data: 4, /' "$tmp/memory.yaml"
mpi 4 "$train" "$tmp/memory.yaml" >"$tmp/memory.out" 2>&1 </dev/null &
job=$!
ok "memory: four ranks run" wait_for_step 21 "$tmp/memory"
altered=$(process_of 2 "$tmp/memory.yaml")
kill -STOP "$altered"
run "$BUILD/tests/cli/alter_memory" "$altered"
may=$rc # 0: done
kill -CONT "$altered"
case $BUILD in */san) may=san ;; esac
[ "$may" = 0 ] || kill -TERM "$altered"
gone_within 120 "$altered" || kill -TERM "$altered"
rc=0
wait "$job" || rc=$?
if [ "$may" = 2 ]; then
    skip "memory: the operation is named" "this user may not write to another process's memory"
elif [ "$may" = san ]; then
    skip "memory: the operation is named" "a sanitizer's own memory is the largest block"
else
    is "memory: some floats are doubled" "$may" 0
    is "memory: the run ends when copies are compared" "$rc" 1
    last=$(sed -n 's/^{"step": \([0-9]*\),.*/\1/p' "$tmp/memory/metrics.jsonl" | tail -n 1)
    run mpi 4 "$train" "$tmp/memory.yaml" --replay "$last"
    is "memory: replayed: exit code" "$rc" 1
    # Gradients that are altered between their operation and their message are seen in the message.
    like "memory: rank and operation are named" "$out" "has something else in all_reduce '|rank 2 (computes something else from the same operands: [a-z_]+ '[^']*' \(operation|begins the step with another '(weight|master|exp_avg))"
    ok "memory: no other rank is" sh -c "! printf '%s' \"$out\" | grep -qE 'rank [013] (computes|begins)'"
fi
tap_done
