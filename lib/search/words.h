/*
 * words.h - layouts and what they lose to each other, as words.
 */
#ifndef SN_SEARCH_WORDS_H
#define SN_SEARCH_WORDS_H

#include "lib/base/str.h"
#include "lib/sim/plan.h"

/* What is not the usual: "micro-batch 2, 1f1b, recompute none, zero 1". */
void sn_search_describe(struct sn_str *out, const struct sn_layout_config *l);
/* The two largest parts of what a rival takes longer, in parts of the winner's step. */
void sn_search_loses(struct sn_str *out, const struct sn_plan *p, const struct sn_plan *best);
/* Parts of a step. */
void sn_search_breakdown(struct sn_str *out, const struct sn_plan *p);

#endif
