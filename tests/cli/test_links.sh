#!/bin/sh
# test_links.sh - a link where a run writes is never followed: its target stays as it was, and the run goes on or
# says why it cannot. Folders may be links.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train run=$BUILD/bin/sennit-run
make_tokens "$tmp/tok"
layers=1 hidden=32 ffn=48 seq=16 batch=4 eval_every=0 steps=8 every=2
echo precious >"$tmp/victim"

linked() { # what path: a run of two ranks, with a link there
    name=$(echo "$1" | tr -c 'a-z0-9\n' -)
    rm -rf "$tmp/$name"
    run_file "$tmp/$name.yaml" "$tmp/$name"
    mkdir -p "$tmp/$name/ckpt" "$tmp/$name/ranks"
    ln -s "$tmp/victim" "$tmp/$name/$2"
    # shellcheck disable=SC2154
    run mpi 2 "$train" "$tmp/$name.yaml" --stop-after 4
}
untouched() { # what
    is "$1: the link's target is untouched" "$(cat "$tmp/victim")" precious
}

# What is written aside and put in its place takes the link's place.
for path in ckpt/LATEST ckpt/LATEST.tmp map.json map.json.tmp run.resolved.yaml run.resolved.yaml.tmp attempt-1.json.tmp; do
    linked "$path" "$path"
    is "$path: the run goes on" "$rc" 0
    untouched "$path"
    ok "$path: there is a file of ours" test ! -L "$tmp/$name/${path%.tmp}"
done
# What is appended to or kept open is refused by name.
for path in metrics.jsonl checkpoints.jsonl ranks/rank-00001.ring supervisor.lock; do
    linked "$path" "$path"
    ok "$path: the run does not begin ($rc)" test "$rc" -ne 0
    like "$path: and says why" "$err" "$path: .*it is a link, which is not followed here"
    untouched "$path"
done
# A number of an attempt is free when nothing has its name.
linked attempt attempt-1.json
is "attempt-1.json: the run goes on" "$rc" 0
untouched attempt-1.json
for path in metrics.jsonl ranks/rank-00001.ring; do
    rm -rf "$tmp/pipe"
    run_file "$tmp/pipe.yaml" "$tmp/pipe"
    mkdir -p "$tmp/pipe/ranks"
    mkfifo "$tmp/pipe/$path"
    run timeout 60 tests/mpi/run -n 2 "$train" "$tmp/pipe.yaml" --stop-after 2
    ok "$path as a pipe: the run does not hang ($rc)" test "$rc" -ne 0 -a "$rc" -ne 124
    like "$path as a pipe: it says why" "$err" "$path: .*it is a pipe or a device, no plain file"
done

# Inside a save: names that the save will use, in its folder, cannot be foreseen; links among them are not followed.
run_file "$tmp/saved.yaml" "$tmp/saved"
mkdir -p "$tmp/saved/ckpt"
ln -s "$tmp" "$tmp/saved/ckpt/step-00000002.tmp.1"
run "$train" "$tmp/saved.yaml" --stop-after 2
is "a link among what a killed save left: the run goes on" "$rc" 0
ok "the link is gone, not what it led to" test ! -L "$tmp/saved/ckpt/step-00000002.tmp.1" -a -f "$tmp/victim"

# --- folders: a run.output on another file system is often a link ---------------------------------------
mkdir -p "$tmp/scratch/deep" "$tmp/scratch/ckpts"
ln -s "$tmp/scratch/deep" "$tmp/home-output"
run_file "$tmp/folders.yaml" "$tmp/home-output"
ln -s "$tmp/scratch/ckpts" "$tmp/scratch/deep/ckpt"
run mpi 2 "$train" "$tmp/folders.yaml" --stop-after 4
is "linked folders: it trains and saves" "$rc" 0
ok "linked folders: there" test -f "$tmp/scratch/ckpts/step-00000004/COMMIT" -a -f "$tmp/scratch/deep/metrics.jsonl"
run mpi 2 "$train" "$tmp/folders.yaml" --stop-after 6
like "linked folders: it resumes" "$err" 'checkpoint of step 4'
run "$run" exec "$tmp/folders.yaml" --ranks 2
is "linked folders: exec, too" "$rc" 0

tap_done
