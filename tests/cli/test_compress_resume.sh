#!/bin/sh
# test_compress_resume.sh - what compression adds to the state: a resumed run has the bits of one that
# went on, in another layout the feedback's sum stays, and the converter does what a resume does.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train convert=$BUILD/bin/sennit-convert
make_tokens "$tmp/tok"
steps=8 batch=8 eval_every=0 layers=2 hidden=64 ffn=96 kv_heads=2

configure() { # name layout [train key]: a run of 8 steps
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s/^layout: {.*/layout: {$2, micro_batch: 1, bucket: 64KiB}/
        s/^  precision: .*/&${3:+\n  $3}/" "$tmp/$1.yaml"
}
losses() { # name
    metric loss "$tmp/$1/metrics.jsonl"
    metric grad_norm "$tmp/$1/metrics.jsonl"
}
groups() { # checkpoint: its groups with as many tensors as each has
    "$convert" --inspect "$1" --json | sed -n 's/.*{"group": "\([^"]*\)".*/\1/p' | sort | uniq -c |
        awk '{ printf "%s%s %s", sep, $2, $1; sep = ", " }'
}
# --- the same layout: the same bits --------------------------------------------------------------
same() { # name ranks layout
    configure "$1-whole" "$3"
    configure "$1" "$3"
    run mpi "$2" "$train" "$tmp/$1-whole.yaml"
    is "$1: a run trains" "$rc" 0
    run mpi "$2" "$train" "$tmp/$1.yaml" --stop-after 5
    run mpi "$2" "$train" "$tmp/$1.yaml"
    is "$1: it goes on after a stop" "$rc" 0
    is "$1: losses and norms are the same bits" "$(losses "$1")" "$(losses "$1-whole")"
    run "$convert" --diff "$tmp/$1/ckpt/step-00000008" "$tmp/$1-whole/ckpt/step-00000008"
    is "$1: so is all of the state" "$rc" 0
}
coded='compress: {data: int4, feedback: true, zero: int4-diff}'
same d2 2 "data: 2, zero: 1, $coded"
same d2-plain 2 "data: 2, zero: 0, compress: {data: int4, feedback: true}"
precision=bf16
same d2-bf16 2 "data: 2, zero: 2, $coded"
precision=fp32
same d2t2 4 "data: 2, tensor: 2, zero: 1, $coded"
hidden=48 ffn=90 # parts that are padded, and codecs that mix neighbours
same d2-blockwise 2 "data: 2, zero: 1, compress: {scheme: blockwise, data: int4-hadamard, feedback: true}"
if "$BUILD/bin/sennit-plan" "$tmp/d2.yaml" >/dev/null && ! make -s info 2>/dev/null | grep -q 'no zfp.h'; then
    same d2-naive 2 "data: 2, zero: 1, compress: naive"
else
    skip "a scheme with zfp" "this build has no libzfp"
fi
hidden=64 ffn=96
has=$(groups "$tmp/d2/ckpt/step-00000008")
echo "# $has"
n=$(printf '%s' "$has" | sed 's/.*model \([0-9]*\).*/\1/')
is "feedback has a group for each replica, and weights one" "$has" \
    "exp_avg $n, exp_avg_sq $n, feedback.0 $n, feedback.1 $n, model $n, replica $n"
run "$convert" --verify "$tmp/d2t2/ckpt"
is "all of it is verified" "$rc" 0

run "$convert" --inspect "$tmp/d2/ckpt/step-00000008"
like "people see it" "$out" 'feedback.1 .*embed.weight'

# --- another layout: training goes on ------------------------------------------------------------
goes_on() { # name layout-before ranks-before layout-after ranks-after wanted-words
    configure "$1" "$2"
    run mpi "$3" "$train" "$tmp/$1.yaml" --stop-after 5
    configure "$1" "$4"
    run mpi "$5" "$train" "$tmp/$1.yaml"
    is "$1: the run goes on" "$rc" 0
    like "$1: and says what becomes of feedback" "$err" "$6"
    within "$1: losses are those of a run that stayed" \
        "$(losses "$1" >"$tmp/l" && losses d2-whole >"$tmp/w" && head -n 8 "$tmp/l" >"$tmp/l8" &&
            head -n 8 "$tmp/w" >"$tmp/w8" && worst "$tmp/l8" "$tmp/w8")" 0.02
}
goes_on to-one "data: 2, zero: 1, $coded" 2 "data: 1" 1 'error feedback is dropped'
goes_on from-one "data: 1" 1 "data: 2, zero: 1, $coded" 2 'no error feedback; it begins with zeros'
goes_on to-tensor "data: 2, zero: 1, $coded" 2 "data: 2, tensor: 2, zero: 2, $coded" 4 \
    'continuing from the checkpoint of step 5'
goes_on to-two "data: 4, zero: 1, $coded" 4 "data: 2, zero: 1, $coded" 2 \
    'feedback of 4 holders becomes that of 2'

