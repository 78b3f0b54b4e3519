#!/bin/sh
# test_calibrate.sh - sennit-plan calibrate as a user meets it: the file that it writes prices a run.
. tests/lib/tap.sh
. tests/lib/train.sh

plan=$BUILD/bin/sennit-plan
run_file() { # path threads layout
    cat >"$1" <<YAML
run: {threads: $2}
model: {family: llama, layers: 2, hidden: 64, heads: 4, ffn: 160, vocab: 256, seq: 64}
train: {steps: 5, global_batch: 4}
layout: {$3}
machine: {file: $tmp/m.yaml}
YAML
}
run_file "$tmp/r.yaml" 1 "data: 1"
run_file "$tmp/two.yaml" 1 "data: 2, zero: 1"
run_file "$tmp/threads.yaml" 2 "data: 1"
step_of() { # run file
    run "$plan" "$1" --json
    is "the file prices $(basename "$1")${err:+: $err}" "$rc" 0
    step=$(printf '%s' "$out" | sed -n 's/.*"step_time_s": \([-0-9.e+]*\).*/\1/p')
    ok "a step takes some time (${step:-none} s)" awk "BEGIN { exit !(${step:-0} > 0) }"
}

# --- bad ones, before anything is measured ---------------------------------------------------------
run "$plan" calibrate --seconds none
is "seconds that are no number" "$rc" 2
like "are explained" "$err" "^--seconds: 'none' is no number from 0 to 86400"
run "$plan" calibrate "$tmp/no.yaml"
is "a run file that is not there" "$rc" 2
like "is named" "$err" "^[^ ]*no.yaml: "
run "$plan" calibrate "$tmp/r.yaml" "$tmp/threads.yaml" -o "$tmp/m.yaml"
is "ranks of one and of two threads" "$rc" 2
like "are not one machine" "$err" "threads.yaml: run.threads is 2, but ranks of [^ ]*r.yaml have 1; .*apart"
run "$plan" calibrate -o "$tmp/no/m.yaml"
is "an output that cannot be written" "$rc" 1
like "is explained at once" "$err" "no/m.yaml: cannot be written .No such file or directory.; create its folder first"
run "$plan" calibrate --nonsense
is "an unknown option" "$rc" 2
run mpi 2 "$plan" calibrate -o "$tmp/no/m.yaml" --seconds 0
is "two ranks that cannot write" "$rc" 1
is "say it once" "$(printf '%s\n' "$err" | grep -c 'cannot be written')" 1
run "$plan" calibrate --help
like "--help tells of links" "$out" "links: mpirun -n N"

# --- the kernels of a run --------------------------------------------------------------------------
run "$plan" calibrate "$tmp/r.yaml" -o "$tmp/m.yaml" --seconds 0
is "one rank is measured" "$rc" 0
like "it says that links are not" "$err" "one rank alone knows nothing of links"
like "the file says so, too" "$(cat "$tmp/m.yaml")" 'source: "measured 20.*1 ranks x 1 threads.*links are not measured'
like "the run's own products are in it" "$(cat "$tmp/m.yaml")" 'op: gemm, type: fp32, m: 64, n: 320, k: 64'
is "codecs of a run that has none are not" "$(grep -c codec: "$tmp/m.yaml")" 0
step_of "$tmp/r.yaml"
is "its machine is the calibrated one" \
    "$(printf '%s' "$out" | sed -n 's/.*"machine": "\([a-z]*\)".*/\1/p')" calibrated

run_file "$tmp/coded.yaml" 1 "data: 2, compress: {data: int8, guard: 0.1}"
run "$plan" calibrate "$tmp/coded.yaml" -o "$tmp/m.yaml" --seconds 0
is "a run that compresses is measured" "$rc" 0
like "with the codecs that it names" "$(cat "$tmp/m.yaml")" 'codec: int8, type: fp32, encode: [0-9.e+]*, decode: [0-9.e+]*, feedback: '
like "and the milder ones that may take their place" "$(cat "$tmp/m.yaml")" 'codec: bf16, type: fp32'
is "and no others" "$(grep -c codec: "$tmp/m.yaml")" 4
step_of "$tmp/coded.yaml"

# --- links, and shapes of no run --------------------------------------------------------------------
run mpi 2 "$plan" calibrate "$tmp/two.yaml" -o "$tmp/m.yaml" --seconds 0
is "two ranks are measured" "$rc" 0
like "and what lies between them" "$(cat "$tmp/m.yaml")" 'op: all_reduce, members: 2, bytes: 1048576, seconds: '
step_of "$tmp/two.yaml"
run "$plan" calibrate --threads 1 -o "$tmp/m.yaml" --seconds 0
is "without a run file shapes of ours are measured" "$rc" 0
like "in both types" "$(cat "$tmp/m.yaml")" 'op: gemm, type: bf16'
like "and every codec, in both" "$(cat "$tmp/m.yaml")" 'codec: int4-hadamard, type: bf16, encode: [0-9.e+]*, decode: '
step_of "$tmp/r.yaml"

