#!/bin/sh
# test_leave.sh - how a run ends: on request, by divergence, by bad input; and what it leaves.
# Runs alone: signals come at chosen times.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"
steps=100000 eval_every=0 hidden=32 seq=32 batch=4

# --- asked to leave -------------------------------------------------------------------------------
leave() { # name signal expected-code: one rank
    run_file "$tmp/$1.yaml" "$tmp/$1"
    "$train" "$tmp/$1.yaml" >/dev/null 2>"$tmp/err" </dev/null &
    pid=$!
    ok "$1: it runs" wait_for_step 5 "$tmp/$1"
    kill "-$2" $pid
    rc=0
    wait $pid || rc=$?
    is "$1: exit code" "$rc" "$3"
    last=$(metric step "$tmp/$1/metrics.jsonl" | tail -n 1)
    ok "$1: the last step is a checkpoint" \
        test -f "$tmp/$1/ckpt/step-$(printf %08d "$last")/COMMIT"
    like "$1: the attempt's record says so" "$(cat "$tmp/$1/attempt-1.json")" "\"exit_code\": $3,"
}
leave usr1 USR1 75
leave usr2 USR2 75
leave term TERM 76
leave hup HUP 76

# Who reads what it prints may leave; the run does not.
run_file "$tmp/pipe.yaml" "$tmp/pipe"
{
    rc=0
    "$train" "$tmp/pipe.yaml" --stop-after 400 2>/dev/null </dev/null || rc=$?
    echo $rc >"$tmp/pipe.rc"
} | head -n 1 >/dev/null
is "pipe: it goes on to its end" "$(cat "$tmp/pipe.rc")" 0
ok "pipe: saved" test -f "$tmp/pipe/ckpt/step-00000400/COMMIT"

# --- asked to leave before the first step: compiling this model takes seconds ------------------------------
layers=10000 hidden=1048576 ffn=2097152
run_file "$tmp/huge.yaml" "$tmp/huge"
layers=2 hidden=32 ffn=160
early() { # name signal expected-code command...
    name=$1 signal=$2 want=$3
    shift 3
    rm -f "$tmp/huge/attempt-1.json"
    "$@" >/dev/null 2>"$tmp/$name.err" </dev/null &
    pid=$!
    for _ in $(seq 500); do # a trainer writes it just before; a planner writes nothing
        [ ! -s "$tmp/huge/attempt-1.json" ] && [ "$name" != plan-term ] || break
        sleep 0.02
    done
    began=$(date +%s)
    kill "-$signal" $pid
    rc=0
    wait $pid 2>/dev/null || rc=$?
    is "$name: exit code" "$rc" "$want"
    ok "$name: within seconds ($(($(date +%s) - began)))" test $(($(date +%s) - began)) -le 8
}
early compile-term TERM 76 "$train" "$tmp/huge.yaml"
like "compile-term: it says that nothing is lost" "$(cat "$tmp/compile-term.err")" \
    '^asked to leave before the first step: there is nothing to save$'
like "compile-term: so does the attempt's record" "$(cat "$tmp/huge/attempt-1.json")" \
    '"exit_code": 76, "cause": "asked to leave before the first step'
early compile-usr2 USR2 75 "$train" "$tmp/huge.yaml"
early plan-term TERM 143 "$BUILD/bin/sennit-plan" "$tmp/huge.yaml"
early compile-ranks USR2 75 tests/mpi/run -n 2 "$train" "$tmp/huge.yaml"

# Shells start background jobs with SIGINT ignored; a monitor shell does not.
run_file "$tmp/int.yaml" "$tmp/int"
cat >"$tmp/int.sh" <<SH
set -m
"$train" "$tmp/int.yaml" >/dev/null 2>&1 </dev/null &
echo \$! >"$tmp/pid"
wait \$!
SH
sh "$tmp/int.sh" 2>/dev/null &
shell=$!
wait_for_step 5 "$tmp/int"
kill -INT "$(cat "$tmp/pid")"
rc=0
wait $shell || rc=$?
is "int: Ctrl-C saves and leaves" "$rc" 75

run_file "$tmp/file.yaml" "$tmp/file"
mpi 2 "$train" "$tmp/file.yaml" >/dev/null 2>&1 </dev/null &
pid=$!
ok "file: two ranks run" wait_for_step 5 "$tmp/file"
touch "$tmp/file/save-and-exit"
rc=0
wait $pid || rc=$?
is "file: the file save-and-exit makes both leave with 75" "$rc" 75
ok "file: the request is removed once met" test ! -e "$tmp/file/save-and-exit"
before=$(metric step "$tmp/file/metrics.jsonl" | tail -n 1)
run "$train" "$tmp/file.yaml" --stop-after $((before + 3))
is "file: the run continues on another number of ranks" "$rc" 0
like "file: from where it left" "$err" "checkpoint of step $before"
like "file: a second attempt is recorded" "$(cat "$tmp/file/attempt-2.json")" '"cause": "finished"'

