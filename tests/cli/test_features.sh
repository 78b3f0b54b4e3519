#!/bin/sh
# test_features.sh - --generate and --score of runs with train.prompt: texts behind soft tokens and features of a file, those of
# evaluation, whatever the layout, with keys and values kept and without; and what is refused. With ALL=1 more layouts.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train

npy() { # path shape numbers: each z (0), a (1), or n (none)
    {
        printf '\223NUMPY\001\000\166\000'
        printf '%-117s\n' "{'descr': '<f2', 'fortran_order': False, 'shape': ($2), }"
        printf '%s' "$3" | sed 's/./z&/g' | tr 'zan' '\000\074\176'
    } >"$1"
}
# Captions of four kinds in 16 tokens: three places, four words and what ends them. Of each the features in front of two layers,
# of which one of 8 numbers is 1. The first word of one in five does not count.
numbers() { # documents: of the first ones
    awk -v n="$1" 'BEGIN { for (d = 0; d < n; d++) for (i = 0; i < 32; i++)
        printf "%s", i % 8 == (d * 7 % 4 + (i > 15 ? 3 : 0)) ? "a" : "z" }'
}
captions() { # prefix documents
    awk -v n="$2" 'BEGIN { for (d = 0; d < n; d++) {
        printf "7 8 9"
        for (i = 0; i < 4; i++) printf " %s%d", d % 5 || i ? "" : "-", 10 + d * 7 % 4 * 5 + i
        printf " 1"
        for (i = 8; i < 16; i++) printf " -0"
        print "" } print "-0" }' >"$tmp/$1.txt"
    "$BUILD/bin/sennit-data" build --tokens --masked "$tmp/$1.txt" --vocab 64 -o "$tmp/$1" >/dev/null
    npy "$tmp/$1.npy" "$2, 4, 8" "$(numbers "$2")"
}
captions tok 64
captions held 12

one() { # name [keys of data] [of train.prompt]: trained
    cat >"$tmp/$1.yaml" <<YAML
run: {name: test, seed: 7, output: $tmp/$1, threads: 1}
model: {family: llama, layers: 3, hidden: 32, heads: 4, kv_heads: 2, ffn: 48, vocab: 64, seq: 16, init_std: 0.2}
data: {${2:-}train: $tmp/tok, valid: $tmp/held, loss: mask}
train:
  steps: 40
  global_batch: 8
  prompt: {${3:-soft: 1, rows: 2, size: 8, levels: true, layers: [0, 2]}}
  optimizer: {lr: 3.0e-2, weight_decay: 0.0}
  schedule: {kind: cosine, warmup: 4, min_lr: 1.0e-3}
  eval_every: 40
layout: {micro_batch: 2}
checkpoint: {dir: ckpt, every: 40}
YAML
    run "$train" "$tmp/$1.yaml"
    is "$1: trains" "$rc" 0
    [ "$rc" = 0 ] || tap_lines train "$err"
}

# What evaluation asks: all words of the held captions that count.
sed '/^-0/d; s/^7 8 9 //; s/ -0//g; s/ /,/g; s/^-\([0-9]*\),/"context": [\1], /; s/^[0-9]/"context": [], &/
    s/\], /&"continuation": [/; s/.*/{&]}/' "$tmp/held.txt" >"$tmp/ask"
