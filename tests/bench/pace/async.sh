#!/bin/sh
# async.sh - how much of what stands for tensor messages is hidden where rows go through them in pieces (layout.tensor_pieces), beside what
# the plan says of it.
#
# usage: tests/bench/pace/async.sh [PIECES...]   default: 2 4; root only, else it says that it skips and exits with 77
#
# STEPS (5), REPEATS (2), RATE (400mbit) and LONGER (2) in the environment replace the defaults. 8 tensor ranks on 4 hosts (netns.sh), which
# sleep instead of computing and communicate for real; with sequence parallelism and without. Links are measured by pace/links before the
# first; the device is made up: computing takes LONGER times what stands for messages. Nothing is fitted to the results. Before anything
# is timed losses are compared: the same without sequence parallelism, within 1e-6 with it.
#
# hidden: (step in one piece - step in pieces) / (step in one piece - what it computes), all with layout.overlap: auto.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-400mbit} steps=${STEPS:-5} ranks=8 hosts=4
layers=4 hidden=256 ffn=704 seq=256 batch=2 family=llama model=

leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

in_pieces() { # n
    layout="data: 1, tensor: 8, sequence_parallel: $sequence, overlap: auto, tensor_pieces: $1"
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
    busy=$(column compute_s "$tmp/plan.json")
}

choose_device() {
    device 1.0e10
    in_pieces 1
    sed -i 's/overlap: auto, tensor_pieces: 1/overlap: none/' "$tmp/r.yaml"
    plan
    device "$(awk -v p="$p" -v b="$busy" -v l="${LONGER:-2}" 'BEGIN { printf "%.4e", 1.0e10 * b / (l * (p - b)) }')"
}

losses() { # pieces
    rm -rf "$tmp/out"
    in_pieces "$1"
    sed -i "s/steps: $steps/steps: 3/" "$tmp/r.yaml"
    LAUNCH='tests/mpi/run -n' launch $ranks --fresh
    column loss "$tmp/out/metrics.jsonl"
}

check() { # pieces
    losses "$1" >"$tmp/losses-pieces"
    [ -s "$tmp/losses-1" ] || die "no losses"
    if [ $sequence = false ]; then
        cmp -s "$tmp/losses-1" "$tmp/losses-pieces" || die "$1 pieces: losses differ"
    else
        paste "$tmp/losses-1" "$tmp/losses-pieces" | awk '{ d = ($1 - $2) / $1; if (d > 1e-6 || d < -1e-6) exit 1 }' ||
            die "$1 pieces: losses are off"
    fi
    echo "checked: sequence_parallel $sequence, $1 pieces: the losses of one"
}

middle() { # file of numbers
    sort -n "$1" | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'
}

# In turns, so that what else the machine does meets all.
measure() { # pieces...
    rm -f "$tmp"/times-*
    for _ in $(seq "${REPEATS:-2}"); do
        for parts in "$@"; do
            rm -rf "$tmp/out"
            in_pieces "$parts"
            launch $ranks --pace "$tmp/m.yaml"
            column step_time_s "$tmp/out/pace.jsonl" | tail -n +2 >>"$tmp/times-$parts"
        done
    done
}

prepare
[ -x "$BUILD/tests/bench/pace/links" ] || make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
LAUNCH="nice -n -19 $netns run $tmp/n"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
$netns up "$tmp/n" $hosts "$rate" || exit # 77: it has said why not
$LAUNCH $ranks "$BUILD/tests/bench/pace/links" $hosts >"$tmp/links"
: >"$tmp/table"
pieces=${*:-2 4}
for sequence in false true; do
    choose_device
    losses 1 >"$tmp/losses-1"
    for parts in $pieces; do check "$parts"; done
    # shellcheck disable=SC2086
    measure 1 $pieces
    in_pieces 1
    plan
    p1=$p b1=$busy m1=$(middle "$tmp/times-1")
    for parts in $pieces; do
        in_pieces "$parts"
        plan
        awk -v s=$sequence -v n="$parts" -v p="$p" -v p1="$p1" -v b="$b1" -v m="$(middle "$tmp/times-$parts")" -v m1="$m1" 'BEGIN {
            printf "| %s | %d | %.0f | %.0f | %.0f | %.0f | %.0f %% | %.0f | %.0f | %.0f %% |\n", s, n, b * 1e3, m1 * 1e3, m * 1e3,
                (m1 - m) * 1e3, 100 * (m1 - m) / (m1 - b), p1 * 1e3, p * 1e3, 100 * (p1 - p) / (p1 - b) }' >>"$tmp/table"
    done
done
printf '\n| sequence_parallel | pieces | computing ms | one piece ms | in pieces ms | gain ms | hidden | planned one | planned pieces | hidden |\n'
printf '|---|---|---|---|---|---|---|---|---|---|\n'
cat "$tmp/table"
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
