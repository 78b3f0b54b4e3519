#!/bin/sh
# test_plan.sh - sennit-plan: what a stage keeps, how long a step takes, and how long stages wait.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
plan=$BUILD/bin/sennit-plan

file() { # layout
    cat >"$tmp/run.yaml" <<EOF
run: {name: plan}
model: {family: gpt2, layers: 8, hidden: 96, heads: 6, kv_heads: 6, ffn: 384, vocab: 64, seq: 64, tied_embeddings: false}
data: {train: none}
train: {steps: 1, global_batch: 8}
layout: {$1}
EOF
}

number() { # key: of the JSON in $out, the first one
    printf '%s\n' "$out" | grep -oE "\"$1\": [0-9.]+" | sed 's/.* //; q'
}

# --- activations --------------------------------------------------------------------------------
file 'pipeline: 4, schedule: 1f1b'
run "$plan" "$tmp/run.yaml" --activations
is "--activations exits 0" "$rc" 0
is "a table for each stage" "$(printf '%s\n' "$out" | grep -c '^stage')" 4
is "slots of 1f1b" "$(printf '%s\n' "$out" | sed -n 's/^stage.*flight: //p' | tr '\n' ' ')" '4 3 2 1 '
like "the scores' absence has a reason" "$out" 'scores  *0 .*never kept'
run "$plan" "$tmp/run.yaml" --activations --json
is "the tensors are the slot" "$(printf '%s\n' "$out" | tr '{' '\n' | sed '/"piece": 1,/,$d' | sed -n 's/.*"late": false, "bytes": \([0-9]*\).*/\1/p' | awk '{ n += $1 } END { print n }')" "$(number slot_bytes)"
like "a tensor has its bytes and the paper's" "$out" '"name": "attn.add", [^{}]*"late": false, "bytes": 49152, "literature_bytes": 24576'
like "and its differences" "$out" '"differences": \["fp32: 4 bytes an element, not 2"\]'

# --- operations -----------------------------------------------------------------------------------
file 'micro_batch: 2'
run "$plan" "$tmp/run.yaml" --operations
is "--operations exits 0" "$rc" 0
# qkv of 128 tokens: 2 x 128 x 96 x 288 FLOPs; operands, bias and result once, 4 bytes each; 8 layers' share of 4 micro-batches.
is "an operation has its shape, bytes and FLOPs" "$(printf '%s\n' "$out" | awk '$10 == "l3.attn.qkv" && $9 > 0 && !n++ { print $1, $2, $3, $4, $5, $6, $7, $8 }')" \
    "gemm fp32 128 288 96 4 $((4 * (128 * 96 + 288 * 96 + 288 + 128 * 288))) 7.078e+06"
is "what runs once a step runs once" "$(printf '%s\n' "$out" | awk '$1 == "adamw" && !n++ { print $6 }')" 1
operations=$(printf '%s\n' "$out" | awk '!/^#/ && $1 != "operation"' | wc -l)
run "$plan" "$tmp/run.yaml" --explain 0
is "as many lines as the program has kernels" "$operations" "$(printf '%s\n' "$out" | grep -E '^ +[0-9]+  [a-z_0-9]+ ' | grep -vc '  agree ')"
run "$plan" "$tmp/run.yaml" --operations=1
is "--operations of a rank that is none: exit 2" "$rc" 2
like "and the sentence" "$err" '^--operations: there is no rank 1; the layout has 0..0'

# --- time ---------------------------------------------------------------------------------------
cat >"$tmp/box.yaml" <<EOF
name: box
device:
  name: a box
  memory: 1GiB
  library: 100MiB
  communicator: 5MiB
  bandwidth: 1.0e10
  overhead: 1.0e-6
  peak: {fp32: 1.0e11}
  gemm: {fp32: {most: 0.5}}
  attention: {forward: 0.5, backward: 0.5}
