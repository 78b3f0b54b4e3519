#!/bin/sh
# test_compress_lossless.sh - a lossless codec everywhere (layout.compress) gives the bits of a run without, in every
# layout, and a program that is proven free of deadlocks.
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/lib/layouts.sh
layout_steps=${STEPS:-8} # make check-equiv: 20

layout_tokens "$tmp/tok"
lossless='{"data":"mpc","zero":"mpc","tensor":"mpc","pipeline":"mpc"}'

same_bits() { # line
    name=${1%% *}
    layout_train "$1" "$tmp/$name"
    is "$name: trains without codecs" "$rc" 0
    layout_train "$1 compress=$lossless" "$tmp/$name-mpc"
    is "$name: and with a lossless one everywhere" "$rc" 0
    ok "$name: all losses and norms have the same bits" \
        cmp "$tmp/$name/numbers" "$tmp/$name-mpc/numbers"
    run "$BUILD/bin/sennit-plan" "$tmp/$name-mpc.yaml" --verify
    is "$name: the program is proven free of deadlocks$err" "$rc" 0
    run "$BUILD/bin/sennit-plan" "$tmp/$name-mpc.yaml" --explain 0
    like "$name: which encodes" "$out" ' encode .* mpc x'
}

# Reductions of gradients by both shots, ZeRO's by one, tensor ranks' with and without slices of the
# sequence, transfers in slots, in two types, once more where activations are computed again.
same_bits 'dp3-gpt2 family=gpt2 data=3'
same_bits 'tp2 tensor=2 sequence_parallel=false'
same_bits 'tp3-sp-gpt2 family=gpt2 tensor=3'
same_bits 'neox family=gpt-neox data=2 tensor=2 pipeline=2 zero=1'
same_bits 'z2 family=gpt2 data=2 tensor=2 zero=2 recompute=full'
same_bits 'z3 data=2 pipeline=2 zero=3 schedule=zero-bubble'
same_bits 'v2 family=gpt2 pipeline=2 virtual_stages=2 schedule=interleaved data=2'
same_bits 'bf16 family=gpt-neox data=2 tensor=2 pipeline=2 zero=1 precision=bf16'
same_bits 'bf16-sum data=2 tensor=2 zero=0 precision=bf16 sequence_parallel=false'
same_bits 'bf16-z3 data=2 zero=3 precision=bf16'

# Tokens of experts in bf16, which bf16 loses nothing of: in chunks, in further rounds, to slices.
same_rows() { # line
    name=${1%% *}
    layout_train "$1 precision=bf16" "$tmp/$name"
    is "$name: trains without codecs" "$rc" 0
    layout_train "$1 precision=bf16 compress={\"expert\":\"bf16\"}" "$tmp/$name-coded"
    is "$name: and with tokens coded" "$rc" 0
    ok "$name: all losses and norms have the same bits" \
        cmp "$tmp/$name/numbers" "$tmp/$name-coded/numbers"
    run "$BUILD/bin/sennit-plan" "$tmp/$name-coded.yaml" --verify
    is "$name: the program is proven free of deadlocks$err" "$rc" 0
    run "$BUILD/bin/sennit-plan" "$tmp/$name-coded.yaml" --explain 0
    like "$name: which encodes" "$out" ' encode .* bf16 x'
}
experts='family=mixtral experts={"count":4,"top_k":2,"aux_loss":0}'
same_rows "ep2 $experts data=2 expert=2"
same_rows "ep2-rounds $experts data=2 expert=2 expert_buffer=1.0 expert_chunks=2"
same_rows "ep2-chunks $experts data=2 tensor=2 expert=2 expert_chunks=3 recompute=full"
same_rows "ep4-whole $experts data=2 tensor=2 expert=4 expert_tensor=1 zero=1"

sent() { sed -n 's/.*"traffic_bytes": {[^}]*"tensor": \([0-9]*\).*/\1/p' "$1/metrics.jsonl" | sort -nu; }
ok "streams of lossless codecs have the lengths that their values let them" \
    test "$(sent "$tmp/neox-mpc" | wc -l)" -gt 5
tap_done
