#!/bin/sh
# test_compress.sh - layout.compress with lossy codecs in runs of several processes: traffic and memory are
# the plan's, replicas stay alike, the loss falls as it does without, and what gains nothing is refused. The lines of
# tests/equiv/compress that are near a run without, those marked smoke, or with ALL=1 (make check-equiv) all of them.
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/lib/layouts.sh
layout_steps=${STEPS:-4} # make check-equiv: 20

layout_tokens "$tmp/tok"
experts='family=mixtral experts={"count":4,"top_k":2,"aux_loss":0}'

# Losses against those of a run without codecs; marked `twice`, the same bits once more.
lossy() { # limit line
    limit=$1 name=${2%% *}
    layout_train "$2" "$tmp/$name"
    is "$name: trains" "$rc" 0
    layout_plan "$2" "$name" "$tmp/$name"
    plain=$(printf '%s\n' "$2" | sed 's/^[^ ]* //; s/ compress=[^ ]*//; s/ twice//; s/ smoke//')
    without=$tmp/plain-$(printf '%s' "$plain" | cksum | tr ' ' -)
    [ -f "$without/numbers" ] || layout_train "plain $plain" "$without"
    within "$name: losses are near those without codecs" \
        "$(worst "$tmp/$name/numbers" "$without/numbers")" "$limit"
    ok "$name: and are others" test "$(cat "$tmp/$name/numbers")" != "$(cat "$without/numbers")"
    case " $2 " in *' twice '*) ;; *) return 0 ;; esac
    layout_train "$2" "$tmp/$name-again"
    ok "$name: a second run gives the same bits" cmp "$tmp/$name/numbers" "$tmp/$name-again/numbers"
}

zfp=$(make -s info 2>/dev/null | grep 'left out: no zfp')
compress_lines near >"$tmp/near"
while read -r kind line; do
    case $line in
    *compress=naive* | *compress=zhybrid*) [ -z "$zfp" ] || { skip "${line%% *}" "this build has no libzfp" && continue; } ;;
    esac
    lossy "${kind#near=}" "$line"
done <"$tmp/near"

# --- what codecs lose, and milder ones --------------------------------------------------------------

layout_steps=20 # what gives way does so in every fourth, and is measured after that
line='guard data=2 tensor=2 zero=1 compress={"data":"int4","tensor":"int8","guard":0.05,"sample":4}'
layout_train "$line" "$tmp/guard"
is "with a guard: trains" "$rc" 0
like "and says what gives way" "$err" \
    'step 4: int4 has a relative error of 0\.[0-9]* in data messages, above layout.compress.guard \(0.05\): they are int8 from now on'
is "once" "$(printf '%s\n' "$err" | grep -c 'from now on')" 1
is "errors are in every fourth step's record" "$(grep -c codec_error "$tmp/guard/metrics.jsonl")" 5
data=$(sed -n 's/.*"codec_error": {"data": \([0-9.e-]*\).*/\1/p' "$tmp/guard/metrics.jsonl")
ok "int4's is large, int8's small afterwards ($data)" awk -v e="$data" 'BEGIN {
    n = split(e, x, "\n"); exit !(n == 5 && x[1] > 0.05 && x[2] < 0.02 && x[5] < 0.02) }'
sent=$(sed -n 's/.*"traffic_bytes": {[^}]*"data": \([0-9]*\).*/\1/p' "$tmp/guard/metrics.jsonl" | tr '\n' ' ')
ok "and more is sent from the fifth step on ($sent)" awk -v e="$sent" 'BEGIN {
    split(e, x, " "); exit !(x[4] == x[1] && x[5] > 1.05 * x[1] && x[20] == x[5]) }'
layout_train "$line" "$tmp/guard-again"
ok "a second run gives the same bits" cmp "$tmp/guard/numbers" "$tmp/guard-again/numbers"
layout_train "ep-guard $experts data=2 expert=2 compress={\"expert\":\"int4\",\"data\":\"int8\",\"guard\":0.001,\"sample\":4}" \
    "$tmp/ep-guard"
is "tokens are not measured: trains" "$rc" 0
ok "and no record has what they lose" sh -c \
    'grep -q "codec_error\": {\"data\"" "$1" && ! grep -q "codec_error.*\"expert\": 0" "$1"' sh "$tmp/ep-guard/metrics.jsonl"
is "nor do they give way" "$(printf '%s\n' "$err" | grep -c 'expert messages')" 0
run "$BUILD/bin/sennit-plan" "$tmp/guard.yaml" --verify
is "a program with room for milder codecs is proven$err" "$rc" 0

# --- what is refused --------------------------------------------------------------------------------

refused() { # compress sentence [line]
    layout_file "bad ${3:-data=2 zero=1} compress=$1" "$tmp/bad.yaml" "$tmp/bad"
    run "$BUILD/bin/sennit-plan" "$tmp/bad.yaml"
    is "$1 is refused" "$rc" 2
    like "with what would work" "$err" "$2"
}
refused '{"data":"int5"}' "layout.compress.data: 'int5' is no codec; want none, bf16"
refused '{"data":"int8-diff"}' "'int8-diff' is no codec"
refused '{"zero":"mpc-diff"}' 'gains nothing by differences; use mpc'
refused '{"zero":"int4-diff"}' 'layout.zero is 3; use stage 1 or 2' 'data=2 zero=3'
refused '{"data":"mpc","feedback":true}' 'loses nothing; use a lossy codec'
refused '{"data":"int4","feedback":true}' 'precision is fp16; use bf16 or fp32' 'data=2 precision=fp16'
refused '{"expert":"mpc"}' 'mpc gains nothing' \
    'family=mixtral experts={"count":4} data=2 expert=2'
refused 'gzip' 'layout.compress.scheme'
refused '{"tensor":"zfp-2"}' 'zfp-3 to zfp-32'
tap_done
