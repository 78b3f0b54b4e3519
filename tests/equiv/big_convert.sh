#!/bin/sh
# big_convert.sh - a checkpoint far larger than memory may be: SN_BIG_GB (20) of weights and moments, made by
# growing a small trained model, converted from TP4 x PP2 to TP2 x PP4 in processes that may map 1 GiB in all.
# Needs twice that much disk, and says so where it is not there.
. tests/lib/tap.sh
. tests/lib/train.sh

gb=${SN_BIG_GB:-20}
big=${SN_BIG_DIR:-$tmp}
free=$(df -Pk "$big" | awk 'NR == 2 { print int($4 / 1048576) }')
if [ "$free" -lt $((gb * 2 + 4)) ]; then
    skip "a checkpoint of $gb GB converts in 1 GiB" "$big has $free GiB free, and $((gb * 2 + 4)) are needed"
    tap_done
    exit
fi
make_tokens "$tmp/tok"
# 12 h^2 values a layer at h = 2048 (512 grown four times), 12 bytes each: 0.6 GB a layer.
layers=$(((gb * 10 + 5) / 6))
layers=$(((layers + 3) / 4 * 4))
cat >"$tmp/a.yaml" <<YAML
run: {name: big, seed: 1, output: $tmp/run, threads: 1}
model: {family: gpt2, layers: $layers, hidden: 512, heads: 8, ffn: 2048, vocab: 256, seq: 32}
data: {train: $tmp/tok}
train: {steps: 1, global_batch: 2}
layout: {data: 1, tensor: 2, pipeline: 2}
YAML
printf 'layout: {data: 1, tensor: 4, pipeline: 2}\n' >"$tmp/from.yaml"
printf 'layout: {data: 1, tensor: 2, pipeline: 4}\n' >"$tmp/to.yaml"
run tests/mpi/run -n 4 "$BUILD/bin/sennit-train" "$tmp/a.yaml"
is "a small model trains one step" "$rc" 0
[ "$rc" = 0 ] || tap_lines error "$err"

# 768 MiB of buffers leave 256 MiB for libraries, thread stacks and lists (docs/man/sennit-convert.1).
capped() { # command...
    (ulimit -v 1048576 && "$@")
}
convert=$BUILD/bin/sennit-convert
run capped "$convert" "$tmp/run/ckpt" "$big/a" --grow 4x --layout "$tmp/from.yaml" --memory 768MiB
is "it grows to $gb GB within the cap$err" "$rc" 0
made=$(du -sk "$big/a" | awk '{ print int($1 / 1000000) }')
ok "which are on the disk ($made GB)" test "$made" -ge $((gb * 9 / 10))
run capped "$convert" "$big/a" "$big/b" --layout "$tmp/to.yaml" --memory 768MiB
is "it converts within the cap$err" "$rc" 0
run capped "$convert" --diff "$big/a" "$big/b" --memory 768MiB
is "and no value differs$err" "$rc" 0
rm -rf "$big/a" "$big/b"
tap_done
