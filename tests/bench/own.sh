#!/bin/sh
# own.sh - the planner against our own trainer on this machine: bytes, which must be equal, and step
# times, after `sennit-plan calibrate`.
#
# usage: tests/bench/own.sh [NAME...]      (default: every line of tests/bench/own/layouts)
#
# Tables on stdout (Markdown), progress on stderr. Exit 1 where bytes differ; a time that misses its
# target is in the table. ROUNDS (3) times calibrate, then STEPS (14) steps of each layout, of which the
# first two are left out; a time is the lower quartile of all steps (what disturbs a step only makes it
# longer), a plan the median of the rounds' plans. A layout is timed when its ranks x threads are not
# more than the cores. Wants an otherwise idle machine.
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/pace/lib.sh
plan=$BUILD/bin/sennit-plan
own=$BUILD/tests/bench/own/own
make --no-print-directory "$BUILD/bin/sennit-plan" "$BUILD/bin/sennit-train" "$BUILD/bin/sennit-data" \
    "$own" >/dev/null
prepare
rounds=${ROUNDS:-3} steps=${STEPS:-14} cores=$(nproc)
say() { echo "own: $*" >&2; }

value() { # line key default
    case " $1 " in
    *" $2="*)
        v=${1#* "$2"=}
        echo "${v%% *}"
        ;;
    *) echo "$3" ;;
    esac
}

ranks_of() { # line
    echo $(($(value "$1" data 1) * $(value "$1" tensor 1) * $(value "$1" context 1) * \
        $(value "$1" pipeline 1)))
}

run_file() { # line path output steps
    printf '%s\n' "$1" | awk -v out="$3" -v tok="$tmp/tok" -v steps="$4" '
    function put(section, key, value) {
        if (!((section, key) in text))
            order[section] = order[section] " " key
        text[section, key] = value
    }
    function show(section,    keys, n, i) {
        n = split(order[section], keys, " ")
        print section ":"
        for (i = 1; i <= n; i++)
            print "  " keys[i] ": " text[section, keys[i]]
    }
    {
        put("model", "family", "llama"); put("model", "layers", 4); put("model", "hidden", 256)
        put("model", "heads", 8); put("model", "ffn", 688); put("model", "vocab", 1024)
        put("model", "seq", 128); put("train", "steps", steps); put("train", "global_batch", 4)
        put("train", "eval_every", 0); put("layout", "data", 1); put("layout", "micro_batch", 1)
        put("layout", "bucket", "1MiB")
        for (i = 3; i <= NF; i++) {
            at = index($i, "=")
            key = substr($i, 1, at - 1)
            section = "layout"
            if (key ~ /^(family|layers|hidden|heads|kv_heads|ffn|vocab|seq|dropout)$/)
                section = "model"
            if (key ~ /^(precision|global_batch)$/)
                section = "train"
            put(section, key, substr($i, at + 1))
        }
        print "run: {name: own, seed: 11, output: " out ", threads: " $2 "}"
        print "data: {train: " tok "}"
        print "checkpoint: {dir: ckpt, every: 0}"
        show("model"); show("train"); show("layout")
    }' >"$2"
}

start() { # ranks command...
    n=$1
    shift
    if [ "$n" = 1 ]; then
        "$@"
    else
        # shellcheck disable=SC2086
        $LAUNCH "$n" "$@"
    fi
}

