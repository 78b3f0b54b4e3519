#!/bin/sh
# bubble.sh - pipeline schedules against each other, paced, and what lib/layout/idle says of them.
#
# usage: tests/bench/pace/bubble.sh
#
# 4 stages, 8 micro-batches, 8 layers; interleaved has 2 virtual stages on each stage. "predicted" plays the
# schedule through with the costs of lib/cost (predict.c) and transfers that take no time.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
prepare
make --no-print-directory "$BUILD/tests/bench/pace/predict" >/dev/null
layers=8 hidden=128 ffn=344 batch=8 steps=2

layout_of() { # schedule
    case $1 in
    interleaved) layout="pipeline: 4, schedule: interleaved, virtual_stages: 2" ;;
    *) layout="pipeline: 4, schedule: $1" ;;
    esac
    layout="$layout, split: $([ "$1" = interleaved ] && echo '[1, 1, 1, 1, 1, 1, 1, 1]' || echo '[2, 2, 2, 2]')"
}

schedules="1f1b interleaved zero-bubble"
layout="data: 1"
losses 1 "$tmp/one"
for s in $schedules; do
    layout_of "$s"
    losses 4 "$tmp/$s"
    same_losses "$tmp/$s" "$tmp/one" "$s"
done

steps=${STEPS:-7}
for s in $schedules; do
    layout_of "$s"
    paced 4 "${FLOPS:-2.5e9}" >"$tmp/measured-$s"
    "$BUILD/tests/bench/pace/predict" "$tmp/r.yaml" "$tmp/m.yaml" >"$tmp/predicted-$s"
    awk '{ print $2 + $4 }' "$tmp/predicted-$s" >"$tmp/step-$s"
done
for s in $schedules; do
    m=$(cat "$tmp/measured-$s") p=$(cat "$tmp/step-$s")
    echo "$s: predicted step $(calc "$p * 1000") ms, idle $(sed 's/.*idle //' "$tmp/predicted-$s");" \
        "measured / predicted $(calc "$m / $p");" \
        "step / step of 1f1b: predicted $(calc "$p / $(cat "$tmp/step-1f1b")")," \
        "measured $(calc "$m / $(cat "$tmp/measured-1f1b")")"
done
