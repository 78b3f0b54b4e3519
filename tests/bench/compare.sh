#!/bin/sh
# compare.sh - sennit's step against PyTorch's, in turn on the same machine.
#
# usage: tests/bench/compare.sh VENV [ROUNDS] [SHAPE...]
#   VENV     a Python environment with torch (tests/bench/torch_best.sh makes one)
#   ROUNDS   how often both run, one after the other (default 3)
#   SHAPE    124m-4x64 124m-1x1024 30m-4x256 8x16m-4x256 (default: all)
# PRECISIONS="fp32" in the environment leaves the other out.
#
# PyTorch first takes two steps in each of its ways: eager and compiled, with jemalloc and with a glibc that
# keeps its pages, with all cores and (eager) with one fewer. The fastest way takes turns with sennit.
# Printed per shape and precision: every pair of tokens/s, the median of the pairs' ratios, and the way.
set -eu
cd "$(dirname "$0")/../.."
venv=$1
rounds=${2:-3}
if [ $# -lt 2 ]; then shift $#; else shift 2; fi
shapes=${*:-124m-4x64 124m-1x1024 30m-4x256 8x16m-4x256}
cores=$(nproc)
fewer=$((cores > 1 ? cores - 1 : 1))
jemalloc=$(ls /usr/lib/*/libjemalloc.so.2 2>/dev/null | head -n 1)
ways="glibc,$cores,eager glibc,$cores,compiled"
if [ -n "$jemalloc" ]; then
    ways="$ways jemalloc,$cores,eager jemalloc,$cores,compiled jemalloc,$fewer,eager"
else
    echo "# no libjemalloc.so.2: PyTorch runs with glibc's allocator alone" >&2
fi

ours() { # shape precision
    build/tests/bench/bench_step 3 "$1" "$2" | sed -n 's/.* \([0-9]*\) tokens\/s.*/\1/p'
}

torch() { # shape precision steps way
    case $1 in
    124m-4x64) config=gpt2-124m-b4t64 ;;
    124m-1x1024) config=gpt2-124m-b1t1024 ;;
    30m-4x256) config=gpt2-30m-b4t256 ;;
    8x16m-4x256) config="mixtral-8x16m-b4t256 --model mixtral" ;;
    *) echo "compare.sh: '$1' is no shape; want 124m-4x64, 124m-1x1024, 30m-4x256 or 8x16m-4x256" >&2 && exit 2 ;;
    esac
    preload='' tune=''
    case $4 in jemalloc,*) preload=$jemalloc ;; esac
    case $4 in *,compiled) tune="--compile --compile-mode max-autotune-no-cudagraphs" ;; esac
    threads=${4#*,}
    # shellcheck disable=SC2086 # words
    LD_PRELOAD=$preload MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always \
        MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=-1 MALLOC_TOP_PAD_=268435456 \
        "$venv/bin/python3" tests/bench/torch_train.py --threads "${threads%,*}" --steps "$3" --warmup 2 \
        --config $config --precision "$2" $tune 2>/dev/null |
        sed -n 's/.*"tokens_per_s": \([0-9.]*\).*/\1/p'
}

best_way() { # shape precision
    for way in $ways; do
        rate=$(torch "$1" "$2" 2 "$way")
        [ -z "$rate" ] || echo "$rate $way"
    done | sort -n | tail -n 1 | cut -d ' ' -f 2
}

build/tests/bench/bench_step 1 none
for shape in $shapes; do
    for precision in ${PRECISIONS:-fp32 bf16}; do
        way=$(best_way "$shape" "$precision")
        [ -n "$way" ] || { echo "compare.sh: $venv does not train $shape in $precision" >&2 && exit 1; }
        pairs=
        for _ in $(seq 1 "$rounds"); do
            a=$(ours "$shape" "$precision")
            b=$(torch "$shape" "$precision" 3 "$way")
            pairs="$pairs $a/$b"
        done
        ratio=$(printf '%s\n' $pairs | awk -F/ '{ print $1 / $2 }' | sort -n |
            awk '{ r[NR] = $1 } END { printf "%.2f", r[int((NR + 1) / 2)] }')
        echo "$shape $precision  tokens/s sennit/torch:$pairs  median ratio $ratio  (PyTorch: $way)"
    done
done
