#!/bin/sh
# data_memory.sh - the memory of sennit-data tokenize does not grow with its input: the same texts once and ten times.
#
# usage: [MIB=100] [WORKERS=2] [DIR=.] tests/bench/data_memory.sh
#   TORCH_PYTHON: a Python with tokenizers, which makes the texts and a tokenizer. anon: the most that the process had of its own (RssAnon,
#   looked at 50 times a second); all: with the pages of files that it maps, which the system takes back when it wants them (VmHWM).
set -eu
python=${TORCH_PYTHON:-python3} mib=${MIB:-100} data=${BUILD:-build}/bin/sennit-data
"$python" -c 'import tokenizers' 2>/dev/null || {
    echo "data_memory.sh: skipped: $python has no tokenizers; TORCH_PYTHON names another"
    exit 0
}
work=$(mktemp -d "${DIR:-.}/memory.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$python" tests/bench/tokenize.py text "$work/1.jsonl" "$mib" 1
"$python" tests/bench/tokenize.py train "$work/1.jsonl" "$work/tokenizer.json" llama3
for _ in 1 2 3 4 5 6 7 8 9 10; do cat "$work/1.jsonl"; done >"$work/10.jsonl"
echo "bytes seconds anon_MiB all_MiB"
for times in 1 10; do
    begin=$(date +%s.%N) anon=0 all=0
    "$data" tokenize "$work/$times.jsonl" --tokenizer "$work/tokenizer.json" --out "$work/out" --workers "${WORKERS:-2}" >/dev/null &
    while now=$(awk '/^RssAnon/ { a = $2 } /^VmHWM/ { h = $2 } END { print a + 0, h + 0 }' "/proc/$!/status" 2>/dev/null) && [ "$now" != "0 0" ]; do
        [ "${now% *}" -le "$anon" ] || anon=${now% *}
        [ "${now#* }" -le "$all" ] || all=${now#* }
        sleep 0.02
    done
    wait $!
    end=$(date +%s.%N)
    echo "$(wc -c <"$work/$times.jsonl") $begin $end $anon $all" | awk '{ printf "%s %.1f %.1f %.1f\n", $1, $3 - $2, $4 / 1024, $5 / 1024 }'
    rm -rf "$work/out"
done
