#!/bin/sh
# compress.sh - what compressed collectives gain: the experiment of "Accelerating LLM training with hybrid
# GPU-based compression" (arXiv 2409.02423) in small, measured, allowed by the ratio, and planned.
#
# usage: tests/bench/pace/compress.sh [SCHEME...]        default: naive mzhybrid zhybrid blockwise; `none` is always
#        there as the first; a scheme may also be keys of layout.compress: data=int8,zero=int4-diff; root only, else it says that it skips and exits with 77
#
# RATE (100mbit), SHARE (0.30), STEPS (5) and REPEATS (3) in the environment replace the defaults; with FLOPS
# nothing is searched for. HOLD is a command through which each run is started, such as flock FILE, where others use the
# machine as well.
#
# A gpt-neox in fp32, data 2 x tensor 2 x pipeline 2 with ZeRO-1: 8 ranks, each on a host of its own (netns.sh), so that
# every byte of every axis crosses a link of RATE and is counted there. fp32, because the paper's rates (8, 16 bits a
# value) are those of a codec of fp32 values: of 16-bit storage rate 16 would save nothing. Ranks sleep instead
# of computing (--pace), codecs too; what they send is real. The device's memory is 144 times as fast as its link,
# as on the paper's Lassen (900 GB/s; two links of 12.5 GB/s for four GPUs).
#
# Exposed communication. S is the median step over these links, C that of the same program with the same sleeps where all
# ranks share one host's memory: E = S - C. So what stages wait for each other because of links counts too, and what hides behind
# computing does not. The device's FLOP/s are searched until E / S of the uncompressed step is SHARE +- 0.02: first in
# the plan, then corrected by what paced runs measure.
#
# Gain of a scheme: S(none) / S - 1. Allowed by its ratio: with B(a) the bytes of axis a that a step sends and x(a) the
# plan's exposed communication of axis a, both of `none`, b(a) the bytes of the scheme,
#
#   S(none) / (S(none) - sum over a of E x(a) / sum(x) (1 - b(a) / B(a))) - 1
#
# that is, exposed time shrinks as its axis' bytes do and codecs cost nothing. More is possible: of an axis that is
# half hidden, the first half that goes is the exposed one.
#
# Before anything is timed all schemes compute for three steps: losses are finite and near those without compression,
# and the bytes of each axis are those of the plan (of lossless streams, whose length depends on the values, within a
# quarter; paced they have the planned one). Bytes at the interfaces are those of two paced runs of
# different length, the longer less that of one step, without 66 bytes a packet (Ethernet, IP, TCP with its time stamps).
# Open MPI's own headers are what is left, and must be less than 2 %.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-100mbit} share=${SHARE:-0.30} ranks=8 repeats=${REPEATS:-3}
schemes=none
[ $# -gt 0 ] || set -- naive mzhybrid zhybrid blockwise
for s; do
    [ "$s" = none ] || schemes="$schemes $s"
done
family=gpt-neox layers=4 hidden=256 ffn=1024 batch=8 seq=128
base='data: 2, tensor: 2, pipeline: 2, zero: 1, bucket: 256KiB, placement: default'

leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

with() { # scheme: its layout in $layout
    case $1 in
    none) layout=$base ;;
    *=*) layout="$base, compress: {$(echo "$1" | sed 's/=/: /g; s/,/, /g')}" ;;
    *) layout="$base, compress: $1" ;;
    esac
}

member() { # object key file: a number of an object in the first line
    sed -n "1s/.*\"$1\": {\([^}]*\)}.*/\1/p" "$3" | sed "s/.*\"$2\": \([-0-9.e+]*\).*/\1/"
}

axes() { # object file: of tensor, data and pipeline
    echo "$(member "$1" tensor "$2") $(member "$1" data "$2") $(member "$1" pipeline "$2")"
}

plan() { # scheme machine output
    with "$1"
    run_file "$tmp/p.yaml" "$tmp/out"
    echo "machine: {file: $2}" >>"$tmp/p.yaml"
    "$BUILD/bin/sennit-plan" "$tmp/p.yaml" --ranks $ranks --json >"$tmp/json"
    sed 's/"uncompressed": {.*//' "$tmp/json" >"$3" # without what it would be without
}

# How long a lossless stream is depends on the values.
may_differ() { # scheme
    case $1 in mzhybrid) echo 0.25 ;; *) echo 0 ;; esac
}

