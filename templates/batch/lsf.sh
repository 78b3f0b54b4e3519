#!/bin/bash
@{header}
#
# Written by `sennit-run submit` for the site @{site}; to submit it again: bsub < batch.sh.

@{setup}

@{environment}

cd @{directory} || exit 1
# From here on sennit-run has the job: it launches, watches, saves, and goes on after a failure.
exec @{program} exec --site @{site_name} @{run_file}
