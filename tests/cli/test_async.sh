#!/bin/sh
# test_async.sh - saving beside the step loop, and into one file: the same training, the same
# checkpoints, and a failure that ends the run at the next step.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"
steps=12 eval_every=4 every=3 hidden=48

same() { # sentence file file
    ok "$1" cmp -s "$2" "$3"
}

series() { # name: what its metrics say of each step, but times
    { metric loss "$tmp/$1/metrics.jsonl" && metric grad_norm "$tmp/$1/metrics.jsonl"; } \
        >"$tmp/$1.series"
}

# --- three ways to save ---------------------------------------------------------------------------
for name in waiting async one-file; do
    case $name in
    waiting) saving="" ;;
    async) saving="async: true" ;;
    one-file) saving="async: true, single_file: true" ;;
    esac
    run_file "$tmp/$name.yaml" "$tmp/$name"
    run mpi 3 "$train" "$tmp/$name.yaml"
    is "$name: three ranks train" "$rc" 0
    like "$name: each save is told" "$err" \
        'step 9  saved .* MiB: layout .* s, copy .* s, stall .* s, write .* s .*, commit .* s'
    is "$name: and recorded" "$(metric step "$tmp/$name/checkpoints.jsonl" | tr '\n' ' ')" "3 6 9 12 "
    series "$name"
    same "$name: losses do not depend on how they are saved" "$tmp/$name.series" "$tmp/waiting.series"
    is "$name: nothing temporary is left" \
        "$(find "$tmp/$name/ckpt" -name '*tmp*' -o -name '*del*' -o -name 'pieces*')" ""
done
is "one-file: that is one file" "$(cd "$tmp/one-file/ckpt/step-00000012" && echo *)" \
    "COMMIT manifest.json master.h5"

# What was saved while training went on is what a run that waits has saved.
for name in waiting async one-file; do
    saving="" every=0
    run_file "$tmp/$name-on.yaml" "$tmp/$name-on"
    mkdir -p "$tmp/$name-on/ckpt"
    cp -r "$tmp/$name/ckpt/step-00000009" "$tmp/$name-on/ckpt"
    run mpi 2 "$train" "$tmp/$name-on.yaml"
    is "$name: two ranks go on from step 9" "$rc" 0
    series "$name-on"
    same "$name: with the same bits as from the save that waited" \
        "$tmp/$name-on.series" "$tmp/waiting-on.series"
done

# --- a failure beside the loop --------------------------------------------------------------------
every=4 saving="async: true" steps=100
run_file "$tmp/full.yaml" "$tmp/full"
run "$train" "$tmp/full.yaml" --stop-after 2
is "full: it begins" "$rc" 0
limited() { (ulimit -f 200 && exec "$@"); }
run limited "$train" "$tmp/full.yaml"
is "full: a save that fails ends the run" "$rc" 1
like "full: with its sentence" "$err" \
    'step-00000004.tmp.[0-9]*/shard-00000.h5: cannot reserve space: File too large; free some space'
last=$(metric step "$tmp/full/metrics.jsonl" | tail -n 1)
ok "full: at the step after it ($last; saved was 4)" test "$last" -gt 4 -a "$last" -lt 20
is "full: the checkpoint before is there, and nothing else" \
    "$(cd "$tmp/full/ckpt" && echo *)" "LATEST step-00000002"
run "$train" "$tmp/full.yaml" --stop-after 6
is "full: with space again it goes on" "$rc" 0
like "full: from that checkpoint" "$err" 'continuing from the checkpoint of step 2$'

tap_done
