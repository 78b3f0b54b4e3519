#!/bin/sh
# traffic.sh - bytes that the interfaces of the leaf switches counted are the bytes that were planned.
#
# Two nodes at different leaf switches, the tensor axis inside them: what crosses between the leaves is the
# traffic of the other axes. Start and end are taken off by the difference of a longer and a shorter run.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 8
make_tokens "$tmp/tok"
batch=8 eval_every=0 layers=4 hidden=192 ffn=384
last=$(tail -n 1 "$SENNIT_CLUSTER/nodes.list")

leaves_sent() {
    tests/cluster/counters | awk '/^leaf/ { s += $2 } END { printf "%.0f\n", s }'
}

# Bytes between the leaves of a run on 2 nodes x 4 ranks.
count_run() { # name steps: sets $bytes
    steps=$2
    job_file "$tmp/$1.yaml" "$tmp/$1"
    before=$(leaves_sent)
    run outside env SLURM_PMIX_FENCE=ring srun -N 2 -w "n0,$last" --ntasks-per-node=4 "$PWD/$BUILD/bin/sennit-train" "$tmp/$1.yaml"
    is "$1: $2 steps are trained" "$rc" 0
    bytes=$(($(leaves_sent) - before))
}

# What the map says goes between the leaves: of whole axes only where the nodes hold whole groups of the others.
between() { # run
    sed -n 's/.*"level": "spine"[^}]*"bytes_arranged": \([0-9]*\).*/\1/p' "$tmp/$1/map.json"
}

planned() { # run-file axis; a compressed plan has another such object behind its own
    "$BUILD/bin/sennit-plan" "$1" --ranks 8 --json | grep -o '"traffic_bytes": {[^}]*' | head -n 1 |
        sed -n "s/.*\"$2\": \([0-9]*\).*/\1/p"
}

crossing() { # name axis|- layout
    layout=$3
    count_run "$1-short" 5
    few=$bytes
    count_run "$1-long" 25
    counted=$(((bytes - few) / 20))
    plan=$(between "$1-long")
    [ "$2" = - ] || ok "$1: between the leaves goes the axis $2, and sums of the world" \
        awk -v p="$plan" -v a="$(planned "$tmp/$1-long.yaml" "$2")" 'BEGIN { exit !(p >= a && p <= 1.01 * a) }'
    over=$(awk "BEGIN { printf \"%.2f\", 100 * ($counted - $plan) / $plan }")
    echo "# $1: planned $plan bytes a step, counted $counted: $over % more"
    ok "$1: at least what was planned has crossed" test "$counted" -ge "$plan"
    ok "$1: and at most 5 % more: headers, acknowledgements, the world's sums" \
        awk "BEGIN { exit !($counted <= 1.05 * $plan) }"
}

crossing data data "data: 2, tensor: 4"
crossing pipeline pipeline "pipeline: 2, tensor: 4"
crossing zero - "data: 2, tensor: 4, zero: 3"
crossing compressed data "data: 2, tensor: 4, zero: 1, compress: {data: int8, zero: int4-diff}"
tap_done
