#!/bin/sh
# random.sh - FAULTS (20) random faults in one chain; the weights at the end are those of a run in one go.
#
# Prints the seed that it took (SEED=N repeats its choices).
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 6
slow_links 10mbit
make_tokens "$tmp/tok"
seed=${SEED:-$(date +%s)} faults=${FAULTS:-20}
echo "# seed $seed"
batch=8 eval_every=0 layout="data: 2, tensor: 2, pipeline: 2" steps=$((faults * 25 + 60)) every=10 hang=15
slurm="spares: 1, attempts: 1000, idle_attempts: 20"
job_file "$tmp/ref.yaml" "$tmp/ref"
reference 8 "$tmp/ref.yaml"
all=$(wc -l <"$SENNIT_CLUSTER/nodes.list")

# The k-th number of a sequence: 0 .. N-1.
draw() { # k n
    awk -v s="$seed" -v k="$1" -v n="$2" 'BEGIN { srand(s); for (i = 0; i < k; i++) x = rand(); print int(x * n) }'
}

# A node that the newest launch uses.
node_of() { # number
    events "$o" launch | tail -n 1 | sed 's/.*"nodes": *\[\([^]]*\)\].*/\1/; s/[", ]\{1,\}/ /g' |
        awk -v k="$1" '{ print $(1 + k % NF) }'
}

# One of them, but not that of the batch script, with which the supervisor would go.
victim() { # number
    victim_n=$(node_of "$1")
    [ "$victim_n" != "$(outside scontrol show job "$job" | sed -n 's/^ *BatchHost=//p')" ] || victim_n=$(node_of $(($1 + 1)))
    echo "$victim_n"
}

trains_again() { # ends and starts so far: a newer launch has made a step, or the last one
    in_state "$job" COMPLETED && return 0
    [ "$(events "$o" end | wc -l)" -gt "$1" ] && [ "$(events "$o" running | wc -l)" -gt "$2" ]
}

# Faults that end the attempt; whatever is broken is mended, so that the next can be anything.
do_fault() { # number
    ended=$(events "$o" end | wc -l) ran=$(events "$o" running | wc -l)
    n=$(draw $((2 * $1 + 1)) 97)
    case $(draw $((2 * $1)) 7) in
    0) node=$(victim "$n") && kind="node $node dies" && fault end-node "$node" ;;
    1) kind="rank $((n % 8)) is killed" && fault kill-rank "$job" $((n % 8)) ;;
    2) kind="rank $((n % 8)) stops" && fault stop-rank "$job" $((n % 8)) ;;
    3) node=$(victim "$n") && kind="the link of $node is cut" && fault cut "$node" ;;
    4) kind="scancel --signal=USR2" && outside scancel --signal=USR2 "$job" ;;
    5) kind="preempted" && preempt "$all" 1 ;;
    6) kind="save-and-exit, and the controller restarts" && touch "$o/save-and-exit" && fault restart-controller ;;
    esac
    echo "# $1: step $(last_step "$o"): $kind"
    must "$1: $kind: it trains again" wait_until 240 trains_again "$ended" "$ran"
    case $kind in
    *cut) fault mend "$node" ;;
    *dies) fault start-node "$node" || : ;;
    esac
}

exec_job random 5 2 --no-kill
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
same_losses "losses are those of a run in one go, bit for bit" "$o" "$one"
run "$BUILD/bin/sennit-convert" --diff "$o/ckpt/step-$(printf %08d "$steps")" "$one/ckpt/step-$(printf %08d "$steps")"
is "and so are the weights (sennit-convert --diff)" "$rc" 0
echo "# $(events "$o" launch | wc -l) launches, $(state "$job")"
tap_done
