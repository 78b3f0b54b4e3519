#!/bin/sh
# test_sparse.sh - train.sparse over a run's life: begun by lot, resumed in another layout, made of a dense checkpoint by
# sennit-convert --sparse, and refused where the weights are not as sparse as said.
# That zeros stay in every layout is tests/unit/train/test_sparse.c's.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train convert=$BUILD/bin/sennit-convert plan=$BUILD/bin/sennit-plan
make_tokens "$tmp/tok"
steps=6 eval_every=0 lr=3.0e-3 batch=4 every=3
run_file "$tmp/dense.yaml" "$tmp/dense"
sparse() { # name, keys of train.sparse, more keys of train
    sed "s|^  eval_every|  sparse: {targets: ['*.ffn.*.weight']$2}\n${3:+  $3\n}&|; s,output: [^,]*,output: $tmp/$1," \
        "$tmp/dense.yaml" >"$tmp/$1.yaml"
}
kept() { # the share that a run says
    printf '%s\n' "$err" | sed -n 's/.*sparse: \([0-9.]*\) % of.*/\1/p'
}

run "$train" "$tmp/dense.yaml"
is "a dense run" "$rc" 0

# By lot.
sparse lot ', density: 0.25'
run "$train" "$tmp/lot.yaml"
is "by lot: trains" "$rc" 0
[ "$rc" = 0 ] || tap_lines lot "$err"
is "says how sparse it is" "$(kept)" 25.00
run "$plan" "$tmp/lot.yaml"
like "so does the plan" "$out" 'sparse: [0-9]* matrices of [0-9]* values, at most [0-9]* of them not 0'
run "$plan" "$tmp/lot.yaml" --json
like "and as JSON" "$out" '"sparse": {"matrices": [0-9]*, "values": [0-9]*, "kept": [0-9]*, "flops_fraction": 0\.'
run "$plan" "$tmp/lot.yaml" --verify
is "verified" "$rc" 0

# In another layout from the middle on: the same zeros.
mkdir -p "$tmp/half/ckpt"
cp -r "$tmp/lot/ckpt/step-00000003" "$tmp/half/ckpt/"
sparse half ', density: 0.25'
sed -i 's/^layout: {/&tensor: 2, zero: 1, data: 2, /' "$tmp/half.yaml"
run mpi 4 "$train" "$tmp/half.yaml"
is "goes on over 4 ranks" "$rc" 0
[ "$rc" = 0 ] || tap_lines half "$err"
is "as sparse" "$(kept)" 25.00
for of in lot half; do # without moments, whose differences are of another size
    run "$convert" "$tmp/$of/ckpt" "$tmp/$of.hf" --to safetensors
    run "$convert" "$tmp/$of.hf" "$tmp/$of.back" --from safetensors
done
run "$convert" --diff "$tmp/lot.back" "$tmp/half.back"
off=$(printf '%s\n' "$out" | sed -n 's/.*by at most \([0-9.e+-]*\),.*/\1/p' | sort -g | tail -n 1)
within "weights of both" "${off:-inf}" 1e-4

# Of trained weights, by magnitude: weights and moments, or weights alone.
for how in 0.5 2:4; do
    name=made-$(printf %s "$how" | tr -d :.)
    run "$convert" "$tmp/dense/ckpt" "$tmp/$name/ckpt" --sparse $how --targets '*.ffn.*.weight'
    is "$how: converted" "$rc" 0
    [ "$rc" = 0 ] || tap_lines convert "$err"
    keys=', density: 0.5'
    [ $how = 0.5 ] || keys=", kind: '2:4'"
    sparse "$name" "$keys"
    sed -i 's/steps: 6/steps: 9/' "$tmp/$name.yaml"
    run "$train" "$tmp/$name.yaml"
    is "$how: goes on with its moments" "$rc" 0
    [ "$rc" = 0 ] || tap_lines "$name" "$err"
    is "$how: as sparse" "$(kept)" 50.00
    run "$train" "$tmp/$name.yaml"
    is "$how: and is whole at the end" "$rc" 0
done
run mpi 2 "$convert" "$tmp/dense/ckpt" "$tmp/again" --sparse 0.5 --targets '*.ffn.*.weight'
run "$convert" --diff "$tmp/made-05/ckpt/step-00000006" "$tmp/again"
is "two processes make the same" "$rc" 0
run "$convert" "$tmp/made-05/ckpt/step-00000006" "$tmp/twice" --sparse 0.5 --targets '*.ffn.*.weight'
run "$convert" --diff "$tmp/twice" "$tmp/again"
is "what is sparse stays as it is" "$rc" 0
sparse from ', density: 0.5' "init_from: $tmp/again"
run "$train" "$tmp/from.yaml"
is "init_from takes its zeros" "$rc" 0
is "as sparse as it was" "$(kept)" 50.00

# Refused: with a sentence each, and nothing is trained.
refused() { # what, run file, sentence
    run "$train" "$2"
    is "$1: refused" "$rc" 2
    like "$1: why" "$err" "$3"
}
sparse dense-from ', density: 0.5' "init_from: $tmp/dense/ckpt"
refused "dense weights" "$tmp/dense-from.yaml" 'train.sparse.density: [0-9]* of [0-9]* values of the targets are not 0, and 0.5 allows [0-9]*; sennit-convert --sparse makes such weights'
sparse four "$(printf ", kind: '2:4'")" "init_from: $tmp/again"
refused "half of them, but not of each four" "$tmp/four.yaml" "train.sparse.kind: .*, row [0-9]*, has more than two values of four that are not 0"
sparse none ', density: 0.5'
sed -i "s/'\*.ffn.\*.weight'/'*.fnn.*'/" "$tmp/none.yaml"
refused "no such matrix" "$tmp/none.yaml" "train.sparse.targets: '\*.fnn.\*' matches no matrix of this model"
sed "s/'\*.fnn.\*'/'*.weight'/" "$tmp/none.yaml" >"$tmp/embed.yaml"
refused "the embedding" "$tmp/embed.yaml" 'train.sparse.targets: has embed.*; want matrices of attention, feed-forward parts and experts'
sed "s/'\*.fnn.\*'/'*.attn.q.weight'/" "$tmp/none.yaml" >"$tmp/part.yaml"
refused "a part of a fused matrix" "$tmp/part.yaml" 'train.sparse.targets: has a part of layers.0.attn.qkv.weight; want all of its 3 tensors or none'
for bad in '--sparse 0.5|--sparse and --targets say together' '--sparse 3:4 --targets *|3:4. is no share' \
    '--sparse 1.5 --targets *|1.5. is no share' "--sparse 0.5 --targets *.fnn.*|--targets: '\*.fnn.\*' matches no matrix"; do
    set -f
    # shellcheck disable=SC2086
    run "$convert" "$tmp/dense/ckpt" "$tmp/bad" ${bad%%|*}
    set +f
    is "${bad%%|*}: refused" "$rc" 2
    like "${bad%%|*}: why" "$err" "${bad#*|}"
done
tap_done