# The same numbers first, and the bytes of the formula.
check() {
    measured_machine 1 <"$tmp/device" # any
    for s in $schemes; do
        with "$s"
        steps=3 losses $ranks "$tmp/losses-$s"
        awk 'NR == FNR { a[FNR] = $1; n = FNR; next }
            { d = $1 / a[FNR] - 1; if (!(d * d < 1e-4)) bad = 1; m = FNR }
            END { exit bad || m != 3 || n != 3 }' "$tmp/losses-none" "$tmp/losses-$s" ||
            die "$s: losses $(paste -s "$tmp/losses-$s"), without compression $(paste -s "$tmp/losses-none")"
        plan "$s" "$tmp/m.yaml" "$tmp/plan-$s"
        counted=$(axes traffic_bytes "$tmp/out/metrics.jsonl")
        formula=$(axes traffic_bytes "$tmp/plan-$s")
        echo "$counted $formula" | awk -v most="$(may_differ "$s")" '
            { for (a = 1; a <= 3; a++) { d = $a / $(3 + a) - 1; if (d * d > most * most) bad = 1 } exit bad }' ||
            die "$s: the ranks sent $counted bytes (tensor, data, pipeline); the plan says $formula"
        echo "checked: $s has finite losses, and sends $counted bytes a step (tensor, data, pipeline), planned $formula"
    done
}

device() { # flops
    cat <<YAML
device:
  memory: 1GiB
  bandwidth: $(echo "$rate" | awk '{ printf "%.3e", 144 * $1 * ($1 ~ /gbit/ ? 1e9 : $1 ~ /mbit/ ? 1e6 : 1e3) / 8 }')
  overhead: 0.0
  peak: {fp32: $1}
  gemm: {fp32: {most: 0.9, half_m: 8, half_n: 8, half_k: 8}}
YAML
}

at() { # flops: machine files with these links, and with links that take no time
    device "$1" | measured_machine 1
    sed -e 's/latency: [-0-9.e+]*/latency: 0.0/' -e 's/device: [0-9.e+]*,/device: 1.0e15,/' \
        -e 's/domain: [0-9.e+]*/domain: 1.0e15/' "$tmp/m.yaml" >"$tmp/free.yaml"
}

planned_share() { # flops
    at "$1"
    plan none "$tmp/m.yaml" "$tmp/p1"
    plan none "$tmp/free.yaml" "$tmp/p0"
    awk "BEGIN { print 1 - $(column step_time_s "$tmp/p0") / $(column step_time_s "$tmp/p1") }"
}

# Where the plan has this share: slower devices have less.
flops_of() { # share
    low=1e8 high=1e12
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do
        middle=$(awk "BEGIN { printf \"%.4e\", sqrt($low * $high) }")
        if awk "BEGIN { exit !($(planned_share "$middle") < $1) }"; then low=$middle; else high=$middle; fi
    done
    echo "$middle"
}

up() { # rate
    $netns up "$tmp/n" $ranks "$1" || exit # 77: it has said why not
}

# Appends to its times; bytes at the interfaces, without headers of packets, are left in $crossed.
run_paced() { # scheme
    with "$1"
    rm -rf "$tmp/out"
    run_file "$tmp/r.yaml" "$tmp/out"
    before=$(left_hosts)
    launch $ranks --pace "$tmp/m.yaml"
    crossed=$(($(left_hosts) - before))
    column step_time_s "$tmp/out/pace.jsonl" | tail -n +2 >>"$2"
    sed -n 1p "$tmp/out/pace.jsonl" >"$tmp/first-$1"
}

left_hosts() {
    [ -e "$tmp/n/hosts" ] || { echo 0 && return; }
    echo $(($($netns bytes "$tmp/n") - 66 * $($netns packets "$tmp/n")))
}

middle_of() { # file
    sort -n "$1" | awk '{ t[NR] = $1 } END { if (!NR) exit 1; print t[int((NR + 1) / 2)] }'
}

# The medians with these links and without any, "S C", at $flops.
exposure() {
    : >"$tmp/slow"
    : >"$tmp/near"
    up "$rate"
    run_paced none "$tmp/slow"
    $netns down "$tmp/n"
    LAUNCH=$near run_paced none "$tmp/near"
    echo "$(middle_of "$tmp/slow") $(middle_of "$tmp/near")"
}

