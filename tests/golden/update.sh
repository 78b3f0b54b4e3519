#!/bin/sh
# update.sh - write the golden plans anew: tests/golden/plans/NAME.json of every NAME.yaml.
#
# usage: make && tests/golden/update.sh
# A change of these files wants a commit that says why prices, memory or traffic changed.
set -eu
for file in tests/golden/plans/*.yaml; do
    "${BUILD:-build}/bin/sennit-plan" "$file" --json >"${file%.yaml}.json"
done
