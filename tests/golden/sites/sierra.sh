#!/bin/bash
#BSUB -J golden
#BSUB -nnodes 8
#BSUB -G proj1
#BSUB -q pbatch
#BSUB -W 2:00
#BSUB -wa USR2
#BSUB -wt 5
#BSUB -r
#BSUB -o /here/runs/golden/lsf-%J.out
#BSUB -alloc_flags smt4
#
# Written by `sennit-run submit` for the site sierra; to submit it again: bsub < batch.sh.

# a fork must not corrupt memory that InfiniBand uses (LBANN)
export IBV_FORK_SAFE=1
# collectives without hcoll, as LBANN runs
export OMPI_MCA_coll_hcoll_enable=0
# no cache of registered pages, as LBANN runs
export PAMI_MAX_NUM_CACHED_PAGES=0
# the shared file system's locks fail or are slow; each checkpoint file has one writer
export HDF5_USE_FILE_LOCKING=FALSE

cd /here || exit 1
# From here on sennit-run has the job: it launches, watches, saves, and goes on after a failure.
exec /usr/bin/sennit-run exec --site sierra tests/golden/sites/sierra.yaml