search() {
    aim=$share
    for _ in 1 2 3 4 5; do
        flops=$(flops_of "$aim")
        at "$flops"
        both=$(exposure)
        got=$(echo "$both" | awk '{ print 1 - $2 / $1 }')
        echo "device of $flops FLOP/s: exposed $got of the step, planned $(planned_share "$flops")"
        if awk "BEGIN { d = $got - $share; exit !(d < 0.01 && d > -0.01) }"; then return; fi
        aim=$(awk "BEGIN { print $aim + $share - $got }")
    done
    die "no device whose exposed communication is $share of the step was found"
}

row() { # scheme
    m=$(middle_of "$tmp/times-$1") p=$(column step_time_s "$tmp/plan-$1")
    sent=$(axes traffic_bytes "$tmp/first-$1")
    formula=$(axes traffic_bytes "$tmp/plan-$1")
    [ "$sent" = "$formula" ] || wrong "$1: paced, the ranks sent $sent bytes (tensor, data, pipeline); the plan says $formula"
    [ "$1" != none ] || { m0=$m && p0=$p && sent0=$sent; }
    echo "$sent $sent0 $(axes exposed_comm_s "$tmp/plan-none") $(cat "$tmp/wire-$1")" |
        awk -v s="$1" -v m="$m" -v m0="$m0" -v p="$p" -v p0="$p0" -v e="$exposed" '{
            x = $7 + $8 + $9
            for (a = 1; a <= 3; a++) saved += e * $(6 + a) / x * (1 - $a / $(3 + a))
            more = $10 / ($1 + $2 + $3) - 1
            gain = m0 / m - 1; allowed = m0 / (m0 - saved) - 1; planned = p0 / p - 1
            printf "| %s | %.0f | %+.1f %% | %+.1f %% | %s | %.0f | %+.1f %% | %.2f | %.2f | %.2f | %.2f | %+.2f %% |\n", s, m * 1e3,
                100 * gain, 100 * allowed, (allowed > 0.001 ? sprintf("%.2f", gain / allowed) : ""), p * 1e3, 100 * planned,
                $1 / 1e6, $2 / 1e6, $3 / 1e6, $10 / 1e6, 100 * more
            exit !(more > -0.001 && more < 0.02) }' ||
        wrong "$1: what crossed the interfaces is not what the ranks have counted"
}

wrong() { # sentence: of a result, after which the others are still printed
    echo "$0: $*" >&2
    bad=1
}

prepare
[ -x "$BUILD/tests/bench/pace/links" ] || make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
steps=${STEPS:-5}
near="${HOLD:-} nice -n -19 $LAUNCH"
far="${HOLD:-} nice -n -19 $netns run $tmp/n"
$netns up "$tmp/n" 4 "$rate" || exit
$far 8 "$BUILD/tests/bench/pace/links" 4 >"$tmp/links"
$netns down "$tmp/n"
device 4e9 >"$tmp/device"
LAUNCH="${HOLD:-} $LAUNCH"
check
LAUNCH=$far
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
sed -n 's/^  - {name: leaf/links: {name: leaf/p' "$tmp/links"
if [ -n "${FLOPS:-}" ]; then flops=$FLOPS; else search; fi
at "$flops"

for s in $schemes; do
    plan "$s" "$tmp/m.yaml" "$tmp/plan-$s"
    : >"$tmp/times-$s"
done
: >"$tmp/near"
up "$rate"
for s in $schemes; do
    steps=1 run_paced "$s" /dev/null
    echo "$crossed" >"$tmp/start-$s"
done
for _ in $(seq "$repeats"); do
    for s in $schemes; do
        run_paced "$s" "$tmp/times-$s"
        echo $(((crossed - $(cat "$tmp/start-$s")) / (steps - 1))) >"$tmp/wire-$s"
    done
    LAUNCH=$near run_paced none "$tmp/near"
done
$netns down "$tmp/n"
exposed=$(awk "BEGIN { print $(middle_of "$tmp/times-none") - $(middle_of "$tmp/near") }")
echo "exposed without compression: $(calc "$exposed / $(middle_of "$tmp/times-none") * 100") % of the step" \
    "(planned: $(calc "$(planned_share "$flops") * 100") %)"
printf '\n| scheme | step ms | gain | allowed | of it | planned ms | gain | tensor MB | data MB | pipeline MB | at the interfaces MB | more |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n'
bad=0
awk "BEGIN { d = $exposed / $(middle_of "$tmp/times-none") - $share; exit !(d <= 0.02 && d >= -0.02) }" ||
    wrong "exposed communication is not $share +- 0.02 of the step; say another FLOPS, or none"
for s in $schemes; do row "$s"; done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
exit $bad
