#!/bin/sh
# test_master.sh - what h5py sees through master.h5 is what the shards hold; and what it sees when they
# are not there, sennit refuses or reads right.
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/lib/layouts.sh
. tests/lib/h5read.sh

cut=tp3-sp-gpt2 flat=z2-dp3-gpt2 # uneven cuts by rows and columns; slices of ZeRO
layout_tokens "$tmp/tok"

save_in() { # layout output: trains 3 steps, the last of which is a checkpoint; sets $step
    layout_train "$(layout_line "$1")" "$2" --stop-after 3
    is "$1: trains 3 steps" "$rc" 0
    step=$2/ckpt/step-00000003
    ok "$1: leaves a master" test -f "$step/master.h5"
}

view() { # sentence [--pieces] step-directory: into $tmp/view
    view_what=$1
    shift
    if h5read "$@" >"$tmp/view" 2>"$tmp/view.err"; then
        ok "$view_what: h5py reads it" true
    else
        ok "$view_what: h5py reads it" false
        tap_lines h5py "$(tail -n 3 "$tmp/view.err")"
    fi
}

# --- the same values ----------------------------------------------------------------------------------
for layout in $cut $flat; do
    save_in "$layout" "$tmp/$layout"
    view "$layout: the pieces" --pieces "$step"
    mv "$tmp/view" "$tmp/pieces"
    for group in model exp_avg exp_avg_sq; do
        ok "$layout: $group is there" grep -q "^$group layers.3.attn.q.weight 48 48 fp32 " "$tmp/pieces"
    done
    cp "$tmp/pieces" "$tmp/pieces-$layout"
    view "$layout: the master" "$step"
    ok "$layout: the master shows what the shards hold" cmp -s "$tmp/view" "$tmp/pieces"
    cp -r "$step" "$tmp/moved-$layout"
    view "$layout: a copy elsewhere" "$tmp/moved-$layout"
    ok "$layout: and so does a copy in another folder" cmp -s "$tmp/view" "$tmp/pieces"
    rm "$tmp/moved-$layout/shard-00001.h5"
    view "$layout: without a shard" "$tmp/moved-$layout"
    ok "$layout: without one of its shards it shows something else" \
        test "$(cmp -s "$tmp/view" "$tmp/pieces" || echo differs)" = differs
done

# --- one file for all ranks, and what the converter writes ---------------------------------------------
layout_file "$(layout_line $cut)" "$tmp/single.yaml" "$tmp/single"
echo 'checkpoint: {single_file: true}' >>"$tmp/single.yaml"
run mpi 3 "$BUILD/bin/sennit-train" "$tmp/single.yaml" --stop-after 3
is "single file: trains 3 steps" "$rc" 0
single=$tmp/single/ckpt/step-00000003
is "single file: is alone" "$(ls "$single")" "$(printf 'COMMIT\nmanifest.json\nmaster.h5')"
run "$BUILD/bin/sennit-convert" "$single" "$tmp/half/step-00000003" --layout "$tmp/$flat.yaml" --dtype bf16
is "converted to another layout and bf16$err" "$rc" 0
half=$tmp/half/step-00000003
view "single file" "$single"
ok "single file: holds what shards of the same run hold" cmp -s "$tmp/view" "$tmp/pieces-$cut"
view "single file: its pieces" --pieces "$single"
ok "single file: the manifest says where" cmp -s "$tmp/view" "$tmp/pieces-$cut"
view "converted: its pieces" --pieces "$half"
mv "$tmp/view" "$tmp/half.pieces"
view "converted: its master" "$half"
ok "converted: the master shows what the shards hold" cmp -s "$tmp/view" "$tmp/half.pieces"
ok "converted: the moments are the same" \
    test "$(grep '^exp' "$tmp/view")" = "$(grep '^exp' "$tmp/pieces-$cut")"
is "converted: the weights are bf16" "$(grep -v '^exp' "$tmp/view" | cut -d ' ' -f 5 | sort -u)" bf16

# --- every type, in the golden ones ----------------------------------------------------------------------
for golden in schema-3 schema-3-single; do
    folder=tests/unit/fixtures/checkpoints/$golden/step-00000100
    view "$golden: the pieces" --pieces "$folder"
    mv "$tmp/view" "$tmp/golden"
    view "$golden: the master" "$folder"
    ok "$golden: the master shows what the shards hold" cmp -s "$tmp/view" "$tmp/golden"
    is "$golden: h5py knows the types" "$(cut -d ' ' -f 1,5 "$tmp/view" | tr '\n' ' ')" \
        "exp_avg fp32 exp_avg_sq fp32 model bf16 model fp16 "
done

# --- what redirects virtual datasets does not reach sennit ---------------------------------------------
other=$tmp/$cut/ckpt/step-00000003
HDF5_VDS_PREFIX=$other h5read "$step" >"$tmp/view" 2>&1 || :
ok "the environment makes h5py read another run's shards" \
    test "$(cmp -s "$tmp/view" "$tmp/pieces" || echo differs)" = differs
cp -r "$tmp/$flat" "$tmp/again"
layout_train "$(layout_line "$cut")" "$tmp/$flat"
is "it resumes" "$rc" 0
HDF5_VDS_PREFIX=$other
export HDF5_VDS_PREFIX
layout_train "$(layout_line "$cut")" "$tmp/again"
is "and resumes with that environment" "$rc" 0
like "from the same step" "$err" 'checkpoint of step 3([^0-9]|$)'
ok "with the same losses" cmp -s "$tmp/again/numbers" "$tmp/$flat/numbers"

tap_done
