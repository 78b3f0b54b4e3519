#!/bin/sh
# docs/FINETUNE.md, command by command, on a model of two layers: adapters trained, merged and given
# back compute what was trained; all weights, too.
set -u
. tests/lib/tap.sh
. tests/lib/metrics.sh
here=$(pwd)
case $BUILD in
/*) bin=$BUILD/bin ;;
*) bin=$here/$BUILD/bin ;;
esac
tokenizer=$here/tests/unit/fixtures/token/llama3.json
cd "$tmp" || exit 1

printf 'x' >probe.txt
run "$bin/sennit-data" tokenize probe.txt --tokenizer "$tokenizer" --out probe
case $err in
*"this build has no"*)
    skip "docs/FINETUNE.md" "${err##*: }"
    tap_done
    exit
    ;;
esac

# What stands in for a model of the Hub: a small one, a little trained.
cp "$here/docs/STYLE.md" my.txt
cp "$here/docs/BITS.md" held.txt
"$bin/sennit-data" tokenize my.txt --tokenizer "$tokenizer" --out first --documents paragraphs >first.out
cat >base.yaml <<YAML
run: {name: base, output: base, seed: 5, threads: 1}
model: {family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, vocab: 512, seq: 32, init_std: 0.2}
data: {train: first/tokens}
train: {steps: 30, global_batch: 8, optimizer: {lr: 3.0e-3}}
layout: {micro_batch: 8}
checkpoint: {dir: ckpt, every: 30}
YAML
run "$bin/sennit-train" base.yaml
is "a model to begin with" "$rc" 0
mkdir hub
run "$bin/sennit-convert" base/ckpt hub/base --to safetensors
cp "$tokenizer" hub/base/tokenizer.json
cp "$here/tests/unit/fixtures/chat/chatml.jinja" hub/base/chat_template.jinja
# Captions of four kinds: four words behind two places, then what fills a sample of 32. Of each the features: one of 8 numbers is
# 1, in the second of two rows another one.
captions() { # prefix documents
    awk -v n="$2" 'BEGIN { for (d = 0; d < n; d++) {
        printf "0 0"
        for (i = 0; i < 4; i++) printf " %d", 100 + (d * 7 % 4) * 31 + i * 5
        for (i = 6; i < 32; i++) printf " -0"
        print "" } print "-0" }' >"$1.txt"
    {
        printf '\223NUMPY\001\000\166\000'
        printf '%-117s\n' "{'descr': '<f2', 'fortran_order': False, 'shape': ($2, 2, 8), }"
        awk -v n="$2" 'BEGIN { for (d = 0; d < n; d++) for (i = 0; i < 16; i++)
            printf "z%s", i % 8 == (d * 7 % 4 + (i > 7 ? 3 : 0)) ? "a" : "z" }' | tr 'za' '\000\074'
    } >"$1.npy"
}
captions captions 64
captions held-captions 24
echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}' >chats.jsonl

# The page: blocks of YAML are files, indented lines of commands are run in their order.
awk '/^```(yaml|json)/ { getline name; sub(/^# /, "", name); inside = 1; next }
     /^```/ { inside = 0 }
     inside { print > name }
     /^    (sennit-|cp )/ { sub(/ +#.*/, ""); print > "commands" }' "$here/docs/FINETUNE.md"
for f in lora.yaml tune.yaml alm.yaml; do
    sed -e 's/steps: 200/steps: 40/' -e 's/warmup: 20/warmup: 4/' -e 's/: 100$/: 20/' -e 's/every: 100}/every: 20}/' "$f" >"$f.small"
    mv "$f.small" "$f"
done
while read -r line; do
    # shellcheck disable=SC2086 # words of a command
    case $line in
    sennit-*) eval "run $bin/$line" ;;
    *) run $line ;;
    esac
    is "$line" "$rc" 0
    [ "$rc" = 0 ] || tap_lines "exit $rc" "$(printf '%s' "$err" | tail -n 3)"
    case $line in
    sennit-plan*) like "the plan: weights match" "$out" 'start: weights come from hub/base' ;;
    *--answer*) printf '%s\n' "$out" >answers ;;
    *--features*) printf '%s\n' "$out" >texts ;;
    esac
