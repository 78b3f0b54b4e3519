/*
 * plan_campaign.h - sennit-plan campaign: what a whole run costs.
 */
#ifndef SN_BIN_PLAN_CAMPAIGN_H
#define SN_BIN_PLAN_CAMPAIGN_H

#include "bin/common.h"
#include "lib/config/config.h"

/* The best layout of the run on each, and what the run costs there, as sennit-plan campaign --gpus
 * prints it. */
enum sn_status sn_plan_points(struct sn_config *c, const struct sn_plan_ranks *ranks, bool json,
                              int *exit_code, struct sn_err *err);

/* argv[0] is "campaign". On SN_OK *exit_code is 0, or that of a layout that does not fit. */
enum sn_status sn_plan_campaign(int argc, char **argv, int *exit_code, struct sn_err *err);

#endif
