# layouts.sh - the lines of tests/equiv/layouts as runs of processes. Source after tap.sh and train.sh.
# tests/lib/layouts.c reads the same lines for ranks as threads; the table's head says what a line is.
# shellcheck shell=sh disable=SC2034,SC2154

table=tests/equiv/layouts
# Of every run, an even number; with validation in the middle and at the end. Tests of make check take fewer unless STEPS
# says how many: check-equiv says 20.
layout_steps=${STEPS:-20}

# Text in 61 different bytes, 0 .. 60, so that every row of the embedding has a gradient.
layout_tokens() { # prefix
    cat docs/STYLE.md LICENSE | tr -dc 'a-zA-Z \n.,:()/-' |
        LC_ALL=C tr 'a-zA-Z \n.,:()/\055' '\000-\074' >"$tmp/text"
    "$BUILD/bin/sennit-data" build --text "$tmp/text" -o "$1" --valid 0.2 >/dev/null
    # The same in documents of 10 tokens or so: what is byte 10, the end of a line, is now the most frequent letter.
    tr '\004\012' '\012\004' <"$tmp/text" >"$tmp/text-docs"
    # Two of five tokens do not count, others in each row of 48, and up to 6 at the begin of a document.
    od -An -v -tu1 "$tmp/text-docs" |
        awk '{ for (i = 1; i <= NF; i++) {
            printf "%s%d%s", (n++ * 7 + int(n / 48)) % 5 < 2 || at < document % 7 ? "-" : "", $i, $i == 10 ? "\n" : " "
            at++
            if ($i == 10) { document++; at = 0 }
        } }' |
        "$BUILD/bin/sennit-data" build --tokens --masked - --vocab 61 -o "$1-docs" --valid 0.2 >/dev/null
    # A document a sample of 48 tokens, with features in front of it, and a mask.
    od -An -v -tu1 -w48 "$tmp/text" | sed 's/^ *//' >"$tmp/text-prompt"
    layout_prompt "$1-prompt" <"$tmp/text-prompt" 1 200
    layout_prompt "$1-prompt-valid" <"$tmp/text-prompt" 201 240
    cut -c 1-64 "$tmp/text" >"$tmp/text-b"
    "$BUILD/bin/sennit-data" build --text "$tmp/text-b" -o "$1-b" --valid 0.2 >/dev/null
}

# Documents FIRST .. LAST of those that come in, and PREFIX.npy with [4, 6] numbers of each: float16 of 1, -1, 0.5 and 2.
layout_prompt() { # prefix first last
    sed -n "$2,$3p" >"$tmp/documents"
    awk '{ for (i = 1; i <= NF; i++) printf "%s%s ", (i <= NR * 5 % 11 || (NR + i) % 5 < 2) ? "-" : "", $i; print "" }' "$tmp/documents" |
        "$BUILD/bin/sennit-data" build --tokens --masked - -o "$1" --vocab 61 >/dev/null
    {
        printf '\223NUMPY\001\000\166\000'
        printf '%-117s\n' "{'descr': '<f2', 'fortran_order': False, 'shape': ($(($3 - $2 + 1)), 4, 6), }"
        awk '{ for (i = 1; i <= 24; i++) printf "z%s", substr("abcd", ($i + $(49 - i)) % 4 + 1, 1) }' "$tmp/documents" |
            tr 'zabcd' '\000\074\274\070\100'
    } >"$1.npy"
}

# What tests/equiv/compress has of a kind: "KIND LINE"; ranks as threads run all of it, so those marked smoke do, unless ALL.
compress_lines() { # kind
    grep "^$1[ =]" tests/equiv/compress | if [ -n "${ALL:-}" ]; then cat; else grep ' smoke'; fi
}

layout_line() { # name: its line
    grep "^$1 " "$table"
}

layout_value() { # line key default
    case " $1 " in
    *" $2="*)
        layout_v=${1#* "$2"=}
        echo "${layout_v%% *}"
        ;;
    *) echo "$3" ;;
    esac
}

layout_ranks() { # line
    echo $(($(layout_value "$1" data 1) * $(layout_value "$1" tensor 1) * $(layout_value "$1" tensor_x 1) * \
        $(layout_value "$1" context 1) * $(layout_value "$1" pipeline 1)))
}

