#!/bin/sh
# test_damage.sh - every way in which a checkpoint can be broken, met by resuming, by converting and by
# verifying: an exact sentence that names shard and tensor, the exit code, and nothing written.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train convert=$BUILD/bin/sennit-convert damage=$BUILD/tests/cli/damage
ckpt=$tmp/run/ckpt step=$tmp/run/ckpt/step-00000002
s0=$step/shard-00000.h5 s1=$step/shard-00001.h5

make_tokens "$tmp/tok"

# --- the checkpoint that is broken: two tensor ranks, so that most tensors are cut into two shards --
layers=1 hidden=32 ffn=48 seq=16 batch=4 eval_every=0 steps=2
two_ranks() { # run file, output
    run_file "$1" "$2"
    sed -i 's/^layout: {/layout: {tensor: 2, /' "$1"
}
two_ranks "$tmp/two.yaml" "$tmp/base"
run mpi 2 "$train" "$tmp/two.yaml"
is "two ranks train and save" "$rc" 0
run_file "$tmp/one.yaml" "$tmp/run"
sed -i 's/steps: 2/steps: 4/; s/^train:/train:/' "$tmp/one.yaml"

# Each case begins with a fresh copy.
fresh() {
    chmod -R u+rwX "$tmp/run" 2>/dev/null
    rm -rf "$tmp/run" "$tmp/out" "$tmp/elsewhere"
    cp -a "$tmp/base" "$tmp/run"
}

content() { # of the folder of checkpoints, names and bytes, as far as they can be read
    (cd "$ckpt" && find . | sort && find . -type f ! -name 'attempt*' | sort | xargs cksum 2>/dev/null)
}

# A sentence with the places of the test replaced by short words.
short() {
    sed -e "s|$step|STEP|g" -e "s|$ckpt|CKPT|g" -e "s|$tmp|TMP|g"
}

# What a tool says: every line of stderr but progress, and its exit code.
says() { # case tool want-exit want-text command...
    what="$1: $2" want_rc=$3 want=$4
    shift 4
    rc=0
    timeout 60 "$@" >"$tmp/.out" 2>"$tmp/.err" </dev/null || rc=$?
    is "$what ends with $want_rc" "$rc" "$want_rc"
    is "$what says why" "$(short <"$tmp/.err" | grep -v '^sennit-train: info')" "$want"
}

resume() { # case want-exit want-text
    says "$1" resume "$2" "$3" "$train" "$tmp/one.yaml"
}
convert() { # case want-exit want-text
    says "$1" convert "$2" "$3" "$convert" "$step" "$tmp/out" --layout "$tmp/one.yaml"
    ok "$1: convert leaves nothing" test ! -e "$tmp/out"
}
verify() { # case want-exit want-lines
    says "$1" verify "$2" "" "$convert" --verify "$step"
    is "$1: verify's lines" "$(short <"$tmp/.out")" "$3"
}

# The usual case: the same sentence from all three, and nothing changed.
broken() { # case sentence [sentence of verify [number of faults]]
    before=$(content)
    resume "$1" 1 "$2"
    convert "$1" 1 "$2"
    verify "$1" 1 "${3:-$2}
1 checkpoint"
    is "$1: nothing is changed" "$(content)" "$before"
}
