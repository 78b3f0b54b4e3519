#!/bin/sh
# test_map - which process computes which rank: what sennit-train makes of places that are told to it,
# and that losses do not depend on it.
set -eu
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
# shellcheck source=tests/lib/train.sh
. tests/lib/train.sh

# Eight processes, number p on node p % 4; nodes alternate between two leaves. Tensor groups of four
# processes in the launcher's order lie under both.
make_tokens "$tmp/tok"
for p in 0 1 2 3 4 5 6 7; do
    echo "$p core.s$((p % 2)).n$((p % 4))"
done >"$tmp/places"
steps=6 eval_every=0 layers=4 run_file "$tmp/run.yaml" "$tmp/out"
sed "s,$tmp/out,$tmp/auto,; s/layout: {/layout: {tensor: 4, pipeline: 2, /" "$tmp/run.yaml" >"$tmp/auto.yaml"
sed "s,$tmp/auto,$tmp/default,; s/layout: {/layout: {placement: default, /" "$tmp/auto.yaml" >"$tmp/default.yaml"

bytes() { # field level file
    sed -n "s/.*\"level\": \"$2\"[^}]*\"$1\": \([0-9]*\).*/\1/p" "$3"
}

column() { # key file: of all ranks, in one line
    sed -n "s/.*{\"rank\".*\"$1\": \"\{0,1\}\([^\",}]*\).*/\1/p" "$2" | tr '\n' ' '
}

run mpi 8 "$BUILD/bin/sennit-train" "$tmp/auto.yaml" --places "$tmp/places"
is "a job that is arranged trains" "$rc" 0
like "it says what that saves" "$err" 'map: 8 processes on 4 nodes, arranged; .* over spine instead of'
run mpi 8 "$BUILD/bin/sennit-train" "$tmp/default.yaml" --places "$tmp/places"
is "the same in the launcher's order" "$rc" 0
like "it says so" "$err" "map: 8 processes on 4 nodes, in the launcher's order"
metric loss "$tmp/auto/metrics.jsonl" >"$tmp/auto.loss"
metric loss "$tmp/default/metrics.jsonl" >"$tmp/default.loss"
is "six losses" "$(wc -l <"$tmp/auto.loss")" 6
ok "losses are the same bits" cmp -s "$tmp/auto.loss" "$tmp/default.loss"
is "default: rank n is process n" "$(column process "$tmp/default/map.json")" '0 1 2 3 4 5 6 7 '
is "arranged: all processes, once each" \
    "$(column process "$tmp/auto/map.json" | tr ' ' '\n' | sort -n | tr '\n' ' ' | sed 's/^ //')" '0 1 2 3 4 5 6 7 '
is "each stage's four tensor ranks are under one leaf" \
    "$(column switch "$tmp/auto/map.json" | awk '{ print ($1 == $2) + ($1 == $3) + ($1 == $4) + ($5 == $6) + ($5 == $7) + ($5 == $8) }')" 6
default=$(bytes bytes_arranged spine "$tmp/default/map.json")
auto=$(bytes bytes_arranged spine "$tmp/auto/map.json")
ok "at least 30 % fewer bytes over the spine: $auto instead of $default" test $((auto * 10)) -le $((default * 7))
is "both know the launcher's order" "$(bytes bytes_in_order spine "$tmp/auto/map.json")" "$default"
total=$(sed -n 's/.*"traffic_bytes": {\([^}]*\)}.*/\1/p' "$tmp/auto/metrics.jsonl" | tail -1 |
    tr ',' '\n' | awk -F: '{ s += $2 } END { printf "%d", s }')
levels=0
for level in node leaf spine; do
    levels=$((levels + $(bytes bytes_arranged "$level" "$tmp/auto/map.json")))
done
is "bytes of all levels are the traffic that the trainer counts" "$levels" "$total"

# One process, no launcher.
sed "s,$tmp/out,$tmp/one," "$tmp/run.yaml" >"$tmp/one.yaml"
run "$BUILD/bin/sennit-train" "$tmp/one.yaml"
is "one process has a map, too" "$(column process "$tmp/one/map.json")" '0 '
is "of this host" "$(column host "$tmp/one/map.json")" "$(hostname) "

# Mismatches are named before anything is trained, and all processes leave with one code.
head -7 "$tmp/places" >"$tmp/short"
run mpi 8 "$BUILD/bin/sennit-train" "$tmp/auto.yaml" --fresh --places "$tmp/short"
is "a file without one of the processes: exit 2" "$rc" 2
like "the process is named" "$err" 'short: no line for process 7 of 8'
sed 's/^7 .*/7 core.s0.n0/' "$tmp/places" >"$tmp/uneven"
run mpi 8 "$BUILD/bin/sennit-train" "$tmp/auto.yaml" --fresh --places "$tmp/uneven"
is "three processes on one node and one on another: exit 2" "$rc" 2
like "the node is named" "$err" 'map: .* processes on n[0-3], but .* on n[0-3]'
like "the attempt's record has the sentence" "$(cat "$tmp"/auto/attempt-3.json)" 'same number on every'
tap_done
