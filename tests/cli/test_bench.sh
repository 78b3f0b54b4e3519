#!/bin/sh
# test_bench.sh - every benchmark's record begins with the instruction set, and none measures another
# than the one that was asked for.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh

for source in tests/bench/bench_*.c; do
    name=$(basename "$source" .c)
    [ -x "$BUILD/tests/bench/$name" ] || continue # bench_peak, where there is no x86
    run env SN_ISA=none "$BUILD/tests/bench/$name"
    is "$name: a set that is not here is exit 2, before anything" "$rc$out" 2
    like "$name: and named" "$err" "^SN_ISA: 'none' is no instruction set of this processor; it has"
    ok "$name: writes the head line" grep -q 'bench_head();' "$source"
done
run "$BUILD/tests/bench/bench_collectives"
is "bench_collectives runs" "$rc" 0
like "and begins with the set" "$(printf '%s\n' "$out" | head -n 1)" '^# cpu/[a-z0-9]+, own GEMM$'
run env SN_ISA=generic "$BUILD/tests/bench/bench_norm" 1 8 64
is "the one that is named" "$(printf '%s\n' "$out" | head -n 1)" '# cpu/generic, own GEMM'
tap_done
