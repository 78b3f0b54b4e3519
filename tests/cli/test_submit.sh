#!/bin/sh
# test_submit.sh - sennit-run submit: the scripts of all sites as yesterday, and what happens with sbatch,
# scontrol and bsub of several minds, played by small programs.
#
# Where scripts change for a reason: tests/golden/update.sh sites, and the reason in the commit.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
need shellcheck
submit="$PWD/$BUILD/bin/sennit-run submit" root=$PWD
case $BUILD in /*) submit="$BUILD/bin/sennit-run submit" ;; esac

# --- every site ---------------------------------------------------------------------------------
bin=$(realpath "$BUILD/bin")
for profile in templates/sites/*.yaml; do
    site=$(basename "$profile" .yaml)
    golden=tests/golden/sites/$site
    ok "$site has a golden script" test -s "$golden.sh"
    $submit "$golden.yaml" --print 2>/dev/null | sed "s|$bin/|/usr/bin/|; s|$(pwd -P)|/here|" >"$tmp/script"
    ok "$site: the script is as it was" cmp -s "$tmp/script" "$golden.sh"
    ok "$site: a shell can read it" sh -n "$golden.sh"
done
run shellcheck tests/golden/sites/*.sh
is "shellcheck has nothing to say" "$out" ''

# --- programs of a scheduler --------------------------------------------------------------------
mkdir "$tmp/fake" "$tmp/none" "$tmp/place"
for tool in sh cat env grep sed; do ln -s "$(command -v $tool)" "$tmp/none/$tool"; done
cat >"$tmp/fake/sbatch" <<'END'
#!/bin/sh
echo "$*" >>"$FAKE/calls"
env >"$FAKE/environment"
case $* in
*--test-only*)
    if [ -e "$FAKE/reject" ]; then
        echo 'sbatch: error: lua: HARD REJECTED: cpus must be >= 20 x gpus' >&2
        echo 'sbatch: error: Batch job submission failed: Unspecified error' >&2
        exit 1
    fi
    echo 'sbatch: Job 40 to start at 2026-11-22T00:00:00 using 32 processors on nodes n[0-3] in partition low' >&2 ;;
*)
    n=$(cat "$FAKE/next" 2>/dev/null || echo 41)
    echo $((n + 1)) >"$FAKE/next"
    echo "$n" ;;
esac
END
cat >"$tmp/fake/scontrol" <<'END'
#!/bin/sh
case $* in
'show config') cat "$FAKE/config" ;;
*partition*) cat "$FAKE/partition" ;;
esac
END
cat >"$tmp/fake/bsub" <<'END'
#!/bin/sh
echo "bsub $*" >>"$FAKE/calls"
cat >"$FAKE/script"
n=$(cat "$FAKE/next" 2>/dev/null || echo 7)
echo $((n + 1)) >"$FAKE/next"
echo "Job <$n> is submitted to queue <pbatch>."
END
chmod +x "$tmp/fake/"*
FAKE=$tmp/fake
export FAKE
printf 'JobRequeue = 1\nKillWait                = 30 sec\nPreemptMode             = REQUEUE\nPreemptType             = preempt/partition_prio\n' >"$FAKE/config"
echo 'PartitionName=low Default=YES GraceTime=60 PreemptMode=REQUEUE State=UP' >"$FAKE/partition"
PATH=$tmp/fake:$PATH
unset SLURM_JOB_ID SBATCH_TIMELIMIT SBATCH_QOS 2>/dev/null || :
export SN_LOG=info

cd "$tmp/place" || exit 1
"$bin/sennit-data" build --text "$root/docs/STYLE.md" -o tok --valid 0.05 >/dev/null
cat >run.yaml <<'END'
run: {name: try, output: out/try}
model: {family: llama, layers: 4, hidden: 64, heads: 4, ffn: 176, vocab: 256, seq: 64}
data: {train: tok, valid: tok-valid}
train: {steps: 20, global_batch: 32, eval_every: 10, eval_sequences: 4}
layout: {data: 2, tensor: 4, pipeline: 2}
slurm: {site: testcluster, time: 10, extra: [--mail-type=FAIL]}
END
unset NERSC_HOST LMOD_SYSTEM_NAME LCSCHEDCLUSTER TACC_SYSTEM 2>/dev/null || :
fresh() { rm -rf "$FAKE/calls" "$FAKE/next" "$FAKE/reject" out; }

fresh
run $submit run.yaml --print
is "--print exits 0" "$rc" 0
like "prints the script" "$out" '^#SBATCH --nodes=4$'
like "which begins as one" "$(echo "$out" | head -1)" '^#!/bin/bash$'
like "says how jobs are preempted here" "$err" 'preemption: requeue, 60 s of grace, 30 s between SIGTERM and SIGKILL'
ok "and submits nothing" test ! -e "$FAKE/calls"
ok "and makes nothing" test ! -e out

fresh
run $submit run.yaml --test-only
is "--test-only exits 0" "$rc" 0
like "says when the job would start" "$err" 'Job 40 to start at .* on nodes n\[0-3\]'
like "asks sbatch" "$(cat "$FAKE/calls")" '^--test-only /'
is "once" "$(wc -l <"$FAKE/calls")" 1
ok "and makes nothing" test ! -e out
run $submit run.yaml --test-only --print
is "a script that is printed is not tested, too: exit 2" "$rc$out" 2
is "which is said" "$err" 'sennit-run submit: --print asks nobody and --test-only the scheduler; want one of them'
touch taken
sed 's|output: out/try|output: taken/try|' run.yaml >taken.yaml
run $submit taken.yaml
is "a run.output that cannot be made: exit 1, nothing submitted" "$rc$out" 1
like "and it is said what would work" "$err" 'run.output: cannot make the directory /.*/taken/try: Not a directory; want a path in one that you may write to$'

