/*
 * points_text.c - campaigns side by side, as a table with bars.
 */
#include "lib/campaign/points.h"

#include <stdio.h>

enum { BAR = 30 };

static void value(struct sn_str *out, double v)
{
    char n[24];
    sn_str_add(out, " %9s", v > 0 ? sn_campaign_number(n, v) : "-");
}

static double most_days(const struct sn_points *p)
{
    double most = 0;
    for (int i = 0; i < p->n; i++)
        if (p->point[i].found && p->point[i].campaign.days > most)
            most = p->point[i].campaign.days;
    return most;
}

static void row(struct sn_str *out, const struct sn_points *all, const struct sn_point *p)
{
    const struct sn_campaign *c = &p->campaign;
    char axes[SN_AXES_SIZE] = {0};
    sn_str_add(out, "%-15s %6d", p->machine, p->ranks);
    if (!p->found) {
        sn_str_add(out, "  %s\n", p->why);
        return;
    }
    sn_str_add(out, " %5.1f %%", 100 * c->plan.mfu);
    value(out, c->days);
    value(out, c->held.jobs);
    value(out, c->node_hours);
    value(out, c->device_hours);
    value(out, (c->device_joules + c->node_joules) / 3.6e9);
    value(out, c->dollars);
    if (all->compared)
        sn_str_add(out, " %9.3g", p->patience);
    sn_str_add(out, "  %s, micro-batch %d, zero %d\n", sn_config_axes(axes, &p->layout),
               p->layout.micro_batch, p->layout.zero);
}

static void bar(struct sn_str *out, const struct sn_points *all, const struct sn_point *p,
                double most)
{
    char days[24];
    if (all->compared)
        sn_str_add(out, "%15d |", p->ranks);
    else
        sn_str_add(out, "%15s |", p->machine);
    for (int i = 0; i < BAR && i < p->campaign.days / most * BAR; i++)
        sn_str_add(out, "#");
    sn_str_add(out, " %s\n", sn_campaign_number(days, p->campaign.days));
}

void sn_points_text(struct sn_str *out, const struct sn_points *p)
{
    double most = most_days(p);
    sn_str_add(out, "%-15s %6s %7s %9s %9s %9s %9s %9s %9s", "machine", "ranks", "MFU", "days",
               "jobs", "node-h", "device-h", "MWh", "$");
    sn_str_add(out, "%s  layout\n", p->compared ? "  may wait" : "");
    for (int i = 0; i < p->n; i++)
        row(out, p, &p->point[i]);
    if (p->compared)
        sn_str_add(out, "may wait: hours that each job may be longer in the queue until the run "
                        "takes as many days as with the fewest ranks\n");
    if (most > 0 && p->n > 1)
        sn_str_add(out, "days\n");
    for (int i = 0; i < p->n && p->n > 1; i++)
        if (p->point[i].found)
            bar(out, p, &p->point[i], most);
}
