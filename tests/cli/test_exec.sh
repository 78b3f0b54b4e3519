#!/bin/sh
# test_exec.sh - sennit-run exec under a Slurm that is acted: srun, scontrol and squeue are scripts
# that do and say what Slurm 22.05 does. What is launched where, and what follows from each end.
# Runs alone: deadlines come within seconds.
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
# checkpoint that the ranks would, and ends with the code. CODE wait: until SIGUSR2, then 75; hang:
# until SIGTERM.
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
wait | hang) sleep 60 & wait ;;
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
*"show job"*)
    echo >>"$T/asked"
    n=$(wc -l <"$T/asked")
    if [ -f "$T/job.$n" ]; then cp "$T/job.$n" "$T/job"; fi
    if grep -q '^down$' "$T/job"; then
        echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2
        exit 1
    fi
    cat "$T/job"
    ;;
*"show node"*) cat "$T/nodes" ;;
requeue*)
    if [ -s "$T/refused" ]; then cat "$T/refused" >&2 && exit 1; fi
    kill -TERM $PPID ;;
esac
SH
cat >"$tmp/slurm/squeue" <<'SH'
#!/bin/sh
case "$*" in
*%A*) cat "$T/queue" ;;
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
    rm -f "$tmp"/srun.* "$tmp"/env.* "$tmp"/nodes.* "$tmp"/job.*
    : >"$tmp/refused"
    : >"$tmp/queue"
    echo 41.batch >"$tmp/steps"
    : >"$tmp/scontrol"
    : >"$tmp/asked"
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
play SLURM_CPU_BIND=quiet,mask_cpu:0x1 SBATCH_EXPORT=NONE SLURM_NTASKS=3 SRUN_DEBUG=7 \
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

# Other MPIs meet by other means, which the site's profile names.
scene cray n0,n1,n2,n3
sed -i 's/preflight: false/preflight: false, site: perlmutter/' "$tmp/cray.yaml"
act "0 100 100"
play --
like "cray: as its site says" "$rc $(cat "$tmp/srun.1")" '^0 .* --mpi=cray_shasta '

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
act "0 100 100"
echo 0 >"$tmp/count"
sed -i 's/NodeName=n2 .*/NodeName=n2 Arch=x86_64 State=ALLOCATED/' "$tmp/nodes"
play --
like "spare: the next job, which has got it back, uses it" "$(cat "$tmp/srun.1")" '--nodelist=n\[0-3\] '

# --- too few are left: another layout ---------------------------------------------------------------------
scene shrink n0,n1,n2,n3
act "137 10 12 srun: error: n3: task 13: Killed" "0 100 100"
sed 's/NodeName=n3 .*/NodeName=n3 Arch=x86_64 State=DOWN*/' "$tmp/nodes" >"$tmp/nodes.1"
play --
is "shrink: done" "$rc" 0
like "shrink: decided" "$(event decision | head -n 1)" '"action": "shrink"'
like "shrink: on fewer nodes, with a run file of its own" "$(cat "$tmp/srun.2")" \
    '--nodes=2 --ntasks=8 .*--nodelist=n\[0-1\] .*/attempts/2/run.yaml --attempt 2'
like "shrink: which is in the journal" "$(event launch | tail -n 1)" '"ranks": 8, .*"relaid": true'
like "shrink: the global batch is the same" "$(cat "$tmp/shrink/attempts/2/run.yaml")" 'global_batch: 16'
run "$BUILD/bin/sennit-plan" "$tmp/shrink/attempts/2/run.yaml"
is "shrink: and the file is a good one" "$rc" 0
scene rigid n0,n1,n2,n3
sed -i 's/preflight: false/preflight: false, shrink: false/' "$tmp/rigid.yaml"
act "137 10 12 srun: error: n3: task 13: Killed"
sed 's/NodeName=n3 .*/NodeName=n3 Arch=x86_64 State=DOWN*/' "$tmp/nodes" >"$tmp/nodes.1"
play --
is "rigid: exit code" "$rc" 75
ok "rigid: without leave to shrink the job is requeued" grep -qx 'requeue 41' "$tmp/scontrol"

# --- preempted, asked, out of time ------------------------------------------------------------------------
scene requeue n0,n1,n2,n3
act "76 20 20"
play --
is "requeue: exit code" "$rc" 75
ok "requeue: by itself, once" test "$(grep -c '^requeue 41$' "$tmp/scontrol")" = 1
like "requeue: the cause: nobody preempts a job that runs on" "$(event end)" \
    '"exit_code": 76, "cause": "it was asked to save and leave"'
