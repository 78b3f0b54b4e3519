#!/bin/sh
# test_import.sh - what sennit-convert takes in and writes is numbers.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train convert=$BUILD/bin/sennit-convert
make_tokens "$tmp/tok"

# A few steps of a small llama, and its weights as the field has them.
steps=5 batch=2 eval_every=0 hidden=32 ffn=64 seq=32
run_file "$tmp/first.yaml" "$tmp/first"
run "$train" "$tmp/first.yaml"
is "a model is trained" "$rc" 0
run "$convert" "$tmp/first/ckpt" "$tmp/hf" --to safetensors
is "and exported" "$rc" 0

edit() { # directory expression: a copy of the export whose config.json is changed
    rm -rf "${tmp:?}/$1"
    cp -r "$tmp/hf" "$tmp/$1"
    sed -i "$2" "$tmp/$1/config.json"
}

# --- values that are none, and that would be none -----------------------------------------------------
poke() { # file name bytes: over the first value of a tensor; fp32
    cp "$tmp/hf/model.safetensors" "$1"
    length=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    at=$(head -c $((8 + length)) "$1" | tail -c "$length" |
        sed "s/.*\"$2\":{[^}]*\"data_offsets\":\[\([0-9]*\),.*/\1/")
    # shellcheck disable=SC2059 # the bytes are a format
    printf "$3" | dd of="$1" bs=1 seek=$((8 + length + at + 4)) conv=notrunc 2>/dev/null
}
printf 'model:\nlayout: {tensor: 1}\n' >"$tmp/one.yaml"
edit nan ''
poke "$tmp/nan/model.safetensors" model.layers.1.mlp.up_proj.weight '\000\000\300\177'
run "$convert" "$tmp/nan" "$tmp/nan_ckpt" --from safetensors
is "a NaN: is not converted" "$rc" 2
like "a NaN: is named there, too" "$err" "is nan at \[0, 1\]; want weights that are all numbers"
ok "a NaN: leaves nothing behind" test ! -e "$tmp/nan_ckpt"

edit large ''
poke "$tmp/large/model.safetensors" model.norm.weight '\000\120\303\107' # 100000
too_large="has a value \(100000\) too large for fp16; use bf16 or fp32"
run "$convert" "$tmp/large" "$tmp/large16" --from safetensors --dtype fp16
is "--from with a value past fp16: exit 2" "$rc" 2
like "--from with a value past fp16: is named" "$err" "tensor 'final_norm.weight' $too_large"
ok "--from with a value past fp16: leaves nothing behind" test ! -e "$tmp/large16"
run "$convert" "$tmp/large" "$tmp/large32" --from safetensors
is "as fp32 it is taken" "$rc" 0
run "$convert" "$tmp/large32" "$tmp/large_layout" --layout "$tmp/one.yaml" --dtype fp16
is "--layout: exit 2" "$rc" 2
like "--layout: is named" "$err" "tensor 'final_norm.weight' $too_large"
run "$convert" "$tmp/large32" "$tmp/large_hf" --to safetensors --dtype fp16
is "--to: exit 2" "$rc" 2
like "--to: is named" "$err" "tensor 'model.norm.weight' $too_large"
run "$convert" "$tmp/large32" "$tmp/large_bf16" --layout "$tmp/one.yaml" --dtype bf16
is "as bf16 it is converted" "$rc" 0
tap_done
