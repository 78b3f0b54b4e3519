#!/bin/sh
# random.sh - FAULTS (20) random faults in one chain of jobs: after each the verdict is the right one (cause,
# host, rank, decision, steps that are done again), and at the end losses and weights are those of a run in one go.
#
# Prints the seed that it took (SEED=N repeats its choices). KINDS="0 3 7" takes these kinds alone.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 6
slow_links 10mbit
make_tokens "$tmp/tok"
seed=${SEED:-$(date +%s)} faults=${FAULTS:-20}
kinds=${KINDS:-0 1 2 3 4 5 6 7 8 9 10 11}
echo "# seed $seed"
batch=8 eval_every=0 layout="data: 2, tensor: 2, pipeline: 2" steps=$((faults * 30 + 60)) every=10 hang=15
slurm="spares: 1, attempts: 1000, idle_attempts: 50"
job_file "$tmp/ref.yaml" "$tmp/ref"
reference 8 "$tmp/ref.yaml"
all=$(wc -l <"$SENNIT_CLUSTER/nodes.list")

# The k-th number of a sequence: 0 .. N-1.
draw() { # k n
    awk -v s="$seed" -v k="$1" -v n="$2" 'BEGIN { srand(s); for (i = 0; i < k; i++) x = rand(); print int(x * n) }'
}

# ---- where things are ------------------------------------------------------------------------------------
batch_host() {
    outside scontrol show job "$job" | sed -n 's/^ *BatchHost=//p'
}

# A node that the newest launch uses, but not that of the batch script, with which the supervisor would go.
victim() { # number
    events "$o" launch | tail -n 1 | sed 's/.*"nodes": *\[\([^]]*\)\].*/\1/; s/[", ]\{1,\}/\n/g' |
        awk -v k="$1" -v not="$(batch_host)" 'NF && $1 != not { n[m++] = $1 } END { print n[k % m] }'
}

# "RANK NODE" of the k-th task that runs now: the map says which rank a process is.
task() { # number
    fault ranks "$job" | awk -v k="$1" '{ line[n++] = $1 " " $3 } END { if (n) print line[k % n] }'
}
rank_of() { # process
    tr -d ' ' <"$o/map.json" | tr '{' '\n' | sed -n "s/.*\"rank\":\([0-9]*\),\"process\":$1,.*/\1/p"
}

process_of() { # rank
    tr -d ' ' <"$o/map.json" | tr '{' '\n' | sed -n "s/.*\"rank\":$1,\"process\":\([0-9]*\),.*/\1/p"
}

# ---- what is expected, set by each fault ----------------------------------------------------------------
expect() { # cause host rank action: patterns
    want_cause=$1 want_host=$2 want_rank=$3 want_action=$4 lost_most=$every
}
saved='it was asked to save and leave' asked='requeue|wait'

# Byte 2000 of the newest checkpoint's first shard, while nobody runs.
flip_newest() {
    flip_c=$o/ckpt/step-$(printf %08d "$(newest_checkpoint "$o")")
    flip_f=$(find "$flip_c" -name 'shard-*.h5' | sort | head -n 1)
    printf '\377\125' | dd of="$flip_f" bs=1 seek=$(($(stat -c %s "$flip_f") / 2)) conv=notrunc 2>/dev/null
}

# ---- faults -------------------------------------------------------------------------------------------------
node_dies() {
    node=$(victim "$n")
    kind="node $node dies"
    expect "a node died" "$node" -1 "retry|shrink|requeue"
    fault end-node "$node"
}

