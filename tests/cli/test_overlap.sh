#!/bin/sh
# test_overlap.sh - layout.overlap: auto changes the order of operations, and no bit of a result.
#
# Machines have slow links here, so that much is moved; what they are priced by has no say in what a run computes. In make check
# every third line of the table marked smoke trains and every ninth of those marked fast is proven; with ALL all lines of at most 8 ranks train, and all marked
# fast are proven.
set -u
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/lib/layouts.sh
layout_steps=${STEPS:-4}
plan=$BUILD/bin/sennit-plan

# The line's run file, its operations in the order that auto finds.
overlapped() { # path
    grep -q '^machine' "$1" && cat "$1" && return
    sed 's/^layout:/&\n  overlap: auto/' "$1"
    echo 'machine: {preset: dgx-a100-80}'
}

train() { # yaml ranks
    if [ "$2" = 1 ]; then
        run timeout -k 5 120 "$BUILD/bin/sennit-train" "$1"
    else
        run timeout -k 5 180 tests/mpi/run -n "$2" "$BUILD/bin/sennit-train" "$1"
    fi
    [ "$rc" = 0 ] || tap_lines "exit $rc" "$(printf '%s' "$err" | tail -n 5)"
}

# The line without an order that is found, and where forward and backward take turns, or rows go in pieces, without that.
plain_order() { # line
    plain_l=$(printf '%s' "$1" | sed 's/ tensor_pieces=[0-9]*//; s/ overlap=auto//')
    case $1 in
    *virtual_stages*) printf '%s' "$plain_l" | sed 's/schedule=combined/schedule=interleaved/' ;;
    *) printf '%s' "$plain_l" | sed 's/schedule=combined/schedule=1f1b/' ;;
    esac
}

# Both orders' losses and norms, and the weights behind them.
same_bits() { # line
    name=${1%% *} ranks=$(layout_ranks "$1")
    layout_file "$(plain_order "$1")" "$tmp/$name.yaml" "$tmp/$name"
    layout_file "$1" "$tmp/text.yaml" "$tmp/$name-auto"
    overlapped "$tmp/text.yaml" >"$tmp/$name-auto.yaml"
    grep '^machine' "$tmp/$name-auto.yaml" >>"$tmp/$name.yaml" # some defaults of experts are the machine's
    for run_yaml in "$tmp/$name.yaml" "$tmp/$name-auto.yaml"; do
        train "$run_yaml" "$ranks"
        is "$name: ${run_yaml##*/} trains" "$rc" 0
        layout_numbers "${run_yaml%.yaml}"
    done
    case $1 in
    *sequence_parallel=false*) sums=same ;;
    *tensor_pieces=*) sums=other ;; # of a rank's rows, which are others where they go in pieces
    *) sums=same ;;
    esac
    if [ $sums = same ]; then
        ok "$name: the same losses and norms" cmp -s "$tmp/$name/numbers" "$tmp/$name-auto/numbers"
    else
        within "$name: losses and norms, as far as sums of other rows are the same" \
            "$(worst "$tmp/$name/numbers" "$tmp/$name-auto/numbers")" "$(layout_limit "$1")"
    fi
    ok "$name: and there are some" test -s "$tmp/$name/numbers"
    rm -rf "${tmp:?}/$name" "$tmp/$name-auto"
}

layout_tokens "$tmp/tok"
if [ -n "${ALL:-}" ]; then grep '^[a-z]' "$table"; else grep '^[a-z].* smoke' "$table" | awk 'NR % 3 == 1'; fi >"$tmp/lines"
while read -r line; do
    [ "$(layout_ranks "$line")" -gt 8 ] || same_bits "$line"
done <"$tmp/lines"

# On a device (host memory and streams of its own: tests/gpu/fake_plugin.c), whose graphs are cut elsewhere then.
fake=$PWD/$BUILD/tests/gpu/libfake_device.so
if [ -e "$fake" ]; then
    SN_PLUGIN=$fake && export SN_PLUGIN
    for name in tp2 z3-dp2 pp2-v2-gpt2 ep2 tp2-combined tp2-pp2-combined; do
        same_bits "$(layout_line $name)"
    done
    SN_PLUGIN=none
