#!/bin/sh
# trial.sh - in one job: layouts are tried on 4 nodes x 2 ranks, then the run trains in the fastest.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 4
make_tokens "$tmp/tok"
steps=12 batch=8 eval_every=0 layers=4
layout="context: 1, tensor_x: 1"
job_file "$tmp/tried.yaml" "$tmp/tried"
cat >"$tmp/trial.sh" <<SH
#!/bin/sh
"$PWD/$BUILD/bin/sennit-run" trial "$tmp/tried.yaml" --top 3 --steps 5 --write "$tmp/best.yaml" >"$tmp/table" || exit
exec "$PWD/$BUILD/bin/sennit-run" exec "$tmp/best.yaml"
SH
job=$(submit "$tmp/trial.sh" -N 4 --ntasks-per-node=2 --cpus-per-task=2 --exclusive)
must "the job ends well" wait_state "$job" COMPLETED 300
is "three layouts were tried" "$(grep -cE '^ +[123] +[0-9.e-]+ s +[0-9.e-]+ s[* ] data ' "$tmp/table")" 3
for k in 1 2 3; do
    is "trial $k made its steps" "$(grep -c '"step_time_s"' "$tmp/tried/trial/$k/metrics.jsonl")" 5
    is "on four nodes" "$(events "$tmp/tried/trial/$k" launch | sed 's/.*"nodes": *\[\([^]]*\)\].*/\1/' | tr ',' '\n' | wc -l)" 4
    ok "and left no checkpoint" test -z "$(find "$tmp/tried/trial/$k" -name '*.h5' | head -n 1)"
done
is "the run made all steps" "$(grep -c '"step_time_s"' "$tmp/tried/metrics.jsonl")" 12
is "in one attempt" "$(events "$tmp/tried" launch | wc -l)" 1
shape=$(grep ' s\* data ' "$tmp/table" | sed 's/.*data \([0-9]*\) x tensor \([0-9]*\) .* pipeline \([0-9]*\),.*/\1 \2 \3/')
is "in the fastest layout" "$(awk '/^layout:/ { here = 1 } here && /^  (data|tensor|pipeline):/ { printf "%s%s", n++ ? " " : "", $2 }' "$tmp/tried/run.resolved.yaml")" "$shape"
tap_done
