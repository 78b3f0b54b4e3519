#!/bin/sh
# tokenize.sh - sennit-data tokenize beside Hugging Face's tokenizers (Rust): the same file, the same tokenizer, the same cores.
# The tokens are compared before a time is printed.
#
# usage: [MIB=100] [WORKERS=2] tests/bench/tokenize.sh [KIND...]     llama3 (default), gpt2, mistral, bert
#   TORCH_PYTHON: a Python with tokenizers. Seconds of sennit are those of the whole program (reading, JSON, writing, all parts put
#   together); those of tokenizers are of reading JSON and of encode_batch_fast, without Python's start, loading and writing.
set -eu
python=${TORCH_PYTHON:-python3} mib=${MIB:-100} workers=${WORKERS:-2} bin=${BUILD:-build}/bin
"$python" -c 'import tokenizers' 2>/dev/null || { echo "tokenize.sh: $python has no tokenizers; name one that has it by TORCH_PYTHON" >&2 && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" tests/bench/tokenize.py text "$work/text.jsonl" "$mib" 1
bytes=$(wc -c <"$work/text.jsonl")
echo "# $bytes bytes of JSON lines, $workers threads, $("$python" -c 'import tokenizers; print("tokenizers", tokenizers.__version__)')"
echo "kind sennit_s sennit_MB/s tokenizers_s tokenizers_MB/s times"
for kind in "${@:-llama3}"; do
    "$python" tests/bench/tokenize.py train "$work/text.jsonl" "$work/$kind.json" "$kind"
    theirs=$(RAYON_NUM_THREADS=$workers TOKENIZERS_PARALLELISM=true "$python" tests/bench/tokenize.py encode "$work/text.jsonl" "$work/$kind.json" "$work/theirs")
    begin=$(date +%s.%N)
    "$bin/sennit-data" tokenize "$work/text.jsonl" --tokenizer "$work/$kind.json" --out "$work/$kind" --workers "$workers" >/dev/null
    end=$(date +%s.%N)
    cmp "$work/theirs" "$work/$kind/tokens.bin" || { echo "tokenize.sh: $kind: the tokens differ" >&2 && exit 1; }
    echo "$kind $begin $end $theirs $bytes" | awk '{ s = $3 - $2; printf "%s %.2f %.1f %.2f %.1f %.1f\n", $1, s, $5 / s / 1e6, $4, $5 / $4 / 1e6, $4 / s }'
    rm -rf "$work/theirs" "${work:?}/$kind"
done
