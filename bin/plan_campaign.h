/*
 * plan_campaign.h - sennit-plan campaign: what a whole run costs.
 */
#ifndef SN_BIN_PLAN_CAMPAIGN_H
#define SN_BIN_PLAN_CAMPAIGN_H

#include "lib/base/err.h"

/* argv[0] is "campaign". On SN_OK *exit_code is 0, or that of a layout that does not fit. */
enum sn_status sn_plan_campaign(int argc, char **argv, int *exit_code, struct sn_err *err);

#endif
