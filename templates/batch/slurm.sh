#!/bin/bash
@{header}
#
# Written by `sennit-run submit` for the site @{site}. Slurm keeps a copy of its own: what is changed here
# counts when this file is submitted again (sbatch batch.sh).

@{setup}

@{environment}

cd @{directory} || exit 1
# From here on sennit-run has the job: it launches, watches, saves, and goes on after a failure.
exec @{program} exec --site @{site_name} @{run_file}
