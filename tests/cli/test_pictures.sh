#!/bin/sh
# test_pictures.sh - sennit-plan's drawing, trace and timeline, and how often it says to save.
set -u
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
need xmllint
plan=$BUILD/bin/sennit-plan json=$BUILD/tests/cli/plan_json golden=tests/golden/plans

xml() { # sentence file: does a parser of XML take it?
    ok "$1" xmllint --noout "$2"
}

# --- drawing and trace: gpipe, interleaved, zero-bubble, ZeRO 3, 512 micro-batches ---------------
for name in leonardo marconi100 perlmutter-80 juwels-booster dgx-a100-80; do
    run env SN_LOG=error "$plan" "$golden/$name.yaml" --svg "$tmp/$name.svg" --trace "$tmp/$name.json"
    is "$name: drawn and traced" "$rc$err" 0
    xml "$name: the drawing is XML" "$tmp/$name.svg"
    run "$json" parse "$tmp/$name.json"
    is "$name: the trace is JSON" "$rc$err" 0
    like "$name: the drawing says the step's time" "$(cat "$tmp/$name.svg")" 'one step takes [0-9.]+ m?s, MFU'
    ok "$name: stages are on one line of time" test "$(grep -c '>stage [0-9]*<' "$tmp/$name.svg")" -ge 3
done
like "a long step is drawn in stretches, and says so" "$(cat "$tmp/dgx-a100-80.svg")" \
    'Drawn are the step.s beginning, a stretch of its middle and its end'
is "the trace has every forward of 16 stages and 512 micro-batches" \
    "$(grep -c '"cat":"forward"' "$tmp/dgx-a100-80.json")" 8192

# The last event of the trace ends when the plan says that the step does.
step=$("$plan" "$golden/marconi100.yaml" --json | grep -oE '"step_time_s": [0-9.]+' | sed 's/.* //')
ok "the trace ends with the step" awk -v want="$step" '
    /"ph":"X"/ {
        match($0, /"ts":[0-9.]+/); t = substr($0, RSTART + 5, RLENGTH - 5)
        match($0, /"dur":[0-9.]+/); t += substr($0, RSTART + 6, RLENGTH - 6)
        if (t > end) end = t
    }
    END { d = end * 1e-6 / want - 1; exit !(d < 1e-7 && d > -1e-7) }' "$tmp/marconi100.json"

# --- timeline -----------------------------------------------------------------------------------
# With less kept it fits: a text of what does not would begin with a search.
sed 's/zero: 1/zero: 1, recompute: full/' "$golden/dgx-h100.yaml" >"$tmp/fits.yaml"
LC_ALL=C run "$plan" "$tmp/fits.yaml" --timeline
is "eight stages are eight lines" "$(printf '%s\n' "$out" | grep -cE '^stage +[0-7] \|.* %$')" 8
is "in ASCII" "$(printf '%s\n' "$out" | grep '^stage  *[0-7] |' | LC_ALL=C tr -d ' -~\n')" ''
is "of 100 columns at most and nearly" "$(printf '%s\n' "$out" | grep '^stage  *[0-7] |' |
    awk '{ print (length($0) > 96 && length($0) <= 100) }' | sort -u)" 1
LC_ALL=C.UTF-8 run "$plan" "$tmp/fits.yaml" --timeline
like "in UTF-8 where that is spoken" "$out" '^stage   0 │'

# --- what cannot be written ---------------------------------------------------------------------
run "$plan" "$golden/laptop-cpu.yaml" --svg "$tmp/none/a.svg"
is "a drawing in a folder that is not there" "$rc" 1
like "has a sentence" "$err" "^sennit: --svg $tmp/none/a.svg: No such file or directory|--svg $tmp/none/a.svg: No such file"
if [ -w /dev/full ]; then
    run "$plan" "$golden/laptop-cpu.yaml" --trace /dev/full
    is "a trace on a full disk" "$rc" 1
    like "has one too" "$err" '--trace /dev/full: No space left on device'
else
    skip "a trace on a full disk" "no /dev/full"
fi
run "$plan" "$golden/laptop-cpu.yaml" --timeline --json
is "a timeline is no JSON" "$rc" 2
like "which is said" "$err" '--timeline prints text and --json an object; want one of them'

# --- how often to save --------------------------------------------------------------------------
run "$plan" "$golden/lassen.yaml"
like "rates that no one gave are assumed, aloud" "$out" '\(failures and storage assumed\)'
run "$plan" "$golden/lassen.yaml" --mtbf-hours 1000 --storage 10GB
like "a failure of 48 nodes each 1000 hours" "$out" '^  a failure every 20\.8 h, 24\.[0-9] s without training for a save'
like "checkpoints are rarer than their pause" "$out" '^goodput: a checkpoint \(2[0-9]+ GiB\) every [0-9]+ steps \([0-9]+ min\) leaves 9[0-9.]+ %'
run "$plan" "$golden/lassen.yaml" --mtbf-hours 0
is "no rate is no rate" "$rc" 2
like "and has bounds" "$err" '--mtbf-hours'
tap_done
