#!/bin/sh
# test_kill.sh - kill -9 at random moments of runs that save after every step: each start goes on
# from the newest whole checkpoint, and all steps are bit for bit those of a run that nobody killed.
# Runs alone: it kills at chosen times; twice as often with ALL=1 (make check-equiv).
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
# Kills leave what was written to the page cache, so memory does as well as a disk, and is faster.
if [ -w /dev/shm ]; then
    rm -rf "$tmp"
    tmp=$(mktemp -d /dev/shm/sn-kill-XXXXXX)
fi
make_tokens "$tmp/tok"
steps=1000000 eval_every=0 layers=2 hidden=32 ffn=64 seq=32 batch=4 dropout=0.1

steps_of() { # name: "step loss norm" of the steps that its metrics hold
    [ ! -f "$tmp/$1/metrics.jsonl" ] || sed -n 's/^{"step": \([0-9]*\), "loss": \([^,]*\), "grad_norm": \([^,]*\), .*}$/\1 \2 \3/p' \
        "$tmp/$1/metrics.jsonl"
}

newest() { # name
    ls "$tmp/$1/ckpt" | sed -n 's/^step-0*\([0-9][0-9]*\)$/\1/p' | sort -n | tail -n 1
}

# Start it, wait until it has loaded step N, mostly also until it has made the next, let it go on
# for up to 99 ms more, kill it.
start_and_kill() { # name N
    rm -f "$tmp/err" "$tmp/$1/metrics.jsonl" # of the attempt before
    "$train" "$tmp/$1.yaml" >/dev/null 2>"$tmp/err" </dev/null &
    dice=$(od -An -N2 -tu2 /dev/urandom)
    for _ in $(seq 1 1000); do
        if [ $((dice % 8)) -eq 0 ]; then
            grep -q 'continuing from' "$tmp/err" 2>/dev/null && break
        else
            grep -q "^{\"step\": $(($2 + 1))," "$tmp/$1/metrics.jsonl" 2>/dev/null && break
        fi
        sleep 0.01
    done
    sleep "0.$(printf %03d $((dice / 8 % 100)))"
    kill -9 $!
    wait $! 2>/dev/null
}

kills() { # name how-often, with `saving`
    every=1
    run_file "$tmp/$1.yaml" "$tmp/$1"
    run "$train" "$tmp/$1.yaml" --stop-after 2
    is "$1: it begins" "$rc" 0
    wrong=0
    : >"$tmp/all"
    for _ in $(seq 1 "$2"); do
        want=$(newest "$1")
        start_and_kill "$1" "$want"
        steps_of "$1" >>"$tmp/all"
        if ! grep -q "continuing from the checkpoint of step $want\$" "$tmp/err"; then
            wrong=$((wrong + 1))
            tap_lines "newest is $want" "$(cat "$tmp/err")"
        fi
    done
    is "$1: $2 times killed, each time the newest checkpoint is found" "$wrong" 0
    last=$(newest "$1")
    ok "$1: it has come on meanwhile, to step $last" test "$last" -gt 2
    rm -f "$tmp/$1/metrics.jsonl"
    run "$train" "$tmp/$1.yaml" --stop-after $((last + 2))
    is "$1: it ends when it is let" "$rc" 0
    is "$1: and tidies" "$(find "$tmp/$1/ckpt" -maxdepth 1 | grep -c -E 'tmp|del')" 0
    steps_of "$1" >>"$tmp/all"

    every=0
    run_file "$tmp/$1-whole.yaml" "$tmp/$1-whole"
    run "$train" "$tmp/$1-whole.yaml" --stop-after "$(sort -n "$tmp/all" | tail -n 1 | cut -d ' ' -f 1)"
    steps_of "$1-whole" | sort >"$tmp/want"
    sort -u "$tmp/all" >"$tmp/got"
    ok "$1: $(wc -l <"$tmp/all") steps were recorded, of $(wc -l <"$tmp/want")" \
        test "$(wc -l <"$tmp/got")" -ge "$last"
    is "$1: each was that of a run that nobody killed" "$(comm -23 "$tmp/got" "$tmp/want" | head -n 3)" ""
    rm -rf "$tmp/$1" "$tmp/$1-whole"
}

times=${ALL:+2}
kills waiting $((10 * ${times:-1}))
saving="async: true"
kills async $((30 * ${times:-1}))
saving="async: true, single_file: true"
kills one-file $((10 * ${times:-1}))

tap_done
