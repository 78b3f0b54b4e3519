#!/bin/sh
# test_damage.sh - every way in which a checkpoint can be broken, met by resuming, by converting and by
# verifying: an exact sentence that names shard and tensor, the exit code, and nothing written.
# shellcheck disable=SC2016  # commands of cases are run later
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train convert=$BUILD/bin/sennit-convert damage=$BUILD/tests/cli/damage
ckpt=$tmp/run/ckpt step=$tmp/run/ckpt/step-00000002
s0=$step/shard-00000.h5 s1=$step/shard-00001.h5 manifest=$step/manifest.json
export SN_LOG=warn
make_tokens "$tmp/tok"

# --- what is broken: the save of two tensor ranks, so that most tensors lie in both shards ----------
layers=1 hidden=32 ffn=48 seq=16 batch=4 eval_every=0 steps=8
two_ranks() { # output: two steps of two ranks
    run_file "$tmp/two.yaml" "$1"
    sed -i 's/^layout: {/layout: {tensor: 2, /' "$tmp/two.yaml"
    run mpi 2 "$train" "$tmp/two.yaml" --stop-after 2
    is "two ranks train and save into ${1##*/}" "$rc:$err" "0:"
}
two_ranks "$tmp/base"
run_file "$tmp/one.yaml" "$tmp/run"

fresh() { # a copy to break
    rm -rf "$tmp/run" "$tmp/out"
    cp -a "$tmp/base" "$tmp/run"
}

content() { # of the folder of checkpoints: names and kinds, and the bytes of small plain files
    find "$ckpt" -printf '%P %y %s\n' | sort
    find "$ckpt" -type f -size -1024k -readable -exec cksum {} + | sort
}

short() { # the places of this test as short words
    sed -e "s|$step|STEP|g" -e "s|$ckpt|CKPT|g" -e "s|$tmp|TMP|g"
}

# A tool must end with this exit code, in time, and say exactly this.
says() { # what want-exit want-text command...
    what=$1 want_rc=$2 want=$3
    shift 3
    run timeout 60 "$@"
    is "$what: exit $want_rc" "$rc" "$want_rc"
    is "$what: the sentence" "$(printf '%s' "$err" | short)" "$want"
}

# What resuming adds where there is no other checkpoint (tests/cli/test_damaged.sh has others).
alone='; no older one is whole: restore it, or begin anew with --fresh'

# The usual case: a sentence each from resuming, converting and verifying, and nothing is changed.
# The last is what --verify prints, its count of faults apart.
broken() { # case, command that breaks it, resume's sentence, convert's ('' for the same), verify's
    fresh
    eval "$2"
    before=$(content)
    says "$1: resume" 1 "$3$alone" "$train" "$tmp/one.yaml"
    says "$1: convert" 1 "${4:-$3}" "$convert" "$step" "$tmp/out" --layout "$tmp/one.yaml"
    says "$1: verify" 1 "" "$convert" --verify "$step"
    is "$1: what verify prints" "$(printf '%s\n' "$out" | sed '$d' | short)" "${5:-$3}"
    is "$1: verify counts" "$(printf '%s\n' "$out" | sed -n '$s/.*: \([0-9]*\) faults*$/\1/p')" \
        "$(printf '%s\n' "${5:-$3}" | grep -c .)"
    is "$1: nothing is changed" "$(content)" "$before"
    ok "$1: convert leaves no checkpoint" test ! -e "$tmp/out/step-00000002"
}


first='(reading tensor exp_avg embed.weight)' # of all, in each shard
cut='the file was cut or altered, use another checkpoint'
altered='are not those that were saved (their hash differs); the file was altered, use another checkpoint'
n0=$(stat -c %s "$tmp/base/ckpt/step-00000002/shard-00000.h5")
n1=$(stat -c %s "$tmp/base/ckpt/step-00000002/shard-00001.h5")

# A whole shard is lost: loading names the first tensor that it needs, verifying all that are in it.
lost() { # case, command, shard, what is wrong with it
    holds='(it holds 36 pieces, of tensors exp_avg embed.weight to model layers.0.ffn_norm.weight)'
    [ "$3" = 0 ] || holds='(it holds 27 pieces, of tensors exp_avg embed.weight to model layers.0.ffn.up.weight)'
    broken "$1" "$2" "STEP/shard-0000$3.h5: $4 $first" '' "STEP/shard-0000$3.h5: $4 $holds"
}

