#!/bin/sh
# test_hang.sh - a rank that stops, fails or dies: everybody ends within seconds, the culprit is named.
# Runs alone: silence ends a run.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"
steps=1000000 eval_every=0

begin() { # name layout: four ranks in the background
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s/threads: 1}/threads: 1, hang_timeout: 3}/; s/layout: {/layout: {$2, /" "$tmp/$1.yaml"
    mpi 4 "$train" "$tmp/$1.yaml" >"$tmp/$1.out" 2>&1 </dev/null &
    job=$!
    ok "$1: four ranks run" wait_for_step 5 "$tmp/$1"
}

ends() { # name seconds: the job ends in that time; rc is its exit code
    started=$(date +%s)
    rc=0
    wait $job || rc=$?
    took=$(($(date +%s) - started))
    ok "$1: the job ends within $2 s (took $took)" test "$took" -le "$2"
}

# --- stopped ----------------------------------------------------------------------------------------
# Rank 2 is the first of the second stage: its tensor peer and its pipeline neighbour wait for it.
begin stopped "tensor: 2, pipeline: 2"
culprit=$(process_of 2 "$tmp/stopped.yaml")
kill -STOP "$culprit"
ends stopped 60
kill -KILL "$culprit" 2>/dev/null
is "stopped: exit code" "$rc" 77
like "stopped: the rank is named, with its coordinates" "$(cat "$tmp/stopped.out")" \
    'has waited 3 s; .*rank 2 \(tensor 0, pipeline 1\)'
like "stopped: and what it did last" "$(cat "$tmp/stopped.out")" 'last seen in '
like "stopped: the attempt's record holds the cause" "$(cat "$tmp/stopped/attempt-1.json")" \
    '"exit_code": 77, "cause": ".*rank 2 '

# --- suspended ----------------------------------------------------------------------------------------
# All stand still for longer than the limit, as in a job that is suspended: nobody has hung.
begin suspended "tensor: 2, pipeline: 2"
ranks=
for r in 0 1 2 3; do ranks="$ranks $(process_of $r "$tmp/suspended.yaml")"; done
# shellcheck disable=SC2086  # numbers
kill -STOP $ranks
sleep 8
before=$(metric step "$tmp/suspended/metrics.jsonl" | tail -n 1)
# shellcheck disable=SC2086
kill -CONT $ranks
ok "suspended: it goes on" wait_for_step $((before + 50)) "$tmp/suspended"
touch "$tmp/suspended/save-and-exit"
ends suspended 60
is "suspended: and leaves when it is asked to" "$rc" 75

# --- killed -----------------------------------------------------------------------------------------
begin killed "tensor: 2, pipeline: 2"
kill -KILL "$(process_of 3 "$tmp/killed.yaml")"
ends killed 30
ok "killed: it is a failure ($rc)" test "$rc" -ne 0

# --- stopped before the ranks have met ---------------------------------------------------------------
# Rank 2 stops in its first message: nobody has a record of it yet.
cat >"$tmp/stop.c" <<'C'
#include <mpi.h>
#include <signal.h>
int MPI_Isend(const void *p, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)
{
    raise(SIGSTOP);
    return PMPI_Isend(p, n, t, to, tag, c, r);
}
C
run_file "$tmp/absent.yaml" "$tmp/absent"
sed -i "s/layout: {/layout: {tensor: 2, pipeline: 2, /" "$tmp/absent.yaml"
cat >"$tmp/absent.sh" <<SH
[ "\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}" != 2 ] || export LD_PRELOAD="$tmp/stop.so"
exec "$train" "$tmp/absent.yaml"
SH
if nm -D "$train" | grep -q __asan_init || ! mpicc -shared -fPIC -o "$tmp/stop.so" "$tmp/stop.c" 2>/dev/null; then
    skip "absent: who has not come is named" "no library can be loaded that stops a rank"
else
    mpi 4 sh "$tmp/absent.sh" >"$tmp/absent.out" 2>&1 </dev/null &
    job=$!
    ends absent 25
    is "absent: exit code" "$rc" 77
    like "absent: who has not come is named within 10 s" "$(cat "$tmp/absent.out")" \
        "rank 0 .*has waited 10 s; process 2 on $(hostname) has not answered"
    like "absent: the attempt's record says it" "$(cat "$tmp/absent/attempt-1.json")" \
        '"exit_code": 77, "cause": ".*process 2 on '
fi

# --- one rank cannot begin ------------------------------------------------------------------------
# It does not see the data, and gets none of its host: its sentence is everybody's, before the first step.
run_file "$tmp/blind.yaml" "$tmp/blind"
sed -i "s/layout: {/layout: {tensor: 2, pipeline: 2, /; s|train: $tmp/tok,|train: tok,|" "$tmp/blind.yaml"
mkdir -p "$tmp/elsewhere"
case $train in /*) ;; *) train=$PWD/$train ;; esac
cat >"$tmp/blind.sh" <<SH
cd "$tmp" || exit 1
if [ "\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}" = 1 ]; then
    cd elsewhere || exit 1
    export OPENS_ALONE=1 LD_PRELOAD="$tmp/opens.so"
fi
exec "$train" "$tmp/blind.yaml"
SH
if nm -D "$train" | grep -q __asan_init || ! gcc -D_GNU_SOURCE -shared -fPIC -o "$tmp/opens.so" tests/cli/preload/opens.c -ldl; then
    skip "blind: with the rank's own sentence" "no library can be loaded that keeps a rank alone"
else
    run mpi 4 sh "$tmp/blind.sh"
    ok "blind: it is a failure ($rc)" test "$rc" -ne 0
    like "blind: with the rank's own sentence" "$err" 'rank 1 \([^)]*\): tok.idx: '
fi

# --- in a save, a load, at the end --------------------------------------------------------------------
# Rank 2 meets a disk that does not answer, or is stopped there; its process lives on (tests/cluster/trap.c).
trapped() { # name trap what file command...: rank 2 falls into it; the job is in the background
    name=$1
    cat >"$tmp/$name.sh" <<SH
[ "\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}" != 2 ] || export LD_PRELOAD="$tmp/trap.so" TRAP=$2 WHAT=$3 TRAP_FILE=$4
shift 4
exec "\$@"
SH
    shift 4
    mpi 4 sh "$tmp/$name.sh" 1 2 3 4 "$@" >"$tmp/$name.out" 2>&1 </dev/null &
    job=$!
}
trap_run() { # name: its run file
    steps=8 every=4
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s/threads: 1}/threads: 1, hang_timeout: 3}/; s/layout: {/layout: {tensor: 2, pipeline: 2, /" "$tmp/$1.yaml"
}
named() { # name pattern: the job ended by the limit, and rank 2 is named, and what it was at
    is "$1: exit code" "$rc" 77
    like "$1: rank and phase are named" "$(cat "$tmp/$1.out")" "$2"
    like "$1: the attempt's record has it" "$(cat "$tmp/$1/attempt-1.json")" "\"exit_code\": 77, \"cause\": \".*$2"
}
end_of() { # pid: a process that was stopped
    for stopped in $(pgrep -f "$1"); do
        kill -KILL "$stopped" 2>/dev/null
    done
}
if nm -D "$train" | grep -q __asan_init; then
    skip "a save, a load, the end" "under ASan no library can be loaded before others"
    tap_done
fi
ok "a library that stops a rank is made" gcc -shared -fPIC -o "$tmp/trap.so" tests/cluster/trap.c -ldl
# shellcheck disable=SC2154  # of tests/lib/train.sh
for saving in "" "async: true"; do
    name=stuck-save${saving:+-async}
    trap_run "$name"
    [ -z "$saving" ] || sed -i 's/steps: 8$/steps: 100000/' "$tmp/$name.yaml"
    trapped "$name" write stuck shard-00002 "$train" "$tmp/$name.yaml"
    ends "$name" 40
    named "$name" "rank 2 .*has not moved for 3 s in 'save: shard'"
    ok "$name: no checkpoint was made" test ! -e "$tmp/$name/ckpt/step-00000004"
done
saving=
trap_run stopped-save
trapped stopped-save write stop shard-00002 "$train" "$tmp/stopped-save.yaml"
ends stopped-save 40
end_of "$tmp/stopped-save.yaml"
named stopped-save "'save: shard' .* has waited 3 s; rank 2 "

# Slow is not stuck: more than the limit in all, each block less.
trap_run slow-save
trapped slow-save write slow shard-00002 "$train" "$tmp/slow-save.yaml" --stop-after 4
ends slow-save 100
is "slow-save: a save that moves is waited for" "$rc" 0
ok "slow-save: it has taken longer than the limit ($(metric stall_s "$tmp/slow-save/checkpoints.jsonl" | head -n 1) s)" \
    awk "BEGIN { exit !($(metric stall_s "$tmp/slow-save/checkpoints.jsonl" | head -n 1) > 3.5) }"
run "$BUILD/bin/sennit-convert" --verify "$tmp/slow-save/ckpt"
is "slow-save: the checkpoint is whole" "$rc" 0

for what in stuck stop; do
    trap_run "$what-load"
    cp -r "$tmp/slow-save/ckpt" "$tmp/$what-ckpt"
    mkdir -p "$tmp/$what-load"
    mv "$tmp/$what-ckpt" "$tmp/$what-load/ckpt"
    trapped "$what-load" read "$what" shard-0000 "$train" "$tmp/$what-load.yaml"
    ends "$what-load" 40
    end_of "$tmp/$what-load.yaml"
    case $what in
    stuck) named stuck-load "rank 2 .*has not moved for 3 s in 'load: checkpoint'" ;;
    stop) named stop-load "'load: checkpoint' .* has waited 3 s; rank 2 " ;;
    esac
done

trap_run stop-end
trapped stop-end end stop - "$train" "$tmp/stop-end.yaml" --stop-after 2
ends stop-end 40
end_of "$tmp/stop-end.yaml"
ok "stop-end: what was trained is saved" test -f "$tmp/stop-end/ckpt/step-00000002/COMMIT"
like "stop-end: it is said" "$(cat "$tmp/stop-end.out")" 'rank [013] .*has not ended'

tap_done
