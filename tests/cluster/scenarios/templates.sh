#!/bin/sh
# templates.sh - the script of every Slurm site is taken by a Slurm whose nodes, partitions and submit filter
# are like that site's; what the site refuses is refused, and in its own words.
#
# Each site is a controller alone, whose nodes run nowhere (tests/cluster/sites/NAME.conf, .conf.gres and
# .lua): `sbatch --test-only` judges a job without any. SITES="templates/sites/NAME.yaml ..." takes some alone. Sites under LSF have golden scripts (tests/cli/test_submit.sh).
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
SENNIT_CLUSTER=$tmp/cluster
export SENNIT_CLUSTER
trap 'tests/cluster/down >/dev/null 2>&1; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

begin() { # site
    rm -rf "$SENNIT_CLUSTER"
    mkdir -p "$SENNIT_CLUSTER/etc"
    cp "tests/cluster/sites/$1.conf" "$tmp/site.conf"
    [ ! -f "tests/cluster/sites/$1.conf.gres" ] || cp "tests/cluster/sites/$1.conf.gres" "$tmp/site.conf.gres"
    if [ -f "tests/cluster/sites/$1.lua" ]; then
        cat "tests/cluster/sites/$1.lua" tests/cluster/sites/rules.lua >"$SENNIT_CLUSTER/etc/job_submit.lua"
        echo 'JobSubmitPlugins=lua' >>"$tmp/site.conf"
    fi
    run tests/cluster/up 0 --conf "$tmp/site.conf"
    if [ "$rc" = 77 ]; then
        echo "1..0 # SKIP ${err#*SKIPPED: }"
        exit 0
    fi
    ok "$1: a Slurm like it stands" test "$rc" = 0
    [ "$rc" = 0 ] || tap_lines up "$err"
}

finish() {
    tests/cluster/down >/dev/null 2>&1
    rm -f "$tmp"/site.conf*
}

outside() {
    tests/cluster/in outside "$@"
}

submit() {
    outside "$BUILD/bin/sennit-run" submit "$@"
}

# The golden script without one of its lines: is the filter awake?
refuses_without() { # site option words
    run submit "tests/golden/sites/$1.yaml" --print
    printf '%s\n' "$out" | grep -v -e "^#SBATCH $2" >"$tmp/less.sh"
    run outside sbatch --test-only "$tmp/less.sh"
    ok "$1: is not taken without $2" test "$rc" -ne 0
    like "$1: which the filter says" "$err" "HARD REJECTED: $3"
}

