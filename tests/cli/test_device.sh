#!/bin/sh
# test_device.sh - sennit-train on a device: what is missing is said, and a device of host memory
# that does things in any legal order gives the bits of the processor.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
fake=$PWD/$BUILD/tests/gpu/libfake_device.so
make_tokens "$tmp/tok"
steps=8 eval_every=4 hidden=48 batch=6 every=4

on() { # backend name: a run file of it
    run_file "$tmp/$2.yaml" "$tmp/$2"
    sed -i "s/^run: {/run: {backend: $1, channels: host, hang_timeout: ${timeout:-300}, /" "$tmp/$2.yaml"
}

several() { # ranks run-file options...: on the fake device
    (n=$1 && shift && SN_PLUGIN=$fake && export SN_PLUGIN && mpi "$n" "$train" "$@")
}

series() { # name: what its metrics say, but times
    { metric loss "$tmp/$1/metrics.jsonl" && metric grad_norm "$tmp/$1/metrics.jsonl" &&
        metric val_loss "$tmp/$1/metrics.jsonl" && metric max_vio "$tmp/$1/metrics.jsonl" &&
        metric max_vio_worst "$tmp/$1/metrics.jsonl"; } >"$tmp/$1.series"
}

same() { # sentence name name
    series "$2" && series "$3"
    ok "$1" cmp -s "$tmp/$2.series" "$tmp/$3.series"
    ok "$1: there is something to compare" test -s "$tmp/$2.series"
}

# --- what is missing -------------------------------------------------------------------------------
on cuda none
run env SN_PLUGIN="$tmp/no-such.so" "$train" "$tmp/none.yaml"
is "no plugin: exit 2" "$rc" 2
like "no plugin: the sentence" "$err" \
    'run.backend: cuda needs the plugin .*no-such.so, which is not there; build it where nvcc is \(make cuda\), or set run.backend: cpu'
is "no plugin: one sentence" "$(printf '%s\n' "$err" | wc -l)" 1
run env SN_PLUGIN="$train" "$train" "$tmp/none.yaml"
is "no library: exit 2" "$rc" 2
like "no library: the sentence" "$err" 'run.backend: the plugin does not open: .*sennit-train'
run env SN_PLUGIN="$fake" FAKE_DEVICE=abi=1000 "$train" "$tmp/none.yaml"
is "a plugin of another version: exit 2" "$rc" 2
like "a plugin of another version: the sentence" "$err" 'is of another version of sennit; build both'
run env SN_PLUGIN="$fake" FAKE_DEVICE=devices=0 "$train" "$tmp/none.yaml"
is "no device: exit 2" "$rc" 2
like "no device: the sentence" "$err" 'run.backend: there is no fake device'
FAKE_DEVICE=devices=0 && export FAKE_DEVICE
run several 2 "$tmp/none.yaml"
unset FAKE_DEVICE
is "no device on two ranks: exit 2" "$rc" 2
like "no device on two ranks: one of them says it" "$err" 'rank 0 .*: run.backend: there is no fake'

on auto auto
run env SN_PLUGIN="$fake" FAKE_DEVICE=devices=0 "$train" "$tmp/auto.yaml" --stop-after 1
is "auto without a device: it runs" "$rc" 0
like "auto without a device: and says where" "$err" \
    'on the processor \(run.backend: auto\): run.backend: there is no fake device'
run env SN_PLUGIN="$train" "$train" "$tmp/auto.yaml" --fresh --stop-after 1
is "auto with a plugin that does not open: it runs" "$rc" 0
like "auto with a plugin that does not open: and says so" "$err" \
    'on the processor \(run.backend: auto\): run.backend: the plugin does not open: '
run env SN_PLUGIN="$fake" FAKE_DEVICE=devices=-1 "$train" "$tmp/auto.yaml" --fresh --stop-after 1
is "auto on a host that is not made for devices: it runs" "$rc" 0
ok "auto on a host that is not made for devices: nothing to say" sh -c '! printf "%s" "$1" | grep -q run.backend' - "$err"
like "and where it runs is in the first line" "$err" ': 1 rank x 1 thread, cpu/[a-z0-9]+, own GEMM$'
run env SN_PLUGIN=none "$train" "$tmp/auto.yaml" --fresh --stop-after 1
is "auto without a plugin: it runs" "$rc" 0
ok "auto without a plugin: nothing to say" sh -c '! printf "%s" "$1" | grep -q run.backend' - "$err"

