#!/bin/sh
# test_train.sh - equality of runs: over ranks, over repeats, over kills and resumes.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"

losses() { # output directory: loss, gradient norm and validation loss of every step
    metric loss "$1/metrics.jsonl" >"$1/loss"
    metric grad_norm "$1/metrics.jsonl" >"$1/norm"
    metric val_loss "$1/metrics.jsonl" >"$1/val"
}

# --- 1, 2, 3, 4 ranks give the same losses --------------------------------------------------------
steps=20 eval_every=10
for family in llama gpt2; do
    run_file "$tmp/r1.yaml" "$tmp/$family-1"
    run "$train" "$tmp/r1.yaml"
    is "$family: one rank trains" "$rc" 0
    losses "$tmp/$family-1"
    is "$family: $steps steps are recorded" "$(wc -l <"$tmp/$family-1/loss" | tr -d ' ')" $steps
    for n in 2 3 4; do
        run_file "$tmp/r.yaml" "$tmp/$family-$n"
        run mpi "$n" "$train" "$tmp/r.yaml"
        is "$family: $n ranks train" "$rc" 0
        losses "$tmp/$family-$n"
        for what in loss norm val; do
            within "$family: $what of $n ranks equals that of one" \
                "$(worst "$tmp/$family-$n/$what" "$tmp/$family-1/$what")" 1e-5
        done
        ok "$family: the weights after $steps steps are a checkpoint" \
            test -f "$tmp/$family-$n/ckpt/step-000000$steps/COMMIT"
    done
done
first=$(head -n 1 "$tmp/llama-1/loss") last=$(tail -n 1 "$tmp/llama-1/loss")
ok "the loss falls ($first to $last)" awk "BEGIN { exit !($last < 0.95 * $first) }"

# 6N of 2 x (4 x 64^2 + 3 x 64 x 160) + 256 x 64 weights; scores 6 x 2 x 64 x 64, of which mfu counts half of 12LCT.
metric mfu "$tmp/llama-1/metrics.jsonl" >"$tmp/mfu"
metric mfu_uncausal "$tmp/llama-1/metrics.jsonl" >"$tmp/uncausal"
is "every step has MFU both ways, in the ratio of their FLOPs" \
    "$(paste "$tmp/mfu" "$tmp/uncausal" | awk '$1 > 0 && $2 / $1 > 1.06896 && $2 / $1 < 1.06897' | wc -l | tr -d ' ')" $steps

# --- the planned traffic is the sent traffic (each rank also asserts its own every step) ----------
run "$BUILD/bin/sennit-plan" "$tmp/r.yaml" --ranks 4 --json
planned=$(printf '%s' "$out" | sed -n 's/.*"traffic_bytes": {\([^}]*\)}.*/\1/p')
sent=$(sed -n '1s/.*"traffic_bytes": {\([^}]*\)}.*/\1/p' "$tmp/gpt2-4/metrics.jsonl")
is "planned traffic equals the trainer's" "$planned" "$sent"

# --- planned memory is used memory ------------------------------------------------------------------
resident() { # output directory: the peak is within the plan and at most 16 MiB below it
    planned=$(sed -n 's/.*"planned_bytes": \([0-9]*\).*/\1/p' "$1/attempt-1.json")
    peak=$(sed -n 's/.*"peak_resident_bytes": \([0-9]*\).*/\1/p' "$1/attempt-1.json")
    ok "$2: peak resident memory $peak is the plan's $planned, less at most 16 MiB" \
        test "$peak" -le "$planned" -a "$peak" -ge $((planned - 16777216))
}
case $BUILD in
*san*) skip "peak resident memory is the plan's" "sanitizers add memory of their own" ;;
*)
    resident "$tmp/llama-1" "llama, one rank"
    resident "$tmp/gpt2-4" "gpt2, four ranks"
    hidden=512 steps=6 precision=bf16 eval_every=3
    run_file "$tmp/large.yaml" "$tmp/large"
    run mpi 2 "$train" "$tmp/large.yaml"
    resident "$tmp/large" "bf16, 8 times as wide, two ranks"
    unset hidden precision eval_every
    ;;
esac

# --- the same run twice gives the same bits, also across kill -9 ----------------------------------
# Kill rank 0 without warning as soon as its metrics reach a step that no checkpoint holds.
kill_after() { # step output: kills the newest attempt
    for _ in $(seq 1 3000); do
        if grep -q "^{\"step\": $1," "$2/metrics.jsonl" 2>/dev/null; then
            newest=$(ls "$2"/attempt-*.json | sort -V | tail -n 1)
            kill -9 "$(sed 's/.*"pid": \([0-9]*\).*/\1/' "$newest")"
            return
        fi
        sleep 0.01
    done
}

family=llama steps=60 dropout=0.1 every=5 eval_every=20
for precision in fp32 bf16 fp16; do
    for name in a b; do
        run_file "$tmp/$name.yaml" "$tmp/$precision-$name"
        run mpi 2 "$train" "$tmp/$name.yaml"
        is "$precision: run $name of two" "$rc" 0
    done
    run_file "$tmp/k.yaml" "$tmp/$precision-k"
    run mpi 2 "$train" "$tmp/k.yaml" --stop-after 10
    is "$precision: a third run stops after 10 steps" "$rc" 0
    mpi 2 "$train" "$tmp/k.yaml" >/dev/null 2>&1 </dev/null &
    kill_after 12 "$tmp/$precision-k"
    rc=0
    wait $! || rc=$?
    ok "$precision: its second attempt is killed" test "$rc" -ne 0
    run mpi 2 "$train" "$tmp/k.yaml"
    is "$precision: its third attempt finishes" "$rc" 0
    like "$precision: having continued where the second had saved" "$err" 'checkpoint of step [0-9]+'
    for name in a b k; do
        losses "$tmp/$precision-$name"
        cat "$tmp/$precision-$name/loss" "$tmp/$precision-$name/norm" >"$tmp/$precision-$name/all"
    done
    is "$precision: $steps steps are recorded" \
        "$(wc -l <"$tmp/$precision-k/loss" | tr -d ' ')" $steps
    ok "$precision: twice the same bits" cmp -s "$tmp/$precision-a/all" "$tmp/$precision-b/all"
    ok "$precision: the same bits after kill -9 and resume" \
        cmp -s "$tmp/$precision-a/all" "$tmp/$precision-k/all"
done

tap_done
