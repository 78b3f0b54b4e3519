/*
 * plan_study.h - sennit-plan study: what each choice of a layout is worth.
 */
#ifndef SN_BIN_PLAN_STUDY_H
#define SN_BIN_PLAN_STUDY_H

#include "lib/base/err.h"

/* argv[0] is "study". On SN_OK *exit_code is 0, or 1 where nothing fits. */
enum sn_status sn_plan_study(int argc, char **argv, int *exit_code, struct sn_err *err);

#endif
