# tap.sh - tests in shell that print TAP. Source it from the root of the tree:
#
#   . tests/lib/tap.sh
#   ok "the file is there" test -e file
#   run build/bin/sennit-plan bad.yaml          # sets $rc, $out (stdout) and $err (stderr)
#   is "exit code" "$rc" 2
#   like "the message names the key" "$err" 'unknown key'
#   tap_done
#
# A script that calls what is not on every machine says so at its head: need tclsh
#
# $tmp is a fresh folder, removed at the end. $BUILD is where the binaries are.
# shellcheck shell=sh disable=SC2034
BUILD=${BUILD:-build}
# The launcher and the compiler of the MPI that was built with, where mpirun and mpicc are another's.
case $BUILD in /*) tap_tools=$BUILD/tools ;; *) tap_tools=$PWD/$BUILD/tools ;; esac
[ ! -d "$tap_tools" ] || PATH=$tap_tools:$PATH
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tap_count=0 tap_failed=0

ok() { # sentence command...: passes when the command does
    tap_what=$1
    shift
    tap_count=$((tap_count + 1))
    if "$@"; then
        echo "ok $tap_count - $tap_what"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $tap_what"
    fi
}

tap_lines() { # label text: shown as diagnostics
    printf '%s\n' "$2" | sed "s/^/# $1: /"
}

is() { # sentence got want
    ok "$1" test "$2" = "$3"
    [ "$2" = "$3" ] || { tap_lines ' got' "$2" && tap_lines want "$3"; }
}

like() { # sentence text pattern (extended regular expression)
    if printf '%s\n' "$2" | grep -qE -e "$3"; then
        ok "$1" true
    else
        ok "$1" false
        tap_lines ' got' "$2" && tap_lines want "$3"
    fi
}

skip() { # sentence why
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# Without these nothing can be judged here, so the script fails at once and names what is missing. Who tests where one
# of them cannot be had says so, and the script is skipped: MAY_MISS="tclsh xmllint" make check
need() { # command...
    for need_c; do command -v "$need_c" >/dev/null || missing "$need_c"; done
}

missing() { # name
    case " ${MAY_MISS:-} " in
    *" $1 "*) echo "1..0 # SKIP $1 is missing, which MAY_MISS allows" && exit ;;
    esac
    ok "$1 is here (tools/deps check installs it)" false
    tap_done
}

run() { # command...
    rc=0
    "$@" >"$tmp/.out" 2>"$tmp/.err" </dev/null || rc=$?
    out=$(cat "$tmp/.out")
    err=$(cat "$tmp/.err")
}

tap_done() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
    exit
}