# --- the same bits -----------------------------------------------------------------------------------
for precision in fp32 bf16 fp16; do
    on cpu "cpu-$precision"
    run "$train" "$tmp/cpu-$precision.yaml"
    on cuda "one-$precision"
    run env SN_PLUGIN="$fake" "$train" "$tmp/one-$precision.yaml"
    is "$precision: a device trains" "$rc" 0
    like "$precision: the header says where" "$err" 'a fake device'
    same "$precision: its losses are the processor's" "one-$precision" "cpu-$precision"
    "$BUILD/bin/sennit-convert" --diff "$tmp/one-$precision/ckpt/step-00000008" \
        "$tmp/cpu-$precision/ckpt/step-00000008" >"$tmp/diff" 2>&1
    is "$precision: so are its checkpoints" $? 0
done
precision=fp32
run env SN_PLUGIN="$fake" "$train" "$tmp/one-fp32.yaml" --generate "The " --tokens 8 --temperature 0
there=$out
run "$train" "$tmp/cpu-fp32.yaml" --generate "The " --tokens 8 --temperature 0
is "it writes the same text" "$there" "$out"
sed 's/^layout: {/&tensor: 2, /' "$tmp/one-fp32.yaml" >"$tmp/more-fp32.yaml"
for ranks in 2 4; do # tensor ranks, and two stages of them
    run mpi $ranks env SN_PLUGIN="$fake" "$train" "$tmp/more-fp32.yaml" --generate "The " --tokens 8 --temperature 0
    is "on $ranks devices, too" "$out" "$there"
    [ "$rc" = 0 ] || tap_lines "$ranks devices" "$err"
done

every=0
on cuda late
run env SN_PLUGIN="$fake" FAKE_DEVICE=no_pin=1 "$train" "$tmp/late.yaml"
is "a run that saves at its end alone, where no memory may be page-locked" "$rc" 0
is "has nothing to say of it before" "$(printf '%s\n' "$err" | sed '/^step 8  validation/q' | grep -c page-lock)" 0
every=4
for saving in "async: false" "async: true"; do
    on cuda pageable
    rm -rf "${tmp:?}/pageable"
    run env SN_PLUGIN="$fake" FAKE_DEVICE=no_pin=1 "$train" "$tmp/pageable.yaml"
    is "$saving: one that saves" "$rc" 0
    is "$saving: says it, once" "$(printf '%s\n' "$err" | grep -c 'rank 0: [0-9.]* [KM]iB of host memory for saves are not page-locked: page-locking memory: it may not; saves are right, but copies')" 1
    "$BUILD/bin/sennit-convert" --diff "$tmp/pageable/ckpt/step-00000008" "$tmp/one-fp32/ckpt/step-00000008" >"$tmp/diff" 2>&1
    is "$saving: and its checkpoint is the same" $? 0
done
saving="async: true"
on cuda resumed
run env SN_PLUGIN="$fake" FAKE_DEVICE=seed=5 "$train" "$tmp/resumed.yaml" --stop-after 5
is "stopped after step 5" "$rc" 0
run env SN_PLUGIN="$fake" FAKE_DEVICE=seed=6 "$train" "$tmp/resumed.yaml"
is "and resumed" "$rc" 0
same "the same bits after a resume, saved beside the loop" resumed one-fp32
saving=""

on cuda varied
sed -i 's/^run: {/run: {deterministic: false, /' "$tmp/varied.yaml"
run env SN_PLUGIN="$fake" "$train" "$tmp/varied.yaml"
is "run.deterministic: false: it trains" "$rc" 0
like "run.deterministic: false: the header says so" "$err" 'a fake device, some sums in any order'
same "run.deterministic: false: a device that keeps its order has the same bits" varied one-fp32

