#!/bin/sh
# zero_node.sh - ZeRO 3 over all replicas, and inside groups of neighbours (layout.zero_node), where hosts are far from each
# other: steps and bytes between hosts, beside the plan's.
#
# usage: tests/bench/pace/zero_node.sh       root only, else it says that it skips and exits with 77
#
# STEPS (6), REPEATS (2), RATE (200mbit) and MICROS (micro-batches of a rank, 2) in the environment replace the defaults. 16
# ranks on 4 hosts (netns.sh); they sleep instead of computing and communicate for real. Links are measured by pace/links
# before; nothing is fitted to the results. Before anything is timed all layouts have the losses of ZeRO 3, computing, but for the
# order of sums.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-200mbit} steps=${STEPS:-6} ranks=16 hosts=4 micros=${MICROS:-2}
layers=4 hidden=256 ffn=704 seq=64 batch=$((ranks * micros))
base='data: 16, zero: 3, placement: default'

leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

device() {
    echo 'device: {memory: 1GiB, bandwidth: 1.0e12, overhead: 0.0, peak: {fp32: 1.0e12}}'
}

check() {
    for node in 0 2 4 8; do
        layout="$base, zero_node: $node"
        steps=3 losses $ranks "$tmp/losses-$node"
    done
    for node in 2 4 8; do same_losses "$tmp/losses-0" "$tmp/losses-$node" "zero_node: $node"; done
}

one() { # zero_node
    layout="$base, zero_node: $1"
    planned_and_paced $ranks
    level=$(sed 's/.*"traffic_by_level": {\([^}]*\)}.*/\1/' "$tmp/plan.json" | tr ',' '\n' | grep -v '"host"' | sed 's/.*: //' | awk '{ s += $1 } END { print s }')
    [ "$1" != 0 ] || { m0=$m && p0=$p && l0=$level; }
    awk -v n="$1" -v m="$m" -v p="$p" -v m0="$m0" -v p0="$p0" -v l="$level" -v l0="$l0" 'BEGIN {
        printf "| %s | %.0f | %.2f | %.0f | %.2f | %.1f | %.2f |\n", n == 0 ? "all 16" : n, m * 1e3, m0 / m, p * 1e3, p0 / p,
            l / 1e6, l / l0 }'
}

prepare
make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
check
LAUNCH="nice -n -19 $netns run $tmp/n"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
$netns up "$tmp/n" $hosts "$rate" || exit # 77: it has said why not
$LAUNCH $((2 * hosts)) "$BUILD/tests/bench/pace/links" $hosts >"$tmp/links"
device | measured_machine $((ranks / hosts))
printf '\n| slices over | measured ms | times as fast | predicted ms | times as fast | MB between hosts | of all 16 |\n'
echo '|---|---|---|---|---|---|---|'
for node in 0 2 4 8; do one $node; done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
