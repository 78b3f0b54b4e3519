#!/bin/sh
# test_status.sh - sennit-run status and why: golden run directories, and a run that is alive, killed
# and ended.
. tests/lib/tap.sh
need pgrep
. tests/lib/train.sh

runner=$BUILD/bin/sennit-run
case $runner in /*) ;; *) runner=$PWD/$runner ;; esac

# --- recorded directories: tests/golden/update.sh writes them anew -------------------------------
for folder in tests/golden/status/*/; do
    name=$(basename "$folder")
    run tests/golden/status/show "$name"
    is "$name: exit code" "$rc" 0
    printf '%s\n' "$out" >"$tmp/shown"
    ok "$name: as expected" cmp -s "$tmp/shown" "${folder}expected"
    cmp -s "$tmp/shown" "${folder}expected" || diff "${folder}expected" "$tmp/shown" | sed 's/^/# /'
done

# --- bad usage -----------------------------------------------------------------------------------
run "$runner" status
is "no directory: exit code" "$rc" 2
like "no directory: what to give" "$err" 'want one directory of a run'
run "$runner" why "$tmp/nowhere"
is "missing directory: exit code" "$rc" 2
like "missing directory: it is named" "$err" 'nowhere: cannot be read'
mkdir "$tmp/empty"
run "$runner" status "$tmp/empty"
is "empty directory: exit code" "$rc" 2
like "empty directory: what would do" "$err" 'nothing in it is of a run; want .*run.output'
run "$runner" status --at yesterday "$tmp/empty"
is "no time: exit code" "$rc" 2
run "$runner" status --jason "$tmp/empty"
like "unknown option" "$err" "unknown option --jason"

# --- any file may be something else --------------------------------------------------------------
mkdir -p "$tmp/odd/journal.jsonl" "$tmp/odd/metrics.jsonl" "$tmp/odd/ranks" "$tmp/odd/attempt-2.json"
mkfifo "$tmp/odd/attempt-1.json" "$tmp/odd/checkpoints.jsonl" "$tmp/odd/run.resolved.yaml.tmp"
printf '{"attempt": 3, "exit_code": 1, "cause": "failed"}' >"$tmp/odd/attempt-3.json"
ln -s nowhere "$tmp/odd/attempt-4.json"
head -c 20000 /dev/urandom >"$tmp/odd/ranks/rank-00000.ring"
run timeout 20 "$runner" status "$tmp/odd"
is "folders, pipes and noise instead of files: exit code" "$rc" 0
like "folders, pipes and noise: they are counted" "$out" 'could not be read'

# --- a real run, without a supervisor and without Slurm's programs on the path ---------------------
train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"
steps=1000000 eval_every=0 every=20
run_file "$tmp/run.yaml" "$tmp/run"
mpi 2 "$train" "$tmp/run.yaml" >"$tmp/train.log" 2>&1 </dev/null &
job=$!
for _ in $(seq 1 6000); do
    [ -e "$tmp/run/ckpt/step-00000020/COMMIT" ] && break
    sleep 0.01
done
mkdir "$tmp/none"
run env PATH="$tmp/none" "$runner" status "$tmp/run"
is "alive: exit code" "$rc" 0
like "alive: it runs" "$out" '^state +running: without a supervisor'
like "alive: of so many steps" "$out" '^step +[0-9]+ of 1000000 .*loss [0-9.]+'
like "alive: a checkpoint" "$out" '^checkpoint +step [0-9]+, 0:0[0-9]:[0-9]+ old'
kill -STOP "$(process_of 1 "$tmp/run.yaml")"
sleep 1
run "$runner" why --at $(($(date +%s) + 100000)) "$tmp/run"
like "stopped, much later: it stands still" "$out" '^state +unknown: nothing has moved for [0-9]+ s'
like "stopped: who it is" "$out" '^ +suspected \(stopped\): rank 1 on '
killed=$(pgrep -f "sennit-train $tmp/run.yaml")
for p in $killed; do kill -KILL "$p"; done
wait $job
ok "killed: all of it is gone" gone_within 20 $killed
run "$runner" status "$tmp/run"
like "killed: nobody says that it runs" "$out" '^state +unknown: none of its 2 processes of this host is left'
run "$runner" why "$tmp/run"
like "killed: why has no end to tell" "$out" 'no end is recorded'

steps=30
run_file "$tmp/short.yaml" "$tmp/short"
run mpi 2 "$train" "$tmp/short.yaml"
is "a whole run: exit code" "$rc" 0
run "$runner" status "$tmp/short"
like "ended: all steps" "$out" '^state +ended: all steps are done'
like "ended: its step" "$out" '^step +30 of 30 \(100.0 %\)'
run "$runner" why --json "$tmp/short"
like "ended: JSON" "$out" '"attempts": \[\{"attempt": 1, .*"exit_code": 0,.*"record": "finished"'
ok "the run file with all its keys is kept, and good" \
    mpi 2 "$train" "$tmp/short/run.resolved.yaml" --stop-after 30

tap_done
