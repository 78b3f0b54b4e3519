#!/bin/bash
#SBATCH --job-name=golden
#SBATCH --account=proj1
#SBATCH --partition=acc
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=20
#SBATCH --gres=gpu:4
# A node that fails does not end the job: sennit-run goes on with the others (slurm.spares, slurm.shrink).
# Should it be the first, which runs this script, nobody goes on, and scancel ends the job.
#SBATCH --no-kill
#SBATCH --time=2:00:00
#SBATCH --signal=USR2@300
#SBATCH --requeue
#SBATCH --output=/here/runs/golden/slurm-%j.out
#SBATCH --open-mode=append
#
# Written by `sennit-run submit` for the site marenostrum5. Slurm keeps a copy of its own: what is changed here
# counts when this file is submitted again (sbatch batch.sh).

# the four adapters of the fast network
export UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,mlx5_4:1,mlx5_5:1
# no copies between processes by cma, as users of ACC do
export UCX_TLS='^cma'
# the shared file system's locks fail or are slow; each checkpoint file has one writer
export HDF5_USE_FILE_LOCKING=FALSE

cd /here || exit 1
# From here on sennit-run has the job: it launches, watches, saves, and goes on after a failure.
exec /usr/bin/sennit-run exec --site marenostrum5 tests/golden/sites/marenostrum5.yaml
