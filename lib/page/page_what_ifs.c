/*
 * page_what_ifs.c - the same run with one key of its layout changed, and on a slower network: planned.
 */
#include "lib/page/page_inner.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/search/resolve.h"

#include <stdio.h>

/* --- what changes ----------------------------------------------------------------------------- */

enum key { MICRO_BATCH, RECOMPUTE, SEQUENCE, TENSOR, PIPELINE, ZERO, NKEYS };

struct change {
    enum key key;
    int to; /* what the key says then */
};

/* A grid of other sizes has another split, and copies as the ranks say. */
static void put_grid(struct sn_layout_config *l)
{
    l->n_split = 0;
    if (l->pipeline == 1) {
        l->virtual_stages = 1;
        l->schedule = SN_SCHEDULE_DEFAULT;
    }
}

static void put(struct sn_layout_config *l, const struct change *x)
{
    l->data = 0;
    switch (x->key) {
    case MICRO_BATCH:
        l->micro_batch = x->to;
        break;
    case RECOMPUTE:
        l->recompute = (enum sn_recompute)x->to;
        break;
    case SEQUENCE:
        l->sequence_parallel = x->to;
        break;
    case TENSOR:
        l->tensor = x->to;
        put_grid(l);
        break;
    case PIPELINE:
        l->pipeline = x->to;
        put_grid(l);
        break;
    default:
        l->zero = x->to;
    }
}

static void name(struct sn_str *out, const struct change *x)
{
    static const char *const recompute[] = {"none", "selective", "full"};
    static const char *const key[] = {"micro-batch", "recompute", "sequence parallelism",
                                      "tensor",      "pipeline",  "ZeRO stage"};
    if (x->key == RECOMPUTE)
        sn_html_cell(out, "keep", "%s %s", key[x->key], recompute[x->to]);
    else if (x->key == SEQUENCE)
        sn_html_cell(out, "keep", "%s %s", key[x->key], x->to ? "on" : "off");
    else
        sn_html_cell(out, "keep", "%s %d", key[x->key], x->to);
}

/* Twice and half of a size. */
static int beside(struct change *x, int n, enum key key, int now)
{
    if (now % 2 == 0)
        x[n++] = (struct change){key, now / 2};
    x[n++] = (struct change){key, now * 2};
    return n;
}

enum { MOST_CHANGES = 16 };

static int changes(struct change x[MOST_CHANGES], const struct sn_layout_config *l, int ranks)
{
    int n = beside(x, 0, MICRO_BATCH, l->micro_batch);
    for (int r = SN_RECOMPUTE_NONE; r <= SN_RECOMPUTE_FULL; r++)
        if (r != (int)l->recompute)
            x[n++] = (struct change){RECOMPUTE, r};
    if (l->tensor > 1)
        x[n++] = (struct change){SEQUENCE, !l->sequence_parallel};
    if (ranks > 1) {
        n = beside(x, n, TENSOR, l->tensor);
        n = beside(x, n, PIPELINE, l->pipeline);
    }
    for (int z = l->zero - 1; z <= l->zero + 1; z += 2)
        if (z >= 0 && z <= 3 && ranks > 1)
            x[n++] = (struct change){ZERO, z};
    return n;
}

/* --- planned ---------------------------------------------------------------------------------- */

static enum sn_status make(struct sn_plan *out, struct sn_config *c, const struct sn_page *p,
                           const struct sn_machine *m, struct sn_err *err)
{
    struct sn_stages stages = {0};
    struct sn_pricer pricer;
    struct sn_job_env env = {
        .config = c, .model = p->stages->job[0]->model, .ops = p->ops, .threads = p->threads};
    SN_TRY(sn_stages_create(&stages, &env, err));
    sn_pricer_init(&pricer, m, p->pricer->software, stages.job[0]);
    enum sn_status st = sn_plan_make(out, &stages, &pricer, err);
    sn_stages_fini(&stages);
    return st;
}

static enum sn_status plan_change(struct sn_plan *out, const struct change *x, struct sn_config *c,
                                  const struct sn_page *p, struct sn_err *err)
{
    *c = *p->asked;
    put(&c->layout, x);
    SN_TRY(sn_config_resolve_ranks(c, p->plan->ranks, err));
    SN_TRY(sn_config_check_layout(c, p->plan->ranks, err));
    SN_TRY(sn_resolve_layout(c, p->plan->ranks, err));
    return make(out, c, p, p->pricer->machine, err);
}