node: {devices: 4}
links:
  - {name: inside, ranks: 4, latency: 1.0e-6, device: 1.0e9}
  - {name: outside, ranks: 0, latency: 1.0e-5, device: 1.0e8}
EOF
on_box() { # layout, more of the machine section
    file "$1"
    echo "machine: {file: $tmp/box.yaml${2-}}" >>"$tmp/run.yaml"
}
sums_up() { # the parts of the step of the stage that computes longest, and the levels of the traffic
    printf '%s\n' "$out" | tr -d '{}",' | awk '{
        for (i = 1; i < NF; i++) v[$i] = $(i + 1)
        for (i = 1; i < NF; i++) {
            if ($i == "traffic_bytes:") for (k = 1; k <= 7; k++) bytes += $(i + 2 * k)
            if ($i == "traffic_by_level:") for (k = 1; k <= 2; k++) levels += $(i + 2 * k)
            if ($i == "exposed_comm_s:") for (exposed = k = 0; k++ < 7;) exposed += $(i + 2 * k)
        }
        step = v["step_time_s:"]
        sum = v["compute_s:"] + v["update_s:"] + exposed + v["idle_s:"]
        tokens = v["tokens_per_s:"] * step
        exit !(step > 0 && sum > step * (1 - 1e-6) && sum < step * (1 + 1e-6) && bytes == levels &&
               bytes > 0 && tokens > 511.99 && tokens < 512.01 && v["mfu:"] > 0 && v["mfu:"] < 0.5 &&
               v["mfu_uncausal:"] > v["mfu:"] && v["mfu_uncausal:"] < 2 * v["mfu:"])
    }'
}
for layout in 'pipeline: 4, schedule: gpipe' 'pipeline: 2, schedule: interleaved, virtual_stages: 2, data: 2' \
    'pipeline: 4, schedule: zero-bubble' 'pipeline: 4, split: [3, 1, 1, 3]' 'tensor: 2, context: 2, data: 2' \
    'data: 4, zero: 3' 'tensor: 2, sequence_parallel: true, recompute: full'; do
    on_box "$layout"
    run "$plan" "$tmp/run.yaml" --json
    ok "time and traffic add up: $layout" sums_up
done
on_box 'data: 4, tensor: 2'
run "$plan" "$tmp/run.yaml" --json
like "every rank's gradients cross to the other box" "$out" '"traffic_by_level": {"inside": [1-9][0-9]*, "outside": [1-9]'
is "a rank has its library and communicators of tensor, data and world" "$(number library)" $((115 << 20))
is "it may fill its device" "$(number memory_limit_bytes)" $((1 << 30))
like "and fits" "$out" '"fits": true'
on_box 'data: 4, tensor: 2' ', software: {profile: aleph-alpha-2023}'
run "$plan" "$tmp/run.yaml" --json
like "another trainer's plan has an interval, and says where nothing was measured" "$out" \
    '"step_time_low_s": [0-9.]*, "step_time_high_s": [0-9.]*, "extrapolated": "8 devices, measured 64 to 256; 96 features, .*; 64 tokens a sequence, '