# --- shards -----------------------------------------------------------------------------------------
lost "a missing shard" 'rm "$s0"' 0 'cannot open: No such file or directory'
lost "a truncated shard" 'truncate -s -1 "$s1"' 1 "has $((n1 - 1)) bytes where $n1 were saved; $cut"
lost "an empty shard" ': >"$s1"' 1 "has 0 bytes where $n1 were saved; $cut"
lost "a longer shard" 'echo >>"$s0"' 0 "has $((n0 + 1)) bytes where $n0 were saved; $cut"
lost "another file as shard" 'head -c "$n0" "$train" >"$s0.x"; mv "$s0.x" "$s0"' 0 'is no HDF5 file'
lost "zeros as shard" 'truncate -s 0 "$s1"; truncate -s "$n1" "$s1"' 1 'is no HDF5 file'
lost "a directory as shard" 'rm "$s0"; mkdir "$s0"' 0 'is not a plain file'
lost "a fifo as shard" 'rm "$s0"; mkfifo "$s0"' 0 'is not a plain file'
lost "a device as shard" 'rm "$s0"; ln -s /dev/zero "$s0"' 0 'is not a plain file'
lost "a link to itself as shard" 'rm "$s0"; ln -s shard-00000.h5 "$s0"' 0 'cannot open: Too many levels of symbolic links'
broken "a renamed dataset" \
    '"$damage" rename "$step" shard-00001.h5 /model/embed.weight@128,0 /model/embed.wright@128,0' \
    "STEP/shard-00001.h5: cannot open /model/embed.weight@128,0: name doesn't exist (reading tensor model embed.weight)"
broken "swapped shards" 'mv "$s0" "$s0.x"; mv "$s1" "$s0"; mv "$s0.x" "$s1"' \
    "STEP/shard-00000.h5: has $n1 bytes where $n0 were saved; $cut $first" '' \
    "STEP/shard-00000.h5: has $n1 bytes where $n0 were saved; $cut (it holds 36 pieces, of tensors exp_avg embed.weight to model layers.0.ffn_norm.weight)
STEP/shard-00001.h5: has $n0 bytes where $n1 were saved; $cut (it holds 27 pieces, of tensors exp_avg embed.weight to model layers.0.ffn.up.weight)"

# Nobody may read it: root reads everything, so another user tries.
fresh
chmod 000 "$s0"
as_nobody=''
if [ "$(id -u)" = 0 ]; then
    as_nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
    chmod 755 "$tmp"
    chown -R 65534 "$tmp/run"
fi
if $as_nobody test -x "$train" -a -r "$tmp/one.yaml" -a ! -r "$s0" 2>/dev/null; then
    denied='STEP/shard-00000.h5: cannot open: Permission denied'
    # shellcheck disable=SC2086
    says "an unreadable shard: resume" 1 "$denied $first$alone" $as_nobody "$train" "$tmp/one.yaml"
    # shellcheck disable=SC2086
    says "an unreadable shard: verify" 1 "" $as_nobody "$convert" --verify "$step"
    like "an unreadable shard: what verify prints" "$(printf '%s\n' "$out" | short)" "^$denied \(it holds 36 pieces"
else
    skip "an unreadable shard" "no setpriv, or another user cannot read this folder"
fi

# One bit in each dataset.
fresh
"$damage" where "$step" >"$tmp/pieces"
is "63 datasets hold the checkpoint" "$(wc -l <"$tmp/pieces" | tr -d ' ')" 63
for tool in resume convert verify; do
    : >"$tmp/wrong"
    while read -r shard dataset offset bytes; do
        "$damage" flip "$step/$shard" $((offset + bytes / 2))
        case $tool in
        resume) run "$train" "$tmp/one.yaml" && err=${err%"$alone"} ;;
        convert) run "$convert" "$step" "$tmp/out" --layout "$tmp/one.yaml" ;;
        verify) run "$convert" --verify "$step" && err=$(printf '%s\n' "$out" | sed '$d') ;;
        esac
        "$damage" flip "$step/$shard" $((offset + bytes / 2))
        [ "$rc:$(printf '%s' "$err" | short)" = "1:STEP/$shard: the bytes of $dataset $altered" ] ||
            printf '%s\n' "$shard $dataset: $rc: $err" >>"$tmp/wrong"
    done <"$tmp/pieces"
    is "a flipped bit in any dataset: $tool names shard and dataset" "$(cat "$tmp/wrong")" ""
