#!/bin/sh
# snapshots.sh - a node dies with its memory, and there is no checkpoint: the spare one takes its place and the
# run goes on from the memory of the others, at most one step behind; losses are bit-equal.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 3
make_tokens "$tmp/tok"
batch=8 eval_every=0 every=0 layout="data: 2, tensor: 4" steps=300 hang=30
job_file "$tmp/ref.yaml" "$tmp/ref"
reference 8 "$tmp/ref.yaml"
saving="snapshot_every: 1" slurm="spares: 1"

launched() { # times
    [ "$(events "$o" launch | wc -l)" -ge "$1" ]
}
resumed() { # the last step that a start went on from memory
    sed -n 's/.*resumed step \([0-9]*\) from memory.*/\1/p' "$tmp/$job.out" | tail -n 1
}
has_resumed() { # starts
    [ "$(grep -c 'resumed step [0-9]* from memory' "$tmp/$job.out")" -ge "$1" ]
}

exec_job snap 3 4 --no-kill
ok "it trains" wait_step "$o" 20 120
victim=$(events "$o" launch | sed 's/.*"nodes": *\["[^"]*", *"\([^"]*\)".*/\1/')
fault end-node "$victim"
ok "$victim dies: it is launched again" wait_until 180 launched 2
ok "and resumes from memory" wait_until 120 has_resumed 1
reached=$(member step "$(events "$o" end | head -n 1)")
ok "at most one step is done again: after step $reached it goes on from $(resumed)" \
    test "$(resumed)" -ge $((reached - 1))
like "partners' copies are what the dead node had" "$(grep 'from memory' "$tmp/$job.out")" \
    'of 1 host: 4 of 8 snapshot shards are partners. copies'
is "no checkpoint was there" "$(newest_checkpoint "$o")" ''
fault start-node "$victim"

# --- a rank of the node that kept them dies next: its own snapshot is there ---------------------------------
ok "it trains on" wait_step "$o" 50 120
fault kill-rank "$job" 5
ok "a rank dies: it is launched again" wait_until 180 launched 3
ok "and resumes from memory once more" wait_until 120 has_resumed 2
reached=$(member step "$(events "$o" end | sed -n 2p)")
ok "at most one step is done again: after step $reached it goes on from $(resumed)" \
    test "$(resumed)" -ge $((reached - 1))
job_done snap 240
same_losses "losses are bit-equal" "$o" "$one"
tap_done
