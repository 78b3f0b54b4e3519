#!/bin/sh
# test_qlora.sh - frozen weights as codes (train.lora.base): a run computes what one with the decoded weights as values
# computes, bit for bit; so does what it saves, merges and goes on from.
# Layouts are tests/equiv/layouts' (qlora-*), codes are tests/unit/codecs/test_frozen.c's.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train convert=$BUILD/bin/sennit-convert plan=$BUILD/bin/sennit-plan
make_tokens "$tmp/tok"
steps=8 eval_every=4 lr=3.0e-3 batch=4 every=4 layers=1 hidden=128 ffn=128
run_file "$tmp/plain.yaml" "$tmp/plain"
lora() { # name base: its run file
    sed "s/^  eval_every/  lora: {rank: 4, alpha: 32, targets: [\"*.attn.*\", \"*.ffn.*\"], base: $2}\n&/
         s,output: [^,]*,output: $tmp/$1," "$tmp/plain.yaml" >"$tmp/$1.yaml"
}
losses() { # name: of its last 4 steps, with their norms and the last validation
    for key in loss grad_norm; do metric $key "$tmp/$1/metrics.jsonl" | tail -n 4; done
    metric val_loss "$tmp/$1/metrics.jsonl" | tail -n 1
}
bytes() { # name: of its weights, as planned
    run "$plan" "$tmp/$1.yaml" --ranks 1 --json
    printf '%s' "$out" | sed -n 's/.*"params": \([0-9]*\).*/\1/p' | sed 1q
}

lora full full
run "$train" "$tmp/full.yaml"
is "values train" "$rc" 0
for base in int8 int4 nf4; do
    lora $base $base
    run "$train" "$tmp/$base.yaml"
    is "$base: trains" "$rc" 0
    [ "$rc" = 0 ] || tap_lines train "$err"
    metric loss "$tmp/$base/metrics.jsonl" >"$tmp/losses"
    ok "$base: learns" awk 'NR == 1 { first = $1 } END { exit !(NR == 8 && $1 < first) }' "$tmp/losses"
    losses $base >"$tmp/one-go"
    losses full >"$tmp/values"
    ok "$base: codes are other numbers than the weights" sh -c "! cmp -s '$tmp/one-go' '$tmp/values'"

    # 7 matrices of 128 x 128.
    case $base in int8) bits=8 ;; *) bits=4 ;; esac
    is "$base: blocks of 128 take $((128 * bits / 8 + 4)) bytes in place of 512" $(($(bytes full) - $(bytes $base))) \
        $((7 * 128 * (512 - 128 * bits / 8 - 4)))

    # Half of it again; then with codes, or with what they decode to as values, which is what a checkpoint has.
    for how in again full; do
        rm -rf "$tmp/half"
        mkdir -p "$tmp/half/ckpt"
        cp -r "$tmp/$base/ckpt/step-00000004" "$tmp/half/ckpt/"
        case $how in full) lora half full ;; *) lora half $base ;; esac
        run "$train" "$tmp/half.yaml"
        is "$base: goes on ($how)" "$rc" 0
        [ "$rc" = 0 ] || tap_lines half "$err"
        losses half >"$tmp/half.losses"
        is "$base: 4 losses, norms and a validation are those of a run in one go ($how)" \
            "$(grep -c . "$tmp/half.losses"; cat "$tmp/half.losses")" "9
$(cat "$tmp/one-go")"
        run "$convert" --diff "$tmp/$base/ckpt/step-00000008" "$tmp/half/ckpt/step-00000008"
        is "$base: and so is all that it saves ($how)" "$rc" 0
        [ "$rc" = 0 ] || tap_lines diff "$out$err"
    done
    # `half` has values now.
    run "$train" "$tmp/$base.yaml" --generate 'The ' --tokens 12 --temperature 0
    is "$base: generates" "$rc" 0
    said=$out
    run "$train" "$tmp/half.yaml" --generate 'The ' --tokens 12 --temperature 0
    is "$base: the same tokens" "$out" "$said"
    run "$convert" "$tmp/$base/ckpt" "$tmp/$base.merged" --to safetensors --merge
    is "$base: merged" "$rc" 0
    run "$convert" "$tmp/half/ckpt" "$tmp/half.merged" --to safetensors --merge
    ok "$base: with the decoded weights" cmp "$tmp/$base.merged/model.safetensors" "$tmp/half.merged/model.safetensors"
    rm -rf "$tmp/half.merged"
done
tap_done
