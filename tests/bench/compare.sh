#!/bin/sh
# compare.sh - sennit's step against PyTorch's, in turn on the same machine.
#
# usage: tests/bench/compare.sh VENV [ROUNDS] [SHAPE...]
#   VENV     a Python environment with torch (tests/bench/torch_best.sh makes one)
#   ROUNDS   how often both run, one after the other (default 3)
#   SHAPE    124m-4x64 124m-1x1024 30m-4x256 (default: all)
# PRECISIONS="fp32" in the environment leaves the other out.
# PyTorch runs with the settings that were best (tests/bench/README.md). Prints per shape and
# precision every pair of tokens/s, and the median of the ratios of the pairs.
set -eu
cd "$(dirname "$0")/../.."
venv=$1
rounds=${2:-3}
[ $# -lt 2 ] && shift $# || shift 2
shapes=${*:-124m-4x64 124m-1x1024 30m-4x256}
jemalloc=$(ls /usr/lib/*/libjemalloc.so.2 2>/dev/null | head -n 1)
[ -n "$jemalloc" ] || echo "# no libjemalloc.so.2: PyTorch runs with glibc's allocator" >&2

ours() { # shape precision
    build/tests/bench/bench_step 3 "$1" "$2" | sed -n 's/.* \([0-9]*\) tokens\/s.*/\1/p'
}

torch() { # shape precision
    case $1 in
    124m-4x64) config=gpt2-124m-b4t64 ;;
    124m-1x1024) config=gpt2-124m-b1t1024 ;;
    *) config=gpt2-30m-b4t256 ;;
    esac
    tune="--compile --compile-mode max-autotune-no-cudagraphs"
    [ "$2" = fp32 ] || tune=
    # shellcheck disable=SC2086
    LD_PRELOAD=$jemalloc MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always \
        MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=-1 MALLOC_TOP_PAD_=268435456 \
        "$venv/bin/python3" tests/bench/torch_train.py --threads "$(nproc)" --steps 3 --warmup 2 \
        --config "$config" --precision "$2" $tune 2>/dev/null |
        sed -n 's/.*"tokens_per_s": \([0-9.]*\).*/\1/p'
}

build/tests/bench/bench_step 1 none
for shape in $shapes; do
    for precision in ${PRECISIONS:-fp32 bf16}; do
        pairs=
        for _ in $(seq 1 "$rounds"); do
            a=$(ours "$shape" "$precision")
            b=$(torch "$shape" "$precision")
            pairs="$pairs $a/$b"
        done
        ratio=$(printf '%s\n' $pairs | awk -F/ '{ print $1 / $2 }' | sort -n |
            awk '{ r[NR] = $1 } END { printf "%.2f", r[int((NR + 1) / 2)] }')
        echo "$shape $precision  tokens/s sennit/torch:$pairs  median ratio $ratio"
    done
done
