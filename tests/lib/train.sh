# train.sh - helpers of the tests that run sennit-train. Source after tap.sh.
# shellcheck shell=sh disable=SC2034
need pgrep
. tests/lib/metrics.sh

# The same settings as tests/mpi/run: shared memory only, nobody spins on a core that others need.
mpi() { # ranks command...
    mpi_n=$1
    shift
    BUILD=$BUILD tests/mpi/run -n "$mpi_n" "$@"
}

# Token files from a text that the repository ships.
make_tokens() { # prefix
    "$BUILD/bin/sennit-data" build --text docs/STYLE.md LICENSE -o "$1" --valid 0.2 >/dev/null
}

# A small run file: NAME OUTPUT, then lines "section.key: value" replace defaults by sed-free means:
# every variable below may be set before the call.
run_file() { # path output
    cat >"$1" <<YAML
run: {name: test, seed: 7, output: $2, threads: ${threads:-1}}
model:
  family: ${family:-llama}
  layers: ${layers:-2}
  hidden: ${hidden:-64}
  heads: 4
  kv_heads: ${kv_heads:-4}
  ffn: ${ffn:-160}
  vocab: 256
  seq: ${seq:-64}
  dropout: ${dropout:-0.0}
data: {train: $tmp/tok, valid: $tmp/tok-valid}
train:
  steps: ${steps:-50}
  global_batch: ${batch:-12}
  precision: ${precision:-fp32}
  fp8: ${fp8:-none}
  optimizer: {lr: ${lr:-3.0e-4}, weight_decay: 0.1, clip: 1.0}
  schedule: {kind: cosine, warmup: 5, min_lr: 3.0e-5}
  eval_every: ${eval_every:-25}
  eval_sequences: ${eval_sequences:-12}
layout: {micro_batch: ${micro:-1}, bucket: 64KiB}
checkpoint: {dir: ckpt, every: ${every:-0}, keep: 2${saving:+, $saving}}
YAML
}

within() { # sentence number limit
    ok "$1 (off by $2, limit $3)" awk "BEGIN { exit !(\"$2\" != \"inf\" && $2 + 0 <= $3) }"
}

# A process that was killed takes its time to give its memory back, and is alive until then.
gone_within() { # seconds pid...
    gone_rounds=$(($1 * 20))
    shift
    for gone_pid; do
        while grep -qs '^State:.[^ZX]' "/proc/$gone_pid/status"; do
            [ "$gone_rounds" -gt 0 ] || return 1
            gone_rounds=$((gone_rounds - 1))
            sleep 0.05
        done
    done
}

wait_for_step() { # step output
    for _ in $(seq 1 6000); do
        grep -qs "^{\"step\": $1," "$2/metrics.jsonl" && return 0
        sleep 0.01
    done
    return 1
}

# The process of a rank, by its environment; not a wrapper around it.
process_of() { # rank run-file
    for rank_pid in $(pgrep -f "$2"); do
        [ "$(cat "/proc/$rank_pid/comm" 2>/dev/null)" = sennit-train ] || continue
        if tr '\0' '\n' <"/proc/$rank_pid/environ" 2>/dev/null | grep -qxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1"; then
            echo "$rank_pid"
            return
        fi
    done
}
