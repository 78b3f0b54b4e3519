/*
 * plan_calibrate.h - sennit-plan calibrate: write the description of the machine at hand.
 */
#ifndef SN_PLAN_CALIBRATE_H
#define SN_PLAN_CALIBRATE_H

#include "bin/ranks.h"

/* The command line after "sennit-plan"; returns the exit code. */
int sn_plan_calibrate(int argc, char **argv, const struct sn_ranks *ranks);

#endif
