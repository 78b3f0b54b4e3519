#!/bin/sh
# test_hosts.sh - tests/bench/pace/netns.sh: ranks in network namespaces are ranks on several hosts.
# Runs alone: it makes hosts of network namespaces.
. tests/lib/tap.sh
need ip tc
. tests/lib/train.sh

netns=tests/bench/pace/netns.sh
trap '$netns down "$tmp/n"; rm -rf "$tmp"' EXIT
rc=0
$netns up "$tmp/n" 2 1gbit >"$tmp/.out" 2>&1 || rc=$?
if [ "$rc" = 77 ]; then
    skip "two hosts" "$(cat "$tmp/.out")"
    tap_done
fi
is "two hosts are made" "$rc:$(cat "$tmp/.out")" "0:"

run $netns run "$tmp/n" 4 sh -c 'echo "${OMPI_COMM_WORLD_RANK:-$PMI_RANK} $(hostname)"'
is "ranks start on them" "$rc" 0
is "blocks of ranks share a host" \
    "$(printf '%s\n' "$out" | sort -n | awk '{ h[NR] = $2 } END { print h[1] == h[2], h[2] == h[3], h[3] == h[4] }')" \
    "1 0 1"
run $netns run "$tmp/n" 3 true
is "three ranks on two hosts" "$rc" 1
like "are refused in a sentence" "$err" '^netns.sh: 3 ranks on 2 hosts; want a multiple of 2$'
run $netns up "$tmp/m" 2 fast
like "a rate that is none is refused in a sentence" "$rc:$err" "^1:netns.sh: rate 'fast'; want one as of tc"
run $netns up "$tmp/n" 2 1gbit
is "a folder in use" "$rc" 1
like "is refused in a sentence" "$err" 'is in use; end it with'

# --- what crosses the links ---------------------------------------------------------------------------
make_tokens "$tmp/tok"
steps=6 eval_every=0 every=0
crossed() { # order: bytes between hosts in "$crossed", those of each axis in "$data" and "$tensor"
    rm -rf "$tmp/out"
    run_file "$tmp/r.yaml" "$tmp/out"
    sed -i "s/^layout: {.*/layout: {data: 2, tensor: 2, micro_batch: 1, placement: default, axis_order: [$1, context, pipeline]}/" "$tmp/r.yaml"
    before=$($netns bytes "$tmp/n")
    run $netns run "$tmp/n" 4 "$BUILD/bin/sennit-train" "$tmp/r.yaml" --fresh
    crossed=$(($($netns bytes "$tmp/n") - before))
    data=$(metric data "$tmp/out/metrics.jsonl" | awk '{ s += $1 } END { print s }')
    tensor=$(metric tensor "$tmp/out/metrics.jsonl" | awk '{ s += $1 } END { print s }')
    is "a run with $1" "$rc" 0
}
crossed "tensor, data"
ok "tensor ranks of a host send more than all that leaves it ($tensor, $crossed)" \
    test "$tensor" -gt "$crossed"
ok "what leaves is what data ranks send ($data), with headers and start-up" \
    awk "BEGIN { exit !($crossed > $data && $crossed < 1.2 * $data + 1e6) }"
crossed "data, tensor"
ok "tensor ranks on two hosts send it over the links" \
    awk "BEGIN { exit !($crossed > $tensor && $crossed < 1.2 * $tensor + 1e6) }"
bytes=$($netns bytes "$tmp/n") packets=$($netns packets "$tmp/n")
ok "packets are counted ($packets with $bytes bytes), of at most a segment and its headers" \
    awk "BEGIN { exit !($packets > 100 && $bytes > 66 * $packets && $bytes <= (8192 + 66) * $packets) }"

# --- and nothing stays --------------------------------------------------------------------------------
$netns run "$tmp/n" 2 sleep 60 >/dev/null 2>&1 &
sleep 1
names=$(cat "$tmp/n/names")
run $netns down "$tmp/n"
is "hosts with a job in them are removed" "$rc:$err" "0:"
wait
left=$(printf '%s\n' "$names" | while read -r kind name; do
    [ "$kind" = host ] && [ -e "/var/run/netns/$name" ] && echo "$name"
    [ "$kind" = job ] && [ -e "/proc/$name" ] && echo "$name"
    [ "$kind" = link ] && [ -e "/sys/class/net/$name" ] && echo "$name"
done || :)
is "with every name that they took" "$left" ""
run $netns down "$tmp/n"
is "twice is once" "$rc:$err" "0:"
tap_done
