#!/bin/sh
# demo.sh - the main job, small: real text in, a language model out. Run by `make demo`.
#
# Everything it makes lies in $BUILD/demo. Interrupted, it goes on where it was; finished, it starts
# the training again. Variables: RANKS=2 processes, TEXT=FILE instead of the dictionary.
set -eu
cd "$(dirname "$0")/.."

build=${BUILD:-build}
ranks=${RANKS:-2}
demo=$build/demo
stop_after=400 # of the steps in templates/runs/demo.yaml: then it stops once, to show a resume
mkdir -p "$demo"

say() {
    printf '\n== %s\n' "$*"
}

# Open MPI on one host: shared memory only, polite when idle, also as root and on a single core.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=vader,self OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none
command -v ssh >/dev/null || command -v rsh >/dev/null || export OMPI_MCA_plm_rsh_agent=

train() {
    mpirun -n "$ranks" "$build/bin/sennit-train" "$demo/demo.yaml" "$@"
}

# --- text -------------------------------------------------------------------------------------

# Prose out of dictd's layout: one paragraph a line, without pronunciations (\Ab"so*lute\), notes in
# square brackets, braces of references, and the mark-up of the file's head.
clean() {
    LC_ALL=C awk 'BEGIN { RS = "" }
         NR < 20 { next }
         {
             gsub(/\n/, " ")
             gsub(/\\[^\\]*\\,?/, "")
             gsub(/ \([^ ()]*["`*][^ ()]*\)/, "")
             gsub(/\[[^][]*\]/, ""); gsub(/\[[^][]*\]/, "")
             gsub(/[{}]/, "")
             gsub(/ +--[A-Z][A-Za-z.& ]*/, " ")
             gsub(/[^ -~]/, "")
             gsub(/ +/, " "); sub(/^ /, ""); sub(/ $/, "")
             if (length($0) > 30) print
         }'
}

corpus() {
    if [ -n "${TEXT:-}" ]; then
        cat "$TEXT"
        return
    fi
    dictionary=/usr/share/dictd/gcide.dict.dz
    if [ ! -e $dictionary ]; then
        # Only the file is wanted, not the dictionary server that an installation would start.
        echo "fetching Debian's package dict-gcide (15 MB)" >&2
        (cd "$demo" && { apt-get download dict-gcide >&2 || { apt-get update >&2 && apt-get download dict-gcide >&2; }; }) || {
            echo "demo: no $dictionary and no package dict-gcide; give a text of your own: make demo TEXT=FILE" >&2
            return 1
        }
        dpkg-deb -x "$demo"/dict-gcide_*.deb "$demo/gcide"
        dictionary=$demo/gcide$dictionary
    fi
    gzip -dc <"$dictionary" | clean
}

if [ ! -e "$demo/text.idx" ]; then
    say "1. Text: the GNU dictionary of English (gcide), as plain paragraphs"
    corpus >"$demo/ordered.txt"
    # In another order than the alphabet's, the same every time: validation must not be all Z.
    shuf --random-source="$demo/ordered.txt" "$demo/ordered.txt" >"$demo/text.txt"
    rm "$demo/ordered.txt"
    printf '%s bytes, beginning with:\n' "$(wc -c <"$demo/text.txt")"
    head -3 "$demo/text.txt" | cut -c1-100
    say "2. Tokens: one per byte, one per cent kept back for validation"
    "$build/bin/sennit-data" build --text "$demo/text.txt" -o "$demo/text" --valid 0.01
else
    say "1, 2. Text and tokens are there from an earlier run: $demo/text.bin"
fi

# --- training ---------------------------------------------------------------------------------

[ ! -e "$demo/finished" ] || rm -rf "$demo/run" "$demo/finished"
sed "s|build/demo|$demo|g" templates/runs/demo.yaml >"$demo/demo.yaml"

say "3. The plan: what the job will use, known before it starts"
"$build/bin/sennit-plan" "$demo/demo.yaml" --ranks "$ranks"

say "4. Training on $ranks ranks, as far as step $stop_after"
train --stop-after $stop_after

say "5. The same command again: it goes on from its own checkpoint"
train
touch "$demo/finished"

say "6. What $demo/run/metrics.jsonl recorded"
awk 'function value(key,   s) {
         if (!match($0, "\"" key "\": *[-+.0-9e]+")) return ""
         s = substr($0, RSTART, RLENGTH); sub(/.*: */, "", s); return s
     }
     {
         step = value("step")
         if (value("val_loss") != "") { printf "step %5d   validation loss %.3f\n", step, value("val_loss"); next }
         if (step == 1 || step % 50 == 0)
             printf "step %5d   loss %.3f   %d tokens/s\n", step, value("loss"), value("tokens_per_s")
     }' "$demo/run/metrics.jsonl"

say "7. What it has learnt: 300 bytes after 'The '"
"$build/bin/sennit-train" "$demo/demo.yaml" --generate "The " --tokens 300 --temperature 0.5