ok "around the planned step" awk -v s="$(number step_time_s)" -v l="$(number step_time_low_s)" -v h="$(number step_time_high_s)" 'BEGIN { exit !(l > 0.8 * s && l < s && h > s && h < 1.3 * s) }'
printf '%s\n' "$out" >"$tmp/foreign.json"
run "$BUILD/tests/cli/plan_json" schema docs/plan.schema.json "$tmp/foreign.json"
is "in the form of the schema$err" "$rc" 0
run "$plan" "$tmp/run.yaml"
like "and for people" "$out" '^nine in ten of this trainer.s measured steps in every sheet, none of them fitted to, were 0.[89][0-9]* to 1.[0-9]* times those planned: '
on_box 'data: 4, tensor: 2' ', memory_fraction: 0.1'
run "$plan" "$tmp/run.yaml" --json
is "a fraction of the device" "$(number memory_limit_bytes)" $(((1 << 30) / 10))
like "is too little" "$out" '"fits": false'
is "which is exit 1" "$rc" 1
run "$plan" "$tmp/run.yaml"
like "the text has the step" "$out" '^step: [0-9.]+ ms, [0-9.]+ tokens/s, MFU [0-9.]+ % \([0-9.]+ % by 6N \+ 12LCT\); not measured on a GPU$'
unmeasured='not measured on a GPU'
run "$plan" "$tmp/run.yaml" --json
like "programs are told so, too" "$out" "\"mfu_note\": \"$unmeasured\","
run "$plan" "$tmp/run.yaml" --svg "$tmp/run.svg"
like "and who reads the drawing" "$(cat "$tmp/run.svg")" "MFU [0-9.]+ % \($unmeasured\);"
cp "$tmp/box.yaml" "$tmp/box-once.yaml"
note_of() { # the plan on this box, as JSON and as text
    sed "s/box.yaml/box-once.yaml/" "$tmp/run.yaml" >"$tmp/once.yaml"
    "$plan" "$tmp/once.yaml" --json 2>/dev/null | grep -oE '"mfu_note": [^,]*'
    "$plan" "$tmp/once.yaml" 2>/dev/null | grep -c "$unmeasured"
}
is "a box whose operations are formulas: the words" "$(note_of | tr '\n' ' ')" "\"mfu_note\": \"$unmeasured\" 1 "
sed '/attention:/a\  measured: [{op: add, type: fp32, m: 12288, seconds: 1.0e-5}]' "$tmp/box.yaml" >"$tmp/box-once.yaml"
is "one of whose operations was timed: no words" "$(note_of | tr '\n' ' ')" '"mfu_note": null 0 '
sed '$a collectives: direct' "$tmp/box.yaml" >"$tmp/box-once.yaml"
is "one of processors, which send directly: no words" "$(note_of | tr '\n' ' ')" '"mfu_note": null 0 '
run "$plan" "$tmp/run.yaml"
like "its parts" "$out" '^  exposed tensor +[0-9.]+ [mu]s +[0-9.]+ %'
like "the machine" "$out" '^machine: box, 8 ranks; trainer: sennit'
like "and what does not fit where" "$out" '^does not fit: a rank needs .* of 102.* MiB \(a box\)'
file 'data: 2'
run "$plan" "$tmp/run.yaml"
is "without a machine nothing is too large: exit 0" "$rc" 0
like "without a machine it says which stands for one" "$out" '^machine: laptop-cpu, 2 ranks \(none is named'
like "and whose memory counts" "$out" "this host's memory over 2 ranks"
like "which is no GPU: MFU stands alone" "$out" '^step: .*, MFU [0-9.]+ % \([0-9.]+ % by 6N \+ 12LCT\)$'
echo 'machine: {preset: nowhere}' >>"$tmp/run.yaml"
run "$plan" "$tmp/run.yaml"
is "an unknown machine is bad input" "$rc" 2

# --- the bubble ---------------------------------------------------------------------------------
on_box ''
run "$plan" "$tmp/run.yaml" --json
is "one stage never waits" "$(number bubble_fraction)" 0.000000

# Equal stages but for a small head and short transfers: close to (p-1)/(m+p-1) = 3/11, and a quarter
# of it is saved by delaying weight gradients.
on_box 'pipeline: 4, schedule: 1f1b'
run "$plan" "$tmp/run.yaml" --json
plain=$(number bubble_fraction)
ok "1f1b waits for about 3/11" awk -v f="$plain" 'BEGIN { exit !(f > 0.27 && f < 0.31) }'
on_box 'pipeline: 4, schedule: zero-bubble'
run "$plan" "$tmp/run.yaml" --json
ok "zero-bubble waits less" awk -v f="$(number bubble_fraction)" -v g="$plain" 'BEGIN { exit !(f > 0 && f < 0.75 * g) }'
run "$plan" "$tmp/run.yaml"
like "the text says so too" "$out" '^bubble: stages wait for [0-9.]+ % of'

