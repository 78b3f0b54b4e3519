#!/bin/bash
#BSUB -J golden
#BSUB -nnodes 8
#BSUB -P proj1
#BSUB -q batch
#BSUB -W 2:00
#BSUB -wa USR2
#BSUB -wt 5
#BSUB -r
#BSUB -o /here/runs/golden/lsf-%J.out
#
# Written by `sennit-run submit` for the site summit; to submit it again: bsub < batch.sh.

# the shared file system's locks fail or are slow; each checkpoint file has one writer
export HDF5_USE_FILE_LOCKING=FALSE

cd /here || exit 1
# From here on sennit-run has the job: it launches, watches, saves, and goes on after a failure.
exec /usr/bin/sennit-run exec --site summit tests/golden/sites/summit.yaml
