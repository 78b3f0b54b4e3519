#!/bin/sh
# monitor.sh - after how many steps a slow link or core of eight is named (run.monitor), on eight hosts of netns.sh.
#
# usage: tests/bench/pace/monitor.sh [RATE]              (default 200mbit; root only)
#        QUIET_STEPS=10000 tests/bench/pace/monitor.sh [RATE]
#
# With QUIET_STEPS nothing is slowed: so many short steps of eight ranks with the monitor, and as many without it, in four turns,
# of a model of WIDTH (32). Prints who was named, which must be nobody, and the median step with it over that without.
#
# Paced runs of eight ranks, one on each host; their layouts are data 8, one group, and tensor 2, pipeline 2, data 2. After
# step QUIET the link of one host falls to half of RATE in both directions; a core is slower by a third from the start, which
# peers of the same work tell after the ten steps of learning. Prints for each the step of the fault, the step in which it was
# named, and the sentence; fails where it is not named within 10 steps (12 of the start), or somebody else is. SEEDS: how often; ONLY=data
# or tensor: one of them.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${1:-200mbit} QUIET=${QUIET:-20} SEEDS=${SEEDS:-1}
half=$(echo "${rate%mbit}" | awk "{ printf \"%dkbit\", \$1 * 500 }") # of so many Mbit/s
dir=$(mktemp -d)
trap '$netns down "$dir/n"; rm -rf "$dir" "$tmp"' EXIT
rc=0
$netns up "$dir/n" 8 "$rate" || rc=$?
[ $rc != 77 ] || exit 0
[ $rc = 0 ] || exit $rc
id=$(awk '{ print $3 }' "$dir/n/hosts")
prepare
layers=4 steps=$((QUIET + 12))
machine "$tmp/m.yaml" 4.0e9
machine "$tmp/slow.yaml" 3.0e9

shape() { # host rate
    tc qdisc change dev "${id}h$1" root tbf rate "$2" burst 16384 limit 64mb
    ip netns exec "$id-$1" tc qdisc change dev eth0 root tbf rate "$2" burst 16384 limit 64mb
}

lines() {
    cat "$tmp/out/pace.jsonl" 2>/dev/null | wc -l
}

start() { # rank that is slow, -1: none; monitor
    rm -rf "$tmp/out"
    run_file "$tmp/r.yaml" "$tmp/out"
    sed -i "/^run:/s/}\$/, monitor: ${2:-true}}/" "$tmp/r.yaml"
    echo "machine: {file: $tmp/m.yaml}" >>"$tmp/r.yaml"
    cat >"$tmp/rank.sh" <<SH
m=$tmp/m.yaml
[ "\$OMPI_COMM_WORLD_RANK" != $1 ] || m=$tmp/slow.yaml
exec $train $tmp/r.yaml --pace \$m
SH
    $netns run "$dir/n" 8 sh "$tmp/rank.sh" >"$tmp/log" 2>&1 </dev/null &
    job=$!
}

judge() { # what fault-step most pattern
    wait "$job" || { cat "$tmp/log" >&2 && die "$1: the run failed"; }
    grep -E '^step [0-9]+: .* since step' "$tmp/log" | grep -v 'no longer so' >"$tmp/named" || :
    first=$(grep -E "$4" "$tmp/named" | head -n 1)
    step=$(echo "$first" | sed 's/^step \([0-9]*\):.*/\1/')
    if [ -n "$first" ] && [ $((step - $2)) -le "$3" ] && ! grep -vE "$4" "$tmp/named" >&2; then
        echo "$1: from step $2 on, named after step $step: ${first#*: }"
    else
        echo "$1: from step $2 on: not named in $3 steps, or not alone:"
        cat "$tmp/named"
        bad=1
    fi
}

# In turns, so that what else the machine does meets both.
quiet() { # steps
    layers=2 hidden=${WIDTH:-32} ffn=$((${WIDTH:-32} * 11 / 4)) seq=32 batch=8 layout="data: 8" steps=$(($1 / 4)) bad=0
    for _ in 1 2 3 4; do
        for monitor in true false; do
            start -1 $monitor
            wait "$job" || { cat "$tmp/log" >&2 && die "the run failed"; }
            column step_time_s "$tmp/out/pace.jsonl" | tail -n +2 >>"$tmp/times-$monitor"
            ! grep -E '^step [0-9]+: .* since step' "$tmp/log" || bad=1
        done
    done
    echo "$((steps * 4)) quiet steps, median $(middle true) ms with the monitor, $(middle false) ms without:" \
        "$(calc "$(middle true) / $(middle false)") times; $([ $bad = 0 ] && echo nobody was || echo somebody was) named"
    exit $bad
}

middle() { # true|false: milliseconds
    sort -n "$tmp/times-$1" | awk '{ t[NR] = $1 * 1e3 } END { printf "%.3f", t[int((NR + 1) / 2)] }'
}

[ -z "${QUIET_STEPS:-}" ] || quiet "$QUIET_STEPS"
bad=0
for seed in $(seq "$SEEDS"); do
    for layout in "data: 8" "tensor: 2, pipeline: 2, data: 2"; do
        [ -z "${ONLY:-}" ] || [ "$ONLY" = "${layout%%:*}" ] || continue
        # What crosses a link takes ten milliseconds and more: less says little of it.
        case $layout in data*) hidden=192 ffn=512 seq=64 batch=16 ;; *) hidden=256 ffn=688 seq=256 batch=8 ;; esac
        host=$((seed % 8 + 1))
        start -1
        while [ "$(lines)" -lt "$QUIET" ] && kill -0 "$job" 2>/dev/null; do sleep 0.02; done
        shape "$host" "$half"
        judge "$layout, link of host $host at $half" "$(($(lines) + 1))" 10 "the link of $id-$host takes"
        shape "$host" "$rate"
        rank=$((seed * 3 % 8))
        start "$rank"
        judge "$layout, core of rank $rank slower by a third" 1 12 "rank $rank .* computes"
    done
done
exit $bad
