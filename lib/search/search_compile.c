/*
 * search_compile.c - a layout compiled, with as many gathered weights kept as fit and in as many hops as the
 * price says.
 */
#include "lib/search/search_inner.h"

#include "lib/cost/hops.h"
#include "lib/machine/levels.h"
#include "lib/search/fit_cache.h"
#include "lib/search/overlap.h"

#include <math.h>
#include <string.h>

/* As many hops as the price says. */
static enum sn_status choose_hops(struct search *s, struct sn_layout_config *l, struct sn_err *err)
{
    struct sn_grid g;
    struct sn_hops h;
    if (l->expert <= 1 || l->expert_node > 0)
        return SN_OK;
    s->config->layout = *l;
    SN_TRY(sn_job_grid(&g, s->config, err));
    sn_hops_choose(&h, s->config, &g, s->w->machine, s->w->software);
    l->expert_node = h.node;
    return SN_OK;
}

enum sn_status search_weigh(struct search *s, struct sn_err *err)
{
    const struct sn_search_want *w = s->w;
    if (!s->hides)
        return SN_OK;
    return sn_overlap_rates_of(&s->config->overlap_rates, s->config, w->machine, w->software, err);
}

/* While layouts are ranked: memory alone of one that does not fit, and level_traffic only of one that is the
 * best of its grid so far. */
static enum sn_status make_plan(struct sn_plan *out, const struct search *s,
                                const struct sn_stages *stages, const struct sn_pricer *p,
                                struct sn_err *err)
{
    if (!s->ranked)
        return sn_plan_make(out, stages, p, err);
    *out = (struct sn_plan){.ranks = 0};
    sn_plan_memory(&out->memory, stages, p);
    if (s->limit && out->memory.total > s->limit)
        return SN_OK;
    SN_TRY(sn_plan_make_ranked(out, stages, p, err));
    if (search_is_better(s->ranked, out))
        sn_plan_add_levels(out, stages, p);
    return SN_OK;
}

enum sn_status search_compile_as(struct search *s, struct sn_found *f, struct sn_err *err)
{
    struct sn_stages stages;
    struct sn_pricer pricer;
    struct sn_job_env env = {
        .config = s->config, .model = s->model, .ops = s->w->ops, .threads = s->w->threads};
    s->config->layout = f->layout;
    SN_TRY(sn_levels_choose(s->config, s->w->machine, err));
    SN_TRY(search_weigh(s, err));
    f->layout.compress.node = s->config->layout.compress.node;
    SN_TRY(sn_stages_create(&stages, &env, err));
    sn_pricer_init(&pricer, s->w->machine, s->w->software, stages.job[0]);
    enum sn_status st = make_plan(&f->plan, s, &stages, &pricer, err);
    sn_stages_fini(&stages);
    return st;
}

struct compiled {
    struct search *s;
    struct sn_found *f;
    struct sn_plan fits; /* of the most that are known to fit */
};

static enum sn_status over(void *compiled, int n, int64_t *bytes, struct sn_err *err)
{
    struct compiled *x = compiled;
    x->f->layout.zero_cache = n;
    SN_TRY(search_compile_as(x->s, x->f, err));
    *bytes = x->f->plan.memory.total - x->s->limit;
    if (*bytes <= 0)
        x->fits = x->f->plan;
    return SN_OK;
}

/* The entry of a layout in another order of its axes; `made`: a new one in the place of the oldest. */
static struct room *room_of(struct search *s, const struct sn_layout_config *l, bool *made)
{
    struct room like = {.limit = s->limit, .layout = *l};
    like.layout.n_axis_order = 0;
    memset(like.layout.axis_order, 0, sizeof(like.layout.axis_order));
    for (int i = 0; i < SN_SEARCH_ROOMS; i++) {
        *made = s->room[i].limit != like.limit ||
                memcmp(&s->room[i].layout, &like.layout, sizeof(like.layout)) != 0;
        if (!*made)
            return &s->room[i];
    }
    struct room *r = &s->room[s->rooms++ % SN_SEARCH_ROOMS];
    *r = like;
    return r;
}

/* Bytes that were not estimated; each of them that are fewer than estimated takes as much. */
static double unknown(const struct search *s, const struct sn_estimate *e, const struct sn_found *f)
{
    double known = (double)(e->memory + search_library_of(s)) -
                   (e->zero_cache - f->layout.zero_cache) * e->cache_each;
    return (double)f->plan.memory.total - known;
}

/* As many as fit where as much is not estimated as of the layout before. */
static struct sn_cache_guess guess(const struct search *s, const struct sn_estimate *e)
{
    struct sn_cache_guess g = {e->zero_cache, e->zero_cache, e->cache_each};
    double over = (double)(e->memory + search_library_of(s) - s->limit) + s->unknown;
    if (over > 0 && g.each > 0)
        g.first -= (int)fmin(g.most, ceil(over / g.each));
    return g;
}

/* Memory is that of a layout in another order: as many fit, mostly. */
enum sn_status search_compile_cached(struct search *s, struct sn_found *f, struct sn_err *err)
{
    struct compiled x = {.s = s, .f = f};
    struct sn_estimate e;
    bool is_new = true;
    if (f->layout.zero_cache != SN_CACHE_AUTO)
        return search_compile_as(s, f, err);
    struct room *r = room_of(s, &f->layout, &is_new);
    SN_TRY(sn_estimate(&e, s->estimator, &f->layout, SN_ESTIMATE_ORDER, err));
    int64_t bytes = 1;
    if (!is_new)
        SN_TRY(over(&x, r->fit, &bytes, err));
    if (bytes <= 0 || (!is_new && r->fit == 0))
        return SN_OK;
    struct sn_cache_guess g = guess(s, &e);
    if (!is_new)
        g.most = g.first = r->fit - 1;
    SN_TRY(sn_cache_most(&r->fit, &g, over, &x, err));
    f->layout.zero_cache = r->fit;
    if (r->fit > 0) /* it was compiled */
        f->plan = x.fits;
    else
        SN_TRY(search_compile_as(s, f, err));
    s->unknown = unknown(s, &e, f);
    return SN_OK;
}

enum sn_status search_compile(struct search *s, struct sn_found *f, struct sn_err *err)
{
    bool is_open = f->layout.expert_node == 0;
    SN_TRY(choose_hops(s, &f->layout, err));
    SN_TRY(search_compile_cached(s, f, err));
    if (!is_open || f->layout.expert_node <= 1 || !s->limit || f->plan.memory.total <= s->limit)
        return SN_OK;
    f->layout.expert_node = 1; /* a transit less */
    return search_compile_as(s, f, err);
}
