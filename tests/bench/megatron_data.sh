#!/bin/sh
# megatron_data.sh - sennit-data tokenize beside Megatron-LM's tools/preprocess_data.py: the same JSON lines, the same tokenizer.json, the
# same cores. Both files of the token set are compared, byte for byte, before a time is printed.
#
# usage: MEGATRON=FOLDER [MIB=100] [WORKERS=2] tests/bench/megatron_data.sh [KIND...]     llama3 (default), gpt2
#   MEGATRON: a checkout of github.com/NVIDIA/Megatron-LM; without it this is skipped. TORCH_PYTHON: a Python with torch, transformers and
#   tokenizers. Seconds are those of whole programs, each the best of three in turn; "encode" is what preprocess_data.py tells of its pass over the
#   documents, without its start.
set -eu
python=${TORCH_PYTHON:-python3} mib=${MIB:-100} workers=${WORKERS:-2} bin=${BUILD:-build}/bin
[ -f "${MEGATRON:-/nowhere}/tools/preprocess_data.py" ] || {
    echo "megatron_data.sh: skipped: MEGATRON names no checkout of Megatron-LM"
    exit 0
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Megatron-LM wants Python 3.12 for a decorator that does nothing.
printf 'import typing\nif not hasattr(typing, "override"):\n    typing.override = lambda f: f\n' >"$work/sitecustomize.py"
"$python" tests/bench/tokenize.py text "$work/text.jsonl" "$mib" 1
seconds() { # command...
    begin=$(date +%s.%N)
    "$@" >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2 && exit 1; }
    end=$(date +%s.%N)
    echo "$begin $end" | awk '{ printf "%.3f\n", $2 - $1 }'
}
theirs() { # kind
    rm -f "$work"/theirs_*
    PYTHONPATH=$work:$MEGATRON OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false "$python" "$MEGATRON/tools/preprocess_data.py" --input "$work/text.jsonl" \
        --output-prefix "$work/theirs" --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$work/$1" --workers "$workers" --log-interval 100
}
ours() { # kind
    rm -rf "$work/ours"
    "$bin/sennit-data" tokenize "$work/text.jsonl" --tokenizer "$work/$1/tokenizer.json" --out "$work/ours" --workers "$workers"
}
least() { # file
    sort -n "$1" | head -n 1
}
bytes=$(wc -c <"$work/text.jsonl")
echo "# $bytes bytes of JSON lines, $workers workers"
echo "kind sennit_s sennit_MB/s megatron_s encode_s times encode_times"
for kind in "${@:-llama3}"; do
    mkdir "$work/$kind"
    "$python" tests/bench/tokenize.py train "$work/text.jsonl" "$work/$kind/tokenizer.json" "$kind"
    echo '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}' >"$work/$kind/tokenizer_config.json"
    rm -f "$work"/*.times
    for _ in 1 2 3; do
        seconds theirs "$kind" >>"$work/theirs.times"
        sed -n 's/.* docs\/s, \([0-9.]*\) MB\/s.*/\1/p' "$work/log" | awk -v b="$bytes" 'END { print b / 1048576 / $1 }' >>"$work/encode.times"
        for part in bin idx; do mv "$work/theirs_text_document.$part" "$work/megatron.$part"; done
        seconds ours "$kind" >>"$work/ours.times"
        for part in bin idx; do
            cmp "$work/megatron.$part" "$work/ours/tokens.$part" || { echo "megatron_data.sh: $kind: the .$part files differ" >&2 && exit 1; }
        done
    done
    echo "$kind $(least "$work/ours.times") $bytes $(least "$work/theirs.times") $(least "$work/encode.times")" |
        awk '{ printf "%s %.2f %.1f %.2f %.2f %.1f %.1f\n", $1, $2, $3 / $2 / 1e6, $4, $5, $4 / $2, $5 / $2 }'
done
