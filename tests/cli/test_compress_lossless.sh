#!/bin/sh
# test_compress_lossless.sh - a lossless codec everywhere (layout.compress) gives the bits of a run without, in every
# layout, and a program that is proven free of deadlocks. The lines of tests/equiv/compress that are the same as without,
# those marked smoke, or with ALL=1 (make check-equiv) all of them.
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/lib/layouts.sh
layout_steps=${STEPS:-4} # make check-equiv: 20

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

# Tokens of experts in bf16, which bf16 loses nothing of.
same_rows() { # line
    name=${1%% *}
    layout_train "$1" "$tmp/$name"
    is "$name: trains without codecs" "$rc" 0
    layout_train "$1 compress={\"expert\":\"bf16\"}" "$tmp/$name-coded"
    is "$name: and with tokens coded" "$rc" 0
    ok "$name: all losses and norms have the same bits" \
        cmp "$tmp/$name/numbers" "$tmp/$name-coded/numbers"
    run "$BUILD/bin/sennit-plan" "$tmp/$name-coded.yaml" --verify
    is "$name: the program is proven free of deadlocks$err" "$rc" 0
    run "$BUILD/bin/sennit-plan" "$tmp/$name-coded.yaml" --explain 0
    like "$name: which encodes" "$out" ' encode .* bf16 x'
}

compress_lines same >"$tmp/same"
while read -r _ line; do same_bits "$line"; done <"$tmp/same"
compress_lines rows >"$tmp/rows"
while read -r _ line; do same_rows "$line"; done <"$tmp/rows"

sent() { sed -n 's/.*"traffic_bytes": {[^}]*"tensor": \([0-9]*\).*/\1/p' "$1/metrics.jsonl" | sort -nu; }
ok "streams of lossless codecs have the lengths that their values let them" \
    test "$(sent "$tmp/neox-mpc" | wc -l)" -gt 2
tap_done
