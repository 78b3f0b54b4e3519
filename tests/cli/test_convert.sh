#!/bin/sh
# test_convert.sh - sennit-convert between layouts: the bytes are those that a trainer would have
# written, whatever kills it meanwhile, on however many ranks, in however little memory.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
convert=$BUILD/bin/sennit-convert
make_tokens "$tmp/tok"
eval_every=0

layout_file() { # NAME LAYOUT: $tmp/NAME.yaml, a run file whose output is $tmp/NAME
    run_file "$tmp/$1.yaml" "$tmp/$1"
    case $1 in single*) sed -i 's/^checkpoint: {/&single_file: true, /' "$tmp/$1.yaml" ;; esac
    sed -i "s/^layout:.*/layout: {bucket: 64KiB, $2}/" "$tmp/$1.yaml"
}

same_checkpoint() { # sentence step-directory step-directory
    same_list=$(ls "$2")
    is "$1: the same files" "$same_list" "$(ls "$3" 2>/dev/null || echo none)"
    same_bad=
    for same_file in $same_list; do
        cmp -s "$2/$same_file" "$3/$same_file" || same_bad="$same_bad $same_file"
    done
    is "$1: the same bytes" "$same_bad" ''
}

# --- usage -------------------------------------------------------------------------------------------
refused() { # sentence pattern option...
    refused_what=$1 refused_like=$2
    shift 2
    run "$convert" "$@"
    is "$refused_what: exit 2" "$rc" 2
    like "$refused_what: says so" "$err" "$refused_like"
}
mkdir "$tmp/empty"
echo 'layout: {tensor: 2}' >"$tmp/l.yaml"
refused "no arguments" 'nothing to do; want SRC and DST with one of --layout' --memory 1GiB
refused "one path" 'want SRC and DST, got 1' a --layout "$tmp/l.yaml"
refused "three paths for --diff" 'want two checkpoints, got 3' --diff a b c
refused "an unknown option" 'unknown option --lay-out' a b --lay-out x
refused "an option without its value" 'no value after --layout' a b --layout
refused "no such type" "'fp8' is no type; want fp32, bf16 or fp16" a b --dtype fp8
refused "no such size" "'4 gigs' is no size" a b --memory '4 gigs'
refused "no such format" "'gguf' is no format; want safetensors" a b --to gguf
refused "no such factor" "'1.5x' is no factor" a b --grow 1.5x
refused "--shard-size of a checkpoint" 'shard-size does not go with a new checkpoint' a b --layout x --shard-size 1GB
refused "--layout of an export" 'layout does not go with --to safetensors' a b --to safetensors --layout x
refused "--noise alone" 'noise is for --grow' a b --layout x --noise 0.1
refused "no source" 'none: .*No such file' "$tmp/none" "$tmp/out" --layout "$tmp/l.yaml"
refused "a source without a checkpoint" 'empty: ' "$tmp/empty" "$tmp/out" --layout "$tmp/l.yaml"

