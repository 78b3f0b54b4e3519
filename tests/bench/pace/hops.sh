#!/bin/sh
# hops.sh - the exchange of tokens in one hop and in two: step times where messages are dear and where they are
# not, beside the plan's, and what layout.expert_node: auto takes.
#
# usage: tests/bench/pace/hops.sh [REGIME...]     default: all of them; root only, else it says that it skips
#        and exits with 77
#
# dear        every packet counts OVERHEAD (20000) bytes more on its link, of RATE (200mbit); 32 tokens of a rank
# few         links without that; 32 tokens
# many        the same; 1024 tokens
#
# STEPS (6) and REPEATS (1) in the environment replace the defaults. 8 ranks on 4 hosts (netns.sh) share 8 experts
# out; they sleep instead of computing and communicate for real. Links, what a message costs among them, are
# measured by pace/links before each regime; nothing is fitted to the results. Before anything is timed both
# layouts have the same losses, computing.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-200mbit} dear=${OVERHEAD:-20000} steps=${STEPS:-6} ranks=8 hosts=4
family=mixtral layers=4 hidden=64 ffn=128 batch=8
model=', experts: {count: 8, top_k: 2, aux_loss: 0}'
base='data: 8, expert: 8, placement: default, expert_chunks: 1' # the run is told no machine, the plan is

leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

check() {
    seq=32
    for node in 1 2; do
        layout="$base, expert_node: $node"
        steps=3 losses $ranks "$tmp/losses-$node"
    done
    same_losses "$tmp/losses-1" "$tmp/losses-2" "two hops"
}

device() {
    echo 'device: {memory: 1GiB, bandwidth: 1.0e12, overhead: 0.0, peak: {fp32: 1.0e12}}'
}

one() { # regime, ranks of a node first
    layout="$base, expert_node: $2"
    planned_and_paced $ranks
    sed 's/expert_node: [12]/expert_node: auto/' "$tmp/p.yaml" >"$tmp/auto.yaml"
    auto=$("$BUILD/bin/sennit-plan" "$tmp/auto.yaml" --ranks $ranks --json | sed 's/.*"expert_node": \([0-9]*\).*/\1/')
    [ "$2" != 1 ] || { m0=$m && p0=$p; }
    awk -v r="$1" -v n="$2" -v a="$auto" -v m="$m" -v p="$p" -v m0="$m0" -v p0="$p0" 'BEGIN {
        printf "| %s | %s%s | %.0f | %.2f | %.0f | %.2f |\n", r, n == 1 ? "one" : "two", a == n ? ", auto" : "", m * 1e3,
            m0 / m, p * 1e3, p0 / p }'
}

prepare
make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
check
LAUNCH="nice -n -19 $netns run $tmp/n"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
printf '\n| regime | hops | measured ms | times as fast | predicted ms | times as fast |\n|---|---|---|---|---|---|\n'
for regime in ${*:-dear few many}; do
    case $regime in
    dear) OVERHEAD=$dear seq=32 ;;
    few) OVERHEAD='' seq=32 ;;
    many) OVERHEAD='' seq=1024 ;;
    *) die "no regime '$regime'; want dear, few or many" ;;
    esac
    export OVERHEAD
    $netns up "$tmp/n" $hosts "$rate" || exit # 77: it has said why not
    $LAUNCH 8 "$BUILD/tests/bench/pace/links" $hosts message >"$tmp/links"
    sed -n 's/^#  /#/p' "$tmp/links" | tail -n 1
    device | measured_machine $((ranks / hosts))
    for node in 1 2; do one "$regime" $node; done
    $netns down "$tmp/n"
done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
