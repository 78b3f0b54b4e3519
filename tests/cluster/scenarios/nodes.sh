#!/bin/sh
# nodes.sh - a node dies, or its link is cut: it is named and no other, at the first word, and the run goes on
# without it soon: with a spare, without one in another layout, and with limits so long that neither the
# controller nor the hang limit would notice.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 5
slow_links 10mbit
make_tokens "$tmp/tok"
batch=8 eval_every=0 layout="data: 2, tensor: 2, pipeline: 2" steps=60 every=10 hang=8
job_file "$tmp/ref.yaml" "$tmp/ref"
reference 8 "$tmp/ref.yaml"

# The second node of the first launch, which has not the batch script.
victim() {
    events "$o" launch | head -n 1 | sed 's/.*"nodes": *\["[^"]*", *"\([^"]*\)".*/\1/'
}

runs_again() {
    [ "$(events "$o" running | wc -l)" -ge 2 ]
}

lost() { # name fault deadline: the fault, and what is said of it
    must "$1: it trains" wait_step "$o" 15 120
    lost_n=$(victim)
    lost_t=$(date +%s)
    fault "$2" "$lost_n"
    must "$1: another attempt makes a step" wait_until "$3" runs_again
    echo "# $1: $(($(date +%s) - lost_t)) s from the fault to the next step"
    lost_end=$(events "$o" end | head -n 1)
    is "$1: a node is the cause" "$(member cause "$lost_end")" "a node died"
    is "$1: this one" "$(member host "$lost_end")" "$lost_n"
    is "$1: nobody else was suspected" "$(events "$o" suspect | sed 's/.*"host": *"\([^"]*\)".*/\1/' | grep -cvE "^($lost_n|)$")" 0
    is "$1: or is avoided" "$(events "$o" bad-node | sed 's/.*"host": *"\([^"]*\)".*/\1/' | sort -u)" "$lost_n"
    is "$1: no sentence has empty words" "$(cat "$o/journal.jsonl" "$tmp/$job.out" | grep -cE 'rank -1|rank [0-9]+ \(\)|wait in *$')" 0
    is "$1: it took one more attempt" "$(events "$o" launch | wc -l)" 2
}

back() { # end of a case: the node is well again
    fault mend "$lost_n"
    fault start-node "$lost_n" 2>/dev/null || :
}

slurm="spares: 1"
exec_job spare 5 2 --no-kill
lost spare end-node 100
job_done spare 240
same_losses "spare: losses are those of a run in one go, bit for bit" "$o" "$one"
back

exec_job cut 5 2 --no-kill
lost cut cut 100
job_done cut 240
same_losses "cut: losses are those of a run in one go, bit for bit" "$o" "$one"
back

slurm=
exec_job shrink 4 2 --no-kill
lost shrink end-node 100
like "shrink: in another layout" "$(events "$o" launch | tail -n 1)" '"relaid": true'
fast_links # it may send more
job_done shrink 240
near_losses "shrink: losses are those of a run in one go, in another layout" "$o" "$one" 1e-5
back

slow_links 10mbit
slurm="spares: 1" hang=1000
exec_job patient 5 2 --no-kill
lost patient end-node 200
job_done patient 240
same_losses "patient: losses are those of a run in one go, bit for bit" "$o" "$one"
back
fast_links
tap_done
