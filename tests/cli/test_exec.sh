#!/bin/sh
# test_exec.sh - sennit-run exec under a Slurm that is acted: srun, scontrol and squeue are scripts
# that do and say what Slurm 22.05 does. What only processes show: programs that are started and
# read, signals, locks, the words of status. What follows from which end is tests/unit/slurm/test_run_*.c's,
# on a stage.
# Runs alone: signals come at chosen times.
. tests/lib/tap.sh
. tests/lib/train.sh

for v in $(env | sed -n 's/^\(\(SLURM\|SBATCH\|SRUN\|LSB\)_[A-Za-z0-9_]*\)=.*/\1/p'); do
    unset "$v"
done
mkdir -p "$tmp/bin" "$tmp/share/sennit" "$tmp/slurm"
cp "$BUILD/bin/sennit-run" "$tmp/bin/"
ln -s "$PWD/templates" "$tmp/share/sennit/templates"
printf '#!/bin/sh\nexit 99\n' >"$tmp/bin/sennit-train"
chmod +x "$tmp/bin/sennit-train"
runner=$tmp/bin/sennit-run
steps=100 eval_every=0 hidden=64 ffn=160 seq=32 batch=16 every=10
export T="$tmp"

# srun: takes the next line of $T/act, "CODE SAVED STEP WORDS...": writes the words, the step and the
# checkpoint that the ranks would, and ends with the code. CODE wait: until SIGUSR2, then 75.
cat >"$tmp/slurm/srun" <<'SH'
#!/bin/sh
[ "$1" != --version ] || { echo "slurm-wlm 22.05.8"; exit 0; }
out=$(cat "$T/output")
n=$(($(cat "$T/count") + 1))
echo $n >"$T/count"
echo "$*" >"$T/srun.$n"
env >"$T/env.$n"
attempt=$(echo "$*" | sed 's/.*--attempt \([0-9]*\).*/\1/')
line=$(sed -n "${n}p" "$T/act")
set -- $line
code=$1 saved=$2 step=$3
shift 3
trap 'code=75; kill $! 2>/dev/null' USR2
trap 'exit 143' TERM
[ "$step" = - ] || echo "{\"step\": $step, \"step_time_s\": 0.5}" >>"$out/metrics.jsonl"
if [ "$saved" != - ]; then
    mkdir -p "$out/ckpt/step-$(printf %08d "$saved")"
    : >"$out/ckpt/step-$(printf %08d "$saved")/COMMIT"
