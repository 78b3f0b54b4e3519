#!/bin/sh
# test_grow.sh - a run goes on as a wider model, or with layers of their own: the first loss after it
# is the one that the run would have had.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
convert=$BUILD/bin/sennit-convert
make_tokens "$tmp/tok"
eval_every=0

# Twice as wide as run_file's model.
wide() { # file output
    hidden=128 kv_heads=8 ffn=320
    run_file "$1.narrow" "$2"
    sed 's/^  heads: 4$/  heads: 8/' "$1.narrow" >"$1"
    unset hidden kv_heads ffn
}

first_loss() { # output directory: of the first step that it recorded
    metric loss "$1/metrics.jsonl" | head -n 1 >"$1/first"
}

# --- wider ---------------------------------------------------------------------------------------
for family in llama gpt2; do
    run_file "$tmp/small.yaml" "$tmp/$family"
    run "$train" "$tmp/small.yaml" --stop-after 10
    cp -R "$tmp/$family/ckpt" "$tmp/$family-at-10"
    run "$train" "$tmp/small.yaml" --stop-after 11
    is "$family: a small run of 11 steps" "$rc" 0
    metric loss "$tmp/$family/metrics.jsonl" | sed -n 11p >"$tmp/$family/next"

    for noise in 0 0.3; do
        large=$tmp/$family-$noise
        run "$convert" "$tmp/$family-at-10" "$large/ckpt" --grow 2x --noise "$noise"
        is "$family: grown twice as wide with noise $noise" "$rc: $err" "0: "
        wide "$tmp/large.yaml" "$large"
        run "$train" "$tmp/large.yaml" --stop-after 12
        is "$family: it is resumed" "$rc" 0
        first_loss "$large"
        within "$family: with the loss of the small one" \
            "$(worst "$large/first" "$tmp/$family/next")" 2e-6
    done
done

run "$convert" "$tmp/llama-at-10" "$tmp/split/ckpt" --grow 2x --layout "$tmp/large.yaml"
is "another model in the layout's file is refused" "$rc" 2
family=llama
wide "$tmp/large.yaml" "$tmp/split"
printf 'layout: {tensor: 2, pipeline: 2, micro_batch: 1}\n' >"$tmp/cut.yaml"
run "$convert" "$tmp/llama-at-10" "$tmp/split/ckpt" --grow 2x --layout "$tmp/cut.yaml"
is "grown into a layout of 4 ranks" "$rc: $err" "0: "
ok "which has 4 writers" test -f "$tmp/split/ckpt/step-00000010/shard-00003.h5"
run "$train" "$tmp/large.yaml" --stop-after 11
first_loss "$tmp/split"
is "the same loss, bit for bit" "$(cat "$tmp/split/first")" "$(cat "$tmp/llama-0.3/first")"

# --- layers of their own ---------------------------------------------------------------------------
layers=4
run_file "$tmp/own.yaml" "$tmp/own"
sed 's/^  layers: 4$/&\
  share_layers: 2/' "$tmp/own.yaml" | sed "s#$tmp/own#$tmp/shared#" >"$tmp/shared.yaml"
run "$train" "$tmp/shared.yaml" --stop-after 10
run "$convert" "$tmp/shared/ckpt" "$tmp/own/ckpt" --delink
is "delinked" "$rc: $err" "0: "
run "$train" "$tmp/shared.yaml" --stop-after 11
is "the shared model goes on" "$rc" 0
metric loss "$tmp/shared/metrics.jsonl" | sed -n 11p >"$tmp/shared/next"
run "$train" "$tmp/own.yaml" --stop-after 12
is "and so does the delinked one" "$rc" 0
first_loss "$tmp/own"
is "with the same loss, bit for bit" "$(cat "$tmp/own/first")" "$(cat "$tmp/shared/next")"
run "$convert" "$tmp/own/ckpt" "$tmp/never" --delink
is "there is nothing left to delink" "$rc" 2
like "which is said" "$err" 'no layers share weights \(model\.share_layers is 1\)'
tap_done
