#!/bin/sh
# faults.sh - a node dies, a rank dies or stops, the disk fills, a link is cut: resumed without a person from
# the newest checkpoint; losses are bit-equal, no more is done again than the steps since then.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 5
slow_links 10mbit
make_tokens "$tmp/tok"
batch=8 eval_every=0 layout="data: 2, tensor: 4, pipeline: 2" steps=160 every=20
job_file "$tmp/ref.yaml" "$tmp/ref"
reference 16 "$tmp/ref.yaml"
slurm="spares: 1"

# The second launch begins at the newest checkpoint that the first had.
resumed() { # name
    must "$1: it is launched again" wait_until 150 launched 2
    end=$(events "$o" end | head -n 1)
    from=$(member from_step "$(events "$o" launch | sed -n 2p)")
    ok "$1: from a checkpoint ($from of $(member step "$end"))" test "${from:-0}" -gt 0
    ok "$1: no more than the steps since then is done again" test $(($(member step "$end") - ${from:-0})) -le $every
}

launched() { # times
    [ "$(events "$o" launch | wc -l)" -ge "$1" ]
}

# --- a node dies: the spare one takes its place, without a requeue ---------------------------------
exec_job node 5 4 --no-kill
must "node: it trains" wait_step "$o" 30 120
victim=$(events "$o" launch | sed 's/.*"nodes": *\["[^"]*", *"\([^"]*\)".*/\1/')
fault end-node "$victim"
resumed node
like "node: $victim is in the ledger" "$(events "$o" bad-node)" "\"host\": *\"$victim\""
case $(events "$o" launch | sed -n 2p | sed 's/.*"nodes": *\[\([^]]*\)\].*/\1/') in
*"\"$victim\""*) ok "node: it goes on without $victim" false ;;
*) ok "node: it goes on without $victim" true ;;
esac
job_done node 240
same_losses "node: bit for bit" "$o" "$one"
like "node: without a requeue" "$(outside scontrol show job "$job")" 'Restarts=0 '
fault start-node "$victim"

# --- a rank dies, its node is well ----------------------------------------------------------------
slurm=
exec_job rank 4 4
must "rank: it trains" wait_step "$o" 30 120
fault kill-rank "$job" 5
resumed rank
job_done rank 240
same_losses "rank: bit for bit" "$o" "$one"

# --- a rank stops: named within its timeout -------------------------------------------------------
hang=15
exec_job hang 4 4
must "hang: it trains" wait_step "$o" 30 120
at=$(date +%s)
fault stop-rank "$job" 6
must "hang: the attempt ends" wait_until 120 has_event "$o" end
took=$(($(date +%s) - at))
ok "hang: within its timeout and a little ($took s of $hang)" test $took -le $((hang * 4))
named=$(events "$o" end | head -n 1)
# The task's number is a process; the map says which rank that is.
rank=$(tr -d ' ' <"$o/map.json" | tr '{' '\n' | sed -n 's/.*"rank":\([0-9]*\),"process":6,.*/\1/p')
is "hang: the culprit is rank ${rank:-?}" "$(member rank "$named")" "${rank:-none}"
resumed hang
job_done hang 240
same_losses "hang: bit for bit" "$o" "$one"
hang=

# --- the disk is full ---------------------------------------------------------------------------------
exec_job disk 4 4
must "disk: queued or running" wait_state "$job" 'PENDING|RUNNING|CONFIGURING' 60
outside scancel "$job"
sed -i "s|dir: ckpt|dir: $SENNIT_CLUSTER/small/ckpt|" "$tmp/disk.yaml"
rm -rf "$o" "$SENNIT_CLUSTER/small/ckpt"
job=$(submit "$tmp/disk.sh" -J disk -N 4 --ntasks-per-node=4 --exclusive --requeue)
must "disk: it trains" wait_step "$o" 30 120
fault fill
must "disk: a save fails" wait_until 120 has_event "$o" end
like "disk: it is said why" "$(events "$o" end | head -n 1)" 'space|disk'
fault unfill
job_done disk 300
same_losses "disk: bit for bit" "$o" "$one"
rm -rf "$SENNIT_CLUSTER/small/ckpt"

# --- a link is cut ------------------------------------------------------------------------------------
hang=15
exec_job link 4 4
must "link: it trains" wait_step "$o" 30 120
cut=$(events "$o" launch | sed 's/.*"nodes": *\["[^"]*", *"[^"]*", *"\([^"]*\)".*/\1/')
fault cut "$cut"
must "link: the attempt ends" wait_until 120 has_event "$o" end
fault mend "$cut"
must "link: it is launched again" wait_until 150 launched 2
fast_links # the layout for fewer nodes sends more
job_done link 300
near_losses "link: losses are those of a run in one go, partly in another layout" "$o" "$one" 1e-5
tap_done