fi
case $code in
wait) sleep 60 & wait ;;
esac
[ -z "$*" ] || echo "$*" | tr '|' '\n' >&2
[ ! -f "$T/nodes.$n" ] || cp "$T/nodes.$n" "$T/nodes"
[ "$code" != 0 ] || echo '{"attempt": 1, "exit_code": 0, "cause": "finished"}' >"$out/attempt-$attempt.json"
exit $code
SH
cat >"$tmp/slurm/scontrol" <<'SH'
#!/bin/sh
echo "$*" >>"$T/scontrol"
case "$*" in
"show config") cat "$T/config" ;;
*"show partition"*) cat "$T/partition" ;;
*"show job"*) cat "$T/job" ;;
*"show node"*) cat "$T/nodes" ;;
requeue*) kill -TERM $PPID ;;
esac
SH
cat >"$tmp/slurm/squeue" <<'SH'
#!/bin/sh
case "$*" in
*%A*) ;;
*--steps*) cat "$T/steps" && echo 41.batch >"$T/steps" ;;
*) exit 1 ;;
esac
SH
chmod +x "$tmp"/slurm/*

scene() { # name nodes: a job on these nodes, whose Slurm has nothing to say yet
    name=$1
    nodes=$(echo "$2" | tr ',' ' ' | wc -w)
    run_file "$tmp/$name.yaml" "$tmp/$name"
    sed -i 's/layout: {/layout: {data: 2, tensor: 4, pipeline: 2, /' "$tmp/$name.yaml"
    echo "slurm: {preflight: false}" >>"$tmp/$name.yaml"
    mkdir -p "$tmp/$name"
    echo "$tmp/$name" >"$tmp/output"
    echo 0 >"$tmp/count"
    rm -f "$tmp"/srun.* "$tmp"/env.* "$tmp"/nodes.*
    echo 41.batch >"$tmp/steps"
    : >"$tmp/scontrol"
    : >"$tmp/act"
    echo "PreemptType = preempt/none" >"$tmp/config"
    echo "PartitionName=batch PreemptMode=OFF GraceTime=0" >"$tmp/partition"
    echo "JobId=41 JobName=x JobState=RUNNING Restarts=0 Requeue=1 EndTime=Unknown" >"$tmp/job"
    for n in $(echo "$2" | tr ',' ' '); do
        echo "NodeName=$n Arch=x86_64 State=ALLOCATED"
    done >"$tmp/nodes"
    job_env="SLURM_JOB_ID=41 SLURM_JOB_NODELIST=$2 SLURM_JOB_NUM_NODES=$nodes SLURM_JOB_PARTITION=batch
        SLURM_JOB_NAME=x SLURM_NTASKS_PER_NODE=4 SLURM_JOB_CPUS_PER_NODE=8(x$nodes)"
}

act() { # lines of srun
    printf '%s\n' "$@" >"$tmp/act"
}

play() { # [NAME=VALUE...] -- option...
    more=
    while [ "$1" != -- ]; do
        more="$more $1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    run env PATH="$tmp/slurm:$PATH" $job_env $more "$runner" exec "$tmp/$name.yaml" "$@"
}

event() { # event: its lines
    grep "\"event\": \"$1\"" "$tmp/$name/journal.jsonl"
}

# --- what is launched ---------------------------------------------------------------------------------
scene launch n0,n1,n2,n3
act "0 100 100"
end=$(($(date +%s) + 100000))
play "SLURM_JOB_END_TIME=$end" SLURM_CPU_BIND=quiet,mask_cpu:0x1 SBATCH_EXPORT=NONE SLURM_NTASKS=3 SRUN_DEBUG=7 \
    SLURM_TRES_PER_TASK=cpu:1 PMI_RANK=3 HF_TOKEN=hush PMIX_MCA_psec=native --
is "launch: done" "$rc" 0
is "launch: the command" "$(sed "s|$tmp|TMP|g; s|--supervisor $(hostname):[0-9]*:[0-9]*|--supervisor WHO|" "$tmp/srun.1")" "--kill-on-bad-exit=1 --wait=60 --unbuffered --export=ALL --mpi=pmix --nodes=4 --ntasks=16 --ntasks-per-node=4 --cpus-per-task=2 --cpu-bind=cores TMP/bin/sennit-train TMP/launch.yaml --attempt 1 --supervisor WHO"
is "launch: what another job left is gone" \
    "$(grep -E '^(SLURM_CPU_BIND|SBATCH_|SLURM_NTASKS|SRUN_|SLURM_TRES|PMI_)' "$tmp/env.1")" ""
ok "launch: what a person set is not" grep -q '^PMIX_MCA_psec=native$' "$tmp/env.1"
ok "launch: the job is" grep -q '^SLURM_JOB_ID=41$' "$tmp/env.1"
ok "launch: Slurm's PMIx is told to be careful" grep -q '^SLURM_PMIX_FENCE=ring$' "$tmp/env.1"
ok "launch: the environment is recorded" grep -q '^SLURM_JOB_ID=41$' "$tmp/launch/attempts/1/environment"
ok "launch: without secrets" grep -q '^HF_TOKEN=(not recorded)$' "$tmp/launch/attempts/1/environment"
like "launch: nodes and layout are in the journal" "$(event launch)" \
    '"nodes": \["n0", "n1", "n2", "n3"\], "spares": \[\], "ranks": 16, .*"layout": \{"data": 2, "tensor": 4, "context": 1, "pipeline": 2'
run "$runner" status --json "$tmp/launch"
like "launch: status knows when the job's time ends" "$out" "\"deadline\": $end[,.]"

# --- a node dies: a spare takes its place ---------------------------------------------------------------
scene spare n0,n1,n2,n3,n4
sed -i 's/preflight: false/preflight: false, spares: 1/' "$tmp/spare.yaml"
act "137 10 12 srun: error: Node failure on n2|srun: error: n2: task 9: Killed" "0 100 100"
sed 's/NodeName=n2 .*/NodeName=n2 Arch=x86_64 State=DOWN*+CLOUD/' "$tmp/nodes" >"$tmp/nodes.1"
play --
is "spare: done" "$rc" 0
like "spare: four of five nodes" "$(cat "$tmp/srun.1")" '--nodes=4 .*--no-kill --nodelist=n\[0-3\] '
like "spare: then without the dead one" "$(cat "$tmp/srun.2")" '--no-kill --overlap --mem=0 --nodelist=n\[0-1,3-4\] '
like "spare: because" "$(event end | head -n 1)" '"cause": "a node died", .*"rank": -1, "host": "n2"'
like "spare: which is written down" "$(event bad-node)" '"host": "n2", "why": "a node died"'
like "spare: in the ledger, too" "$(cat "$tmp/spare/nodes.jsonl")" '"host": "n2", .*"grade": "died", "until": [0-9]+, "job": "41"'
like "spare: and goes on from the checkpoint" "$(event launch | tail -n 1)" '"attempt": 2, .*"from_step": 10'

