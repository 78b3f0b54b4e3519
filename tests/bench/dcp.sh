#!/bin/sh
# dcp.sh - saving and loading against PyTorch's distributed checkpoint: the same tensors, the same disk.
#
#   TORCH_PYTHON=VENV/bin/python tests/bench/dcp.sh [PAIRS] [RANKS] [MIB] [DIR]      10 pairs, 2 ranks, 2048
#
# A pair is one save and one load by each, in turn, in processes of their own; times are taken inside, from
# all ranks ready to all ranks done. Both sync what they write and check what they read; only sennit verifies
# hashes. Ratios are of the pair (above 1: sennit is faster); medians are reported. torch_best.sh says how a
# Python with PyTorch is made.
set -eu
BUILD=${BUILD:-build}
python=${TORCH_PYTHON:-python3}
pairs=${1:-10} ranks=${2:-2} mib=${3:-2048}
dir=${4:-$(mktemp -d)}
trap 'rm -rf "$dir"' EXIT
"$python" -c 'import torch.distributed.checkpoint' ||
    { echo "dcp.sh: $python has no PyTorch; set TORCH_PYTHON (tests/bench/torch_best.sh makes one)" >&2 && exit 1; }
i=0
while [ "$i" -lt "$pairs" ]; do
    "$BUILD/tests/bench/bench_checkpoint" --once --mib "$mib" --ranks "$ranks" --dir "$dir/ours"
    "$python" -m torch.distributed.run --nproc-per-node "$ranks" tests/bench/dcp.py --dir "$dir" \
        --mib "$mib" 2>/dev/null
    i=$((i + 1))
done | tee "$dir/record" >&2
grep -v '^#' "$dir/record" >"$dir/lines"
awk -F '[:,}]' '{ for (k = 1; k < NF; k++) { if ($k ~ /save_s/) s = $(k + 1); if ($k ~ /load_s/) l = $(k + 1) } }
    NR % 2 { save = s; load = l; next }
    { print "save", s / save, save, s; print "load", l / load, load, l }' "$dir/lines" | sort -k1,1 -k2,2n |
    awk '{ n[$1]++; r[$1, n[$1]] = $2; o[$1, n[$1]] = $3; t[$1, n[$1]] = $4 }
    END { for (w in n) { m = int((n[w] + 1) / 2)
        printf "%s: %.2f times as fast as PyTorch (%.2f .. %.2f), in the median pair %.2f s against %.2f s\n", \
            w, r[w, m], r[w, 1], r[w, n[w]], o[w, m], t[w, m] } }'