# What decides the numbers: the model and how it is trained, without name, layout and marks.
layout_reference() { # line
    printf '%s\n' "$1" | awk '{
        data = micro = 1
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^(family|layers|hidden|heads|ffn|kv_heads|latent|dropout|tied_embeddings|experts|share_layers|head_dim|rope_scaling|no_rope_every|attention_scale|attention_bias|mlp_bias|dense_ffn|logit_cap|rope_local_theta|embed_scale|residual_scale|logits_divisor|sliding_window|global_every|score_cap|mtp|documents|loss|prefix|curriculum|precision|freeze|lora|prompt|optimizer|global_batch|ramp|z_loss|mtp_loss|ema|groups|sparse|mup|seed|blend)=/)
                printf " %s", $i
            if ($i ~ /^data=/) data = substr($i, 6)
            if ($i ~ /^micro_batch=/) micro = substr($i, 13)
            if ($i ~ /^experts=/ && $i !~ /"aux_loss":0[,}]|"balance":"sequence"/) balanced = 1
        }
        if (balanced && data * micro > 1) # over the tokens that are computed at once
            printf " micro_batch=%d", data * micro
    }'
}

layout_file() { # line path output
    printf '%s\n' "$1" | awk -v out="$3" -v tok="$tmp/tok" -v steps="$layout_steps" '
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
        put("model", "family", "llama"); put("model", "layers", 4); put("model", "hidden", 48)
        put("model", "heads", 12); put("model", "ffn", 80); put("model", "vocab", 61)
        put("model", "seq", 48); put("model", "init_std", 0.05)
        put("train", "steps", steps); put("train", "global_batch", 12); put("train", "eval_every", steps / 2)
        put("train", "optimizer", "{lr: 3.0e-4, weight_decay: 0.1, clip: 1.0}")
        put("train", "schedule", "{kind: cosine, warmup: " (steps > 5 ? 5 : 2) ", min_lr: 3.0e-5}")
        put("layout", "data", 1); put("layout", "bucket", "20KiB")
        for (i = 2; i <= NF; i++) {
            if (!(at = index($i, "=")) || $i ~ /^resume=/)
                continue
            key = substr($i, 1, at - 1)
            section = "layout"
            if (key == "seed" || key == "blend") {
                apart[key] = substr($i, at + 1)
                continue
            }
            if (key ~ /^(family|layers|hidden|heads|ffn|kv_heads|latent|dropout|tied_embeddings|experts|share_layers|head_dim|rope_scaling|no_rope_every|attention_scale|attention_bias|mlp_bias|dense_ffn|logit_cap|rope_local_theta|embed_scale|residual_scale|logits_divisor|sliding_window|global_every|score_cap|mtp)$/)
                section = "model"
            if (key ~ /^(documents|loss|prefix|curriculum)$/)
                section = "data"
            if (key ~ /^(precision|freeze|lora|prompt|optimizer|global_batch|ramp|z_loss|mtp_loss|ema|groups|sparse|mup)$/)
                section = "train"
            value = substr($i, at + 1)
            put(section, key, key == "optimizer" ? "{kind: " value ", lr: 3.0e-4, weight_decay: 0.1, clip: 1.0}" : value)
        }
        if (text["model", "family"] == "gpt-neox")
            put("model", "rotary_pct", 0.5) # a quarter of a head of 4 is no pair
        put("train", "eval_sequences", text["train", "global_batch"])
        print "run: {name: equal, seed: " ("seed" in apart ? apart["seed"] : 11) ", output: " out ", threads: 1}"
        if ("blend" in apart) # of two sets, of which the second one has this weight, and another one in the second half
            print "data: {train: [{path: " tok ", weight: 1}, {path: " tok "-b, weight: " apart["blend"] ", valid: " tok "-b-valid}], " \
                "valid: " tok "-valid, phases: [{from_step: " steps / 2 + 1 ", weights: {tok: 0.3, tok-b: 0.7}}]}"
        else {
            if (("train", "prompt") in text)
                tok = tok "-prompt"
            else if (order["data"] != "")
                tok = tok "-docs"
            put("data", "train", tok); put("data", "valid", tok "-valid")
            show("data")
        }
        show("model"); show("train"); show("layout")
        if (text["layout", "overlap"] == "auto") # by whose rates operations are put in order
            print "machine: {preset: laptop-cpu}"
    }' >"$2"
}

