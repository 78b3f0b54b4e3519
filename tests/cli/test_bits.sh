#!/bin/sh
# test_bits.sh - run.bits: all: the sha256 of the weights is one for every layout, shrink and regrow
# included; what it does not go with is refused by name. tests/equiv/bits.sh has all layouts, and 100 steps.
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/lib/bits.sh
make_tokens "$tmp/tok"
steps=6 # the rate rises in the first 4

equal() { # name ranks layout
    bits_run "$@"
    is "the bits of one rank: $1" "$hash" "$one"
}

equal_deeper() { # of model.mtp: name ranks layout
    equal "$@"
    bits_diff one "$1"
    is "and of blocks of model.mtp: $1" "$rc" 0
}

for family in llama gpt2; do
    bits_run "$family" 1 ''
    one=$hash
    ok "$family has weights" test "$one" != failed
    equal "$family-micro-batch-3" 1 'micro_batch: 3'
    equal "$family-data-3" 3 'data: 3, micro_batch: 2, zero: 1'
    equal "$family-pipeline-2-data-2" 4 'pipeline: 2, data: 2, zero: 2'
    equal "$family-tensor-2-data-2" 4 'tensor: 2, data: 2, micro_batch: 3, zero: 1'
done
family=mixtral model='experts: {count: 4, top_k: 2, aux_loss: 0.1, balance: sequence}'
bits_run mixtral 1 ''
one=$hash
ok "mixtral has weights" test "$one" != failed
equal mixtral-data-3 3 'data: 3, zero: 2'
equal mixtral-expert-4 4 'data: 4, expert: 4, expert_chunks: 1, expert_buffer: 4, zero: 1'
family=llama model='mtp: 1'
equal_at_first=$one
bits_run one 1 ''
one=$hash
ok "families differ" test "$one" != "$equal_at_first"
equal_deeper tensor-4 4 'tensor: 4, sequence_parallel: false, recompute: selective'
equal_deeper context-2 4 'context: 2, context_kind: all-to-all, tensor: 2, micro_batch: 2'
equal_deeper zero-3 2 'data: 2, zero: 3, recompute: full'

# Shrink and regrow: steps 1 and 2 on 4 ranks, 3 and 4 on 3, the rest on 2.
part() { # ranks layout stop
    bits_file "$tmp/elastic.yaml" "$tmp/elastic" "$2"
    run mpi "$1" "$BUILD/bin/sennit-train" "$tmp/elastic.yaml" ${3:+--stop-after "$3"}
}
part 4 'data: 2, tensor: 2, zero: 1' 2
part 3 'data: 3, zero: 2, micro_batch: 2' 2
part 2 'pipeline: 2, micro_batch: 3'
is "the last part ends" "$rc" 0
bits_hash "$tmp/elastic"
is "the bits of one rank: shrunk and grown" "$hash" "$one"
bits_diff one elastic
is "and of blocks of model.mtp: shrunk and grown" "$rc" 0

# The default is as ever: layouts differ, and the option is what makes them equal.
bits=layout model=''
bits_run default 1 ''
one=$hash
bits_run default-data-3 3 'data: 3'
ok "bits: layout has others in another layout" test "$hash" != "$one"
bits=all model='mtp: 1'

# And the proof of what ranks compute knows the parts.
for layout in 'tensor: 2, data: 2' 'context: 2, context_kind: all-to-all, tensor: 2'; do
    bits_file "$tmp/proof.yaml" "$tmp/proof" "$layout"
    run "$BUILD/bin/sennit-plan" --verify "$tmp/proof.yaml"
    like "proven: $layout" "$out" 'every rank ends a step with the weights of one'
done

refused() { # sentence-part layout
    bits_file "$tmp/bad.yaml" "$tmp/bad" "$2"
    run "$BUILD/bin/sennit-plan" "$tmp/bad.yaml"
    is "exit code" "$rc" 2
    like "refused by name: $1" "$err" "$1"
}
model=''
refused 'run.bits: all: layout.context_kind ring adds up' 'context: 2'
kv_heads=2
refused 'layout.tensor: 4 ranks cannot share model.kv_heads .2. out in whole terms' 'tensor: 4'
kv_heads=4
refused 'run.bits: all: layout.compress rounds' 'data: 2, compress: {data: int8}'
model='experts: {count: 4, top_k: 2, aux_loss: 0.0}' family=mixtral
refused 'run.bits: all: layout.tensor with experts' 'tensor: 2'
refused 'run.bits: all: layout.micro_batch of more than 1 joins' 'micro_batch: 2'
refused 'run.bits: all: layout.expert_chunks other than 1' 'data: 2, expert: 2'
model='experts: {count: 4, top_k: 2, aux_loss: 0.1}'
refused 'run.bits: all: model.experts.aux_loss balances' ''
model='' family=llama precision=fp16
refused 'run.bits: all: train.precision fp16' ''
tap_done
