#!/bin/sh
# sennit-data merge, split, shuffle, dedup, stats, check: documents, sequences and masks are those of the input, whatever the
# types and the memory; what is there is not overwritten, what is wrong is named.
set -u
. tests/lib/tap.sh
need python3
here=$(pwd)
case $BUILD in
/*) data=$BUILD/bin/sennit-data ;;
*) data=$here/$BUILD/bin/sennit-data ;;
esac
look() { python3 "$here/tests/cli/rewrite.py" "$@"; }
cd "$tmp" || exit 1

fails() { # sentence exit-code text-of-stderr command...
    what=$1 code=$2 text=$3
    shift 3
    run "$data" "$@"
    is "$what" "$rc:$err" "$code:$text"
}

look make
run "$data" merge a b c -o all
is "merge ends well" "$rc:$err" "0:"
like "of u8, u16 and i32 it makes i32" "$out" '^all: [0-9]* tokens \(i32, 4 bytes each\), 1056 documents'
ok "merged are the documents of all, with their masks" look merged all a b c
run "$data" merge b a -o small
like "of u8 and u16 it makes u16" "$out" '\(u16, '
ok "merged in the order of the names" look merged small b a
run "$data" merge c -o again
ok "a merge of one is that one" cmp -s c.bin again.bin
ok "and its index" cmp -s c.idx again.idx
ok "what has no mask gets none" test ! -e again.mask
fails "what is there stays" 2 "again.bin: is there already; name another -o, or say --force to replace it" merge a -o again
run "$data" merge a -o again --force
ok "but with --force" look merged again a
run "$data" merge c -o again --force
ok "whose mask goes with it" test ! -e again.mask

run "$data" split all -o part --valid 0.1 --test 7 --seed 5
is "split tells of its parts" "$(echo "$out" | sed 's/: .* each), /: /')" "part-train: 943 documents, $(echo "$out" | sed -n '1s/.*, //p')
part-valid: 106 documents, $(echo "$out" | sed -n '2s/.*, //p')
part-test: 7 documents, $(echo "$out" | sed -n '3s/.*, //p')"
ok "each document is in one part, in its order" look parts all part-train part-valid part-test
run "$data" split all -o same --valid 0.1 --test 7 --seed 5 --json
ok "the seed decides" cmp -s part-valid.bin same-valid.bin
ok "split --json is JSON" sh -c 'printf "%s" "$1" | python3 -m json.tool >/dev/null' - "$out"
run "$data" split all -o other --valid 0.1 --test 7 --seed 6
ok "another one decides otherwise" sh -c '! cmp -s part-valid.bin other-valid.bin'
fails "a part of nothing" 2 "no: --valid 0.0001 of 1056 documents leaves nothing on one side; give more documents or another number" \
    split all -o no --valid 0.0001
fails "a part of all" 2 "no: --test 1056 of 1056 documents leaves nothing on one side; give more documents or another number" \
    split all -o no --test 1056
fails "no part" 2 "sennit-data split: into what; want --valid N, --test N, or both" split all -o no

run "$data" shuffle all -o order --seed 1
ok "shuffled are the same documents" look permuted order all
for memory in 100kB 3000 1; do # some windows, two rounds of files, a window for each document
    run "$data" shuffle all -o order.m --seed 1 --memory $memory
    ok "the same bytes with --memory $memory" cmp -s order.bin order.m.bin
    ok "and the same mask" cmp -s order.mask order.m.mask
    rm -f order.m.*
done
run "$data" shuffle a b c -o order.m --seed 1
ok "or from several files" cmp -s order.bin order.m.bin
is "no file is left beside them" "$(find . -name "*tmp*" | wc -l | tr -d " ")" 0

run "$data" merge all all -o twice
run "$data" dedup twice -o once
ok "of doubles the first stays" look first once a b c
like "what went is counted" "$out" 'dropped: 1[0-9]* of 2112 documents, '
run "$data" dedup a c b -o mixed
ok "tokens are compared, whatever their type" look first mixed a c b
run "$data" dedup a c b -o mixed --force --json
ok "dedup --json is JSON" sh -c 'printf "%s" "$1" | python3 -m json.tool >/dev/null' - "$out"

run "$data" stats all --json --frequent 3
is "stats --json counts" "$(printf '%s' "$out" | python3 -c 'import json, sys
s = json.load(sys.stdin)
d = s["document_tokens"]
print(s["documents"], s["empty_documents"], d["least"], d["most"], s["largest_token"], [f["count"] for f in s["frequent"]] == sorted((f["count"] for f in s["frequent"]), reverse=True))')" \
    "1056 1 0 60000 70000 True"
run "$data" stats all
like "stats tells of targets" "$out" '^targets by the mask: [0-9]* tokens \([0-9.]*%\)$'
like "and of percentiles" "$out" '^percentiles: 1%: 1, 5%: '

printf '%s\n' '-1 -1 1 1' '-1 -1 -1 -1 -1 -1 1 1' >talk.txt # prompts of 2 of 4 and 6 of 8 tokens
run "$data" build --tokens talk.txt --masked -o talk
run "$data" stats talk # 80 / 12; the root of 80 / 12 x 40 / 12
like "and of what to plan with" "$out" '^to plan with: data.document_length: 7, data.prefix_length: 5$'
run "$data" stats talk --json
like "which is in --json, too" "$out" '"plan": {"document_length": 7, "prefix_length": 5}'

# Of 12 tokens the 8 of whole samples: pieces of 4 and 4 tokens with prompts of 2 and 4 in either case.
run "$data" stats talk --seq 8 # 16 / 8 keys, 10 / 8 of prompts: of 5 tokens, (5 / 2 - 25 / 48) keys, and of 4
like "samples cut documents" "$out" '^to plan with: data.document_length: 5, data.prefix_length: 4 \(samples of 8 tokens\)$'
run "$data" stats talk --seq 4 --json
like "and may be documents" "$out" '"plan": {"document_length": 0, "prefix_length": 3, "seq": 4}'
python3 -c 'print(" ".join(["7"] * 10000)); [print(" ".join(["8"] * 100)) for i in range(9900)]' >long.txt
run "$data" build --tokens long.txt -o long
run "$data" stats long
like "a long document weighs as much as it is long" "$out" '^to plan with: data.document_length: 199$'
run "$data" stats long --seq 1024 # 1 % of tokens with 512 keys, 99 % with 50 - 100 x 100 / 6144
like "but in samples less" "$out" '^to plan with: data.document_length: 110 \(samples of 1024 tokens\)$'
fails "no sample" 2 "--seq: 12 tokens are no sample of 12, which wants one more; use more text, or a shorter one" stats talk --seq 12
fails "samples for a merge" 2 "sennit-data merge: --seq is for another command; see sennit-data merge --help" merge talk -o no --seq 4

run "$data" check all --vocab 70001
like "check: all is well" "$out" '^the index and the mask are sound, and every token is one of 0 .. 70000$'
fails "a token outside" 2 "all.bin: document 1004: token 0 of it (byte $(python3 -c 'import os; print(4 * (os.path.getsize("a.bin") + os.path.getsize("b.bin") // 2 + 3))')) is 70000, outside the vocabulary 0 .. 69999" \
    check all --vocab 70000
run "$data" check all --vocab 200
is "many: exit code" "$rc" 2
like "many: they are counted" "$err" '^all.bin: document 70[0-9]: token [0-9]* .* is [0-9]*, outside the vocabulary 0 .. 199; [0-9]* tokens of [0-9]* documents are$'
printf '\377\377\377\377' | dd of=all.bin bs=4 seek=5 conv=notrunc 2>/dev/null
fails "a token below 0" 2 "all.bin: document 1: token 4 of it (byte 20) is -1, outside the vocabulary 0 .. 70000" check all --vocab 70001
fails "which another type does not hold" 2 "wide: document 1: token 2 of it is 2147483648, which i32 does not hold; want 0 .. 2147483647" merge c wide -o no
cp a.mask b.mask
run "$data" check b
is "another file's mask" "$rc" 2
like "is named" "$err" '^b.mask: byte 16: a mask of '

# The record of a tokenizer is its folder's: nobody else's tokens may lie beside it.
mkdir known strangers apart
printf 'some text\n\nand more\n' >text.txt
run "$data" tokenize text.txt --tokenizer "$here/tests/unit/fixtures/token/llama3.json" --documents paragraphs --out known
is "tokenized: exit code" "$rc" 0
run "$data" merge c -o strangers/c
fails "beside tokens of nobody knows whom" 2 \
    "strangers/c.idx: tokens of a tokenizer that nobody knows are there, and these are of llama3.json; name another folder" \
    merge known/tokens -o strangers/no
is "nothing is there" "$(ls strangers)" "$(printf 'c.bin\nc.idx')"
fails "those beside a tokenizer's" 2 "known/no: tokens of the tokenizer llama3.json are there, and nobody knows whose these are; name another folder" \
    merge c -o known/no
run "$data" split known/tokens --valid 1 -o apart/x
run "$data" split known/tokens --valid 1 -o apart/x --force
is "its own parts are no strangers" "$rc" 0

fails "no prefix" 2 "sennit-data merge: no PREFIX; name token files" merge -o no
fails "no output" 2 "sennit-data shuffle: no output; want -o OUT" shuffle a
fails "another command's option" 2 "sennit-data merge: --seed is for another command; see sennit-data merge --help" merge a -o no --seed 1
run "$data" stats --help
like "--help shows the usage" "$out" '^usage: sennit-data merge '
is "nothing was left" "$(ls | grep -e '^no' -e tmp)" ''
tap_done
