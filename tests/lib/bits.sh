# bits.sh - runs whose weights are compared by hash (run.bits: all). Source after train.sh.
# shellcheck shell=sh disable=SC2034,SC2154

# A run file: PATH OUTPUT LAYOUT. Shapes by the variables below.
bits_file() {
    cat >"$1" <<YAML
run: {name: bits, seed: 7, output: $2, threads: 1, backend: cpu, bits: ${bits:-all}}
model: {family: ${family:-llama}, layers: ${layers:-2}, hidden: 64, heads: ${heads:-4}, kv_heads: ${kv_heads:-4},
    ffn: ${ffn:-160}, vocab: 256, seq: ${seq:-64}, init_std: 0.05${model:+, $model}}
data: {train: $tmp/tok}
train: {steps: ${steps:-12}, global_batch: ${batch:-12}, precision: ${precision:-fp32},
    optimizer: {lr: 1.0e-3, weight_decay: 0.1, clip: 0.5}, schedule: {kind: cosine, warmup: 4, min_lr: 1.0e-4}}
layout: {bucket: 64KiB${3:+, $3}}
checkpoint: {dir: ckpt, every: 0, keep: 2}
${machine:+machine: $machine}
YAML
}

# The hash of a run's weights and of its moments, in $hash: those of its newest checkpoint, for one
# rank in one file, which has no names for blocks of model.mtp of these families.
bits_hash() { # output
    rm -rf "$1/one"
    "$BUILD/bin/sennit-convert" "$1/ckpt" "$1/one" --to safetensors --mtp 0 >"$1/convert" 2>&1 || cat "$1/convert"
    hash=$(cat "$1"/one/*.safetensors | sha256sum)
    hash=${hash%% *}
}

# Two runs' newest checkpoints, blocks of model.mtp included: $rc is 0 if no bit differs.
bits_diff() { # name name
    run "$BUILD/bin/sennit-convert" --diff "$tmp/$1/ckpt" "$tmp/$2/ckpt"
}

# Trains LAYOUT on RANKS ranks: $hash is of its weights.
bits_run() { # name ranks layout
    bits_file "$tmp/$1.yaml" "$tmp/$1" "$3"
    mpi "$2" "$BUILD/bin/sennit-train" "$tmp/$1.yaml" >"$tmp/$1.log" 2>&1 || {
        tap_lines "$1" "$(tail -5 "$tmp/$1.log")"
        hash=failed
        return
    }
    bits_hash "$tmp/$1"
}
