# lib.sh - what the scenarios on the test cluster share. Source after tap.sh and train.sh, from the
# root of the tree:
#
#   . tests/lib/tap.sh
#   . tests/lib/train.sh
#   . tests/cluster/lib.sh
#   cluster_begin 4                    # or takes the one of $SENNIT_CLUSTER, if that stands
#   job=$(submit "$tmp/job.sh" -N 4)
#   ok "it runs" wait_state "$job" RUNNING 60
#   tap_done
#
# Deadlines are several times what an idle machine with two cores needs.
# shellcheck shell=sh disable=SC2034,SC2154
cluster_own=

cluster_down() {
    [ -z "$cluster_own" ] || tests/cluster/down
    [ -n "${KEEP:-}" ] || rm -rf "$tmp"
}

# A cluster for this scenario; where none can be made the whole test is skipped, aloud.
cluster_begin() { # nodes
    trap cluster_down EXIT
    trap 'exit 130' INT TERM HUP
    if [ -n "${SENNIT_CLUSTER:-}" ] && [ -f "$SENNIT_CLUSTER/things" ]; then
        [ "$(wc -l <"$SENNIT_CLUSTER/nodes.list")" -ge "$1" ] || {
            echo "1..0 # SKIP the cluster that stands has too few nodes; want $1"
            exit 0
        }
        cluster_heal
        return
    fi
    SENNIT_CLUSTER=$(mktemp -d)
    export SENNIT_CLUSTER
    cluster_own=1
    if ! tests/cluster/up "$@" >"$tmp/up" 2>&1; then
        if grep -q SKIPPED "$tmp/up"; then
            rm -rf "$SENNIT_CLUSTER"
            cluster_own=
            echo "1..0 # SKIP $(sed -n 's/.*SKIPPED: //p' "$tmp/up")"
            exit 0
        fi
        tap_lines up "$(cat "$tmp/up")"
        ok "a Slurm of $1 nodes stands" false
        tap_done
    fi
    ok "a Slurm of $1 nodes stands" true
}

# What an earlier scenario has left behind: jobs, dead nodes, cut and slow links, a full disk.
cluster_heal() {
    outside scancel --quiet --signal=KILL --full -u "$(id -un)" 2>/dev/null || :
    outside scancel --quiet -u "$(id -un)" || :
    fault unfill
    while read -r heal_n; do
        fault mend "$heal_n"
        fault fast "$heal_n" 2>/dev/null || :
        fault start-node "$heal_n" 2>/dev/null || :
        outside scontrol update "NodeName=$heal_n" State=RESUME 2>/dev/null || :
    done <"$SENNIT_CLUSTER/nodes.list"
    for heal_n in leaf0 leaf1; do fault fast $heal_n 2>/dev/null || :; done
    wait_until 60 no_jobs || :
}

no_jobs() {
    [ -z "$(outside squeue -h -o %i)" ]
}

outside() { # command...
    tests/cluster/in outside "$@"
}

fault() { # as tests/cluster/fault
    tests/cluster/fault "$@"
}

submit() { # script option...: prints the job's number
    submit_s=$1
    shift
    outside sbatch --parsable --open-mode=append --output="$tmp/%j.out" "$@" "$submit_s"
}

state() { # job
    outside squeue -h -t all -j "$1" -o %T 2>/dev/null | head -n 1
}

in_state() { # job pattern
    state "$1" | grep -qE "^($2)\$"
}

# As ok, but what comes after would have no sense without it: the test ends, with what is known of the job.
must() { # sentence command...
    must_f=$tap_failed
    ok "$@"
    [ "$tap_failed" != "$must_f" ] || return 0
    if [ -n "${job:-}" ]; then
        tap_lines job "$(outside scontrol show job "$job" | head -n 20)"
        [ ! -f "$tmp/$job.out" ] || tap_lines out "$(tail -n 30 "$tmp/$job.out")"
        [ ! -f "$o/journal.jsonl" ] || tap_lines journal "$(cut -c 1-400 "$o/journal.jsonl" | tail -n 12)"
        outside scancel "$job"
    fi
    tap_done
}

# Repeats a command until it succeeds.
wait_until() { # seconds command...
    wait_end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$wait_end" ] || return 1
        sleep 0.2
    done
}

# False at once when the job has ended otherwise.
wait_state() { # job pattern seconds
    wait_until "$3" in_state "$1" "$2|COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL" && in_state "$1" "$2"
}

has_step() { # output step
    grep -q "^{\"step\": $2," "$1/metrics.jsonl" 2>/dev/null
}

step_or_end() { # output step
    has_step "$1" "$2" || in_state "${job:-0}" 'COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL'
}

# False at once when the job has ended without it.
wait_step() { # output step seconds
    wait_until "$3" step_or_end "$1" "$2" && has_step "$1" "$2"
}

events() { # output event: lines of the journal
    grep "\"event\": *\"$2\"" "$1/journal.jsonl" 2>/dev/null
}

has_event() { # output event
    events "$1" "$2" >/dev/null
}

