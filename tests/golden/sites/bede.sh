#!/bin/bash
#SBATCH --job-name=golden
#SBATCH --account=proj1
#SBATCH --partition=gpu
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:4
# A node that fails does not end the job: sennit-run goes on with the others (slurm.spares, slurm.shrink).
# Should it be the first, which runs this script, nobody goes on, and scancel ends the job.
#SBATCH --no-kill
#SBATCH --time=2:00:00
#SBATCH --signal=B:USR2@300
#SBATCH --requeue
#SBATCH --output=/here/runs/golden/slurm-%j.out
#SBATCH --open-mode=append
#
# Written by `sennit-run submit` for the site bede. Slurm keeps a copy of its own: what is changed here
# counts when this file is submitted again (sbatch batch.sh).

# the shared file system's locks fail or are slow; each checkpoint file has one writer
export HDF5_USE_FILE_LOCKING=FALSE

cd /here || exit 1
# From here on sennit-run has the job: it launches, watches, saves, and goes on after a failure.
exec /usr/bin/sennit-run exec --site bede tests/golden/sites/bede.yaml
