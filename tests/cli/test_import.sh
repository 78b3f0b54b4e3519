#!/bin/sh
# test_import.sh - weights are taken by the model that they come with, and by no other: train.init_from
# and sennit-convert compare what describes them with the run file, and refuse values that are none.
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

first_loss() { # name
    metric loss "$tmp/$1/metrics.jsonl" | sed -n 1p
}

begin() { # name weights sed-expression: steps from the weights by a run file that differs so
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s,^train:,&\n  init_from: $2,; $3" "$tmp/$1.yaml"
    run "$train" "$tmp/$1.yaml"
}

other() { # sentence weights expression their-line our-line: refused by name
    rm -rf "$tmp/other"
    begin other "$2" "$3"
    is "$1: exit 2" "$rc" 2
    like "$1: both values are named" "$err" "these weights come with '$4', but the run file has '$5'; want the same model"
    ok "$1: nothing was trained" test ! -s "$tmp/other/metrics.jsonl"
}

edit() { # directory expression: a copy of the export whose config.json is changed
    rm -rf "${tmp:?}/$1"
    cp -r "$tmp/hf" "$tmp/$1"
    sed -i "$2" "$tmp/$1/config.json"
}

# --- the model of the run file ------------------------------------------------------------------------
begin same "$tmp/hf" ''
is "the same model begins with them" "$rc" 0
like "and says where they come from" "$err" "^weights come from $tmp/hf$"
want=$(first_loss same)
begin ours "$tmp/first/ckpt" ''
is "as from the checkpoint itself" "$(first_loss ours)" "$want"
begin by_config "$tmp/hf" "/^  seq:/d; s,^model:,&\n  config: $tmp/hf/config.json,"
is "or with config.json as its model" "$(first_loss by_config)" "$want"
seq=16 begin shorter "$tmp/hf" ''
is "in shorter sequences, too" "$rc" 0

for weights in hf first/ckpt; do
    other "$weights, another rotary base" "$tmp/$weights" 's/^model:/&\n  rope_theta: 500.0/' \
        'rope_theta: 10000' 'rope_theta: 500'
    other "$weights, another epsilon" "$tmp/$weights" 's/^model:/&\n  norm_eps: 1.0e-2/' \
        'norm_eps: 1e-05' 'norm_eps: 0.01'
    other "$weights, other heads" "$tmp/$weights" 's/heads: 4/heads: 2/' 'heads: 4' 'heads: 2'
    other "$weights, longer sequences" "$tmp/$weights" 's/seq: 32/seq: 64/' 'seq: 32' 'seq: 64'
    other "$weights, another family" "$tmp/$weights" \
        's/llama/mixtral/; s/^model:/&\n  experts: {count: 2}/' 'family: llama' 'family: mixtral'
done
begin meant "$tmp/hf" 's/^model:/&\n  rope_theta: 500.0/; s/^train:/&\n  init_changes: [rope_theta]/'
is "what is meant may change" "$rc" 0
like "and is said" "$err" "come with 'rope_theta: 10000'; the run has 500, as meant by train.init_changes"

# --- what config.json says of its weights -------------------------------------------------------------
refuses() { # sentence expression pattern: by training and by converting
    edit odd "$2"
    begin odd_run "$tmp/odd" ''
    is "$1: exit 2" "$rc" 2
    like "$1: is named" "$err" "$3"
    run "$convert" "$tmp/odd" "$tmp/odd_ckpt" --from safetensors
    is "$1: not converted either" "$rc" 2
    like "$1: with the same words" "$err" "$3"
}
refuses "another activation" 's/"silu"/"gelu"/' 'config.json: hidden_act: gelu is not supported: '
refuses "another class" 's/"llama"/"gemma"/' "config.json: model_type: 'gemma' is not supported"
refuses "an unknown key" 's/^{/{"logits_scaling": 8.0,/' "config.json: unknown key 'logits_scaling': "
refuses "a type of scaling that nobody has" \
    's/^{/{"rope_parameters": {"type": "ntk", "factor": 4.0},/' \
    'config.json: rope_parameters.type: ntk is not supported; want default'
refuses "heads that are rotated in part" \
    's/^{/{"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5},/' \
    'config.json: rope_parameters.partial_rotary_factor: 0.5 is not supported: '
refuses "dropped attention" 's/"attention_dropout": 0.0/"attention_dropout": 0.1/' \
    'config.json: attention_dropout: 0.1 is not supported: '