# --- operands in 8 bits ----------------------------------------------------------------------------
precision=fp32 fp8=tensorwise
on cpu fp8-refused
run "$train" "$tmp/fp8-refused.yaml"
is "train.fp8 in fp32: exit 2" "$rc" 2
like "train.fp8 in fp32: the sentence" "$err" 'train.fp8: is for precision bf16, not fp32; set train.precision: bf16 or leave it out'
fp8=delayed
on cpu fp8-refused
run "$train" "$tmp/fp8-refused.yaml"
is "train.fp8: delayed: exit 2" "$rc" 2
like "train.fp8: delayed: the sentence" "$err" "train.fp8: unknown name 'delayed'; want none, tensorwise or blockwise"
precision=bf16
metric loss "$tmp/cpu-bf16/metrics.jsonl" >"$tmp/bf16.loss"
for fp8 in tensorwise blockwise; do
    for backend in cpu cuda; do
        on $backend "$fp8-$backend"
        run env SN_PLUGIN="$fake" "$train" "$tmp/$fp8-$backend.yaml"
        is "$fp8 on $backend: it trains" "$rc" 0
    done
    same "$fp8: the bits of the processor" $fp8-cuda $fp8-cpu
    metric loss "$tmp/$fp8-cpu/metrics.jsonl" >"$tmp/$fp8.loss"
    off=$(worst "$tmp/$fp8.loss" "$tmp/bf16.loss")
    within "$fp8: the losses are nearly those of bf16" "$off" 3e-3
    ok "$fp8: but not the same" sh -c '! cmp -s "$1" "$2"' - "$tmp/$fp8.loss" "$tmp/bf16.loss"
    on cuda $fp8-again
    run env SN_PLUGIN="$fake" "$train" "$tmp/$fp8-again.yaml" --stop-after 5
    run env SN_PLUGIN="$fake" "$train" "$tmp/$fp8-again.yaml"
    same "$fp8: the same bits after a resume, because nothing is remembered" $fp8-again $fp8-cpu
    on cpu $fp8-four
    sed -i 's/^layout: {/layout: {data: 2, zero: 1, tensor: 2, /' "$tmp/$fp8-four.yaml"
    run mpi 4 "$train" "$tmp/$fp8-four.yaml"
    is "$fp8 on four ranks: it trains" "$rc" 0
    metric loss "$tmp/$fp8-four/metrics.jsonl" >"$tmp/four.loss"
    within "$fp8 on four ranks: losses of another layout" "$(worst "$tmp/four.loss" "$tmp/$fp8.loss")" 3e-3
done
ok "blockwise is not tensorwise" sh -c '! cmp -s "$1" "$2"' - "$tmp/tensorwise.loss" "$tmp/blockwise.loss"
precision=fp32 fp8=none

# --- algorithms that are measured once -------------------------------------------------------------------
on cpu untuned
run "$train" "$tmp/untuned.yaml" --tune "$tmp/m.yaml"
is "--tune on the processor: exit 2" "$rc" 2
like "--tune on the processor: the sentence" "$err" '--tune: measures a device, and this run is on the processor; set run.backend: cuda'
run env SN_PLUGIN="$fake" "$train" "$tmp/one-fp32.yaml" --tune "$tmp/m.yaml" --fresh
is "--tune with --fresh: exit 2" "$rc" 2
on cuda tuned
run env SN_PLUGIN="$fake" "$train" "$tmp/tuned.yaml" --tune "$tmp/m.yaml"
is "--tune: exit 0" "$rc" 0
like "--tune: says what to do with it" "$err" 'm.yaml: 3 measured algorithms; name it in the run file: machine: \{file: '
ok "--tune: nothing is trained" test ! -e "$tmp/tuned/metrics.jsonl" -a ! -e "$tmp/tuned/ckpt/LATEST"
is "--tune: a line for each" "$(grep -c '^  - "fake 1 : way [0-2] of 1"' "$tmp/m.yaml")" 3
sed -i 's/fake 1 : way 2/fake 2 : way 2/' "$tmp/m.yaml"
printf 'machine: {file: %s}\n' "$tmp/m.yaml" >>"$tmp/tuned.yaml"
run env SN_PLUGIN="$fake" "$train" "$tmp/tuned.yaml"
is "a run takes them: exit 0" "$rc" 0
like "a run takes them: and says how many" "$err" 'm.yaml: 2 measured algorithms'
like "those of another version are passed over, aloud" "$err" 'm.yaml: 1 algorithms are of another kind of device or version'
same "a run takes them: the same losses" tuned one-fp32
sed -i 's/fake 1 : way 1/nonsense/' "$tmp/m.yaml"
run env SN_PLUGIN="$fake" "$train" "$tmp/tuned.yaml" --fresh
is "a line that is none: exit 2" "$rc" 2
like "a line that is none: the sentence" "$err" "m.yaml: choices: 'nonsense"
on cuda tuned-two
sed -i 's/^layout: {/layout: {tensor: 2, /' "$tmp/tuned-two.yaml"
run several 2 "$tmp/tuned-two.yaml" --tune "$tmp/two-m.yaml"
is "two ranks tune: exit 0" "$rc" 0
is "two ranks tune: equal lines are kept once" "$(grep -c '^  - "fake 1 : way' "$tmp/two-m.yaml")" 3
on cuda tuned-nowhere
run env SN_PLUGIN="$fake" "$train" "$tmp/tuned-nowhere.yaml" --tune "$tmp/no/such/m.yaml"
is "a file that cannot be written: exit 1" "$rc" 1
like "a file that cannot be written: the sentence" "$err" '/m.yaml: cannot be written .No such file or directory.; create its folder first'

