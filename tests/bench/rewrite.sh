#!/bin/sh
# rewrite.sh - sennit-data merge, split, shuffle and dedup beside cp and a sync of the same bytes, on the disk where it is called.
#
# usage: [MIB=1024] [DIR=.] tests/bench/rewrite.sh [VERB...]
#   Documents of 1 to 2000 tokens of 2 bytes. Each time is the best of three, cp's too; ratio: of the verb to cp. "small" is a shuffle
#   by --memory of a sixteenth of the data, which writes the data twice.
set -eu
data=$(cd "${BUILD:-build}/bin" && pwd)/sennit-data mib=${MIB:-1024}
work=$(mktemp -d "${DIR:-.}/rewrite.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
# One MiB of lines of random bytes, as many times as are wanted, each piece with another beginning.
head -c $((mib << 19)) /dev/urandom | tr '\n' 'x' | LC_ALL=C awk 'BEGIN { RS = "x"; ORS = "" } { n += length($0) + 1; print $0 "x"; if (n > 1000 * (1 + NR % 7)) { print "\n"; n = 0 } }' >bytes
"$data" build --text bytes --raw --documents lines -o narrow >/dev/null
od -An -v -tu1 -w64 bytes | head -1000 | "$data" build --tokens - --vocab 60000 -o wide >/dev/null
"$data" merge wide narrow -o in >/dev/null
rm -f bytes narrow.* wide.*
seconds() { # command...: the best of three
    best=
    for _ in 1 2 3; do
        rm -f out*
        sync
        begin=$(date +%s.%N)
        "$@" >/dev/null
        end=$(date +%s.%N)
        best=$(echo "$begin $end ${best:-1e9}" | awk '{ s = $2 - $1; print s < $3 ? s : $3 }')
    done
    echo "$best"
}
copy() { cp in.bin out.bin && cp in.idx out.idx && sync out.bin out.idx; }
bytes=$(($(wc -c <in.bin) + $(wc -c <in.idx)))
"$data" stats in | sed 's/^/# /' | head -2
whole=$(seconds copy)
echo "what seconds MB/s ratio"
echo "cp $whole $bytes 1" | awk '{ printf "%s %.2f %.0f %.2f\n", $1, $2, $3 / $2 / 1e6, 1 }'
for verb in "${@:-merge split shuffle small dedup check stats}"; do
    for v in $verb; do
        case $v in
        split) s=$(seconds "$data" split in -o out --valid 0.1) ;;
        small) s=$(seconds "$data" shuffle in -o out --memory $((mib / 16))MiB) ;;
        check) s=$(seconds "$data" check in --vocab 300) ;;
        stats) s=$(seconds "$data" stats in) ;;
        *) s=$(seconds "$data" "$v" in -o out) ;;
        esac
        echo "$v $s $bytes $whole" | awk '{ printf "%s %.2f %.0f %.2f\n", $1, $2, $3 / $2 / 1e6, $2 / $4 }'
    done
done
