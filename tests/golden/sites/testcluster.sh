#!/bin/bash
#SBATCH --job-name=golden
#SBATCH --partition=low
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:4
#SBATCH --exclusive
# A node that fails does not end the job: sennit-run goes on with the others (slurm.spares, slurm.shrink).
# Should it be the first, which runs this script, nobody goes on, and scancel ends the job.
#SBATCH --no-kill
#SBATCH --time=0:10:00
#SBATCH --signal=USR2@60
#SBATCH --requeue
#SBATCH --output=/here/runs/golden/slurm-%j.out
#SBATCH --open-mode=append
#
# Written by `sennit-run submit` for the site testcluster. Slurm keeps a copy of its own: what is changed here
# counts when this file is submitted again (sbatch batch.sh).

cd /here || exit 1
# From here on sennit-run has the job: it launches, watches, saves, and goes on after a failure.
exec /usr/bin/sennit-run exec --site testcluster tests/golden/sites/testcluster.yaml