sites=0
for profile in ${SITES:-templates/sites/*.yaml}; do
    site=$(basename "$profile" .yaml)
    grep -q '^scheduler: slurm$' "$profile" || continue
    sites=$((sites + 1))
    begin "$site"
    run submit "tests/golden/sites/$site.yaml" --test-only --force
    ok "$site: its job would be taken" test "$rc" = 0
    like "$site: and when it would start" "$err" 'sbatch: Job [0-9]+ to start at .* in partition '
    if grep -q 'account: required' "$profile"; then
        refuses_without "$site" --account 'no account given'
    fi
    if grep -qE 'gpus: (gres|per-node)' "$profile" && [ -f "tests/cluster/sites/$site.lua" ]; then
        refuses_without "$site" '--g[rp]' 'no GPUs per node'
    fi
    if grep -q 'memory: required' "$profile"; then
        refuses_without "$site" --mem 'no memory'
    fi
    case $site in
    perlmutter) refuses_without "$site" --constraint 'no constraint' ;;
    leonardo) refuses_without "$site" --exclusive 'jobs have to be exclusive' ;;
    marenostrum5)
        # A profile that is wrong: the site's own words reach the user.
        sed 's/forbidden: \[.*\]/forbidden: []/; s/memory: forbidden/memory_value: 100G/' "$profile" >"$tmp/wrong.yaml"
        run submit "tests/golden/sites/$site.yaml" --site "$tmp/wrong.yaml" --test-only --force
        is "$site: where the profile is wrong, exit 1" "$rc" 1
        like "$site: with the filter's words" "$err" 'the job was not taken: .*HARD REJECTED: --mem is not allowed'
        sed 's/cpus_per_gpu: 20/cpus_per_gpu: 19/; /cpus_per_gpu_least/d' "$profile" >"$tmp/wrong.yaml"
        run submit "tests/golden/sites/$site.yaml" --site "$tmp/wrong.yaml" --test-only --force
        like "$site: of any kind" "$err" 'HARD REJECTED: cpus must be >= 20 x gpus'
        ;;
    vista)
        sed 's/account: proj1/account: proj1, extra: ["--nodelist=c601"]/' "tests/golden/sites/$site.yaml" >"$tmp/named.yaml"
        run submit "$tmp/named.yaml" --test-only --force
        is "$site: a job that names its nodes is refused here" "$rc" 2
        sed 's/forbidden: \[.*\]/forbidden: []/' "$profile" >"$tmp/wrong.yaml"
        run submit "$tmp/named.yaml" --site "$tmp/wrong.yaml" --test-only --force
        like "$site: as it would be there" "$err" 'jobs that name their nodes are deleted'
        ;;
    esac
    finish
done
[ -n "${SITES:-}" ] || ok "there are $sites sites under Slurm, 16 of them machines" test "$sites" = 18

# --- what sbatch reads of a hostile name is the name ------------------------------------------------
begin generic
hostile="$tmp/o'u t \"q\" #h \$(touch broken)"
sed "s|output: runs/golden|output: \"$(printf '%s' "$hostile" | sed 's/"/\\\\"/g')\"|; s|ranks_per_node: 4|ranks_per_node: 4, extra: [--comment=a b]|" \
    tests/golden/sites/generic.yaml >"$tmp/hostile.yaml"
run submit "$tmp/hostile.yaml" --force # its data and machine are not here
is "a job with a hostile output is submitted" "$rc" 0
[ "$rc" = 0 ] || tap_lines err "$err"
job=$out
shown=$(outside scontrol show job "$job")
like "sbatch reads a comment with a blank" "$shown" '^ *Comment=a b *$'
is "and the output's path as it is" "$(printf '%s\n' "$shown" | sed -n 's/^ *StdOut=//p')" "$hostile/slurm-$job.out"
like "where the job's script is kept" "$(ls "$hostile")" '^batch.sh$'
ok "and nothing else was done" test ! -e broken
outside scancel "$job"

# --- what scontrol really says ----------------------------------------------------------------------
in_partition() { # name
    sed "s|ranks_per_node: 4|ranks_per_node: 4, partition: $1|; s|runs/golden|$tmp/chain|" tests/golden/sites/generic.yaml >"$tmp/in.yaml"
    run submit "$tmp/in.yaml" --print
}
mkdir -p "$tmp/chain"
echo '{"step": 9, "step_time_s": 3}' >"$tmp/chain/metrics.jsonl"
echo '{"step": 9, "bytes": 1, "layout_s": 0, "copy_s": 20, "write_s": 70, "commit_s": 1}' >"$tmp/chain/checkpoints.jsonl"
in_partition scavenge
like "a partition that cancels without grace is known" "$err" 'preemption: cancel, 0 s of grace, 5 s between SIGTERM and SIGKILL'
like "that requeueing does nothing is warned of" "$err" 'PreemptMode is CANCEL: .*; submit with --chain'
like "that a save takes longer is warned of" "$err" 'GraceTime is 0: a preempted job has 5 s \(KillWait\), a step and a save take 94 s'
in_partition polite
like "a partition with time enough is known" "$err" 'preemption: requeue, 120 s of grace'
is "and nothing is warned of" "$(printf '%s\n' "$err" | grep -cE 'PreemptMode is|GraceTime is|KillWait')" 0
in_partition batch
like "a partition that says nothing has the cluster's rule" "$err" 'preemption: requeue, 0 s of grace'

run submit tests/golden/sites/generic.yaml --chain 3 --test-only --force
is "a chain would be taken" "$rc" 0
sed "s|runs/golden|$tmp/chain|" tests/golden/sites/generic.yaml >"$tmp/chain.yaml"
run submit "$tmp/chain.yaml" --chain 3 --force
is "three jobs of a chain" "$(printf '%s\n' "$out" | wc -l)" 3
waiting=0
for job in $out; do
    outside scontrol show job "$job" | grep -q 'Dependency=singleton' && waiting=$((waiting + 1))
done
is "of which two wait for the first" "$waiting" 2
for job in $out; do outside scancel "$job"; done
finish
tap_done
