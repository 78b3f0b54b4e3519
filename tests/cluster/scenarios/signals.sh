#!/bin/sh
# signals.sh - asked to leave, from every side: the time limit, scancel --signal, a controller that
# restarts meanwhile; saved each time, resumed, bit-equal.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 2
slow_links 20mbit
make_tokens "$tmp/tok"
batch=8 eval_every=0 layout="data: 2, tensor: 4" steps=160
job_file "$tmp/ref.yaml" "$tmp/ref"
reference 8 "$tmp/ref.yaml"

ended_by() { # pattern of a cause
    events "$o" end | grep -qE "\"cause\": *\"[^\"]*($1)"
}

asked() { # name what pattern command...: one request while it trains
    asked_name=$1 asked_what=$2 asked_cause=$3
    shift 3
    exec_job "$asked_name" 2 4
    must "$asked_name: it trains" wait_step "$o" 20 90
    "$@"
    must "$asked_name: $asked_what makes it save and leave" wait_until 60 ended_by "$asked_cause"
    saved=$(member saved_step "$(events "$o" end | head -n 1)")
    is "$asked_name: nothing is lost" "$saved" "$(member step "$(events "$o" end | head -n 1)")"
    ok "$asked_name: in the middle, at step $saved" test "${saved:-0}" -lt $steps
    job_done "$asked_name" 240
    same_losses "$asked_name: bit for bit" "$o" "$one"
}

usr2() { outside scancel --signal=USR2 "$job"; }
asked usr2 "scancel --signal=USR2" "asked|saved" usr2
full() { outside scancel --signal=USR2 --full "$job"; }
asked full "scancel --full --signal=USR2, to the batch script, too" "asked|saved" full
trigger() { touch "$o/save-and-exit"; }
asked trigger "the file save-and-exit" "asked|saved" trigger

# --- the controller restarts; nobody notices ------------------------------------------------------
exec_job controller 2 4
must "controller: it trains" wait_step "$o" 20 90
fault restart-controller
job_done controller 240
same_losses "controller: bit for bit" "$o" "$one"
is "controller: in one attempt" "$(events "$o" launch | wc -l)" 1

# --- the time limit ---------------------------------------------------------------------------------
# More steps than a minute holds; the job asks for a save itself, before Slurm ends it.
steps=100000
exec_job limit 2 4 -p limited -t 1
must "limit: it is requeued before the limit ends it" wait_until 150 has_event "$o" decision
like "limit: it was asked to leave in time" "$(events "$o" notice | head -n 1)" 'deadline|SIGUSR2'
first=$(events "$o" end | head -n 1)
is "limit: nothing is lost" "$(member saved_step "$first")" "$(member step "$first")"
must "limit: it goes on from there" wait_step "$o" $(($(member step "$first") + 20)) 120
outside scancel "$job"
steps=160
tap_done
