#!/bin/sh
# test_trial.sh - sennit-run trial: layouts are tried, the fastest is written, and nothing of the run changes.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
start=$BUILD/bin/sennit-run
out=

file() { # layout
    cat >"$tmp/run.yaml" <<EOF
run: {name: trial, output: $tmp/out, threads: 1}
model: {family: llama, layers: 2, hidden: 32, heads: 2, ffn: 64, vocab: 256, seq: 16}
data: {train: $tmp/data, valid: $tmp/data}
train: {steps: 9, global_batch: 4, eval_every: 2, optimizer: {lr: 1.0e-3}}
layout: $1
checkpoint: {dir: $tmp/ckpt, every: 2}
EOF
}
steps() { # OUTPUT: how many steps its metrics have
    grep -c '"step_time_s"' "$1/metrics.jsonl"
}

"$BUILD/bin/sennit-data" build --text README.md -o "$tmp/data" >/dev/null 2>&1 || exit 1
file auto
run "$start" trial "$tmp/run.yaml" --ranks 2 --top 3 --steps 5 --write "$tmp/best.yaml"
is "trial exits 0" "$rc" 0
like "it says what was tried" "$out" '^3 of the best layouts of 2 ranks, 5 steps each$'
is "three layouts are measured" "$(printf '%s\n' "$out" | grep -cE '^ +[123] +[0-9.e-]+ s +[0-9.e-]+ s[* ] data ')" 3
is "one is the fastest" "$(printf '%s\n' "$out" | grep -c ' s\* data ')" 1
is "the fastest is the one whose measured step is shortest" "$(printf '%s\n' "$out" | grep -E '^ +[123] ' | sed 's/\*/ &/' | sort -g -k 4 | head -n 1 | grep -c '\*')" 1
for k in 1 2 3; do
    is "trial $k made its steps" "$(steps "$tmp/out/trial/$k")" 5
    ok "and saved nothing" test -z "$(find "$tmp/out/trial/$k" -name '*.h5' | head -n 1)"
    is "nor evaluated anything" "$(grep -c valid_loss "$tmp/out/trial/$k/metrics.jsonl")" 0
done
is "all have the same losses" "$(for k in 1 2 3; do grep -o '"loss": [0-9]*\.[0-9][0-9][0-9]' "$tmp/out/trial/$k/metrics.jsonl" | tr '\n' ' ' && echo; done | sort -u | wc -l)" 1
ok "the run itself has begun nothing" test ! -e "$tmp/out/metrics.jsonl" -a ! -e "$tmp/ckpt" -a ! -e "$tmp/out/journal.jsonl"
shape=$(printf '%s\n' "$out" | grep ' s\* data ' | sed 's/.*data \([0-9]*\) x tensor \([0-9]*\).*/\1 \2/')
written=$(awk '/^layout:/ { here = 1 } here && $1 == "data:" && !d { d = $2 } here && $1 == "tensor:" && !t { t = $2 } END { print d, t }' "$tmp/best.yaml")
is "the file that was written has its layout" "$written" "$shape"
run "$start" exec "$tmp/best.yaml" --ranks 2
is "and is a run" "$rc" 0
run "$start" trial "$tmp/run.yaml" --ranks 2 --top 1 --steps 4
is "a trial beside a run that has begun" "$rc" 0
is "leaves it alone" "$(steps "$tmp/out")" 9
file '{pipeline: 2}'
run "$start" trial "$tmp/run.yaml" --ranks 2 --top 5 --steps 4
is "keys that the file names stand" "$(printf '%s\n' "$out" | grep -cE '^ +[1-5] ') $(printf '%s\n' "$out" | grep -c 'data 1 x tensor 1 x context 1 x pipeline 2')" '1 1'
file auto
run "$start" trial "$tmp/run.yaml" --ranks 2 --top 1 --steps 2
is "too few steps: exit 2" "$rc" 2
like "and how many would do" "$err" "^--steps: '2' is no number from 3 to "
run "$start" trial "$tmp/run.yaml"
is "no number of ranks: exit 2" "$rc" 2
run "$start" trial "$tmp/none.yaml" --ranks 2
is "no file: exit 2" "$rc" 2
run "$BUILD/bin/sennit-train" "$tmp/run.yaml" --trial --preflight
is "a trial and a preflight: exit 2" "$rc" 2
sed -i 's|train: .*data,|train: /nowhere/data,|' "$tmp/run.yaml"
run "$start" trial "$tmp/run.yaml" --ranks 2 --top 2 --steps 4
is "where none trains: exit 1" "$rc" 1
like "each says why" "$out" '^ +2 .* - .*; .*see .*/out/trial/2$'
run "$start" trial --help
is "--help exits 0" "$rc" 0
tap_done