# Links so slow that a step of a small model takes a known while (a tenth of a second or two), however fast
# this host is: things can be done to a run while it runs, and nobody burns a processor meanwhile.
slow_links() { # rate
    while read -r slow_n; do fault slow "$slow_n" "$1"; done <"$SENNIT_CLUSTER/nodes.list"
}

fast_links() {
    while read -r fast_n; do fault fast "$fast_n"; done <"$SENNIT_CLUSTER/nodes.list"
}

# A small llama: OUTPUT and lines of the run file's other sections. Variables as in train.sh's run_file,
# and: layout="data: 2, tensor: 4", slurm="attempts: 3", hang=10 (seconds). No preflight (preflight=true):
# more ranks than processors, on slow links, would not pass.
job_file() { # path output
    run_file "$1" "$2"
    sed -i "s/threads: 1}/threads: 1, hang_timeout: ${hang:-60}}/; s/layout: {/layout: {${layout:+$layout, }/" "$1"
    echo "slurm: {preflight: ${preflight:-false}${slurm:+, $slurm}}" >>"$1"
}

# The batch script of a run: what `sennit-run submit` renders, less the site.
batch_file() { # path run-file [option of exec...]
    batch_p=$1
    shift
    cat >"$batch_p" <<SH
#!/bin/sh
exec "$PWD/$BUILD/bin/sennit-run" exec $*
SH
}

# All losses of a run, one "step loss" a line.
losses() { # output
    sed -n 's/^{"step": \([0-9]*\), "loss": \([-0-9.e+]*\),.*/\1 \2/p' "$1/metrics.jsonl"
}

same_losses() { # sentence output reference
    losses "$2" >"$tmp/.a"
    losses "$3" >"$tmp/.b"
    ok "$1" cmp -s "$tmp/.a" "$tmp/.b"
    cmp -s "$tmp/.a" "$tmp/.b" || tap_lines diff "$(diff "$tmp/.a" "$tmp/.b" | head -n 6)"
}

# Relative: other layouts sum in another order.
near_losses() { # sentence output reference limit
    losses "$2" | cut -d ' ' -f 2 >"$tmp/.a"
    losses "$3" | cut -d ' ' -f 2 >"$tmp/.b"
    within "$1" "$(worst "$tmp/.a" "$tmp/.b")" "$4"
}

# The same run in one go on this host, without Slurm: what all others are held to. Scenarios that share
# a cluster share it.
reference() { # ranks run-file: sets $one, its output
    reference_k=$( (echo "$1" && sed "s|$tmp|TMP|g; s|output: [^,]*,||" "$2" && cksum <"$tmp/tok.bin") |
        cksum | tr ' ' -)
    one=$SENNIT_CLUSTER/reference-$reference_k
    if [ ! -f "$one/done" ]; then
        sed "s|output: [^,]*,|output: $one,|; /^slurm:/d" "$2" >"$one.yaml"
        if [ "$1" = 1 ]; then
            run "$BUILD/bin/sennit-train" "$one.yaml"
        else
            run mpi "$1" "$BUILD/bin/sennit-train" "$one.yaml"
        fi
        [ "$rc" = 0 ] || tap_lines err "$(printf '%s' "$err" | tail -n 5)"
        must "the run in one go ends" test "$rc" = 0
        touch "$one/done"
    fi
}

# A run under `sennit-run exec`: writes the run file, submits the batch script, sets $job and $o.
exec_job() { # name nodes ranks-per-node [sbatch option...]
    o=$tmp/$1
    job_file "$tmp/$1.yaml" "$o"
    batch_file "$tmp/$1.sh" "$tmp/$1.yaml"
    exec_n=$2 exec_r=$3
    exec_name=$1
    shift 3
    job=$(submit "$tmp/$exec_name.sh" -J "$exec_name" -N "$exec_n" --ntasks-per-node="$exec_r" \
        --cpus-per-task=$((8 / exec_r)) --exclusive --requeue "$@")
    must "$exec_name: submitted as job $job" test -n "$job"
}

# Ended as a job should: finished, all steps done.
job_done() { # name seconds
    must "$1: it ends by itself" wait_state "$job" COMPLETED "$2"
    is "$1: all steps are done" "$(metric step "$o/metrics.jsonl" | tail -n 1)" "$steps"
}

# The newest step that is a whole checkpoint.
newest_checkpoint() { # output
    for newest_c in "$1"/ckpt/step-*/COMMIT; do
        newest_c=${newest_c%/COMMIT}
        newest_c=${newest_c##*/step-}
        case $newest_c in *[!0-9]*) continue ;; esac
        echo "$newest_c" | sed 's/^0*//'
    done | sort -n | tail -n 1
}

last_step() { # output
    metric step "$1/metrics.jsonl" | tail -n 1
}

# A member of a journal's line, as text.
member() { # key line
    printf '%s\n' "$2" | sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p"
}

# A job of a higher partition takes all nodes of the cluster for a moment.
preempt() { # nodes seconds: sets $intruder
    printf '#!/bin/sh\nsleep %s\n' "$2" >"$tmp/high.sh"
    intruder=$(submit "$tmp/high.sh" -J high -p high -N "$1" --exclusive)
    must "a job of a higher partition gets the nodes" wait_state "$intruder" 'RUNNING|COMPLETED' 120
}
