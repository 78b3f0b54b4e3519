#include "lib/campaign/points.h"

#include "lib/base/mem.h"
#include "lib/machine/named.h"
#include "lib/search/resolve.h"
#include "lib/search/search.h"

#include <stdio.h>
#include <string.h>

static enum sn_status append(struct sn_point **out, struct sn_points *p, const char *machine,
                             int ranks, struct sn_err *err)
{
    struct sn_point *all = sn_alloc_n((size_t)p->n + 1, sizeof(*all));
    if (!all)
        return sn_fail(err, SN_ENOMEM, "no memory for %d campaigns", p->n + 1);
    if (p->n)
        memcpy(all, p->point, (size_t)p->n * sizeof(*all));
    sn_free(p->point);
    p->point = all;
    *out = &all[p->n++];
    **out = (struct sn_point){.ranks = ranks};
    (void)snprintf((*out)->machine, sizeof((*out)->machine), "%s", machine);
    return SN_OK;
}

enum sn_status sn_points_skip(struct sn_points *p, const char *machine, int ranks, const char *why,
                              struct sn_err *err)
{
    struct sn_point *point;
    SN_TRY(append(&point, p, machine, ranks, err));
    (void)snprintf(point->why, sizeof(point->why), "%s", why);
    return SN_OK;
}

/* The layout goes to *c. */
static enum sn_status search(struct sn_point *out, struct sn_config *c,
                             const struct sn_points_want *w, struct sn_err *err)
{
    struct sn_search s = {0};
    struct sn_search_want want = {.config = c,
                                  .machine = w->machine,
                                  .software = w->software,
                                  .ops = w->campaign.ops,
                                  .threads = w->campaign.threads,
                                  .ranks = w->ranks,
                                  .top = 1,
                                  .limit = sn_names_machine(c) ? sn_memory_limit(w->machine, c)
                                                               : sn_host_limit(w->ranks)};
    enum sn_status st = sn_search_run(&s, &want, err);
    if (st == SN_OK && s.n > 0) {
        c->layout = s.found[0].layout;
        c->layout_auto = false;
    } else if (st == SN_OK)
        (void)sn_search_why(out->why, &s, want.limit);
    sn_search_fini(&s);
    return st;
}

static enum sn_status fill(struct sn_point *out, struct sn_config *c,
                           const struct sn_points_want *w, struct sn_err *err)
{
    SN_TRY(search(out, c, w, err));
    if (out->why[0])
        return SN_OK;
    SN_TRY(sn_resolve_layout(c, w->ranks, err));
    SN_TRY(sn_campaign_find(&out->campaign, c, w->machine, w->software, &w->campaign, err));
    out->layout = c->layout;
    out->found = true;
    return SN_OK;
}

enum sn_status sn_points_add(struct sn_points *p, const struct sn_points_want *w,
                             struct sn_err *err)
{
    struct sn_point *point;
    SN_TRY(append(&point, p, w->machine->name, w->ranks, err));
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    if (!c)
        return sn_fail(err, SN_ENOMEM, "no memory for a campaign");
    *c = *w->config;
    c->machine.nodes = 0;
    enum sn_status st = fill(point, c, w, err);
    if (st == SN_EINPUT) {
        (void)snprintf(point->why, sizeof(point->why), "%s", err->text);
        *err = (struct sn_err){0};
        st = SN_OK;
    }
    sn_free(c);
    return st;
}

/* The point of fewest ranks that was found. */
static const struct sn_point *fewest(const struct sn_points *p)
{
    const struct sn_point *least = NULL;
    for (int i = 0; i < p->n; i++)
        if (p->point[i].found && (!least || p->point[i].ranks < least->ranks))
            least = &p->point[i];
    return least;
}

void sn_points_compare(struct sn_points *p)
{
    const struct sn_point *least = fewest(p);
    p->compared = true;
    for (int i = 0; i < p->n; i++) {
        struct sn_point *x = &p->point[i];
        if (x->found && x != least)
            x->patience = (least->campaign.days - x->campaign.days) * 24 / x->campaign.held.jobs;
    }
}

void sn_points_fini(struct sn_points *p)
{
    sn_free(p->point);
    *p = (struct sn_points){0};
}
