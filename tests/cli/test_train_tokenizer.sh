#!/bin/sh
# sennit-data train-tokenizer: the file is, byte for byte, what Hugging Face's tokenizers trains and saves (a golden file; where a
# Python has tokenizers, random trainings too), by any number of workers; tokenize reads it; what is wrong is named.
set -u
. tests/lib/tap.sh
here=$(pwd)
case $BUILD in
/*) data=$BUILD/bin/sennit-data ;;
*) data=$here/$BUILD/bin/sennit-data ;;
esac
golden=$here/tests/unit/fixtures/token/trained.json
python=${TORCH_PYTHON:-python3}
cd "$tmp" || exit 1

cat >texts.jsonl <<'END'
{"text": "low lower lowest, new newer newest; wide wider widest"}
{"text": "The newest of the lower ones' width isn't low: 1234 12345 1999\n\n\tand so on  and on"}
{"text": "caf\u00e9 na\u00efve caf\u00e9s \u65e5\u672c\u8a9e \u65e5\u672c \ud83d\ude42\ud83d\ude42 aaaaaaa aaaa abab ababab"}
{"text": "<|endoftext|> is text here: low low lower"}
END
train() { # file options...
    file=$1
    shift
    run "$data" train-tokenizer texts.jsonl -o "$file" --vocab-size 90 --alphabet seen --special '<|endoftext|>' "$@"
}
train one.json --workers 1
case $err in
*"this build has no"*)
    skip "sennit-data train-tokenizer" "${err##*: }"
    tap_done
    exit
    ;;
esac
is "it ends well" "$rc:$err" "0:"
is "it tells what it made" "$out" "one.json: 90 tokens, 40 merges, of 59 words, 48 of them different, in 1 file"
ok "the file is that of tokenizers 0.23" cmp -s one.json "$golden"
train four.json --workers 4
ok "the number of workers changes nothing" cmp -s one.json four.json
train one.json
is "a file that is there stays" "$rc:$err" "2:one.json: is there already; name another -o, or say --force to replace it"
train one.json --force --json
like "but with --force" "$out" '^\{"file": "one.json", "vocab": 90, "merges": 40, '
run "$data" tokenize texts.jsonl --tokenizer one.json --out tokens --end '<|endoftext|>'
is "tokenize reads it" "$rc:$err" "0:"
run "$data" print tokens/tokens --document 2 --text --tokens 100
like "and print gives the text back" "$out" '^café naïve cafés 日本語 日本 🙂🙂 aaaaaaa aaaa abab ababab<\|endoftext\|>$'
run "$data" train-tokenizer texts.jsonl -o more.json --vocab-size 5000
like "where no pair is left it says so" "$out" '^no pair is left that is seen 2 times; 5000 tokens were wanted$'

fails() { # sentence exit-code text-of-stderr command...
    what=$1 code=$2 text=$3
    shift 3
    run "$data" train-tokenizer "$@"
    is "$what" "$rc:$err" "$code:$text"
}
printf 'caf\351\n' >latin.txt
printf '{"text": "good"}\nnot json\n' >bad.jsonl
: >empty.txt
fails "no UTF-8" 2 "latin.txt: byte 3 (0xe9) is no valid UTF-8; repair it, or leave such documents out with --skip-bad" \
    latin.txt -o no.json --vocab-size 300
fails "a bad line" 2 "bad.jsonl:2: is no JSON object, or it is cut short; repair it, or leave such documents out with --skip-bad" \
    bad.jsonl -o no.json --vocab-size 300
run "$data" train-tokenizer bad.jsonl -o left.json --vocab-size 300 --skip-bad 1
like "may be left out, and is listed" "$rc:$out$err" '^0:.*; 1 left out'
like "by file and line" "$err" 'bad.jsonl:2: left out: is no JSON object'
fails "no words" 2 "no.json: no words in any of the files" empty.txt -o no.json --vocab-size 300
fails "a special token twice" 2 "--special: '<x>' is there twice" texts.jsonl -o no.json --vocab-size 300 --special '<x>' --special '<x>'
fails "no size" 2 "sennit-data train-tokenizer: no size; want --vocab-size N" texts.jsonl -o no.json
fails "another pattern" 2 "--pattern: 'bert' is unknown; want gpt2, llama3 or qwen2" texts.jsonl -o no.json --vocab-size 300 --pattern bert
ok "and leaves no file" test ! -e no.json
fails "no folder" 1 "none/x.json: cannot be written (No such file or directory); create its folder first" \
    texts.jsonl -o none/x.json --vocab-size 300

if "$python" -c 'import tokenizers' 2>/dev/null; then
    is "random trainings are those of tokenizers" "$("$python" "$here/tests/cli/train_tokenizer.py" compare "$data" 15 "${SEED:-1}" 2>&1)" ''
else
    skip "random trainings are those of tokenizers" "$python has no tokenizers; name one that has it by TORCH_PYTHON"
fi
tap_done
