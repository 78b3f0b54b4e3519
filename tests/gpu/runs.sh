# runs.sh - the run files of tests/gpu/check and of its references. Source it from the root of the tree.
#
# $BUILD, $WORK (a folder) and, for a dry run, $DRY are set. Every one of these runs ends itself when the device
# does not move for 20 seconds.
# shellcheck shell=sh
: "${HANG:=20}"
VOCABULARY=50304

# Sizes of the small runs: large enough for full tiles, small enough for a processor.
if [ -n "${DRY:-}" ]; then
    small_steps=3 small_hidden=32 small_ffn=64 small_seq=32 small_batch=4
else
    small_steps=20 small_hidden=128 small_ffn=352 small_seq=128 small_batch=8
fi

tokens() { # name count vocabulary: $WORK/NAME.bin and .idx
    [ -e "$WORK/$1.idx" ] || tests/gpu/zipf "$2" "$3" | "$BUILD/bin/sennit-data" build --tokens - --vocab "$3" -o "$WORK/$1" >/dev/null
}

small_tokens() {
    tokens small 40000 256
}

# A small model's run, without where it is and what it runs on.
small_text() { # family precision fp8 layout
    cat <<YAML
model:
  family: $1
  layers: 2
  hidden: $small_hidden
  heads: 4
  kv_heads: 4
  ffn: $small_ffn
  vocab: 256
  seq: $small_seq
$([ "$1" != mixtral ] || echo "  experts: {count: 4, top_k: 2}")
train:
  steps: $small_steps
  global_batch: $small_batch
  precision: $2
  fp8: $3
  optimizer: {lr: 3.0e-4, weight_decay: 0.1, clip: 1.0}
  schedule: {kind: cosine, warmup: 2, min_lr: 3.0e-5}
  eval_every: 0
layout: {${4:+$4, }micro_batch: 1, bucket: 64KiB}
YAML
}

small_run() { # name backend family precision [fp8 [layout [more of run]]]: $WORK/NAME.yaml
    cat >"$WORK/$1.yaml" <<YAML
run: {name: $1, seed: 7, output: $WORK/$1, backend: $2, threads: 1, hang_timeout: $HANG${7:+, $7}}
data: {train: $WORK/small}
checkpoint: {dir: ckpt, every: 0, async: false}
$(small_text "$3" "$4" "${5:-none}" "${6:-}")
YAML
}

# The hash that a reference carries: the run, and its tokens.
small_hash() { # family precision fp8
    { small_text "$1" "$2" "$3" "" && cat "$WORK/small.bin"; } | cksum | tr " " -
}

# family precision fp8 limit, one a line: the runs that have references. Limits are relative, on every loss.
small_list() {
    if [ -n "${DRY:-}" ]; then
        printf '%s\n' "gpt2 fp32 none 1e-4" "llama fp32 none 1e-4" "llama bf16 none 1e-2"
        return
    fi
    for family in gpt2 gpt-neox llama mixtral; do
        echo "$family fp32 none 1e-4"
        echo "$family bf16 none 1e-2"
        echo "$family fp16 none 2e-3"
    done
    echo "llama bf16 tensorwise 1e-2"
    echo "llama bf16 blockwise 1e-2"
}

# name model seq micro-batch batch: the models whose speed is asked for.
large_list() {
    if [ -n "${DRY:-}" ]; then
        echo "tiny family:gpt2,layers:2,hidden:32,heads:4,ffn:64,vocab:256 32 2 4"
        return
    fi
    echo "gpt2-124m-mb32 preset:gpt2-124m,vocab:$VOCABULARY 1024 32 64"
    echo "gpt2-124m-mb64 preset:gpt2-124m,vocab:$VOCABULARY 1024 64 128"
    echo "gpt2-1.5b-mb8 preset:gpt2-1.5b,vocab:$VOCABULARY 1024 8 16"
    echo "gpt2-1.5b-mb16 preset:gpt2-1.5b,vocab:$VOCABULARY 1024 16 32"
    echo "llama-1b-mb4 preset:llama-1b,vocab:$VOCABULARY 2048 4 8"
    echo "llama3-8b-4layers preset:llama3-8b,layers:4,vocab:$VOCABULARY 4096 2 4"
}

large_run() { # name model seq micro-batch batch [deterministic [machine]]: $WORK/NAME.yaml
    vocabulary=$VOCABULARY
    [ -z "${DRY:-}" ] || vocabulary=256
    tokens "large-$vocabulary" "$((vocabulary * 12))" "$vocabulary"
    cat >"$WORK/$1.yaml" <<YAML
run: {name: $1, seed: 7, output: $WORK/$1, backend: cuda, deterministic: ${6:-true}, hang_timeout: $HANG}
model: {$(echo "$2" | sed 's/:/: /g; s/,/, /g'), seq: $3}
data: {train: $WORK/large-$vocabulary}
train: {steps: 100, global_batch: $5, precision: bf16, optimizer: {lr: 1.0e-4}, eval_every: 0}
layout: {micro_batch: $4}
checkpoint: {dir: ckpt, every: 0, async: false}
${7:+machine: {file: $7\}}
YAML
}
