#!/bin/sh
# chunks.sh - tokens that go to their experts all at once, and in chunks, one while another is computed: step
# times beside the plan's, and what layout.expert_chunks: auto takes.
#
# usage: tests/bench/pace/chunks.sh [REGIME...]   default: all of them; root only, else it says that it skips
#        and exits with 77
#
# even        messages and products of a layer take about as long: where chunks should pay most
# fast        a device 20 times as fast: nothing to hide messages behind
# slow        one a tenth as fast: messages are short beside products
# shares      as even, 2 x 2 ranks, tensor ranks share windows: exchange, gather and products of three chunks at once
#
# STEPS (6) and REPEATS (1) in the environment replace the defaults. 4 ranks on 2 hosts (netns.sh); they sleep
# instead of computing and communicate for real. Links are measured by pace/links before the first regime; the
# device is made up; nothing is fitted to the results. Before anything is timed all layouts have the same losses,
# computing.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-200mbit} steps=${STEPS:-6} ranks=4 hosts=2
family=mixtral layers=2 hidden=256 ffn=512 seq=256 batch=4
model=', experts: {count: 4, top_k: 2, aux_loss: 0}'
flat='data: 4, expert: 4, placement: default, expert_node: 1'
shared='data: 2, tensor: 2, expert: 2, sequence_parallel: false, drop_duplicates: true, placement: default'

leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

check() {
    for base in "$flat" "$shared"; do
        for c in 1 2 4; do
            layout="$base, expert_chunks: $c"
            steps=3 losses $ranks "$tmp/losses-$c"
            [ "$c" = 1 ] || same_losses "$tmp/losses-1" "$tmp/losses-$c" "$c chunks of ${base%%, placement*}"
        done
    done
}

device() { # flops
    printf 'device: {memory: 1GiB, bandwidth: 1.0e12, overhead: 0.0, peak: {fp32: %s}}\n' "$1"
}

one() { # regime chunks
    layout="$base, expert_chunks: $2"
    planned_and_paced $ranks
    sed 's/expert_chunks: [0-9]*/expert_chunks: auto/' "$tmp/p.yaml" >"$tmp/auto.yaml"
    auto=$("$BUILD/bin/sennit-plan" "$tmp/auto.yaml" --ranks $ranks --json | sed 's/.*"expert_chunks": \([0-9]*\).*/\1/')
    [ "$2" != 1 ] || { m0=$m && p0=$p; }
    awk -v r="$1" -v n="$2" -v a="$auto" -v m="$m" -v p="$p" -v m0="$m0" -v p0="$p0" 'BEGIN {
        printf "| %s | %d%s | %.0f | %.2f | %.0f | %.2f |\n", r, n, a == n ? ", auto" : "", m * 1e3, m0 / m, p * 1e3, p0 / p }'
}

prepare
[ -x "$BUILD/tests/bench/pace/links" ] || make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
check
LAUNCH="nice -n -19 $netns run $tmp/n"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
$netns up "$tmp/n" $hosts "$rate" || exit # 77: it has said why not
$LAUNCH $ranks "$BUILD/tests/bench/pace/links" $hosts >"$tmp/links"
printf '\n| regime | chunks | measured ms | times as fast | predicted ms | times as fast |\n|---|---|---|---|---|---|\n'
for regime in ${*:-even fast slow shares}; do
    base=$flat flops=${FLOPS:-8.0e9}
    case $regime in
    even) ;;
    fast) flops=1.6e11 ;;
    slow) flops=8.0e8 ;;
    shares) base=$shared ;;
    *) die "no regime '$regime'; want even, fast, slow or shares" ;;
    esac
    device "$flops" | measured_machine $((ranks / hosts))
    for c in 1 2 4 8; do one "$regime" $c; done
done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
