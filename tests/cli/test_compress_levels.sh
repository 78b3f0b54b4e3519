#!/bin/sh
# test_compress_levels.sh - layout.compress.node: sums and gathers of replicas on two levels, in runs of
# several processes. Lossless codecs give a run without codecs but for the order of sums, and its
# bits where nothing is summed; nodes of one replica or of all have one level (lossy ones: test_compress.sh).
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/lib/layouts.sh
layout_steps=${STEPS:-4} # make check-equiv: 20

layout_tokens "$tmp/tok"
levels='"data":"mpc/mpc","zero":"mpc","node"'

# The order of sums alone is another: a node's first.
lossless() { # line node
    name=${1%% *}
    layout_train "$1" "$tmp/$name"
    is "$name: trains without codecs" "$rc" 0
    coded="$1 compress={$levels:$2}"
    layout_train "$coded" "$tmp/$name-two"
    is "$name: and with lossless ones in two levels" "$rc" 0
    within "$name: losses and norms are those without" \
        "$(worst "$tmp/$name/numbers" "$tmp/$name-two/numbers")" "$(layout_limit "$1")"
    run "$BUILD/bin/sennit-plan" "$tmp/$name-two.yaml" --verify
    is "$name: the program is proven free of deadlocks$err" "$rc" 0
    run "$BUILD/bin/sennit-plan" "$tmp/$name-two.yaml" --explain 0
    like "$name: sums inside nodes" "$out" ' all_to_all .* group=data node'
    like "$name: and between them" "$out" ' all_to_all .* group=data rail'
    like "$name: gathers between nodes" "$out" ' all_gather .* group=data rail'
    like "$name: and inside" "$out" ' all_gather .* group=data node'
}

# The lines of tests/equiv/compress in two levels that are marked smoke, or with ALL=1 (make check-equiv) all of them.
compress_lines levels >"$tmp/levels"
while read -r kind line; do
    lossless "$line" "${kind#levels=}"
done <"$tmp/levels"

line='gathers data=4 zero=1 compress={"zero":"mpc","node":2}'
layout_train 'gathers data=4 zero=1' "$tmp/plain"
layout_train "$line" "$tmp/gathers"
is "weights alone are gathered in two levels" "$rc" 0
ok "and have the same bits" cmp "$tmp/plain/numbers" "$tmp/gathers/numbers"

two='"data":"int8/int4-hadamard","zero":"int8/int4-diff"'

# On nodes of one replica, or one node of all, there is one level, with one of the two codecs.
same_as() { # name node compress
    layout_train "$1 data=4 zero=1 compress={$two,\"node\":$2}" "$tmp/$1"
    layout_train "$1 data=4 zero=1 compress=$3" "$tmp/$1-one"
    is "$1: trains" "$rc" 0
    ok "$1: has the bits of $3" cmp "$tmp/$1/numbers" "$tmp/$1-one/numbers"
}
same_as apart 1 '{"data":"int4-hadamard","zero":"int4-diff"}'
same_as together 4 '{"data":"int8","zero":"int8-diff"}'

# A guard: both levels' codecs give way together, and the steps after that run, too.
layout_steps=8
line="guard data=4 zero=1 compress={$two,\"guard\":0.05,\"sample\":4,\"node\":2}"
layout_train "$line" "$tmp/guard"
is "with a guard: trains" "$rc" 0
like "and says what gives way" "$err" 'from now on'
run "$BUILD/bin/sennit-plan" "$tmp/guard.yaml" --verify
is "and is proven$err" "$rc" 0

# --- what the placement says ------------------------------------------------------------------------

auto() { # name devices line
    layout_file "$3" "$tmp/$1.yaml" "$tmp/$1"
    cat >"$tmp/$1-box.yaml" <<EOF
name: box
device:
  name: a box
  memory: 1GiB
  bandwidth: 1.0e10
  overhead: 1.0e-6
  peak: {fp32: 1.0e11}
  gemm: {fp32: {most: 0.5}}
  attention: {forward: 0.5, backward: 0.5}
node: {devices: $2}
links:
  - {name: inside, ranks: $2, latency: 1.0e-6, device: 1.0e9}
  - {name: outside, ranks: 0, latency: 1.0e-5, device: 1.0e8}
EOF
    echo "machine: {file: $tmp/$1-box.yaml}" >>"$tmp/$1.yaml"
    run "$BUILD/bin/sennit-plan" "$tmp/$1.yaml" --explain 0
    is "$1: is planned$err" "$rc" 0
}
auto two-nodes 2 "two-nodes data=4 zero=1 compress={$two}"
like "nodes of two: two levels" "$out" 'group=data rail'
auto four 4 "four data=4 zero=1 compress={$two}"
like "one node: the first codec, all at once" "$out" 'encode .* int8 x'
ok "and no other" test -z "$(printf '%s' "$out" | grep -e 'data rail' -e int4)"
auto alone 1 "alone data=4 zero=1 compress={$two}"
like "each on a node of its own: the second" "$out" 'encode .* int4-hadamard x'
ok "and no other" test -z "$(printf '%s' "$out" | grep -e 'data rail' -e int8)"
auto strided 4 "strided data=4 tensor=2 zero=1 compress={$two}"
like "two of each node's four: two levels" "$out" 'group=data rail'
auto uneven 3 "uneven data=4 zero=1 compress={$two}"
ok "uneven nodes: one level" test -z "$(printf '%s' "$out" | grep 'data rail')"

# --- what is refused --------------------------------------------------------------------------------

refused() { # compress sentence [line]
    layout_file "bad ${3:-data=4 zero=1} compress=$1" "$tmp/bad.yaml" "$tmp/bad"
    run "$BUILD/bin/sennit-plan" "$tmp/bad.yaml"
    is "$1 is refused" "$rc" 2
    like "with what would work" "$err" "$2"
}
refused '{"data":"int8","node":3}' 'layout.compress.node: 3 does not divide data x context \(4 x 1\); nearest that do: 2 or 4'
refused '{"data":"int8","node":4}' 'layout.compress.node: 4 is neither a divisor nor a multiple of layout.context \(6\); nearest' 'data=4 context=6 global_batch=12'
refused '{"tensor":"int8","node":2}' 'layout.compress.node: 2, but gradients and weights are not compressed'
refused '{"tensor":"int8/int4"}' 'two codecs, inside nodes and between them, are for data and zero; want one'
refused '{"data":"int8/int5"}' "'int8/int5' is no codec"
refused '{"data":"none/int4"}' "'none/int4' is no codec"
refused '{"zero":"int8/mpc-diff"}' 'gains nothing by differences'
refused '{"data":"mpc/int4","feedback":true}' 'mpc, which loses nothing inside a node'
experts='family=mixtral experts={"count":4} data=4 zero=1'
refused '{"data":"int8/int4"}' 'of a model with experts are not built yet; use one' "$experts"
refused '{"data":"int8","node":2}' '2 with a model with experts is not built yet; use 1 or auto' "$experts"
tap_done
