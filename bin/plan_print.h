/*
 * plan_print.h - what sennit-plan prints.
 */
#ifndef SN_PLAN_PRINT_H
#define SN_PLAN_PRINT_H

#include "lib/plan/plan.h"

/* The plan on stdout, as text or as one JSON object (DESIGN.md 4). */
enum sn_status sn_plan_print(const struct sn_plan *p, const struct sn_stages *s, bool json,
                             struct sn_err *err);
/* What each stage keeps from forward to backward. */
enum sn_status sn_plan_print_activations(const struct sn_stages *s, bool json, struct sn_err *err);
/* One of a job's programs, by name. */
enum sn_status sn_plan_print_program(const struct sn_job *j, const char *name, struct sn_err *err);

#endif