act "0 100 100"
echo 0 >"$tmp/count"
play SLURM_RESTART_COUNT=1 -- --fresh
is "requeue: the next run of the script" "$rc" 0
ok "requeue: goes on, whatever it was started with" sh -c "! grep -q -- --fresh '$tmp/srun.1'"
like "requeue: as attempt 2" "$(event launch | tail -n 1)" '"restart": 1, "attempt": 2, .*"from_step": 20'

scene system n0,n1,n2,n3
echo "PreemptType = preempt/partition_prio" >"$tmp/config"
echo "PartitionName=batch PreemptMode=REQUEUE GraceTime=10" >"$tmp/partition"
echo "JobId=41 JobState=COMPLETING Restarts=1 Requeue=1 EndTime=Unknown" >"$tmp/job"
act "76 20 20"
play --
is "system: exit code" "$rc" 75
like "system: the scheduler requeues, so it waits" "$(event decision)" '"action": "wait"'
is "system: and does not requeue too" "$(grep -c requeue "$tmp/scontrol")" 0

scene spared n0,n1,n2,n3
echo "PreemptType = preempt/partition_prio" >"$tmp/config"
echo "PartitionName=batch PreemptMode=REQUEUE GraceTime=10" >"$tmp/partition"
echo "JobId=41 JobState=RUNNING Restarts=0 Requeue=1 EndTime=Unknown PreemptTime=None" >"$tmp/job"
act "76 20 20"
play --
is "spared: SIGTERM that was not of a preemption" "$rc:$(grep -c '^requeue' "$tmp/scontrol")" "75:1"

scene noqueue n0,n1,n2,n3
echo "slurm_requeue error: Requested operation is presently disabled for job 41" >"$tmp/refused"
act "75 20 20"
play --
is "noqueue: exit code" "$rc" 75
like "noqueue: says how to go on" "$(event decision | tail -n 1)" '"action": "stop", "why": ".*presently disabled.*submit it again'
echo 42 >"$tmp/queue"
act "75 30 30"
echo 0 >"$tmp/count"
play --
like "noqueue: a chained job goes on" "$(event decision | tail -n 1)" '"action": "chain"'

scene deadline n0,n1,n2,n3
act "wait 20 20"
play "SLURM_JOB_END_TIME=$(($(date +%s) + 12))" --
is "deadline: exit code" "$rc" 75
like "deadline: the trainer is asked in time" "$(event notice)" '"what": "deadline"'
like "deadline: which is no failure" "$(event end)" '"cause": "it was asked to save and leave"'

# The job's end as Slurm tells it goes before what the job was told when it began, and may move.
at() { # seconds from now: a time of Slurm's
    date -d "@$(($(date +%s) + $1))" +%Y-%m-%dT%H:%M:%S
}
# shellcheck disable=SC2120
start() { # option...: play in the background, until the first step is seen
    # shellcheck disable=SC2086
    env PATH="$tmp/slurm:$PATH" $job_env "$runner" exec "$tmp/$name.yaml" "$@" >/dev/null 2>"$tmp/$name.err" </dev/null &
    job=$!
    until_seen '"running"' "$tmp/$name/journal.jsonl"
}
until_seen() { # text file
    for _ in $(seq 1 300); do
        grep -qs "$1" "$2" && break
        sleep 0.1
    done
}
# A person cancels the job; what becomes of it.
cancel() {
    echo "JobId=41 JobState=COMPLETING Reason=None Restarts=0 Requeue=1 EndTime=$(at 0) PreemptTime=None" >"$tmp/job"
    kill -TERM $job
    rc=0
    wait $job || rc=$?
}
scene moved n0,n1,n2,n3
echo "JobId=41 JobState=RUNNING Restarts=0 Requeue=1 EndTime=$(at 40)" >"$tmp/job"
act "wait 20 20"
told=$(($(date +%s) + 3))
job_env="$job_env SLURM_JOB_END_TIME=$told"
start
echo "JobId=41 JobState=RUNNING Restarts=0 Requeue=1 EndTime=$(at 5)" >"$tmp/job"
rc=0
wait $job || rc=$?
is "moved: exit code" "$rc" 75
ok "moved: what Slurm says goes before the environment" \
    test "$(event begin | sed 's/.*"deadline": \([0-9]*\).*/\1/')" -gt $((told + 20))
is "moved: once, which is written down" "$(event deadline | wc -l)" 1
run "$runner" status --json "$tmp/moved"
like "moved: status knows it" "$out" "\"deadline\": $(event deadline | sed 's/.*"deadline": \([0-9]*\).*/\1/')[,.]"
like "moved: the trainer is asked before the new end" "$(event notice)" '"what": "deadline"'

