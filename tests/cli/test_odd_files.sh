#!/bin/sh
# test_odd_files.sh - a pipe, a device, a directory in the place of a file that is read: a sentence at once, and
# nobody waits for good.
# shellcheck disable=SC2016  # commands of cases are run later
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train plan=$BUILD/bin/sennit-plan convert=$BUILD/bin/sennit-convert run=$BUILD/bin/sennit-run
data=$BUILD/bin/sennit-data
export SN_LOG=warn
make_tokens "$tmp/tok"
layers=1 hidden=32 ffn=48 seq=16 batch=4 eval_every=0 steps=8
run_file "$tmp/run.yaml" "$tmp/run"
run "$train" "$tmp/run.yaml" --stop-after 2
is "a run" "$rc" 0

put() { # kind path: what stands there instead of a file
    rm -rf "$2"
    case $1 in
    pipe) mkfifo "$2" ;;
    directory) mkdir "$2" ;;
    zero) ln -s /dev/zero "$2" ;;
    loop) ln -s "$(basename "$2")" "$2" ;;
    esac
}

kinds='pipe directory zero loop'
refused() { # what path pattern want-exit command...: for each kind, in time, with its path in the sentence
    what=$1 path=$2 pattern=$3 want=$4
    shift 4
    [ ! -e "$path" ] || mv "$path" "$tmp/aside"
    : >"$tmp/wrong"
    for kind in $kinds; do
        put "$kind" "$path"
        run timeout 20 "$@"
        { printf '%s' "$rc" | grep -qx -e "$want" && printf '%s\n' "$err" | grep -qE -e "$pattern"; } || echo "$kind: $rc: $err" >>"$tmp/wrong"
        rm -rf "$path"
    done
    is "$what: exit $want and a sentence, whatever stands there" "$(cat "$tmp/wrong")" ""
    [ ! -e "$tmp/aside" ] || mv "$tmp/aside" "$path"
}

why='(it is a pipe or a device, no plain file|Is a directory|Too many levels of symbolic links)'
refused "a run file (plan)" "$tmp/odd.yaml" "odd.yaml: cannot be opened: $why" 2 "$plan" "$tmp/odd.yaml"
refused "a run file (train)" "$tmp/odd.yaml" "odd.yaml: cannot be opened: $why" 2 "$train" "$tmp/odd.yaml"
refused "a run file (exec)" "$tmp/odd.yaml" "odd.yaml: cannot be opened: $why" 2 "$run" exec "$tmp/odd.yaml" --ranks 1
sed "s|^layout|machine: {file: $tmp/odd-machine.yaml}\n&|" "$tmp/run.yaml" >"$tmp/with-machine.yaml"
refused "a machine file" "$tmp/odd-machine.yaml" "odd-machine.yaml: cannot be opened: $why" 2 "$plan" "$tmp/with-machine.yaml"
refused "a site profile" "$tmp/odd-site.yaml" "odd-site.yaml: cannot be opened: $why" 2 \
    "$run" submit "$tmp/run.yaml" --site "$tmp/odd-site.yaml" --print
refused "token files" "$tmp/odd.idx" "odd.idx: (cannot be read: $why|this is a folder|a link that leads nowhere); name a file" 2 "$data" print "$tmp/odd"
cp "$tmp/tok.idx" "$tmp/odd.idx"
refused "tokens" "$tmp/odd.bin" "odd.bin: (cannot be read: $why|this is a folder|a link that leads nowhere); name a file" 2 "$data" print "$tmp/odd"
run "$convert" "$tmp/run/ckpt" "$tmp/hub" --to safetensors
is "the weights as the field has them" "$rc" 0
refused "config.json of the field" "$tmp/hub/config.json" "hub/config.json'?:? (is not a file|cannot be)" 2 \
    "$convert" "$tmp/hub" "$tmp/out" --from safetensors
refused "safetensors" "$tmp/hub/model.safetensors" "model.safetensors: (is not a plain file|cannot open)|has neither" '[12]' \
    "$convert" "$tmp/hub" "$tmp/out" --from safetensors

step=$tmp/run/ckpt/step-00000002
for file in COMMIT manifest.json shard-00000.h5; do
    refused "$file of a checkpoint" "$step/$file" "$file: (is not a plain file|cannot open|is not what COMMIT)" 1 "$train" "$tmp/run.yaml"
done

# What is only told of a run is passed over, and counted.
for file in run.resolved.yaml metrics.jsonl attempt-1.json checkpoints.jsonl supervisor.lock ranks/rank-00000.ring journal.jsonl; do
    mkdir -p "$tmp/run/ranks"
    rm -rf "$tmp/aside"
    [ ! -e "$tmp/run/$file" ] || mv "$tmp/run/$file" "$tmp/aside"
    : >"$tmp/wrong"
    for kind in $kinds; do
        put "$kind" "$tmp/run/$file"
        for verb in status why; do
            run timeout 20 "$run" $verb "$tmp/run"
            [ "$rc" = 0 ] || echo "$kind, $verb: $rc: $err" >>"$tmp/wrong"
        done
        rm -rf "$tmp/run/$file"
    done
    is "$file: status and why tell what else there is" "$(cat "$tmp/wrong")" ""
    [ ! -e "$tmp/aside" ] || mv "$tmp/aside" "$tmp/run/$file"
done
export SLURM_JOB_ID=41 SLURM_JOB_NODELIST=here SLURM_NNODES=1
refused "nodes.jsonl" "$tmp/run/nodes.jsonl" "nodes.jsonl: cannot be read: $why" '[12]' "$run" exec "$tmp/run.yaml" --ranks 1

tap_done
