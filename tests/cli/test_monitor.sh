#!/bin/sh
# test_monitor.sh - the plan as the monitor: a rank that computes slowly is named in the log, metrics.jsonl, status and why.
# Runs alone: what else runs makes ranks slow, too.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train runner=$BUILD/bin/sennit-run
make_tokens "$tmp/tok"

# --- slow from the start: of four ranks that sleep their planned time one has a machine slower by a third ---
eval_every=0 steps=24 batch=8
run_file "$tmp/paced.yaml" "$tmp/paced"
sed -i 's/threads: 1}/threads: 1, monitor: true}/; s/layout: {/layout: {data: 4, /' "$tmp/paced.yaml"
printf 'machine: {file: %s}\n' "$tmp/machine.yaml" >>"$tmp/paced.yaml"
printf 'flops: 1.0e+9\nmemory_bandwidth: 1.0e15\noverhead: 0.0\n' >"$tmp/machine.yaml"
printf 'flops: 7.5e+8\nmemory_bandwidth: 1.0e15\noverhead: 0.0\n' >"$tmp/slow.yaml"
cat >"$tmp/rank.sh" <<SH
machine=$tmp/machine.yaml
[ "\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}" != 2 ] || machine=$tmp/slow.yaml
exec "$train" "$tmp/paced.yaml" --pace "\$machine"
SH
run mpi 4 sh "$tmp/rank.sh"
is "paced: exit code" "$rc" 0
like "paced: the slow rank is named" "$err" 'step [0-9]+: rank 2 \(.*\) computes 1\.[1-9][0-9]* times as long as the plan says beside its peers since step [0-9]+'
like "paced: also in the lines of its steps" "$(tail -n 1 "$tmp/paced/pace.jsonl")" \
    '"departs": \[{"kind": "core", "rank": 2, "host": "[^"]*", "ratio": 1\.[0-9]+, "since": [0-9]+, "says": "rank 2 '

# --- slow from some step on: rank 1 is stopped for half of the time -------------------------------------
steps=1000000 batch=8 hidden=192 ffn=512
run_file "$tmp/run.yaml" "$tmp/run"
sed -i 's/threads: 1}/threads: 1, monitor: true}/; s/layout: {/layout: {data: 2, /' "$tmp/run.yaml"
mpi 2 "$train" "$tmp/run.yaml" >"$tmp/run.out" 2>&1 </dev/null &
job=$!
ok "two ranks run" wait_for_step 30 "$tmp/run"
slow=$(process_of 1 "$tmp/run.yaml")
(while kill -STOP "$slow" && sleep 0.02 && kill -CONT "$slow" && sleep 0.02; do :; done) 2>/dev/null &
brake=$!
named=1
for _ in $(seq 1 1200); do
    if grep -qs '"departs": \[{"kind": "core", "rank": 1,' "$tmp/run/metrics.jsonl"; then
        named=0
        break
    fi
    sleep 0.05
done
ok "metrics.jsonl names the rank that is held up" test $named = 0
run "$runner" status "$tmp/run"
like "status names it" "$out" 'departs  *rank 1 \(.*\) computes [0-9.]+ times as long as the plan says beside its peers since step [0-9]+'
run "$runner" status "$tmp/run" --json
like "status in JSON names it" "$out" '"departs": \["rank 1 '
run "$runner" why "$tmp/run"
like "why names it" "$out" 'departed from the plan: rank [01] '
like "the log names it" "$(cat "$tmp/run.out")" 'step [0-9]+: rank 1 \('
ok "and what why reads" grep -qs "\"rank\": 1,.*\"kind\": \"departs\"" "$tmp/run/ranks/rank-00000.health.jsonl"
kill "$brake" 2>/dev/null
wait "$brake" 2>/dev/null
kill -CONT "$slow" 2>/dev/null
kill -TERM "$slow"
rc=0
wait "$job" || rc=$?
ok "the run leaves ($rc)" test "$rc" = 76

# --- not asked for --------------------------------------------------------------------------------------
steps=8
run_file "$tmp/off.yaml" "$tmp/off"
sed -i 's/threads: 1}/threads: 1, monitor: false}/; s/layout: {/layout: {data: 2, /' "$tmp/off.yaml"
run mpi 2 "$train" "$tmp/off.yaml"
is "monitor: false: exit code" "$rc" 0
cut -d, -f2-4 "$tmp/off/metrics.jsonl" >"$tmp/off.losses"
sed -i 's/, monitor: false/, monitor: true/; s|output: [^,]*|output: '"$tmp/on|" "$tmp/off.yaml"
run mpi 2 "$train" "$tmp/off.yaml"
cut -d, -f2-4 "$tmp/on/metrics.jsonl" >"$tmp/on.losses"
ok "the same losses with and without" cmp -s "$tmp/on.losses" "$tmp/off.losses"
tap_done
