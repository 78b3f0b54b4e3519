#!/bin/sh
# test_layouts.sh - the lines of tests/equiv/layouts marked smoke, as processes; make check-equiv runs
# all of them.
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/lib/layouts.sh
layout_steps=${STEPS:-6} # make check-equiv: 20, of all lines

layout_tokens "$tmp/tok"
grep ' smoke' "$table" >"$tmp/smoke"
while read -r line; do
    layout_check "$line"
done <"$tmp/smoke"
tap_done