# --- a device: by its own clock -----------------------------------------------------------------------
fake=$PWD/$BUILD/tests/gpu/libfake_device.so
sed 's/^run: {/run: {backend: cuda, /; s/global_batch: 4}/global_batch: 4, precision: bf16, fp8: tensorwise}/' "$tmp/r.yaml" >"$tmp/device.yaml"
run env SN_PLUGIN="$fake" "$plan" calibrate "$tmp/device.yaml" -o "$tmp/d.yaml" --seconds 0
is "a device is measured" "$rc" 0
like "it is named" "$err" 'calibrate: 1 rank x 1 thread, a fake device'
like "in the file, too, with its memory" "$(cat "$tmp/d.yaml")" 'name: "?a fake device'
like "peaks are what the device says, by which MFU is counted" "$(cat "$tmp/d.yaml")" 'fp8: 1e\+?12'
like "products in 8 bits are a type of their own" "$(cat "$tmp/d.yaml")" 'op: gemm, type: fp8, m: 64, n: 320, k: 64, seconds: '
like "attention is not" "$(cat "$tmp/d.yaml")" 'op: attention, type: bf16, '
sed "s|$tmp/m.yaml|$tmp/d.yaml|" "$tmp/device.yaml" >"$tmp/planned.yaml"
run env SN_PLUGIN="$fake" "$plan" "$tmp/planned.yaml" --json
is "the file prices the run" "$rc" 0
run env SN_PLUGIN="$fake" "$plan" calibrate "$tmp/r.yaml" --backend cuda -o "$tmp/d.yaml" --seconds 0
is "--backend goes before run.backend" "$rc" 0
like "and takes the device" "$err" 'a fake device'
run env SN_PLUGIN="$fake" "$plan" calibrate "$tmp/device.yaml" --backend cpu -o "$tmp/d.yaml" --seconds 0
is "to the processor, too" "$rc" 0
ok "and takes none" sh -c '! printf "%s" "$1" | grep -q "fake device"' - "$err"
run env SN_PLUGIN=none "$plan" calibrate "$tmp/device.yaml" -o "$tmp/d.yaml"
is "a device that is not there: exit 2" "$rc" 2
like "is explained" "$err" 'run.backend: cuda needs the plugin none'
# As installed, where nothing names the plugin: several ranks are a program elsewhere (libexec).
mkdir -p "$tmp/i/bin" "$tmp/i/libexec/sennit" "$tmp/i/lib/sennit"
cp "$plan" "$tmp/i/bin/"
cp "$BUILD/libexec/sennit/sennit-mpi" "$tmp/i/libexec/sennit/"
cp "$fake" "$tmp/i/lib/sennit/libsennit_cuda.so"
sed 's/^run: {/run: {backend: cuda, channels: host, /' "$tmp/two.yaml" >"$tmp/ranks.yaml"
run mpi 2 env -u SN_PLUGIN "$tmp/i/bin/sennit-plan" calibrate "$tmp/ranks.yaml" -o "$tmp/d.yaml" --seconds 0
is "two ranks find the plugin beside what is installed" "$rc" 0
like "and take devices" "$err" 'calibrate: 2 ranks x 1 thread, a fake device'
mkdir -p "$tmp/i/share/sennit" && cp -R templates "$tmp/i/share/sennit/"
sed 's/family: llama, .*/preset: no-such}/' "$tmp/two.yaml" >"$tmp/ranks.yaml"
run mpi 2 "$tmp/i/bin/sennit-plan" calibrate "$tmp/ranks.yaml" -o "$tmp/d.yaml" --seconds 0
like "and presets" "$err" "model.preset: no preset 'no-such'; sennit-plan --list models has those that ship"
run "$plan" calibrate --backend tpu
is "a backend that is none: exit 2" "$rc" 2
like "has its sentence" "$err" "^--backend: got 'tpu'; want auto, cpu or cuda"
run env SN_PLUGIN="$fake" FAKE_DEVICE=fail_at=9 "$plan" calibrate "$tmp/device.yaml" -o "$tmp/d.yaml" --seconds 0
is "a kernel that fails: exit 1" "$rc" 1
like "is told" "$err" 'an illegal address was met'
tap_done