# --- --fresh begins anew and loses nothing --------------------------------------------------------
run "$train" "$tmp/file.yaml" --fresh --stop-after 2
is "fresh: exit code" "$rc" 0
is "fresh: metrics begin at step 1" "$(metric step "$tmp/file/metrics.jsonl" | head -n 1)" 1
ok "fresh: the earlier checkpoint is set aside, not deleted" \
    sh -c "ls -d '$tmp'/file/ckpt/step-*aside* >/dev/null"
run "$train" "$tmp/file.yaml" --stop-after 3
like "fresh: what continues is the new run" "$err" 'checkpoint of step 2$'

# --- numbers that are none ------------------------------------------------------------------------
steps=200 lr=100
for precision in fp32 bf16; do
    run_file "$tmp/$precision.yaml" "$tmp/$precision"
    sed -i 's/clip: 1.0/clip: 0/; s/^  seq:/  init_std: 1.0\n  seq:/' "$tmp/$precision.yaml"
    run "$train" "$tmp/$precision.yaml"
    is "$precision: a learning rate of 100 diverges" "$rc" 79
    like "$precision: and is named" "$err" '^step [0-9]+: the (loss is|gradients are) not finite'
    like "$precision: in the attempt too" "$(cat "$tmp/$precision/attempt-1.json")" 'diverged'
done
lr=1.0e-3 precision=fp16 steps=6
run_file "$tmp/fp16.yaml" "$tmp/fp16"
sed -i 's/precision: fp16/precision: fp16\n  loss_scale: dynamic/' "$tmp/fp16.yaml"
run "$train" "$tmp/fp16.yaml"
is "fp16: trains" "$rc" 0
like "fp16: the loss scale is recorded" "$(head -n 1 "$tmp/fp16/metrics.jsonl")" \
    '"loss_scale": [0-9]+, "skipped": [0-9]+'
precision=fp32

# --- bad input is one sentence and exit 2 ---------------------------------------------------------
refused() { # what pattern command...
    what=$1 pattern=$2
    shift 2
    run "$@"
    is "$what: exit code" "$rc" 2
    like "$what: the sentence" "$err" "$pattern"
    is "$what: one sentence" "$(printf '%s\n' "$err" | grep -vcE ' ranks? x |^continuing from the checkpoint')" 1
}
run_file "$tmp/ok.yaml" "$tmp/ok"
refused "no run file" 'want one run file, got 0' "$train"
refused "unknown option" 'unknown option --frehs' "$train" --frehs "$tmp/ok.yaml"
refused "missing run file" 'nowhere.yaml: .*No such file' "$train" "$tmp/nowhere.yaml"
refused "a step that is no number" "^--stop-after: 'x' is no number" "$train" "$tmp/ok.yaml" --stop-after x
refused "no checkpoint to generate from" 'no checkpoint to generate from' \
    "$train" "$tmp/ok.yaml" --generate hello
refused "an empty prompt" 'the prompt is empty' "$train" "$tmp/fp16.yaml" --generate ''
sed "s|$tmp/tok,|$tmp/nothing,|" "$tmp/ok.yaml" >"$tmp/nodata.yaml"
refused "missing token files" 'nothing.idx: there is no such file' "$train" "$tmp/nodata.yaml"
sed 's|train: [^,]*, ||' "$tmp/ok.yaml" >"$tmp/notrain.yaml"
refused "no data.train" 'data.train: missing; want the prefix' "$train" "$tmp/notrain.yaml"
sed 's/vocab: 256/vocab: 100/' "$tmp/ok.yaml" >"$tmp/vocab.yaml"
run "$train" "$tmp/vocab.yaml"
is "a token outside the vocabulary: exit code" "$rc" 2
like "a token outside the vocabulary: the sentence" "$err" 'token'
before=$(date +%s)
run mpi 2 "$train" "$tmp/vocab.yaml" --fresh
ok "two ranks: the job ends within 15 s" test $(($(date +%s) - before)) -le 15
like "two ranks: the sentence carries rank and host" "$err" '^rank [01] \([^)]+\): .*token'
sed 's/batch: 4/batch: 5/' "$tmp/ok.yaml" >"$tmp/batch.yaml"
run mpi 2 "$train" "$tmp/batch.yaml"
ok "a batch that two ranks cannot share is refused" test "$rc" -ne 0
is "and said once, not by every rank" "$(printf '%s\n' "$err" | grep -c 'global_batch')" 1

# Another model than the checkpoint's.
run "$train" "$tmp/ok.yaml" --stop-after 2
is "a run of two steps" "$rc" 0
sed 's/ffn: 160/ffn: 192/' "$tmp/ok.yaml" >"$tmp/other.yaml"
refused "another model" 'model.*(160|192)' "$train" "$tmp/other.yaml"

