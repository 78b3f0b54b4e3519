#!/bin/sh
# test_memory.sh - under limits of memory a save is made, or a sentence says why not: the process does not die in
# a library, and the checkpoint before stays whole.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train convert=$BUILD/bin/sennit-convert
if nm "$train" | grep -q __asan_init; then
    skip "limits of memory" "a sanitizer reserves terabytes of addresses"
    tap_done
fi
make_tokens "$tmp/tok"
layers=16 hidden=32 ffn=48 seq=16 batch=4 eval_every=0 steps=8
run_file "$tmp/run.yaml" "$tmp/run"
run "$train" "$tmp/run.yaml" --stop-after 1
is "a run" "$rc" 0
cp -a "$tmp/run" "$tmp/base"

: >"$tmp/wrong"
saved=0 told=0 limit=70000 # KiB of addresses: from less than the program needs to more than a save does
while [ $limit -le 142000 ]; do
    rm -rf "$tmp/run"
    cp -a "$tmp/base" "$tmp/run"
    run sh -c "ulimit -v $limit; exec '$train' '$tmp/run.yaml' --stop-after 2"
    case $rc in
    0) saved=$((saved + 1)) ;;
    1) told=$((told + 1)) ;;
    *) echo "$limit: exit $rc: $err" >>"$tmp/wrong" ;;
    esac
    [ "$rc" = 0 ] || printf '%s\n' "$err" | grep -qE 'no memory|cannot map|cannot start' || echo "$limit: says '$err'" >>"$tmp/wrong"
    [ -f "$tmp/run/ckpt/step-00000001/COMMIT" ] || echo "$limit: the checkpoint before is gone" >>"$tmp/wrong"
    "$convert" --verify "$tmp/run/ckpt" >/dev/null 2>&1 || echo "$limit: not whole" >>"$tmp/wrong"
    limit=$((limit + 4000))
done
is "19 limits: each run saves or says that there is no memory, and what was saved is whole" "$(cat "$tmp/wrong")" ""
ok "some save ($saved), some do not ($told)" test "$saved" -gt 0 -a "$told" -gt 0

tap_done