done

# --- runs mixed: names, sizes and places are right, only the bytes are not ------------------------------------------------------------------------------------
sed 's/seed: 7/seed: 8/' "$tmp/two.yaml" | sed "s|output: $tmp/base|output: $tmp/other|" >"$tmp/other.yaml"
run mpi 2 "$train" "$tmp/other.yaml" --stop-after 2
is "another seed trains and saves" "$rc:$err" "0:"
other=$tmp/other/ckpt/step-00000002
broken "a shard of another run" 'cp "$other/shard-00001.h5" "$s1"' \
    "STEP/shard-00001.h5: the bytes of /optim/exp_avg/head.weight@128,0 $altered" '' \
    "$(awk -v altered="$altered" '$1 == "shard-00001.h5" && $2 !~ /optim.*embed/ {
        print "STEP/" $1 ": the bytes of " $2 " " altered }' "$tmp/pieces")" # those rows were not used yet

fresh
cp "$other/shard-00001.h5" "$s1"
rm "$s0"
run "$convert" --verify "$step"
is "much is broken: one rank verifies" "$rc" 1
printf '%s\n' "$out" >"$tmp/one-rank"
run mpi 3 "$convert" --verify "$step"
is "three ranks verify" "$rc" 1
is "and print the same" "$out" "$(cat "$tmp/one-rank")"

# --- the manifest and COMMIT ------------------------------------------------------------------------
not_committed='STEP/manifest.json: is not what COMMIT was written for; one of them was altered'
edit() { # sed script: edits the manifest, and writes the COMMIT that belongs to it
    sed -i "$1" "$manifest"
    "$damage" commit "$step" 2
}
broken "an edited manifest" 'sed -i "s/\"tokens\": 128/\"tokens\": 129/" "$manifest"' "$not_committed"
broken "the manifest of another run" 'cp "$other/manifest.json" "$manifest"' "$not_committed"
broken "no COMMIT" 'rm "$step/COMMIT"' 'STEP/COMMIT: cannot open: No such file or directory'
broken "an empty COMMIT" ': >"$step/COMMIT"' "$not_committed"
broken "the COMMIT of another run" 'cp "$other/COMMIT" "$step/COMMIT"' "$not_committed"
broken "a fifo as COMMIT" 'rm "$step/COMMIT"; mkfifo "$step/COMMIT"' 'STEP/COMMIT: is not a plain file'
broken "no manifest" 'rm "$manifest"' 'STEP/manifest.json: cannot open: No such file or directory'
broken "a manifest of a terabyte" 'truncate -s 1T "$manifest"' "$not_committed"
broken "a COMMIT of a terabyte" 'truncate -s 1T "$step/COMMIT"' "$not_committed"

# --- manifests that were made to lie, with the COMMIT that belongs to them --------------------------
lying() { # case, sed script, sentence after the file's name
    broken "$1" "edit '$2'" "STEP/manifest.json: $3"
}
broken "100000 brackets" 'printf "%0100000d" 0 | tr 0 "[" >"$manifest"; "$damage" commit "$step" 2' \
    "STEP/manifest.json:1:2049: is not JSON: maximum parsing depth reached near '['"
lying "a path that escapes" 's|"file": "shard-00001|"file": "../shard-00001|' \
    "'../shard-00001.h5' is no shard's file name"
lying "an absolute path" 's|"file": "shard-00001|"file": "/etc/shard-00001|' \
    "'/etc/shard-00001.h5' is no shard's file name"
lying "a shape of 2^63 values" 's/"shape": \[256, 32\]/"shape": [4611686018427387904, 2]/' \
    'exp_avg embed.weight: 4611686018427387904 x 2 is no size'
