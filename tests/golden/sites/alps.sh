#!/bin/bash
#SBATCH --job-name=golden
#SBATCH --account=proj1
#SBATCH --partition=normal
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=72
#SBATCH --gpus-per-task=1
#SBATCH --mem=460000
# A node that fails does not end the job: sennit-run goes on with the others (slurm.spares, slurm.shrink).
# Should it be the first, which runs this script, nobody goes on, and scancel ends the job.
#SBATCH --no-kill
#SBATCH --time=2:00:00
#SBATCH --signal=USR2@300
#SBATCH --requeue
#SBATCH --output=/here/runs/golden/slurm-%j.out
#SBATCH --open-mode=append
#
# Written by `sennit-run submit` for the site alps. Slurm keeps a copy of its own: what is changed here
# counts when this file is submitted again (sbatch batch.sh).

# without its plugin NCCL falls back to TCP over Slingshot
export NCCL_NET='AWS Libfabric'
# GPU memory goes to the adapter directly
export NCCL_NET_GDR_LEVEL=PHB
# rings may use another adapter on the other side
export NCCL_CROSS_NIC=1
# the protocol LL128 is left out (CSCS)
export NCCL_PROTO='^LL128'
# more completions under way than usual (CSCS)
export FI_CXI_DEFAULT_CQ_SIZE=131072
# more transfers under way than usual (CSCS)
export FI_CXI_DEFAULT_TX_SIZE=16384
# registering host memory can end in a deadlock (CSCS)
export FI_CXI_DISABLE_HOST_REGISTER=1
# messages are matched in software (CSCS)
export FI_CXI_RX_MATCH_MODE=software
# freed memory is noticed by the kernel's means (CSCS)
export FI_MR_CACHE_MONITOR=userfaultfd
# MPI beside NCCL leaves the GPUs alone (CSCS)
export MPICH_GPU_SUPPORT_ENABLED=0
# if a collective hangs
# export FI_CXI_RDZV_GET_MIN=0
# if a collective hangs
# export FI_CXI_RDZV_THRESHOLD=0
# if a collective hangs
# export FI_CXI_RDZV_EAGER_SIZE=0
# tuning of point-to-point transfers
# export NCCL_NCHANNELS_PER_NET_PEER=4
# in a container without munge
# export PMIX_MCA_psec='^munge'
# the shared file system's locks fail or are slow; each checkpoint file has one writer
export HDF5_USE_FILE_LOCKING=FALSE

cd /here || exit 1
# From here on sennit-run has the job: it launches, watches, saves, and goes on after a failure.
exec /usr/bin/sennit-run exec --site alps tests/golden/sites/alps.yaml