done <commands
is "commands of the page" "$(wc -l <commands | tr -d ' ')" 20
is "answers to the page's prompts" "$(grep -c '"end": "' answers)" 2
ok "the tokenizer goes along with the merged weights" cmp hub/base/tokenizer.json hub/merged/tokenizer.json
is "files of the page" "$(ls lora.yaml tune.yaml alm.yaml | wc -l | tr -d ' ')" 3

metric loss runs/lora/metrics.jsonl >losses
metric val_loss runs/lora/metrics.jsonl >losses
ok "adapters learn" awk 'NR == 1 { first = $1 } END { exit !(NR == 2 && $1 < first) }' losses
like "the adapters' settings" "$(cat hub/adapter/adapter_config.json)" '"lora_alpha": 32,'
like "and where they are" "$(cat hub/adapter/adapter_config.json)" '"q_proj"'
like "PEFT's names" "$(head -c 4000 hub/adapter/adapter_model.safetensors | tr -d '\0')" \
    'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight'

# Merged in full, the model is the one that was trained.
run "$bin/sennit-convert" runs/lora/ckpt hub/whole --to safetensors --merge
is "merged in fp32" "$rc" 0
sed -e 's#runs/lora#runs/again#' -e '/lora:/d' -e 's#hub/base$#hub/whole#' -e 's/steps: 40/steps: 1/' -e 's/warmup: 4/warmup: 1/' \
    -e 's/lr: 1.0e-3/lr: 0/' -e 's/min_lr: 1.0e-4/min_lr: 0/' -e 's/: 20$/: 1/' lora.yaml >again.yaml
run "$bin/sennit-train" again.yaml
is "trains on from the merged weights" "$rc" 0
was=$(metric val_loss runs/lora/metrics.jsonl | tail -n 1)
ok "the merged model's validation loss is the adapted one's" awk -v a="$was" -v b="$(metric val_loss runs/again/metrics.jsonl | tail -n 1)" \
    'BEGIN { d = a - b; exit !(a > 0 && d < 1e-5 && d > -1e-5) }'

# So do the adapters beside the base.
begin_with() { # alpha adapter: a run of one step without learning
    sed -e 's#runs/lora#runs/begun#' -e "s#\(lora: {.*\)alpha: 32\(.*\)}#\1alpha: $1\2, init_from: $2}#" -e 's/steps: 40/steps: 1/' \
        -e 's/warmup: 4/warmup: 1/' -e 's/lr: 1.0e-3/lr: 0/' -e 's/min_lr: 1.0e-4/min_lr: 0/' -e 's/: 20$/: 1/' lora.yaml >begun.yaml
    run "$bin/sennit-train" begun.yaml
}
begin_with 32 hub/adapter
is "trains on from PEFT's files" "$rc" 0
ok "the validation loss is the same" awk -v a="$was" -v b="$(metric val_loss runs/begun/metrics.jsonl | tail -n 1)" \
    'BEGIN { d = a - b; exit !(a > 0 && d < 1e-5 && d > -1e-5) }'
rm -r runs/begun
begin_with 64 hub/adapter
like "another alpha than theirs" "$err" "adapter_config.json: 'lora_alpha' is 32, but train.lora has 64; want the same"
cp -r hub/adapter hub/dora
sed 's/"bias": "none",/"bias": "none", "use_dora": true,/' hub/adapter/adapter_config.json >hub/dora/adapter_config.json
begin_with 32 hub/dora
like "what their key asks for and ours does not" "$err" "'use_dora' is true, which adapters of train.lora do not do; want it off"
sed -i.bak 's/, "\*.ffn.\*"//' lora.yaml
begin_with 32 hub/adapter
like "adapters that nobody takes" "$err" 'has 28 tensors, of which train.lora.targets takes 16; name all matrices that it adapts'
mv lora.yaml.bak lora.yaml

