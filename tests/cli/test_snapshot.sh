#!/bin/sh
# test_snapshot.sh - ranks and hosts are killed; the run goes on from the memory of those that are left,
# at most one finished step is done again, and losses are those of a run that nobody killed.
# Runs alone: silence ends a run.
. tests/lib/tap.sh
need pgrep ip
. tests/lib/train.sh

train=$BUILD/bin/sennit-train netns=tests/bench/pace/netns.sh
trap '$netns down "$tmp/n" 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP
make_tokens "$tmp/tok"
steps=30 eval_every=0 every=0 hidden=192 ffn=512 batch=16 seq=128

configure() { # name layout
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s/^layout: {.*/layout: {$2, micro_batch: 1, bucket: 64KiB}/" "$tmp/$1.yaml"
}
losses() { # name
    metric loss "$tmp/$1/metrics.jsonl" >"$tmp/$1.loss"
    metric grad_norm "$tmp/$1/metrics.jsonl" >>"$tmp/$1.loss"
    metric snapshot_stall_s "$tmp/$1/metrics.jsonl" >"$tmp/$1.stall"
    grep snapshot_stall_s "$tmp/$1/metrics.jsonl" | sed 's/.*"step_time_s": \([-0-9.e+]*\).*/\1/' >"$tmp/$1.time"
}
last_step() { # name
    metric step "$tmp/$1/metrics.jsonl" 2>/dev/null | tail -n 1
}
ranks_of() { # name: process numbers of its trainers, whatever host they think that they are on
    for p in $(pgrep -x sennit-train); do
        ! tr "\0" " " 2>/dev/null <"/proc/$p/cmdline" | grep -q "$tmp/$1.yaml" || echo "$p"
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
    images=$(sed -n 's|.* \(/dev/shm/sennit-[^/]*\)/.*|\1|p' "/proc/${victims%%[!0-9]*}/maps" | head -n 1)
    [ -z "$where" ] || victims=$(ip netns pids "$where")
    mkfifo "$tmp/steps" # polling would come late on a busy machine
    tail -n +1 --pid=$job -f "$tmp/$name/metrics.jsonl" >"$tmp/steps" &
    tail=$!
    grep -q -m 1 "\"step\": $after," <"$tmp/steps"
    # shellcheck disable=SC2086 # one word each
    kill -9 $victims
    kill $tail
    rm "$tmp/steps"
    wait $job $tail || :
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
    'snapshot_every: 4 of 4 ranks have both snapshot shards on one host'
run "$BUILD/bin/sennit-plan" "$tmp/one.yaml" --json
is "what one snapshot sends is planned" "$(printf '%s\n' "$out" | sed -n 's/.*"snapshot_bytes": \([0-9]*\).*/\1/p')" \
    "$(metric snapshot_bytes "$tmp/one/metrics.jsonl" | tail -n 1)"
is "and so is the memory of all" "$(printf '%s\n' "$out" | sed -n 's/.*"snapshot": \([0-9]*\).*/\1/p')" \
    "$(metric snapshot "$tmp/one/metrics.jsonl" | tail -n 1)"
planned=$(metric planned_bytes "$tmp/one/attempt-1.json") peak=$(metric peak_resident_bytes "$tmp/one/attempt-1.json")
case $BUILD in
*san*) skip "which is resident" "sanitizers add memory of their own" ;;
*) ok "which is resident: a peak of $peak bytes of $planned" test "$peak" -le "$planned" -a "$peak" -gt $((planned - 16777216)) ;;
esac
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

# --- two hosts: one is lost with its memory ------------------------------------------------------------
rc=0
$netns up "$tmp/n" 2 1gbit >"$tmp/.out" 2>&1 || rc=$?
if [ "$rc" = 77 ]; then
    skip "two hosts" "$(cat "$tmp/.out")"
    tap_done
fi
read -r _ _ id <"$tmp/n/hosts"
lose() { # host
    rm -rf "$tmp/n/memory/$1"
    mkdir -p "$tmp/n/memory/$1"
}
lose 1
lose 2
configure two "data: 2, tensor: 2"
run $netns run "$tmp/n" 4 "$train" "$tmp/two.yaml" --stop-after 4
is "four ranks train on two hosts" "$rc" 0
ok "with partners on the other" test "$(printf '%s\n' "$err" | grep -c 'both snapshot shards on one host')" = 0
for host in 2 1; do
    kill_after $((22 - 6 * host)) two "$id-$host" $netns run "$tmp/n" 4 "$train" "$tmp/two.yaml"
    ok "host $host: it is killed on the way, after step $killed" test "$killed" -lt $steps
    lose $host
    run $netns run "$tmp/n" 4 "$train" "$tmp/two.yaml" --stop-after $((killed + 1))
    is "host $host: another one with empty memory takes its place" "$rc" 0
    at=$(resumed two)
    ok "host $host: after step $killed the run goes on from step ${at:-none}" test "${at:-0}" -ge $((killed - 1))
    like "host $host: from copies that its partner has kept" "$err" \
        'from memory of 1 host: 2 of 4 snapshot shards are partners. copies'
done
run $netns run "$tmp/n" 4 "$train" "$tmp/two.yaml"
losses two
ok "with the losses and norms of a run that nobody killed, bit for bit" cmp -s "$tmp/two.loss" "$tmp/plain.loss"
is "and nothing is left in memory" "$(find "$tmp/n/memory" -path '*sennit*')" ""
share=$(paste "$tmp/two.stall" "$tmp/two.time" | awk '{ s += $1; t += $2 } END { printf "%.2f", 100 * s / t }')
echo "# of a step's time, snapshots took $share % ($(metric snapshot_bytes "$tmp/two/metrics.jsonl" | tail -n 1) bytes over 1 Gbit/s links)"

# --- fewer ranks, in another layout --------------------------------------------------------------------
configure few "data: 2, tensor: 2"
lose 1
kill_after 6 few "$id-2" $netns run "$tmp/n" 4 "$train" "$tmp/few.yaml"
lose 2
sed -i "s/^layout: {.*/layout: {data: 1, tensor: 2, micro_batch: 2, bucket: 64KiB}/" "$tmp/few.yaml"
run $netns run "$tmp/n" 2 "$train" "$tmp/few.yaml"
is "half of the ranks train on" "$rc" 0
at=$(resumed few)
ok "after step $killed from step ${at:-none} of the larger run" test "${at:-0}" -ge $((killed - 1))
losses few
within "with its losses" "$(worst "$tmp/few.loss" "$tmp/plain.loss")" 1e-5
tap_done