# --- what is run ----------------------------------------------------------------------------------
grep -v '^#' tests/bench/own/layouts | grep . >"$tmp/all"
if [ $# -gt 0 ]; then
    for name in "$@"; do
        grep "^$name " "$tmp/all" || die "tests/bench/own/layouts has no line $name"
    done >"$tmp/lines"
else
    cp "$tmp/all" "$tmp/lines"
fi
while read -r line; do
    name=${line%% *}
    run_file "$line" "$tmp/$name.yaml" "$tmp/out-$name" "$steps"
    run_file "$line" "$tmp/$name-4.yaml" "$tmp/out-$name-4" 4
    threads=$(echo "$line" | cut -d' ' -f2) n=$(ranks_of "$line")
    [ $((threads * n)) -gt "$cores" ] || echo "$name $n $threads" >>"$tmp/timed"
    echo "$name $n $threads" >>"$tmp/names"
    "$plan" "$tmp/$name.yaml" >/dev/null || die "$name: no plan"
done <"$tmp/lines"

# --- bytes ----------------------------------------------------------------------------------------
differ=0
while read -r name n threads; do
    say "$name: counting"
    mkdir -p "$tmp/out-$name-4"
    start "$n" "$own" "$tmp/$name-4.yaml" "$threads" >"$tmp/bytes-$name" 2>"$tmp/log" </dev/null || {
        differ=$((differ + 1))
        tail -n 5 "$tmp/log" >&2
    }
    [ -s "$tmp/bytes-$name" ] || die "$name: does not run"
done <"$tmp/names"

# --- times: one machine file for each kind of rank that is timed -------------------------------------
# This host is seldom idle for long: calibration and runs take turns, so that a slow minute meets both.
touch "$tmp/timed"
cut -d' ' -f2- "$tmp/timed" | sort -u >"$tmp/kinds"
calibrate() { # ranks threads file seconds run-file...
    n=$1 threads=$2 file=$3 seconds=$4
    shift 4
    say "calibrating $n ranks x $threads threads, $# run files"
    start "$n" "$plan" calibrate --threads "$threads" -o "$file" --seconds "$seconds" "$@" \
        2>"$tmp/log" </dev/null || {
        cat "$tmp/log" >&2
        die "calibrate failed"
    }
}

predict() { # name machine: seconds of a step
    { echo "machine: {file: $2}"; cat "$tmp/$1.yaml"; } >"$tmp/plan.yaml"
    "$plan" "$tmp/plan.yaml" --json | sed -n 's/.*"step_time_s": \([-0-9.e+]*\).*/\1/p'
}

train_kind() { # ranks threads round
    awk -v n="$1" -v t="$2" '$2 == n && $3 == t' "$tmp/timed" >"$tmp/kind"
    while read -r name n threads; do
        say "$name: training, round $3 of $rounds"
        rm -rf "$tmp/out-$name"
        start "$n" "$train" "$tmp/$name.yaml" --fresh >"$tmp/log" 2>&1 </dev/null || {
            tail -n 5 "$tmp/log" >&2
            die "$name: does not train"
        }
        column step_time_s "$tmp/out-$name/metrics.jsonl" | tail -n +3 >>"$tmp/times-$name"
        predict "$name" "$tmp/own-$n-$threads.yaml" >>"$tmp/own-$name"
        predict "$name" "$tmp/any-$n-$threads.yaml" >>"$tmp/any-$name"
    done <"$tmp/kind"
}

round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    while read -r n threads; do
        # shellcheck disable=SC2046  # one word per file
        set -- $(awk -v n="$n" -v t="$threads" -v d="$tmp/" '
            $2 == n && $3 == t { print d $1 ".yaml" }' "$tmp/timed")
        calibrate "$n" "$threads" "$tmp/own-$n-$threads.yaml" "$((($# + 1) / 2))" "$@"
        calibrate "$n" "$threads" "$tmp/any-$n-$threads.yaml" 4
        train_kind "$n" "$threads" "$round"
    done <"$tmp/kinds"
done

quarter() { # file: lower quartile of its numbers
    sort -n "$1" | awk '{ t[NR] = $1 } END { print t[int((NR + 3) / 4)] }'
}
middle() { # file: median of its numbers
    sort -n "$1" | awk '{ t[NR] = $1 } END { print (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2 }'
}

# --- tables -----------------------------------------------------------------------------------------
cat <<EOF
Bytes of $(wc -l <"$tmp/names") layouts: the largest arena of a rank as it was mapped, and what all ranks sent in a step, as
they were counted; $differ differ from the plan.

| layout | ranks | arena, planned | allocated | traffic, planned | counted |
|---|---|---|---|---|---|
EOF
while read -r name n threads; do
    read -r _ planned allocated _ promised counted <"$tmp/bytes-$name"
    echo "| $name | $n | $planned | $allocated | $promised | $counted |"
done <"$tmp/names"
cat <<EOF

Step times of $(wc -l <"$tmp/timed") layouts; "own kernels": after \`calibrate\` with these run files, "formula": without.

| layout | ranks x threads | measured ms | own kernels ms | error % | formula ms | error % |
|---|---|---|---|---|---|---|
EOF
while read -r name n threads; do
    echo "$name $n $threads $(quarter "$tmp/times-$name") $(middle "$tmp/own-$name") $(middle "$tmp/any-$name")"
done <"$tmp/timed" | tee "$tmp/results" | awk '{
    printf "| %s | %d x %d | %.2f | %.2f | %+.1f | %.2f | %+.1f |\n", $1, $2, $3, 1e3 * $4, 1e3 * $5, 100 * ($5 / $4 - 1), 1e3 * $6, 100 * ($6 / $4 - 1) }'
quantiles() { # field what
    awk -v f="$1" '{ e = $f / $4 - 1; print 100 * (e < 0 ? -e : e) }' "$tmp/results" | sort -n | awk -v what="$2" '
        { e[NR] = $1 } END { if (NR) printf "%s: median error %.1f %% (target 10), 90th percentile %.1f %%, largest %.1f %%.\n", what, (e[int((NR + 1) / 2)] + e[int(NR / 2) + 1]) / 2, e[int((9 * NR + 9) / 10)], e[NR] }'
}
echo
quantiles 5 "Own kernels"
quantiles 6 "Formula"
[ "$differ" = 0 ]