# --- one supervisor at a time ---------------------------------------------------------------------------
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

scene quit n0,n1,n2,n3
sed -i '/preflight: false/d' "$tmp/quit.yaml"
act "wait - -" "0 100 100"
# shellcheck disable=SC2086
env PATH="$tmp/slurm:$PATH" $job_env "$runner" exec "$tmp/quit.yaml" >/dev/null 2>"$tmp/quit.err" </dev/null &
job=$!
until_seen preflight "$tmp/srun.1"
cancel
is "quit: during preflight, too" "$rc:$(grep -c requeue "$tmp/scontrol"):$(cat "$tmp/count")" "93:0:1"
run "$runner" status "$tmp/quit"
like "quit: status says so" "$out" 'ended: a person ended it'

scene resting n0,n1,n2,n3
act "1 10 11 x" "1 - - x" "0 100 100"
# shellcheck disable=SC2086
env PATH="$tmp/slurm:$PATH" $job_env "$runner" exec "$tmp/resting.yaml" >/dev/null 2>"$tmp/resting.err" </dev/null &
job=$!
until_seen '"pause": 30' "$tmp/resting/journal.jsonl"
like "resting: equal ends are not repeated at once" "$(event decision | tail -n 1)" '"action": "retry", .*"pause": 30'
cancel
is "resting: cancelled between two attempts" "$rc:$(grep -c requeue "$tmp/scontrol"):$(cat "$tmp/count")" "93:0:2"

scene near n0,n1,n2,n3
echo "JobId=41 JobState=RUNNING Restarts=0 Requeue=1 EndTime=$(at 45)" >"$tmp/job"
act "wait 20 20"
start
echo "JobId=41 JobState=COMPLETING Reason=None Restarts=0 Requeue=1 EndTime=$(at 0)" >"$tmp/job"
sleep 7 # the end of the time is asked for meanwhile
is "near: the end of a job that is cancelled is not that of its time" "$(event deadline | wc -l):$(event notice | wc -l)" 0:0
cancel
is "near: near the end of its time, too" "$rc:$(grep -c requeue "$tmp/scontrol")" "93:0"

scene regret n0,n1,n2,n3
echo "JobId=41 JobState=COMPLETING Reason=None Restarts=0 Requeue=1" >"$tmp/job.4"
act "75 20 20"
play --
is "regret: cancelled after it was decided to requeue" "$rc:$(grep -c requeue "$tmp/scontrol")" "93:0"
like "regret: which is written down" "$(event decision | tail -n 1)" '"action": "stop", "why": "the job was cancelled meanwhile'

scene outage n0,n1,n2,n3
echo down >"$tmp/job.2"
echo "JobId=41 JobState=COMPLETING Reason=None Restarts=0 Requeue=1" >"$tmp/job.4"
act "76 20 20"
play --
is "outage: who does not know is not to requeue" "$rc:$(grep -c requeue "$tmp/scontrol")" "93:0"
like "outage: but waits for the controller" "$(event decision | tail -n 1)" 'cancelled meanwhile'

scene timeout n0,n1,n2,n3
echo "JobId=41 JobState=COMPLETING Reason=TimeLimit Restarts=0 Requeue=1" >"$tmp/job.2"
act "77 20 22 srun: error: n1: task 5: Killed"
play --
is "timeout: ranks that see others go at the time limit" "$rc:$(grep -c '^requeue' "$tmp/scontrol")" "75:1"
like "timeout: have lost nobody" "$(event end)" '"cause": "its time was over", .*"rank": -1'

# --- bounds -----------------------------------------------------------------------------------------------
scene idle n0,n1,n2,n3
act "1 10 11 srun: error: n1: task 5: Exited with exit code 1" "1 - - x" "1 - - y" "1 - - z" "1 - - x"
play --
is "idle: exit code" "$rc" 93
is "idle: three attempts without a newer checkpoint" "$(cat "$tmp/count")" 4
like "idle: are the reason" "$(event decision | tail -n 1)" '3 attempts in a row made no progress'
like "idle: the rank that failed is named" "$(event end | head -n 1)" '"rank": 5, "host": "n1", "says": "srun: error: n1: task 5'
scene nostep n0,n1,n2,n3
printf '41.batch\n41.0\n' >"$tmp/steps"
act "137 10 12 srun: error: n1: task 5: Killed" \
    "1 - - srun: error: Unable to create step for job 41: Memory required by task is not available" \
    "1 - - srun: error: Unable to create step for job 41: Memory required by task is not available" \
    "1 - - srun: error: Unable to create step for job 41: Memory required by task is not available" "0 100 100"