same_loss() { # what ranks: what is asked is as likely as evaluation says
    run mpi "$2" "$train" "$tmp/$yaml.yaml" --score "$tmp/ask" --features "$tmp/held.npy"
    is "$1: scores" "$rc $(printf '%s\n' "$out" | wc -l)" "0 12"
    [ "$rc" = 0 ] || tap_lines "$1" "$err"
    loss=$(metric val_loss "$tmp/${yaml%-two}/metrics.jsonl")
    mean=$(printf '%s\n' "$out" | sed 's/.*"logprob": \([-0-9.e]*\),.*"tokens": \([0-9]*\),.*/\1 \2/' |
        awk '{ sum -= $1; n += $2 } END { printf "%.9g", n == 57 ? sum / n : "nan" }')
    ok "$1: as evaluation does ($mean, $loss)" awk -v a="$mean" -v b="$loss" 'BEGIN { d = a / b - 1; exit !(d < 2e-6 && d > -2e-6) }'
}
greedy() { # what file features answers: they are the likeliest behind what they begin with
    paste -d'|' "$2" "$4" | sed 's/^ *//; s/ *| */|/; s/ /,/g' | awk -F'|' '{
        n = $1 == "" ? 0 : split($1, prompt, ","); m = split($2, all, ",")
        printf "{\"context\": [%s], \"continuation\": [", $1
        for (i = n + 1; i <= m; i++) printf "%s%s", (i > n + 1 ? "," : ""), all[i]
        print "]}" }' >"$tmp/greedy"
    run "$train" "$tmp/$yaml.yaml" --score "$tmp/greedy" --features "$3"
    is "$1: each word is the likeliest" "$rc $(printf '%s\n' "$out" | grep -c '"greedy": true, "tokens": 5')" "0 12"
    [ "$rc" = 0 ] || tap_lines "$1" "$err" "$out"
}
same_text() { # what command...
    what=$1
    shift
    run "$@"
    is "$what: the text" "$rc $out" "0 $text"
    [ "$rc" = 0 ] || tap_lines "$what" "$err"
}
all_of() { # name, trained: texts and scores, in layouts
    yaml=$1
    same_loss "$1" 1
    write="$train $tmp/$1.yaml --temperature 0 --features $tmp/held.npy"
    run $write --generate '' --tokens 5
    text=$out
    is "$1: a text for each entry" "$rc $(printf '%s\n' "$out" | grep -cE '^( [0-9]+){5}$')" "0 12"
    [ "$rc" = 0 ] || tap_lines "$1" "$err"
    printf '%s\n' "$text" >"$tmp/texts"
    ok "$1: entries of a kind give one text, others others" awk '{ k = NR % 4; bad = bad || (k in of && of[k] != $0); of[k] = $0 }
        END { for (i in of) n += !seen[of[i]]++; exit bad || n != 4 }' "$tmp/texts"
    awk 'BEGIN { for (i = 0; i < 12; i++) print "" }' >"$tmp/empty"
    greedy "$1" "$tmp/empty" "$tmp/held.npy" "$tmp/texts"
    same_text "$1, three stages" mpi 3 $write --generate '' --tokens 5
    # A prompt for each entry, and texts that are longer than the window.
    awk 'BEGIN { for (i = 0; i < 12; i++) print i % 3 ? 10 + i " 7" : "" }' >"$tmp/prompts"
    run $write --prompt-file "$tmp/prompts" --tokens 5
    printf '%s\n' "$out" >"$tmp/texts"
    greedy "$1, prompts" "$tmp/prompts" "$tmp/held.npy" "$tmp/texts"
    run $write --prompt-file "$tmp/prompts" --tokens 24
    text=$out
    is "$1, prompts: texts behind them" "$rc $(printf '%s\n' "$out" | grep -cE '^[0-9 ]{60}')" "0 12"
    printf '%s\n' "$out" | awk '{ printf "{\"context\": ["; for (i = 10; i < 21; i++) printf "%s%s", (i > 10 ? "," : ""), $i
        print "], \"continuation\": [" $21 "]}" }' >"$tmp/late" # 13 tokens have room, and a window moves on by 3
    [ "$1" = prefix ] || run "$train" "$tmp/$1.yaml" --score "$tmp/late" --features "$tmp/held.npy" # a context is a prefix
    [ "$1" = prefix ] || is "$1, prompts: the 21st word is the likeliest behind what its window has" "$rc $(printf '%s\n' "$out" | grep -c '"greedy": true')" "0 12"
    same_text "$1, prompts: nothing kept" $write --prompt-file "$tmp/prompts" --tokens 24 --no-cache
    same_text "$1, prompts: two tensor ranks" mpi 2 $write --prompt-file "$tmp/prompts" --tokens 24
}
in_layout() { # keys
    sed "s/^layout: {/&$1, /" "$tmp/$yaml.yaml" >"$tmp/$yaml-two.yaml"
    was=$yaml yaml=$yaml-two
    same_loss "$was, $1" 2
    yaml=$was
}

one alm
like "says that the model's weights are noise" "$err" 'alm.yaml: train.prompt learns beside weights that are random and stay so; name .*: train.init_from$'
all_of alm
in_layout 'tensor: 2'
in_layout 'pipeline: 2'
sed "s/^run: {/&backend: cuda, channels: host, /" "$tmp/alm.yaml" >"$tmp/device.yaml"
same_text "a device" env SN_PLUGIN="$PWD/$BUILD/tests/gpu/libfake_device.so" "$train" "$tmp/device.yaml" --temperature 0 \
    --features "$tmp/held.npy" --prompt-file "$tmp/prompts" --tokens 24
