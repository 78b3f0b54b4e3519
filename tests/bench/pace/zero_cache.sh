#!/bin/sh
# zero_cache.sh - ZeRO 3 with gathered weights that stay in some layers (layout.zero_cache): steps and bytes beside the plan's.
#
# usage: tests/bench/pace/zero_cache.sh       root only, else it says that it skips and exits with 77
#
# STEPS (6), REPEATS (2), RATE (200mbit), FLOPS (2.0e10) and MICROS (micro-batches of a rank, 2) in the environment replace the
# defaults. 8 ranks on 4 hosts (netns.sh); they sleep instead of computing and communicate for real. Links are measured by
# pace/links before; nothing is fitted to the results. Before anything is timed all have the losses of none kept, to the last digit.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-200mbit} steps=${STEPS:-6} ranks=8 hosts=4 micros=${MICROS:-2} flops=${FLOPS:-2.0e10}
layers=8 hidden=256 ffn=704 seq=128 batch=$((ranks * micros))
base='data: 8, zero: 3, placement: default'

leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

device() {
    echo "device: {memory: 1GiB, bandwidth: 1.0e12, overhead: 0.0, peak: {fp32: $flops}}"
}

check() {
    for n in 0 1 4 10; do
        layout="$base, zero_cache: $n"
        steps=3 losses $ranks "$tmp/losses-$n"
    done
    for n in 1 4 10; do cmp "$tmp/losses-0" "$tmp/losses-$n"; done
}

one() { # zero_cache
    layout="$base, zero_cache: $1"
    planned_and_paced $ranks
    sent=$(sed 's/.*"traffic_bytes": {\([^}]*\)}.*/\1/' "$tmp/plan.json" | tr ',' '\n' | sed -n 's/.*"data": *//p')
    [ "$1" != 0 ] || { m0=$m && p0=$p && s0=$sent; }
    awk -v n="$1" -v m="$m" -v p="$p" -v m0="$m0" -v p0="$p0" -v s="$sent" -v s0="$s0" 'BEGIN {
        printf "| %s | %.0f | %.3f | %.0f | %.3f | %.1f | %.2f |\n", n == 10 ? "all" : n, m * 1e3, m0 / m, p * 1e3, p0 / p, s / 1e6, s / s0 }'
}

prepare
make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
check
LAUNCH="nice -n -19 $netns run $tmp/n"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
$netns up "$tmp/n" $hosts "$rate" || exit # 77: it has said why not
$LAUNCH $((2 * hosts)) "$BUILD/tests/bench/pace/links" $hosts >"$tmp/links"
device | measured_machine $((ranks / hosts))
printf '\n| kept | measured ms | times as fast | predicted ms | times as fast | MB sent | of none |\n'
echo '|---|---|---|---|---|---|---|'
for n in 0 1 2 4 6 8 10; do one $n; done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