rank_is() { # signal words cause
    set -- "$1" "$2" "$3" "$(task "$n")"
    process=${4% *} host=${4#* }
    rank=$(rank_of "$process")
    kind="rank ${rank:-?} on $host (process $process) $2"
    expect "$3" "$host" "$rank" "retry|shrink"
    fault "$1" "$job" "$process"
}

# In the midst of its shard: tests/cluster/trap.c is loaded into every rank, and waits for this file.
stops_in_save() {
    shard=$(find "$o/ckpt/step-$(printf %08d "$(newest_checkpoint "$o")")" -name 'shard-*.h5' | sort |
        awk -F/ -v k="$n" '{ name[m++] = $NF } END { print name[k % m] }')
    rank=$(echo "$shard" | sed 's/shard-0*\([0-9][0-9]*\).h5/\1/')
    host=$(fault ranks "$job" | awk -v p="$(process_of "$rank")" '$1 == p { print $3 }')
    kind="rank $rank on $host stops in a save"
    expect "a rank hung" "$host" "$rank" "retry|shrink"
    printf %s "${shard%.h5}" >"$tmp/trap.new"
    mv "$tmp/trap.new" "$tmp/trap"
    must "$k: $kind" wait_until 60 test ! -e "$tmp/trap"
}

full() {
    kind="the disk is full, and free again"
    expect "the file system failed or is full" "" -1 retry
    lost_most=$((2 * every)) # the save that fails, and what ran beside it
    must "$k: $kind: an attempt ends" wait_until 120 is_full_until_an_end "$ended"
    fault unfill
}

# Older checkpoints that are removed make room.
is_full_until_an_end() { # ends so far
    has_ended "$1" && return 0
    fault fill 2>/dev/null || : # it may be full already
    return 1
}

flipped() {
    kind="a byte of the newest checkpoint changes while nobody runs"
    expect "$saved" "" -1 "$asked"
    outside scancel --signal=USR2 "$job"
    must "$k: $kind: it leaves" wait_until 120 has_ended "$ended"
    flip_newest
    lost_most=$((2 * every))
}

# A person ends the job, and submits it again later.
cancelled() {
    kind="scancel"
    expect "a person ended it" "" -1 stop
    outside scancel "$job"
    must "$k: scancel ends the job" wait_state "$job" CANCELLED 60
    sleep 7
    ok "$k: and it stays away" in_state "$job" CANCELLED
    again
}

do_fault() { # number
    ended=$(events "$o" end | wc -l) ran=$(events "$o" running | wc -l)
    n=$(draw $((2 * $1 + 1)) 97) k=$1 node=
    # A job that has lost nodes gets them back when it is requeued.
    case $(events "$o" launch | tail -n 1) in
    *'"relaid": true'*) which=5 ;;
    *) which=$(echo "$kinds" | awk -v i="$(draw $((2 * $1)) "$(echo "$kinds" | wc -w)")" '{ print $(i + 1) }') ;;
    esac
    case $which in
    0) node_dies ;;
    1) rank_is kill-rank "is killed" "a rank was lost" ;;
    2) rank_is stop-rank "stops" "a rank hung" ;;
    3) node=$(victim "$n") && kind="the link of $node is cut" && fault cut "$node"
        expect "a node died" "$node" -1 "retry|shrink|requeue" ;;
    4) kind="scancel --signal=USR2" && outside scancel --signal=USR2 "$job" && expect "$saved" "" -1 "$asked" ;;
    5) kind="preempted" && expect "it was preempted" "" -1 "$asked" && preempt "$all" 1 ;;
    6) kind="save-and-exit, and the controller restarts" && expect "$saved" "" -1 "$asked"
        touch "$o/save-and-exit" && fault restart-controller ;;
    7) # of two nodes, the spare's successor: too few are left
        spare=$(events "$o" launch | tail -n 1 | sed 's/.*"spares": *\["\([^"]*\)".*/\1/; s/^{.*//')
        [ -z "$spare" ] || [ "$spare" = "$(batch_host)" ] || fault end-node "$spare"
        node_dies
        kind="$kind${spare:+, after the spare $spare}" ;;
    8) full ;;
    9) flipped ;;
    10) stops_in_save ;;
    11) cancelled ;;
    esac
    echo "# $1: step $(last_step "$o"): $kind"
    must "$1: $kind: it trains again" wait_until 240 trains_again "$ended" "$ran"
    verdict "$1: $kind" "$ended"
    mend
}

mend() {
    [ -z "$node" ] || fault mend "$node"
    for mend_n in $node ${spare:-}; do fault start-node "$mend_n" 2>/dev/null || :; done
    spare=
}

# ---- what came of it ----------------------------------------------------------------------------------------
has_ended() { # ends so far
    [ "$(events "$o" end | wc -l)" -gt "$1" ]
}

# A controller that dies just after it started the job comes back without that start, starts the job beside itself and then holds it
# ("Duplicate jobid"): Slurm's own, which its operator mends.
is_held_by_slurm() {
    case $(outside scontrol show job "$job") in *Reason=launch_failed_requeued_held*) return 0 ;; *) return 1 ;; esac
}

trains_again() { # ends and starts so far: a newer launch has made a step, or the last one
    in_state "$job" COMPLETED && return 0
    if is_held_by_slurm; then
        echo "# Slurm holds the job, whose launch failed: released"
        for held_n in $(awk '{ print $1 }' "$SENNIT_CLUSTER/nodes.list"); do
            case $(outside scontrol show node "$held_n") in
            *Reason=Duplicate*) outside scontrol update NodeName="$held_n" State=RESUME ;;
            esac
        done
        outside scontrol release "$job"
    fi
    [ "$(events "$o" end | wc -l)" -gt "$1" ] && [ "$(events "$o" running | wc -l)" -gt "$2" ]
}

