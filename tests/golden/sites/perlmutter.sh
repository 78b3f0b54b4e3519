#!/bin/bash
#SBATCH --job-name=golden
#SBATCH --account=m1234_g
#SBATCH --qos=regular
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --gpus-per-node=4
#SBATCH --constraint=gpu
# A node that fails does not end the job: sennit-run goes on with the others (slurm.spares, slurm.shrink).
# Should it be the first, which runs this script, nobody goes on, and scancel ends the job.
#SBATCH --no-kill
#SBATCH --time=2:00:00
#SBATCH --signal=USR2@300
#SBATCH --requeue
#SBATCH --output=/here/runs/golden/slurm-%j.out
#SBATCH --open-mode=append
#
# Written by `sennit-run submit` for the site perlmutter. Slurm keeps a copy of its own: what is changed here
# counts when this file is submitted again (sbatch batch.sh).

# it brings the plugin that NCCL_NET names
module load nccl

# without its plugin NCCL falls back to TCP over Slingshot
export NCCL_NET='AWS Libfabric'
# each rank takes the adapter beside its GPU
export MPICH_OFI_NIC_POLICY=GPU
# if a collective hangs (GB-25#152)
# export FI_CXI_RDZV_GET_MIN=0
# if a collective hangs (GB-25#152)
# export FI_CXI_SAFE_DEVMEM_COPY_THRESHOLD=16777216
# the shared file system's locks fail or are slow; each checkpoint file has one writer
export HDF5_USE_FILE_LOCKING=FALSE

cd /here || exit 1
# From here on sennit-run has the job: it launches, watches, saves, and goes on after a failure.
exec /usr/bin/sennit-run exec --site perlmutter tests/golden/sites/perlmutter.yaml