on cuda alone
sed -i 's/channels: host, //; s/^layout: {/layout: {tensor: 2, /' "$tmp/alone.yaml"
run several 2 "$tmp/alone.yaml"
is "ranks of two devices without channels: exit 2" "$rc" 2
like "ranks of two devices without channels: why, and what would do" "$err" \
    'run.channels: devices cannot talk to each other, because rank 0 has no channels: processes share no memory; mend that, or set run.channels: host'
is "ranks of two devices without channels: one sentence" "$(printf '%s\n' "$err" | grep -c run.channels)" 1
sed -i 's/backend: cuda/backend: auto/' "$tmp/alone.yaml"
run several 2 "$tmp/alone.yaml" --stop-after 1
is "with run.backend: auto it runs" "$rc" 0
like "with run.backend: auto it says why it is slow" "$err" \
    'ranks talk through the host, which is slow: rank 0 has no channels: processes share no memory'

family=gpt2
on cpu cpu-two
sed -i 's/^layout: {/layout: {tensor: 2, zero: 1, /' "$tmp/cpu-two.yaml"
run mpi 4 "$train" "$tmp/cpu-two.yaml"
is "four ranks on the processor" "$rc" 0
on cuda two
sed -i 's/^layout: {/layout: {tensor: 2, zero: 1, /' "$tmp/two.yaml"
run several 4 "$tmp/two.yaml"
is "four ranks share a device" "$rc" 0
like "they say that they talk through the host" "$err" 'ranks talk through the host'
same "four ranks: the losses are those of the processor" two cpu-two
saving="async: true" every=2
on cuda two-async
sed -i 's/^layout: {/layout: {tensor: 2, zero: 1, /' "$tmp/two-async.yaml"
run several 4 "$tmp/two-async.yaml" --stop-after 5
is "four ranks, saved beside the loop: stopped after step 5" "$rc" 0
run several 4 "$tmp/two-async.yaml"
is "four ranks, saved beside the loop: resumed" "$rc" 0
same "four ranks, saved beside the loop: the same bits" two-async cpu-two
"$BUILD/bin/sennit-convert" --diff "$tmp/two-async/ckpt/step-00000008" "$tmp/cpu-two/ckpt/step-00000008" >"$tmp/diff" 2>&1
is "four ranks, saved beside the loop: the same checkpoint" $? 0
"$BUILD/bin/sennit-convert" --verify "$tmp/two-async/ckpt/step-00000006" >"$tmp/diff" 2>&1
is "four ranks, saved beside the loop: the one before is whole" $? 0
saving="" every=4

family=mixtral layers=4
for name in cpu-experts experts; do
    on "$(test "$name" = experts && echo cuda || echo cpu)" "$name"
    sed -i "s/^layout: {/layout: {pipeline: 2, expert: 2, schedule: zero-bubble, /
            s/^  dropout: .*/  experts: {count: 4}/" "$tmp/$name.yaml"
done
run mpi 4 "$train" "$tmp/cpu-experts.yaml"
is "experts in a pipeline on the processor" "$rc" 0
run several 4 "$tmp/experts.yaml"
is "experts in a pipeline on a device" "$rc" 0
same "experts in a pipeline: the losses are those of the processor, and experts' load" experts cpu-experts
is "experts in a pipeline: their load is told in every step" "$(metric max_vio "$tmp/experts/metrics.jsonl" | wc -l)" 8
family=llama layers=2

