#!/bin/sh
# test_cluster.sh - on a real Slurm: submitted, preempted, requeued, resumed, and no bit is different.
# The long rest is `make check-cluster`.
# shellcheck disable=SC2034,SC2154
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 2
make_tokens "$tmp/tok"
steps=400 eval_every=0 every=0 layout="data: 2, tensor: 2"
job_file "$tmp/job.yaml" "$tmp/job"
reference 4 "$tmp/job.yaml"

cat >"$tmp/job.sh" <<SH
#!/bin/sh
export SLURM_PMIX_FENCE=ring # Slurm 22.05: the others let ranks through before all are there
srun -K1 --wait=60 --unbuffered --mpi=pmix "$PWD/$BUILD/bin/sennit-train" "$tmp/job.yaml"
rc=\$?
echo "restart \${SLURM_RESTART_COUNT:-0}: srun says \$rc"
[ \$rc = 76 ] || exit \$rc
sleep 1000 # leaving within the grace time would end the job: Slurm itself requeues it
SH
job=$(submit "$tmp/job.sh" -N 2 --ntasks-per-node=2 --exclusive --requeue)
like "a job is submitted" "$job" '^[0-9]+$'
must "it trains on 2 nodes x 2 ranks" wait_step "$tmp/job" 20 60
intruder=$(printf '#!/bin/sh\nsleep 2\n' >"$tmp/high.sh" && submit "$tmp/high.sh" -p high -N 2 --exclusive)
must "a higher partition takes its nodes" wait_state "$intruder" 'RUNNING|COMPLETED' 90
saved=$(metric step "$tmp/job/metrics.jsonl" | tail -n 1)
ok "what was trained until then is a checkpoint (step $saved)" \
    test -f "$tmp/job/ckpt/step-$(printf %08d "$saved")/COMMIT"
ok "and it is not the whole" test "$saved" -lt "$steps"
must "the job is requeued and ends" wait_state "$job" COMPLETED 180
like "it was restarted once" "$(outside scontrol show job "$job")" 'Restarts=1 '
same_losses "its losses are those of a run in one go, bit for bit" "$tmp/job" "$one"

tests/cluster/down
ok "down leaves nothing behind" test ! -e "$SENNIT_CLUSTER"
tap_done
