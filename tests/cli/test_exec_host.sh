#!/bin/sh
# test_exec_host.sh - sennit-run exec on this host, under a real mpirun: it trains, and what happens
# to ranks, to itself and by signals ends as it should; losses stay those of a run left alone. More
# of that, without ranks and without waiting, is in tests/unit/slurm/test_run_host.c.
# Runs alone: silence ends a run.
. tests/lib/tap.sh
. tests/lib/train.sh

unset SLURM_JOB_ID SLURM_JOBID LSB_JOBID
runner=$BUILD/bin/sennit-run
make_tokens "$tmp/tok"
steps=100000 eval_every=0 hidden=32 ffn=64 seq=32 batch=4 every=10

prepare() { # name: a run of four ranks
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i 's/threads: 1}/threads: 1, hang_timeout: 4}/; s/layout: {/layout: {tensor: 2, pipeline: 2, /' "$tmp/$1.yaml"
}

begin() { # name option...: in the background, until it has made 15 steps
    name=$1
    shift
    prepare "$name"
    "$runner" exec "$tmp/$name.yaml" "$@" >"$tmp/$name.out" 2>"$tmp/$name.err" </dev/null &
    job=$!
    ok "$name: it trains" wait_for_step 15 "$tmp/$name"
}

ends() { # name exit-code
    rc=0
    wait $job || rc=$?
    is "$1: exit code" "$rc" "$2"
    [ "$rc" = "$2" ] || tap_lines log "$(tail -n 20 "$tmp/$1.err")"
}

event() { # name event: its lines
    grep "\"event\": \"$2\"" "$tmp/$1/journal.jsonl"
}

losses() { # name
    sed -n 's/^{"step": \([0-9]*\), "loss": \([^,]*\), "grad_norm": \([^,]*\), .*/\1 \2 \3/p' "$tmp/$1/metrics.jsonl"
}

# --- left alone -------------------------------------------------------------------------------------
prepare whole
run "$runner" exec "$tmp/whole.yaml" --stop-after 60
is "whole: done" "$rc" 0
is "whole: the events, in order" "$(sed 's/.*"event": "\([a-z-]*\)".*/\1/' "$tmp/whole/journal.jsonl" | tr '\n' ' ')" \
    "begin launch running end decision leave "
like "whole: the attempt's number is the record's" "$(cat "$tmp/whole/attempt-1.json")" '"exit_code": 0, "cause": "finished"'
ok "whole: its environment is kept" grep -q '^PATH=' "$tmp/whole/attempts/1/environment"
is "whole: for its owner alone" "$(stat -c %a "$tmp/whole/attempts/1/environment")" 600
ok "whole: so are the launcher's words" test -s "$tmp/whole/attempts/1/launcher.err"
losses whole >"$tmp/want"
is "whole: 60 steps" "$(wc -l <"$tmp/want")" 60

# --- a rank is killed -------------------------------------------------------------------------------
begin killed --stop-after 60
kill -KILL "$(process_of 2 "$tmp/killed.yaml")"
ends killed 0
case $(mpirun --version 2>&1) in
*HYDRA*) lost='"rank": -1, "host": "[^"]+", .*\(signal 9\)' ;; # it tells no rank from those that it ends itself
*) lost='"rank": 2, ' ;;
esac
like "killed: the rank is named" "$(event killed end | head -n 1)" "\"cause\": \"a rank was lost\", .*$lost"
like "killed: another attempt begins" "$(event killed decision | head -n 1)" '"action": "retry"'
like "killed: from a checkpoint" "$(event killed launch | tail -n 1)" '"attempt": 2, .*"from_step": [1-9]0, '
losses killed >"$tmp/got"
ok "killed: losses are those of the run left alone" cmp -s "$tmp/got" "$tmp/want"

# --- a rank stands still ----------------------------------------------------------------------------
# While a checkpoint is written ranks may wait for long, so they are stopped within a step.
stop_in_step() { # output process...
    in=$1/metrics.jsonl
    shift
    for _ in $(seq 200); do
        kill -STOP "$@"
        sleep 0.3
        case $(tail -n 1 "$in" | sed 's/^{"step": \([0-9]*\),.*/\1/') in
        *0) ;;
        *) return 0 ;;
        esac
        kill -CONT "$@"
        sleep 0.02
    done
    return 1
}
begin stopped --stop-after 600
culprit=$(process_of 3 "$tmp/stopped.yaml")
ok "stopped: in a step" stop_in_step "$tmp/stopped" "$culprit"
ends stopped 0
# What has ended may stand in the table of processes until somebody asks for its end.
gone() {
    for _ in $(seq 100); do
        grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$1/status" || return 0
        sleep 0.1
    done
    return 1
}
ok "stopped: nothing of it is left" gone "$culprit"
like "stopped: the rank, where others wait for it, and how long" "$(event stopped suspect)" \
    '"kind": "hang", "rank": 3, "host": "[^"]+", "axis": "(tensor|pipeline|world|data)[^"]*", "operation": "[^"]+", "behind": -?[0-9]+, "seconds": [4-9]'
