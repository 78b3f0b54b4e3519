#!/bin/sh
# test_answer.sh - sennit-train --answer: each answer is what --generate writes behind its prompt, up to where it is to end; on several
# ranks, with and without a tokenizer, behind features; what is refused.
. tests/lib/tap.sh
. tests/lib/train.sh
need python3 # reads what was written

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"
steps=60 eval_every=0 lr=1.0e-2 batch=8 every=0

field() { # line member: of an answer, as it stands
    sed -n "$1s/.*\"$2\": \\(\"\\([^\"\\\\]\\|\\\\.\\)*\"\\|[^,}]*\\).*/\\1/p" "$tmp/out"
}
ask() { # command...
    run "$@"
    printf '%s\n' "$out" >"$tmp/out"
}
alone() { # prompt option...: what --generate writes behind it
    behind=$1
    shift
    "$train" "$tmp/run.yaml" --generate "$behind" --temperature 0 "$@" 2>/dev/null | head -c -1 | tail -c +$((${#behind} + 1))
}

run_file "$tmp/run.yaml" "$tmp/run"
run "$train" "$tmp/run.yaml"
is "trains" "$rc" 0
text=$(alone 'The source' --tokens 30)
part=$(printf '%s' "$text" | cut -c 4-6)
before=$(printf '%s' "$text" | awk -v part="$part" '{ print substr($0, 1, index($0, part) - 1) }')
cat >"$tmp/ask" <<J
{"prompt": "The source", "tokens": 30}
{"id": {"n": [7, "x"]}, "prompt": "The source", "tokens": 30, "until": ["never, never", "$part"]}

{"prompt": [84, 104, 101, 32, 115, 111, 117, 114, 99, 101], "tokens": 30, "until": "$part", "id": null}
{"prompt": "Errors are"}
J
ask "$train" "$tmp/run.yaml" --answer "$tmp/ask" --temperature 0 --tokens 12
is "a line for each" "$rc $(wc -l <"$tmp/out")" "0 4"
is "what --generate writes" "$(field 1 text) $(field 1 tokens) $(field 1 end)" "\"$text\" 30 \"tokens\""
is "up to a text that ends it" "$(field 2 text) $(field 2 end)" "\"$before\" \"until\""
is "with so many tokens as it took" "$(field 2 tokens)" "$((${#before} + 3))"
like "its id" "$(sed -n 2p "$tmp/out")" '^{"id": {"n": \[7, "x"\]}, "text"'
is "a prompt of numbers" "$(field 3 id) $(field 3 text)" "null \"$before\""
is "as many as the option says" "$(field 4 text) $(field 4 tokens)" "\"$(alone 'Errors are' --tokens 12)\" 12"
cp "$tmp/out" "$tmp/first"
for how in 'mpi 2' 'mpi 4'; do
    # shellcheck disable=SC2086 # words
    ask $how "$train" "$tmp/run.yaml" --answer "$tmp/ask" --temperature 0 --tokens 12
    is "$how: the same" "$rc $(cmp "$tmp/out" "$tmp/first" && echo same)" "0 same"
done
ask "$train" "$tmp/run.yaml" --answer "$tmp/ask" --temperature 0 --tokens 12 --no-cache
is "nothing kept: the same" "$rc $(cmp "$tmp/out" "$tmp/first" && echo same)" "0 same"
stop=$(printf '%s' "$text" | cut -c 2 | tr -d '\n' | od -An -tu1 | tr -d ' ')
ask "$train" "$tmp/run.yaml" --answer "$tmp/ask" --temperature 0 --stop "$stop"
is "a token that ends it" "$(field 1 text) $(field 1 end)" "\"$(alone 'The source' --tokens 30 --stop "$stop")\" \"stop\""
ok "and did end it" test "$(field 1 tokens)" -lt 30
printf '{"prompt": "The "}\n{"prompt": "The "}\n' >"$tmp/twice"
ask "$train" "$tmp/run.yaml" --answer "$tmp/twice" --temperature 1.5 --seed 3 --tokens 40
is "so many tokens" "$(field 1 tokens) $(field 2 tokens)" "40 40"
ok "each line is drawn anew" test "$(field 1 text)" != "$(field 2 text)"
cp "$tmp/out" "$tmp/first"
ask "$train" "$tmp/run.yaml" --answer "$tmp/twice" --temperature 1.5 --seed 3 --tokens 40
ok "the same seed, the same answers" cmp "$tmp/out" "$tmp/first"
ok "answers are JSON, whatever bytes they are" python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1], "rb")]' "$tmp/out"

