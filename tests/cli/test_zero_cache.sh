#!/bin/sh
# test_zero_cache.sh - layout.zero_cache as a user has it: what it saves is the formula, on the wire and in memory, bits stay, and a
# run goes on with another one.
. tests/lib/tap.sh
. tests/lib/train.sh

plan=$BUILD/bin/sennit-plan
"$BUILD/bin/sennit-data" build --text docs/STYLE.md -o "$tmp/tok" >/dev/null

# A layer has 64 x 128 (q, k, v), 64 x 64, 2 x 64 x 96 and 96 x 64 weights and two norms of 64; the table and the head 256 x 64; the
# last norm is a bucket of 64, which four ranks pad to 128.
layer=30848 table=16384
run_file() { # layout, precision
    cat >"$tmp/r.yaml" <<YAML
run: {name: cache, seed: 3, output: $tmp/out, threads: 1}
model: {family: llama, layers: 6, hidden: 64, heads: 8, kv_heads: 4, ffn: 96, vocab: 256, seq: 32}
data: {train: $tmp/tok, valid: $tmp/tok}
train: {steps: 6, global_batch: 16, eval_every: 3, eval_sequences: 8, precision: ${2:-fp32}, optimizer: {lr: 1.0e-3}}
layout: {micro_batch: ${micro:-1}, $1}
checkpoint: {dir: ckpt, every: 3}
YAML
}

planned() { # layout ranks name precision
    run_file "$1" "$4"
    "$plan" "$tmp/r.yaml" --ranks "$2" --json 2>/dev/null | sed -n "s/.*\"$3\": \([0-9]*\)[,}].*/\1/p"
}
sent() { planned "$1" "$2" data "$3"; }
params() { planned "$1" "$2" params "$3"; }

# --- what it saves ----------------------------------------------------------------------------------
# Of M micro-batches a layer that is kept is gathered once and not 2 M times, the table and the head once and not M times; a gather
# among n sends n - 1 times as many bytes as it gives.
none=$(sent 'data: 4, zero: 3' 4)
is "a layer saves 2 M - 1 gathers" $((none - $(sent 'data: 4, zero: 3, zero_cache: 1' 4))) $((7 * 3 * 4 * layer))
is "two save twice that" $((none - $(sent 'data: 4, zero: 3, zero_cache: 2' 4))) $((2 * 7 * 3 * 4 * layer))
is "the embedding's table saves M - 1" $((none - $(sent 'data: 4, zero: 3, zero_cache: 3' 4))) $((3 * 4 * (2 * 7 * layer + 3 * table)))
all=$(sent 'data: 4, zero: 3, zero_cache: 8' 4)
is "all: each weight is gathered once" $((none - all)) $((3 * 4 * (6 * 7 * layer + 3 * 2 * table + 7 * 128)))
is "as with ZeRO 2" "$all" "$(sent 'data: 4, zero: 2' 4)"
is "more than all is all" "$(sent 'data: 4, zero: 3, zero_cache: 100' 4)" "$all"
is "in bf16 half as much" $(($(sent 'data: 4, zero: 3' 4 bf16) - $(sent 'data: 4, zero: 3, zero_cache: 1' 4 bf16))) $((7 * 3 * 2 * layer))
is "in groups of two among two" $(($(sent 'data: 4, zero: 3, zero_node: 2' 4) - $(sent 'data: 4, zero: 3, zero_node: 2, zero_cache: 1' 4))) $((2 * 7 * 4 * layer))
is "so it is with a grid's z" $(($(sent 'data: 4, tensor: {x: 1, y: 1, z: 2}' 4) - $(sent 'data: 4, tensor: {x: 1, y: 1, z: 2}, zero_cache: 1' 4))) $((2 * 7 * 4 * layer))
is "each stage of a pipeline keeps its own" $(($(sent 'data: 2, pipeline: 2, zero: 3' 4) - $(sent 'data: 2, pipeline: 2, zero: 3, zero_cache: 1' 4))) $((2 * 15 * 4 * layer))
micro=4
is "of one micro-batch layers save one, and the ends nothing" $(($(sent 'data: 4, zero: 3' 4) - $(sent 'data: 4, zero: 3, zero_cache: 100' 4))) $((3 * 4 * 6 * layer))
micro=1
before=$(params 'data: 4, zero: 3' 4)
is "it takes a layer's weights" $(($(params 'data: 4, zero: 3, zero_cache: 1' 4) - before)) $((4 * layer))
is "in bf16 in two bytes" $(($(params 'data: 4, zero: 3, zero_cache: 2' 4 bf16) - $(params 'data: 4, zero: 3' 4 bf16))) $((2 * 2 * layer))
is "with ZeRO 2 it is refused" "$(run_file 'data: 4, zero: 2, zero_cache: 1'; "$plan" "$tmp/r.yaml" --ranks 4 2>&1 | grep -c 'set layout.zero: 3')" 1

