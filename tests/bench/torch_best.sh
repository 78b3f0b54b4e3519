#!/bin/sh
# torch_best.sh - PyTorch at its best on this machine's CPU, one JSON line per configuration.
#
# usage: tests/bench/torch_best.sh [--venv DIR] [--until-quiet N] [-- TORCH_TRAIN_OPTION...]
#   Makes a Python environment (default build/torchenv, several GB) with the current torch unless
#   DIR has one, then runs the configurations with the settings that tests/bench/README.md records.
#   Options after -- are added to each run: "-- --config gpt2-124m-b4t64" runs that one alone.
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

# Without these glibc gives the pages of every large temporary back to the kernel and faults them
# in again, several times per step.
export MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=-1 MALLOC_TOP_PAD_=268435456
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"

measure() { # CONFIG MODEL PRECISION OPTION...
    config=$1 model=$2 precision=$3
    shift 3
    "$venv/bin/python" "$root/tests/bench/torch_train.py" --threads "$OMP_NUM_THREADS" \
        --config "$config" --model "$model" --precision "$precision" \
        --until-quiet "$quiet" "$@"
}

if [ $# -gt 0 ]; then
    exec "$venv/bin/python" "$root/tests/bench/torch_train.py" --threads "$OMP_NUM_THREADS" \
        --until-quiet "$quiet" "$@"
fi
