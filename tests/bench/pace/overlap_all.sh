#!/bin/sh
# overlap_all.sh - what layout.overlap: auto gains where tensor, context, expert and ZeRO traffic (update: of ZeRO 1) stands in
# the way, and that of a grid of tensors, each alone and together, on 8 ranks, beside what the plan says that it gains.
#
# usage: tests/bench/pace/overlap_all.sh [TRAFFIC...]   default: tensor grid context expert zero update together; root only, else it
#        says that it skips and exits with 77
#
# STEPS (8), REPEATS (3) and RATE (100mbit) in the environment replace the defaults. 8 ranks on 4 hosts (netns.sh); they
# sleep instead of computing and communicate for real. Links are measured by pace/links before the first; the device is
# made up, so fast that a step without overlap computes for as long as it stands in messages by the plan: where hiding
# pays most. Nothing is fitted to the results. Before anything is timed both orders have the same losses, to the last
# digit, computing. At 400mbit the wake-ups of 8 processes on 2 cores are worth as much as what ZeRO's order gains.
#
# The context's samples are long, so that a message is long beside what a link's bucket lets pass after a pause (netns.sh).
#
# gain: (step of none - step of auto) / step of none. The last column is the measured gain over the planned one.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-100mbit} steps=${STEPS:-8} ranks=8 hosts=4
layers=4 hidden=256 ffn=704
sparse=', experts: {count: 8, top_k: 2, aux_loss: 0}'

leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

traffic() { # name: sets family, model and base
    family=llama model= seq=128 batch=8
    case $1 in
    tensor) base='data: 1, tensor: 8' ;;
    grid) base='data: 1, tensor: 4, tensor_x: 2' ;;
    context) base='data: 1, context: 8, context_kind: all-to-all' seq=1024 batch=4 ;;
    expert) family=mixtral model=$sparse base='data: 8, expert: 8, placement: default, expert_node: 1, expert_chunks: 1' ;;
    zero) base='data: 8, zero: 3' ;;
    update) base='data: 8, zero: 1, bucket: 512KiB' ;;
    together) family=mixtral model=$sparse base='data: 2, tensor: 2, context: 2, expert: 4, zero: 3, placement: default, expert_node: 1, expert_chunks: 1' ;;
    *) die "no traffic '$1'; want tensor, grid, context, expert, zero, update or together" ;;
    esac
}

# The run is told the machine, too: by it the order is found.
ordered() { # none|auto
    layout="$base, overlap: $1"
    run_file "$tmp/r.yaml" "$tmp/out"
    sed -i 's/heads: 4, kv_heads: 4/heads: 8, kv_heads: 8/' "$tmp/r.yaml"
    echo "machine: {file: $tmp/m.yaml}" >>"$tmp/r.yaml"
}

device() { # flops
    printf 'device: {memory: 4GiB, bandwidth: 1.0e12, overhead: 0.0, peak: {fp32: %s}}\n' "$1" | measured_machine $((ranks / hosts))
}

plan() {
    "$BUILD/bin/sennit-plan" "$tmp/r.yaml" --ranks $ranks --json >"$tmp/plan.json"
    p=$(column step_time_s "$tmp/plan.json")
}

# A device on which computing takes what is exposed.
choose_device() {
    device 1.0e10
    ordered none
    plan
    busy=$(column compute_s "$tmp/plan.json")
    device "$(awk -v p="$p" -v b="$busy" 'BEGIN { printf "%.4e", 1.0e10 * b / (p - b) }')"
}

check() { # name
    for order in none auto; do
        rm -rf "$tmp/out"
        ordered $order
        sed -i "s/steps: $steps/steps: 3/" "$tmp/r.yaml"
        LAUNCH='tests/mpi/run -n' launch $ranks --fresh
        column loss "$tmp/out/metrics.jsonl" >"$tmp/losses-$order"
    done
    [ -s "$tmp/losses-none" ] || die "$1: no losses"
    cmp -s "$tmp/losses-none" "$tmp/losses-auto" || die "$1: losses differ"
    echo "checked: $1: the same losses in both orders"
}

# Both orders in turns, so that what else the machine does meets both.
measure() { # medians of steps in $m0 (none) and $m (auto)
    rm -f "$tmp"/times-*
    for _ in $(seq "${REPEATS:-3}"); do
        for order in none auto; do
            rm -rf "$tmp/out"
            ordered $order
            launch $ranks --pace "$tmp/m.yaml"
            column step_time_s "$tmp/out/pace.jsonl" | tail -n +2 >>"$tmp/times-$order"
        done
    done
    m0=$(middle "$tmp/times-none")
    m=$(middle "$tmp/times-auto")
}

middle() { # file of numbers
    sort -n "$1" | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'
}

one() { # name
    traffic "$1"
    choose_device
    check "$1"
    ordered none
    plan
    p0=$p
    ordered auto
    plan
    measure
    awk -v r="$1" -v m="$m" -v p="$p" -v m0="$m0" -v p0="$p0" 'BEGIN {
        g = (m0 - m) / m0; h = (p0 - p) / p0
        printf "| %s | %.0f | %.0f | %.1f | %.0f | %.0f | %.1f | %s |\n", r, m0 * 1e3, m * 1e3, 100 * g, p0 * 1e3, p * 1e3, 100 * h,
            (h > 0 ? sprintf("%.2f", g / h) : "-") }' >>"$tmp/table"
}

prepare
[ -x "$BUILD/tests/bench/pace/links" ] || make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
LAUNCH="nice -n -19 $netns run $tmp/n"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
$netns up "$tmp/n" $hosts "$rate" || exit # 77: it has said why not
$LAUNCH $ranks "$BUILD/tests/bench/pace/links" $hosts >"$tmp/links"
: >"$tmp/table"
# shellcheck disable=SC2048
for name in ${*:-tensor grid context expert zero update together}; do one "$name"; done
printf '\n| traffic | none ms | auto ms | gain %% | planned none | planned auto | gain %% | measured / planned |\n|---|---|---|---|---|---|---|---|\n'
cat "$tmp/table"
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
