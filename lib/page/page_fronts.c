/*
 * page_fronts.c - what less memory costs in time, and what less time costs.
 */
#include "lib/page/page_inner.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/campaign/points.h"
#include "lib/report/curve.h"

#include <stdio.h>

enum { LABEL = 32, MOST_POINTS = 4 };

/* Points in order, and what stands beside them. */
struct labelled {
    struct sn_curve_point point[SN_SEARCH_FRONT + 1];
    char label[SN_SEARCH_FRONT + 1][LABEL];
    int n;
};

static void add(struct labelled *l, double x, double y, const char *label)
{
    (void)snprintf(l->label[l->n], LABEL, "%s", label);
    l->point[l->n] = (struct sn_curve_point){x, y, l->label[l->n]};
    l->n++;
}

static void curve(struct sn_str *out, const char *head, const struct labelled *line,
                  const struct labelled *mark)
{
    const struct sn_curve of[] = {{head, line->point, line->n, false},
                                  {NULL, mark->point, mark->n, true}};
    sn_html_box_begin(out, "scroll");
    sn_curves_svg(out, &(struct sn_curves){"", "", of, mark->n > 0 ? 2 : 1, true});
    sn_html_box_end(out);
}

/* --- memory ----------------------------------------------------------------------------------- */

static double gib(int64_t bytes)
{
    return (double)bytes / (1 << 30);
}

void page_less_memory(struct sn_str *out, const struct sn_search *s, const struct sn_page *p)
{
    static const char *const head[] = {"", "layout", "#step", "#to the best", "#MFU", "#memory"};
    struct labelled line = {.n = 0}, mark = {.n = 0};
    char number[16];
    if (s->n_front < 2)
        return;
    sn_html_add(out, "h3", NULL, "What less memory costs");
    sn_html_add(
        out, "p", "note",
        "Each point is the fastest layout that needs at least a fifth less memory than the one "
        "to its right%s.",
        s->front_stopped ? "; more may follow, the search ended here" : "");
    for (int i = s->n_front; i-- > 0;) {
        const struct sn_plan *plan = &s->front[i].plan;
        (void)snprintf(number, sizeof(number), "%d", i + 1);
        add(&line, gib(plan->memory.total), plan->step_time, number);
    }
    add(&mark, gib(p->plan->memory.total), p->plan->step_time, "this run");
    curve(out, "Seconds of a step, over GiB of the fullest device", &line, &mark);
    sn_html_table_begin(out, head, 6);
    for (int i = 0; i < s->n_front; i++) {
        sn_html_row_begin(out, NULL);
        sn_html_cell(out, "keep", "%d", i + 1);
        page_layout_cell(out, NULL, &s->front[i].layout);
        page_plan_cells(out, &s->front[i].plan, s->front[0].plan.step_time, p->limit);
        sn_html_row_end(out);
    }
    sn_html_table_end(out);
}

/* --- cost ------------------------------------------------------------------------------------- */

/* Ranks of whole nodes, from a quarter of the run's to twice as many. */
static int ranks_of(int ranks[MOST_POINTS], const struct sn_page *p)
{
    int n = 0, node = p->pricer->machine->devices > 0 ? p->pricer->machine->devices : 1;
    for (int k = 0; k < MOST_POINTS; k++) {
        int r = k < 2 ? p->plan->ranks >> (2 - k) : p->plan->ranks << (k - 2);
        bool whole = k == 2 || (r > 0 && (k == 3 || p->plan->ranks % (4 >> k) == 0));
        if (whole && (k == 2 || r % node == 0))
            ranks[n++] = r;
    }
    return n;
}

static enum sn_status plan_points(struct sn_points *points, int *left_out, const struct sn_page *p,
                                  const struct sn_config *c, struct sn_err *err)
{
    int ranks[MOST_POINTS], n = ranks_of(ranks, p);
    double began = sn_clock();
    *left_out = 0;
    for (int i = 0; i < n; i++) {
        struct sn_points_want w = {
            .config = c,
            .machine = p->pricer->machine,
            .software = p->pricer->software,
            .campaign = {.ops = p->ops, .threads = p->threads, .notice = p->notice},
            .ranks = ranks[i]};
        if (sn_clock() - began > SN_PAGE_PATIENCE / 2)
            *left_out += 1;
        else
            SN_TRY(sn_points_add(points, &w, err));
    }
    return SN_OK;
}