fresh
run $submit run.yaml
is "a job is submitted" "$rc" 0
is "its number is printed" "$out" 41
is "after a test" "$(sed 's| /.*/| |' "$FAKE/calls" | tr '\n' ';')" '--test-only batch.sh;--parsable batch.sh;'
like "the script is kept" "$(cat out/try/batch.sh)" '^exec .*/sennit-run exec --site testcluster run.yaml$'
like "it is recorded" "$(cat out/try/submitted.jsonl)" '"job": ?"41", ?"site": ?"testcluster", .*"nodes": ?4'
like "where its output goes is absolute" "$(grep -e --output= out/try/batch.sh)" "=$(pwd -P)/out/try/slurm-%j.out$"

fresh
run $submit run.yaml --chain 3 --time 0:08:00 --nodes 2
is "a chain is submitted" "$(echo "$out" | tr '\n' ' ')" '41 42 43 '
like "whose jobs wait for each other" "$(cat out/try/batch.sh)" '^#SBATCH --dependency=singleton$'
like "for the time of the command line" "$(cat out/try/batch.sh)" '^#SBATCH --time=0:08:00$'
like "on the nodes of the command line" "$(cat out/try/batch.sh)" '^#SBATCH --nodes=2$'
like "which the layout is replanned for" "$err" 'layout has 16 ranks, which are 4 nodes of 4: .* replan for 2'
is "each is recorded" "$(wc -l <out/try/submitted.jsonl)" 3

fresh
: >"$FAKE/reject"
run $submit run.yaml
is "a job that the site refuses: exit 1" "$rc" 1
like "with the site's own words" "$err" 'HARD REJECTED: cpus must be >= 20 x gpus'
is "and is not submitted" "$(grep -c parsable "$FAKE/calls")" 0