like "stopped: the end says so too" "$(event stopped end | head -n 1)" '"exit_code": 77, "cause": "a rank hung", .*"rank": 3, .*rank 3 \(tensor 1, pipeline 1\)'
losses stopped | head -n 60 >"$tmp/got"
ok "stopped: losses are those of the run left alone" cmp -s "$tmp/got" "$tmp/want"

# --- all stand still: no rank can tell --------------------------------------------------------------------
begin frozen --stop-after 600
# shellcheck disable=SC2046
ok "frozen: in a step" stop_in_step "$tmp/frozen" $(for r in 0 1 2 3; do process_of $r "$tmp/frozen.yaml"; done)
ends frozen 0
like "frozen: the supervisor ends the step" "$(event frozen suspect)" '"kind": "hang", "rank": -?[0-9]+, .*"seconds": ([89]|1[0-9])'
like "frozen: and says why" "$(event frozen end | head -n 1)" '"cause": "a rank hung"'
losses frozen | head -n 60 >"$tmp/got"
ok "frozen: losses are those of the run left alone" cmp -s "$tmp/got" "$tmp/want"

# --- the supervisor is asked --------------------------------------------------------------------------
begin term
kill -TERM $job
ends term 75
like "term: it is written down" "$(event term notice)" '"what": "SIGTERM"'
like "term: the trainer saved" "$(cat "$tmp/term/attempt-1.json")" '"exit_code": 75, '
like "term: why" "$(event term end)" '"cause": "it was preempted"'
last=$(losses term | tail -n 1 | cut -d ' ' -f 1)
ok "term: at its last step" test -f "$tmp/term/ckpt/step-$(printf %08d "$last")/COMMIT"
like "term: and is left" "$(event term leave)" '"exit_code": 75'
run "$runner" exec "$tmp/term.yaml" --stop-after 60
is "term: started again it goes on" "$rc" 0
losses term >"$tmp/got"
ok "term: losses are those of the run left alone" cmp -s "$tmp/got" "$tmp/want"

# A shell starts background jobs with SIGINT ignored; a monitor shell does not.
prepare int
cat >"$tmp/int.sh" <<SH
set -m
"$runner" exec "$tmp/int.yaml" >/dev/null 2>"$tmp/int.err" </dev/null &
echo \$! >"$tmp/pid"
wait \$!
SH
sh "$tmp/int.sh" 2>/dev/null &
job=$!
ok "int: it trains" wait_for_step 15 "$tmp/int"
kill -INT "$(cat "$tmp/pid")"
ends int 93
like "int: Ctrl-C saves" "$(cat "$tmp/int/attempt-1.json")" '"exit_code": 75, '
like "int: and nobody goes on" "$(event int decision)" '"why": "a person ended it; nobody goes on unless asked to"'

# --- the supervisor is killed: the trainer saves all the same -------------------------------------------
begin orphan
kill -KILL $job
wait $job 2>/dev/null
for _ in $(seq 1 600); do
    grep -q '"exit_code": 75' "$tmp/orphan/attempt-1.json" && break
    sleep 0.1
done
like "orphan: the trainer saves and leaves" "$(cat "$tmp/orphan/attempt-1.json")" '"exit_code": 75, '

# --- what does not go ---------------------------------------------------------------------------------
refused() { # what pattern command...
    what=$1 pattern=$2
    shift 2
    run "$@"
    is "$what: exit code" "$rc" 2
    like "$what: the sentence" "$err" "$pattern"
}
refused "no run file" 'want one run file, got 0' "$runner" exec
refused "unknown option" 'unknown option --frehs' "$runner" exec --frehs "$tmp/whole.yaml"
refused "missing run file" 'nowhere.yaml: .*No such file' "$runner" exec "$tmp/nowhere.yaml"
refused "a launcher that is none" "launcher 'prun' is not known; want srun" "$runner" exec "$tmp/whole.yaml" --launcher prun
refused "ranks that the layout has not" 'is 4 ranks|start 4|multiple of' "$runner" exec "$tmp/whole.yaml" --ranks 3
prepare path
refused "no launcher" '^mpirun: is not on PATH, so nothing can be started; load the module of MPI, or name another launcher' \
    env PATH=/nonexistent "$(realpath "$runner")" exec "$tmp/path.yaml" --ranks 2
ok "no launcher: no attempt is begun" test ! -e "$tmp/path/attempts"
prepare bad
sed -i "s|train: $tmp/tok,|train: $tmp/none,|" "$tmp/bad.yaml"
run "$runner" exec "$tmp/bad.yaml"
is "bad: what the trainer refuses is not tried again" "$rc" 93
is "bad: once" "$(event bad launch | wc -l)" 1
like "bad: the cause" "$(event bad end)" '"exit_code": 2, "cause": "usage or input is wrong"'
tap_done
