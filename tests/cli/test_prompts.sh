#!/bin/sh
# test_prompts.sh - data.prefix: a model whose prompts are seen in both directions writes and scores what it has learnt:
# with keys and values kept as without, on one rank as on several; without the key it says something else.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
# Four digits, 10, their sum modulo 10, the last and the first of them, 11. The first five tokens do not count.
awk 'BEGIN { srand(3); for (i = 0; i < 1500; i++) { s = 0; line = ""
    for (k = 0; k < 4; k++) { d[k] = int(rand() * 10); s += d[k]; line = line "-" d[k] " " }
    print line "-10 " s % 10 " " d[3] " " d[0] " 11" } }' >"$tmp/lines"
"$BUILD/bin/sennit-data" build --tokens --masked "$tmp/lines" --vocab 40 -o "$tmp/tok" --valid 0.1 >/dev/null
steps=40 eval_every=20 lr=3.0e-3 batch=8 seq=32
run_file "$tmp/causal.yaml" "$tmp/run"
sed -i "s|vocab: 256|vocab: 40|" "$tmp/causal.yaml"
sed 's/^data: {/&documents: apart, loss: mask, prefix: prompt, /' "$tmp/causal.yaml" >"$tmp/run.yaml"
sed -i 's/^data: {/&documents: apart, loss: mask, /' "$tmp/causal.yaml"
run "$train" "$tmp/run.yaml"
is "trains" "$rc" 0
[ "$rc" = 0 ] || tap_lines train "$err"

same() { # what, command...: answers as one rank does
    what=$1
    shift
    run "$@"
    is "$what" "$rc $out" "0 $one"
    [ "$rc" = 0 ] || tap_lines "$what" "$err"
}

write="$train $tmp/run.yaml --temperature 0 --tokens 4"
run $write --generate ' 3 1 4 1 10'
is "writes" "$rc" 0
one=$out
answer=$(printf '%s' "$one" | awk '{ print $(NF - 3) "," $(NF - 2) "," $(NF - 1) "," $NF }')
same "writes the same with nothing kept" $write --generate ' 3 1 4 1 10' --no-cache
same "writes the same on two tensor ranks" mpi 2 $write --generate ' 3 1 4 1 10'
# A prompt longer than the window: what of it is there is seen.
run $write --tokens 30 --generate "$(seq 1 40 | awk '{ printf " %d", $1 % 10 }')"
one=$out
same "a window that moves on" $write --tokens 30 --generate "$(seq 1 40 | awk '{ printf " %d", $1 % 10 }')" --no-cache

cat >"$tmp/ask" <<JSON
{"context": [3, 1, 4, 1, 10], "continuation": [$answer]}
{"context": [9, 9, 2, 0, 10], "continuation": [0, 0, 9, 11]}
{"context": [7, 1, 10], "continuation": [3]}
{"text": [1, 2, 3, 4, 10, 0, 4, 1]}
JSON
run "$train" "$tmp/run.yaml" --score "$tmp/ask" --begin 11
is "scores" "$rc $(printf '%s\n' "$out" | wc -l)" "0 4"
[ "$rc" = 0 ] || tap_lines score "$err"
like "what it writes is the likeliest" "$(printf '%s\n' "$out" | head -n 1)" '"greedy": true, "tokens": 4,'
near() { # answers whose log-probabilities differ by 1e-4 at most
    printf '%s\n' "$1" "$2" | sed 's/.*"logprob": \([-0-9.e]*\).*/\1/' | awk '{ v[NR] = $1 } END { for (i = 1; i <= NR / 2; i++) { d = v[i] - v[i + NR / 2]; if (d > 1e-4 || d < -1e-4) exit 1 } exit NR != 8 }'
}
one=$out
for keys in 'context: 2' 'context: 2, context_kind: all-to-all' 'pipeline: 2'; do
    sed "s/^layout: {/&$keys, /" "$tmp/run.yaml" >"$tmp/two.yaml"
    run mpi 2 "$train" "$tmp/two.yaml" --score "$tmp/ask" --begin 11
    ok "scores the same with $keys" near "$out" "$one"
done
run "$train" "$tmp/causal.yaml" --score "$tmp/ask" --begin 11
is "a causal model of its weights scores" "$rc" 0
first() { printf '%s\n' "$1" | sed -n "$2p"; }
ok "otherwise" test "$(first "$out" 2)" != "$(first "$one" 2)"
is "but a text alone the same" "$(first "$out" 4)" "$(first "$one" 4)"

sed 's/loss: mask, //' "$tmp/run.yaml" >"$tmp/bad.yaml"
run "$train" "$tmp/bad.yaml"
is "no mask: refused" "$rc" 2
like "in a sentence" "$err" 'data.prefix: prompt is what of a document comes before its first token that counts; want data.documents: apart and data.loss: mask beside it$'
tap_done