# --- is the job worth its wait? -------------------------------------------------------------------
fresh
run $submit run.yaml
like "what was looked at: data" "$err" '^ok: data: tok has [0-9]+ tokens, [0-9]+ sequences of 64; 20 steps of 32 read it '
like "validation" "$err" '^ok: validation: tok-valid has [0-9]+ sequences, an evaluation takes 4'
like "memory" "$err" '^ok: memory: a rank needs [0-9.]+ MiB of 2.00 GiB \(laptop-cpu\)$'
like "time" "$err" '^ok: time: 20 steps of .* s \(planned\) take about 0:00:[0-9]+, 1 job of 0:10:00$'
like "site" "$err" '^ok: site: the profile of testcluster takes 4 nodes, partition low, 10$'
like "and 5 minutes for a save that nobody has measured" "$(cat out/try/batch.sh)" '^#SBATCH --signal=USR2@300$'
held() { # sentence pattern option...: not submitted, but with --force; printed with a word
    what=$1 pattern=$2
    shift 2
    fresh
    run $submit "$@"
    is "$what: exit 2" "$rc" 2
    like "$what: is said" "$err" "$pattern"
    like "$what: and what would work" "$err" 'not submitted, for what is said above; mend it, or submit with --force'
    ok "$what: nobody is asked" test ! -e "$FAKE/calls"
    run $submit "$@" --print
    is "$what: the script is printed" "$rc" 0
    like "$what: with a word" "$err" 'would not be submitted, for what is said above'
    run $submit "$@" --force
    is "$what: forced" "$rc" 0
    like "$what: it is said" "$err" "$pattern"
}
sed 's/hidden: 64/hidden: 8192/; s/ffn: 176/ffn: 32768/' run.yaml >large.yaml
held "a layout that does not fit" 'large.yaml: the layout does not fit: a rank needs [0-9.]+ GiB of 2.00 GiB \(laptop-cpu\)' large.yaml
sed 's/train: tok,/train: gone,/' run.yaml >gone.yaml
held "data that is not here" 'gone.yaml: data.train: neither gone.idx nor gone.bin is on this host' gone.yaml
sed '/^data/d; s/, eval_every: 10, eval_sequences: 4//' run.yaml >nodata.yaml
held "no data" 'nodata.yaml: data.train: missing; want the prefix' nodata.yaml
sed 's/vocab: 256/vocab: 64/' run.yaml >words.yaml
held "another vocabulary" 'tok.bin: byte [0-9]+: token [0-9]+ is [0-9]+, outside the vocabulary 0 .. 63' words.yaml
sed 's/steps: 20/steps: 100000000/' run.yaml >long.yaml
fresh
run $submit long.yaml
like "a long run takes several jobs" "$err" '^ok: time: 100000000 steps .* [1-9][0-9]+ jobs of 0:10:00$'
sed 's/requeue: true//; s/^submit:/submit:\n  requeue: false/' "$root/templates/sites/testcluster.yaml" >once.yaml
run $submit long.yaml --site ./once.yaml --print
like "where none is put back a chain is advised" "$err" 'takes about [0-9]+ jobs, and testcluster puts none back into the queue; want --chain'
echo 'machine: {preset: perlmutter-80}' | cat run.yaml - | sed 's/time: 10,/time: 10, account: m1_g,/' >80.yaml
run $submit 80.yaml --site perlmutter --print
like "a machine's nodes are asked for" "$out" '^#SBATCH --constraint=gpu&hbm80g$'
like "by which memory is judged" "$err" '^ok: memory: .* of 79.15 GiB \(perlmutter-80\)$'
fresh
run $submit 80.yaml --site leonardo
is "another machine than the site's: exit 2" "$rc" 2
like "which would work is said" "$err" 'a node of leonardo has 4 GPUs of 64.00 GiB, but 80.yaml plans for perlmutter-80, .*; want machine.preset: leonardo'

# --- which site -----------------------------------------------------------------------------------
fresh
sed 's/site: testcluster, time: 10,/time: 10, account: m1_g,/' run.yaml >where.yaml
NERSC_HOST=perlmutter run $submit where.yaml --print
like "the environment tells of a site" "$err" '^site: perlmutter, by NERSC_HOST=perlmutter; slurm.site or --site names another$'
like "whose script it is" "$out" ' exec --site perlmutter where.yaml$'
NERSC_HOST=perlmutter run $submit where.yaml --print --site generic
ok "a name goes before that" test -z "$(printf '%s\n' "$out$err" | grep perlmutter)"
sed 's/time: 10,/time: 10, site: generic,/' where.yaml >named.yaml
NERSC_HOST=perlmutter run $submit named.yaml --print
ok "in the run file too" test -z "$(printf '%s\n' "$out$err" | grep perlmutter)"
echo 'machine: {preset: perlmutter-40}' | cat where.yaml - >devices.yaml
run $submit devices.yaml --print
like "devices, and no site: no GPUs are asked for, which is said" "$err" \
    'no site is named, so the job asks for no GPUs, though a node of perlmutter-40 has 4 devices; want slurm.site, or slurm.extra: \[--gres=gpu:4\]'