# --- an asynchronous save -----------------------------------------------------------------------
file 'data: 2'
run "$plan" "$tmp/run.yaml" --json
without=$(number total)
is "no copy without checkpoint.async" "$(number snapshot)" 0
echo 'checkpoint: {async: true}' >>"$tmp/run.yaml"
run "$plan" "$tmp/run.yaml" --json
ok "a copy with it" test "$(number snapshot)" -gt 0
is "which is a part of the total" "$(number total)" $((without + $(number snapshot)))
run "$plan" "$tmp/run.yaml"
like "the text says so too" "$out" '^  snapshot  *[1-9]'
# --- exchanges of slices ------------------------------------------------------------------------
# Each expert over two tensor ranks, and none shared out: there are no nodes to hop between.
file 'data: 2, tensor: 4, expert_tensor: 2, expert_node: 2'
sed -i 's/family: gpt2/family: mixtral/; s/heads: 6, kv_heads: 6/heads: 4, kv_heads: 4/; s/, tied_embeddings: false}/, experts: {count: 4}}/' "$tmp/run.yaml"
run "$plan" "$tmp/run.yaml" --ranks 8
is "slices of experts: exit code" "$rc" 0
like "their exchange is in one hop" "$out" 'exchanges: in one hop, because rows go to all slices'
run "$plan" "$tmp/run.yaml" --ranks 8 --json
is "for programs, too" "$(number expert_node)" 1

# --- codecs -------------------------------------------------------------------------------------
cat >"$tmp/coded.yaml" <<YAML
model: {preset: llama-7b}
train: {steps: 5, global_batch: 256, precision: fp16}
layout: {data: 8, tensor: 4, pipeline: 2, zero: 1, compress: {scheme: auto, budget: 0.01}}
machine: {preset: lassen, nodes: 16}
YAML
run "$plan" "$tmp/coded.yaml"
is "codecs for a budget: exit code" "$rc" 0
like "they are named" "$out" '^codecs: data [a-z0-9-]*, zero [a-z0-9-]*, tensor '
like "with what they gain and cost" "$out" 'without them a step takes .*, [+][0-9.]* %; they raise the loss by 0[.][0-9]* %'
like "and what they take" "$out" '^  of both, codecs '
run "$plan" "$tmp/coded.yaml" --json
printf '%s' "$out" >"$tmp/coded.json"
run "$BUILD/tests/cli/plan_json" schema docs/plan.schema.json "$tmp/coded.json"
is "the object is in the form of the schema$err" "$rc" 0
figure() { # key
    sed -n 's/.*"'"$1"'": \([-0-9.e+]*\)[,}].*/\1/p' "$tmp/coded.json"
}
ok "the budget is kept ($(figure loss_rise))" awk "BEGIN { exit !($(figure loss_rise) > 0 && $(figure loss_rise) <= 0.01) }"
ok "and codecs gain ($(figure gain)), though they take $(figure codec_s) s" \
    awk "BEGIN { exit !($(figure gain) > 0 && $(figure codec_s) > 0) }"
sed -i 's/0.01/0/' "$tmp/coded.yaml"
run "$plan" "$tmp/coded.yaml" --json
printf '%s' "$out" >"$tmp/coded.json"
ok "without a budget nothing is lost" sh -c '! grep -q "int[48]\|zfp\|fp8\|bf16\"" "$1"' - "$tmp/coded.json"
sed -i '/^machine/d' "$tmp/coded.yaml"
run "$plan" "$tmp/coded.yaml" --ranks 64
is "without a machine: exit 2" "$rc" 2
like "is explained" "$err" 'layout.compress.scheme: auto wants to know what links cost; use machine.preset or'
sed -i 's/scheme: auto, budget: 0/scheme: naive, budget: 0.1/' "$tmp/coded.yaml"
run "$plan" "$tmp/coded.yaml" --ranks 64
is "a budget and named codecs: exit 2" "$rc" 2
like "is explained, too" "$err" 'layout.compress.budget: codecs are named, so that nothing is chosen'

