#!/bin/sh
# snapshot.sh - what a snapshot in partners' memory after each step costs (docs/SNAPSHOTS.md): of a step's
# time, and against the same run without.
#
# usage: tests/bench/snapshot.sh
#
# RATE (1gbit), STEPS (12), HIDDEN (256), BATCH (8) in the environment replace the defaults. Four ranks, data 2 x
# tensor 2, on two "hosts" (pace/netns.sh) as root, else all on this one. Runs with and without take
# turns, REPEATS (3) times; each time losses must be the same bits, and the bytes those of the plan. On a
# machine that others use compare the best tenth of the steps, not the medians.
set -eu
cd "$(dirname "$0")/../.."
. tests/lib/tap.sh
. tests/lib/train.sh
netns=tests/bench/pace/netns.sh
trap '$netns down "$tmp/n" 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP
steps=${STEPS:-12} hidden=${HIDDEN:-256} ffn=$((${HIDDEN:-256} * 11 / 4 / 16 * 16)) layers=4 batch=${BATCH:-8} seq=128
eval_every=0 every=0

make_tokens "$tmp/tok"
for name in with without; do
    saving=
    [ $name = without ] || saving="snapshot_every: 1"
    run_file "$tmp/$name.yaml" "$tmp/$name"
    sed -i "s/^layout: {.*/layout: {data: 2, tensor: 2, micro_batch: 1, bucket: 1MiB}/" "$tmp/$name.yaml"
done
where="two hosts, ${RATE:-1gbit}"
if ! $netns up "$tmp/n" 2 "${RATE:-1gbit}" >/dev/null 2>&1; then
    where="one host"
fi
launch() { # name
    if [ -f "$tmp/n/hosts" ]; then
        $netns run "$tmp/n" 4 "$BUILD/bin/sennit-train" "$tmp/$1.yaml" --fresh
    else
        mpi 4 "$BUILD/bin/sennit-train" "$tmp/$1.yaml" --fresh
    fi >"$tmp/$1.out" 2>&1 || { cat "$tmp/$1.out" && exit 1; }
    metric loss "$tmp/$1/metrics.jsonl" >"$tmp/$1.loss"
}
median() {
    sort -g | awk '{ x[NR] = $1 } END { printf "%.4g\n", NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'
}
best() { # the mean of the best tenth
    sort -g | awk '{ x[NR] = $1 } END { n = int((NR + 9) / 10); for (i = 1; i <= n; i++) s += x[i]; printf "%.4g\n", s / n }'
}
seconds() { # key name: of all steps but the first two, whose caches are cold
    sed 1,2d "$tmp/$2/metrics.jsonl" | sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p"
}

for k in $(seq 1 "${REPEATS:-3}"); do
    for name in with without; do
        launch $name
        seconds step_time_s $name >>"$tmp/$name.step"
    done
    seconds snapshot_copy_s with >>"$tmp/copy"
    seconds snapshot_stall_s with >>"$tmp/stall"
    cmp -s "$tmp/with.loss" "$tmp/without.loss" || { echo "run $k: losses differ" && exit 1; }
done
bytes=$(metric snapshot_bytes "$tmp/with/metrics.jsonl" | tail -n 1)
planned=$("$BUILD/bin/sennit-plan" "$tmp/with.yaml" --json | sed -n 's/.*"snapshot_bytes": \([0-9]*\).*/\1/p')
[ "$bytes" = "$planned" ] || { echo "sent $bytes bytes, planned $planned" && exit 1; }

with=$(median <"$tmp/with.step") without=$(median <"$tmp/without.step")
best_with=$(best <"$tmp/with.step") best_without=$(best <"$tmp/without.step")
copy=$(median <"$tmp/copy") stall=$(median <"$tmp/stall")
awk -v w="$with" -v o="$without" -v c="$copy" -v s="$stall" -v b="$bytes" -v where="$where" -v bw="$best_with" -v bo="$best_without" 'BEGIN {
    print "4 ranks on " where ": " b / 4e6 " MB a rank and step"
    printf "medians: step with %.1f ms, without %.1f ms: %+.1f %%\n", 1e3 * w, 1e3 * o, 100 * (w - o) / o
    printf "best tenth with %.1f ms, without %.1f ms: %+.1f %%\n", 1e3 * bw, 1e3 * bo, 100 * (bw - bo) / bo
    printf "rank 0 stood still for %.2f ms, %.2f %% of a step: copy %.2f ms (%.2f GB/s), exchange that nothing hid %.2f ms\n",
        1e3 * s, 100 * s / w, 1e3 * c, b / 4e9 / c, 1e3 * (s - c) }'
