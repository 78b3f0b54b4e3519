#!/bin/sh
# grid_overlap.sh - the three overlaps of a grid of tensors (AxoNN, arXiv 2305.13525, section V) apart: how long 8 ranks on 4 hosts
# wait for sums of input gradients, for sums of weight gradients and for gathers of weights, in the order of the text and in that of
# layout.overlap: auto, and how much of what could be hidden at most is hidden.
#
# usage: tests/bench/pace/grid_overlap.sh [GRID...]    default: sums weights all again; root only, else it says that it skips and exits with 77
#
#   sums     4 x 2: tensor 2 on a host, tensor_x 4 between hosts; of the three kinds it has sums of input gradients
#   weights  2 x 4: tensor 2 on a host, z = 4 between hosts (zero: 3, zero_node: 4): gathers of weights, sums of their gradients
#   all      2 x 2 x 2: all three, two of them over the same links
#   again    the same, and activations are computed again (recompute: full)
#
# REPEATS (3), RATE (200mbit) and FACTOR (1) in the environment replace the defaults. Ranks sleep instead of computing and communicate
# for real. Links are measured by pace/links before; the device is made up, so that a step computes FACTOR times as long as its messages take,
# each alone. Nothing is fitted to the results. Before anything is timed both orders have the same losses, to the last digit, computing.
#
# Of each kind, in milliseconds of a step of a rank, the mean of all ranks and the median of REPEATS traces (sennit-train --trace):
#   alone     what its messages take, each alone, and `could be`, what of that could be hidden at most if there were no other
#             messages (both planned: sennit-plan --explain)
#   waits     for which a rank stands, in both orders, measured and planned
#   hidden    (alone - waits in the order of auto) / could be. What messages take longer than planned, or because others are under way
#             on their links, so counts as not hidden
#   computing behind which they are under way, measured, in the order of auto (and of what could be hidden)
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-200mbit} steps=5 ranks=8 hosts=4 repeats=${REPEATS:-3}
layers=4 hidden=256 ffn=704 seq=128 batch=4
kinds='input gradients|weight gradients|weights|other'

leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

grid() { # name
    case $1 in
    sums) base='data: 1, tensor: 2, tensor_x: 4' micro=4 ;;
    weights) base='data: 4, tensor: 2, zero: 3, zero_node: 4' micro=1 ;;
    all) base='data: 2, tensor: 2, tensor_x: 2, zero: 3, zero_node: 2' micro=2 ;;
    again) base='data: 2, tensor: 2, tensor_x: 2, zero: 3, zero_node: 2, recompute: full' micro=2 ;;
    *) die "no grid '$1'; want sums, weights, all or again" ;;
    esac
}

# The run is told the machine, too: by it the order is found.
ordered() { # none|auto
    layout="$base, sequence_parallel: false, placement: default, overlap: $1"
    run_file "$tmp/r.yaml" "$tmp/out"
    sed -i 's/heads: 4, kv_heads: 4/heads: 8, kv_heads: 8/' "$tmp/r.yaml"
    echo "machine: {file: $tmp/m.yaml}" >>"$tmp/r.yaml"
}

device() { # flops
    printf 'device: {memory: 4GiB, bandwidth: 1.0e12, overhead: 0.0, peak: {fp32: %s}}\n' "$1" | measured_machine $((ranks / hosts))
}

plan() { # order: seconds of a step in $p, and of each kind "kind|could be|alone|waits" in milliseconds, in plan-ORDER
    ordered "$1"
    "$BUILD/bin/sennit-plan" "$tmp/r.yaml" --ranks $ranks --json >"$tmp/plan.json"
    p=$(column step_time_s "$tmp/plan.json")
    "$BUILD/bin/sennit-plan" "$tmp/r.yaml" --ranks $ranks --explain 0 >"$tmp/text"
    sed -nE "s/^  ($kinds); at most ([0-9.]*) of ([0-9.]*) hidden +[0-9.]+ +[0-9.]+ +([0-9.]+) .*/\1|\2|\3|\4/p" "$tmp/text" >"$tmp/plan-$1"
    [ -s "$tmp/plan-$1" ] || die "the plan names no messages"
}

