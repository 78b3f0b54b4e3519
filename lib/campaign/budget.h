/*
 * budget.h - what so many node-hours buy: the most tokens for the run's model, and the largest model of its
 * shape that still sees as many tokens as a scaling law wants.
 *
 * Models of a shape have layers, heads, key-value heads, hidden size and inner width in the run's
 * proportions, rounded to what layouts can cut; vocabulary, sequence and batch are the run's. Each that is
 * tried has its best layout searched, so that its own rate counts, and memory.
 */
#ifndef SN_BUDGET_H
#define SN_BUDGET_H

#include "lib/campaign/laws.h"
#include "lib/campaign/points.h"

struct sn_budget {
    double node_hours;
    const struct sn_law *law;
    struct sn_point run;          /* the run's model, for as many steps as there are hours */
    struct sn_point largest;      /* `found` false: `why` there is none */
    struct sn_model_config model; /* its */
    int tried;
};

/* w->config has the model, and the keys of the layout that it names stand. SN_EINPUT where the run's own
 * model does no step. */
enum sn_status sn_budget_find(struct sn_budget *out, const struct sn_points_want *w,
                              double node_hours, const struct sn_law *law, struct sn_err *err);
/* The run's model with `heads` heads; *c has it already. False where its shape has no smaller or larger
 * ones (experts, shared layers). */
bool sn_budget_scale(struct sn_model_config *m, int heads);
/* Heads that models of this shape have are multiples of that. */
int sn_budget_unit(const struct sn_model_config *m);

void sn_budget_text(struct sn_str *out, const struct sn_budget *b);
/* The law's loss over the number of parameters for the FLOPs that the run's model does in these hours, with
 * what was planned as marks; a law without a loss is drawn by the first. SN_EINPUT where the run's model
 * has no layout. */
enum sn_status sn_budget_svg(struct sn_str *out, const struct sn_budget *b, const char *title,
                             struct sn_err *err);
/* The value of "budget" ($defs/budget), without the plans. */
void sn_budget_json(struct sn_str *out, const struct sn_budget *b);

#endif
