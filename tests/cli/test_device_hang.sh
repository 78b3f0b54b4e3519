#!/bin/sh
# test_device_hang.sh - a device that hangs, of host memory: whoever releases anything of it, and every handler of the
# process's exit, waits for good. The process says what it had come to, writes its record, and is gone.
# Runs alone: silence ends a run.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
plan=$BUILD/bin/sennit-plan
make_tokens "$tmp/tok"
steps=8 eval_every=4 hidden=48 batch=6 every=4
SN_PLUGIN=$PWD/$BUILD/tests/gpu/libfake_device.so && export SN_PLUGIN

run_file "$tmp/stuck.yaml" "$tmp/stuck"
sed -i "s/^run: {/run: {backend: cuda, channels: host, hang_timeout: 2, /" "$tmp/stuck.yaml"
for at in 3 2000; do # in the first step, and in a graph
    rm -rf "$tmp/stuck"
    run env FAKE_DEVICE=hang_at=$at timeout -k 5 60 "$train" "$tmp/stuck.yaml"
    is "kernel $at never ends: exit 77" "$rc" 77
    like "kernel $at never ends: what it had come to is named" "$err" \
        "fake: nothing has moved for 2 s; it had come to '[a-z_]* "
    is "kernel $at never ends: said once" "$(printf '%s\n' "$err" | grep -c 'nothing has moved')" 1
    like "kernel $at never ends: the attempt's record has it" "$(cat "$tmp"/stuck/attempt-1.json)" \
        '"exit_code": 77, "cause": "fake: nothing has moved for 2 s'
done

sed "s/^layout: {/layout: {tensor: 2, zero: 1, /; s|output: [^,]*|output: $tmp/four|" "$tmp/stuck.yaml" >"$tmp/four.yaml"
FAKE_DEVICE=hang_at=600 && export FAKE_DEVICE
run mpi 4 timeout -k 5 100 "$train" "$tmp/four.yaml"
is "kernels of four ranks never end: exit 77" "$rc" 77
like "kernels of four ranks never end: rank and host are named" "$err" \
    "rank [0-3] \(.*\): fake: nothing has moved for 2 s; it had come to '[a-z_]* "
unset FAKE_DEVICE

run env FAKE_DEVICE=lose_at=600 timeout -k 5 60 "$train" "$tmp/stuck.yaml" --fresh
is "a peer that is gone: exit 77" "$rc" 77
like "a peer that is gone: and what the device had come to" "$err" "fake: a peer is gone; it had come to '[a-z_]* "
run env FAKE_DEVICE=hang_at=5 timeout -k 5 90 "$train" "$tmp/stuck.yaml" --preflight
is "a kernel of --preflight that never ends: exit 77" "$rc" 77
like "a kernel of --preflight that never ends: the sentence" "$err" 'fake: the device has not ended what it was given for 2 s'
run env FAKE_DEVICE=hang_at=5 timeout -k 5 90 "$plan" calibrate "$tmp/stuck.yaml" -o "$tmp/hung.yaml"
is "a kernel of calibrate that never ends: exit 77" "$rc" 77
tap_done
