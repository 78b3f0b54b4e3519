#!/bin/sh
# planner.sh - how good the planner is: every figure of docs/ACCURACY.md, from one command.
#
# usage: tests/bench/planner.sh [--write] [PART...]
#
# Runs the parts (default: all), prints their Markdown tables, and with --write puts them into
# docs/ACCURACY.md between the lines "<!-- begin PART -->" and "<!-- end PART -->".
#   published  step times, ranks and memory that others measured      tests/bench/published.sh
#   baselines  what a closed formula and another planner make of them  tests/bench/baselines.sh
#   campaigns  totals of published trainings                          tests/bench/campaigns.sh
#   study      the published study of layouts, planned                tests/bench/study.sh
#   own        memory, traffic and time of sennit-train on this host   tests/bench/own.sh
#   paced      ranks that sleep, over slowed links (wants root)        tests/bench/paced.sh
#   speed      layouts a second, bounded and exact                     tests/bench/speed.sh
set -eu
cd "$(dirname "$0")/../.."
all="published baselines campaigns study own paced speed"
page=docs/ACCURACY.md
write=
[ "${1-}" != --write ] || { write=1 && shift; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

# Put the file $2 between the marks of part $1.
put() {
    if ! grep -qx "<!-- begin $1 -->" $page || ! grep -qx "<!-- end $1 -->" $page; then
        echo "planner.sh: $page has no marks for $1" >&2
        exit 1
    fi
    awk -v part="$1" -v table="$2" '
        $0 == "<!-- end " part " -->" { inside = 0 }
        !inside
        $0 == "<!-- begin " part " -->" {
            inside = 1
            while ((getline line < table) > 0)
                print line
        }' $page >"$tmp/page"
    cat "$tmp/page" >$page
}

failed=0
# shellcheck disable=SC2086 # words
[ $# -gt 0 ] || set -- $all
for part; do
    case " $all " in
    *" $part "*) ;;
    *)
        echo "planner.sh: no part '$part'; want one of: $all" >&2
        exit 2
        ;;
    esac
    if tests/bench/"$part".sh >"$tmp/$part"; then
        cat "$tmp/$part"
        [ -z "$write" ] || put "$part" "$tmp/$part"
    else
        echo "planner.sh: $part failed; docs keep what they had" >&2
        failed=1
    fi
done
exit $failed
