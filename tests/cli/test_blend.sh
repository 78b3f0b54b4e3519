#!/bin/sh
# test_blend.sh - runs on blends of data sets: planned, trained on any number of ranks and over a change of
# weights and of length (data.curriculum), resumed in another layout, and refused where the blend is not the one that the run has read.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train plan=$BUILD/bin/sennit-plan
part() { # name file
    "$BUILD/bin/sennit-data" build --text "$2" -o "$tmp/$1" --valid 0.2 >/dev/null
}
part style docs/STYLE.md
part license LICENSE
part bits docs/BITS.md

sets="{path: $tmp/style, weight: 0.55, valid: $tmp/style-valid}, {path: $tmp/license, weight: 0.3, name: law}, {path: $tmp/bits, epochs: 2}"
phases="[{from_step: 5, weights: {style: 1, bits: 2.5}}]"
given() { # name layout [sets [phases]]: a run file of 8 steps
    steps=8 eval_every=4 layers=2 hidden=32 ffn=48 seq=16 run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s|^data: .*|data: {train: [${3-$sets}], valid: [{path: $tmp/license-valid, name: law}], phases: ${4-$phases}, curriculum: {lengths: [6], until: [5]}}|
        s/^layout: {micro_batch: 1, /layout: {$2, /" "$tmp/$1.yaml"
}
numbers() { # name
    for key in loss val_loss; do metric $key "$tmp/$1/metrics.jsonl"; done >"$tmp/$1.numbers"
}
same() { # what name reference
    numbers "$2"
    within "$1: losses are those of one rank in one go" "$(worst "$tmp/$2.numbers" "$tmp/$3.numbers")" 1e-5
}

# --- one rank -------------------------------------------------------------------------------------
given one "micro_batch: 1"
run "$plan" "$tmp/one.yaml"
is "a blend is planned" "$rc" 0
like "with shares" "$out" "^  style: 64.71 %, 28.57 % from step 5 of $tmp/style, [0-9]+ tokens, [0-9]+ sequences of 16, 0.[0-9]+ times$"
like "of a set that comes later, too" "$out" "^  bits: 0 %, 71.43 % from step 5 of $tmp/bits, "
like "and validation by name" "$out" "^validation: law: $tmp/license-valid has [0-9]+ sequences, an evaluation takes 12"
like "and pieces of samples" "$out" '^steps 1..5: samples in pieces of 6 tokens, [0-9.e+]+ FLOPs per token$'
run "$plan" "$tmp/one.yaml" --json
like "in JSON, too" "$out" '"curriculum": \[{"length": 6, "first_step": 1, "last_step": 5, "flops_per_token": [0-9]+}, {"length": 16, "first_step": 6, "last_step": 8, '
run "$train" "$tmp/one.yaml"
is "one rank trains" "$rc" 0
is "of lengths that the steps tell" "$(metric length "$tmp/one/metrics.jsonl" | tr '\n' ' ')" '6 6 6 6 6 16 16 16 '
like "losses are told by set" "$err" 'step 8  validation loss [0-9.]+ \(law [0-9.]+, style [0-9.]+\)$'
like "in the metrics, too" "$(grep '"step": 8, "val' "$tmp/one/metrics.jsonl")" '^{"step": 8, "val_loss": [0-9.]+, "val_losses": {"law": [0-9.]+, "style": [0-9.]+}}$'
is "the loss of all is their mean" "$(awk -F'[:,} ]+' '/val_losses/ { printf "%.5f ", $5 - ($8 + $10) / 2 }' "$tmp/one/metrics.jsonl" | tr -d '-')" '0.00000 0.00000 '
numbers one
like "each step tells the loss of each set" "$(grep '"step": 5, "loss"' "$tmp/one/metrics.jsonl")" '"set_losses": {"style": [0-9.]+, "bits": [0-9.]+}, '
is "whose mean, by what they gave, is the loss" "$(sed -n 's/.*"step": 3, "loss": \([0-9.]*\), "set_losses": {"style": \([0-9.]*\), "law": \([0-9.]*\)}.*/\1 \2 \3/p' "$tmp/one/metrics.jsonl" |
    awk '{ for (n = 1; n < 12; n++) if (($2 * n + $3 * (12 - n)) / 12 - $1 < 1e-6 && $1 - ($2 * n + $3 * (12 - n)) / 12 < 1e-6) print (n >= 6 && n <= 10) }')" 1
sets_of() { # name step
    grep "\"step\": $2, \"sets\"" "$tmp/$1/metrics.jsonl"
}
like "what sets gave is told" "$(sets_of one 8)" '"sets": {"style": {"sequences": [0-9]+, "tokens": [0-9]+, "share": 0.4[0-9]+, "epochs": [0-9.]+}, "law": {.*}, "bits": {.*}}}$'
is "and adds up" "$(sets_of one 8 | grep -o '"sequences": [0-9]*' | awk '{ s += $2 } END { print s }')" 96
run "$BUILD/bin/sennit-run" status "$tmp/one"
like "status tells it" "$out" '^data +style 4[0-9.]+ % \([0-9.]+ epochs\), law [0-9.]+ % \([0-9.]+ epochs\), bits [0-9.]+ % \([0-9.]+ epochs\), up to step 8$'
run "$BUILD/bin/sennit-run" status "$tmp/one" --json
like "in JSON, too" "$out" '"sets": {"style": {"share": 0.4[0-9]*, "epochs": [0-9.]+}, "law"'

# --- ranks, and another layout after a resume -------------------------------------------------------
given four "data: 4, micro_batch: 3"
run mpi 4 "$train" "$tmp/four.yaml" --stop-after 3
is "four ranks train" "$rc" 0
given two "pipeline: 2, micro_batch: 2"
sed -i "s|$tmp/two|$tmp/four|" "$tmp/two.yaml"
run mpi 2 "$train" "$tmp/two.yaml"
is "two stages go on" "$rc" 0
same "four ranks, then two stages" four one
is "and what sets gave" "$(sets_of four 8)" "$(sets_of one 8)"

# --- the blend that was read -----------------------------------------------------------------------
refused() { # what pattern
    run "$train" "$tmp/$name.yaml"
    is "$1: exit 2" "$rc" 2
    like "and why" "$err" "$2"
}
name=other
given other "micro_batch: 1" "$(printf '%s' "$sets" | sed 's/0.55/0.5/')"
sed -i "s|$tmp/other|$tmp/four|; s/steps: 8/steps: 9/" "$tmp/other.yaml"
refused "other weights than those of the steps so far" 'up to step 8 the run has read other sets, or other shares of them, than data.train, data.phases and train.global_batch say now; want them as they were and what is new in data.phases from step 9 on'
run "$plan" "$tmp/other.yaml"
like "the plan says so, too" "$rc:$err" '^2:.*up to step 8 the run has read other sets'
given later "micro_batch: 1" "$sets" "[{from_step: 5, weights: {style: 1, bits: 2.5}}, {from_step: 9, weights: {law: 1}}]"
sed -i "s|$tmp/later|$tmp/four|; s/steps: 8/steps: 9/" "$tmp/later.yaml"
run "$train" "$tmp/later.yaml"
is "a phase that is new goes on" "$rc" 0
given small "micro_batch: 1" "$(printf '%s' "$sets" | sed 's/epochs: 2/epochs: 0.001/')"
name=small
refused "a set that is used up" "data.train: set 'bits' has 0 sequences in 0.001 epochs; they are used up in step 5 of 8, and all steps take [0-9]+; want epochs: 0.[0-9]+, train.steps: 4, or a smaller weight"
run "$plan" "$tmp/small.yaml"
is "the plan says so, too" "$rc" 2

# --- one of a host opens them -----------------------------------------------------------------------
preload='the run is not preloaded: a sanitizer is, or no compiler for a library is here'
if ! nm -D "$train" | grep -q __asan_init && ${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$tmp/opens.so" tests/cli/preload/opens.c 2>/dev/null; then
    preload=
fi
opened() { # name variable...: three ranks train; how often a .bin was opened
    opened_by=$1
    shift
    mkdir "$tmp/opens.$opened_by"
    given "$opened_by" "data: 3, micro_batch: 1"
    run mpi 3 env LD_PRELOAD="$tmp/opens.so" OPENS_OF="$tmp/" OPENS_TO="$tmp/opens.$opened_by" "$@" "$train" "$tmp/$opened_by.yaml" --stop-after 1
    is "$opened_by: three ranks train" "$rc" 0
    times=$(cd "$tmp/opens.$opened_by" && wc -c style.bin style.idx license.bin license.idx bits.bin license-valid.bin | awk '{ printf "%s ", $1 }')
}
if [ -z "$preload" ]; then
    opened together
    is "each file is opened once, by the first rank of the host" "$times" '1 1 1 1 1 1 6 '
    opened apart OPENS_ALONE=1
    is "or by each rank, where they do not reach each other" "$times" '3 3 3 3 3 3 18 '
    like "which is said" "$err" '2 of 2 ranks of this host open the token files themselves: they did not get them from rank 0$'
    is "and changes no loss" "$(metric loss "$tmp/apart/metrics.jsonl")" "$(metric loss "$tmp/together/metrics.jsonl")"
else
    skip "each file is opened once, by the first rank of the host" "$preload"
fi

# --- ranks that see other files, on what might be two hosts ------------------------------------------
mkdir "$tmp/0" "$tmp/1"
for node in 0 1; do
    for suffix in bin idx; do cp "$tmp/$([ $node = 0 ] && echo bits || echo style).$suffix" "$tmp/$node/bits.$suffix"; done
done
given strange "data: 2, micro_batch: 1" "{path: $tmp/style, weight: 1}, {path: bits, weight: 1}" '[]'
if [ -z "$preload" ]; then
    run mpi 2 sh -c "cd $tmp/\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} && exec env OPENS_ALONE=1 LD_PRELOAD=$tmp/opens.so $PWD/$train $tmp/strange.yaml"
    is "ranks that see other files: exit 2" "$rc" 2
    like "and which" "$err" 'rank 1 .*: data.train: this rank finds [0-9]+ tokens in bits where rank 0 finds [0-9]+; check that all nodes see the same files'
else
    skip "ranks that see other files are refused" "$preload"
fi
tap_done