# --- how tokens come to experts ------------------------------------------------------------------
cat >"$tmp/tokens.yaml" <<'YAML'
model: {preset: mixtral-8x7b}
train: {steps: 100, global_batch: 64, precision: bf16}
layout: {data: 4, tensor: 4, expert: 4, zero: 1, recompute: full}
machine: {preset: dgx-a100-80, nodes: 2}
YAML
run "$plan" "$tmp/tokens.yaml"
like "what makes a step shortest is taken unless it is named, and said" "$out" '; experts shared out over 4; tokens split$'
sed 's/expert: 4/expert: 4, expert_tokens: gathered, drop_duplicates: false/' "$tmp/tokens.yaml" >"$tmp/named.yaml"
run "$plan" "$tmp/named.yaml"
like "what is named stands" "$out" '; tokens gathered, duplicates sent$'
run "$plan" --list machines
is "what ships is listed: exit 0" "$rc" 0
is "each machine by its name" "$out" "$(for m in templates/machines/*.yaml; do basename "$m" .yaml; done)"
run "$plan" --list models
is "each model, too" "$(printf '%s\n' "$out" | sed 's/ .*//' | LC_ALL=C sort)" "$(for m in templates/models/*.yaml; do basename "$m" .yaml; done | LC_ALL=C sort)"
like "with its size" "$out" '^qwen3-8b +8190735360 parameters$'
run "$plan" --list planets
is "what does not is refused: exit 2" "$rc" 2
like "with what there is" "$err" "--list: there are no 'planets'; want models, machines, "
sed 's/dgx-a100-80/dgx-a100-81/' "$tmp/tokens.yaml" >"$tmp/misspelt.yaml"
run "$plan" "$tmp/misspelt.yaml"
like "a machine that does not ship is named with its place" "$err" "misspelt.yaml:4:19: machine.preset: no preset 'dgx-a100-81'; did you mean"

# --- options that do not go together ---------------------------------------------------------------
file 'micro_batch: 2'
refuses() { # sentence pattern arguments...
    what=$1 pattern=$2
    shift 2
    run "$plan" "$@"
    is "$what: exit 2, nothing printed" "$rc$out" 2
    like "and a sentence" "$err" "$pattern"
}
refuses "a program that nobody prints" '--program says which .*; want --explain RANK or --operations' "$tmp/run.yaml" --program evaluate
refuses "two programs" '--explain and --operations both print' "$tmp/run.yaml" --explain 0 --operations
refuses "a program and what is kept" '--explain prints a program and --activations' "$tmp/run.yaml" --explain 0 --activations
refuses "a program as an object" '--explain prints text and --json an object' "$tmp/run.yaml" --explain 0 --json
refuses "operations as an object" '--operations prints text and --json an object' "$tmp/run.yaml" --operations --json
refuses "a program and a verdict" '--verify is of the plan, --explain prints something else' "$tmp/run.yaml" --explain 0 --verify
refuses "what is kept and a verdict" '--verify is of the plan, --activations prints' "$tmp/run.yaml" --activations --verify
for option in '--svg none.svg' '--trace none.json' --timeline '--mtbf-hours 3' '--storage 1GB'; do
    # shellcheck disable=SC2086 # words
    refuses "a program and $option" "${option%% *} is of the plan, --explain" "$tmp/run.yaml" --explain 0 $option
