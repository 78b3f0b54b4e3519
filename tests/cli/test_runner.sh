#!/bin/sh
# test_runner.sh - tests/run counts what ran: a program that fails, dies or never starts is no success.
# shellcheck disable=SC2154  # run sets rc and out
. tests/lib/tap.sh

program() { # name, lines of a script
    printf '#!/bin/sh\n%s\n' "$2" >"$tmp/$1"
    chmod +x "$tmp/$1"
}

count() { # what, exit code, last line; then arguments of tests/run
    what=$1 code=$2 last=$3
    shift 3
    run env BUILD="$tmp/build" tests/run "$@"
    is "$what: exit code" "$rc" "$code"
    is "$what: the count" "$(echo "$out" | tail -n 1)" "$last"
}

program good 'echo "ok 1 - a"; echo 1..1'
program fine 'echo "ok 1 - a"; echo 1..1'
program bad 'echo "not ok 1 - a"; echo 1..1; exit 1'
program short 'echo "ok 1 - a"; echo 1..2'
program killer 'echo "ok 1 - a"; echo 1..1; kill -9 $(cut -d" " -f4 /proc/$PPID/stat)'
count "together and alone" 0 "3 passed, 0 failed, 0 skipped" "$tmp/good" "$tmp/fine" -- "$tmp/good"
count "one fails among others" 1 "1 passed, 1 failed, 0 skipped" "$tmp/good" "$tmp/bad"
count "one stops early, alone" 1 "2 passed, 1 failed, 0 skipped" "$tmp/good" -- "$tmp/short"
count "none is named" 1 "0 passed, 1 failed, 0 skipped"
TEST_JOBS=x
export TEST_JOBS
count "none is started" 1 "1 passed, 1 failed, 0 skipped" "$tmp/good" -- "$tmp/fine"
TEST_JOBS=1
count "the shell of one is killed" 1 "1 passed, 1 failed, 0 skipped" "$tmp/good" "$tmp/killer" "$tmp/good"
tap_done
