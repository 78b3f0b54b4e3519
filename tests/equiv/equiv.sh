#!/bin/sh
# equiv.sh - every line of tests/equiv/layouts, as processes over MPI, against one rank.
#
# usage: tests/equiv/equiv.sh [NAME...]      only these lines
#
# For each: losses, gradient norms and validation losses of 20 steps are those of one rank, the bytes
# sent and the memory are the plan's; marked lines run twice, or resume in another layout.
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/lib/layouts.sh

layout_tokens "$tmp/tok"
names=$*
while read -r line; do
    case $line in '' | '#'*) continue ;; esac
    case " ${names:-${line%% *}} " in *" ${line%% *} "*) layout_check "$line" ;; esac
done <"$table"
tap_done