/* Links between nodes at half their rate; false: there are none, or `why` that cannot be said. */
static bool halve(struct sn_machine *m, const struct sn_machine *from, int ranks, const char **why)
{
    bool any = false;
    *why = NULL;
    *m = *from;
    for (int l = 1; l < m->n_levels; l++) {
        struct sn_level *v = &m->level[l];
        any = true;
        if (v->measured.n > 0)
            *why = "its links are known by measurements, not by a rate";
        v->device /= 2;
        v->peer /= 2;
        v->domain /= 2;
    }
    return any && m->devices > 0 && ranks > m->devices;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void refused(struct sn_str *out, const char *path, const char *why)
{
    size_t n = 0;
    while (path[n] && path[n] == why[n])
        n++;
    bool has_path = n > 0 && path[n] == '\0' && why[n] == ':';
    sn_str_add(out, "<td colspan=\"4\" class=\"note\">");
    sn_html_add(out, "span", NULL, "refused: %s", has_path ? why + n + 2 : why);
    sn_str_add(out, "</td>");
}

static enum sn_status change_row(struct sn_str *out, const struct change *x, struct sn_config *c,
                                 const struct sn_page *p, struct sn_err *err)
{
    struct sn_plan plan;
    struct sn_err why = {0};
    enum sn_status st = plan_change(&plan, x, c, p, &why);
    if (st == SN_ENOMEM)
        return sn_fail(err, st, "%s", why.text);
    sn_html_row_begin(out, NULL);
    name(out, x);
    if (st == SN_OK)
        page_plan_cells(out, &plan, p->plan->step_time, p->limit);
    else
        refused(out, p->asked->path, why.text);
    sn_html_row_end(out);
    return SN_OK;
}

static enum sn_status network_row(struct sn_str *out, const struct sn_page *p, struct sn_err *err)
{
    struct sn_machine m;
    struct sn_pricer pricer;
    struct sn_plan plan;
    const char *why;
    if (!halve(&m, p->pricer->machine, p->plan->ranks, &why))
        return SN_OK;
    sn_pricer_init(&pricer, &m, p->pricer->software, p->stages->job[0]);
    SN_TRY(sn_plan_make(&plan, p->stages, &pricer, err));
    sn_html_row_begin(out, NULL);
    sn_html_cell(out, "keep", "half the rate between nodes");
    if (why)
        refused(out, "", why);
    else
        page_plan_cells(out, &plan, p->plan->step_time, p->limit);
    sn_html_row_end(out);
    return SN_OK;
}

static enum sn_status rows(struct sn_str *out, const struct sn_page *p, struct sn_config *c,
                           int *left_out, struct sn_err *err)
{
    struct change x[MOST_CHANGES];
    int n = changes(x, &p->stages->job[0]->config->layout, p->plan->ranks);
    double began = sn_clock();
    sn_html_row_begin(out, "this");
    sn_html_cell(out, "keep", "as planned");
    page_plan_cells(out, p->plan, p->plan->step_time, p->limit);
    sn_html_row_end(out);
    SN_TRY(network_row(out, p, err));
    *left_out = 0;
    for (int i = 0; i < n; i++) {
        if (sn_clock() - began > SN_PAGE_PATIENCE)
            *left_out += 1;
        else
            SN_TRY(change_row(out, &x[i], c, p, err));
    }
    return SN_OK;
}

enum sn_status page_what_ifs(struct sn_str *out, const struct sn_page *p, struct sn_err *err)
{
    static const char *const head[] = {"with", "#step", "#to the plan", "#MFU", "#memory"};
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    int left_out = 0;
    if (!c)
        return sn_fail(err, SN_ENOMEM, "--report: no memory for what-ifs");
    sn_html_section_begin(out, "6. What would change if");
    sn_html_add(out, "p", NULL,
                "Each line is a plan of its own, on the same ranks: data ranks "
                "follow from the others.");
    sn_html_box_begin(out, "few");
    sn_html_table_begin(out, head, 5);
    enum sn_status st = rows(out, p, c, &left_out, err);
    sn_html_table_end(out);
    sn_html_box_end(out);
    if (left_out)
        sn_html_add(out, "p", "note", "%d more were left out: those above took %.0f s.", left_out,
                    SN_PAGE_PATIENCE);
    sn_html_section_end(out);
    sn_free(c);
    return st;
}