# --- what a trainer would have written ---------------------------------------------------------------
# The second layout resumes from the first one's checkpoint and saves the next step; converted to the
# first one and back, its checkpoint is the same, file by file.
steps=20
first=tp2 step=1
layout_file tp2 'tensor: 2'
run mpi 2 "$train" "$tmp/tp2.yaml" --stop-after 1
is "two tensor ranks train" "$rc" 0
for pair in 'dp3:3:data: 3, zero: 1' 'pp2:2:pipeline: 2' 'dp4:4:data: 2, tensor: 2' \
    'z3:3:data: 3, zero: 3' 'tp4:4:tensor: 4' 'single:3:data: 3, zero: 1' 'single2:2:tensor: 2' \
    'cp2:4:data: 2, context: 2, zero: 2'; do
    name=${pair%%:*} ranks=${pair#*:}
    layout=${ranks#*:} ranks=${ranks%%:*} before=$step step=$((step + 1))
    layout_file "$name" "$layout"
    mkdir "$tmp/$name"
    run "$convert" "$tmp/$first/ckpt" "$tmp/$name/ckpt" --layout "$tmp/$name.yaml"
    is "$first to $name: converts" "$rc" 0
    run "$convert" --verify "$tmp/$name/ckpt"
    is "$first to $name: every byte is as it was hashed" "$rc" 0
    run "$convert" --diff "$tmp/$first/ckpt" "$tmp/$name/ckpt"
    is "$first to $name: no value differs" "$rc" 0
    run mpi "$ranks" "$train" "$tmp/$name.yaml" --stop-after $step
    is "$name: goes on from it" "$rc" 0
    like "$name: at step $before" "$err" "step.* $before([^0-9]|$)"
    run "$convert" "$tmp/$name/ckpt" "$tmp/$name-as-$first" --layout "$tmp/$first.yaml"
    is "$name to $first: converts" "$rc" 0
    run "$convert" "$tmp/$name-as-$first" "$tmp/$name-again" --layout "$tmp/$name.yaml" --memory 8MiB
    is "and back, in little memory" "$rc" 0
    same_checkpoint "$name: converted as trained" "$tmp/$name-again/step-0000000$step" \
        "$tmp/$name/ckpt/step-0000000$step"
    first=$name
done

# --- names of results, and reports ---------------------------------------------------------------------
last=$tmp/$first/ckpt
run "$convert" "$last" "$tmp/step-00000003" --layout "$tmp/l.yaml"
is "the name of another step is refused" "$rc" 2
like "with the right one" "$err" 'name it step-0000000[0-9]'
run "$convert" "$last" "$tmp/one/step-0000000$step/" --layout "$tmp/l.yaml" --json
is "a result may be named itself" "$rc" 0
like "and is reported" "$out" "^\{\"output\": \"$tmp/one/step-0000000$step\", \"tensors\": 63, .*\"ranks\": 1, "
run "$convert" "$last" "$tmp/one" --layout "$tmp/l.yaml"
is "what is there is not overwritten" "$rc" 2
like "and named" "$err" "one/step-0000000$step: is there already"
printf 'layout:\n  tensor: 3\n' >"$tmp/bad.yaml"
run "$convert" "$last" "$tmp/bad" --layout "$tmp/bad.yaml"
is "a layout that does not fit: exit 2" "$rc" 2
like "says where" "$err" 'bad.yaml:2:11: layout.tensor: 3 does not divide model.heads'
printf 'model:\n  hidden: 32\n' >"$tmp/bad.yaml"
run "$convert" "$last" "$tmp/bad" --layout "$tmp/bad.yaml"
like "another model says where" "$err" 'bad.yaml:2:11: model.hidden: is 32, but 64'
ok "and nothing was written" test ! -e "$tmp/bad"
run "$convert" "$last" "$tmp/bad" --layout "$tmp/l.yaml" --memory 1MiB
is "too little memory: exit 2" "$rc" 2
like "with the least" "$err" 'the least is [0-9.]+ MiB'

# --- types ---------------------------------------------------------------------------------------------
run "$convert" "$last" "$tmp/half" --layout "$tmp/l.yaml" --dtype bf16
is "bf16 is written" "$rc" 0
run "$convert" "$last" "$tmp/half2" --dtype bf16
run "$convert" "$tmp/half" "$tmp/half3" --delink
is "without shared layers there is nothing to delink" "$rc" 2
run "$convert" --diff "$tmp/half" "$tmp/half2"
is "whatever the layout, the same bf16" "$rc" 0
run "$convert" --diff "$last" "$tmp/half" --json
ok "values differ by rounding" awk "BEGIN { x = $(printf '%s' "$out" | sed 's/.*"largest": \([^,]*\),.*/\1/')
    exit !(x > 0 && x < 0.005) }"
like "those of the weights only" "$out" '"different": 21,'
run "$convert" "$tmp/half" "$tmp/half4" --layout "$tmp/z3.yaml"
run "$convert" --diff "$tmp/half4" "$tmp/half"
is "a type stays what it was" "$rc" 0
like "as --inspect says" "$("$convert" --inspect "$tmp/half4")" 'model +embed.weight .* bf16'

# --- blocks for multi-token prediction ------------------------------------------------------------------
layers=1 steps=1 run_file "$tmp/mtp.yaml" "$tmp/mtp"
sed -i -e 's/^  dropout:.*/  mtp: 2/' -e 's/^  fp8:.*/  lora: {rank: 2, targets: ["*.attn.q.weight", "*.mtp.*_proj.weight"]}/' \
    -e 's/warmup: 5/warmup: 0/' "$tmp/mtp.yaml"
run "$train" "$tmp/mtp.yaml"
is "adapters of a model with two such blocks are trained" "$rc" 0
run "$convert" "$tmp/mtp/ckpt" "$tmp/mtp-hub" --merge --mtp 0
is "the blocks are dropped" "$rc" 0
like "which is said" "$err" 'ckpt/step-00000001: 2 of 2 blocks for multi-token prediction \(model.mtp\) are dropped$'
run "$convert" "$tmp/mtp/ckpt" "$tmp/mtp-one" --merge --mtp 1
like "or one of them" "$rc $err" '^0 .*: 1 of 2 blocks for multi-token prediction'
run "$convert" --diff "$tmp/mtp-hub" "$tmp/mtp-one"
like "all that is left is as it was" "$out" '^[0-9]+ tensors in both: 0 differ; [1-9]'
refused "more blocks than there are" 'has 2 blocks for multi-token prediction \(model.mtp\), not 3; want --mtp 0..2' \
    "$tmp/mtp/ckpt" "$tmp/mtp-none" --mtp 3
refused "adapters of such blocks in PEFT's files" 'layers.1.*lora_.* is of a block .*; drop those with --mtp 0$' \
    "$tmp/mtp/ckpt" "$tmp/mtp-peft" --to peft
run "$convert" "$tmp/mtp/ckpt" "$tmp/mtp-peft" --to peft --mtp 0
is "those of the layers are written" "$rc $(grep -c 'q_proj' "$tmp/mtp-peft/adapter_config.json")" '0 1'
run "$convert" "$tmp/mtp/ckpt" "$tmp/mtp-all" --merge
sed -e "s#output: [^,]*#output: $tmp/mtp-begun#" -e "s#rank: 2,#rank: 2, init_from: $tmp/mtp-peft,#" -e "s#^train:#&\\n  init_from: $tmp/mtp-all#" "$tmp/mtp.yaml" >"$tmp/mtp-begun.yaml"
run "$train" "$tmp/mtp-begun.yaml"
is "no run with blocks begins with them" "$rc" 2
like "which is said" "$err" \
    "mtp-peft: the run's layers.1.*lora_.* is of a block .*; want model.mtp: 0, or train.lora.targets without these blocks\$"

# --- a large one ----------------------------------------------------------------------------------------
run "$convert" "$last" "$tmp/large" --grow 18x --layout "$tmp/l.yaml"
is "a small checkpoint grows to a large one" "$rc" 0
cp "$tmp/z3.yaml" "$tmp/plain.yaml"
sed -i '/^model:/,/^data:/{/^data:/!d}' "$tmp/plain.yaml"
run "$convert" "$tmp/large" "$tmp/whole" --layout "$tmp/plain.yaml"
is "it is converted" "$rc" 0
whole=$tmp/whole/step-0000000$step

run mpi 3 "$convert" "$tmp/large" "$tmp/ranks" --layout "$tmp/plain.yaml"
is "three ranks convert it" "$rc" 0
same_checkpoint "on three ranks" "$tmp/ranks/step-0000000$step" "$whole"
rm -rf "$tmp/ranks"

case $BUILD in
*san*) skip "16 MiB of buffers are no more than that" "sanitizers map memory of their own" ;;
*)
    # shellcheck disable=SC3045
    capped() { (ulimit -v $(((16 + 128) * 1024)) && "$@"); }
    run capped "$convert" "$tmp/large" "$tmp/capped" --layout "$tmp/plain.yaml" --memory 16MiB
    is "16 MiB of buffers and 128 MiB for programs are enough" "$rc" 0
    same_checkpoint "in little memory" "$tmp/capped/step-0000000$step" "$whole"
    rm -rf "$tmp/capped"
    ;;
