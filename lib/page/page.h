/*
 * page.h - a plan as a page of HTML that stands alone: what was planned, why, and what else might be.
 *
 * Every figure is one that sennit-plan prints elsewhere: of the plan, of its pipeline stages, of a
 * search, of the plan of a layout that differs in one key. The page computes none.
 */
#ifndef SN_PAGE_H
#define SN_PAGE_H

#include "lib/report/goodput.h"
#include "lib/report/picture.h"
#include "lib/sim/plan.h"

struct sn_page {
    const struct sn_config *asked; /* as the run file has it, before open keys were resolved */
    bool is_searched;              /* its layout is that of a search */
    const struct sn_plan *plan;
    const struct sn_plan_stage *stage; /* [stages->n] */
    const struct sn_stages *stages;
    const struct sn_pricer *pricer;
    const struct sn_goodput *goodput;
    const struct sn_picture *picture;
    int64_t limit; /* bytes that a rank may fill */
    bool is_hosts; /* by this host, because no machine says so */
    const struct sn_ops *ops;
    int threads;
    const char *command, *version;
    /* As struct sn_campaign_want has it. */
    double (*notice)(double step, double save, double limit);
};

/* Searches, and plans what differs in one key: seconds. Writers of `out` look at out->failed. */
enum sn_status sn_page_html(struct sn_str *out, const struct sn_page *p, struct sn_err *err);

#endif