# --- what comes first in a script ------------------------------------------------------------------
sed 's/time: 10,/time: 10, account: m1_g, setup: [module load mine, "export NCCL_NET=mine"],/' run.yaml >setup.yaml
run $submit setup.yaml --site perlmutter --print
order=$(printf '%s\n' "$out" | grep -n -e '^module load nccl$' -e '^module load mine$' -e '^export MPICH_OFI_NIC_POLICY=' | cut -d: -f2 | tr '\n' ';')
is "modules, then slurm.setup, then variables" "$order" 'module load nccl;module load mine;export MPICH_OFI_NIC_POLICY=GPU;'
is "what slurm.setup sets stays" "$(printf '%s\n' "$out" | grep '^export NCCL_NET')" 'export NCCL_NET=mine'

# --- warnings -----------------------------------------------------------------------------------
fresh
sed 's/REQUEUE/CANCEL/' "$FAKE/partition" >"$FAKE/p" && mv "$FAKE/p" "$FAKE/partition"
run $submit run.yaml --print
like "PreemptMode=CANCEL is warned of" "$err" 'PreemptMode is CANCEL: .*; submit with --chain'
run $submit run.yaml --print --chain 2
ok "not in a chain" test -z "$(echo "$err" | grep CANCEL:)"
mkdir -p out/try
echo '{"step": 9, "step_time_s": 3}' >out/try/metrics.jsonl
echo '{"step": 9, "bytes": 1, "layout_s": 0, "copy_s": 20, "write_s": 70, "commit_s": 1}' >out/try/checkpoints.jsonl
run $submit run.yaml --print
like "a grace too short for a save is warned of" "$err" \
    'GraceTime is 60 s, a step and a save take 94 s \(as this run measured\): .*lower checkpoint.every'
like "and the notice is as long as it has to be" "$out" '^#SBATCH --signal=USR2@248$'

# --- environment --------------------------------------------------------------------------------
fresh
SLURM_JOB_ID=9 SLURM_CPU_BIND=cores SLURM_CONF=/etc/x SBATCH_QOS=q PMIX_RANK=1 run $submit run.yaml
is "a job inside a job is submitted" "$rc" 0
is "without what the other one left" "$(grep -cE '^(SLURM_CPU_BIND|SLURM_JOB_ID|SBATCH_QOS|PMIX_RANK)=' "$FAKE/environment")" 0
is "but for the same cluster" "$(grep '^SLURM_CONF=' "$FAKE/environment")" SLURM_CONF=/etc/x
like "which is said" "$err" 'not passed on: SLURM_CPU_BIND=cores'
SBATCH_TIMELIMIT=1 SBATCH_DEBUG=1 run $submit run.yaml
is "outside, what the script says itself goes" "$(grep -c '^SBATCH_TIMELIMIT=' "$FAKE/environment")" 0
is "and the rest stays" "$(grep -c '^SBATCH_DEBUG=' "$FAKE/environment")" 1

# --- nodes that failed ---------------------------------------------------------------------------
mkdir -p out/try
printf '{"time": 1, "host": "n%s", "why": "its memory is bad", "grade": "%s", "until": %s, "job": "1"}\n' \
    3 bad 99999999999 4 bad 5 5 died 99999999999 >out/try/nodes.jsonl
run $submit run.yaml --print
is "nodes that failed are avoided, as long as the ledger says" "$(printf '%s\n' "$out" | grep -e --exclude)" '#SBATCH --exclude=n3'
like "which is said" "$err" 'n3 is avoided: its memory is bad'

