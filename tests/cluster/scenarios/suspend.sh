#!/bin/sh
# suspend.sh - a job that stands still for longer than run.hang_timeout, because Slurm suspended it, has not hung; a node
# that is drained under a job takes nothing from it; who requeues and holds a job has it saved first.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 2
slow_links 20mbit
make_tokens "$tmp/tok"
batch=8 eval_every=0 layout="data: 2, tensor: 4" steps=160
job_file "$tmp/ref.yaml" "$tmp/ref"
reference 8 "$tmp/ref.yaml"

# --- suspended, then its first node drained --------------------------------------------------------
hang=5
exec_job suspend 2 4
must "suspend: it trains" wait_step "$o" 20 90
outside scontrol suspend "$job"
must "suspend: the job is suspended" wait_state "$job" SUSPENDED 30
stood=$(last_step "$o")
sleep 20
is "suspend: nothing moves" "$(last_step "$o")" "$stood"
outside scontrol resume "$job"
node=$(outside squeue -h -j "$job" -o %B)
outside scontrol update NodeName="$node" State=DRAIN Reason=test
job_done suspend 240
outside scontrol update NodeName="$node" State=RESUME
same_losses "suspend: bit for bit" "$o" "$one"
is "suspend: in one attempt" "$(events "$o" launch | wc -l)" 1
is "suspend: nobody is suspected" "$(events "$o" suspect | wc -l)" 0
hang=60

# --- requeued and held --------------------------------------------------------------------------------
exec_job hold 2 4
must "hold: it trains" wait_step "$o" 20 90
outside scontrol requeuehold "$job"
must "hold: it is in the queue again" wait_state "$job" PENDING 60
first=$(events "$o" end | head -n 1)
is "hold: nothing is lost" "$(member saved_step "$first")" "$(member step "$first")"
outside scontrol release "$job"
job_done hold 240
same_losses "hold: bit for bit" "$o" "$one"
tap_done
