#!/bin/sh
# train_tokenizer.sh - sennit-data train-tokenizer beside Hugging Face's tokenizers (Rust): the same file, the same cores. The trained files
# are compared, byte for byte, before a time is printed.
#
# usage: [MIB=64] [WORKERS=2] [SIZE=32000] tests/bench/train_tokenizer.sh [KIND...]     llama3 (default), gpt2
#   TORCH_PYTHON: a Python with tokenizers. Seconds of sennit are those of the whole program; those of tokenizers are of
#   train_from_iterator alone.
set -eu
python=${TORCH_PYTHON:-python3} mib=${MIB:-64} workers=${WORKERS:-2} size=${SIZE:-32000} bin=${BUILD:-build}/bin
"$python" -c 'import tokenizers' 2>/dev/null || { echo "train_tokenizer.sh: $python has no tokenizers; name one that has it by TORCH_PYTHON" >&2 && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" tests/bench/tokenize.py text "$work/text.jsonl" "$mib" 1
echo "# $(wc -c <"$work/text.jsonl") bytes of JSON lines, $size tokens, $workers threads, $("$python" -c 'import tokenizers; print("tokenizers", tokenizers.__version__)')"
echo "kind sennit_s sennit_MiB tokenizers_s times"
for kind in "${@:-llama3}"; do
    theirs=$(RAYON_NUM_THREADS=$workers TOKENIZERS_PARALLELISM=true "$python" tests/bench/tokenize.py learn "$work/text.jsonl" "$work/theirs.json" "$kind" "$size")
    begin=$(date +%s.%N)
    "$bin/sennit-data" train-tokenizer "$work/text.jsonl" --vocab-size "$size" -o "$work/ours.json" --force --pattern "$kind" --workers "$workers" >/dev/null &
    child=$! peak=0
    while kill -0 $child 2>/dev/null; do
        now=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' /proc/$child/status 2>/dev/null || :)
        peak=${now:-$peak}
        sleep 0.02
    done
    wait $child
    end=$(date +%s.%N)
    cmp "$work/theirs.json" "$work/ours.json" || { echo "train_tokenizer.sh: $kind: the files differ" >&2 && exit 1; }
    echo "$kind $begin $end $peak $theirs" | awk '{ s = $3 - $2; printf "%s %.2f %.0f %.2f %.1f\n", $1, s, $4 / 1024, $5, $5 / s }'
done
