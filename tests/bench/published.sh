#!/bin/sh
# published.sh - published step times and memory limits against what we foretell, in Markdown.
#
# usage: tests/bench/published.sh [--fit]
#
# Scores the profiles that ship, then refits them without each model in turn and scores what the
# fit has not seen. With --fit the profiles in templates/software are fitted anew first (minutes).
set -eu
cd "$(dirname "$0")/../.."
published=${BUILD:-build}/tests/bench/published
[ -x "$published" ] || { echo "published.sh: no $published; make $published" >&2; exit 2; }

say() { printf '\n### %s\n\n' "$1"; }

if [ "${1:-}" = --fit ]; then
    echo "fitting the profiles of the A100 sweep" >&2
    "$published" --fit --write templates/software >/dev/null
fi

say "The A100 sweep (arXiv 2311.05610)"
cat <<'EOF'
One trainer, three profiles (`templates/software/aleph-alpha-2023*.yaml`): its trials fall in two
campaigns, told by their numbers (up to 105,109 and from 131,673 on), between which the trainer
changed: with equal kernels and layout a pipeline of two stages saved time before and costs time
after. Two constants differ: the rate at which gradients are reduced, and, of the later campaign's
runs at 2,048 tokens alone, a stall: a pipeline loses the time of some seven more micro-batches a
step than its schedule has, at every micro-batch size and kernel. At 8,192 tokens it does not. We
know no cause; the last table is without it. Layers are dealt as ours are.

Constants are factors on what `templates/machines/dgx-a100-80.yaml` says, fitted by least squares
with priors (factor 1, nothing lost): what no row tells stays there. `step_fixed` ends at its bound.
Norms of several kernels cost eleven times what ours do. A model is left out with all its rows; what
has no other row (the stall, the fused and torch kernels, when 13B is left out) is then foretold
from its prior. Memory: a row fits when library, communicators and the formula of
`lib/plan/foreign_memory.h` are within the device.

EOF
"$published" --split 2>/dev/null
say "The A100 sweep, without the stall of its later 2k runs"
"$published" --fit --without stall 2>/dev/null
