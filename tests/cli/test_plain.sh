#!/bin/sh
# test_plain.sh - no byte that a terminal obeys comes through: names of files, what files say, and words of the command line are
# shown, in every program (lib/base/plain.h).
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
# shellcheck source=tests/lib/train.sh
. tests/lib/train.sh

plan=$BUILD/bin/sennit-plan train=$BUILD/bin/sennit-train data=$BUILD/bin/sennit-data
convert=$BUILD/bin/sennit-convert runner=$BUILD/bin/sennit-run
esc=$(printf '\033]0;title\007\033[2J')

shown() { # sentence words command...: fails, and says the words (a pattern), with no control character
    shown_what=$1 words=$2
    shift 2
    run "$@"
    ok "$shown_what: refused" test "$rc" != 0
    like "$shown_what: said" "$out$err" "$words"
    is "$shown_what: plain" "$(printf '%s%s' "$out" "$err" | tr -d '\n\t' | LC_ALL=C tr -dc '\000-\037\177' | wc -c)" 0
}

told() { # sentence command...: the same of what is done
    told_what=$1
    shift
    run "$@"
    is "$told_what: done" "$rc" 0
    is "$told_what: plain" "$(printf '%s%s' "$out" "$err" | tr -d '\n\t' | LC_ALL=C tr -dc '\000-\037\177' | wc -c)" 0
}

for program in "$plan" "$train" "$data" "$convert" "$runner"; do
    name=${program##*/}
    shown "$name, an option" '\\x1b\]0;title' "$program" "--no$esc"
done
shown "$plan, a run file" '\\x1b.*: cannot be ' "$plan" "$tmp/$esc.yaml"
shown "$runner submit" '\\x1b' "$runner" submit "$tmp/$esc.yaml"
shown "$runner status" '\\x1b' "$runner" status "$tmp/$esc"
shown "$runner why" '\\x1b' "$runner" why "$tmp/$esc"
shown "$data build" '\\x1b' "$data" build --text "$tmp/$esc" -o "$tmp/x"
shown "$convert --verify" '\\x1b' "$convert" --verify "$tmp/$esc"
printf 'model: {%s: 1}\n' "$esc" >"$tmp/key.yaml"
shown "a key of a run file" 'key.yaml:' "$plan" "$tmp/key.yaml"
printf '{"model_type": "llama", "x" "%s": 1}' "$esc" >"$tmp/config.json"
printf 'model: {config: %s/config.json}\n' "$tmp" >"$tmp/config.yaml"
shown "broken JSON of somebody else" 'config.json' "$plan" "$tmp/config.yaml"
printf '{"model_type": "%s"}' 'a\u001b[2J' >"$tmp/config.json"
shown "an escape that JSON spells" 'config.json' "$plan" "$tmp/config.yaml"
printf 'name: a\nnode: {%s: 1}\n' "$esc" >"$tmp/machine.yaml"
printf 'model: {preset: gpt2-124m}\ntrain: {steps: 1, global_batch: 1}\nlayout: {data: 1}\nmachine: {file: %s/machine.yaml}\n' "$tmp" >"$tmp/m.yaml"
shown "a machine file" 'machine.yaml' "$plan" "$tmp/m.yaml"

make_tokens "$tmp/tok"
steps=6 every=2 batch=4 eval_every=0 run_file "$tmp/r.yaml" "$tmp/out"
run "$train" "$tmp/r.yaml"
is "a run ends" "$rc" 0
mkdir "$tmp/$esc" && cp -r "$tmp/out" "$tmp/r.yaml" "$tmp"/tok.* "$tmp/$esc"
there=$tmp/$esc
told "a plan" "$plan" "$there/r.yaml" --verify
told "a plan as JSON" "$plan" "$there/r.yaml" --json
told "tokens" "$data" print "$there/tok"
for words in status why 'status --json'; do
    # shellcheck disable=SC2086  # options
    told "$words" "$runner" $words "$there/out"
done
told "what a checkpoint holds" "$convert" --inspect "$there/out/ckpt/step-00000006"
told "is it whole" "$convert" --verify "$there/out/ckpt"
told "a conversion" "$convert" "$there/out/ckpt" "$there/hf" --to safetensors
told "a start" "$train" "$there/r.yaml"
step=$tmp/out/ckpt/step-00000006
ok "a checkpoint was made" test -s "$step/manifest.json"
sed "s/{/{\"x\" \"$esc\"/" "$step/manifest.json" >"$tmp/manifest" && cp "$tmp/manifest" "$step/manifest.json"
shown "a damaged manifest" 'manifest' "$convert" --verify "$step"
mkdir "$tmp/out/ckpt/$esc"
shown "a folder among checkpoints" 'manifest' "$convert" --verify "$tmp/out/ckpt"
tap_done
