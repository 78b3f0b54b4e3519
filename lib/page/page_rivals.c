/*
 * page_rivals.c - why this layout: the best of each grid beside it.
 */
#include "lib/page/page_inner.h"

#include "lib/base/mem.h"
#include "lib/search/words.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 8, MOST_LAYOUTS = 24000 };

/* Keys that are held as the run has them, one set after another, until few enough layouts are left. */
static const struct {
    unsigned keys;
    const char *words;
} holds[] = {
    {1u << SN_KEY_CONTEXT | 1u << SN_KEY_CONTEXT_KIND | 1u << SN_KEY_SEQUENCE_PARALLEL |
         1u << SN_KEY_TENSOR_X,
     "context ranks"},
    {1u << SN_KEY_EXPERT | 1u << SN_KEY_SCHEDULE, "expert ranks and the schedule"},
    {1u << SN_KEY_VIRTUAL_STAGES | 1u << SN_KEY_RECOMPUTE, "virtual stages and recomputation"},
    {1u << SN_KEY_ZERO | 1u << SN_KEY_MICRO_BATCH, "ZeRO stage and micro-batch"},
};
enum { HOLDS = sizeof(holds) / sizeof(holds[0]) };

/* Of rivals; where the run cuts no tensors it says nothing about it. */
static bool parallel(const struct sn_layout_config *l)
{
    return l->sequence_parallel || l->tensor == 1;
}

void page_hold(struct sn_config *c, const struct sn_layout_config *l)
{
    sn_search_free(c);
    c->layout.context = l->context;
    c->layout.context_kind = l->context_kind;
    c->layout.sequence_parallel = parallel(l);
    c->layout.tensor_x = l->tensor_x;
    c->layout.expert = l->expert;
    c->layout.schedule = l->schedule;
    c->layout.virtual_stages = l->virtual_stages;
    c->layout.recompute = l->recompute;
    c->layout.zero = l->zero;
    c->layout.micro_batch = l->micro_batch;
}

static enum sn_status search(struct sn_search *s, int *held, const struct sn_page *p,
                             struct sn_config *c, struct sn_err *err)
{
    struct sn_search_want w = {.config = c,
                               .machine = p->pricer->machine,
                               .software = p->pricer->software,
                               .ops = p->ops,
                               .threads = p->threads,
                               .ranks = p->plan->ranks,
                               .top = ROWS,
                               .limit = p->limit,
                               .most = MOST_LAYOUTS,
                               .seconds = SN_PAGE_PATIENCE,
                               .front = true};
    page_hold(c, &p->stages->job[0]->config->layout);
    for (*held = 0; *held < HOLDS;) {
        c->layout_named |= holds[(*held)++].keys;
        sn_search_fini(s);
        SN_TRY(sn_search_run(s, &w, err));
        if (!s->too_many)
            return SN_OK;
    }
    return SN_OK;
}

static void table_row(struct sn_str *out, const char *name, const struct sn_layout_config *l,
                      const struct sn_plan *plan, const struct sn_plan *best, int64_t limit)
{
    struct sn_str why = {0};
    sn_html_row_begin(out, name ? "this" : NULL);
    page_layout_cell(out, name, l);
    page_plan_cells(out, plan, best->step_time, limit);
    if (plan == best)
        sn_search_breakdown(&why, best);
    else
        sn_search_loses(&why, plan, best);
    sn_html_cell(out, "words", "%s", why.p ? why.p : "");
    out->failed |= why.failed;
    sn_str_fini(&why);
    sn_html_row_end(out);
}

/* The run's own layout stands among those found, or above them. */
static int own_row(const struct sn_search *s, const struct sn_page *p)
{
    const struct sn_layout_config *l = &p->stages->job[0]->config->layout;
    char own[PAGE_AXES], other[PAGE_AXES];
    (void)page_axes(own, l);
    for (int i = 0; i < s->n; i++)
        if (s->found[i].plan.step_time == p->plan->step_time &&
            s->found[i].plan.memory.total == p->plan->memory.total &&
            strcmp(page_axes(other, &s->found[i].layout), own) == 0)
            return i;
    return -1;
}