one prefix 'documents: apart, prefix: prompt, '
all_of prefix
in_layout 'context: 2'
if [ -n "${ALL:-}" ]; then
    for keys in 'data: 2, zero: 3' 'tensor: 2' 'pipeline: 2' 'context: 2, context_kind: all-to-all'; do in_layout "$keys"; done
    yaml=alm
    for keys in 'data: 2, zero: 3' 'context: 2' 'context: 2, context_kind: all-to-all'; do in_layout "$keys"; done
fi

# Layers before the first prompt see the places, whatever tokens the data has there.
one behind '' 'soft: 1, rows: 2, size: 8, levels: true, layers: [1, 2]'
yaml=behind
same_loss behind 1

run "$train" "$tmp/alm.yaml"
is "a run that goes on says nothing of its weights" "$rc $(printf '%s\n' "$err" | grep -c 'are random')" "0 0"
sed 's/  prompt: .*/  lora: {rank: 2, targets: ["*.attn.q.weight"]}/; s#output: [^,]*#output: '"$tmp"'/lora#' "$tmp/alm.yaml" >"$tmp/lora.yaml"
run "$train" "$tmp/lora.yaml" --stop-after 1
like "adapters beside noise" "$err" 'lora.yaml: train.lora learns beside weights that are random and stay so'

yaml=alm
ask() { # option...
    run "$train" "$tmp/$yaml.yaml" --temperature 0 "$@"
}
ask --generate '' --features "$tmp/held.npy" --stop 1
is "a number ends texts where no tokenizer is known" "$rc $(printf '%s\n' "$out" | wc -l) $(printf '%s\n' "$out" | grep -cE '(^| )1( |$)')" "0 12 0"
sed 's/$/\r/' "$tmp/prompts" >"$tmp/prompts-crlf"
ask --prompt-file "$tmp/prompts" --features "$tmp/held.npy" --tokens 5
printf '%s\n' "$out" >"$tmp/texts"
ask --prompt-file "$tmp/prompts-crlf" --features "$tmp/held.npy" --tokens 5
is "lines that end otherwise" "$rc $out" "0 $(cat "$tmp/texts")"
awk '{ gsub(/^ +| +$/, ""); gsub(/ +/, ", "); print "{\"prompt\": [" $0 "], \"tokens\": 5}" }' "$tmp/prompts" >"$tmp/prompts.jsonl"
ask --answer "$tmp/prompts.jsonl" --features "$tmp/held.npy"
is "answers behind features: the same words" "$rc $(printf '%s\n' "$out" | sed 's/.*"ids": \[//; s/\].*//; s/,//g')" \
    "0 $(awk '{ print $(NF - 4), $(NF - 3), $(NF - 2), $(NF - 1), $NF }' "$tmp/texts")"
ask --generate '' --features "$tmp/held" --tokens 5
printf '%s\n' "$out" >"$tmp/texts"
ask --generate '' --features "$tmp/held.npy" --tokens 5
is "a prefix, as data has it" "$rc $out" "0 $(cat "$tmp/texts")"

refused() { # what sentence option...
    what=$1 sentence=$2
    shift 2
    run "$train" "$tmp/$yaml.yaml" "$@"
    is "$what: refused" "$rc$out" 2
    like "$what: why" "$err" "$sentence"
}
refused "no file" '^--generate: its prompts are of features \(train.prompt.rows: 2\); want --features FILE.npy, an entry for each text$' --generate ''
refused "no file to score" '^--score: its prompts are of features' --score "$tmp/ask"
refused "a file that is missing" 'none.npy: there is no such file; ' --generate '' --features "$tmp/none.npy"
refused "tokens for features" 'held.bin.npy: there is no such file; ' --generate '' --features "$tmp/held.bin"
npy "$tmp/wide.npy" '12, 4, 4' "$(numbers 6)"
refused "another shape" 'wide.npy: its shape is \(12, 4, 4\); train.prompt wants \(entries, 4, 8\)$' --generate '' --features "$tmp/wide.npy"
sed 's/<f2/<i2/' "$tmp/held.npy" >"$tmp/whole.npy"
refused "whole numbers" "whole.npy: its numbers are of type '<i2'; want little-endian float32 or float16" --generate '' --features "$tmp/whole.npy"
npy "$tmp/none-at-all.npy" '0, 4, 8' ''
refused "no entry" 'none-at-all.npy: there is no entry in it' --generate '' --features "$tmp/none-at-all.npy"
npy "$tmp/nan.npy" '12, 4, 8' "$(numbers 11)$(numbers 1 | sed 's/.$/n/')"
for how in "--generate 1" "--prompt-file $tmp/prompts" "--score $tmp/ask"; do
    refused "a number that is none, $how" 'nan.npy: number 7 of row 3 of entry 11 is not finite; write it again$' $how --features "$tmp/nan.npy"
