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
step_of "$tmp/r.yaml"
is "its machine is the calibrated one" \
    "$(printf '%s' "$out" | sed -n 's/.*"machine": "\([a-z]*\)".*/\1/p')" calibrated

# --- links, and shapes of no run --------------------------------------------------------------------
run mpi 2 "$plan" calibrate "$tmp/two.yaml" -o "$tmp/m.yaml" --seconds 0
is "two ranks are measured" "$rc" 0
like "and what lies between them" "$(cat "$tmp/m.yaml")" 'op: all_reduce, members: 2, bytes: 1048576, seconds: '
step_of "$tmp/two.yaml"
run "$plan" calibrate --threads 1 -o "$tmp/m.yaml" --seconds 0
is "without a run file shapes of ours are measured" "$rc" 0
like "in both types" "$(cat "$tmp/m.yaml")" 'op: gemm, type: bf16'
step_of "$tmp/r.yaml"
tap_done