# A device on which a step computes FACTOR times as long as its messages take.
choose_device() {
    device 1.0e10
    plan none
    busy=$(column compute_s "$tmp/plan.json")
    alone=$(awk -F'|' '{ s += $3 } END { print s / 1e3 }' "$tmp/plan-none")
    device "$(calc "1.0e10 * $busy / ($alone * ${FACTOR:-1})")"
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

# Of a trace, "kind|waits|computing behind": milliseconds, the mean of the measured ranks.
look() { # trace
    awk -v first=1 '
        function number(key,   s) {
            s = $0
            return sub(".*\"" key "\": ?", "", s) ? s + 0 : -1
        }
        function word(key,   s) {
            s = $0
            if (!sub(".*\"" key "\": ?\"", "", s)) return ""
            sub("\".*", "", s)
            return s
        }
        !/"ph":"X"/ { next }
        {
            pid = number("pid"); cat = word("cat"); what = word("carries")
            begin = number("ts"); end = begin + number("dur")
        }
        pid < first { next } # the planned step
        cat == "transfer" { n[pid]++; b[pid, n[pid]] = begin; e[pid, n[pid]] = end; w[pid, n[pid]] = what; ranks[pid] = 1; next }
        cat == "wait" { waits[what] += end - begin; ranks[pid] = 1; next }
        cat ~ /^(forward|backward|weight|update|receive)$/ { next }
        { k[pid]++; kb[pid, k[pid]] = begin; ke[pid, k[pid]] = end }
        END {
            for (r in ranks) {
                all++
                for (i = 1; i <= n[r]; i++)
                    for (q = 1; q <= k[r]; q++) {
                        from = kb[r, q] > b[r, i] ? kb[r, q] : b[r, i]
                        to = ke[r, q] < e[r, i] ? ke[r, q] : e[r, i]
                        if (to > from) behind[w[r, i]] += to - from
                    }
            }
            if (!all) exit 1
            for (what in waits) printf "%s|%.3f|%.3f\n", what, waits[what] / 1e3 / all, behind[what] / 1e3 / all
        }' "$1"
}

middle() { # field of lines with |, on stdin
    cut -d'|' -f"$1" | sort -n | awk '{ t[NR] = $1 } END { if (NR) print t[int((NR + 1) / 2)]; else print 0 }'
}

# Both orders in turns, so that what else the machine does meets both.
measure() {
    rm -f "$tmp"/seen-* "$tmp"/times-*
    for _ in $(seq "$repeats"); do
        for order in none auto; do
            rm -rf "$tmp/out"
            ordered $order
            launch $ranks --pace "$tmp/m.yaml" --trace "$tmp/trace.json"
            look "$tmp/trace.json" >>"$tmp/seen-$order" || die "the trace has no ranks"
            column step_time_s "$tmp/out/pace.jsonl" | tail -n +2 >>"$tmp/times-$order"
        done
    done
}

row() { # kind
    grep "^$1|" "$tmp/plan-auto" | awk -F'|' -v step="$first" '$3 > 10 * step' >"$tmp/auto" # more than 1 % of a step
    [ -s "$tmp/auto" ] || return 0
    m0=$(grep "^$1|" "$tmp/seen-none" | middle 2) m=$(grep "^$1|" "$tmp/seen-auto" | middle 2)
    behind=$(grep "^$1|" "$tmp/seen-auto" | middle 3)
    p0=$(grep "^$1|" "$tmp/plan-none" | cut -d'|' -f4)
    awk -F'|' -v m0="$m0" -v m="$m" -v p0="$p0" -v behind="$behind" '{
        is = $2 > 0.05 * $3 # else nothing is to be hidden
        printf "| %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %s | %s | %.0f%s |\n", $1, $3, $2, m0, m, p0, $4,
            is ? sprintf("%.0f %%", 100 * ($3 - m) / $2) : "-", is ? sprintf("%.0f %%", 100 * ($3 - $4) / $2) : "-", behind, is ? sprintf(" (%.0f %%)", 100 * behind / $2) : "" }' "$tmp/auto"
}

one() { # name
    grid "$1"
    choose_device
    check "$1"
    plan none
    first=$p
    plan auto
    measure
    m0=$(middle 1 <"$tmp/times-none") m=$(middle 1 <"$tmp/times-auto")
    {
        printf '\n%s (%s): step %.0f ms in the order of the text, %.0f of auto (planned %.0f, %.0f)\n\n' "$1" "$base" \
            "$(calc "$m0 * 1e3")" "$(calc "$m * 1e3")" "$(calc "$first * 1e3")" "$(calc "$p * 1e3")"
        echo '| messages | alone | could be hidden | waits, none | waits, auto | planned, none | planned, auto | hidden | planned | computing behind |'
        echo '|---|---|---|---|---|---|---|---|---|---|'
        row 'input gradients'
        row 'weight gradients'
        row 'weights'
        row 'other'
    } >>"$tmp/table"
}

prepare
make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
LAUNCH="nice -n -19 $netns run $tmp/n"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
$netns up "$tmp/n" $hosts "$rate" || exit # 77: it has said why not
$LAUNCH $ranks "$BUILD/tests/bench/pace/links" $hosts message >"$tmp/links"
: >"$tmp/table"
# shellcheck disable=SC2048
for name in ${*:-sums weights all again}; do one "$name"; done
cat "$tmp/table"
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