static void table(struct sn_str *out, const struct sn_search *s, const struct sn_page *p)
{
    static const char *const head[] = {"layout", "#step", "#to the best", "#MFU", "#memory", "why"};
    const struct sn_plan *best = &s->found[0].plan;
    int own = own_row(s, p);
    sn_html_table_begin(out, head, 6);
    if (own < 0)
        table_row(out, "this run", &p->stages->job[0]->config->layout, p->plan, best, p->limit);
    for (int i = 0; i < s->n; i++)
        table_row(out, i == own ? "this run" : NULL, &s->found[i].layout, &s->found[i].plan, best,
                  p->limit);
    sn_html_table_end(out);
}

static void verdict(struct sn_str *out, const struct sn_search *s, const struct sn_page *p)
{
    const struct sn_plan *best = &s->found[0].plan;
    char time[16];
    double slower = 100 * (p->plan->step_time / best->step_time - 1);
    if (p->is_searched && own_row(s, p) == 0)
        sn_html_add(out, "p", NULL,
                    "The search chose this layout; below it is the best layout of "
                    "each other grid, and what it loses on.");
    else if (own_row(s, p) == 0)
        sn_html_add(out, "p", NULL,
                    "The run file names this layout, and a search of the same "
                    "ranks finds none better.");
    else if (slower > 0)
        sn_html_add(out, "p", NULL,
                    "%s; the best that a search of the same ranks finds takes %s: "
                    "this one takes %.1f %% longer.",
                    p->is_searched ? "The layout is that of a search"
                                   : "The run file names this layout",
                    sn_str_seconds(time, best->step_time), slower);
    else
        sn_html_add(out, "p", NULL,
                    "The run file names this layout; what a search of the same "
                    "ranks finds is not faster%s.",
                    p->plan->memory.total > p->limit ? ", but fits" : "");
}

static void scope(struct sn_str *out, const struct sn_search *s, int held, const struct sn_page *p)
{
    bool is_parallel = parallel(&p->stages->job[0]->config->layout);
    struct sn_str text = {0};
    char size[16];
    for (int i = 0; i < held; i++)
        sn_str_add(&text, "%s%s", i ? ", " : "", holds[i].words);
    sn_html_add(out, "p", "note",
                "%lld layouts (orders of axes apart), with sequence parallelism %s, and %s as they "
                "are here: %lld are known not to fit %s, %lld were compiled, %s.",
                (long long)s->valid, is_parallel ? "on" : "off", text.p ? text.p : "",
                (long long)s->too_big, sn_str_bytes(size, p->limit), (long long)s->exact,
                s->stopped ? "and the search ended there, so that better ones may be left"
                           : "the others are provably not better");
    out->failed |= text.failed;
    sn_str_fini(&text);
}

static void found(struct sn_str *out, const struct sn_search *s, int held, const struct sn_page *p)
{
    char need[16], have[16];
    if (s->too_many)
        sn_html_add(out, "p", NULL, "Not searched: the run has %lld layouts on these ranks.",
                    (long long)s->valid);
    else if (s->n == 0)
        sn_html_add(out, "p", NULL, "None of %lld layouts fits %s; the nearest needs %s.",
                    (long long)s->valid, sn_str_bytes(have, p->limit),
                    sn_str_bytes(need, s->n_near ? s->near[0].plan.memory.total : 0));
    if (s->n > 0) {
        verdict(out, s, p);
        table(out, s, p);
        scope(out, s, held, p);
        page_less_memory(out, s, p);
    }
}

enum sn_status page_rivals(struct sn_str *out, const struct sn_page *p, struct sn_err *err)
{
    struct sn_search s = {0};
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    struct sn_err why = {0};
    int held;
    if (!c)
        return sn_fail(err, SN_ENOMEM, "--report: no memory for a search");
    *c = *p->asked;
    sn_html_section_begin(out, "5. Why this layout");
    enum sn_status st = search(&s, &held, p, c, &why);
    if (st == SN_OK)
        found(out, &s, held, p);
    else
        sn_html_add(out, "p", NULL, "Not searched: %s.", why.text);
    if (st == SN_ENOMEM)
        st = sn_fail(err, st, "%s", why.text);
    else
        st = page_less_time(out, p,
                            s.n > 0 ? &s.found[0].layout : &p->stages->job[0]->config->layout, err);
    sn_html_section_end(out);
    sn_search_fini(&s);
    sn_free(c);
    return st;
}