done
refuses "a list and a run file" '--list stands alone on its line; leave the other words out' --list models "$tmp/run.yaml"
refuses "a list as an object" '--list stands alone' --list=models --json
refuses "an object first" '--list stands alone' --json --list=models
refuses "keys and a run file" '--help-keys stands alone' "$tmp/run.yaml" --help-keys
run "$plan" "$tmp/run.yaml" --mtbf-hours 2.5 --json
is "hours between failures need not be whole" "$rc $(printf '%s' "$out" | grep -o '"mtbf_s": [0-9]*')" '0 "mtbf_s": 9000'

# --- a machine that does not do: the run file is named, whatever is priced first ------------------------
small() { # model layout
    printf 'run: {name: small}\nmodel: {preset: %s}\ntrain: {steps: 1, global_batch: 16, precision: bf16}\nmachine: {preset: dgx-h100, nodes: 1}\nlayout: {data: 16, %s}\n' "$1" "$2" >"$tmp/small.yaml"
    refuses "too few nodes, $2" "^$tmp/small.yaml: machine.nodes: 1 nodes of dgx-h100 have 8 devices, but the layout has 16 ranks" "$tmp/small.yaml"
}
small llama3.2-1b 'overlap: auto'
small llama3.2-1b 'zero: 3, zero_cache: auto'
small llama3.2-1b 'zero: 1, compress: {data: int8/int4}'
small llama3.2-1b 'compress: {scheme: auto, budget: 0.01}'
small mixtral-8x7b 'expert: 4'
small mixtral-8x7b 'expert: 4, expert_node: 1'

# --- the layout of --json is one of a run file --------------------------------------------------------
planned() { # model layout ranks file
    printf 'run: {name: again}\nmodel: {preset: %s}\ntrain: {steps: 1, global_batch: 64, precision: bf16}\nmachine: {preset: dgx-h100}\nlayout: %s\n' "$1" "$2" >"$tmp/again.yaml"
    "$plan" "$tmp/again.yaml" --ranks "$3" --json >"$4" 2>&1
}
again() { # model layout ranks: the same plan of the layout that --json prints?
    planned "$1" "$2" "$3" "$tmp/1.json"
    planned "$1" "$(sed 's/.*"layout": \({.*}\), "parameters".*/\1/' "$tmp/1.json")" "$3" "$tmp/2.json"
    ok "the layout of --json gives the same plan: $2" cmp "$tmp/1.json" "$tmp/2.json"
    run "$BUILD/tests/cli/plan_json" schema docs/plan.schema.json "$tmp/1.json"
    is "in the form of the schema" "$rc$err" 0
}
again llama3.2-1b '{data: 16, zero: 3, zero_node: 8, zero_cache: 4}' 16
again llama3.2-1b '{data: 8, tensor: 2, zero: 2, overlap: auto, tensor_pieces: 2}' 16
again llama3.2-1b '{data: 8, tensor: 2, sequence_parallel: true, recompute: full, comm_aware_recompute: true, optimizer_tile: 65536}' 16
again llama3.2-1b '{data: 16, zero: 1, compress: {data: int8/int4-hadamard, zero: int8, node: 4}}' 16
again mixtral-8x7b '{data: 8, expert: 4, expert_buffer: 3}' 8
again mixtral-8x7b '{data: 8, tensor: 2, pipeline: 2, expert: 4, zero: 1, zero_node: 4, recompute: full}' 32

# --- SN_ISA ---------------------------------------------------------------------------------------
file 'micro_batch: 2'
for what in "$plan" "$plan search" "$plan calibrate" "$BUILD/bin/sennit-train" "$BUILD/bin/sennit-run exec"; do
    # shellcheck disable=SC2086 # words
    SN_ISA=foo run $what "$tmp/run.yaml"
    is "$(basename "${what%% *}")${what#"${what%% *}"} refuses a set that no processor has: exit 2" "$rc" 2
    like "with those of this one" "$err" "SN_ISA: 'foo' is no instruction set of this processor; it has generic"
done
SN_ISA=generic run "$plan" "$tmp/run.yaml"
is "one that it has is taken" "$rc" 0
tap_done