refused() { # what line sentence option...
    what=$1 line=$2 sentence=$3
    shift 3
    printf '{"prompt": "a"}\n%s\n' "$line" >"$tmp/bad"
    run "$train" "$tmp/run.yaml" --answer "$tmp/bad" "$@"
    is "$what: refused" "$rc$out" 2
    like "$what: why" "$err" "$sentence"
}
refused "no object" '[1]' 'bad:2: is no JSON object; want {"prompt": ...}$'
refused "no prompt" '{"until": []}' 'bad:2: want a prompt, a text or an array of token numbers$'
refused "an empty prompt" '{"prompt": ""}' 'bad:2: prompt: there is no token in it$'
refused "a number as prompt" '{"prompt": 7}' 'bad:2: want a prompt, a text or'
refused "a word that is none" '{"prompt": [1, 256]}' "bad:2: prompt: '256' is no token; this model knows 0..255\$"
refused "an unknown member" '{"prompt": "a", "stop": "b"}' "bad:2: unknown member 'stop'; want prompt, and until, tokens and id if you like\$"
refused "a member twice" '{"prompt": "a", "prompt": "b"}' "bad:2: has 'prompt' twice; want it once\$"
refused "an empty end" '{"prompt": "a", "until": ["x", ""]}' 'bad:2: until: want texts, none of them empty$'
refused "an end that is no text" '{"prompt": "a", "until": 3}' 'bad:2: until: want a text or an array of texts$'
refused "no valid text" "$(printf '{"prompt": "\303("}')" 'bad:2: is no valid UTF-8$'
refused "no tokens" '{"prompt": "a", "tokens": 0}' 'bad:2: tokens: want a number from 1 to 16777216$'
refused "a prompt beside it" '' '^--answer: has prompts of its own; leave --generate out$' --generate x
for option in --fresh '--stop-after 3'; do
    # shellcheck disable=SC2086 # an option and its value
    refused "what is for training: $option" '' "^--answer: only reads the newest checkpoint; leave ${option%% *} out\$" $option
done
refused "a score beside it" '' '^--score: only reads the newest checkpoint; leave --answer out$' --score "$tmp/ask"
many=$(seq 40 | sed 's/.*/"<&>"/' | paste -sd,)
printf '{"prompt": "The source", "tokens": 30, "until": [%s, "%s"]}\n' "$many" "$part" >"$tmp/ask"
ask "$train" "$tmp/run.yaml" --answer "$tmp/ask" --temperature 0
is "many ends" "$(field 1 text) $(field 1 left_out)" "\"$before\" 0"
printf '{"prompt": "%s", "tokens": 1}\n' "$(seq 30 | tr -d '\n')$(seq 30 | tr -d '\n')" >"$tmp/ask"
ask "$train" "$tmp/run.yaml" --answer "$tmp/ask" --temperature 0
is "a prompt of 102 tokens before a window of 64" "$(field 1 left_out)" 48
printf '{"prompt": "The "}\n{"prompt": "The "}\n{"prompt": "The "}\n' >"$tmp/twice"
for seed in 3 4; do
    "$train" "$tmp/run.yaml" --answer "$tmp/twice" --temperature 1.5 --seed $seed --tokens 40 2>/dev/null
done >"$tmp/out"
is "other seeds draw others in each line" "$(sort -u "$tmp/out" | wc -l | tr -d ' ')" 6
printf '{"prompt": "a"}\n{"prompt": ""}\n' >"$tmp/bad"
run mpi 2 "$train" "$tmp/run.yaml" --answer "$tmp/bad"
is "two ranks: one sentence" "$rc$out $(printf '%s\n' "$err" | grep -c 'bad:')" "2 1"
printf '\n\n' >"$tmp/bad"
run "$train" "$tmp/run.yaml" --answer "$tmp/bad"
is "no line: refused" "$rc $(printf '%s\n' "$err" | tail -n 1 | sed 's/.*: //')" "2 there is no request in it"
run mpi 7 "$train" "$tmp/run.yaml" --answer "$tmp/ask"
like "a number of ranks" "$err" '^--answer: 4 heads and 2 layers are not shared out over 7 ranks'
run "$train" "$tmp/run.yaml" --answer "$tmp/none"
is "no file: refused" "$rc$out" 2
run sh -c "\"$train\" \"$tmp/run.yaml\" --answer \"$tmp/ask\" --temperature 0 >/dev/full"
is "what cannot be written is an error" "$rc" 1
like "and said" "$err" '^--answer: stdout cannot be written: '
run sh -c "tests/mpi/run -n 2 sh -c '\"$train\" \"$tmp/run.yaml\" --answer \"$tmp/ask\" --temperature 0 >/dev/full'"
is "by two ranks, too" "$rc$(printf '%s\n' "$err" | grep -c 'stdout cannot be written')" 11
run sh -c "\"$train\" \"$tmp/run.yaml\" --generate a --tokens 3 >/dev/full"
is "as with --generate" "$rc" 1

# A vocabulary that is no bytes: numbers alone, or a tokenizer's.
run_file "$tmp/run.yaml" "$tmp/words"
sed -i 's/vocab: 256/vocab: 400/' "$tmp/run.yaml"
"$BUILD/bin/sennit-data" train-tokenizer README.md --vocab-size 400 -o "$tmp/tokenizer.json" >/dev/null 2>&1
run "$train" "$tmp/run.yaml"
is "trains" "$rc" 0
printf '{"prompt": [3, 4, 5], "tokens": 6}\n' >"$tmp/numbers"
ask "$train" "$tmp/run.yaml" --answer "$tmp/numbers" --temperature 0
is "numbers in, numbers out" "$(sed 's/.*"ids": \[//; s/\].*//; s/,//g' "$tmp/out")" \
    "$("$train" "$tmp/run.yaml" --generate '3 4 5' --tokens 6 --temperature 0 2>/dev/null | cut -d ' ' -f 4-)"
refused "text without a tokenizer" '{"prompt": "a"}' 'bad:1: prompt: is text, and no tokenizer is known; want --tokenizer FILE, or an array of token numbers$'
printf '{"prompt": [3], "until": "a"}\n' >"$tmp/bad"
run "$train" "$tmp/run.yaml" --answer "$tmp/bad"
is "an end of a text that nobody knows" "$rc $(printf '%s\n' "$err" | grep -c 'until: is text, and no tokenizer is known')" "2 1"
printf '{"prompt": "sennit", "tokens": 20}\n' >"$tmp/ask"
ask "$train" "$tmp/run.yaml" --answer "$tmp/ask" --temperature 0 --tokenizer "$tmp/tokenizer.json"
"$train" "$tmp/run.yaml" --generate sennit --tokens 20 --temperature 0 --tokenizer "$tmp/tokenizer.json" 2>/dev/null >"$tmp/text"
is "a tokenizer: the text that --generate writes" "sennit$(field 1 text | sed 's/^"//; s/"$//')" "$(tr '\n' '~' <"$tmp/text" | sed 's/~$//; s/~/\\n/g')"
# Characters over several tokens: half of one ends the prompt, and the answer begins behind what tokens alone tell.
printf '{"prompt": "\303\251\342\202\254", "tokens": 3}\n' >"$tmp/ask"
sed -i 's/^  vocab: 400/  vocab: 400\n  init_std: 0.3/' "$tmp/run.yaml"
for until in '' ', "until": "e"'; do
    for last in 195 226 130 169; do
        printf '{"prompt": [72, %s], "tokens": 40%s}\n' "$last" "$until"
    done
done >"$tmp/ask"
ask "$train" "$tmp/run.yaml" --answer "$tmp/ask" --temperature 1.5 --tokenizer "$tmp/tokenizer.json"
is "halves of characters" "$rc $(wc -l <"$tmp/out" | tr -d ' ')" "0 8"
ok "answers are whole characters" python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]' "$tmp/out"
is "and end before what ends them" "$(tail -n 4 "$tmp/out" | sed 's/"tokens".*//; s/"text"//' | grep -c e)" 0
tap_done