# --- requeued by itself -----------------------------------------------------------------------------------
scene requeue n0,n1,n2,n3
act "76 20 20"
play --
is "requeue: exit code" "$rc" 75
ok "requeue: by itself, once" test "$(grep -c '^requeue 41$' "$tmp/scontrol")" = 1
like "requeue: the cause: nobody preempts a job that runs on" "$(event end)" \
    '"exit_code": 76, "cause": "it was asked to save and leave"'

# --- one supervisor at a time ---------------------------------------------------------------------------
start() { # play in the background, until the first step is seen
    # shellcheck disable=SC2086
    env PATH="$tmp/slurm:$PATH" $job_env "$runner" exec "$tmp/$name.yaml" >/dev/null 2>"$tmp/$name.err" </dev/null &
    job=$!
    for _ in $(seq 1 300); do
        grep -qs '"running"' "$tmp/$name/journal.jsonl" && break
        sleep 0.1
    done
}
scene twice n0,n1,n2,n3
act "wait 20 20" "0 100 100"
start
play --
is "twice: another one is refused" "$rc" 2
like "twice: with whom there is" "$err" "/twice/supervisor.lock: another sennit-run exec works on this run: process $job on [^ ]+, job 41; let it end"
is "twice: and starts nothing" "$(cat "$tmp/count"):$(event begin | wc -l)" 1:1
run "$runner" status "$tmp/twice"
is "twice: who only reads is not" "$rc" 0
run "$runner" why "$tmp/twice"
is "twice: nor who asks why" "$rc" 0
kill -KILL $job
wait $job 2>/dev/null
play --
is "twice: a supervisor that was killed holds nothing" "$rc:$(cat "$tmp/count")" 0:2

# --- SIGTERM to the batch script: by whom? ------------------------------------------------------------------
scene cancelled n0,n1,n2,n3
echo "JobId=41 JobState=COMPLETING Restarts=0 Requeue=1 EndTime=Unknown" >"$tmp/job"
act "wait 20 20"
start
kill -TERM $job
rc=0
wait $job || rc=$?
is "cancelled: who is cancelled does not come back" "$rc:$(grep -c requeue "$tmp/scontrol")" "93:0"
like "cancelled: though it saved" "$(event end)" '"exit_code": 75, "cause": "a person ended it"'
run "$runner" status "$tmp/cancelled"
like "cancelled: status says so" "$out" 'ended: a person ended it; nobody goes on unless asked to'

# --- nothing of Slurm's in the container -----------------------------------------------------------------
scene alone n0,n1,n2,n3
mkdir -p "$tmp/alone.bin"
cp "$tmp/slurm/srun" "$tmp/alone.bin/"
for c in cat env sed mkdir sleep tr; do ln -s "$(command -v $c)" "$tmp/alone.bin/$c"; done
act "75 20 20"
# shellcheck disable=SC2086
run env PATH="$tmp/alone.bin" $job_env "$runner" exec "$tmp/alone.yaml"
is "alone: without scontrol" "$rc" 75
like "alone: it says what is missing" "$(event decision | tail -n 1)" '"action": "stop", "why": "the job could not be requeued .*scontrol'

# --- preflight ---------------------------------------------------------------------------------------------
scene full n0,n1,n2,n3
sed -i '/preflight: false/d' "$tmp/full.yaml"
act "1 - - preflight: ckpt: no node can write there: No space left on device|srun: error: n0: task 0: Exited with exit code 1" \
    "0 100 100"
play --
is "full: what is wrong with all nodes alike stops nobody" "$rc:$(cat "$tmp/count")" "0:2"
run "$runner" status "$tmp/full"
like "full: but is said" "$out" 'preflight +ended with 1, [0-9.]+ s: preflight: ckpt: no node can write there: No space'
tap_done
