#!/bin/sh
# ted.sh - DeepSpeed-TED's passes in small: step times of a mixture of experts with duplicates dropped, with
# recomputation that is aware of communication, with both, against the baseline; and what the plan says.
#
# usage: tests/bench/pace/ted.sh [REGIME...]      default: all three; root only, else it says that it skips
#        and exits with 77
#
# far   2 hosts; tensor ranks share one, experts are across the link: where the passes should pay
# near  2 hosts; experts share one, tensor ranks are across the link: where dropping should not pay
# fast  as far, with a link 50 times as fast: where there is little to save
#
# RATE (100mbit), FLOPS (4e9), STEPS (4) and REPEATS (1) in the environment replace the defaults.
# Ranks sleep instead of computing and communicate for real (tests/bench/paced.sh says how). The model has
# experts in every second layer, 16 of them, top 1: its experts have 5 times the parameters of the rest, as in the
# paper's 40B (arXiv 2303.06318, 7; a 6.7B base). All is computed again, sequences are whole.
# Before anything is timed the layouts train alike, computing.
set -eu
cd "$(dirname "$0")/../../.."
. tests/bench/pace/lib.sh
netns=tests/bench/pace/netns.sh
rate=${RATE:-100mbit} steps=${STEPS:-4} ranks=4 hosts=2
family=mixtral layers=4 hidden=128 ffn=344 batch=16 seq=128 micro=4
model=', experts: {count: 16, top_k: 1, every: 2, aux_loss: 0}'
base='data: 2, tensor: 2, expert: 2, sequence_parallel: false, recompute: full, expert_buffer: 2.0, bucket: 256KiB'
base="$base, placement: default" # else the ranks of near would be arranged as those of far
base="$base, expert_chunks: 1"   # as in the paper; auto would ask the machine, which only the plan is told

leave() {
    $netns down "$tmp/n"
    rm -rf "$tmp"
}
trap leave EXIT

variant_keys() { # name
    case $1 in
    baseline) echo '' ;;
    drop) echo ', drop_duplicates: true' ;;
    aware) echo ', comm_aware_recompute: true' ;;
    both) echo ', drop_duplicates: true, comm_aware_recompute: true' ;;
    esac
}

order() { # regime
    case $1 in near) echo ', axis_order: [data, tensor, context, expert, pipeline]' ;; esac
}

# The same numbers first.
check() {
    for v in baseline drop aware both; do
        layout=$base$(variant_keys $v)
        steps=3 losses $ranks "$tmp/losses-$v"
        [ $v = baseline ] || same_losses "$tmp/losses-baseline" "$tmp/losses-$v" "$v"
    done
}

links() { # rate
    $netns up "$tmp/n" $hosts "$1" || exit # 77: it has said why not
    $LAUNCH 4 "$BUILD/tests/bench/pace/links" $hosts >"$tmp/links"
    $netns down "$tmp/n"
}

device() {
    cat <<YAML
device:
  memory: 1GiB
  bandwidth: 1.0e10
  overhead: 0.0
  peak: {fp32: ${FLOPS:-4.0e9}}
  gemm: {fp32: {most: 0.9, half_m: 8, half_n: 8, half_k: 8}}
YAML
}

one() { # regime variant
    layout=$base$(variant_keys "$2")$(order "$1")
    planned_and_paced $ranks
    bytes=$(sed 's/.*"traffic_bytes": {\([^}]*\)}.*/\1/' "$tmp/first")
    expert=$(echo "$bytes" | sed 's/.*"expert": \([0-9]*\).*/\1/')
    tensor=$(echo "$bytes" | sed 's/.*"tensor": \([0-9]*\).*/\1/')
    kept=$(sed 's/.*"activations": \([0-9]*\).*/\1/' "$tmp/plan.json")
    [ "$2" != baseline ] || { m0=$m && p0=$p; }
    awk -v r="$1" -v v="$2" -v m="$m" -v p="$p" -v m0="$m0" -v p0="$p0" -v e="$expert" -v t="$tensor" -v k="$kept" 'BEGIN {
        printf "| %s | %s | %.0f | %+.1f %% | %.0f | %+.1f %% | %.2f | %.2f | %.2f |\n", r, v, m * 1e3, 100 * (m0 / m - 1),
            p * 1e3, 100 * (p0 / p - 1), e / 1e6, t / 1e6, k / 1e6 }'
}

prepare
[ -x "$BUILD/tests/bench/pace/links" ] || make --no-print-directory "$BUILD/tests/bench/pace/links" >/dev/null
check
LAUNCH="nice -n -19 $netns run $tmp/n"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
printf '\n| regime | passes | measured ms | faster | predicted ms | faster | expert MB | tensor MB | activations MB |\n|---|---|---|---|---|---|---|---|---|\n'
for regime in ${*:-far near fast}; do
    case $regime in
    far | near) at=$rate ;;
    fast) at=$(echo "$rate" | awk '{ printf "%d%s", 50 * $1, substr($1, length($1 + 0) + 1) }') ;;
    *) die "no regime '$regime'; want far, near or fast" ;;
    esac
    links "$at"
    device | measured_machine $((ranks / hosts))
    $netns up "$tmp/n" $hosts "$at" || exit
    for v in baseline drop aware both; do one "$regime" $v; done
    $netns down "$tmp/n"
done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
