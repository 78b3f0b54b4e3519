#!/bin/sh
# test_small_data.sh - texts of any size: validation of as many sequences as there are, the same in every
# layout, and sentences before the first step where there are too few.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"

# --- any number of sequences is evaluated, the same whatever the layout ---------------------------
# Seven: no multiple of any group of rows below; what fills the last micro-batches up counts nothing.
steps=5 eval_every=2 eval_sequences=7 batch=12 layers=2 seq=16
given() { # name layout [sed script]
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s/^layout: {micro_batch: 1, /layout: {$2, /; ${3-}" "$tmp/$1.yaml"
}
same() { # ranks name layout [sed script]
    given "$2" "$3" "${4-}"
    run mpi "$1" "$train" "$tmp/$2.yaml"
    is "$3 on $1 rank(s): exit 0" "$rc" 0
    metric val_loss "$tmp/$2/metrics.jsonl" >"$tmp/$2.val"
    within "$3 on $1 rank(s): 7 sequences have the loss of one row at a time" \
        "$(worst "$tmp/$2.val" "$tmp/$5.val")" 1e-5
}
given one "micro_batch: 1"
run "$train" "$tmp/one.yaml"
is "7 sequences, a row at a time" "$rc" 0
metric val_loss "$tmp/one/metrics.jsonl" >"$tmp/one.val"
is "three evaluations" "$(wc -l <"$tmp/one.val" | tr -d ' ')" 3
same 1 rows "micro_batch: 4" '' one
same 4 data "data: 4, micro_batch: 3" '' one
same 2 tensor "tensor: 2, micro_batch: 2" '' one
same 4 stages "pipeline: 2, data: 2, micro_batch: 2" '' one
same 2 context "context: 2, micro_batch: 4" '' one
# Without auxiliary losses, which are of a micro-batch, so that the weights are the same.
experts='s/family: llama/family: mixtral\n  experts: {count: 4, top_k: 2, capacity_factor: 1.0, aux_loss: 0}/'
given experts "micro_batch: 1" "$experts"
run "$train" "$tmp/experts.yaml"
is "experts that have a capacity" "$rc" 0
metric val_loss "$tmp/experts/metrics.jsonl" >"$tmp/experts.val"
same 2 shared "expert: 2, data: 2, micro_batch: 6" "$experts" experts

# --- fewer than are asked for ---------------------------------------------------------------------
unset steps eval_every eval_sequences seq
head -c 1200 LICENSE >"$tmp/small.txt"
run "$BUILD/bin/sennit-data" build --text "$tmp/small.txt" -o "$tmp/small" --valid 0.2
sed "s|tok-valid|small-valid|" "$tmp/one.yaml" >"$tmp/few.yaml"
sed -i "s|eval_sequences: 7|eval_sequences: 64|; s|$tmp/one|$tmp/few|" "$tmp/few.yaml"
run mpi 2 "$train" "$tmp/few.yaml"
is "a validation set smaller than one evaluation: exit 0" "$rc" 0
is "it is said once, with the number" "$(printf '%s\n' "$err" | grep -c 'train.eval_sequences: .*small-valid has 14 sequences, not 64: each evaluation takes all of them')" 1
is "it is evaluated" "$(metric val_loss "$tmp/few/metrics.jsonl" | wc -l | tr -d ' ')" 3

sed "s|seq: 16|seq: 256|; s|$tmp/few|$tmp/none|" "$tmp/few.yaml" >"$tmp/none.yaml"
run mpi 2 "$train" "$tmp/none.yaml"
is "a validation set without one sequence: exit 2" "$rc" 2
like "what would work is said" "$err" 'data.valid: has 240 tokens, fewer than one sequence wants \(model.seq \+ 1 = 257\); build both anew with --valid 0.02, or a shorter model.seq'
is "by rank 0, named once" "$(printf '%s\n' "$err" | grep -o 'rank 0 (' | wc -l | tr -d ' ')" 1

# --- tokens that the model does not know ----------------------------------------------------------
sed "s|vocab: 256|vocab: 100|; s|$tmp/one|$tmp/words|" "$tmp/one.yaml" >"$tmp/words.yaml"
run mpi 2 "$train" "$tmp/words.yaml"
is "tokens outside the vocabulary: exit 2" "$rc" 2
like "the first of them is told" "$err" 'tok.bin: byte [0-9]*: token [0-9]* is 1[0-9][0-9], outside the vocabulary 0 .. 99; raise model.vocab'
ok "before the first step" test ! -s "$tmp/words/metrics.jsonl"

# --- masks by which nothing counts ----------------------------------------------------------------
# 24 sequences of 16 in which nothing counts, then 8 in which all does.
awk 'BEGIN { for (i = 0; i < 513; i++) print (i < 385 ? "-" : "") 65 + i % 26 }' >"$tmp/late.txt"
awk 'BEGIN { for (i = 0; i < 513; i++) print "-" 65 + i % 26 }' >"$tmp/never.txt"
for set in late never; do
    run "$BUILD/bin/sennit-data" build --tokens "$tmp/$set.txt" --masked --vocab 256 -o "$tmp/$set"
done
masked() { # name train valid [sed script]
    sed "s|^data: .*|data: {train: $tmp/$2, valid: $tmp/$3, loss: mask, order: sequential}|; s|tok-valid|late|; s|$tmp/one|$tmp/$1|
        s|eval_sequences: 7|eval_sequences: 30|; ${4-}" "$tmp/one.yaml" >"$tmp/$1.yaml"
}
masked late late late
masked late2 late late 's/micro_batch: 1/data: 2, micro_batch: 3/'
run "$train" "$tmp/late.yaml"
is "batches in which nothing counts: exit 0" "$rc" 0
is "that is said once" "$(printf '%s\n' "$err" | grep -c 'step [0-9]*: the batch has nothing to predict: its loss is 0')" 1
is "their loss is 0, and only theirs" "$(metric loss "$tmp/late/metrics.jsonl" | awk '{ printf "%s ", ($1 == 0) ? "none" : "some" }')" "none none some none some "
run mpi 2 "$train" "$tmp/late2.yaml"
metric loss "$tmp/late/metrics.jsonl" >"$tmp/late.loss"
metric loss "$tmp/late2/metrics.jsonl" >"$tmp/late2.loss"
within "two ranks have the losses of one" "$(worst "$tmp/late2.loss" "$tmp/late.loss")" 1e-5
masked never never late
run "$train" "$tmp/never.yaml"
is "a mask by which no token counts: exit 2" "$rc" 2
like "is refused" "$err" 'data.loss: by the mask of .*/never no token counts; write another, or set data.loss: all'
masked few late late 's/eval_sequences: 30/eval_sequences: 5/'
run "$train" "$tmp/few.yaml"
is "an evaluation in which nothing counts: exit 2" "$rc" 2
like "is refused before the first step" "$err" 'data.valid: .*/late has nothing to predict in the 5 sequences of an evaluation; want more train.eval_sequences, or other data'
tap_done
