#!/bin/sh
# cancel.sh - scancel ends a job, at whatever moment it comes and whatever the partition does with jobs that it
# preempts: it saves where it can, leaves with 93, and nobody goes on.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 2
make_tokens "$tmp/tok"
batch=4 eval_every=0 layout="data: 2, tensor: 2" steps=100000 hang=20

# Whatever comes after the cancellation; its whole record is read when the job has been gone for a while.
cancelled() { # name
    outside scancel "$job"
    ok "$1: the job ends" wait_until 60 in_state "$job" CANCELLED
    sleep 8 # a requeued job would begin after 6
    ok "$1: and stays away" in_state "$job" CANCELLED
    like "$1: nobody goes on" "$(events "$o" leave | tail -n 1)" '"exit_code": 93'
    like "$1: because a person wanted so" "$(events "$o" decision | tail -n 1)" '"action": "stop", "why": "(a person ended it|the job was cancelled)'
    is "$1: nothing was requeued" "$(events "$o" begin | wc -l)" "${2:-1}"
    like "$1: status" "$("$BUILD/bin/sennit-run" status "$o" 2>&1)" 'state +ended: (a person ended it|the job was cancelled)'
}

steps_of() { # name step
    must "$1: it trains" wait_step "$o" "$2" 60
}

for partition in low high scavenge; do
    every=1000
    exec_job "train-$partition" 2 2 -p $partition
    steps_of "train-$partition" 10
    cancelled "train-$partition"
    ok "train-$partition: and it was saved" test "$(newest_checkpoint "$o")" = "$(last_step "$o")"
    every=1
    exec_job "save-$partition" 2 2 -p $partition
    steps_of "save-$partition" 10
    cancelled "save-$partition"
    every=1000 preflight=true
    exec_job "preflight-$partition" 2 2 -p $partition
    preflight=
    must "preflight-$partition: it checks its nodes" wait_until 60 test -s "$o/attempts/0/launcher.err" -o -d "$o/attempts/0"
    cancelled "preflight-$partition"
    is "preflight-$partition: nothing was launched" "$(events "$o" launch | wc -l)" 0
done

# --- a job of a minute, so that its end is near, too -------------------------------------------------------
for k in 1 2 3; do
    every=5
    exec_job "near-$k" 2 2 -p limited -t 1
    steps_of "near-$k" 5
    sleep $((k * 5))
    cancelled "near-$k"
done

# --- between two attempts: the disk is full, and waited for ------------------------------------------------
every=20
exec_job rest 2 2 -p low
must "rest: queued or running" wait_state "$job" 'PENDING|RUNNING|CONFIGURING' 60
outside scancel "$job"
wait_until 30 in_state "$job" CANCELLED
sed -i "s|dir: ckpt|dir: $SENNIT_CLUSTER/small/ckpt|" "$tmp/rest.yaml"
rm -rf "$o" "$SENNIT_CLUSTER/small/ckpt"
fault fill
job=$(submit "$tmp/rest.sh" -J rest -N 2 --ntasks-per-node=2 --exclusive --requeue)
must "rest: an attempt ends" wait_until 120 has_event "$o" decision
like "rest: and is not repeated at once" "$(events "$o" decision)" '"action": "retry", .*"pause": [1-9]'
cancelled rest
fault unfill

# --- in the grace time of a preemption ---------------------------------------------------------------------
exec_job grace "$(wc -l <"$SENNIT_CLUSTER/nodes.list")" 1 -p low
sed -i 's/data: 2, tensor: 2/tensor: 2/' "$tmp/grace.yaml"
steps_of grace 5
printf '#!/bin/sh\nsleep 1\n' >"$tmp/high.sh"
intruder=$(submit "$tmp/high.sh" -J high -p high -N "$(wc -l <"$SENNIT_CLUSTER/nodes.list")" --exclusive)
must "grace: its preemption has begun" wait_until 60 sh -c "tests/cluster/in outside scontrol show job $job | grep -q 'PreemptTime=2'"
cancelled grace
tap_done
