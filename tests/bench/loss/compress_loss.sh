#!/bin/sh
# compress_loss.sh - what compression of communication does to the loss: the same training with each scheme and
# without, several seeds, on real text.
#
# usage: tests/bench/loss/compress_loss.sh [SCHEME...]     default: naive mzhybrid zhybrid blockwise; `none`, the twin
#        without compression, always comes first. A scheme may also be keys of layout.compress: data=int8,zero=int4-diff
#
# A gpt-neox of 4 layers, data 2 x tensor 2 x pipeline 2 with ZeRO-1, fp32: 8 ranks that compute, the layout and the
# messages of tests/bench/pace/compress.sh with a narrower model. A seed decides weights and order of the samples, so
# each run has a twin that differs in nothing but compression. The validation loss is that of 512,000 tokens (bytes) after the
# last step.
#
# STEPS (1000), SEEDS ("1 2 3") in the environment replace the defaults; TEXT is a file of at least 24 MB, the dictionary
# that `make demo` has fetched unless given. What has finished is kept in DIR ($BUILD/compress_loss) and not run
# again, as long as its run file is the same (SCHEME-SEED.jsonl is what it recorded); an interrupted run begins anew.
#
# Verdict: no seed's loss is farther from its twin's than the larger of 0.2 % and the spread of the twins, (greatest -
# least) / mean. Fails where a loss is not finite; what is beyond the limit is printed, and is no failure.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
dir=${DIR:-$BUILD/compress_loss} steps=${STEPS:-1000} seeds=${SEEDS:-1 2 3} ranks=8
schemes=none
[ $# -gt 0 ] || set -- naive mzhybrid zhybrid blockwise
for s; do
    [ "$s" = none ] || schemes="$schemes $s"
done
valid_tokens=512000 seq=128

tokens() {
    text=${TEXT:-$BUILD/demo/text.txt}
    [ -e "$dir/tok-valid.idx" ] && return
    [ -e "$text" ] || die "no $text; run make demo, or say TEXT=FILE"
    "$BUILD/bin/sennit-data" build --text "$text" -o "$dir/tok" --valid 0.025 >/dev/null
}

run_of() { # scheme seed path: the run file
    case $1 in
    *=*) coding="{$(echo "$1" | sed 's/=/: /g; s/,/, /g')}" ;;
    *) coding=$1 ;;
    esac
    cat <<YAML
run: {name: loss, seed: $2, output: $3, threads: 1}
model: {family: gpt-neox, layers: 4, hidden: 64, heads: 4, vocab: 256, seq: $seq}
data: {train: $dir/tok, valid: $dir/tok-valid}
train:
  steps: $steps
  global_batch: 8
  optimizer: {lr: 4.0e-3}
  schedule: {warmup: 50, min_lr: 4.0e-4}
  eval_every: $steps
  eval_sequences: $((valid_tokens / seq))
layout: {data: 2, tensor: 2, pipeline: 2, zero: 1, micro_batch: 2, compress: $coding}
checkpoint: {dir: ckpt, every: 0, keep: 1}
YAML
}

stem() { # scheme seed
    echo "$dir/$(echo "$1" | tr ',=' '_-')-$2"
}

# The validation loss of a run in $dir/SCHEME-SEED.loss, "LOSS SECONDS-A-STEP".
one() { # scheme seed
    name=$(stem "$1" "$2")
    run_of "$1" "$2" "$name" >"$tmp/r.yaml"
    [ -e "$name.loss" ] && cmp -s "$tmp/r.yaml" "$name.yaml" && return
    rm -rf "$name" "$name.loss"
    launch $ranks --fresh
    loss=$(column val_loss "$name/metrics.jsonl")
    echo "$loss" | grep -q '^[0-9.]*$' || die "$1, seed $2: the validation loss is '$loss'"
    cp "$name/metrics.jsonl" "$name.jsonl"
    cp "$tmp/r.yaml" "$name.yaml"
    echo "$loss $(median "$name/metrics.jsonl")" >"$name.loss"
    rm -rf "$name"
    echo "$1, seed $2: validation loss $(cat "$name.loss") s a step" >&2
}

table() {
    for s in $schemes; do
        for n in $seeds; do echo "$s $n $(cat "$(stem "$s" "$n").loss")"; done
    done | awk '
        function abs(x) { return x < 0 ? -x : x }
        function close_row(   i, d, mean, far) {
            if (scheme == "") return
            for (i = 1; i <= n; i++) mean += loss[i] / n
            if (scheme == "none") {
                least = most = loss[1]
                for (i = 1; i <= n; i++) {
                    twin[i] = loss[i]
                    least = loss[i] < least ? loss[i] : least
                    most = loss[i] > most ? loss[i] : most
                }
                spread = (most - least) / mean
                limit = spread > 0.002 ? spread : 0.002
                twins = mean
            }
            for (i = 1; i <= n; i++) { d = loss[i] / twin[i] - 1; if (abs(d) > abs(far)) far = d }
            printf "| %s |%s | %.4f | %+.2f %% | %+.2f %% | %s | %.0f |\n", scheme, all, mean, 100 * (mean / twins - 1), 100 * far,
                (scheme == "none" ? "" : abs(far) <= limit ? "yes" : "no"), seconds / n * 1e3
        }
        BEGIN { printf "| scheme | validation loss of each seed | mean | to the twins | farthest seed | within | ms a step |\n|---|---|---|---|---|---|---|\n" }
        $1 != scheme { close_row(); scheme = $1; n = 0; all = ""; seconds = 0 }
        { loss[++n] = $3; all = all (n > 1 ? ", " : " ") sprintf("%.4f", $3); seconds += $4 }
        END { close_row(); printf "\nspread between seeds without compression %.2f %%; limit %.2f %%\n", 100 * spread, 100 * limit }'
}

mkdir -p "$dir"
tokens
for s in $schemes; do
    for n in $seeds; do one "$s" "$n"; done
done
echo "$steps steps of 1,024 tokens; $valid_tokens validation tokens; 8 ranks on $(nproc) cores"
table
