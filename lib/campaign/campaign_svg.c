/*
 * campaign_svg.c - campaigns as curves: over ranks, and the loss of a budget over models' sizes.
 */
#include "lib/base/mem.h"
#include "lib/campaign/budget.h"
#include "lib/report/curve.h"

#include <math.h>
#include <stdio.h>

enum { LABEL = 64, SAMPLES = 81 };

/* --- over ranks -------------------------------------------------------------------------------- */

struct over_ranks {
    struct sn_curve_point days, hours;
    char day[LABEL], hour[LABEL];
};

static int fill(struct over_ranks *o, const struct sn_points *p)
{
    int n = 0;
    char number[24];
    for (int i = 0; i < p->n; i++) {
        const struct sn_point *x = &p->point[i];
        if (!x->found)
            continue;
        struct over_ranks *at = &o[n++];
        (void)snprintf(at->day, LABEL, "%d ranks: %s days", x->ranks,
                       sn_campaign_number(number, x->campaign.days));
        (void)snprintf(at->hour, LABEL, "%s node-hours, MFU %.1f %%",
                       sn_campaign_number(number, x->campaign.node_hours),
                       100 * x->campaign.plan.mfu);
        at->days = (struct sn_curve_point){x->ranks, x->campaign.days, at->day};
        at->hours = (struct sn_curve_point){x->ranks, x->campaign.node_hours, at->hour};
    }
    return n;
}

static void draw_ranks(struct sn_str *out, const struct over_ranks *o, int n,
                       struct sn_curve_point *v, const struct sn_point *of, const char *title)
{
    char note[256], tokens[24];
    for (int i = 0; i < n; i++) {
        v[i] = o[i].days;
        v[n + i] = o[i].hours;
    }
    (void)snprintf(note, sizeof(note),
                   "%s tokens of a model of %.3g parameters on %s, in the best layout of each "
                   "number of ranks",
                   sn_campaign_number(tokens, of->campaign.tokens), (double)of->campaign.parameters,
                   of->machine);
    const struct sn_curve curve[] = {{"Days, over ranks", v, n, false},
                                     {"Node-hours, over ranks", v + n, n, false}};
    sn_curves_svg(out, &(struct sn_curves){title, note, curve, 2, false});
}

enum sn_status sn_points_svg(struct sn_str *out, const struct sn_points *p, const char *title,
                             struct sn_err *err)
{
    const struct sn_point *of = NULL;
    struct over_ranks *o = sn_alloc_n((size_t)p->n, sizeof(*o));
    struct sn_curve_point *v = sn_alloc_n(2 * (size_t)p->n, sizeof(*v));
    enum sn_status st = SN_OK;
    if (!o || !v)
        st = sn_fail(err, SN_ENOMEM, "--svg: no memory for %d campaigns", p->n);
    int n = st == SN_OK ? fill(o, p) : 0;
    for (int i = 0; i < p->n; i++)
        of = p->point[i].found ? &p->point[i] : of;
    if (st == SN_OK && n < 2)
        st = sn_fail(err, SN_EINPUT,
                     "--svg: %d of %d numbers of ranks %s a layout; want two that have one", n,
                     p->n, n == 1 ? "has" : "have");
    if (st == SN_OK)
        draw_ranks(out, o, n, v, of, title);
    sn_free(v);
    sn_free(o);
    return st;
}

/* --- a budget ---------------------------------------------------------------------------------- */

static struct sn_curve_point mark(char label[LABEL], const char *what, const struct sn_law *law,
                                  double n, double d)
{
    char number[24], tokens[24];
    (void)snprintf(label, LABEL, "%s: %s, %s tokens", what, sn_campaign_number(number, n),
                   sn_campaign_number(tokens, d));
    return (struct sn_curve_point){n, sn_law_loss(law, n, d), label};
}

enum sn_status sn_budget_svg(struct sn_str *out, const struct sn_budget *b, const char *title,
                             struct sn_err *err)
{
    const struct sn_law *law = b->law->a > 0 ? b->law : &sn_laws[0];
    const struct sn_campaign *run = &b->run.campaign, *large = &b->largest.campaign;
    struct sn_curve_point v[SAMPLES], marks[3];
    char label[3][LABEL], note[256], hours[24];
    if (!b->run.found)
        return sn_fail(err, SN_EINPUT, "--svg: the run's model has no layout: %.200s", b->run.why);
    double flops = 6 * (double)run->parameters * run->tokens;
    double best = sn_law_parameters(law, flops);
    double most = fmax(4, fmax((double)run->parameters / best, best / (double)run->parameters));
    for (int i = 0; i < SAMPLES; i++) {
        double n = best * pow(most, 2.0 * i / (SAMPLES - 1) - 1);
        v[i] = (struct sn_curve_point){n, sn_law_loss(law, n, flops / 6 / n), NULL};
    }
    marks[0] = mark(label[0], "the run's", law, (double)run->parameters, run->tokens);
    marks[1] = mark(label[1], "best", law, best, flops / 6 / best);
    if (b->largest.found)
        marks[2] = mark(label[2], "largest planned", law, (double)large->parameters, large->tokens);
    (void)snprintf(note, sizeof(note), "%s node-hours of %s on %d ranks, %.3g FLOPs; law %s",
                   sn_campaign_number(hours, b->node_hours), b->run.machine, b->run.ranks, flops,
                   law->name);
    const struct sn_curve curve[] = {{"Loss by the law, over parameters", v, SAMPLES, false},
                                     {NULL, marks, b->largest.found ? 3 : 2, true}};
    sn_curves_svg(out, &(struct sn_curves){title, note, curve, 2, false});
    return SN_OK;
}
