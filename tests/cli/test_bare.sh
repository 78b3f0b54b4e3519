#!/bin/sh
# test_bare.sh - every command of sennit-run where there is no program of any scheduler, as in a
# container: what needs none works, what needs one says which.
. tests/lib/tap.sh
. tests/lib/train.sh

runner=$BUILD/bin/sennit-run
make_tokens "$tmp/tok"
unset SLURM_JOB_ID SLURM_JOBID LSB_JOBID
# A path with the MPI launcher and what that needs, and nothing else.
mkdir "$tmp/tools"
for tool in mpirun orted prted sh env; do
    found=$(command -v "$tool") && ln -s "$found" "$tmp/tools/$tool"
done
bare() { # command...: with that path, and Open MPI's settings for a test
    env PATH="$tmp/tools" OMPI_MCA_pml=ob1 OMPI_MCA_btl=vader,self OMPI_ALLOW_RUN_AS_ROOT=1 \
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 "$@"
}
for tool in sbatch srun scontrol squeue sinfo scancel bsub jsrun; do
    ok "there is no $tool" test ! -e "$tmp/tools/$tool"
done

steps=20 eval_every=0 every=10
run_file "$tmp/run.yaml" "$tmp/run"
sed -i 's/layout: {/layout: {data: 2, /' "$tmp/run.yaml"
echo 'slurm: {ranks_per_node: 2, time: "1:00:00"}' >>"$tmp/run.yaml"

# --- submit ----------------------------------------------------------------------------------------
run bare "$runner" submit "$tmp/run.yaml" --print
is "submit --print: exit code" "$rc" 0
like "submit --print: a script" "$out" '^#!/bin/'
run bare "$runner" submit "$tmp/run.yaml"
is "submit: exit code" "$rc" 1
like "submit: the program that lacks" "$err" 'sbatch'
run bare "$runner" submit "$tmp/run.yaml" --test-only
is "submit --test-only: exit code" "$rc" 1
like "submit --test-only: the program that lacks" "$err" 'sbatch'

# --- map -------------------------------------------------------------------------------------------
run bare "$runner" map "$tmp/run.yaml"
is "map: exit code" "$rc" 0
like "map: the ranks" "$out" '^ *1 '
run bare "$runner" map "$tmp/run.yaml" --json
like "map --json: the ranks" "$out" '"ranks": *\['

# --- exec, status, why -----------------------------------------------------------------------------
run bare "$runner" exec "$tmp/run.yaml"
is "exec: exit code" "$rc" 0
[ "$rc" = 0 ] || tap_lines stderr "$err"
is "exec: all steps" "$(tail -n 1 "$tmp/run/metrics.jsonl" | sed 's/^{"step": \([0-9]*\),.*/\1/')" 20
run bare "$runner" status "$tmp/run"
like "status: it is done" "$out" '^state +ended: all steps are done'
run bare "$runner" why "$tmp/run"
like "why: it is done" "$out" 'decided: done: all steps are done'

# In a job's container: the environment of Slurm, but none of its programs.
run_file "$tmp/job.yaml" "$tmp/job"
sed -i 's/layout: {/layout: {data: 2, /' "$tmp/job.yaml"
host=$(uname -n)
ok "nor an agent for other hosts" test ! -e "$tmp/tools/ssh"
run bare env SLURM_JOB_ID=4711 SLURM_JOB_NODELIST="$host" SLURM_JOB_NUM_NODES=1 SLURM_JOB_CPUS_PER_NODE=2 \
    "$runner" exec "$tmp/job.yaml" --launcher mpirun
is "exec within a job: exit code" "$rc" 0
[ "$rc" = 0 ] || tap_lines stderr "$err"
run bare "$runner" why "$tmp/job"
like "exec within a job: its number" "$out" '^attempt 1 .*, job 4711'
like "exec within a job: its nodes" "$out" "on $host \(1 node, 2 ranks\), data 2"

tap_done
