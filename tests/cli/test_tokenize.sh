#!/bin/sh
# sennit-data tokenize: the same tokens by any number of workers, from any packing; what is bad is
# named; what was stopped goes on; the tokens are read back as text, and trained on.
set -u
. tests/lib/tap.sh
here=$(pwd)
case $BUILD in
/*) bin=$BUILD/bin ;;
*) bin=$here/$BUILD/bin ;;
esac
data=$bin/sennit-data
tokenizer=$here/tests/unit/fixtures/token/llama3.json
cd "$tmp" || exit 1

printf 'x' >probe.txt
run "$data" tokenize probe.txt --tokenizer "$tokenizer" --out probe
case $err in
*"this build has no"*)
    skip "sennit-data tokenize" "${err##*: }"
    tap_done
    exit
    ;;
esac

mkdir texts
i=0
while [ $i -lt 3000 ]; do
    printf '{"id": %d, "text": "line %d of caf\\u00e9, don'"'"'t stop\\n\\ud83d\\ude42 %d"}\n' $i $i $((i * 7919 % 1000))
    i=$((i + 1))
done >texts/b.jsonl
printf 'hello world\n\nsecond paragraph\n' >texts/a.txt
work() { # out options...
    out_dir=$1
    shift
    run "$data" tokenize texts --tokenizer "$tokenizer" --out "$out_dir" "$@"
}
work one --workers 1 --end '<|endoftext|>'
is "it ends well" "$rc:$err" "0:"
like "it says what it wrote" "$out" '^one/tokens: [0-9]* tokens \(u16\), 3001 documents, of [0-9]* bytes of text in 2 files$'
work four --workers 4 --end '<|endoftext|>'
ok "the number of workers changes nothing" cmp -s one/tokens.bin four/tokens.bin
ok "nor in the index" cmp -s one/tokens.idx four/tokens.idx
is "parts are gone" "$(ls one)" "llama3.json
tokenize.jsonl
tokens.bin
tokens.idx"
work one --workers 1 --end '<|endoftext|>'
like "again: it was there" "$out" 'all of it was there$'
work one --begin '<|endoftext|>'
is "with other options: exit code" "$rc" 2
is "with other options: the sentence" "$err" "one: was begun with another tokenizer, other files or other options; name another --out, or remove it"
run "$data" print one/tokens --text --document 1 --tokens 1000
like "the tokenizer beside them gives the text back" "$out" '^line 0 of café, don.t stop\\n🙂 0<\|endoftext\|>$'

cp -r texts packed
gzip packed/b.jsonl
run "$data" tokenize packed --tokenizer "$tokenizer" --out gz --end '<|endoftext|>'
case $err in
*"this build has no zlib"*) skip "packed with gzip" "this build has no zlib" ;;
*) ok "packed with gzip they are the same" cmp -s one/tokens.bin gz/tokens.bin ;;
esac
mv packed/b.jsonl.gz packed/b.jsonl
run "$data" tokenize packed --tokenizer "$tokenizer" --out named --end '<|endoftext|>'
[ "$rc" != 0 ] || ok "and are known by their bytes, whatever their name" cmp -s one/tokens.bin named/tokens.bin
head -c 20000 packed/b.jsonl >cut.jsonl.gz
run "$data" tokenize cut.jsonl.gz --tokenizer "$tokenizer" --out cut
is "a packed stream that is cut short: exit code" "$rc" 2
case $err in
*"this build has no zlib"*) skip "it is named, with what was before it" "this build has no zlib" ;;
*) is "it is named, with what was before it" "$err" "cut.jsonl.gz: the packed stream is cut short near byte 20000; copy it anew; $(zcat <cut.jsonl.gz 2>/dev/null | wc -l | tr -d ' ') whole lines come before it" ;;
esac

# What holds texts and is not read.
mkdir columns
echo '{"text": "a"}' >columns/a.jsonl
printf 'ARROW1' >columns/b.arrow
run "$data" tokenize columns --tokenizer "$tokenizer" --out columns.out
is "an Arrow file among texts is not passed over" "$rc:$err" "2:columns/b.arrow: such files are not read; write it as JSON lines, or name the files of the directory that are meant"

# What is bad, and going on.
mkdir two
cp texts/a.txt two/a.txt
printf '{"text": "good"}\nnot json\n{"text": "\\ud800"}\n{"title": "none"}\n' >two/b.jsonl
run "$data" tokenize two --tokenizer "$tokenizer" --out going
is "a bad line: exit code" "$rc" 2
is "a bad line is named" "$err" "two/b.jsonl:2: is no JSON object, or it is cut short; repair it, or leave such documents out with --skip-bad"
run "$data" tokenize two --tokenizer "$tokenizer" --out going --skip-bad 2
is "more bad lines than may be: exit code" "$rc" 2
like "the line that was too much" "$err" '^two/b.jsonl:4: has no text .text.; name the member with --field; it is one more than the 2 that --skip-bad leaves out$'
run "$data" tokenize two --tokenizer "$tokenizer" --out going --skip-bad 3
is "as many as may be: exit code" "$rc" 0
like "it goes on with what was not done" "$out" '2 documents, .*; 3 left out; 1 of the files were done before'
printf '\357\273\277{"text": "a"}\n' >mark.jsonl
run "$data" tokenize mark.jsonl --tokenizer "$tokenizer" --out mark
like "a byte order mark is named" "$rc:$err" '^2:mark.jsonl:1: begins with a byte order mark'
printf '[{"text": "a"}]\n' >list.json
run "$data" tokenize list.json --tokenizer "$tokenizer" --out list
like "and a list" "$rc:$err" '^2:list.json:1: is a list, and not an object on a line of its own'
printf '{"text": "a"}\n{"text": "caf\351"}\n' >latin.jsonl
run "$data" tokenize latin.jsonl --tokenizer "$tokenizer" --out latin-lines
like "and a line that is no UTF-8" "$rc:$err" '^2:latin.jsonl:2: byte 3 .0xe9. is no valid UTF-8; '
printf 'caf\351\n' >latin.txt
run "$data" tokenize latin.txt --tokenizer "$tokenizer" --out latin
is "no UTF-8: exit code" "$rc" 2
is "no UTF-8: the sentence" "$err" "latin.txt: byte 3 (0xe9) is no valid UTF-8; repair it, or leave such documents out with --skip-bad"
run "$data" tokenize 'none*.txt' --tokenizer "$tokenizer" --out none
is "a pattern that fits nothing" "$rc:$err" "2:none*.txt: fits no file"
run "$data" tokenize texts --tokenizer "$tokenizer" --out none --end '<nope>'
is "a token that there is not" "$rc:$err" "2:$tokenizer: has no token '<nope>'"
run "$data" tokenize texts --out none
is "no tokenizer" "$rc:$err" "2:sennit-data tokenize: no tokenizer; want --tokenizer FILE"
run "$data" tokenize texts/a.txt --tokenizer "$tokenizer" --out paragraphs --documents paragraphs
like "paragraphs are documents" "$out" ' 2 documents'

# Several processes.
mkdir many
for i in 0 1 2 3 4 5 6; do
    sed -n "$((i * i * 50 + 1)),$((i * i * 50 + 300 * i + 1))p" texts/b.jsonl >many/$i.jsonl
done
share() { # out options...
    out_dir=$1
    shift
    "$data" tokenize many --tokenizer "$tokenizer" --out "$out_dir" --end '<|endoftext|>' --workers 1 "$@"
}
share whole >/dev/null
SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=1 share apart >said.1 2>&1
like "a process of several leaves what is others'" "$(cat said.1)" '^apart: share 1 of 3 is done; [0-9] of 7 files are others. and are not$'
for i in 0 1 2; do
    share apart --share $i/3 >said.$i 2>&1 &
done
wait
ok "three at once make the same tokens" cmp -s whole/tokens.bin apart/tokens.bin
ok "and the same index" cmp -s whole/tokens.idx apart/tokens.idx
# Who comes when another has just done so says the same of them.
ok "one of them has put the parts together" grep -qE 'tokens \(u16\), .* in 7 files' said.0 said.1 said.2
is "and nothing is left of them" "$(ls apart | tr '\n' ' ')" "llama3.json tokenize.jsonl tokens.bin tokens.idx "
is "the record says the same of all parts" "$(sort apart/tokenize.jsonl | sed s,apart/,,)" "$(sort whole/tokenize.jsonl | sed s,whole/,,)"
for after in 0.005 0.01 0.02 0.03 0.05; do # killed somewhere, in a part or at the end
    timeout -s KILL $after "$data" tokenize many --tokenizer "$tokenizer" --out killed --end '<|endoftext|>' --share 0/2
    share killed --share 1/2 &
done >/dev/null 2>&1
wait
share killed --share 0/2 >/dev/null 2>&1
share killed --share 1/5 >/dev/null 2>&1
ok "some are killed: the same command goes on" cmp -s whole/tokens.bin killed/tokens.bin
for wrong in 2/2 1 -1/2 1/2x 0/0; do
    run share apart --share $wrong
    [ "$rc:$err" = "2:--share: '$wrong' is none; want I/N with I from 0 to N - 1, such as 0/4" ] || break
done
is "a share that is none" "$rc:$err" "2:--share: '0/0' is none; want I/N with I from 0 to N - 1, such as 0/4"

# Trained on, and text again.
i=0
while [ $i -lt 100 ]; do
    echo 'the cat sat down near mats with a café 🙂 and naïve 日本 words'
    i=$((i + 1))
done >learn.txt
run "$data" tokenize learn.txt --documents lines --tokenizer "$tokenizer" --out learnt --end '<|endoftext|>'
cat >run.yaml <<END
run: {name: tokens, output: out}
model: {family: llama, layers: 1, hidden: 32, heads: 2, kv_heads: 1, ffn: 64, vocab: 512, seq: 48}
data: {train: learnt/tokens}
train: {steps: 60, global_batch: 4, schedule: {kind: constant, warmup: 0}, optimizer: {lr: 0.02}}
layout: {data: 1, micro_batch: 4}
END
train=$bin/sennit-train
run "$train" run.yaml
is "sennit-train trains on them" "$rc" 0
[ "$rc" = 0 ] || tap_lines stderr "$err"
run "$train" run.yaml --generate "the cat" --temperature 0 --tokens 200
is "a prompt is text, what follows is text, and the document's end ends it" "$out" "the cat sat down near mats with a café 🙂 and naïve 日本 words"
printf "near mats" >prompt
run "$train" run.yaml --prompt-file prompt --temperature 0 --stop ' '
is "of a file, up to a token" "$out" "near mats with a café"
run "$train" run.yaml --generate "the cat" --temperature 3 --top-k 0 --top-p 0 --tokens 200
is "the fewest tokens of no share are the likeliest" "$out" "the cat sat down near mats with a café 🙂 and naïve 日本 words"
run "$train" run.yaml --generate "the cat" --temperature 1.5 --top-k 0 --top-p 0.9 --tokens 30
drawn=$out
sed 's/layout: .*/layout: {data: 2, tensor: 2, micro_batch: 1}/' run.yaml >other.yaml
run "$train" other.yaml --generate "the cat" --temperature 1.5 --top-k 0 --top-p 0.9 --tokens 30
is "the same text, whatever the layout" "$out" "$drawn"
run "$train" run.yaml --generate "the cat" --tokenizer "${tokenizer%/*}/gpt2.json"
like "another tokenizer than the data's is refused" "$rc:$err" '--tokenizer: .*gpt2.json \(xxh3 [0-9a-f]{16}\) is not the run.s, learnt/llama3.json \(xxh3 [0-9a-f]{16}\); leave it out$'
run "$train" run.yaml --generate x --stop 'the cat sat'
like "what stops must be a token" "$rc:$err" "--stop: 'the cat sat' is no token, but [0-9]*; name one$"
run "$data" tokenize learn.txt --tokenizer "${tokenizer%/*}/gpt2.json" --out others
sed 's,train: learnt/tokens,train: learnt/tokens\, valid: others/tokens,' run.yaml >two.yaml
for program in "$train" "$bin/sennit-plan"; do
    run "$program" two.yaml
    like "${program##*/}: data of two tokenizers" "$rc:$err" 'two.yaml: data.valid: others/tokens is of the tokenizer gpt2.json \(xxh3 [0-9a-f]{16}\), but data.train is of llama3.json \(xxh3 [0-9a-f]{16}\); tokenize both with one$'
