/*
 * plan_print.h - what sennit-plan prints.
 */
#ifndef SN_PLAN_PRINT_H
#define SN_PLAN_PRINT_H

#include "lib/report/goodput.h"
#include "lib/sim/plan.h"
#include "lib/sim/waits.h"

struct sn_plan_report {
    const struct sn_plan *plan;
    const struct sn_plan *ramp; /* of the sizes of batch before the last; NULL: there are none */
    const struct sn_plan_stage *stage; /* [stages->n] */
    const struct sn_stages *stages;
    const struct sn_pricer *pricer;
    const struct sn_goodput *goodput;
    int64_t limit; /* bytes that a rank may fill */
    bool is_hosts; /* by this host, because no machine says so */
    bool json;
};

/* The plan on stdout, as text or as one JSON object (docs/plan.schema.json). */
enum sn_status sn_plan_print(const struct sn_plan_report *r, struct sn_err *err);
/* What each stage keeps from forward to backward. */
enum sn_status sn_plan_print_activations(const struct sn_stages *s, bool json, struct sn_err *err);
/* One of a job's programs, by name. */
enum sn_status sn_plan_print_program(const struct sn_job *j, const char *name, struct sn_err *err);
/* What its stage waits for in a step. */
enum sn_status sn_plan_print_waits(const struct sn_waits *w, struct sn_err *err);
/* A line for each kernel of one of a job's programs: what it is, its shape as in machine files, how
 * often it runs in a step, bytes, FLOPs and the seconds that the pricer says. */
enum sn_status sn_plan_print_operations(const struct sn_job *j, const struct sn_pricer *price,
                                        const char *name, struct sn_err *err);

#endif
