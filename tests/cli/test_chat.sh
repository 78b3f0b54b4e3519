#!/bin/sh
# sennit-data tokenize --chat: conversations by a chat template or by roles, with a mask of the turns that count, which a run in two
# layouts learns alike; random ones are those of transformers, where a Python has it; what is bad is named.
set -u
. tests/lib/tap.sh
. tests/lib/train.sh
here=$(pwd)
case $BUILD in
/*) bin=$BUILD/bin ;;
*) bin=$here/$BUILD/bin ;;
esac
data=$bin/sennit-data
fixtures=$here/tests/unit/fixtures
python=${TORCH_PYTHON:-python3}
cd "$tmp" || exit 1

# The small tokenizer has two special tokens: they stand for those of the templates.
mkdir model
cp "$fixtures/token/llama3.json" model/tokenizer.json
own() { # template
    sed 's/<|im_start|>/<|pad|>/g; s/<|im_end|>/<|endoftext|>/g' "$fixtures/chat/$1.jinja"
}
own chatml >model/chat_template.jinja
# (transformers writes the number where nobody has said a length.)
echo '{"eos_token": "<|endoftext|>", "model_max_length": 1000000000000000019884624838656}' >model/tokenizer_config.json
cat >chats.jsonl <<'END'
{"messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ab"}, {"role": "user", "content": "x <|pad|>"}, {"role": "assistant", "content": "cd"}]}
{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
END
work() { # out options...
    out_dir=$1
    shift
    run "$data" tokenize chats.jsonl --tokenizer model/tokenizer.json --out "$out_dir" "$@"
}
work one --chat --workers 1
case $err in
*"this build has no"*)
    skip "sennit-data tokenize --chat" "${err##*: }"
    tap_done
    exit
    ;;
esac
is "it ends well" "$rc:$err" "0:"
like "it says how many tokens count" "$out" '^one/tokens: [0-9]* tokens \(u16\), 2 documents, of [0-9]* bytes of text in 1 file; 8 tokens count$'
# What counts, as text: tokens of the mask, decoded.
counted() { # prefix document
    "$data" print "$1" --document "$2" --tokens 1000 | sed -n '$p' | tr ' ' '\n' | grep -v '^-' | tr '\n' ' '
}
whole() {
    "$data" print "$1" --document "$2" --tokens 1000 --text | sed -n '$p'
}
is "the template's text" "$(whole one/tokens 0)" '<|pad|>system\nbe<|endoftext|>\n<|pad|>user\nhi<|endoftext|>\n<|pad|>assistant\nab<|endoftext|>\n<|pad|>user\nx <|pad|><|endoftext|>\n<|pad|>assistant\ncd<|endoftext|>\n'
is "ShareGPT's members" "$(whole one/tokens 1)" '<|pad|>user\na<|endoftext|>\n<|pad|>assistant\nb<|endoftext|>\n'
is "assistants' turns and their ends count" "$(counted one/tokens 0)" '66 67 0 68 69 0 '
like "the record has the end of turns" "$(head -1 one/tokenize.jsonl)" '"end": 0,'
is "the template goes along" "$(cat one/chat_template.jinja)" "$(cat model/chat_template.jinja)"
work four --chat --workers 4
ok "the number of workers changes nothing" cmp -s one/tokens.mask four/tokens.mask
cp chats.jsonl more.jsonl
for i in 0 1; do
    run "$data" tokenize chats.jsonl more.jsonl --tokenizer model/tokenizer.json --out shares --chat --share $i/2
done
run "$data" merge one/tokens one/tokens -o twice
ok "shares of files are put together" cmp -s shares/tokens.bin twice.bin
ok "with their masks" cmp -s shares/tokens.mask twice.mask
own chatml_marks >marks.jinja
work marks --chat-template marks.jinja
is "a template with marks: exit code" "$rc:$err" "0:"
ok "has the same tokens" cmp -s one/tokens.bin marks/tokens.bin
ok "of which the same count" cmp -s one/tokens.mask marks/tokens.mask
is "the one that was used goes along" "$(cat marks/chat_template.jinja)" "$(cat marks.jinja)"
work roles --role 'system=<|pad|>system\n{}<|endoftext|>\n' --role 'user=<|pad|>user\n{}<|endoftext|>\n' \
    --role 'assistant=<|pad|>assistant\n{}<|endoftext|>\n'
ok "roles without a template: the same tokens" cmp -s one/tokens.bin roles/tokens.bin
ok "of which the same count" cmp -s one/tokens.mask roles/tokens.mask
work both --chat --train-on user,assistant --begin '<|endoftext|>'
like "other turns count, too" "$out" '; [0-9]* tokens count$'
is "with what the template puts before them" "$(counted both/tokens 1 | wc -w | tr -d ' ')" 10

fails() { # sentence text-of-stderr options...
    what=$1 text=$2
    shift 2
    rm -rf no
    run "$data" tokenize bad.jsonl --tokenizer model/tokenizer.json --out no "$@"
    is "$what" "$rc:$err" "2:$text"
}
bad() { # line
    printf '{"messages": [{"role": "user", "content": "good"}]}\n%s\n' "$1" >bad.jsonl
}
left='; repair it, or leave such documents out with --skip-bad'
bad '{"text": "x"}'
fails "no messages" "bad.jsonl:2: has no turns in 'messages'; name the member with --field$left" --chat
bad '{"messages": [{"content": "x"}]}'
fails "no role" "bad.jsonl:2: a turn has no role; want role and content, or from and value$left" --chat
bad '{"conversations": [{"from": "bard", "value": "x"}]}'
fails "a name of ShareGPT's that nobody knows" "bad.jsonl:2: a turn is from 'bard'; want human, user, gpt, model, assistant, system, tool or observation$left" --chat
bad '{"messages": [{"role": "user", "content": 7}]}'
fails "what the template cannot do" "bad.jsonl:2: the chat template: line 1: str + int is not done$left" --chat
run "$data" tokenize bad.jsonl --tokenizer model/tokenizer.json --out left --chat --skip-bad 1
like "may be left out, and is listed" "$rc:$err" '^0:.*bad.jsonl:2: left out: the chat template: line 1: str \+ int is not done$'
bad '{"messages": [{"role": "tool", "content": "x"}]}'
fails "a role without a form" "bad.jsonl:2: turn 1: no --role for 'tool'$left" --role 'user={}' --role 'assistant={}'
printf '{%% for m in messages %%}{{ m.content ~ messages|length }}{%% endfor %%}' >odd.jinja
bad '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
fails "turns that change with what follows" "bad.jsonl:2: turn 2: what the template makes of the turns before it and its prompt is not how the conversation begins; want a template with {% generation %} (--chat-template), or --role$left" --chat-template odd.jinja
printf '{%% include "x" %%}' >odd.jinja
fails "a statement that is not done" "odd.jinja: line 1: the statement 'include' is not done" --chat-template odd.jinja
fails "no form of a role" "--role: 'user=x' is none; want NAME=TEXT with one {} for the content, such as 'user=<|user|>\\n{}\\n'" --role user=x
fails "a role that nobody has" "--train-on: 'bot' is no role that --role names; want roles with commas between them" --role 'user={}' --train-on bot
fails "no date" "--chat-date: '1.1.26' is no date; want YYYY-MM-DD" --chat-date 1.1.26
fails "special and a template" "sennit-data tokenize: --special: a chat template says itself what stands around" --chat --special
mkdir bare
cp model/tokenizer.json bare
run "$data" tokenize chats.jsonl --tokenizer bare/tokenizer.json --out no --chat
is "a tokenizer without a template" "$rc:$err" "2:bare/tokenizer.json: no chat template is beside it, in chat_template.jinja or tokenizer_config.json; want --chat-template FILE or --role NAME=TEXT"
echo x >plain.txt
run "$data" tokenize plain.txt --tokenizer model/tokenizer.json --out no --chat
is "plain text" "$rc:$err" "2:plain.txt: is plain text, and --chat wants JSON lines (.jsonl)"

# A run learns what counts, in two layouts alike, and answers as a turn does.
i=0
while [ $i -lt 120 ]; do
    printf '{"messages": [{"role": "user", "content": "say %d"}, {"role": "assistant", "content": "%d!"}]}\n' $((i % 7)) $((i % 7))
    i=$((i + 1))
done >many.jsonl
run "$data" tokenize many.jsonl --tokenizer model/tokenizer.json --out set --chat
steps=12 eval_every=6 batch=4 seq=24 vocab=500
cd "$here" || exit 1
for layout in "data: 1" "data: 2, tensor: 2"; do
    name=$(echo "$layout" | tr -d ' :,')
    run_file "$tmp/$name.yaml" "$tmp/$name"
    sed -i "s/^layout: {micro_batch: 1, /layout: {micro_batch: 1, $layout, /; s|^data: .*|data: {train: $tmp/set/tokens, valid: $tmp/set/tokens, loss: mask}|; s|vocab: 256|vocab: 500|" "$tmp/$name.yaml"
done
run "$bin/sennit-train" "$tmp/data1.yaml"
is "a run trains on it" "$rc" 0
run mpi 4 "$bin/sennit-train" "$tmp/data2tensor2.yaml"
is "and on four ranks" "$rc" 0
metric loss "$tmp/data1/metrics.jsonl" >"$tmp/one.loss"
metric loss "$tmp/data2tensor2/metrics.jsonl" >"$tmp/four.loss"
within "with the same losses" "$(worst "$tmp/one.loss" "$tmp/four.loss")" 1e-5
run "$bin/sennit-train" "$tmp/data1.yaml" --generate '<|pad|>user
say 3<|endoftext|>
<|pad|>assistant
' --tokens 8 --temperature 0
is "it answers" "$rc" 0

if "$python" -c 'import transformers, jinja2' 2>/dev/null; then
    is "random conversations are those of transformers" "$("$python" "$here/tests/cli/chat.py" "$data" "$fixtures/token/llama3.json" 8 "${SEED:-1}" "$fixtures"/chat/*.jinja 2>&1)" ''
else
    skip "random conversations are those of transformers" "$python has no transformers; name one that has it by TORCH_PYTHON"
fi
tap_done
