#!/bin/sh
# test_lock.sh - one at a time works on a run directory: trainers without a supervisor too.
# Runs alone: it waits for steps of runs in the background.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train run=$BUILD/bin/sennit-run
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=vader,self OMPI_MCA_rmaps_base_oversubscribe=1
make_tokens "$tmp/tok"
steps=100000 eval_every=0 layers=1 hidden=32 ffn=48 seq=16 batch=4
host=$(hostname)

content() { # folder: what a second process could have touched
    find "$1" -name '*.ring' -prune -o -name metrics.jsonl -prune -o -name journal.jsonl -prune -o -name launcher.err -prune -o -type f -printf '%P %s %T@\n' | sort
}

refused() { # what folder pattern command...: exit 2, one sentence, nothing touched
    what=$1 folder=$2 pattern=$3
    shift 3
    before=$(content "$folder")
    run "$@"
    is "$what: exit code" "$rc" 2
    like "$what: who has it" "$err" "$pattern"
    is "$what: nothing is touched" "$(content "$folder")" "$before"
}

# --- a trainer by itself ----------------------------------------------------------------------------
run_file "$tmp/one.yaml" "$tmp/one"
"$train" "$tmp/one.yaml" >/dev/null 2>"$tmp/one.err" </dev/null &
pid=$!
ok "a trainer runs" wait_for_step 5 "$tmp/one"
by="$tmp/one/supervisor.lock: another sennit-train works on this run: process $pid on $host; let it end, or end it"
refused "a second one" "$tmp/one" "$by" "$train" "$tmp/one.yaml"
refused "one of two ranks" "$tmp/one" "^rank 0 .*$by" mpi 2 "$train" "$tmp/one.yaml"
refused "a supervisor" "$tmp/one" "$by" "$run" exec "$tmp/one.yaml" --ranks 1
kill -USR2 $pid
rc=0
wait $pid || rc=$?
is "the first goes on until it is asked to leave" "$rc" 75
is "each of its steps is there once" "$(metric step "$tmp/one/metrics.jsonl" | sort -n | uniq -d)" ""
run "$train" "$tmp/one.yaml" --generate 'The ' --tokens 3
is "generating needs no lock" "$rc" 0
is "and leaves no record of an attempt" "$(find "$tmp/one" -maxdepth 1 -name 'attempt-*.json' | wc -l | tr -d ' ')" 1

# Whoever is killed leaves a record, and no lock: the next start takes over at once.
"$train" "$tmp/one.yaml" >/dev/null 2>&1 </dev/null &
pid=$!
last=$(metric step "$tmp/one/metrics.jsonl" | tail -n 1)
ok "it runs again" wait_for_step $((last + 5)) "$tmp/one"
kill -KILL $pid
wait $pid 2>/dev/null
like "the killed one's record is there" "$(cat "$tmp/one/supervisor.lock")" "\"pid\": $pid,"
began=$(date +%s)
run "$train" "$tmp/one.yaml" --stop-after $((last + 1))
is "after a kill the next takes over" "$rc" 0
ok "at once ($(($(date +%s) - began)) s)" test $(($(date +%s) - began)) -lt 20
is "and leaves nobody's record" "$(cat "$tmp/one/supervisor.lock")" ""

# --- a supervisor and its trainer -------------------------------------------------------------------
run_file "$tmp/two.yaml" "$tmp/two"
"$run" exec "$tmp/two.yaml" --ranks 2 >/dev/null 2>"$tmp/two.err" </dev/null &
pid=$!
ok "a supervisor's trainer runs under its lock" wait_for_step 5 "$tmp/two"
refused "a trainer beside it" "$tmp/two" \
    "$tmp/two/supervisor.lock: another sennit-run exec works on this run: process $pid on $host; let it end" \
    "$train" "$tmp/two.yaml"
kill -TERM $pid
rc=0
wait $pid || rc=$?
ok "the supervisor ends in order ($rc)" test "$rc" -eq 93 -o "$rc" -eq 75

tap_done