done
sed 's/vocab: 512/vocab: 499/' run.yaml >small.yaml
run "$train" small.yaml
like "a model of fewer tokens" "$rc:$err" 'small.yaml: model.vocab: 499, but the tokenizer of data.train, llama3.json, has 500 tokens; want at least as many$'
# The tokenizer goes with checkpoints, into other layouts, and into the field's files.
same=$(ls -d out/ckpt/tokenizer-*)
is "the tokenizer lies beside the checkpoints" "$(cmp learnt/llama3.json "$same/llama3.json" && echo equal)" equal
sed 's,learnt/tokens,others/tokens,; s/steps: 60/steps: 61/' run.yaml >foreign.yaml
for program in "$train" "$bin/sennit-plan"; do
    run "$program" foreign.yaml
    like "${program##*/}: going on with data of another tokenizer" "$rc:$err" "out/ckpt(/step-00000060)?: was trained with the tokenizer llama3.json .xxh3 [0-9a-f]{16}., but the data of this run is of gpt2.json .xxh3 [0-9a-f]{16}.; tokenize it with the first, or begin anew with another run.output\$"
done
run "$bin/sennit-convert" out/ckpt cut2 --layout other.yaml
run "$bin/sennit-convert" cut2 field --to safetensors
is "it goes through sennit-convert" "$rc:$(cmp learnt/llama3.json field/tokenizer.json && grep -cE '"(eos_token_id": 0|bos_token_id": null)' field/config.json)" "0:2"
mv learnt away
run "$train" run.yaml --generate "the cat" --temperature 0
is "and is known where the data is not" "$out" "the cat sat down near mats with a café 🙂 and naïve 日本 words"
mv away learnt
rm -r "$same"
run "$bin/sennit-convert" out/ckpt bare --to safetensors
like "a tokenizer that is lost" "$rc:$err:$(ls bare)" "llama3.json: the tokenizer's file .xxh3 [0-9a-f]{16}. is not there; put it in its place"
echo >>learnt/llama3.json
run "$train" run.yaml --generate x
like "a tokenizer that was changed since" "$rc:$err" 'learnt/llama3.json: is not the tokenizer that the tokens are of \(xxh3 [0-9a-f]{16}, not [0-9a-f]{16}\); put that one in its place$'
tap_done