# Relative limits of losses and gradient norms. fp32: another order of sums, measured up to 1.6e-7 over
# the matrix. bf16 and fp16 round activations to 8 and 11 bits, partial sums over ranks are rounded once
# more, and the weights after a step may round apart: measured up to 1.1e-3 and 1.3e-4. The limits are
# two units of rounding (2^-9 and 2^-12), about four times that. They let small faults pass (norms'
# gradients that are not summed under sequence parallelism: 6e-4); those are left to fp32's limit, and
# half precision to what is its own: types, master weights, the loss scale.
layout_limit() { # line
    case $(layout_value "$1" precision fp32) in
    bf16) echo 4e-3 ;;
    fp16) echo 5e-4 ;;
    *) echo 1e-5 ;;
    esac
}

# All losses, gradient norms and validation losses of a run, one a line.
layout_numbers() { # output
    for layout_key in loss grad_norm val_loss mtp_loss; do
        metric "$layout_key" "$1/metrics.jsonl"
    done >"$1/numbers"
    sed -n 's/.*"set_losses": {\([^}]*\)}.*/\1/p' "$1/metrics.jsonl" | tr ',' '\n' | sed 's/.*: //' >>"$1/numbers"
}

layout_train() { # line output [option...]: sets $rc, $err; a hang is a failure
    layout_l=$1 layout_o=$2
    shift 2
    layout_file "$layout_l" "$layout_o.yaml" "$layout_o"
    layout_n=$(layout_ranks "$layout_l")
    if [ "$layout_n" = 1 ]; then
        run timeout -k 5 120 "$BUILD/bin/sennit-train" "$layout_o.yaml" "$@"
    else
        run timeout -k 5 180 tests/mpi/run -n "$layout_n" "$BUILD/bin/sennit-train" \
            "$layout_o.yaml" "$@"
    fi
    [ "$rc" = 0 ] || tap_lines "exit $rc" "$(printf '%s' "$err" | tail -n 5)"
    [ ! -f "$layout_o/metrics.jsonl" ] || layout_numbers "$layout_o"
}

# The one-rank run of the same model: once for each model. Sets $one.
layout_one() { # line
    one=$tmp/one-$(layout_reference "$1" | cksum | tr ' ' -)
    [ ! -f "$one/numbers" ] || return 0
    layout_train "one$(layout_reference "$1")" "$one"
    is "one rank trains$(layout_reference "$1")" "$rc" 0
    layout_told=2 # numbers a step
    case " $1 " in *' blend='*) layout_told=4 ;; *' mtp='*) layout_told=3 ;; esac
    is "and tells of $layout_steps losses, as many norms and 2 validations" \
        "$(wc -l <"$one/numbers" | tr -d ' ')" $((layout_told * layout_steps + 2))
    ok "and learns" awk -v n="$layout_steps" 'NR == 1 { first = $1 } NR == n { exit !($1 < first) }' "$one/numbers"
}

layout_section() { # key text: the numbers of this object of a JSON line, the first of its name
    printf '%s' "$2" | grep -o "\"$1\": {[^}]*" | sed 's/.*{//;q'
}

layout_plan() { # line name output: planned bytes are the trainer's
    layout_planned=1p # of the largest batch
    case " $1 " in *' ramp='*) layout_planned='$p' ;; esac
    run "$BUILD/bin/sennit-plan" "$3.yaml" --json
    layout_first=$(grep '"loss"' "$3/metrics.jsonl" | sed -n "$layout_planned")
    like "$2: the plan is one of bytes" "$out" '"memory_bytes": .*"traffic_bytes": '
    # What routing decides is not the plan's to say: the trainer holds it to the counts of every step.
    layout_routed='s/"expert": [0-9]*/"expert": -/'
    case $layout_first in *'"routed_bytes"'*) ;; *) layout_routed= ;; esac
    case $layout_first in *'"gathered_bytes"'*) layout_routed="$layout_routed;"'s/"tensor": [0-9]*/"tensor": -/' ;; esac
    is "$2: the bytes sent are the plan's" \
        "$(layout_section traffic_bytes "$layout_first" | sed "$layout_routed")" \
        "$(layout_section traffic_bytes "$out" | sed "$layout_routed")"
    is "$2: the memory is the plan's" "$(layout_section memory_bytes "$layout_first")" \
        "$(layout_section memory_bytes "$out")"
    run "$BUILD/bin/sennit-plan" "$3.yaml" --verify
    is "$2: the program is proven free of deadlocks$err" "$rc" 0
}