# --- what is refused ----------------------------------------------------------------------------
refused() { # sentence pattern option...
    what=$1 pattern=$2
    shift 2
    fresh
    run $submit "$@"
    is "$what: exit 2" "$rc" 2
    like "$what: is said" "$err" "$pattern"
    ok "$what: nobody is asked" test ! -e "$FAKE/calls"
}
refused "no account" 'sites/leonardo.yaml:[0-9]+: leonardo wants an account that pays; want slurm.account in run.yaml' run.yaml --site leonardo
refused "too many nodes" 'sites/testcluster.yaml:[0-9]+: partition low of testcluster gives a job 8 nodes at most' run.yaml --nodes 9
refused "an unknown site" "no preset 'leonrado'; did you mean 'leonardo'\?" run.yaml --site leonrado
refused "a bad time" "'soon' is no time limit" run.yaml --time soon
refused "no run file" 'want one run file, got 0' --print
refused "an unknown option" 'unknown option' run.yaml --prnt
refused "a missing run file" 'none.yaml: cannot be opened' none.yaml
sed 's/time: 10,/time: 10, account: x,/; s/--mail-type=FAIL/--mem=4G/' run.yaml >mem.yaml
refused "a forbidden option" "sites/marenostrum5.yaml:[0-9]+: marenostrum5 refuses jobs with '--mem=4G'" mem.yaml --site marenostrum5
sed 's/--mail-type=FAIL/--time=9/' run.yaml >owned.yaml
refused "an option that a key says" "'--time=9' is what slurm.time says" owned.yaml
sed 's/time: 10,/time: 10, nodes: 3,/' run.yaml >three.yaml
refused "nodes that do not fit the layout" 'slurm.nodes: 3 nodes of 4 ranks, but the layout has 16 ranks; want 4 nodes' three.yaml
sed 's/time: 10,/time: 10, nodes: 3,/; s/data: 2, //; s/global_batch: 32/global_batch: 24/' run.yaml >auto.yaml
run $submit auto.yaml --print
is "a layout with data open wants whole nodes: exit 2" "$rc" 2
sed 's/time: 10,/time: 10, nodes: 6,/; s/data: 2, //; s/global_batch: 32/global_batch: 24/' run.yaml >auto.yaml
run $submit auto.yaml --print
like "and takes as many as it is given" "$out" '^#SBATCH --nodes=6$'

# --- hostile names ------------------------------------------------------------------------------
fresh
hostile="a'b \"c\" \$(touch broken) ; touch broken #%j"
mkdir "$hostile" && cd "$hostile" || exit 1
ln -s "$tmp"/place/tok* .
sed "s|out/try|\"o'u t\$(touch broken)%j\"|; s|name: try|name: \"\$(touch broken)\"|" "$tmp/place/run.yaml" >"-x'\$(touch broken).yaml"
run $submit --print -- "-x'\$(touch broken).yaml"
is "a hostile folder, run and file" "$rc" 0
printf '%s\n' "$out" | sed 's|^exec [^ ]*sennit-run exec --site testcluster|printf %s|' >"$tmp/hostile.sh"
like "give a script" "$(head -1 "$tmp/hostile.sh")" bash
run sh "$tmp/hostile.sh"
is "that runs with the file's own name" "$out" "./-x'\$(touch broken).yaml"
ok "and does nothing else" test ! -e broken
run $submit -- "-x'\$(touch broken).yaml"
is "and can be submitted" "$rc" 0
ok "and does nothing else" test ! -e broken
cd "$tmp/place" || exit 1

# --- LSF, and no scheduler at all ---------------------------------------------------------------
fresh
sed 's/time: 10,/time: 10, account: bank,/; s/--mail-type=FAIL/-N/' run.yaml >lsf.yaml
run $submit lsf.yaml --site lassen --chain 2
is "jobs of LSF are submitted" "$(echo "$out" | tr '\n' ' ')" '7 8 '
is "the second after the first" "$(tr '\n' ';' <"$FAKE/calls")" 'bsub ;bsub -w ended(7);'
like "with the script" "$(cat "$FAKE/script")" '^#BSUB -nnodes 4$'
like "though nobody takes them any more" "$err" 'lassen has retired'
fresh
PATH=$tmp/none run $submit run.yaml --print
is "without Slurm's programs a script can be had" "$rc" 0
like "by the profile alone" "$err" 'preemption: requeue, 10 s of grace \(by the profile alone: scontrol is not on PATH\)'
PATH=$tmp/none run $submit run.yaml
is "but no job is submitted" "$rc" 1
like "and it is said what would work" "$err" 'sbatch is not on PATH; submit from a login node, or see the script with --print'
cd "$root" || exit 1
tap_done
