#!/bin/sh
# slow.sh - the overlap benchmark over slow links: one rank on each of 2 to 4 hosts of netns.sh.
#
# usage: tests/bench/pace/slow.sh [RANKS] [RATE]         (default 2 200mbit; root only)
set -eu
cd "$(dirname "$0")/../../.."
netns=tests/bench/pace/netns.sh
n=${1:-2} rate=${2:-200mbit}
case $n in 2 | 3 | 4) ;; *) echo "slow.sh: $n hosts; want 2, 3 or 4" >&2 && exit 2 ;; esac

dir=$(mktemp -d)
trap '$netns down "$dir/n"; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
rc=0
$netns up "$dir/n" "$n" "$rate" || rc=$?
[ $rc != 77 ] || exit 0
[ $rc = 0 ] || exit $rc
before=$($netns bytes "$dir/n")
hosts=$($netns run "$dir/n" "$n" hostname | sort -u | wc -l)
[ "$hosts" = "$n" ] || { echo "slow.sh: $n ranks saw $hosts hosts" >&2 && exit 1; }
echo "$n ranks on $n hosts, each link $rate"
HIDDEN=${HIDDEN:-256} STEPS=${STEPS:-4} LAUNCH="$netns run $dir/n" LAUNCH_IS_SLOW=1 tests/bench/pace/overlap.sh "$n"
echo "$(awk "BEGIN { print ($($netns bytes "$dir/n") - $before) / 1e6 }") MB crossed the links"
