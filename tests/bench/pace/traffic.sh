#!/bin/sh
# traffic.sh - the activations of sequence parallelism are as many bytes as those of tensor
# parallelism alone.
#
# usage: tests/bench/pace/traffic.sh
#
# Both compute for two steps, recomputing nothing; the bytes are the communicator's counters, which
# every rank holds against the plan every step. Forward and backward move the same; what sequence
# parallelism adds, and once a step whatever the batch, is the sum of the gradients of the norms, whose
# rows are cut: 2 (t-1) x bytes over all ranks. Fails when the difference is another.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
prepare
layers=4 hidden=256 ffn=688 steps=2
bad=0
for case in 2:2 2:4 4:2; do
    t=${case%:*} batch=${case#*:}
    for sequence in false true; do
        layout="tensor: $t, sequence_parallel: $sequence, recompute: none"
        losses "$t" "$tmp/losses-$sequence"
        column tensor "$tmp/out/metrics.jsonl" | head -n 1 >"$tmp/bytes-$sequence"
    done
    same_losses "$tmp/losses-true" "$tmp/losses-false" "tensor $t with sequence parallelism"
    alone=$(cat "$tmp/bytes-false") with=$(cat "$tmp/bytes-true")
    norms=$((2 * (t - 1) * (2 * layers + 1) * hidden * 4))
    echo "tensor $t, $batch micro-batches: bytes a step on the tensor axis $alone alone, $with with sequence parallelism," \
        "of which $norms are gradients of norms; ratio $(awk "BEGIN { printf \"%.4f\", $with / $alone }")," \
        "forward and backward alone $(awk "BEGIN { printf \"%.4f\", ($with - $norms) / $alone }")"
    [ "$((with - norms))" -eq "$alone" ] || bad=1
done
exit $bad