lying "a shape of 2^57 values" 's/"shape": \[256, 32\]/"shape": [4611686018427387, 32]/' \
    'tensor exp_avg embed.weight (4611686018427387 x 32) has 147573952589668192 of its 147573952589676384 values in no piece, the first at row 256, column 0'
lying "a piece outside of its tensor" 's/"row": \[128, 256\]/"row": [129, 257]/' \
    'exp_avg embed.weight: the place of a piece is not two ranges inside its shape'
lying "pieces that overlap" 's/"row": \[128, 256\]/"row": [127, 255]/' \
    'tensor exp_avg embed.weight: rows 127 to 127, columns 0 to 31 are stored twice, as /optim/exp_avg/embed.weight@0,0 of shard-00000.h5 and as /optim/exp_avg/embed.weight@128,0 of shard-00001.h5'
lying "a row in no piece" 's/"shape": \[256, 32\]/"shape": [257, 32]/' \
    'tensor exp_avg embed.weight (257 x 32) has 32 of its 8224 values in no piece, the first at row 256, column 0'
lying "a shard that is not listed" 's/"shard": 1/"shard": 2/' \
    'exp_avg embed.weight: a piece of 128 x 32, 16384 bytes and shard 2 do not belong together'
lying "blocks of a byte" 's/"block": 1048576/"block": 1/' \
    "a 'block' of 1 bytes is no multiple of 4096 up to 1073741824"
lying "blocks without hashes" 's/"block": 1048576/"block": 4096/' \
    "exp_avg embed.weight: 'xxh3' has 16 characters, not 16 hexadecimal digits for each of 4 blocks"
lying "a name that commands terminals" 's/final_norm/final\\u001b[2Jnorm/' \
    "a 'name' has the byte 0x1b, which is no printable ASCII"
lost "a shard of 2^62 bytes" 'edit "s/\"bytes\": $n1/\"bytes\": 4611686018427387904/"' 1 \
    "has $n1 bytes where 4611686018427387904 were saved; $cut"

# What the manifest names is not what the shard holds, nor what the master shows.
in_norm='(reading tensor model final_norm.weight)'
misled() { # case, dataset, what the shard says of it
    broken "$1" "edit 's|\"dataset\": \"/model/final_norm.weight\"|\"dataset\": \"$2\"|'" \
        "STEP/shard-00000.h5: $3 $in_norm" '' \
        "STEP/master.h5: /model/final_norm.weight takes row 0, column 0 from 'shard-00000.h5', but not as the manifest says from $2 of shard-00000.h5 (tensor model final_norm.weight)
STEP/shard-00000.h5: $3 $in_norm"
}
misled "a dataset of another shape" /model/embed.weight@0,0 \
    '/model/embed.weight@0,0 is 128 x 32, but the manifest says 32 x 1'
misled "a group as dataset" /model 'cannot open /model: not a dataset'
other_norm="STEP/shard-00000.h5: the bytes of /model/layers.0.attn_norm.weight $altered"
broken "another dataset of the shape" \
    'edit "s|\"dataset\": \"/model/final_norm.weight\"|\"dataset\": \"/model/layers.0.attn_norm.weight\"|"' \
    "$other_norm" '' \
    "STEP/master.h5: /model/final_norm.weight takes row 0, column 0 from 'shard-00000.h5', but not as the manifest says from /model/layers.0.attn_norm.weight of shard-00000.h5 (tensor model final_norm.weight)
$other_norm"
not_bf16='is not little-endian bf16 as the manifest says'
broken "a dataset of another type" \
    'edit "/\"exp_avg\".*final_norm/s/\"fp32\"\(.*\)\"bytes\": 128/\"bf16\"\1\"bytes\": 64/"' \
    "STEP/shard-00000.h5: /optim/exp_avg/final_norm.weight $not_bf16 (reading tensor exp_avg final_norm.weight)" '' \
    "STEP/master.h5: /optim/exp_avg/final_norm.weight $not_bf16 (tensor exp_avg final_norm.weight)
STEP/shard-00000.h5: /optim/exp_avg/final_norm.weight $not_bf16 (reading tensor exp_avg final_norm.weight)"

# --- a single file: its pieces lie in rows of larger datasets ----------------------------------------
single=$tmp/single/ckpt/step-00000002
sed "s|output: $tmp/base|output: $tmp/single|; s/^checkpoint: {/checkpoint: {single_file: true, /" \
    "$tmp/two.yaml" >"$tmp/single.yaml"
