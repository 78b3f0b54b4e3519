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
[ "\$OMPI_COMM_WORLD_RANK" != 2 ] || export LD_PRELOAD="$tmp/stop.so"
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
# It does not see the data: its sentence is everybody's, before the first step.
run_file "$tmp/blind.yaml" "$tmp/blind"
sed -i "s/layout: {/layout: {tensor: 2, pipeline: 2, /; s|train: $tmp/tok,|train: tok,|" "$tmp/blind.yaml"
mkdir -p "$tmp/elsewhere"
case $train in /*) ;; *) train=$PWD/$train ;; esac
cat >"$tmp/blind.sh" <<SH
cd "$tmp" || exit 1
[ "\$OMPI_COMM_WORLD_RANK" != 1 ] || cd elsewhere || exit 1
exec "$train" "$tmp/blind.yaml"
SH
run mpi 4 sh "$tmp/blind.sh"
ok "blind: it is a failure ($rc)" test "$rc" -ne 0
like "blind: with the rank's own sentence" "$err" 'rank 1 \([^)]*\): tok.idx: '

tap_done
