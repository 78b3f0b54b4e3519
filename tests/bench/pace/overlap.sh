#!/bin/sh
# overlap.sh - how much of the data-parallel reduction hides behind the backward pass?
#
# usage: [LAUNCH=COMMAND] tests/bench/pace/overlap.sh [RANKS...]         (default 2 4)
#
# FACTORS, STEPS, HIDDEN and BUCKET in the environment replace the defaults below.
#
# For D ranks: a = step of one rank with a D-th of the batch (paced), r = the reduction alone (D ranks
# on a machine without limits, less one rank on it), b = step of D ranks. Exposed is b - a, hidden
# 1 - (b - a) / r. The machine's rate is chosen so that the backward pass of the last micro-batch,
# behind which the reduction can hide, takes `backward` times r. Data ranks reduce once a step.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
prepare
free=1.0e18
layers=4 hidden=${HIDDEN:-384}
ffn=$((hidden * 43 / 16))
micros=2

# Multiply-adds of the backward pass of one sample: 4 for each of its tokens and weights, and
# attention's five products over half of 64 x 64 scores.
backward=$(awk "BEGIN { h = $hidden; print 4 * 64 * ($layers * (4 * h * h + 3 * h * $ffn) + 256 * h) + $layers * 5 * 64 * 64 * h }")

for d in ${*:-2 4}; do
    layout="data: $d, bucket: ${BUCKET:-512KiB}" batch=$((micros * d)) steps=3
    losses "$d" "$tmp/many"
    layout="data: 1"
    losses 1 "$tmp/one"
    same_losses "$tmp/many" "$tmp/one" "data $d"
    steps=${STEPS:-9}

    layout="data: 1" batch=$micros
    idle=$(paced 1 $free)
    layout="data: $d, bucket: ${BUCKET:-512KiB}" batch=$((micros * d))
    r=$(calc "($(paced "$d" $free) - $idle) * 1000")
    echo "data $d: reduction alone $r ms"
    for factor in ${FACTORS:-0.5 1 2 4}; do
        flops=$(awk "BEGIN { printf \"%.6e\", $backward / ($factor * $r / 1000) }")
        layout="data: 1" batch=$micros
        a=$(paced 1 "$flops")
        layout="data: $d, bucket: ${BUCKET:-512KiB}" batch=$((micros * d))
        b=$(paced "$d" "$flops")
        echo "data $d: backward $factor x reduction: step / compute $(calc "$b / $a")," \
            "exposed $(calc "($b - $a) * 1000") ms," \
            "hidden $(calc "100 * (1 - ($b - $a) / ($r / 1000))") %"
    done
done

[ -z "${LAUNCH_IS_SLOW:-}" ] || exit 0
# At full speed: the communication threads and memory are shared with what computes.
layout="data: 1" batch=$micros
a=$(real 1)
layout="data: 2, bucket: ${BUCKET:-512KiB}" batch=$((micros * 2))
b=$(real 2)
echo "data 2, computing on $(nproc) cores: step of 2 ranks / step of 1 with half the batch $(calc "$b / $a")"
