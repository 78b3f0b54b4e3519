#!/bin/sh
# update.sh - write golden files anew: tests/golden/plans/NAME.json of every NAME.yaml, and what
# sennit-run says of the run directories tests/golden/status/NAME/run.
#
# usage: make && tests/golden/update.sh
# A change of these files wants a commit that says why prices, memory or traffic changed.
set -eu
for file in tests/golden/plans/*.yaml; do
    "${BUILD:-build}/bin/sennit-plan" "$file" --json >"${file%.yaml}.json"
done
for folder in tests/golden/status/*/; do
    tests/golden/status/show "$(basename "$folder")" >"${folder}expected"
done
