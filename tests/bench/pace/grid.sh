#!/bin/sh
# grid.sh - AxoNN's grid of tensors (layout.tensor, layout.tensor_x, and Z: ZeRO 3 over neighbours) beside the layouts that have one
# axis: steps as planned and as measured, and whether the plan ranks them as they are.
#
# usage: tests/bench/pace/grid.sh [RANKS...]       8 and 16 unless said; root only, else it says that it skips and exits with 77
#
# STEPS (4), REPEATS (1) and RATE (200mbit) in the environment replace the defaults. Ranks are on 4 hosts (netns.sh); they sleep
# instead of computing and communicate for real. Links are measured by pace/links before; nothing is fitted to the results. Before
# anything is timed all layouts have the losses of tensor parallelism alone, computing, but for the order of sums.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-200mbit} steps=${STEPS:-4} hosts=4
layers=2 hidden=256 ffn=704 seq=128 batch=32 micro=2

leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

# tensor tensor_x data z: z neighbours of the data ranks share weights out; 1: nobody does.
grids() { # ranks
    case $1 in
    8) echo '8 1 1 1  4 1 2 1  2 1 4 1  1 1 8 1  1 1 8 8  2 1 4 4  1 8 1 1  2 4 1 1  4 2 1 1  1 2 4 1  1 4 2 1  2 2 2 1  2 2 2 2  1 2 4 4' ;;
    16) echo '8 1 2 1  4 1 4 1  2 1 8 1  1 1 16 1  1 1 16 16  1 1 16 4  4 1 4 4  8 2 1 1  4 4 1 1  2 8 1 1  4 2 2 1  2 4 2 1  2 2 4 1  2 2 4 4  1 4 4 4' ;;
    *) die "$1 ranks; want 8 or 16" ;;
    esac
}

set_layout() { # tensor tensor_x data z
    layout="tensor: $1, tensor_x: $2, data: $3, placement: default"
    [ "$4" = 1 ] || layout="$layout, zero: 3, zero_node: $4"
    name="$1 x $2 x $4, data $3"
    kind=grid
    [ "$2" != 1 ] || kind='one axis'
}

wide() { # the run file's heads, of which tensor ranks have some each
    sed -i 's/heads: 4, kv_heads: 4/heads: 8, kv_heads: 8/' "$1"
}

check() { # ranks tensor tensor_x data z
    set_layout "$2" "$3" "$4" "$5"
    rm -rf "$tmp/out"
    steps=3 run_file "$tmp/r.yaml" "$tmp/out"
    wide "$tmp/r.yaml"
    LAUNCH='tests/mpi/run -n' launch "$1" --fresh
    column loss "$tmp/out/metrics.jsonl" >"$tmp/losses"
    [ -f "$tmp/losses-$1" ] || cp "$tmp/losses" "$tmp/losses-$1"
    same_losses "$tmp/losses-$1" "$tmp/losses" "$name" >/dev/null
}

one() { # ranks tensor tensor_x data z
    set_layout "$2" "$3" "$4" "$5"
    rm -rf "$tmp/out"
    run_file "$tmp/r.yaml" "$tmp/out"
    wide "$tmp/r.yaml"
    { cat "$tmp/r.yaml" && echo "machine: {file: $tmp/m.yaml}"; } >"$tmp/p.yaml"
    "$BUILD/bin/sennit-plan" "$tmp/p.yaml" --ranks "$1" --json >"$tmp/plan.json"
    : >"$tmp/times"
    for _ in $(seq "${REPEATS:-1}"); do
        rm -rf "$tmp/out"
        launch "$1" --pace "$tmp/m.yaml"
        column step_time_s "$tmp/out/pace.jsonl" | tail -n +2 >>"$tmp/times"
    done
    m=$(sort -n "$tmp/times" | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }')
    echo "$m|$(column step_time_s "$tmp/plan.json")|$kind|$name" >>"$tmp/rows"
}

# Of the measured times, beside the planned: a table, the best of each kind, Spearman's coefficient.
tell() { # ranks
    sort -n "$tmp/rows" >"$tmp/sorted"
    printf '\n%s ranks, %s\n\n| tensor x tensor_x x Z | measured ms | planned ms | planned / measured |\n|---|---|---|---|\n' "$1" "$rate"
    awk -F'|' '{ printf "| %s | %.0f | %.0f | %.2f |\n", $4, $1 * 1e3, $2 * 1e3, $2 / $1 }' "$tmp/sorted"
    awk -F'|' '{ m[NR] = $1; p[NR] = $2
            if (!($3 in bm)) { bm[$3] = $1; name[$3] = $4 }
            if (!($3 in bp) || $2 < bp[$3]) bp[$3] = $2
        } END {
            n = NR
            for (i = 1; i <= n; i++) {
                r = 1
                for (k = 1; k <= n; k++) r += p[k] < p[i]
                q += (i - r) ^ 2
            }
            printf "\nbest grid (%s) over the best with one axis (%s): measured %.1f %% faster, planned %.1f %%; Spearman %.3f of %d\n",
                name["grid"], name["one axis"], 100 * (1 - bm["grid"] / bm["one axis"]), 100 * (1 - bp["grid"] / bp["one axis"]),
                1 - 6 * q / (n * (n * n - 1)), n
        }' "$tmp/sorted"
}

each() { # ranks what: what ranks tensor tensor_x data z, for all grids
    n=$1 what=$2
    # shellcheck disable=SC2046
    set -- $(grids "$n")
    while [ $# -gt 0 ]; do
        "$what" "$n" "$1" "$2" "$3" "$4"
        shift 4
    done
}

prepare
make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
[ $# -gt 0 ] || set -- 8 16
for ranks; do
    each "$ranks" check
    echo "checked: the same losses in all layouts of $ranks ranks"
done
LAUNCH="nice -n -19 $netns run $tmp/n"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
$netns up "$tmp/n" $hosts "$rate" || exit # 77: it has said why not
$LAUNCH $((2 * hosts)) "$BUILD/tests/bench/pace/links" $hosts message >"$tmp/links"
for ranks; do
    echo 'device: {memory: 1GiB, bandwidth: 1.0e12, overhead: 0.0, peak: {fp32: 1.0e10}}' | measured_machine $((ranks / hosts))
    : >"$tmp/rows"
    each "$ranks" one
    tell "$ranks"
done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