# --- as many as fit ---------------------------------------------------------------------------------
machine() { # memory
    cat >"$tmp/m.yaml" <<YAML
name: small
device: {memory: $1, bandwidth: 1.0e10, overhead: 2.0e-6, peak: {fp32: 1.0e11, bf16: 2.0e11}}
node: {devices: 2}
links:
  - {name: node, ranks: 2, latency: 2.0e-6, device: 1.0e9}
  - {name: net, ranks: 0, latency: 1.0e-5, device: 1.0e8}
YAML
}
on_machine() { # layout ranks: what is planned on it
    run_file "$1"
    echo "machine: {file: $tmp/m.yaml, memory_fraction: 1.0}" >>"$tmp/r.yaml"
    "$plan" "$tmp/r.yaml" --ranks "$2" --json 2>/dev/null
}
kept() { sed -n 's/.*"zero_cache": \([0-9]*\).*/\1/p'; }
needs() { sed -n 's/.*"total": \([0-9]*\)}.*/\1/p'; }
machine 1GiB
for n in 0 2 8; do on_machine "data: 2, zero: 3, zero_cache: $n" 2 | needs >"$tmp/needs-$n"; done
is "auto with room for all keeps all" "$(on_machine 'data: 2, zero: 3, zero_cache: auto' 2 | kept)" 8
machine "$(cat "$tmp/needs-2")B"
is "with room for two, two" "$(on_machine 'data: 2, zero: 3, zero_cache: auto' 2 | kept)" 2
is "which fill it to the byte" "$(on_machine 'data: 2, zero: 3, zero_cache: auto' 2 | needs)" "$(cat "$tmp/needs-2")"
machine "$(cat "$tmp/needs-0")B"
is "with room for none, none" "$(on_machine 'data: 2, zero: 3, zero_cache: auto' 2 | kept)" ""
is "and without a machine none" "$(run_file 'data: 2, zero: 3, zero_cache: auto'; "$plan" "$tmp/r.yaml" --ranks 2 --json 2>/dev/null | kept)" ""
machine "$(cat "$tmp/needs-2")B"
search() { # layout: what is found for two ranks
    run_file "$1"
    echo "machine: {file: $tmp/m.yaml, memory_fraction: 1.0}" >>"$tmp/r.yaml"
    "$plan" search "$tmp/r.yaml" --gpus 2 --top 1 --write "$tmp/best.yaml" 2>/dev/null
}
search 'data: 2, zero: 3' >"$tmp/found"
ok "a search finds as many" grep -q 'zero 3, [1-9][0-9]* layers* gathered once' "$tmp/found"
ok "and writes them" grep -q 'zero_cache: [1-9]' "$tmp/best.yaml"
search 'data: 2, zero: 3, zero_cache: 0' >"$tmp/found"
is "but not where the run file says none" "$(grep -c 'gathered once' "$tmp/found")" 0

# --- the text ---------------------------------------------------------------------------------------
run_file 'data: 2, zero: 3, zero_cache: 2'
"$plan" "$tmp/r.yaml" --ranks 2 --explain 0 >"$tmp/text" 2>/dev/null
is "the first micro-batch gathers them" "$(grep -c 'all_gather.*gathered.*first micro-batch' "$tmp/text")" 4
is "and nobody after it" "$(grep 'all_gather' "$tmp/text" | grep -c 'gathered')" 4
ok "the layout is proven" sh -c "'$plan' '$tmp/r.yaml' --ranks 2 --verify --json >'$tmp/proof'"

# --- it trains --------------------------------------------------------------------------------------
losses() { sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' "$tmp/out/metrics.jsonl"; }
start() { # ranks options...
    n=$1
    shift
    tests/mpi/run -n "$n" "$BUILD/bin/sennit-train" "$tmp/r.yaml" "$@" >"$tmp/log" 2>&1
}
for precision in fp32 bf16; do
    run_file 'data: 2, zero: 3' $precision
    ok "$precision: two ranks train without a cache" start 2 --fresh
    losses >"$tmp/none"
    run_file 'data: 2, zero: 3, zero_cache: 3' $precision
    ok "$precision: and with one" start 2 --fresh
    losses >"$tmp/some"
    ok "$precision: to the same bits" cmp "$tmp/none" "$tmp/some"
    ok "$precision: of all steps" test "$(wc -l <"$tmp/some")" -ge 6
    rm -rf "$tmp/out"
    run_file 'data: 2, zero: 3, zero_cache: 8' $precision
    ok "$precision: with all kept they stop after three steps" start 2 --fresh --stop-after 3
    run_file 'data: 2, zero: 3, zero_cache: 1' $precision
    ok "$precision: and go on with one layer kept" start 2
    losses >"$tmp/others"
    ok "$precision: to the same bits" cmp "$tmp/none" "$tmp/others"
done
tap_done
