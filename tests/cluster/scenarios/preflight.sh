#!/bin/sh
# preflight.sh - a job of five nodes, one of them behind a slow link: the preflight finds which, and the run
# trains on the four others; of a job in which a rank stands still the rank's node is named.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 5
make_tokens "$tmp/tok"
batch=8 eval_every=0 steps=40 every=20

hosts_of() { # true|false run directory: the hosts with that verdict
    sed 's/.*"hosts": \[\([^]]*\)\].*/\1/' "$2/preflight.json" | tr '}' '\n' |
        sed -n "s/.*\"host\": \"\([^\"]*\)\", \"pass\": $1,.*/\1/p" | sort | xargs
}

# --- a slow link, a spare node --------------------------------------------------------------------
layout="data: 4" slurm="spares: 1, ranks_per_node: 1"
o=$tmp/slow
job_file "$tmp/slow.yaml" "$o"
sed -i 's/preflight: false/preflight: true/' "$tmp/slow.yaml"
batch_file "$tmp/slow.sh" "$tmp/slow.yaml"
fault slow n2 20mbit
job=$(submit "$tmp/slow.sh" -J slow -w 'n[0-4]' -N 5 --ntasks-per-node=1 --cpus-per-task=8 --exclusive --requeue)
must "slow link: a preflight ends" wait_until 200 has_event "$o" preflight
is "slow link: its exit code" "$(member exit_code "$(events "$o" preflight)")" 77
is "slow link: the node behind it fails, alone" "$(hosts_of false "$o")" n2
is "slow link: its partners pass" "$(hosts_of true "$o")" 'n0 n1 n3 n4'
like "slow link: why" "$(cat "$o/preflight.json")" '"n2", "pass": false, "why": "its node exchanges messages at'
job_done slow 240
like "slow link: the run has nodes that are well" "$(events "$o" launch | head -n 1)" \
    '"nodes": *\["n0", "n1", "n3", "n4"\]'
run outside "$PWD/$BUILD/bin/sennit-run" status "$o"
like "status: the preflight" "$out" '^preflight +a node failed, [0-9.]+ s'
like "status: the node is avoided" "$out" '^avoided +n2 until .*: its node exchanges messages'
fault fast n2

# --- a rank that stands still ------------------------------------------------------------------------
o=$tmp/still
job_file "$tmp/still.yaml" "$o"
outside srun -J still -w 'n[0-3]' -N 4 --ntasks-per-node=1 --exclusive -K1 --mpi=pmix \
    "$PWD/$BUILD/bin/sennit-train" "$tmp/still.yaml" --preflight >"$tmp/still.out" 2>&1 &
step=$!
begun() {
    for rank in 0 1 2 3; do [ -s "$o/ranks/rank-0000$rank.ring" ] || return 1; done
}
must "still: the ranks have begun" wait_until 60 begun
sleep 1
job=$(outside squeue -h -n still -o %i)
fault stop-rank "$job" 3
rc=0
wait $step || rc=$?
ok "still: it is a failure ($rc)" test "$rc" -ne 0
is "still: the node of the rank fails, alone" "$(hosts_of false "$o")" n3
like "still: why" "$(cat "$tmp/still.out")" 'rank 3 on n3 does not answer'
job=
tap_done