# A token whose chosen and next expert differ by less than rounding may go to either, and the losses
# part from there on. Of 46,000 choices of a run such a tie is rare, but the table is long. So where
# experts' losses agree to the limit at first and not later, another seed decides: a fault is there
# with every seed, a tie is not. Sets $layout_l to the line that holds.
layout_untie() { # line
    layout_l=$1
    case $1 in *experts=*) ;; *) return 0 ;; esac
    layout_worst=$(worst "$many/numbers" "$one/numbers")
    ! awk -v d="$layout_worst" -v most="$(layout_limit "$1")" 'BEGIN { exit !(d > most) }' || {
        sed 3q "$many/numbers" >"$many/begin"
        sed 3q "$one/numbers" >"$many/begin-one"
        within "$layout_name: losses of three steps are those of one rank" \
            "$(worst "$many/begin" "$many/begin-one")" "$(layout_limit "$1")"
        echo "# $layout_name: off by $layout_worst; seed 12 tells a tie from a fault"
        rm -rf "$many"
        layout_one "$1 seed=12"
        layout_train "$1 seed=12" "$many"
        is "$layout_name: trains with another seed" "$rc" 0
        layout_l="$1 seed=12"
    }
}

layout_check() { # line: all that holds for a layout
    layout_name=${1%% *} many=$tmp/${1%% *}
    layout_one "$1"
    layout_train "$1" "$many"
    is "$layout_name: $(layout_ranks "$1") ranks train" "$rc" 0
    [ "$rc" = 0 ] || return 0
    layout_untie "$1"
    set -- "$layout_l"
    within "$layout_name: losses and norms are those of one rank" \
        "$(worst "$many/numbers" "$one/numbers")" "$(layout_limit "$1")"
    layout_plan "$1" "$layout_name" "$many"
    case " $1 " in *' twice '*)
        layout_train "$1" "$many-again"
        ok "$layout_name: a second run gives the same bits" \
            cmp -s "$many/numbers" "$many-again/numbers"
        ;;
    esac
    case " $1 " in *' resume='*) layout_resume "$1" "$(layout_value "$1" resume '')" ;; esac
    rm -rf "$many" "$many-again" "$many-resumed"
}

# Half of the steps in one layout, the rest in another; after layout_check's run, with its $one and $many.
layout_resume() { # line name-of-the-other
    layout_train "$1" "$many-resumed" --stop-after $((layout_steps / 2))
    is "$layout_name: stops after $((layout_steps / 2)) steps" "$rc" 0
    layout_other=$(layout_line "$2")
    case $1 in *' seed='*) layout_other="$layout_other seed=${1##* seed=}" ;; esac
    is "$layout_name: layout $2 is one of the same model" "$(layout_reference "$layout_other")" \
        "$(layout_reference "$1")"
    ok "$layout_name: and in the table" test -n "$layout_other"
    layout_train "$layout_other" "$many-resumed"
    is "$layout_name: resumes in layout $2" "$rc" 0
    like "$layout_name: where it had stopped" "$err" "checkpoint of step $((layout_steps / 2))([^0-9]|\$)"
    within "$layout_name: resumed in $2, losses and norms are those of one rank" \
        "$(worst "$many-resumed/numbers" "$one/numbers")" "$(layout_limit "$1")"
    [ "$2" != "$layout_name" ] ||
        ok "$layout_name: resumed in its own layout, the bits are those of a run in one go" \
            cmp -s "$many-resumed/numbers" "$many/numbers"
}
