#!/bin/sh
# test_fp16.sh - steps that fp16 skips are told, and a fixed loss scale that skips them all ends the run.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"

fp16() { # name loss-scale init_std
    precision=fp16 steps=12 batch=2 eval_every=0 run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s/^train:/&\n  loss_scale: $2/; s/^model:/&\n  init_std: ${3:-0.02}/" "$tmp/$1.yaml"
    run "$train" "$tmp/$1.yaml"
}

overflows() { # output: steps whose line says that gradients overflowed
    grep -c '"overflow": [1-9]' "$1/metrics.jsonl"
}

# --- fixed, and too large for every step ------------------------------------------------------------
fp16 fixed 4294967296.0
is "a fixed scale that overflows in every step ends the run" "$rc" 79
like "each skipped step is told" "$err" \
    '^step 3: skipped, [0-9]+ gradient elements overflow at train.loss_scale \(4.29497e\+09\); 10 in a row end the run, this is number 3$'
like "and the last, with what would work" "$err" \
    '^step 10: nothing is learnt at train.loss_scale: 4.29497e\+09; use a smaller one, or dynamic; '
is "after so many steps" "$(wc -l <"$tmp/fixed/metrics.jsonl" | tr -d ' ')" 10
is "and each is in the metrics" "$(overflows "$tmp/fixed")" 10
ok "nothing is saved" test ! -e "$tmp/fixed/ckpt/step-00000010"
ok "no line says nan" sh -c "! grep -q nan '$tmp/.err'"

# --- fixed, and right; dynamic, and too large at first ------------------------------------------------
fp16 right 1024.0
is "a fixed scale that fits trains" "$rc" 0
is "and skips nothing" "$(overflows "$tmp/right")" 0
ok "nor says so" sh -c "! grep -q skipped '$tmp/.err'"
fp16 dynamic dynamic 1.0
n=$(overflows "$tmp/dynamic")
is "a dynamic scale finds its way" "$rc" 0
ok "a dynamic scale that overflows ($n steps)" test "$n" -ge 1
is "tells each" "$(printf '%s\n' "$err" | grep -cE 'skipped, [0-9]+ gradient elements overflow at loss scale [0-9.e+]+; it is [0-9.e+]+ from here on$')" "$n"

# --- numbers as they were given ----------------------------------------------------------------------
lr=1.0e-3 steps=6 batch=2 eval_every=0
run_file "$tmp/lr.yaml" "$tmp/lr"
run "$train" "$tmp/lr.yaml"
is "the learning rate is written as it was given" "$(metric lr "$tmp/lr/metrics.jsonl" | sed -n 5p)" 0.001
tap_done