# --- what is planned is what is taken --------------------------------------------------------------
memory() { # text: its memory plan, without what libraries take on the machine that a plan is for
    printf '%s\n' "$1" | sed -n 's/.*"memory_bytes": {\([^}]*\), "library": .*/\1/p' | head -n 1
}
workspace() { # text: bytes
    memory "$1" | sed -n 's/.*"workspace": \([0-9]*\).*/\1/p'
}
blocks() { # plugin name: of rows of the head, in training
    SN_PLUGIN=$1 "$BUILD/bin/sennit-plan" "$tmp/$2.yaml" --ranks $ranks --explain $((ranks - 1)) 2>/dev/null |
        grep -c ' cross_entropy '
}
FAKE_DEVICE="scratch=1000000 head=16384" && export FAKE_DEVICE # 16 of 64 rows of the head at once
for name in wide two experts; do
    [ $name != wide ] || on cuda wide
    rm -rf "${tmp:?}/$name"
    ranks=4 few=4
    [ $name != wide ] || ranks=1
    [ $name != two ] || few=2 # tensor ranks: half of the words
    run several $ranks "$tmp/$name.yaml"
    is "$name: runs with kernels that want more scratch" "$rc" 0
    like "$name: it takes of the device what it maps" "$err" \
        'device memory: ([0-9.]+ [KMG]?i?B) planned and mapped, \1 less is free'
    used=$(memory "$(head -n 1 "$tmp/$name/metrics.jsonl")")
    run env SN_PLUGIN="$fake" FAKE_DEVICE="$FAKE_DEVICE devices=0" "$BUILD/bin/sennit-plan" \
        "$tmp/$name.yaml" --json --ranks $ranks
    is "$name: which is what is planned where no device is" "$(memory "$out")" "$used"
    ok "$name: it is something" test -n "$used"
    more=$(workspace "$out")
    is "$name: the head in blocks that suit the device" "$(blocks "$fake" $name)" "$few"
    is "$name: which are not the processor's" "$(blocks none $name)" 1
    run env SN_PLUGIN=none "$BUILD/bin/sennit-plan" "$tmp/$name.yaml" --json --ranks $ranks
    is "$name: without the plugin it is planned, too" "$rc" 0
    like "$name: and said what with" "$err" 'workspace and blocks of logits are those of the processor, because run.backend: cuda needs the plugin none'
    sed 's/^layout: .*/layout: auto/' "$tmp/$name.yaml" >"$tmp/searched.yaml"
    run env SN_PLUGIN=none "$BUILD/bin/sennit-plan" "$tmp/searched.yaml" --ranks $ranks
    is "$name: layout: auto for no machine that is named is refused" "$rc" 2
    echo 'machine: {preset: perlmutter-80}' >>"$tmp/searched.yaml"
    run env SN_PLUGIN=none "$BUILD/bin/sennit-plan" "$tmp/searched.yaml" --ranks $ranks
    is "$name: layout: auto without the plugin is planned" "$rc" 0
    is "$name: layout: auto says so once" "$(printf '%s\n' "$err" | grep -c 'workspace and blocks of logits are those of the processor')" 1
    run env SN_PLUGIN=none "$BUILD/bin/sennit-plan" "$tmp/$name.yaml" --json --ranks $ranks
    is "$name: a million bytes less" "$(((more - $(workspace "$out") + 63) / 64))" 15625
done
unset FAKE_DEVICE

# --- failures ----------------------------------------------------------------------------------------
on cuda broken
run env SN_PLUGIN="$fake" FAKE_DEVICE=fail_at=40 "$train" "$tmp/broken.yaml"
is "a kernel that fails: exit 1" "$rc" 1
like "a kernel that fails: it is named" "$err" "fake: '[a-z_]* [a-z0-9.]*' failed: an illegal address was met"
rm -rf "$tmp/broken"
run env SN_PLUGIN="$fake" FAKE_DEVICE=fail_at=2000 "$train" "$tmp/broken.yaml"
is "one that fails in a graph: exit 1" "$rc" 1
like "one that fails in a graph: its neighbourhood is named" "$err" \
    "fake: '[a-z_]* [a-z0-9.]*', or one of the 63 operations after it, failed: an illegal address was met"
run env SN_PLUGIN="$fake" FAKE_DEVICE=refuse_at=40 "$train" "$tmp/broken.yaml" --fresh
is "a stream that a device refuses: exit 1" "$rc" 1
like "a stream that a device refuses: it is said what is wrong with it" "$err" \
    "decode: fake: a stream was refused: a block's scale is none that an encoder writes"
on cuda timed
run env SN_PLUGIN="$fake" "$train" "$tmp/timed.yaml" --profile
is "--profile: it runs" "$rc" 0
like "--profile: what each operation takes" "$out" 'gemm +[1-9]'
same "--profile: the same bits" timed one-fp32
tap_done