# --- what goes along ----------------------------------------------------------------------------------
edit whole 's/"bos_token_id": null/"bos_token_id": 7/; s/"eos_token_id": null/"eos_token_id": [8, 9]/'
printf '{"do_sample": true}\n' >"$tmp/whole/generation_config.json"
printf '{"model": {}}\n' >"$tmp/whole/tokenizer.json"
run "$convert" "$tmp/first/ckpt" "$tmp/along" --to safetensors --beside "$tmp/whole"
is "an export beside a directory of the field's" "$rc" 0
ok "has its tokenizer" cmp "$tmp/whole/tokenizer.json" "$tmp/along/tokenizer.json"
ok "and how it generates" cmp "$tmp/whole/generation_config.json" "$tmp/along/generation_config.json"
ok "and its tokens" cmp "$tmp/whole/config.json" "$tmp/along/config.json"
ok "and the same weights" cmp "$tmp/hf/model.safetensors" "$tmp/along/model.safetensors"
for ids in '"7"' '[8, "9"]' 7.0 true; do
    edit odd_ids "s/\"eos_token_id\": null/\"eos_token_id\": $ids/"
    run "$convert" "$tmp/first/ckpt" "$tmp/lost" --to safetensors --beside "$tmp/odd_ids"
    is "an end that is $ids: exit 2" "$rc" 2
    like "$ids: is named" "$err" 'odd_ids/config.json: eos_token_id: want a number, a list of numbers or null'
done
run "$convert" "$tmp/first/ckpt" "$tmp/lost" --to safetensors --beside "$tmp/nowhere"
is "beside nothing: exit 2 or 1" "$((rc > 0))" 1
like "the file is named" "$err" "nowhere/config.json: "
ok "and nothing is written" test ! -e "$tmp/lost"

edit bare ''
rm "$tmp/bare/config.json"
begin bare_run "$tmp/bare" ''
is "without a config.json weights are taken" "$rc" 0
like "and it is said what is not compared" "$err" \
    "^$tmp/bare: no config.json is beside these weights, so names and shapes of tensors alone are compared"

edit window 's/"llama"/"mistral"/; s/^{/{"sliding_window": 4096,/'
begin window_run "$tmp/window" ''
is "a mistral whose window is longer than its sequences is a llama" "$(first_loss window_run)" "$want"

# --- through a conversion -----------------------------------------------------------------------------
edit theta 's/"rope_theta": 10000.0/"rope_theta": 200.0/'
run "$convert" "$tmp/theta" "$tmp/theta_ckpt" --from safetensors
is "another rotary base is converted" "$rc" 0
other "converted" "$tmp/theta_ckpt" '' 'rope_theta: 200' 'rope_theta: 10000'
run "$convert" "$tmp/theta" "$tmp/no" --from safetensors --layout "$tmp/first.yaml"
is "a run file that leaves the key out is of another model" "$rc" 2
like "and is shown its line" "$err" \
    'first.yaml:2:1: model.rope_theta: is left out, which means 10000, but it is 200 in the model of '
ok "and nothing is there" test ! -e "$tmp/no"
sed 's/^model:/&\n  rope_theta: 200.0/' "$tmp/first.yaml" >"$tmp/theta.yaml"
run "$convert" "$tmp/theta" "$tmp/yes" --from safetensors --layout "$tmp/theta.yaml"
is "one that writes it is not" "$rc" 0
printf 'model:\nlayout: {tensor: 1}\n' >"$tmp/one.yaml"
run "$convert" "$tmp/theta" "$tmp/one" --from safetensors --layout "$tmp/one.yaml"
is "nor a layout with an empty section" "$rc" 0

# --- values that are none, and that would be none -----------------------------------------------------
poke() { # file name bytes: over the first value of a tensor; fp32
    cp "$tmp/hf/model.safetensors" "$1"
    length=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    at=$(head -c $((8 + length)) "$1" | tail -c "$length" |
        sed "s/.*\"$2\":{[^}]*\"data_offsets\":\[\([0-9]*\),.*/\1/")
    # shellcheck disable=SC2059 # the bytes are a format
    printf "$3" | dd of="$1" bs=1 seek=$((8 + length + at + 4)) conv=notrunc 2>/dev/null
}
edit nan ''
poke "$tmp/nan/model.safetensors" model.layers.1.mlp.up_proj.weight '\000\000\300\177'
begin nan_run "$tmp/nan" ''
is "a NaN: exit 2" "$rc" 2
like "a NaN: is named" "$err" "nan/model.safetensors: tensor 'model.layers.1.mlp.up_proj.weight' is nan at \[0, 1\]; "
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