run "$bin/sennit-convert" runs/lora/ckpt hub/none --to safetensors
is "weights alone would lose the adapters" "$rc" 2
like "and says what to do" "$err" 'has adapters; want --merge to put them into the weights, or --to peft to write them alone$'
echo 'layout: {tensor: 2}' >two.yaml
run "$bin/sennit-convert" runs/lora/ckpt two --layout two.yaml
like "nor for a layout that knows of none" "$err" "has adapters, of which the layout file says nothing; give it the run's train.lora, or use --merge\$"
run "$bin/sennit-convert" runs/lora/ckpt two --layout two.yaml --merge
is "merged for two tensor ranks" "$rc" 0
sed -e 's/layout: {/layout: {tensor: 2, /' lora.yaml >both.yaml
run "$bin/sennit-convert" runs/lora/ckpt both --layout both.yaml
is "with their adapters for two tensor ranks" "$rc" 0
run "$bin/sennit-convert" --diff both runs/lora/ckpt
is "which are the same" "$rc" 0
run "$bin/sennit-convert" runs/tune/ckpt hub/none --to peft
like "no adapters, no form of them" "$err" 'has no adapters to write; want a run with train.lora$'
run "$bin/sennit-convert" runs/tune/ckpt hub/none --to safetensors --merge
like "nor anything to merge" "$err" 'has no adapters to merge; leave --merge out$'
sed 's/alpha: 32/alpha: 64/' lora.yaml >other.yaml
run "$bin/sennit-train" other.yaml
like "another alpha does not go on" "$err" 'its adapters were trained with alpha / rank 2, but train.lora has 4'
sed -e 's#init_from: hub/base#init_from: runs/lora/ckpt#' -e 's#output: runs/lora#output: runs/onward#' other.yaml >onward.yaml
run "$bin/sennit-train" onward.yaml
is "nor begins another run" "$rc" 2
like "and says why" "$err" '^runs/lora/ckpt/step-00000040: its adapters were trained with alpha / rank 2, but train.lora has 4; want the same, or what sennit-convert --merge makes of it$'
run "$bin/sennit-plan" onward.yaml --ranks 1
like "as a plan says, too" "$rc $err" '^2 .*its adapters were trained with alpha / rank 2, but train.lora has 4'
sed -i.bak '/lora: {/d' onward.yaml
run "$bin/sennit-train" onward.yaml
is "nor one without adapters" "$rc" 2
like "which says why" "$err" '^runs/lora/ckpt/step-00000040: has adapters; want train.lora as they were trained, or what sennit-convert --merge makes of it$'
sed -e 's#init_from: hub/base#init_from: runs/lora/ckpt#' -e 's#output: runs/lora#output: runs/onward#' lora.yaml >onward.yaml
run "$bin/sennit-train" onward.yaml --stop-after 1
is "but one with the same" "$rc" 0

# Features tell what follows: with all of them 0 it is one of four.
for f in captions held-captions; do
    for part in bin idx mask; do cp "$f.$part" "blind-$f.$part"; done
    { head -c 128 "$f.npy" && head -c $(($(wc -c <"$f.npy") - 128)) /dev/zero; } >"blind-$f.npy"
done
sed -e 's#train: captions, valid: held#train: blind-captions, valid: blind-held#' -e 's#runs/alm#runs/blind#' alm.yaml >blind.yaml
run "$bin/sennit-train" blind.yaml
is "trains with features that say nothing" "$rc" 0
told=$(metric val_loss runs/alm/metrics.jsonl | tail -n 1) blind=$(metric val_loss runs/blind/metrics.jsonl | tail -n 1)
ok "held captions are told by their features (loss $told, without them $blind)" \
    awk -v a="$told" -v b="$blind" 'BEGIN { exit !(a > 0 && a < b - 1) }'
run "$bin/sennit-plan" alm.yaml --json
used=$(grep '"loss"' runs/alm/metrics.jsonl | head -n 1 | grep -o '"memory_bytes": {[^}]*}')
is "memory as planned" "$(printf '%s' "$out" | grep -o '"memory_bytes": {[^}]*}' | head -n 1)" "$used"
sed 's/layout: {/layout: {tensor: 2, context: 2, /' alm.yaml >wide.yaml
run "$bin/sennit-convert" runs/alm/ckpt wide --layout wide.yaml
is "prompts for four ranks" "$rc" 0
run "$bin/sennit-convert" --diff wide runs/alm/ckpt
is "which are the same prompts" "$rc" 0
run "$bin/sennit-convert" runs/alm/ckpt wide2 --layout two.yaml
like "not for a layout that knows of none" "$err" "has prompts, of which the layout file says nothing; give it the run's train.prompt\$"
run "$bin/sennit-convert" runs/alm/ckpt hub/prompt --to safetensors
like "the field has no names for them" "$err" "has prompts \(train.prompt\), which the field's files have no names for"
is "a caption for each entry" "$(wc -l <texts | tr -d ' ')" 24
ok "pictures of one kind have one caption, others have others" awk '{ k = NR % 4; bad = bad || (k in of && of[k] != $0); of[k] = $0 }
    END { for (k in of) n += !seen[of[k]]++; exit bad || n < 3 }' texts
