#!/bin/sh
# test_verify.sh - sennit-plan --verify as a user meets it. Faults are planted in tests/unit/verify/test_verify_faults.c:
# a run file cannot name a layout that is refuted.
. tests/lib/tap.sh
. tests/lib/train.sh

plan=$BUILD/bin/sennit-plan
run_file "$tmp/r.yaml" "$tmp/out"

run "$plan" "$tmp/r.yaml" --ranks 4 --verify
is "a proven layout exits 0" "$rc" 0
like "it says so, with the ranks that were played" "$out" '^verified: .* \(4 ranks\)$'
run "$plan" "$tmp/r.yaml" --ranks 4 --verify --json
is "also as JSON" "$rc" 0
like "with both keys at the end of the object" "$out" ', "verified": true, "fault": null}$'
run "$plan" "$tmp/r.yaml" --ranks 4 --json
ok "who does not ask is not told" test "${out#*verified}" = "$out"

batch=1024 eval_every=0 layers=16
run_file "$tmp/large.yaml" "$tmp/out"
sed -i 's/layout: {/layout: {tensor: 4, pipeline: 16, zero: 1, /' "$tmp/large.yaml"
run "$plan" "$tmp/large.yaml" --ranks 16384 --verify
is "16,384 ranks in three axes are proven" "$rc" 0
like "by those that stand for them, and it says so" "$out" ' ranks stand for 16384: '

run "$plan" "$tmp/r.yaml" --verify --explain 0
is "a program and a verdict at once are refused" "$rc" 2
like "with the two options" "$err" '--explain .* --verify '
tap_done
