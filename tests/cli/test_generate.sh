#!/bin/sh
# test_generate.sh - text on several ranks: that of one rank, over tensor ranks and pipeline stages, with keys and values kept and
# without, of three families; more ranks than a model takes are refused.
# What a kept row is worth is tests/unit/train/test_generate_row.c's, options are test_leave.sh's.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"
steps=30 eval_every=0 lr=3.0e-3 batch=4 seq=32 layers=3 every=0

texts() { # family, edits of the run file, keys of its layout, ranks
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s/^layout: {/&${3:-}/; $2" "$tmp/$1.yaml"
    run mpi "${4:-1}" "$train" "$tmp/$1.yaml"
    is "$1: trains" "$rc" 0
    [ "$rc" = 0 ] || tap_lines train "$err"
    write=
    for how in '--temperature 0' '--seed 5 --temperature 1.0'; do # 50 tokens: more than the window
        write="$train $tmp/$1.yaml --generate Once --tokens 50 $how"
        # shellcheck disable=SC2086
        run $write
        is "$1: one rank" "$rc" 0
        one=$out
        ok "$1: 50 bytes" test "$(printf '%s' "$one" | wc -c)" -ge 40
        for ranks in 2 3 4; do
            # shellcheck disable=SC2086
            run mpi $ranks $write
            is "$1: $ranks ranks" "$rc" 0
            is "$1: $ranks ranks, $how: the text" "$out" "$one"
            [ "$rc" = 0 ] || tap_lines "$ranks ranks" "$err"
        done
    done
    # shellcheck disable=SC2086
    run mpi 4 $write --no-cache
    is "$1: 4 ranks, nothing kept: the text" "$out" "$one"
}

texts llama ''
texts gpt2 's/family: llama/family: gpt2/'
texts mixtral 's/family: llama/family: mixtral/; s/^  dropout.*/&\n  experts: {count: 4, top_k: 2}/' 'tensor: 2, expert: 2, data: 2, ' 4
run mpi 5 "$train" "$tmp/llama.yaml" --generate Once
is "5 ranks: refused" "$rc" 2
like "5 ranks: why" "$err" '^--generate: 4 heads and 3 layers are not shared out over 5 ranks (.*); start one, or'
run mpi 2 "$train" "$tmp/llama.yaml" --generate ''
is "an empty prompt: refused by all ranks" "$rc" 2
like "an empty prompt: why" "$err" 'the prompt is empty'
is "an empty prompt: said once" "$(printf '%s\n' "$err" | grep -c 'the prompt is empty')" 1
tap_done