else
    skip "the same bits on a device" "no $fake; make check builds it"
fi

# --- every layout is proven, and many are another text -----------------------------------------
bad='' moved=0 count=0
grep '^[a-z].* fast' "$table" | awk -v all="${ALL:-}" 'all != "" || NR % 9 == 1' >"$tmp/fast"
while read -r line; do
    layout_file "$line" "$tmp/run.yaml" "$tmp/out"
    overlapped "$tmp/run.yaml" >"$tmp/auto.yaml"
    grep -q '^machine' "$tmp/run.yaml" || echo 'machine: {preset: dgx-a100-80}' >>"$tmp/run.yaml"
    count=$((count + 1))
    last=$(($(layout_ranks "$line") - 1))
    "$plan" "$tmp/auto.yaml" --verify >"$tmp/out" 2>&1 && grep -q '^verified' "$tmp/out" || bad="$bad ${line%% *}"
    "$plan" "$tmp/run.yaml" --explain $last >"$tmp/text" 2>&1
    "$plan" "$tmp/auto.yaml" --explain $last >"$tmp/text-auto" 2>&1
    cmp -s "$tmp/text" "$tmp/text-auto" || moved=$((moved + 1))
    # Where they stand and what memory they take aside, it is the same operations; but for what ZeRO 1 and 2 gather
    # at the beginning of a step, and not at the end, which numbers all others anew.
    deferred='^$' numbers=
    case $line in *zero=[12]*) deferred='(all_gather|wait) +.*weight\.bucket' numbers='s/id=[0-9]*//' ;; esac
    for text in "$tmp/text" "$tmp/text-auto"; do
        sed '/^waits of/,$d' "$text" | grep -E '^ +[0-9]+  [a-z_]' | grep -vE "$deferred" | sed -e 's/^ *[0-9]* *//; s/ (in place of [^)]*)//g; s/\[[a-z]*\]//g' -e "$numbers" | sort >"$text.sorted"
    done
    cmp -s "$tmp/text.sorted" "$tmp/text-auto.sorted" || bad="$bad ${line%% *}(operations)"
done <"$tmp/fast"
is "layouts that are proven, of the same operations" "$bad" ''
ok "of $count, $moved are in another order" test "$moved" -ge $((count / 2))

# --- what users see -----------------------------------------------------------------------------
cat >"$tmp/70b.yaml" <<'YAML'
model: {preset: llama3-70b}
train: {steps: 5, global_batch: 512, precision: bf16}
layout: {data: 8, tensor: 8, pipeline: 4, overlap: none}
machine: {preset: dgx-h100, nodes: 32}
YAML
sed 's/overlap: none/overlap: auto/' "$tmp/70b.yaml" >"$tmp/70b-auto.yaml"
seconds() { "$plan" "$1" --ranks 256 --json | sed -n 's/.*"step_time_s": \([0-9.]*\).*/\1/p' | head -n 1; }
plain=$(seconds "$tmp/70b.yaml") auto=$(seconds "$tmp/70b-auto.yaml")
ok "70B over tensor 8: $auto s in place of $plain" awk "BEGIN { exit !($auto < 0.93 * $plain) }"
sed 's/overlap: none/overlap: auto, zero: 1/' "$tmp/70b.yaml" >"$tmp/70b-zero.yaml"
sed 's/overlap: none/overlap: auto, zero: 1, schedule: combined, virtual_stages: 2/' "$tmp/70b.yaml" >"$tmp/70b-turns.yaml"
plain=$(seconds "$tmp/70b-zero.yaml") turns=$(seconds "$tmp/70b-turns.yaml")
ok "and in turns: $turns s in place of $plain" awk "BEGIN { exit !($turns < 0.83 * $plain) }"
# Updated weights are gathered in the first micro-batch, and what no order could hide of a mixture's is hidden.
texts() { "$plan" "$1" --ranks 256 --explain 0 | grep -cE "all_gather +weight\.bucket.*$2"; }
is "without overlap no weights are gathered in the first micro-batch" \
    "$(sed 's/overlap: none/zero: 1/' "$tmp/70b.yaml" >"$tmp/70b-text.yaml"; texts "$tmp/70b-text.yaml" 'first micro-batch$')" 0
