#!/bin/sh
# test_preflight.sh - sennit-train --preflight: well nodes pass, a rank that stands still is named with
# its host, a full disk is nobody's fault.
# Runs alone: it looks for slow ranks.
. tests/lib/tap.sh
need mount
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"

# --- well ------------------------------------------------------------------------------------------
run_file "$tmp/well.yaml" "$tmp/well/deep"
for ranks in 1 3 4; do
    run mpi "$ranks" "$train" "$tmp/well.yaml" --preflight
    is "$ranks ranks: exit code" "$rc" 0
    like "$ranks ranks: the verdict" "$out" "^preflight: $ranks of $ranks ranks on 1 nodes pass, [0-9.]+ s\$"
    is "$ranks ranks: a line each" "$(printf '%s\n' "$out" | grep -c ' pass$')" "$ranks"
    like "$ranks ranks: the file" "$(cat "$tmp/well/deep/preflight.json")" \
        '^\{"pass": true, "seconds": [0-9.]+, "hosts": \[\{"host": "[^"]+", "pass": true, "why": ""\}\], "ranks": \[\{"rank": 0, .*"gemm_flops": [1-9]'
done
like "messages were measured" "$(cat "$tmp/well/deep/preflight.json")" '"link_bandwidth": [1-9]'
is "nothing but its report and the records stays" "$(cd "$tmp/well/deep" && find . -type f | sort | xargs)" \
    './preflight.json ./ranks/rank-00000.ring ./ranks/rank-00001.ring ./ranks/rank-00002.ring ./ranks/rank-00003.ring'

run "$train" "$tmp/well.yaml" --preflight --fresh
is "--preflight with --fresh: exit code" "$rc" 2
like "--preflight with --fresh: the sentence" "$err" 'preflight: trains nothing; leave --fresh out'

# --- a device --------------------------------------------------------------------------------------
run_file "$tmp/device.yaml" "$tmp/device"
sed -i 's/^run: {/run: {backend: cuda, /' "$tmp/device.yaml"
fake=$PWD/$BUILD/tests/gpu/libfake_device.so
run env SN_PLUGIN="$fake" "$train" "$tmp/device.yaml" --preflight
is "a device: exit code" "$rc" 0
like "a device: its products and memory are measured" "$(cat "$tmp/device/preflight.json")" '"gemm_flops": [1-9].*"memory_bandwidth": [1-9]'
run env SN_PLUGIN="$fake" FAKE_DEVICE=fail_at=2 "$train" "$tmp/device.yaml" --preflight
is "a device that fails: exit code" "$rc" 1
like "a device that fails: the sentence" "$err" 'preflight: .*an illegal address was met'
run env SN_PLUGIN="$fake" FAKE_DEVICE=devices=0 "$train" "$tmp/device.yaml" --preflight
is "no device: exit code" "$rc" 2
like "no device: the sentence" "$err" 'run.backend: there is no fake device'

# --- hosts -----------------------------------------------------------------------------------------
# Two ranks a host, where hosts are names of their own: each pair of ranks in a namespace.
cat >"$tmp/hosts.sh" <<SH
exec unshare --uts sh -c 'hostname n\$((\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} / 2)); exec "\$@"' sh "\$@"
SH
if unshare --uts hostname n9 2>/dev/null; then
    run_file "$tmp/hosts.yaml" "$tmp/hosts"
    run mpi 6 sh "$tmp/hosts.sh" "$train" "$tmp/hosts.yaml" --preflight
    like "three hosts: counted" "$out" 'ranks on 3 nodes pass'
    like "three hosts: each has a verdict" "$(cat "$tmp/hosts/preflight.json")" \
        '"hosts": \[\{"host": "n0", .*\{"host": "n1", .*\{"host": "n2", '

    run_file "$tmp/stop.yaml" "$tmp/stop"
    mkdir -p "$tmp/stop/preflight.json.tmp.0" # rank 0, whose exit code is the job's, cannot write its verdict
    mpi 6 sh "$tmp/hosts.sh" "$train" "$tmp/stop.yaml" --preflight >"$tmp/stop.out" 2>&1 </dev/null &
    job=$!
    for _ in $(seq 1 6000); do
        [ -s "$tmp/stop/ranks/rank-00003.ring" ] && [ -s "$tmp/stop/ranks/rank-00000.ring" ] && break
        sleep 0.01
    done
    sleep 1 # among the measurements, whichever it is
    culprit=$(process_of 3 "$tmp/stop.yaml")
    kill -STOP "$culprit"
    began=$(date +%s)
    rc=0
    wait $job || rc=$?
    took=$(($(date +%s) - began))
    kill -KILL "$culprit" 2>/dev/null
    is "stopped: exit code" "$rc" 77
    ok "stopped: all end within two minutes (took $took s)" test "$took" -le 120
    like "stopped: the rank and its host are named" "$(cat "$tmp/stop.out")" 'rank 3 on n1 does not answer'
    like "stopped: who cannot write the file says so" "$(cat "$tmp/stop.out")" 'rank 0: .*/preflight.json: cannot be written'
    like "stopped: its host fails, and no other" "$(cat "$tmp/stop/preflight.json")" \
        '^\{"pass": false, .*"hosts": \[\{"host": "n0", "pass": true, "why": ""\}, \{"host": "n1", "pass": false, "why": "it did not answer within 30 s"\}, \{"host": "n2", "pass": true, "why": ""\}\]'
else
    skip "three hosts" "namespaces for host names need root"
    skip "stopped: the rank and its host are named" "namespaces for host names need root"
fi

# --- storage ---------------------------------------------------------------------------------------
run_file "$tmp/nowhere.yaml" "$tmp/nowhere"
sed -i 's|dir: ckpt|dir: /proc/none|' "$tmp/nowhere.yaml"
run mpi 2 "$train" "$tmp/nowhere.yaml" --preflight
is "no place for checkpoints: exit code" "$rc" 1
like "no place for checkpoints: the sentence" "$err" 'checkpoint.dir: cannot make the directory /proc/none.*; want a path in one that you may write to'
mkdir "$tmp/full"
cat >"$tmp/full.sh" <<SH
mount -t tmpfs -o size=1m none "$tmp/full" && exec "\$@"
SH
if unshare --mount sh "$tmp/full.sh" true 2>/dev/null; then
    run_file "$tmp/full.yaml" "$tmp/out-full"
    sed -i "s|dir: ckpt|dir: $tmp/full/ckpt|" "$tmp/full.yaml"
    run mpi 2 unshare --mount sh "$tmp/full.sh" "$train" "$tmp/full.yaml" --preflight
    is "a full disk: exit code" "$rc" 1
    like "a full disk: the sentence" "$err" 'no node can write there: No space left on device'
    like "a full disk: no host is blamed" "$(cat "$tmp/out-full/preflight.json")" '"pass": true, "why": ""\}\], "ranks"'
else
    skip "a full disk" "a file system of its own needs root"
fi

tap_done
