#!/bin/sh
# test_cluster.sh - on a real Slurm: submitted, preempted, requeued, resumed, and no bit is different.
# The long rest is `make check-cluster`.
# Runs alone: this host is all nodes of a Slurm.
# shellcheck disable=SC2034,SC2154
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 2
slow_links 20mbit
make_tokens "$tmp/tok"
steps=100 eval_every=0 every=0 layout="data: 2, tensor: 2"
job_file "$tmp/job.yaml" "$tmp/job"
reference 4 "$tmp/job.yaml"

exec_job job 2 2
must "it trains on 2 nodes x 2 ranks" wait_step "$o" 20 90
preempt 2 2
saved=$(last_step "$o")
ok "what was trained until then is a checkpoint (step $saved)" \
    test -f "$o/ckpt/step-$(printf %08d "$saved")/COMMIT"
ok "and it is not the whole" test "$saved" -lt "$steps"
job_done job 180
like "Slurm has restarted it once" "$(outside scontrol show job "$job")" 'Restarts=1 '
same_losses "its losses are those of a run in one go, bit for bit" "$o" "$one"
is "no step was done twice" \
    "$(events "$o" launch | sed -n 's/.*"from_step": *\([0-9]*\).*/\1/p' | tail -n 1)" "$saved"

tests/cluster/down
ok "down leaves nothing behind" test ! -e "$SENNIT_CLUSTER"
tap_done
