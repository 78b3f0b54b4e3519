#!/bin/sh
# preempt.sh - a 4D-parallel job is preempted twice: saved within the grace time, requeued by Slurm,
# resumed; losses are bit-equal and nothing is lost beyond the step in flight.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 4
slow_links 10mbit
make_tokens "$tmp/tok"
steps=160 batch=8 eval_every=0 layout="data: 2, tensor: 4, pipeline: 2"
job_file "$tmp/twice.yaml" "$tmp/twice"
reference 16 "$tmp/twice.yaml"
all=$(wc -l <"$SENNIT_CLUSTER/nodes.list")

exec_job twice 4 4
for round in 1 2; do
    before=$(newest_checkpoint "$o")
    must "it trains beyond step $((${before:-0} + 20))" wait_step "$o" $((${before:-0} + 20)) 90
    preempt "$all" 2
    # Ranks that leave with 0 inside the grace time, and a batch script that follows them, would be a job that
    # is COMPLETED: Slurm 22.05 would not requeue it.
    ok "round $round: the job has not ended" in_state "$job" 'PENDING|RUNNING|COMPLETING|CONFIGURING|REQUEUED'
    saved=$(newest_checkpoint "$o")
    is "round $round: the last step done is a checkpoint" "${saved:-none}" "$(last_step "$o")"
    ok "round $round: it was preempted in the middle, at step ${saved:-0}" test "${saved:-0}" -lt $steps
done
job_done twice 240
like "Slurm has restarted the job twice" "$(outside scontrol show job "$job")" 'Restarts=2 '
same_losses "losses are those of a run in one go, bit for bit" "$o" "$one"
is "no step was done twice" "$(events "$o" launch | sed -n 's/.*"from_step": *\([0-9]*\).*/\1/p' | tail -n 1)" "$saved"
is "the journal tells of two preemptions" "$(events "$o" end | grep -c preempted)" 2
is "both times it waited for the scheduler's requeue" "$(events "$o" decision | grep -c '"action": *"wait"')" 2
tap_done