esac

# --- killed and taken up ---------------------------------------------------------------------------------
# Killed as soon as something is in the journal; tried again if it was faster than we.
cut=$tmp/cut/step-0000000$step
kill_in_the_middle() { # command...
    for _ in 1 2 3 4 5; do
        rm -rf "$tmp/cut"
        "$@" >/dev/null 2>&1 </dev/null &
        kill_pid=$!
        for _ in $(seq 1 2000); do
            [ -z "$(find "$cut.tmp.convert" -name 'journal-*' -size +1 2>/dev/null)" ] || break
            [ ! -e "$cut" ] || break
            sleep 0.005
        done
        kill -9 $kill_pid 2>/dev/null
        wait $kill_pid 2>/dev/null
        [ -e "$cut" ] || return 0
    done
    return 1
}
ok "a conversion is killed in the middle" \
    kill_in_the_middle "$convert" "$tmp/large" "$tmp/cut" --layout "$tmp/plain.yaml" --memory 16MiB
run "$convert" "$last" "$tmp/cut" --layout "$tmp/plain.yaml"
is "another source does not go on there: exit 2" "$rc" 2
like "and is told how" "$err" 'another source.*--fresh'
cp -r "$tmp/cut" "$tmp/cut3"
run "$convert" "$tmp/large" "$tmp/cut" --layout "$tmp/plain.yaml" --json
is "it goes on" "$rc" 0
like "with what was done" "$out" '"resumed_bytes": [1-9]'
same_checkpoint "killed and taken up" "$cut" "$whole"
run mpi 3 "$convert" "$tmp/large" "$tmp/cut3" --layout "$tmp/plain.yaml" --json
is "three ranks go on where one was" "$rc" 0
like "with what it had done" "$out" '"resumed_bytes": [1-9]'
same_checkpoint "taken up by three ranks" "$tmp/cut3/step-0000000$step" "$whole"
rm -rf "$tmp/cut3"

tap_done
