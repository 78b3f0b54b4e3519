#!/bin/sh
# paced.sh - step times that sennit-plan predicts against paced runs of 4 to 32 ranks on 2 to 8 "hosts".
#
# usage: tests/bench/paced.sh [NAME...]        default: all layouts below; root only, else it says that it
#        skips and exits with 77
#
# RATE (200mbit), FLOPS (4e9), STEPS (5) and REPEATS (1) in the environment replace the defaults.
#
# Ranks sleep instead of computing (sennit-train --pace) and communicate for real: through shared
# memory on a host, over TCP between hosts, which are network namespaces behind links limited to RATE
# (pace/netns.sh). Both sides read the same machine file. Its links are measured by pace/links
# before any run; nothing is fitted to the results. Prints the table as Markdown.
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-200mbit} steps=${STEPS:-5}

# name ranks hosts layout; the batch is 16 sequences
layouts() {
    cat <<'LIST'
data4             4 4 data: 4, bucket: 256KiB
data4-one-bucket  4 4 data: 4
data8-zero1       8 4 data: 8, zero: 1, bucket: 256KiB
data4-zero2       4 4 data: 4, zero: 2, bucket: 256KiB
data4-zero3       4 4 data: 4, zero: 3, bucket: 256KiB
tensor4           4 2 tensor: 4
tensor2-near      4 2 data: 2, tensor: 2, bucket: 256KiB
tensor2-far       4 2 data: 2, tensor: 2, axis_order: [data, tensor, context, pipeline], bucket: 256KiB
tensor2-no-sp     4 2 data: 2, tensor: 2, sequence_parallel: false
pipe4             4 4 pipeline: 4
pipe4-zb          4 4 pipeline: 4, schedule: zero-bubble
pipe4-v2          4 4 pipeline: 4, virtual_stages: 2, schedule: interleaved
pipe4-data2       8 4 pipeline: 4, data: 2, bucket: 256KiB
pipe2-tensor4     8 2 pipeline: 2, tensor: 4
ring4             4 4 context: 4
all-to-all4       4 4 context: 4, context_kind: all-to-all
recompute         4 2 data: 2, pipeline: 2, recompute: full
four-axes        16 8 data: 2, tensor: 2, pipeline: 2, context: 2
data16-zero1     16 8 data: 16, zero: 1, bucket: 256KiB
data8-tensor2    16 8 data: 8, tensor: 2, bucket: 256KiB
data8-tensor4    32 8 data: 8, tensor: 4, bucket: 256KiB
pipe8-tensor2    16 8 pipeline: 8, tensor: 2
pipe4-t4-d2      32 8 pipeline: 4, tensor: 4, data: 2
LIST
}

# Ranks sleep most of the time; ahead of the queue, what else runs here disturbs them less.
LAUNCH="nice -n -19 $netns run $tmp/n"
leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

prepare
make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
layers=8 hidden=128 ffn=344 batch=16 seq=128

up() { # hosts
    $netns up "$tmp/n" "$1" "$rate" || exit # 77: it has said why not
}

# What every level of the machine file below has, from four hosts.
measure_links() {
    up 4
    $LAUNCH 8 "$BUILD/tests/bench/pace/links" 4 >"$tmp/links"
    $netns down "$tmp/n"
    echo 'The links as `build/tests/bench/pace/links` measured them just before:'
    printf '\n```\n%s\n```\n' "$(cat "$tmp/links")"
}

# A device that computes at 4 GFLOP/s, so that a step sleeps for about 10 s divided by the number of ranks.
machine_file() { # path, ranks of a host
    cat >"$1" <<YAML
name: paced
source: links measured by tests/bench/pace/links; the device is made up, and slept
device:
  memory: 1GiB
  bandwidth: 1.0e9
  overhead: 2.0e-5
  peak: {fp32: ${FLOPS:-4.0e9}}
  gemm: {fp32: {most: 0.9, half_m: 8, half_n: 8, half_k: 8}}
node: {devices: $2}
collectives: direct
YAML
    sed -e '/^#/d' -e "s/name: host, ranks: [0-9]*/name: host, ranks: $2/" "$tmp/links" >>"$1"
}

one() { # name ranks hosts layout
    machine_file "$tmp/m.yaml" $(($2 / $3))
    rm -rf "$tmp/out"
    layout=$4
    run_file "$tmp/r.yaml" "$tmp/out"
    { cat "$tmp/r.yaml" && echo "machine: {file: $tmp/m.yaml}"; } >"$tmp/p.yaml"
    "$BUILD/bin/sennit-plan" "$tmp/p.yaml" --ranks "$2" --json >"$tmp/plan.json" || [ $? -eq 1 ] # 1: it does not fit
    : >"$tmp/times"
    up "$3"
    for _ in $(seq "${REPEATS:-1}"); do
        launch "$2" --pace "$tmp/m.yaml"
        column step_time_s "$tmp/out/pace.jsonl" | tail -n +2 >>"$tmp/times"
        rm -rf "$tmp/out"
    done
    $netns down "$tmp/n"
    m=$(sort -n "$tmp/times" | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }')
    p=$(column step_time_s "$tmp/plan.json")
    echo "$1|$2|$3|$4|$m|$p" >>"$tmp/rows"
    awk -v n="$1" -v r="$2" -v h="$3" -v l="$4" -v m="$m" -v p="$p" 'BEGIN {
        printf "| %s | %d | %d | `%s` | %.0f | %.0f | %+.1f %% |\n", n, r, h, l, m * 1e3, p * 1e3, 100 * (p / m - 1) }'
}

summary() {
    awk -F'|' '
        function rank(x, v, n,   i, r) { r = 1; for (i = 1; i <= n; i++) r += (x[i] < v) + (x[i] == v) / 2; return r - 0.5 }
        { m[NR] = $5; p[NR] = $6; e = $6 / $5 - 1; a[NR] = e < 0 ? -e : e }
        END {
            n = NR
            for (i = 1; i <= n; i++) { d = rank(m, m[i], n) - rank(p, p[i], n); q += d * d }
            for (i = 2; i <= n; i++) { v = a[i]; for (j = i - 1; j > 0 && a[j] > v; j--) a[j + 1] = a[j]; a[j + 1] = v }
            median = n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
            for (i = 1; i <= n; i++) within += a[i] <= 0.1
            printf "\n%d layouts: |error| median %.1f %%, largest %.1f %%, within 10 %%: %d of %d", n, 100 * median, 100 * a[n], within, n
            if (n > 2) printf "; Spearman %.3f", 1 - 6 * q / (n * (n * n - 1))
            printf "\n"
        }' "$tmp/rows"
}

measure_links
printf '\n| layout | ranks | hosts | keys | measured ms | predicted ms | error |\n|---|---|---|---|---|---|---|\n'
layouts >"$tmp/layouts"
while read -r name ranks hosts keys <&3; do
    case " ${*:-$name} " in *" $name "*) one "$name" "$ranks" "$hosts" "$keys" ;; esac
done 3<"$tmp/layouts"
summary