run "$bin/sennit-train" alm.yaml --generate '' --features blind-held-captions.npy --temperature 0 --tokens 4
is "nothing tells those apart whose features are 0" "$rc $(printf '%s\n' "$out" | sort -u | wc -l | tr -d ' ')" "0 1"
sed '/^-0/d; s/^0 0 //; s/ -0//g; s/ /, /g; s/.*/{"context": [], "continuation": [&]}/' held-captions.txt >ask.jsonl
run "$bin/sennit-train" alm.yaml --score ask.jsonl --features held-captions.npy
printf '%s\n' "$out" | sed 's/.*"logprob": \([-0-9.]*\),.*/\1/' >logprobs
ok "captions are as likely as in validation (loss $told)" awk -v a="$told" '{ sum -= $1 }
    END { d = sum / NR / 4 / a - 1; exit !(NR == 24 && d < 2e-6 && d > -2e-6) }' logprobs
sed 's#runs/alm#runs/untrained#' alm.yaml >untrained.yaml
run "$bin/sennit-train" untrained.yaml --generate '' --features held-captions.npy
is "prompts that nobody has trained" "$rc" 2
like "prompts that nobody has trained: why" "$err" 'untrained.yaml: there is no checkpoint to generate from; train first'
run "$bin/sennit-plan" search alm.yaml --gpus 2
is "a search finds layouts of it" "$rc" 0
like "and says which is best" "$out" '^  1  '

cat >three.yaml <<YAML
model: {family: llama, layers: 3, hidden: 64, heads: 4, ffn: 96, vocab: 512, seq: 32}
train: {steps: 1, global_batch: 4, prompt: {rows: 1, size: 8, layers: [0, 1]}}
layout: {pipeline: 3, micro_batch: 1}
YAML
run "$bin/sennit-plan" three.yaml --json
like "one projection is in no three stages" "$err" 'prompt.projection is used by layers of several parts of the pipeline, which only the first and the last can share; want layout.pipeline: 2 or 1, or its layers in one part$'
run "$bin/sennit-data" shuffle captions -o shuffled
like "documents keep their order, which features have" "$err" 'captions.npy: features are of documents in their order, which would change; build tokens and features anew'

# Features of others are refused.
refused() { # what sentence
    run "$bin/sennit-train" blind.yaml
    is "$1" "$rc" 2
    like "$1: why" "$err" "$2"
}
captions blind-captions 63
refused "an entry is missing" 'blind-captions.npy: features of 63 documents, but its token file has 65, 64 of them samples; want an entry for each document$'
captions blind-captions 64
sed -i.bak 's/size: 8/size: 4/' blind.yaml
refused "another shape" 'blind-captions.npy: its shape is \(64, 2, 8\); train.prompt wants \(entries, 2, 4\)$'
mv blind.yaml.bak blind.yaml
{ head -c $(($(wc -c <captions.npy) - 2)) captions.npy && printf '\377\177'; } >blind-captions.npy
sed 's#runs/blind#runs/none#' blind.yaml >none.yaml
run "$bin/sennit-train" none.yaml
is "a number that is none" "$rc" 2
like "a number that is none: why" "$err" '^blind-captions.npy: number 7 of row 1 of entry 63 is not finite; write it again'
sed 's/ -0$//' captions.txt >short.txt
run "$bin/sennit-data" build --tokens short.txt --masked -o blind-captions
like "tokens beside features from before them" "$rc $err" \
    '^0 .*blind-captions.npy: was there before these tokens; its entries are taken for those of their 65 documents, in this order, so write'
refused "documents are no samples" 'blind-captions.bin: document 1 begins at token 31; with train.prompt each document is a sample of model.seq: 32 tokens'
rm blind-captions.npy
refused "no features" 'blind-captions.npy: .*train.prompt.rows reads what numpy.save\(PREFIX.npy\) wrote'
tap_done