# From the record of the attempt after it, what `why` counts, and what is so.
verdict() { # name ends-before
    end=$(events "$o" end | sed -n "$(($2 + 1))p")
    v_attempt=$(member attempt "$end")
    like "$1: the cause" "$(member cause "$end")" "^($want_cause)\$"
    [ -z "$want_host" ] || is "$1: the host" "$(member host "$end")" "$want_host"
    is "$1: the rank" "$(member rank "$end")" "$want_rank"
    decision=$(grep "\"event\": *\"decision\".*\"attempt\": *$v_attempt,"  "$o/journal.jsonl" | tail -n 1)
    like "$1: the decision" "$(member action "$decision")" "^($want_action)\$"
    is "$1: nobody else is suspected" "$(grep "\"event\": *\"suspect\".*\"attempt\": *$v_attempt," "$o/journal.jsonl" |
        grep -v '"kind": *"straggler"' | sed 's/.*"host": *"\([^"]*\)".*/\1/' | grep -cvE "^($want_host|)\$")" 0
    why=$("$BUILD/bin/sennit-run" why "$o" --json | tr -d '\n' | sed 's/{"attempt"/\n&/g' | grep "^{\"attempt\": *$v_attempt,")
    v_step=$(member step "$end") v_next=$((v_attempt + 1)) v_from=
    while [ -z "$v_from" ] && [ $v_next -lt $((v_attempt + 4)) ]; do # srun may fail to begin one
        v_from=$(member from_step "$(cat "$o/attempt-$v_next.json" 2>/dev/null)")
        v_next=$((v_next + 1))
    done
    if [ -n "$v_from" ]; then
        v_lost=$((v_step > v_from ? v_step - v_from : 0))
        is "$1: steps that are done again, as \`why\` counts" "$(member lost_steps "$why")" $v_lost
        ok "$1: which are few ($v_lost)" test "$v_lost" -le "$lost_most"
    fi
}

# The next job of the same run.
again() {
    job=$(submit "$tmp/random.sh" -J random -N 5 --ntasks-per-node=2 --cpus-per-task=4 --exclusive --requeue --no-kill)
}

must "a library that stops a rank is made" gcc -shared -fPIC -o "$tmp/trap.so" tests/cluster/trap.c -ldl
exec_job random 5 2 --no-kill
outside scancel "$job"
wait_until 30 in_state "$job" CANCELLED
small=$SENNIT_CLUSTER/small/ckpt
rm -rf "$o" "$small"
mkdir -p "$o" "$small"
ln -s "$small" "$o/ckpt"
case " $kinds " in
*" 9 "*) sed -i 's/^checkpoint: {/checkpoint: {damaged: older, /' "$tmp/random.yaml" ;;
esac
sed -i "2i export LD_PRELOAD=$tmp/trap.so TRAP_ONCE=$tmp/trap" "$tmp/random.sh"
again
must "it trains" wait_step "$o" 5 120
k=1
while [ $k -le "$faults" ]; do
    must "$k: further steps" wait_step "$o" $(($(last_step "$o") + 1 + $(draw $((1000 + k)) 12))) 120
    in_state "$job" 'RUNNING' || break
    do_fault $k
    k=$((k + 1))
done
is "all faults happened" $((k - 1)) "$faults"
fast_links
job_done random 600
relaid=$(events "$o" launch | grep '"relaid": *true' | head -n 1)
echo "# $(events "$o" launch | wc -l) launches, $(events "$o" launch | grep -c '"relaid": *true') of them in another layout"
if [ -z "$relaid" ]; then
    same_losses "losses are those of a run in one go, bit for bit" "$o" "$one"
    run "$BUILD/bin/sennit-convert" --diff "$o/ckpt/step-$(printf %08d "$steps")" "$one/ckpt/step-$(printf %08d "$steps")"
    is "and so are the weights (sennit-convert --diff)" "$rc" 0
else
    v_from=$(member from_step "$(cat "$o/attempt-$(member attempt "$relaid").json")")
    losses "$o" | head -n "$v_from" >"$tmp/.c"
    losses "$one" | head -n "$v_from" >"$tmp/.d"
    ok "losses up to step $v_from, before another layout, are those of a run in one go, bit for bit" cmp -s "$tmp/.c" "$tmp/.d"
    near_losses "losses are those of a run in one go, partly in another layout" "$o" "$one" 1e-5
fi
tap_done
