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
"$published" --split 2>/dev/null
say "The A100 sweep, without the stall of its later 2k runs"
"$published" --fit --without stall 2>/dev/null
