#!/bin/sh
# map.sh - which process is which rank: fewer bytes between the leaf switches than in Slurm's order, as
# many as were planned, as the switches count them; the losses are the same bits.
#
# Two nodes at each leaf, a tensor group on each node. In Slurm's order (block) copies of a stage are neighbours
# under a leaf and stages lie under different leaves, though here stages send each other twice what copies do.
# shellcheck disable=SC2034,SC2154
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 8
make_tokens "$tmp/tok"
batch=96 micro=4 eval_every=0 layers=4 hidden=64 ffn=160

leaves_sent() {
    tests/cluster/counters | awk '/^leaf/ { s += $2 } END { printf "%.0f\n", s }'
}

column() { # key file: of all ranks, in one line
    sed -n "s/.*{\"rank\".*\"$1\": \"\{0,1\}\([^\",}]*\).*/\1/p" "$2" | tr '\n' ' '
}

# Bytes between the leaves of a run on 4 nodes x 4 ranks.
count_run() { # name steps: sets $bytes
    steps=$2
    job_file "$tmp/$1.yaml" "$tmp/$1"
    before=$(leaves_sent)
    run outside env SLURM_PMIX_FENCE=ring srun -N 4 -w n0,n1,n4,n5 --ntasks-per-node=4 --exclusive -K1 \
        "$PWD/$BUILD/bin/sennit-train" "$tmp/$1.yaml"
    is "$1: $2 steps are trained" "$rc" 0
    [ "$rc" = 0 ] || tap_lines err "$(printf '%s' "$err" | tail -n 8)"
    bytes=$(($(leaves_sent) - before))
}

placed() { # placement: sets $counted and $plan, bytes of a step between the leaves
    layout="data: 2, tensor: 4, pipeline: 2, placement: $1"
    count_run "$1-short" 5
    few=$bytes
    count_run "$1-long" 25
    counted=$(((bytes - few) / 20))
    plan=$(sed -n 's/.*"level": "spine"[^}]*"bytes_arranged": \([0-9]*\).*/\1/p' "$tmp/$1-long/map.json")
    echo "# $1: planned $plan bytes a step, counted $counted: $(awk "BEGIN { printf \"%.2f\", 100 * ($counted - $plan) / $plan }") % more"
    ok "$1: at least what was planned has crossed" test "$counted" -ge "$plan"
    ok "$1: and at most 5 % more: headers, acknowledgements" awk "BEGIN { exit !($counted <= 1.05 * $plan) }"
}

placed default
in_order=$counted
is "default: each process is the rank of its number" "$(column process "$tmp/default-long/map.json")" \
    '0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 '
is "default: ranks on nodes in the order of their names" \
    "$(column host "$tmp/default-long/map.json" | tr ' ' '\n' | uniq | tr '\n' ' ')" 'n0 n1 n4 n5 '
placed auto
fewer=$(awk "BEGIN { printf \"%.0f\", 100 * ($in_order - $counted) / $in_order }")
ok "arranged: $fewer % fewer bytes between the leaves, at least 30" test "$fewer" -ge 30
same_losses "losses are the same bits" "$tmp/auto-long" "$tmp/default-long"
is "map.json has the switches of every rank" \
    "$(column switch "$tmp/auto-long/map.json" | tr ' ' '\n' | sort | uniq -c | awk 'NF == 2 { printf "%s:%s ", $2, $1 }')" \
    'core.s0:8 core.s1:8 '
is "stages of a copy are under one leaf" \
    "$(column switch "$tmp/auto-long/map.json" | awk '{ for (i = 1; i <= 8; i++) n += $i == $(i + 8); print n }')" 8

# The same, predicted from the environment of the batch script.
cat >"$tmp/record.sh" <<SH
#!/bin/sh
env >"$tmp/job.env"
SH
job=$(submit "$tmp/record.sh" -N 4 -w n0,n1,n4,n5 --ntasks-per-node=4 --exclusive)
ok "a batch script records its environment" wait_state "$job" COMPLETED 60
run "$BUILD/bin/sennit-run" map "$tmp/auto-long.yaml" --env "$tmp/job.env" \
    --topology "$SENNIT_CLUSTER/etc/topology.conf" --json
printf '%s\n' "$out" >"$tmp/predicted.json"
for key in process host local switch; do
    is "sennit-run map predicts the $key of every rank" "$(column $key "$tmp/predicted.json")" \
        "$(column $key "$tmp/auto-long/map.json")"
done

# What srun was told wrong is named before anything is trained.
steps=20 layout="data: 2, tensor: 4"
job_file "$tmp/uneven.yaml" "$tmp/uneven"
printf 'n0\nn0\nn0\nn0\nn0\nn4\nn4\nn4\n' >"$tmp/hosts"
run outside env SLURM_PMIX_FENCE=ring SLURM_HOSTFILE="$tmp/hosts" srun -N 2 -n 8 -m arbitrary -K1 \
    "$PWD/$BUILD/bin/sennit-train" "$tmp/uneven.yaml"
is "five processes on one node and three on another: exit 2" "$rc" 2
like "the node is named" "$err" 'map: . processes on n[04], but . on n[04]; want the same number'
tap_done
