#!/bin/sh
# update.sh - write what is golden anew: the plan tests/golden/plans/NAME.json of every NAME.yaml, the picture
# docs/img/step.svg, the batch script tests/golden/sites/NAME.sh of every NAME.yaml.
#
# usage: make && tests/golden/update.sh [plans|sites]
# A change of these files wants a commit that says why prices, memory or traffic changed, or what a
# job asks for.
set -eu
bin=${BUILD:-build}/bin
plans() {
    for file in tests/golden/plans/*.yaml; do
        "$bin/sennit-plan" "$file" --json >"${file%.yaml}.json" || [ $? -eq 1 ] # 1: it does not fit
    done
    SN_ISA=generic "$bin/sennit-plan" docs/img/step.yaml --svg docs/img/step.svg >/dev/null
}
# Where the program and the working directory are differs from host to host.
sites() {
    for file in tests/golden/sites/*.yaml; do
        "$bin/sennit-run" submit "$file" --print 2>/dev/null |
            sed "s|$(realpath "$bin")/|/usr/bin/|; s|$(pwd -P)|/here|" >"${file%.yaml}.sh"
    done
}
case ${1-} in
'') plans && sites ;;
plans | sites) "$1" ;;
*) echo "usage: tests/golden/update.sh [plans|sites]" >&2 && exit 2 ;;
esac
