#!/bin/sh
# layouts.sh - the rendered template trains a llama on 4 nodes x 4 ranks; losses equal the 1-rank run.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 4
make_tokens "$tmp/tok"
steps=40 batch=8 eval_every=0 layers=4

# The reference has one rank; the layout is all that differs.
layout=
job_file "$tmp/alone.yaml" "$tmp/alone"
reference 1 "$tmp/alone.yaml"

layout="data: 2, tensor: 4, pipeline: 2" slurm="site: testcluster, nodes: 4, ranks_per_node: 4"
job_file "$tmp/grid.yaml" "$tmp/grid"
run outside "$PWD/$BUILD/bin/sennit-run" submit "$tmp/grid.yaml" --print
is "submit --print: exit code" "$rc" 0
like "it shows a script for 4 nodes" "$out" '^#SBATCH --nodes=4'
run outside "$PWD/$BUILD/bin/sennit-run" submit "$tmp/grid.yaml"
is "submit: exit code" "$rc" 0
[ "$rc" = 0 ] || tap_lines err "$err" # "ok: ..." of its checks are no points of this test
job=$(printf '%s\n' "$out" | grep -oE '[0-9]+' | tail -n 1)
o=$tmp/grid
ok "the script that was submitted is kept" test -s "$o/batch.sh"
job_done grid 150
near_losses "losses are those of one rank" "$o" "$one" 1e-5
is "in one attempt" "$(events "$o" launch | wc -l)" 1
is "on four nodes" "$(events "$o" launch | sed 's/.*"nodes": *\[\([^]]*\)\].*/\1/' | tr ',' '\n' | wc -l)" 4
tap_done