# A checkpoint that was tampered with is not loaded in silence.
shard=$tmp/ok/ckpt/step-00000002/shard-00000.h5
size=$(wc -c <"$shard")
printf '\377\377\377\377' | dd of="$shard" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
run "$train" "$tmp/ok.yaml" --stop-after 4
ok "an altered checkpoint stops the run" test "$rc" -ne 0
like "and names the tensor and the file" "$err" 'shard-00000.h5'

# --- generation -----------------------------------------------------------------------------------
run "$train" "$tmp/fp16.yaml" --generate 'The ' --tokens 20
is "generate: exit code" "$rc" 0
ok "generate: the prompt and 20 bytes more" test "$(printf '%s' "$out" | wc -c)" -ge 10
first=$out
run "$train" "$tmp/fp16.yaml" --generate 'The ' --tokens 20
is "generate: the same seed writes the same" "$out" "$first"
is "generate: says nothing of settings, which are others of course" "$(printf '%s\n' "$err" | grep -c 'was saved')" 0
run "$train" "$tmp/fp16.yaml" --generate 'The ' --tokens 20 --seed 5
ok "generate: another seed writes something else" test "$out" != "$first"
first=$out
run "$train" "$tmp/fp16.yaml" --generate 'The ' --tokens 20 --seed 5
is "generate: and that again" "$out" "$first"
refused "generate: an option without it" '^--tokens: is for --generate and --answer, which are not asked for' "$train" "$tmp/fp16.yaml" --tokens 20
refused "generate: a seed without it" "^--seed: is for --generate and --answer; a run's seed is run.seed" "$train" "$tmp/fp16.yaml" --seed 5

# A vocabulary that is no bytes: the prompt is token ids.
sed 's/vocab: 256/vocab: 512/' "$tmp/ok.yaml" | sed "s|output: $tmp/ok|output: $tmp/ids|" >"$tmp/ids.yaml"
run "$train" "$tmp/ids.yaml" --stop-after 1
refused "generate: text where ids are wanted" \
    "^--generate: 'Hello' is no token; with a vocabulary of 512 the prompt is token ids with blanks between them, such as \"72 101\"" \
    "$train" "$tmp/ids.yaml" --generate Hello
is "generate: and writes nothing" "$out" ''
for bad in 72,101 72X 72. -1; do
    refused "generate: $bad" "^--generate: '$bad' is no token; " "$train" "$tmp/ids.yaml" --generate "$bad"
done
refused "generate: half of a list" "^--generate: '1x' is no token" "$train" "$tmp/ids.yaml" --generate '72 1x 3'
refused "generate: an id that the model does not know" 'token 2 of the prompt is 512; this model knows 0..511' \
    "$train" "$tmp/ids.yaml" --generate '72 512'
run "$train" "$tmp/ids.yaml" --generate ' 72 101' --tokens 3
like "generate: ids go on with ids" "$out" '^ 72 101( [0-9]+){3}$'

# What is kept changes no token, of windows that move on neither (of 32 tokens).
for how in "--temperature 0" "--temperature 0.9 --seed 3"; do
    # shellcheck disable=SC2086  # options
    run "$train" "$tmp/ids.yaml" --generate ' 72 101 7' --tokens 90 $how
    is "generate, $how: 90 tokens, three windows long" "$rc $(printf '%s' "$out" | wc -w)" "0 93"
    like "generate: says what is kept" "$err" 'generate: keys and values of 32 tokens are kept \([0-9.]+ KiB\)'
    kept=$out
    # shellcheck disable=SC2086
    run "$train" "$tmp/ids.yaml" --generate ' 72 101 7' --tokens 90 $how --no-cache
    is "generate, $how: the same without" "$out" "$kept"
    like "generate: says that nothing is kept" "$err" 'generate: each token computes its whole window \(--no-cache\)'
done
run "$BUILD/bin/sennit-plan" "$tmp/ids.yaml" --explain 0 --program generate_row
like "its program attends to what is kept" "$out" 'attention_rows .*l1\.attn\.core\.past\(cols 0\.\.[0-9]+\), .* at \[row\]'
like "which the planner tells the bytes of" "$out" 'l1\.attn\.core\.past +past +[0-9]+ +[0-9]+ '
refused "its program of two ranks" "^--program: 'generate_row' is none; want train, evaluate or, for a job of one rank, generate or generate_row" \
    "$BUILD/bin/sennit-plan" "$tmp/ids.yaml" --ranks 2 --explain 0 --program generate_row
refused "generate: no cache of nothing" '^--no-cache: is for --generate and --answer, which are not asked for' "$train" "$tmp/ids.yaml" --no-cache

tap_done
