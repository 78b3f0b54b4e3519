#!/bin/sh
# test_pace.sh - --pace: planned time passes asleep, communication is real, nothing is touched.
# Runs alone: it measures time.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"
machine() { # file flops
    printf 'flops: %s\nmemory_bandwidth: 1.0e10\noverhead: 0.0\n' "$2" >"$1"
}
steps=6 eval_every=1 every=1
run_file "$tmp/r.yaml" "$tmp/out"

# --- bad ones ----------------------------------------------------------------------------------------
printf 'flops: 1.0e12\n' >"$tmp/bad.yaml"
run mpi 2 "$train" "$tmp/r.yaml" --pace "$tmp/bad.yaml"
is "a bad machine file" "$rc" 2
like "it is explained in one sentence" "$err" "^[^ ]*bad.yaml:1:1: memory_bandwidth: missing; want a number"
is "by one rank" "$(printf '%s\n' "$err" | grep -c memory_bandwidth)" 1
machine "$tmp/m.yaml" 1.0e9
run "$train" "$tmp/r.yaml" --pace "$tmp/m.yaml" --fresh
is "with --fresh" "$rc" 2
like "--fresh is refused" "$err" '^--pace: .* leave --fresh out'
run "$train" "$tmp/r.yaml" --pace "$tmp/m.yaml" --generate x
is "with --generate" "$rc" 2
like "--generate is refused" "$err" "^--pace: .* leave --generate out"

# --- a run that was there is left as it is -------------------------------------------------------------
run mpi 2 "$train" "$tmp/r.yaml" --stop-after 2
is "a real run of two steps" "$rc" 0
before=$(cd "$tmp/out" && cat metrics.jsonl ckpt/LATEST && ls ckpt)
run mpi 2 "$train" "$tmp/r.yaml" --pace "$tmp/m.yaml"
is "a paced run beside it" "$rc" 0
is "says once that nothing is learnt" "$(printf '%s\n' "$err" | grep -c 'there are no losses')" 1
is "touches neither metrics nor checkpoints" \
    "$(cd "$tmp/out" && cat metrics.jsonl ckpt/LATEST && ls ckpt)" "$before"
is "has all steps from 1 on" "$(grep -c '^{"step": [1-6], "loss": null, ' "$tmp/out/pace.jsonl")" 6
is "evaluates nothing" "$(grep -c val_loss "$tmp/out/pace.jsonl")" 0
traffic() { sed -n '1s/.*"traffic_bytes": {\([^}]*\)}.*/\1/p' "$1"; }
is "sends the bytes of the real run" "$(traffic "$tmp/out/pace.jsonl")" \
    "$(traffic "$tmp/out/metrics.jsonl")"

# --- time follows the machine -------------------------------------------------------------------------
# Sleeping cannot be shorter than planned; that it is not much longer is for benchmarks to say.
slow=$(metric step_time_s "$tmp/out/pace.jsonl" | sort -n | head -n 1)
machine "$tmp/m.yaml" 1.0e18
run mpi 2 "$train" "$tmp/r.yaml" --pace "$tmp/m.yaml"
fast=$(metric step_time_s "$tmp/out/pace.jsonl" | sort -n | head -n 1)
run "$train" --help
like "--help names it" "$out" "--pace MACHINE.yaml"
# 6 samples of 64 tokens a rank, 6 FLOP for each of 2 x (4 x 64^2 + 3 x 64 x 160) + 256 x 64 weights
ok "a step takes at least its multiply-adds at the machine's rate ($slow s)" \
    awk "BEGIN { exit !($slow >= 6 * 64 * 6 * (2 * (4 * 64 * 64 + 3 * 64 * 160) + 256 * 64) / 1e9) }"
ok "and next to nothing on a machine without limits ($fast s)" awk "BEGIN { exit !($fast < $slow) }"
tap_done
