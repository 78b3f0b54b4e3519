# lib.sh - helpers of the paced benchmarks. Source it from the root of the tree.
#
# LAUNCH RANKS COMMAND... starts a job (default: tests/mpi/run -n). Medians leave step 1 out.
# shellcheck shell=sh disable=SC2034
BUILD=${BUILD:-build}
export BUILD
LAUNCH=${LAUNCH:-tests/mpi/run -n}
train=$BUILD/bin/sennit-train
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

die() {
    echo "$0: $*" >&2
    exit 1
}

prepare() {
    [ -x "$train" ] || die "no $train; run make first"
    "$BUILD/bin/sennit-data" build --text docs/STYLE.md LICENSE -o "$tmp/tok" >/dev/null
}

# Variables set before the call replace the defaults; `layout` is the inside of the mapping, `model` ends that
# of the model.
run_file() { # path output
    cat >"$1" <<YAML
run: {name: pace, seed: 7, output: $2, threads: 1}
model: {family: ${family:-llama}, layers: ${layers:-4}, hidden: ${hidden:-512}, heads: 4, kv_heads: 4, ffn: ${ffn:-1376}, vocab: 256, seq: ${seq:-64}${model:-}}
data: {train: $tmp/tok}
train: {steps: ${steps:-6}, global_batch: ${batch:-4}, eval_every: 0, optimizer: {lr: 1.0e-4}, schedule: {warmup: 0}}
layout: {micro_batch: ${micro:-1}, $layout}
checkpoint: {dir: ckpt, every: 0}
YAML
}

machine() { # path flops [bandwidth]
    printf 'flops: %s\nmemory_bandwidth: %s\noverhead: 0.0\n' "$2" "${3:-1.0e15}" >"$1"
}

# A machine file with the links that pace/links has measured; the lines of the device come from stdin.
measured_machine() { # ranks of a host
    {
        printf 'name: paced\nsource: links measured by tests/bench/pace/links; the device is made up, and slept\n'
        cat
        printf 'node: {devices: %d}\ncollectives: direct\n' "$1"
        sed -e '/^#/d' -e "s/name: host, ranks: [0-9]*/name: host, ranks: $1/" "$tmp/links"
    } >"$tmp/m.yaml"
}

# The layout in $layout on that machine: its plan in $tmp/plan.json and $p, the median of paced steps in $m,
# the first of them in $tmp/first.
planned_and_paced() { # ranks
    rm -rf "$tmp/out"
    run_file "$tmp/r.yaml" "$tmp/out"
    { cat "$tmp/r.yaml" && echo "machine: {file: $tmp/m.yaml}"; } >"$tmp/p.yaml"
    "$BUILD/bin/sennit-plan" "$tmp/p.yaml" --ranks "$1" --json >"$tmp/plan.json"
    : >"$tmp/times"
    for _ in $(seq "${REPEATS:-1}"); do
        launch "$1" --pace "$tmp/m.yaml"
        column step_time_s "$tmp/out/pace.jsonl" | tail -n +2 >>"$tmp/times"
        sed -n 1p "$tmp/out/pace.jsonl" >"$tmp/first"
        rm -rf "$tmp/out"
    done
    m=$(sort -n "$tmp/times" | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }')
    p=$(column step_time_s "$tmp/plan.json")
}

launch() { # ranks options...: runs $tmp/r.yaml
    n=$1
    shift
    # shellcheck disable=SC2086
    $LAUNCH "$n" "$train" "$tmp/r.yaml" "$@" >"$tmp/log" 2>&1 </dev/null || {
        cat "$tmp/log" >&2
        die "a run with $n ranks failed"
    }
}

column() { # key file
    sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$2"
}

median() { # file: of step times
    column step_time_s "$1" | tail -n +2 | sort -n |
        awk '{ t[NR] = $1 } END { if (!NR) exit 1; print t[int((NR + 1) / 2)] }'
}

paced() { # ranks flops: median step time; the layout is in $layout
    rm -rf "$tmp/out"
    run_file "$tmp/r.yaml" "$tmp/out"
    machine "$tmp/m.yaml" "$2"
    launch "$1" --pace "$tmp/m.yaml"
    median "$tmp/out/pace.jsonl"
}

real() { # ranks: median step time, computing
    rm -rf "$tmp/out"
    run_file "$tmp/r.yaml" "$tmp/out"
    launch "$1" --fresh
    median "$tmp/out/metrics.jsonl"
}

losses() { # ranks file: of a computing run
    real "$1" >/dev/null
    column loss "$tmp/out/metrics.jsonl" >"$2"
}

# The result first: nothing is timed when the layouts do not train alike.
same_losses() { # file file what
    paste "$1" "$2" | awk '
        NF != 2 { exit 2 }
        { d = $1 - $2; d = d < 0 ? -d : d; if (d > 1e-5 * $2) bad = 1 }
        END { exit bad || !NR }' || die "$3: losses differ: $(paste "$1" "$2" | tr '\n' ';')"
    echo "checked: $3 gives the same losses"
}

calc() { # awk expression
    awk "BEGIN { printf \"%.3f\", $1 }"
}
