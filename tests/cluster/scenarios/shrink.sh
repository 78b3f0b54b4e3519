#!/bin/sh
# shrink.sh - two of four nodes die: the run goes on with the other two, in another layout; once it is
# requeued it has four again, and the layout of its run file. Losses stay within 1e-5.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 4
slow_links 60mbit
make_tokens "$tmp/tok"
batch=8 eval_every=0 layers=4 layout="data: 2, tensor: 4, pipeline: 2" steps=160 every=20
job_file "$tmp/ref.yaml" "$tmp/ref"
reference 16 "$tmp/ref.yaml"
all=$(wc -l <"$SENNIT_CLUSTER/nodes.list")

launched() { # times
    [ "$(events "$o" launch | wc -l)" -ge "$1" ]
}

# The N-th launch's word for something.
of_launch() { # number key
    member "$2" "$(events "$o" launch | sed -n "${1}p")"
}

exec_job shrink 4 4 --no-kill
must "it trains on 16 ranks" wait_step "$o" 30 120
for victim in $(events "$o" launch | sed 's/.*"nodes": *\[\([^]]*\)\].*/\1/; s/[", ]\{1,\}/ /g' | cut -d ' ' -f 3,4); do
    fault end-node "$victim"
done
must "two nodes are dead; it is launched again" wait_until 180 launched 2
attempt=$(events "$o" launch | wc -l)
is "on 8 ranks" "$(of_launch "$attempt" ranks)" 8
is "in a layout of its own" "$(of_launch "$attempt" relaid)" true
ok "written beside the attempt" test -s "$o/attempts/$(of_launch "$attempt" attempt)/run.yaml"
from=$(of_launch "$attempt" from_step)
ok "from a checkpoint, of step ${from:-0}" test "${from:-0}" -ge "$every"
must "and it trains" wait_step "$o" $((${from:-0} + 10)) 200
while read -r node; do fault start-node "$node" 2>/dev/null || :; done <"$SENNIT_CLUSTER/nodes.list"
preempt "$all" 2
job_done shrink 300
last=$(events "$o" launch | wc -l)
is "requeued, it has 16 ranks again" "$(of_launch "$last" ranks)" 16
is "and the layout of its run file" "$(of_launch "$last" relaid)" false
is "every step is there once" "$(losses "$o" | wc -l)" "$steps"
near_losses "losses are those of an uninterrupted run" "$o" "$one" 1e-5
tap_done
