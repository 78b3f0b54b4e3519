/*
 * plan_json.h - a plan as a JSON object: of a run file's layout, and of each that a search finds.
 */
#ifndef SN_BIN_PLAN_JSON_H
#define SN_BIN_PLAN_JSON_H

#include "lib/campaign/points.h"
#include "lib/sim/plan.h"

struct sn_plan_row {
    const struct sn_plan *plan;
    const struct sn_plan *ramp; /* as in struct sn_plan_report, */
    const struct sn_job *job;   /* and whose; of a search NULL */
    const struct sn_plan_stage *stage; /* [n_stages] of them; of a search none */
    int n_stages;
    const struct sn_layout_config *layout;
    const struct sn_model_config *model;
    const struct sn_machine *machine;
    const struct sn_software *software;
    int64_t parameters, limit;        /* of the model; bytes that a rank may fill */
    const struct sn_goodput *goodput; /* NULL: null */
    const char *why; /* of a search: why it won, or what it loses on; NULL: no key */
};

/* docs/plan.schema.json has every key. */
void sn_plan_json(struct sn_str *out, const struct sn_plan_row *r);
/* "campaign": ..., "plan": ...}: the end of an object that the caller begins. */
void sn_plan_campaign_json(struct sn_str *out, const struct sn_model_config *model,
                           const struct sn_layout_config *layout, const struct sn_campaign *k,
                           const struct sn_machine *m, const struct sn_software *s);
/* An object of "points". */
void sn_plan_point_json(struct sn_str *out, const struct sn_model_config *model,
                        const struct sn_point *p, const struct sn_machine *m,
                        const struct sn_software *s);

#endif
