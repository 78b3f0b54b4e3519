#!/bin/sh
# baselines.sh - what a closed formula and another planner make of the published rows that
# published.sh scores our planner on. Prints Markdown.
#
# usage: [CALCULON=CHECKOUT] [PYTHON=python3] tests/bench/baselines.sh
#
# CHECKOUT is a clone of github.com/calculon-ai/calculon; without one that part is skipped aloud. Its
# Python needs numpy, pandas and psutil.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
make --no-print-directory "$build/tests/bench/baseline" >/dev/null
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
trap 'exit 130' INT TERM

echo "### A closed formula with 15 constants"
echo
echo "The terms of \`tests/bench/baseline.c\`, fitted on the same rows, and on all models but one."
echo
"$build/tests/bench/baseline" 2>/dev/null
echo "### Calculon"
echo
if [ -z "${CALCULON:-}" ]; then
    echo "baselines.sh: SKIPPED: Calculon; set CALCULON to a clone of github.com/calculon-ai/calculon" >&2
    echo "Not run here: CALCULON names no clone of github.com/calculon-ai/calculon."
else
    "${PYTHON:-python3}" tests/bench/baseline_calculon.py "$CALCULON" tests/bench/layouts/aa_layouts_sweep.csv >"$tmp"
    echo "As it comes, with its own A100; it knows no attention kernels but the plain one, no embedding and"
    echo "head, no gated feed-forward (\`tests/bench/baseline_calculon.py\` says what stands in for them)."
    echo
    "$build/tests/bench/baseline" --answers "$tmp"
fi
cat <<'CLAIMS'
### What others report of themselves

On runs of their own, so not to be compared with the tables above row by row.

| planner | error of step time | source |
|---|---|---|
| closed formula, 15 constants, 401 rows of the same sweep | median 3.2 %, 90th percentile 10.3 %, largest 37 %; mean of a model left out 2.6 to 10.5 % | fitted by this project on the whole sweep of arXiv 2311.05610, of which the tables here have part |
| Calculon | mean 3.65 %, largest 8.87 %, 8 points | its own validation, run again: `calculon llm-validation` |
| vTrain | mean 8.4 % in a node, 14.7 % beyond | arXiv 2312.12391, its repository's rows |
| SimuMax | -13.5 to +0.06 %, B200, one node | MooreThreads/SimuMax, docs/b200 |
| llm-analysis | -5.6 to +9.5 % of LLaMA's GPU hours, given the efficiency | cli99/llm-analysis |
| Zhang et al. | 4.98 % Perlmutter, 9.38 % Vista | their abstract |
CLAIMS