# --- the converter does what a resume does -------------------------------------------------------
before=$tmp/d4/ckpt/step-00000005 after=$tmp/converted/step-00000005
configure d4 "data: 4, zero: 1, $coded"
run mpi 4 "$train" "$tmp/d4.yaml" --stop-after 5
configure d2c "data: 2, zero: 1, $coded"
run "$convert" "$before" "$tmp/converted" --layout "$tmp/d2c.yaml"
is "data 4 becomes data 2" "$rc" 0
is "with two holders" "$(groups "$after")" "$has"
run "$convert" --verify "$after"
is "which is whole" "$rc" 0
configure there "data: 2, zero: 1, $coded"
mkdir -p "$tmp/there/ckpt" "$tmp/here/ckpt"
cp -r "$after" "$tmp/there/ckpt/"
cp -r "$before" "$tmp/here/ckpt/"
configure here "data: 2, zero: 1, $coded"
run mpi 2 "$train" "$tmp/there.yaml"
run mpi 2 "$train" "$tmp/here.yaml"
is "runs that go on from both train" "$rc" 0
is "to the same bits" "$(losses there)" "$(losses here)"
configure plain "data: 2"
run "$convert" "$before" "$tmp/bare" --layout "$tmp/plain.yaml"
like "a layout without compression gets none of its state" "$err" "$((n * 5)) tensors of compression's state"
is "only weights and moments" "$(groups "$tmp/bare/step-00000005")" "exp_avg $n, exp_avg_sq $n, model $n"
run "$convert" "$before" "$tmp/hf" --to safetensors
is "safetensors have the weights alone" "$rc" 0

# --- a save beside the next step, whose gradients change the feedback ------------------------------
every=2 saving='async: true'
configure beside "data: 2, zero: 1, $coded"
every=0
sed -i 's/keep: 2/keep: 9/' "$tmp/beside.yaml"
run mpi 2 "$train" "$tmp/beside.yaml"
is "a run saves beside its steps" "$rc" 0
configure alone "data: 2, zero: 1, $coded"
run mpi 2 "$train" "$tmp/alone.yaml" --stop-after 6
saving=
run "$convert" --diff "$tmp/beside/ckpt/step-00000006" "$tmp/alone/ckpt/step-00000006"
is "what is saved beside a step is the state before it" "$rc" 0

# --- the state matters ---------------------------------------------------------------------------
configure lost "data: 2, zero: 1, $coded"
run "$convert" "$tmp/alone/ckpt" "$tmp/lost/ckpt" --layout "$tmp/plain.yaml"
run mpi 2 "$train" "$tmp/lost.yaml"
is "a run that goes on without it trains" "$rc" 0
ok "but not to the same bits" test "$(losses lost | sed -n 2p)" != "$(metric loss "$tmp/d2-whole/metrics.jsonl" | tail -n 1)"

# --- memory of partners --------------------------------------------------------------------------
# A run of 4 ranks is killed. Which step it goes on from in another layout is for $step.
killed_run() { # name ranks layout layout-after ranks-after
    configure "$1" "$3"
    sed -i 's/^checkpoint: {/&snapshot_every: 1, /; s/^  steps: .*/  steps: 400/' "$tmp/$1.yaml"
    mpi "$2" "$train" "$tmp/$1.yaml" >/dev/null 2>&1 &
    job=$!
    wait_for_step 4 "$tmp/$1"
    kill -9 "$(process_of 0 "$tmp/$1.yaml")" 2>/dev/null
    wait "$job"
    configure "$1" "$4"
    sed -i 's/^checkpoint: {/&snapshot_every: 1, /; s/^  steps: .*/  steps: 400/' "$tmp/$1.yaml"
    killed=$(metric step "$tmp/$1/metrics.jsonl" | tail -n 1)
    run mpi "$5" "$train" "$tmp/$1.yaml" --stop-after $((killed + 3))
    is "$1: a killed run goes on" "$rc" 0
    step=$(printf '%s\n' "$err" | sed -n 's/^resumed step \([0-9]*\) from memory.*/\1/p')
    ok "$1: from memory, at step $step of $killed" test "${step:-0}" -ge $((killed - 1))
    configure "$1-saved" "$3"
    sed -i 's/^  steps: .*/  steps: 400/' "$tmp/$1-saved.yaml"
    run mpi "$2" "$train" "$tmp/$1-saved.yaml" --stop-after "${step:-4}"
    configure "$1-saved" "$4"
    sed -i 's/^  steps: .*/  steps: 400/' "$tmp/$1-saved.yaml"
    run mpi "$5" "$train" "$tmp/$1-saved.yaml" --stop-after $((killed + 3))
    is "$1: to the bits of one that goes on from a checkpoint" "$(losses "$1")" "$(losses "$1-saved")"
    run "$convert" --diff "$tmp/$1/ckpt" "$tmp/$1-saved/ckpt"
    is "$1: and to its state" "$rc" 0
}
killed_run memory 2 "data: 2, zero: 1, $coded" "data: 2, zero: 1, $coded" 2
killed_run memory-of-4 4 "data: 4, zero: 1, $coded" "data: 2, zero: 2, $coded" 2
killed_run bare-memory 2 "data: 2, zero: 1" "data: 2, zero: 1, $coded" 2
tap_done
