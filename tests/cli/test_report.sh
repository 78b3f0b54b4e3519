#!/bin/sh
# test_report.sh - the page of sennit-plan --report: well-formed, alone, and of the figures that --json prints.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
need xmllint
plan=$BUILD/bin/sennit-plan

layout() { # file name nodes layout
    cat >"$1" <<EOF
run: {name: '$2'}
model: {preset: llama3-8b}
train: {steps: 100, global_batch: 64, precision: bf16}
machine: {preset: dgx-h100, nodes: $3}
layout: {$4}
EOF
}
layout "$tmp/a.yaml" 'two <nodes> & "one" fabric' 2 'data: 4, tensor: 2, pipeline: 2, micro_batch: 1, zero: 1'
layout "$tmp/b.yaml" 'one node' 1 'data: 2, tensor: 4, pipeline: 1, micro_batch: 32, recompute: full, zero: 1'

number() { # file key: the last is the plan's, not of its stages
    sed "s/.*\"$2\": \([0-9.e+-]*\).*/\1/" "$1"
}
text() { # page: its words, one element a line, digits not in threes
    sed 's/<style>/\n&/; s/></>\n</g' "$1" | sed 's/<[^>]*>//g; s/\([0-9]\),\([0-9]\)/\1\2/g; s/\([0-9]\),\([0-9]\)/\1\2/g; /^$/d'
}
says() { # sentence page line
    ok "$1: $3" grep -qxF -e "$3" "$2.txt"
}
as_seconds() { # number, as a plan prints it
    awk -v s="$1" 'BEGIN { u = s >= 1 ? "s" : s >= 1e-3 ? "ms" : "us"
        printf "%.4g %s", s * (s >= 1 ? 1 : s >= 1e-3 ? 1e3 : 1e6), u }'
}

for name in a b; do
    page=$tmp/$name.html
    run "$plan" "$tmp/$name.yaml" --json --report "$page"
    is "$name: exit code" "$rc$err" 0
    printf '%s\n' "$out" >"$tmp/$name.json"
    ok "$name: well-formed" xmllint --noout "$page"
    is "$name: nothing from elsewhere" "$(sed 's|xmlns="http://www.w3.org/2000/svg"||g' "$page" |
        grep -ciE 'https?://|src=|href=|url\(|@import|<script|<link|<img')" 0
    ok "$name: one rule for dark paper or more" grep -q 'prefers-color-scheme:dark' "$page"
    text "$page" >"$page.txt"
    json=$tmp/$name.json
    says "$name" "$page" "$(as_seconds "$(number "$json" step_time_s)")"
    says "$name" "$page" "$(awk -v m="$(number "$json" mfu)" 'BEGIN { printf "%.1f %%", 100 * m }')"
    says "$name" "$page" "$(number "$json" parameters | sed 's/.*/llama, & parameters, bf16; 64 sequences of 8192 tokens a step; a plan by sennit/')"
    for use in params grads optimizer activations workspace library total; do
        says "$name, $use" "$page" "$(number "$json" $use)"
    done
    for key in compute_s recompute_s update_s; do
        seconds=$(number "$json" $key)
        [ "$seconds" = 0 ] || says "$name, $key" "$page" "$(as_seconds "$seconds")"
    done
    for axis in tensor data pipeline world; do
        bytes=$(sed 's/.*"traffic_bytes": {\([^}]*\)}.*/\1/; s/.*"'$axis'": \([0-9]*\).*/\1/' "$json")
        [ "$bytes" = 0 ] || says "$name, bytes of $axis" "$page" "$bytes"
    done
    # What squares say sums to what axes do.
    is "$name: squares sum to the traffic" \
        "$(grep -o 'to [a-z]* [0-9]*: [0-9]* bytes' "$page" | awk '{ n += $4 } END { printf "%.0f", n }')" \
        "$(sed 's/.*"traffic_bytes": {\([^}]*\)}.*/\1/' "$json" | tr , '\n' | awk '{ n += $2 } END { printf "%.0f", n }')"
    is "$name: a bar of memory and one of time for each stage" "$(grep -o '<td class="bar">' "$page" | wc -l)" \
        "$((2 * $(grep -o '"bytes": {"params"' "$json" | wc -l)))"
done
ok "names are escaped" grep -qE '<h1>two &#60;nodes&#62; &#38; "one" fabric</h1>' "$tmp/a.html"
ok "the run's own layout is named beside the best" grep -qE 'this run: data 4 x tensor 2 x pipeline 2' "$tmp/a.html.txt"
ok "a search found it" grep -qE '[0-9]+ layouts \(orders of axes apart\), with sequence parallelism on' "$tmp/a.html.txt"
# A what-if is the plan of a file that says so.
ok "a what-if" grep -qE '^recompute full$' "$tmp/a.html.txt"
layout "$tmp/c.yaml" c 2 'data: 4, tensor: 2, pipeline: 2, micro_batch: 1, zero: 1, recompute: full'
"$plan" "$tmp/c.yaml" --json >"$tmp/c.json"
is "has the step of that file" "$(grep -xA1 'recompute full' "$tmp/a.html.txt" | tail -1)" "$(as_seconds "$(number "$tmp/c.json" step_time_s)")"
ok "what is refused says why" grep -qE '^refused: .*' "$tmp/b.html.txt"
"$plan" "$tmp/a.yaml" --json --verify >"$tmp/v.json"
ok "the hash is the certificate" \
    grep -qxF "programs $(sed 's/.*"certificate": "\([0-9a-f]*\)".*/\1/' "$tmp/v.json")" "$tmp/a.html.txt"

# --- refused ------------------------------------------------------------------------------------
run "$plan" "$tmp/b.yaml" --report "$tmp/none/a.html"
is "a page in a folder that is not there" "$rc$out" 2
is "has a sentence" "$err" "--report $tmp/none/a.html: No such file or directory"
run "$plan" "$tmp/none.yaml" --report "$tmp/new.html"
is "a run file that is not there" "$rc" 2
ok "leaves no empty page" test ! -e "$tmp/new.html"
run "$plan" "$tmp/b.yaml" --report "$tmp/new.html" --explain 0
is "a program is no page" "$rc" 2
is "which is said" "$err" "sennit-plan: --report is of the plan, --explain prints something else; want one of them"
tap_done
