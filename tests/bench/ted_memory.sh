#!/bin/sh
# ted_memory.sh - the largest base model that fits, with experts and data parallelism alone and with tensor
# parallelism beside them (DeepSpeed-TED, arXiv 2303.06318, 7: 4 to 8 times larger).
#
# usage: tests/bench/ted_memory.sh [plan|run]       default: both
#
# plan  128 GPUs of Summit (16 GB), 32 layers, 16 experts in every second one; by sennit-plan
# run   the same question in small, 8 ranks of this host and a limit of LIMIT MiB (default 160) a rank: the largest
#       models by the plan are trained for two steps, and their peak resident memory stands beside it (which has the
#       other ranks' windows of shared memory, too: 14.7 MB)
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/pace/lib.sh
plan=$BUILD/bin/sennit-plan

# What both share; $1 is the width. An expert is as large as the feed-forward part of the other layers: 8 h^2.
large() { # width layout
    cat <<YAML
run: {name: ted}
model: {family: mixtral, layers: 32, hidden: $1, heads: 32, kv_heads: 32, ffn: $(($1 * 8 / 3 / 32 * 32)), vocab: 50304, seq: 2048,
  experts: {count: 16, top_k: 1, every: 2, aux_loss: 0.01}}
train: {steps: 1, global_batch: 512, precision: fp16, grad_dtype: bf16}
layout: {micro_batch: 1, zero: 1, recompute: full, expert: 16, expert_buffer: 1.25, bucket: 100MiB, $2}
machine: {preset: summit, nodes: 22}
YAML
}

small() { # width layout
    cat <<YAML
run: {name: ted, seed: 7, output: $tmp/out, threads: 1}
model: {family: mixtral, layers: 4, hidden: $1, heads: 4, kv_heads: 4, ffn: $(($1 * 8 / 3 / 16 * 16)), vocab: 256, seq: 64,
  experts: {count: 8, top_k: 1, every: 2, aux_loss: 0.01}}
data: {train: $tmp/tok}
train: {steps: 2, global_batch: 8, eval_every: 0, grad_dtype: bf16}
layout: {micro_batch: 1, zero: 1, recompute: full, expert: 2, $2}
checkpoint: {dir: ckpt, every: 0}
YAML
}

ted=', drop_duplicates: true, comm_aware_recompute: true, sequence_parallel: false, optimizer_tile'

figure() { # key: of the plan
    sed "s/.*\"$1\": \([0-9a-z]*\).*/\1/" "$tmp/plan.json"
}

fits() { # limit, or "": the machine's
    if [ "$1" ]; then [ "$(figure total)" -le "$1" ]; else [ "$(figure fits)" = true ]; fi
}

# The widest model (a multiple of $2, at most $3) whose plan is within $4 bytes; sets width and bytes.
widest() { # maker step most limit ranks layout
    low=0 high=$(($3 / $2))
    while [ $((high - low)) -gt 0 ]; do
        mid=$(((low + high + 1) / 2))
        "$1" $((mid * $2)) "$6" >"$tmp/p.yaml"
        "$plan" "$tmp/p.yaml" --ranks "$5" --json >"$tmp/plan.json" || [ $? -eq 1 ] || die "no plan of $1" # 1: it does not fit
        if fits "$4"; then low=$mid; else high=$((mid - 1)); fi
    done
    width=$((low * $2))
    [ $width = 0 ] && die "nothing fits"
    "$1" $width "$6" >"$tmp/p.yaml"
    "$plan" "$tmp/p.yaml" --ranks "$5" --json >"$tmp/plan.json" || [ $? -eq 1 ] # by $4, not by the machine
    bytes=$(figure total)
}

base() { # layers width words: parameters without the experts beyond the first
    awk -v l="$1" -v h="$2" -v v="$3" 'BEGIN { print l * 12 * h * h + 2 * v * h }'
}

planned() {
    echo '| tensor ranks | passes | widest model | base parameters | all parameters | times the base without tensor ranks | a GPU holds, GB |'
    echo '|---|---|---|---|---|---|---|'
    first=
    for t in 1 2 4 8; do
        keys=": 0"
        [ $t = 1 ] || keys=": 1835008"
        widest large 64 12288 "" 128 "data: $((128 / t)), tensor: $t$ted$keys"
        b=$(base 32 $width 50304)
        first=${first:-$b}
        awk -v t=$t -v w="$width" -v b="$b" -v f="$first" -v m="$bytes" 'BEGIN {
            printf "| %d | %s | 32 x %d | %.2f B | %.1f B | %.1f | %.2f |\n", t, t == 1 ? "none" : "all three", w, b / 1e9,
                (b + 16 * 15 * 8 * w * w) / 1e9, b / f, m / 1e9 }'
    done
}

ran() {
    limit=$((${LIMIT:-160} * 1048576))
    prepare
    echo "| tensor ranks | widest model | base parameters | times the first | planned MB | peak resident MB |"
    echo '|---|---|---|---|---|---|'
    first=
    for t in 1 2 4; do
        keys=": 0"
        [ $t = 1 ] || keys=": 65536"
        widest small 16 2048 $limit 8 "data: $((8 / t)), tensor: $t$ted$keys"
        b=$(base 4 $width 256)
        first=${first:-$b}
        cp "$tmp/p.yaml" "$tmp/r.yaml"
        rm -rf "$tmp/out"
        launch 8 --fresh
        peak=$(column peak_resident_bytes "$tmp/out/attempt-1.json")
        awk -v t=$t -v w="$width" -v b="$b" -v f="$first" -v m="$bytes" -v p="$peak" 'BEGIN {
            printf "| %d | 4 x %d | %.2f M | %.1f | %.1f | %.1f |\n", t, w, b / 1e6, b / f, m / 1e6, p / 1e6 }'
        # Resident are also the other seven ranks' windows, 2 MiB each, which the plan counts where they are.
        [ "$peak" -le $((bytes + 7 * 2162688)) ] || die "a peak of $peak bytes is above the plan of $bytes"
    done
}

case ${1-} in
'') planned && echo && ran ;;
plan) planned ;;
run) ran ;;
*) echo "usage: tests/bench/ted_memory.sh [plan|run]" >&2 && exit 2 ;;
esac