sed "s|output: $tmp/run|output: $tmp/single|" "$tmp/one.yaml" >"$tmp/single-one.yaml"
run mpi 2 "$train" "$tmp/single.yaml" --stop-after 2
is "two ranks train and save into a single file" "$rc:$err" "0:"
run "$convert" --verify "$single"
is "it is whole" "$rc" 0
"$damage" where "$single" >"$tmp/pieces"
for tool in resume verify; do
    : >"$tmp/wrong"
    while read -r file dataset offset _; do
        "$damage" flip "$single/$file" "$offset"
        case $tool in
        resume) run "$train" "$tmp/single-one.yaml" && err=${err%"$alone"} ;;
        verify) run "$convert" --verify "$single" && err=$(printf '%s\n' "$out" | sed '$d') ;;
        esac
        "$damage" flip "$single/$file" "$offset"
        [ "$rc:$(printf '%s' "$err" | sed "s|$single|STEP|g")" = "1:STEP/master.h5: the bytes of $dataset $altered" ] ||
            printf '%s\n' "$dataset at $offset: $rc: $err" >>"$tmp/wrong"
    done <"$tmp/pieces"
    is "a flipped bit in any piece of a single file: $tool names the dataset" "$(cat "$tmp/wrong")" ""
done
mv "$single/master.h5" "$tmp/aside.h5"
says "a missing single file: resume" 1 \
    "TMP/single/ckpt/step-00000002/master.h5: cannot open: No such file or directory $first$alone" \
    "$train" "$tmp/single-one.yaml"

# --- the master: nobody trains or converts from it, so only verifying sees it -----------------------
fresh
"$damage" flip "$step/master.h5" 0
says "a broken master: verify" 1 "" "$convert" --verify "$step"
is "a broken master: what verify prints" "$(printf '%s\n' "$out" | sed '$d' | short)" \
    'STEP/master.h5: its bytes are not those that were saved (their hash differs); it was altered, and no value is read from it'

# --- what is not damage -----------------------------------------------------------------------------
fresh
run "$train" "$tmp/one.yaml"
is "the undisturbed run ends" "$rc:$err" "0:"
cp "$ckpt/step-00000008/manifest.json" "$tmp/right"

# Resuming, converting and verifying do as if nothing had happened.
harmless() { # case; everything is prepared
    run "$convert" --verify "$step"
    is "$1: verify" "$rc:$err" "0:"
    run "$convert" "$step" "$tmp/out" --layout "$tmp/one.yaml"
    is "$1: convert" "$rc:$err" "0:"
    run "$convert" --diff "$tmp/out" "$tmp/base/ckpt"
    is "$1: what was converted is what was saved" "$rc:$err" "0:"
    run "$train" "$tmp/one.yaml"
    is "$1: resume" "$rc:$err" "0:"
    ok "$1: the run ends with the same bits" cmp -s "$ckpt/step-00000008/manifest.json" "$tmp/right"
}
fresh
HDF5_VDS_PREFIX=$other && export HDF5_VDS_PREFIX
harmless "HDF5_VDS_PREFIX of another run"
unset HDF5_VDS_PREFIX

fresh
mv "$ckpt" "$tmp/moved"
ln -s ../moved "$ckpt"
harmless "a moved folder behind a link"
rm -rf "$tmp/moved"

fresh
mv "$s1" "$tmp/moved.h5"
ln -s "$tmp/moved.h5" "$s1"
harmless "a moved shard behind a link"
rm -f "$tmp/moved.h5"

fresh
mkdir "$step.tmp.7" "$ckpt/step-00000004.tmp.99" "$ckpt/step-00000009.del.5"
cp "$s0" "$step.tmp.7"
cp "$step"/* "$ckpt/step-00000004.tmp.99" # even one that is whole: it was never committed
echo step-00000077 >"$ckpt/LATEST"
touch "$step/core.1"
harmless "stale temporaries, a wrong LATEST and a stranger"
is "the save removes the temporaries" "$(find "$ckpt" -name '*.tmp.*' -o -name '*.del.*')" ""

tap_done
