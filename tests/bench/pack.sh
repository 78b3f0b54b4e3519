#!/bin/sh
# pack.sh - token files made of what needs no tokenizer, beside cp and a sync of the bytes that are written, on the disk where it is called:
# how much of the disk's speed is left. What was written is compared with what was read before a time is printed.
#
# usage: [MIB=1024] [REPEATS=5] [DIR=.] tests/bench/pack.sh
#   merge: three sets of tokens of two bytes in one, as parts of a corpus are put together; build: a text of lines, each byte a token, each
#   line a document. Documents of 1 to 2000 tokens. The two take turns with cp; times are medians, and "of_disk" that of cp over the verb's.
set -eu
data=$(cd "${BUILD:-build}/bin" && pwd)/sennit-data mib=${MIB:-1024} repeats=${REPEATS:-5}
work=$(mktemp -d "${DIR:-.}/pack.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
    echo "pack.sh: $*" >&2
    exit 1
}
# Lines of random bytes, a third of what is wanted for one part.
head -c $((mib * 1048576 / 6)) /dev/urandom | tr '\n' 'x' | LC_ALL=C awk 'BEGIN { RS = "x"; ORS = "" }
    { n += length($0) + 1; print $0 "x"; if (n > 1000 * (1 + NR % 7)) { print "\n"; n = 0 } } END { print "\n" }' >bytes
"$data" build --text bytes --raw --documents lines -o narrow >/dev/null
seq -s ' ' 0 600 >one.txt
"$data" build --tokens one.txt --vocab 60000 -o wide >/dev/null # makes the type of the first part two bytes
"$data" merge wide narrow -o part1 >/dev/null
for end in bin idx; do cp "part1.$end" "part2.$end" && cp "part1.$end" "part3.$end"; done
cat bytes bytes bytes bytes bytes bytes >text
rm -f narrow.* wide.* one.txt
merge() { "$data" merge part1 part2 part3 -o out; }
copy_of_merge() { cat part1.bin part2.bin part3.bin >out.bin && cat part1.idx part2.idx part3.idx >out.idx && sync out.bin out.idx; }
build() { "$data" build --text text --raw --documents lines -o out; }
copy_of_build() { cp text out.bin && cp text.idx out.idx && sync out.bin out.idx; }
seconds() { # command >> a line
    rm -f out.*
    sync
    begin=$(date +%s.%N)
    "$1" >/dev/null
    end=$(date +%s.%N)
    echo "$begin $end" | awk '{ printf "%.4f\n", $2 - $1 }' >>"$1.times"
}
median() {
    sort -n "$1.times" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
merge >/dev/null
cat part1.bin part2.bin part3.bin | cmp - out.bin || fail "merge: the tokens are not those of the parts"
"$data" check out --vocab 60001 >/dev/null || fail "merge: what was written does not hold"
build >/dev/null
"$data" check out --vocab 256 >/dev/null || fail "build: what was written does not hold"
cmp text out.bin || fail "build: the tokens are not the text's bytes"
mv out.idx text.idx
echo "what bytes seconds MB/s cp_seconds of_disk"
for verb in merge build; do
    for _ in $(seq "$repeats"); do
        seconds "copy_of_$verb"
        seconds "$verb"
    done
    echo "$verb $(($(wc -c <out.bin) + $(wc -c <out.idx))) $(median "$verb") $(median "copy_of_$verb")" |
        awk '{ printf "%s %d %.2f %.0f %.2f %.2f\n", $1, $2, $3, $2 / $3 / 1e6, $4, $4 / $3 }'
done
