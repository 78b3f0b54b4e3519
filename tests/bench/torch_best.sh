#!/bin/sh
# torch_best.sh - PyTorch at its best on this machine's CPU, one JSON line per configuration.
#
# usage: tests/bench/torch_best.sh [--venv DIR] [--until-quiet N] [-- TORCH_TRAIN_OPTION...]
#   Makes a Python environment (default build/torchenv, several GB) with the current torch unless
#   DIR has one, then runs the configurations with the settings that tests/bench/README.md records.
#   --until-quiet N takes N steps at moments when nobody else computes. Options after -- replace
#   the list by one run of torch_train.py in the same environment.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$root/build/torchenv
quiet=0
while [ $# -gt 0 ]; do
    case $1 in
    --venv) venv=$2 && shift 2 ;;
    --until-quiet) quiet=$2 && shift 2 ;;
    --) shift && break ;;
    *) echo "usage: torch_best.sh [--venv DIR] [--until-quiet N] [-- OPTION...]" >&2 && exit 2 ;;
    esac
done

if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet torch numpy >&2
fi

# An allocator that keeps its pages: otherwise the kernel takes the large temporaries back and
# faults them in again, several times per step. glibc comes close when told not to trim.
jemalloc=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | sed -n 's/.*=> *\(.*libjemalloc\.so\.2\)$/\1/p' |
    head -n 1)
if [ -n "$jemalloc" ]; then
    MALLOC_CONF=background_thread:false,metadata_thp:auto,dirty_decay_ms:-1
    MALLOC_CONF=$MALLOC_CONF,muzzy_decay_ms:-1,thp:always
    preload=$jemalloc
else
    echo "torch_best.sh: no libjemalloc.so.2; using glibc without trimming" >&2
    MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=-1 MALLOC_TOP_PAD_=268435456
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1
    export MALLOC_MMAP_THRESHOLD_ MALLOC_TRIM_THRESHOLD_ MALLOC_TOP_PAD_ GLIBC_TUNABLES
    MALLOC_CONF='' preload=''
fi
export MALLOC_CONF

train() {
    LD_PRELOAD=$preload "$venv/bin/python" "$root/tests/bench/torch_train.py" \
        --until-quiet "$quiet" "$@"
}

if [ $# -gt 0 ]; then
    train "$@"
    exit
fi
best='--compile --compile-mode max-autotune-no-cudagraphs'
# shellcheck disable=SC2086 # $best is several words
for config in gpt2-124m-b4t64 gpt2-30m-b4t256 gpt2-124m-b1t1024; do
    train --config $config $best
    train --config $config --model llama $best
    # Without avx512_bf16 or amx_bf16 autocast emulates: several times slower than fp32.
    if grep -q -e avx512_bf16 -e amx_bf16 /proc/cpuinfo; then
        train --config $config --precision bf16 $best
    fi
done
