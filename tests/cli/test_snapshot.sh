#!/bin/sh
# test_snapshot.sh - ranks and hosts are killed; the run goes on from the memory of those that are left,
# at most one finished step is done again, and losses are those of a run that nobody killed.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train netns=tests/bench/pace/netns.sh
trap '$netns down "$tmp/n" 2>/dev/null; rm -rf "$tmp"' EXIT
make_tokens "$tmp/tok"
steps=24 eval_every=0 every=0 hidden=192 ffn=512 batch=16 seq=128

configure() { # name layout
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s/^layout: {.*/layout: {$2, micro_batch: 1, bucket: 64KiB}/" "$tmp/$1.yaml"
}
losses() { # name
    metric loss "$tmp/$1/metrics.jsonl" >"$tmp/$1.loss"
    metric grad_norm "$tmp/$1/metrics.jsonl" >>"$tmp/$1.loss"
}
last_step() { # name
    metric step "$tmp/$1/metrics.jsonl" 2>/dev/null | tail -n 1
}
ranks_of() { # name: process numbers of its trainers, whatever host they think that they are on
    for p in $(pgrep -x sennit-train); do
        ! tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -q "$tmp/$1.yaml" || echo "$p"
    done
}
# Start 4 ranks, and when they have finished a step kill them all, or those of a host.
kill_after() { # step name namespace-or-"" command...
    after=$1 name=$2 where=$3
    shift 3
    began=$(last_step "$name")
    "$@" >"$tmp/$name.out" 2>&1 </dev/null &
    job=$!
    for _ in $(seq 1 3000); do
        [ "$(last_step "$name")" = "$began" ] || break
        sleep 0.02
    done
    victims=$(ranks_of "$name")
    images=$(cat "/proc/${victims%%[!0-9]*}/maps" 2>/dev/null | sed -n 's|.* \(/dev/shm/sennit-[^/]*\)/.*|\1|p' | head -n 1)
    [ -z "$where" ] || victims=$(ip netns pids "$where")
    for _ in $(seq 1 3000); do
        [ "$(last_step "$name")" -lt "$after" ] || break
        sleep 0.05
    done
    # shellcheck disable=SC2086 # one word each
    kill -9 $victims
    wait $job || :
    killed=$(last_step "$name")
}
resumed() { # name: the step that the last start went on from; nothing if not from memory
    printf '%s\n' "$err" | sed -n 's/^resumed step \([0-9]*\) from memory.*/\1/p'
}

saving=""
configure plain "data: 2, tensor: 2"
run mpi 4 "$train" "$tmp/plain.yaml"
is "four ranks train" "$rc" 0
losses plain

# --- one host: all of its processes are killed ---------------------------------------------------------
saving="snapshot_every: 1"
configure one "data: 2, tensor: 2"
run mpi 4 "$train" "$tmp/one.yaml" --stop-after 4
like "on one host a warning says that its loss is not covered" "$err" \
    'snapshot_every: 4 of 4 ranks have both images on one host'
for round in 1 2; do
    kill_after $((4 + 6 * round)) one "" mpi 4 "$train" "$tmp/one.yaml"
    ok "kill $round: the run was killed on its way, after step $killed" test "$killed" -lt $steps
    ok "kill $round: its images are in memory ($(find "$images" -type f | wc -l))" test -d "$images"
    run mpi 4 "$train" "$tmp/one.yaml" --stop-after $((killed + 1))
    is "kill $round: the next start trains on" "$rc" 0
    ok "kill $round: and, leaving by itself, leaves none" test ! -e "$images"
    at=$(resumed one)
    ok "kill $round: after step $killed it goes on from step ${at:-none}, not from a checkpoint" \
        test "${at:-0}" -ge $((killed - 1))
done
run mpi 4 "$train" "$tmp/one.yaml"
losses one
ok "with the losses and norms of a run that nobody killed, bit for bit" cmp -s "$tmp/one.loss" "$tmp/plain.loss"
tap_done
