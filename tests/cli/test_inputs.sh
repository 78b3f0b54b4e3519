#!/bin/sh
# test_inputs.sh - the files that a run reads are looked at before anybody waits for nodes: by sennit-plan
# and by sennit-run submit.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
. tests/lib/train.sh
plan=$BUILD/bin/sennit-plan train=$BUILD/bin/sennit-train
make_tokens "$tmp/tok"
steps=5 every=5 hidden=32 ffn=48 seq=16 eval_every=5
run_file "$tmp/run.yaml" "$tmp/run"

changed() { # name sed-script: another run file
    sed "$2" "$tmp/run.yaml" >"$tmp/$1.yaml"
}
planned() { # code sentence pattern: of what is printed, and said
    run "$plan" "$tmp/$name.yaml"
    is "$2: exit $1" "$rc" "$1"
    like "and is said" "$out
$err" "$3"
}

# --- token files ----------------------------------------------------------------------------------
name=run
planned 0 "data that goes with the run" "^data: $tmp/tok has [0-9]+ tokens, [0-9]+ sequences of 16; 5 steps of 12 read it 0\.[0-9]+ times"
like "validation too" "$out" "^validation: $tmp/tok-valid has [0-9]+ sequences, an evaluation takes 12"
is "nothing is wrong" "$err" ''
changed valid 's/eval_sequences: 12/eval_sequences: 99999/'
name=valid
planned 0 "fewer validation sequences than asked for" 'train.eval_sequences: .*tok-valid has [0-9]+ sequences, not 99999: each evaluation takes all of them'
changed batch 's/global_batch: 12/global_batch: 99999/'
name=batch
planned 0 "fewer sequences than a batch" 'data.train: .*tok has [0-9]+ sequences, fewer than train.global_batch \(99999\)'
changed gone "s|train: $tmp/tok,|train: $tmp/gone,|"
name=gone
planned 0 "data that is not here" "data.train: neither $tmp/gone.idx nor $tmp/gone.bin is on this host, so the data was not looked at"
like "is planned without" "$out" '^step: '
changed words 's/vocab: 256/vocab: 100/'
name=words
planned 2 "tokens that the model does not know" 'tok.bin: byte [0-9]+: token [0-9]+ is 1[0-9][0-9], outside the vocabulary 0 .. 99; raise model.vocab'
like "the plan is printed all the same" "$out" '^fits: '
run "$plan" "$tmp/words.yaml" --json
like "and whole in JSON" "$out" '"step_time_s": .*}$'
run "$plan" "$tmp/words.yaml" --explain 0
is "a program is printed without data" "$rc" 0
printf x >"$tmp/bad.bin"
printf x >"$tmp/bad.idx"
changed bad "s|train: $tmp/tok,|train: $tmp/bad,|"
name=bad
planned 2 "files that are no token files" 'bad.idx: byte 0: this is no index'

# --- checkpoints and weights ----------------------------------------------------------------------
run "$train" "$tmp/run.yaml"
is "a run" "$rc" 0
name=run
planned 0 "a run that has saved" '^start: goes on from the checkpoint of step 5'
changed heads 's/heads: 4/heads: 2/'
name=heads
planned 2 "another model than the checkpoint's" "step-00000005: holds another model: it has 'heads: 4' where the run file has 'heads: 2'; use another"
saved=$tmp/run/ckpt
from() { # name source [sed-script]: begins with the weights of a source
    changed "$1" "s|output: $tmp/run|output: $tmp/other|; s|eval_every:|init_from: $2\n  eval_every:|; ${3-}"
    name=$1
}
from weights "$saved"
planned 0 "weights of a run" "^start: weights come from $saved"
from one "$saved/step-00000005"
planned 0 "of one checkpoint" "^start: weights come from .*step-00000005"
from wider "$saved" 's/hidden: 32/hidden: 64/'
planned 2 "weights of another shape" "these weights come with 'hidden: 32', but the run file has 'hidden: 64'"
from fewer "$saved" 's/layers: 2/layers: 1/'
planned 2 "weights that have no place" "these weights come with 'layers: 2', but the run file has 'layers: 1'"
from more "$saved" 's/layers: 2/layers: 3/'
planned 2 "weights that lack some" "these weights come with 'layers: 2', but the run file has 'layers: 3'"
from bases "$saved" 's/^model:/&\n  rope_theta: 500.0/'
planned 2 "weights of another function" "these weights come with 'rope_theta: 10000', but the run file has 'rope_theta: 500'"
from nowhere "$tmp/nowhere"
planned 0 "weights that are not here" 'train.init_from: .*/nowhere is not on this host, so the weights were not looked at'
from nothing "$tmp"
planned 2 "a directory without weights" 'model.safetensors'
run "$BUILD/bin/sennit-convert" "$saved" "$tmp/hf" --to safetensors
is "weights in the field's files" "$rc" 0
from theirs "$tmp/hf"
planned 0 "are looked at too" "^start: weights come from $tmp/hf"
from theirs-wider "$tmp/hf" 's/ffn: 48/ffn: 64/'
planned 2 "of another shape" "these weights come with 'ffn: 48', but the run file has 'ffn: 64'"
rm "$tmp/hf/config.json"
planned 2 "or shapes alone, where nothing says what they are of" "has shape \[.*48.*\]; the model's layers.0.ffn.* needs \[.*64.*\]"

# --- what is not as it was is named, once ------------------------------------------------------------
run mpi 2 "$train" "$tmp/run.yaml"
is "another number of ranks" "$rc" 0
is "is named with both, by one rank" "$(printf '%s\n' "$err" | grep -c 'step-00000005: was saved in another layout: data: 1 (now 2)$')" 1
changed rate 's/lr: 3.0e-4/lr: 2.0e-4/'
run "$train" "$tmp/rate.yaml"
like "other settings are told apart" "$err" 'step-00000005: was saved under other settings of run, data or train; going on under the new ones$'
run "$train" "$tmp/run.yaml"
is "and the same ones are none" "$(printf '%s\n' "$err" | grep -c 'was saved')" 0
like "the first line says where it runs, and nothing that does not matter" "$err" '^test: 1 rank x 1 thread, cpu/[a-z0-9]+, own GEMM$'
changed half 's/precision: fp32/precision: bf16/; s|output: .*/run,|output: '"$tmp"'/half,|'
run "$train" "$tmp/half.yaml"
like "bf16 on a processor is said where it is asked for" "$err" '^test: 1 rank x 1 thread, cpu/.*, (computes in fp32 and keeps bf16|multiplies bf16 and sums in fp32)$'
tap_done
