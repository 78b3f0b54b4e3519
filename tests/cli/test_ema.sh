#!/bin/sh
# test_ema.sh - train.ema in checkpoints: resumed in another layout, converted, exported, begun late and left off.
# What averages are is tests/unit/train/test_ema.c's.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train convert=$BUILD/bin/sennit-convert
make_tokens "$tmp/tok"
steps=8 eval_every=0 lr=3.0e-3 batch=4 every=4
run_file "$tmp/plain.yaml" "$tmp/plain"
sed "s/^  eval_every/  ema: {decay: 0.75}\n&/; s,output: [^,]*,output: $tmp/ema," "$tmp/plain.yaml" >"$tmp/ema.yaml"
laid_out() { # name of: output, keys of the layout
    sed "s/^layout: {/&$3, /; s,output: [^,]*,output: $2," "$tmp/ema.yaml" >"$tmp/$1.yaml"
}

run "$train" "$tmp/plain.yaml"
run "$train" "$tmp/ema.yaml"
is "trains" "$rc" 0
[ "$rc" = 0 ] || tap_lines train "$err"
ok "losses are those without averages" sh -c "
    for m in '$tmp/plain' '$tmp/ema'; do sed 's/.*\"loss\": //; s/,.*//' \$m/metrics.jsonl >\$m.losses; done
    cmp '$tmp/plain.losses' '$tmp/ema.losses'"

# In another layout from the middle on, the same averages but for rounding.
mkdir -p "$tmp/half/ckpt"
cp -r "$tmp/ema/ckpt/step-00000004" "$tmp/half/ckpt/"
laid_out half "$tmp/half" 'tensor: 2, zero: 1, data: 2'
run mpi 4 "$train" "$tmp/half.yaml"
is "goes on over 4 ranks" "$rc" 0
[ "$rc" = 0 ] || tap_lines half "$err"
for of in ema half; do
    run "$convert" "$tmp/$of/ckpt" "$tmp/$of.hf" --to safetensors --ema
    is "$of: averages are exported" "$rc" 0
done
[ -z "$err" ] || tap_lines export "$err"
run "$convert" "$tmp/ema/ckpt" "$tmp/plain.hf" --to safetensors
ok "they are not the weights" sh -c "! cmp -s '$tmp/plain.hf/model.safetensors' '$tmp/ema.hf/model.safetensors'"
for of in ema half; do
    run "$convert" "$tmp/$of.hf" "$tmp/$of.back" --from safetensors
done
run "$convert" --diff "$tmp/ema.back" "$tmp/half.back"
off=$(printf '%s\n' "$out" | sed -n 's/.*by at most \([0-9.e+-]*\),.*/\1/p' | sort -g | tail -n 1)
within "the averages of both" "${off:-inf}" 1e-4

# Through another layout's files and back: byte for byte.
run "$convert" "$tmp/ema/ckpt" "$tmp/there" --layout "$tmp/half.yaml"
is "converted for the other layout" "$rc" 0
[ "$rc" = 0 ] || tap_lines convert "$err"
run "$convert" "$tmp/there" "$tmp/again" --layout "$tmp/ema.yaml"
run "$convert" --diff "$tmp/ema/ckpt" "$tmp/again"
is "and back: all as it was" "$rc" 0
[ "$rc" = 0 ] || tap_lines diff "$out$err"

# A run that had none begins with its weights; one that wants none drops them.
mkdir -p "$tmp/late/ckpt" "$tmp/off/ckpt"
cp -r "$tmp/plain/ckpt/step-00000004" "$tmp/late/ckpt/"
cp -r "$tmp/ema/ckpt/step-00000004" "$tmp/off/ckpt/"
sed "s,output: [^,]*,output: $tmp/late," "$tmp/ema.yaml" >"$tmp/late.yaml"
run "$train" "$tmp/late.yaml"
is "begun late" "$rc" 0
like "and says so" "$err" 'has no averages of weights; train.ema begins with its weights'
run "$convert" "$tmp/late/ckpt" "$tmp/late.hf" --to safetensors --ema
ok "with other averages" sh -c "! cmp -s '$tmp/late.hf/model.safetensors' '$tmp/ema.hf/model.safetensors'"
sed "s,output: [^,]*,output: $tmp/off," "$tmp/plain.yaml" >"$tmp/off.yaml"
run "$train" "$tmp/off.yaml"
is "left off" "$rc" 0
like "and says so" "$err" 'its averages of weights are dropped: this run has no train.ema'
run "$convert" "$tmp/off/ckpt" "$tmp/off.hf" --to safetensors --ema
is "nothing to export then" "$rc" 2
like "which is said" "$err" 'has no averages of weights; want a checkpoint of a run with train.ema, or leave --ema out'
tap_done