play --
is "nostep: what Slurm has no room for yet is no idle attempt" "$rc:$(cat "$tmp/count")" "0:5"
is "nostep: the step before is waited for" "$(cat "$tmp/steps")" 41.batch
scene attempts n0,n1,n2,n3
sed -i 's/preflight: false/preflight: false, attempts: 2/' "$tmp/attempts.yaml"
act "1 10 10 x" "1 20 20 x" "1 30 30 x"
play --
is "attempts: as many as the run file allows" "$rc:$(cat "$tmp/count")" "93:2"
scene memory n0,n1,n2,n3
act "137 10 12 slurmstepd: error: Detected 1 oom_kill event in StepId=41.0.|srun: error: n2: task 8: Out Of Memory"
play --
is "memory: another attempt would end the same way" "$rc" 93
like "memory: the rank that had too much is named" "$(event end)" '"cause": "the host ran out of memory", .*"rank": 8, "host": "n2"'

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
scene preflight n0,n1,n2,n3,n4
sed -i 's/preflight: false/spares: 1/' "$tmp/preflight.yaml"
echo '{"pass": false, "hosts": [{"host": "n0", "pass": true}, {"host": "n1", "pass": false, "why": "slow memory"}]}' >"$tmp/preflight/preflight.json"
act "77 - -" "0 100 100"
play --
is "preflight: done" "$rc" 0
like "preflight: of all nodes, the spare too" "$(cat "$tmp/srun.1")" '--nodes=5 --ntasks=20 .*/preflight.yaml --preflight$'
like "preflight: the node that failed is not used" "$(cat "$tmp/srun.2")" '--nodelist=n\[0,2-4\] '
like "preflight: with its reason" "$(event bad-node)" '"host": "n1", "why": "slow memory"'
act "0 - -" "wait 20 20"
echo 0 >"$tmp/count"
play SLURM_RESTART_COUNT=1 "SLURM_JOB_END_TIME=$(($(date +%s) + 8))" --
like "preflight: the next one leaves it out" "$(cat "$tmp/srun.1")" '--nodes=4 .*--nodelist=n\[0,2-4\] '

scene full n0,n1,n2,n3
sed -i '/preflight: false/d' "$tmp/full.yaml"
act "1 - - preflight: ckpt: no node can write there: No space left on device|srun: error: n0: task 0: Exited with exit code 1" \
    "0 100 100"
play --
is "full: what is wrong with all nodes alike stops nobody" "$rc:$(cat "$tmp/count")" "0:2"
run "$runner" status "$tmp/full"
like "full: but is said" "$out" 'preflight +ended with 1, [0-9.]+ s: preflight: ckpt: no node can write there: No space'
act "0 100 100"
echo 0 >"$tmp/count"
play SLURM_RESTART_COUNT=1 --
is "full: a job behind the end of a chain checks no nodes" "$rc:$(cat "$tmp/count")" "0:1"
ok "full: but looks once" sh -c "! grep -q -- --preflight '$tmp/srun.1'"

# --- no nodes, no loop ---------------------------------------------------------------------------------------
scene few n0,n1
sed -i 's/preflight: false/preflight: false, shrink: false/' "$tmp/few.yaml"
play --
is "few: a job with too few nodes is put back" "$rc:$(grep -c '^requeue' "$tmp/scontrol"):$(cat "$tmp/count")" "75:1:0"
like "few: it says why" "$(event end)" '"says": "2 of 2 nodes are good, the layout wants 4"'
play SLURM_RESTART_COUNT=1 --
play SLURM_RESTART_COUNT=2 --
is "few: not for ever" "$rc:$(grep -c '^requeue' "$tmp/scontrol")" "93:2"

# --- the map: processes are not ranks --------------------------------------------------------------------
scene map n0,n1,n2,n3
echo '{"ranks": [{"rank": 3, "process": 9, "host": "n2"}, {"rank": 9, "process": 3, "host": "n0"}]}' >"$tmp/map/map.json"
act "137 10 12 srun: error: n2: task 9: Killed" "137 20 22 srun: error: n2: task 8: Killed" "0 100 100"
play --
like "map: the launcher's task 9 is rank 3" "$(event end | head -n 1)" '"cause": "a rank was lost", .*"rank": 3, "host": "n2"'
is "map: twice on the same node, which is doubted then" "$(event bad-node | wc -l)" 1
like "map: for some hours" "$(cat "$tmp/map/nodes.jsonl")" '"host": "n2", .*"grade": "doubtful"'
like "map: but used where there is no other" "$(cat "$tmp/srun.3")" '--nodes=4 '
tap_done