all=$(texts "$tmp/70b-zero.yaml" '')
ok "with it all of them are" test "$all" -gt 20 -a "$(texts "$tmp/70b-zero.yaml" 'first micro-batch$')" = "$all"
cat >"$tmp/mixture.yaml" <<'YAML'
model: {preset: mixtral-8x7b}
train: {steps: 5, global_batch: 512, precision: bf16}
layout: {data: 64, expert: 8, zero: 1, recompute: full, overlap: auto, bucket: 200MiB}
machine: {preset: dgx-h100, nodes: 8}
YAML
run "$plan" "$tmp/mixture.yaml" --ranks 64 --explain 0
share=$(printf '%s\n' "$out" | awk '$1 == "all" { print $(NF - 4) }')
ok "a mixture on 64 devices exposes $share % of its step" awk "BEGIN { exit !(\"$share\" + 0 > 0 && $share <= 5) }"
run "$plan" "$tmp/70b-turns.yaml" --ranks 256 --explain 128
like "which turns is told" "$out" 'segments in turn, the first of them:'
like "piece by piece" "$out" 'backward [0-9]*\.\.[0-9]*, forward [0-9]*\.\.'
like "each wait is told with what hides it" "$out" 'l20.ffn.down  *tensor  *[0-9.]*  *[0-9.]*  *[0-9.]*  gemm l[0-9]*.ffn'
like "and each axis" "$out" '^  tensor  *[0-9.]*  *[0-9.]*  *[0-9.]*  [0-9.]* % of the step$'
like "and what no order hides" "$out" 'no order of these stands for less'

# --- sums of input gradients, each behind products that fit it (of a grid, AxoNN's overlap) --------
cat >"$tmp/slow.yaml" <<'YAML'
name: slow
source: made up, so that products take longer than messages
device: {memory: 1GiB, bandwidth: 1.0e12, overhead: 0.0, peak: {fp32: 5.0e8}}
node: {devices: 2}
collectives: direct
links:
  - {name: host, ranks: 2, latency: 1.0e-4, device: 1.0e9}
  - {name: leaf, ranks: 0, latency: 3.0e-4, device: 2.5e7, domain: 2.5e7}
YAML
cat >"$tmp/grid.yaml" <<YAML
model: {family: llama, layers: 4, hidden: 256, heads: 8, kv_heads: 8, ffn: 704, vocab: 256, seq: 128}
train: {steps: 4, global_batch: 4}
layout: {micro_batch: 4, data: 1, tensor: 2, tensor_x: 4, sequence_parallel: false, overlap: auto}
machine: {file: $tmp/slow.yaml}
YAML
run "$plan" "$tmp/grid.yaml" --ranks 8 --explain 0
could=$(printf '%s\n' "$out" | sed -n 's/^  input gradients; at most \([0-9.]*\) of .*/\1/p')
hidden=$(printf '%s\n' "$out" | sed -n 's/^  input gradients; at most [0-9.]* of [0-9.]* hidden  *[0-9.]*  *\([0-9.]*\) .*/\1/p')
ok "of input gradients' sums $hidden ms of the $could that could be are hidden" awk "BEGIN { exit !(${could:-0} > 400 && ${hidden:-0} > 0.9 * $could) }"
sed 's/overlap: none/overlap: both/' "$tmp/70b.yaml" >"$tmp/both.yaml"
run "$plan" "$tmp/both.yaml" --ranks 256
is "another word is refused" "$rc" 2
like "by name" "$err" "layout.overlap: unknown name 'both'; want none or auto"
tap_done
