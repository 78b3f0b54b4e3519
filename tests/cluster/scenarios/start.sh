#!/bin/sh
# start.sh - from exec to the beginning of step 1 at 32 ranks, against srun of an empty MPI program.
#
# A small model, preflight off. The medians of ROUNDS (5) starts of each kind, in turns, since the load of this
# host moves both.
# shellcheck disable=SC2034,SC2154,SC2317
. tests/lib/tap.sh
. tests/lib/train.sh
. tests/cluster/lib.sh

cluster_begin 8
make_tokens "$tmp/tok"
steps=5 batch=16 eval_every=0 layers=2 hidden=64 layout="data: 8, tensor: 4"
cat >"$tmp/empty.c" <<'C'
#include <mpi.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    return MPI_Finalize();
}
C
ok "an empty MPI program is built" "${MPICC:-mpicc}" -o "$tmp/empty" "$tmp/empty.c"

# Inside one allocation, as `exec` is: seconds since 1970 before and after srun.
cat >"$tmp/start.sh" <<SH
#!/bin/sh
for k in \$(seq 1 ${ROUNDS:-5}); do
    a=\$(date +%s.%N)
    SLURM_PMIX_FENCE=ring srun -N 8 --ntasks-per-node=4 "$tmp/empty"
    b=\$(date +%s.%N)
    echo "empty \$a \$b" >>"$tmp/times"
    a=\$(date +%s.%N)
    "$PWD/$BUILD/bin/sennit-run" exec "$tmp/start-\$k.yaml"
    echo "exec \$a \$?" >>"$tmp/times"
done
SH
for k in $(seq 1 "${ROUNDS:-5}"); do job_file "$tmp/start-$k.yaml" "$tmp/start-$k"; done
job=$(submit "$tmp/start.sh" -N 8 --ntasks-per-node=4 --cpus-per-task=2 --exclusive)
must "all starts are made" wait_state "$job" COMPLETED 800
is "all of them trained" "$(awk '$1 == "exec" && $3 == 0' "$tmp/times" | wc -l)" "${ROUNDS:-5}"

median() {
    sort -g | awk '{ v[NR] = $1 } END { printf "%.3f\n", v[int((NR + 1) / 2)] }'
}

for k in $(seq 1 "${ROUNDS:-5}"); do
    began=$(metric first_step_began "$tmp/start-$k/attempt-1.json")
    awk -v k="$k" -v began="$began" '$1 == "exec" && ++n == k { printf "%.3f\n", began - $2 }' "$tmp/times"
done >"$tmp/ours"
empty=$(awk '$1 == "empty" { printf "%.3f\n", $3 - $2 }' "$tmp/times" | median)
ours=$(median <"$tmp/ours")
echo "# starts: $(tr '\n' ' ' <"$tmp/ours")s; empty ones: $(awk '$1 == "empty" { printf "%.3f ", $3 - $2 }' "$tmp/times")s"
echo "# srun of an empty MPI program: $empty s; exec to the beginning of step 1: $ours s"
ok "exec to step 1 ($ours s) takes at most ten times an empty program ($empty s)" awk "BEGIN { exit !($ours <= 10 * $empty) }"
tap_done
