#!/bin/sh
# bits.sh - every line of tests/equiv/bits: after 100 steps the sha256 of the weights is one for each
# family.
#
# usage: tests/equiv/bits.sh [FAMILY...]      only these
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/lib/bits.sh
steps=${STEPS:-100} batch=48 layers=4 heads=16 kv_heads=16 ffn=128 seq=32
cat docs/STYLE.md LICENSE docs/*.md >"$tmp/text"
"$BUILD/bin/sennit-data" build --text "$tmp/text" -o "$tmp/tok" >/dev/null
families=$*
count=0 before= first=none

check() { # family ranks key=value...
    kind=$1 family=$1 ranks=$2
    shift 2
    resumes='' keys='' machine=''
    for key; do
        case $key in
        RESUME) resumes=1 ;;
        MACHINE) machine='{preset: lassen, nodes: 1}' ;;
        *) keys="$keys${keys:+, }${key%%=*}: ${key#*=}" ;;
        esac
    done
    model=''
    [ "$kind" != mtp ] || model='mtp: 2' family=llama
    [ "$family" != gpt-neox ] || model='rotary_pct: 0.5'
    [ "$family" != mixtral ] || model='experts: {count: 4, top_k: 2, aux_loss: 0.0}'
    count=$((count + 1))
    name="$kind-$count"
    if [ -n "$resumes" ]; then
        bits_file "$tmp/$name.yaml" "$tmp/$name" "$keys"
        run mpi "$ranks" "$BUILD/bin/sennit-train" "$tmp/$name.yaml" --stop-after 40
        bits_run "$name" 1 ''
    else
        bits_run "$name" "$ranks" "$keys"
    fi
    if [ "$kind" != "$before" ]; then
        rm -rf "${tmp:?}/$first"
        before=$kind one=$hash first=$name
        ok "$kind: $hash" test "$hash" != failed
    else
        is "$kind on $ranks: ${keys:-one rank}${resumes:+, then on one rank}" "$hash" "$one"
        [ "$kind" != mtp ] || {
            bits_diff "$first" "$name"
            is "and with blocks of model.mtp" "$rc" 0
        }
        rm -rf "${tmp:?}/$name"
    fi
}

while read -r family rest; do
    case $family in '' | '#'*) continue ;; esac
    # shellcheck disable=SC2086
    case " ${families:-$family} " in *" $family "*) check "$family" $rest </dev/null ;; esac
done <tests/equiv/bits
tap_done