static void point_row(struct sn_str *out, const struct sn_point *x, bool priced)
{
    const struct sn_campaign *k = &x->campaign;
    char number[24], time[16];
    sn_html_row_begin(out, NULL);
    sn_html_count(out, x->ranks);
    if (x->found) {
        page_layout_cell(out, NULL, &x->layout);
        sn_html_cell(out, "num", "%s", sn_str_seconds(time, k->plan.step_time));
        sn_html_cell(out, "num", "%.1f %%", 100 * k->plan.mfu);
        sn_html_cell(out, "num", "%s", sn_campaign_number(number, k->days));
        sn_html_cell(out, "num", "%s", sn_campaign_number(number, k->node_hours));
        if (priced)
            sn_html_cell(out, "num", "%s", sn_campaign_number(number, k->dollars));
    } else {
        sn_str_add(out, "<td colspan=\"%d\" class=\"note\">", priced ? 6 : 5);
        sn_html_add(out, "span", NULL, "%s", x->why);
        sn_str_add(out, "</td>");
    }
    sn_html_row_end(out);
}

static void draw_points(struct sn_str *out, const struct sn_points *points, int left_out)
{
    static const char *const head[] = {"#ranks", "layout",      "#step", "#MFU",
                                       "#days",  "#node-hours", "#$"};
    struct labelled line = {.n = 0}, none = {.n = 0};
    bool priced = false;
    char ranks[32];
    for (int i = 0; i < points->n; i++) {
        const struct sn_point *x = &points->point[i];
        if (!x->found)
            continue;
        priced = x->campaign.dollars > 0;
        (void)snprintf(ranks, sizeof(ranks), "%d ranks", x->ranks);
        add(&line, priced ? x->campaign.dollars : x->campaign.node_hours, x->campaign.days, ranks);
    }
    if (line.n > 1)
        curve(out, priced ? "Days of the run, over dollars" : "Days of the run, over node-hours",
              &line, &none);
    sn_html_table_begin(out, head, priced ? 7 : 6);
    for (int i = 0; i < points->n; i++)
        point_row(out, &points->point[i], priced);
    sn_html_table_end(out);
    if (left_out)
        sn_html_add(out, "p", "note",
                    "%d more numbers of ranks were left out: those above took "
                    "%.0f s.",
                    left_out, SN_PAGE_PATIENCE / 2);
}

enum sn_status page_less_time(struct sn_str *out, const struct sn_page *p,
                              const struct sn_layout_config *best, struct sn_err *err)
{
    struct sn_points points = {0};
    int left_out;
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    if (!c)
        return sn_fail(err, SN_ENOMEM, "--report: no memory for other numbers of ranks");
    *c = *p->asked;
    page_hold(c, best);
    c->layout_named = 1u << SN_KEY_CONTEXT | 1u << SN_KEY_CONTEXT_KIND |
                      1u << SN_KEY_SEQUENCE_PARALLEL | 1u << SN_KEY_TENSOR_X | 1u << SN_KEY_EXPERT |
                      1u << SN_KEY_RECOMPUTE | 1u << SN_KEY_ZERO;
    enum sn_status st = plan_points(&points, &left_out, p, c, err);
    sn_free(c);
    if (st == SN_OK) {
        sn_html_add(out, "h3", NULL, "What less time costs");
        sn_html_add(out, "p", "note",
                    "The run of %lld steps on other numbers of ranks, as sennit-plan campaign has "
                    "it, in the best layout that searching grids, micro-batches and schedules "
                    "finds; without queues.",
                    (long long)p->asked->train.steps);
        draw_points(out, &points, left_out);
    }
    sn_points_fini(&points);
    return st;
}