done
run mpi 2 "$train" "$tmp/alm.yaml" --score "$tmp/ask" --features "$tmp/nan.npy"
is "on two ranks: one sentence" "$rc$out $(printf '%s\n' "$err" | grep -c 'is not finite')" "2 1"
npy "$tmp/few.npy" '11, 4, 8' "$(numbers 11)"
refused "a line without an entry" 'few.npy: features of 11 texts, but .*/prompts has 12 lines; want an entry for each$' \
    --prompt-file "$tmp/prompts" --features "$tmp/few.npy"
refused "a request without an entry" 'few.npy: features of 11 texts, but .*/ask has 12 requests; want an entry for each$' \
    --score "$tmp/ask" --features "$tmp/few.npy"
sed '7s/.*/64/' "$tmp/prompts" >"$tmp/bad"
refused "a word that is none" 'bad:7: --generate: token 1 of the prompt is 64; this model knows 0..63$' --prompt-file "$tmp/bad" --features "$tmp/held.npy"
refused "a prompt of two lines" '^--generate: with --features a text is a line; want a prompt without line breaks$' \
    --generate "$(printf '1\n2')" --features "$tmp/held.npy"
refused "a begin of its own" '^--begin: with train.prompt a text begins behind its prompt' --score "$tmp/ask" --features "$tmp/held.npy" --begin 1
refused "features of nothing" '^--features: is for --generate, --answer and --score, which are not asked for$' --features "$tmp/held.npy"
npy "$tmp/two.npy" '2, 4, 8' "$(numbers 2)"
{ seq 1 17 | paste -sd, | sed 's/.*/{"context": [&,0], "continuation": [7, 8]}/' && echo '{"text": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}'; } >"$tmp/long"
run "$train" "$tmp/alm.yaml" --score "$tmp/long" --features "$tmp/two.npy"
is "long contexts lose their begin" "$rc $(printf '%s\n' "$out" | sed 's/.*"tokens"/"tokens"/' | tr '\n' ' ')" \
    '0 "tokens": 2, "left_out": 6} "tokens": 20, "left_out": 0} '
printf '{"text": [1]}\n{"context": [], "continuation": [%s0]}\n' "$(seq 1 14 | tr '\n' ,)" >"$tmp/long"
refused "more than there is room for" 'long:2: continuation: 15 tokens; this model predicts at most 14 of one text \(model.seq and train.prompt\)' \
    --score "$tmp/long" --features "$tmp/two.npy"

# Soft tokens alone: no file. And bytes, of which a line break ends a text.
one soft '' 'soft: 3, layers: [0, 2]'
yaml=soft
refused "features that nobody reads" '^--features: .*soft.yaml reads none \(train.prompt.rows: 0\); leave it out$' --generate '' --features "$tmp/held.npy"
ask --generate '' --tokens 20
text=$out
is "soft tokens alone" "$rc $(printf '%s' "$out" | wc -w)" "0 20"
same_text "soft tokens alone, nothing kept" "$train" "$tmp/soft.yaml" --temperature 0 --generate '' --tokens 20 --no-cache
sed "s/vocab: 64/vocab: 256/; s#$tmp/alm#$tmp/bytes#; s/steps: 40/steps: 1/; s/warmup: 4/warmup: 1/" "$tmp/alm.yaml" >"$tmp/bytes.yaml"
run "$train" "$tmp/bytes.yaml"
run "$train" "$tmp/bytes.yaml" --generate 'a' --features "$tmp/held.npy" --tokens 120 --top-k 0 --temperature 9
is "a line for each entry" "$rc $(printf '%s\n' "$out" | LC_ALL=C grep -ac '^a')" "0 12"
is "and no other" "$(printf '%s\n' "$out" | wc -l)" 12
tap_done
