#include "lib/search/search.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/cost/hops.h"
#include "lib/machine/levels.h"
#include "lib/search/codings.h"
#include "lib/search/estimate.h"
#include "lib/search/fit_cache.h"
#include "lib/search/hiding.h"
#include "lib/search/overlap.h"
#include "lib/search/search_heap.h"
#include "lib/search/search_order.h"
#include "lib/search/variants.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { WIDER = 6 }; /* grids that are ranked again where messages may be hidden, at least */

/* What is known of a grid. */
struct family {
    const struct sn_variant *like; /* one that has it */
    struct sn_found best;          /* plan.step_time 0: nothing compiled fits yet */
    int64_t members;               /* that may fit */
};

struct search {
    const struct sn_search_want *w;
    struct sn_search *out;
    struct sn_config *config; /* with the layout at hand */
    struct sn_model *model;
    struct sn_estimator *estimator;
    struct sn_variants all;
    struct sn_heap heap;
    struct family *family;
    int families, cap_families;
    int top;    /* grids whose best are wanted */
    bool hides; /* what is compiled from now on has its operations in order (layout.overlap) */
    int n_near;
    struct sn_branch near[3]; /* bound: bytes */
};

/* --- orders of axes --------------------------------------------------------------------------- */

static bool order_is_named(const struct search *s)
{
    return s->w->config->layout_named >> SN_KEY_AXIS_ORDER & 1u;
}

static void layout_of(struct sn_layout_config *l, const struct search *s, const struct sn_branch *n)
{
    sn_variant_expand(l, &s->all.of[n->variant], s->w->config);
    if (n->order > 0 || (n->order == 0 && !order_is_named(s)))
        sn_search_order(l, n->order);
}

/* --- families --------------------------------------------------------------------------------- */

static struct family *family_of(struct search *s, const struct sn_variant *v)
{
    for (int i = s->families - 1; i >= 0; i--)
        if (sn_variant_same_grid(s->family[i].like, v))
            return &s->family[i];
    return NULL;
}

static enum sn_status family_add(struct search *s, const struct sn_variant *v, struct sn_err *err)
{
    struct family *f = family_of(s, v);
    if (!f) {
        if (!sn_grow((void **)&s->family, s->families, &s->cap_families, sizeof(*s->family)))
            return sn_fail(err, SN_ENOMEM, "search: no memory for more than %d grids", s->families);
        f = &s->family[s->families++];
        *f = (struct family){.like = v};
    }
    f->members++;
    return SN_OK;
}

/* Families whose best is proven, because nothing left is under it. */
static int proven(const struct search *s, double bound)
{
    int n = 0;
    for (int i = 0; i < s->families; i++)
        n += s->family[i].best.plan.step_time > 0 && s->family[i].best.plan.step_time <= bound;
    return n;
}

/* --- bounds of all ---------------------------------------------------------------------------- */

static int64_t library_of(const struct search *s)
{
    int64_t own = s->w->machine->device.library;
    return own > 0 ? own : SN_LIBRARY_BYTES;
}

/* Keep the three that need least, of different grids. */
static void note_near(struct search *s, const struct sn_branch *n)
{
    const struct sn_variant *v = &s->all.of[n->variant];
    int at = s->n_near;
    for (int i = 0; i < s->n_near; i++) {
        if (sn_variant_same_grid(&s->all.of[s->near[i].variant], v)) {
            if (n->bound >= s->near[i].bound)
                return;
            memmove(&s->near[i], &s->near[i + 1], (size_t)(s->n_near - 1 - i) * sizeof(s->near[0]));
            at = --s->n_near;
            break;
        }
    }
    while (at > 0 && s->near[at - 1].bound > n->bound)
        at--;
    if (at == 3)
        return;
    int keep = s->n_near < 3 ? s->n_near : 2;
    memmove(&s->near[at + 1], &s->near[at], (size_t)(keep - at) * sizeof(s->near[0]));
    s->near[at] = *n;
    s->n_near = keep + 1;
}

static enum sn_status bound_one(struct search *s, int64_t i, struct sn_err *err)
{
    struct sn_layout_config l;
    struct sn_estimate e;
    const struct sn_variant *v = &s->all.of[i];
    sn_variant_expand(&l, v, s->w->config);
    SN_TRY(sn_estimate(&e, s->estimator, &l,
                       order_is_named(s) ? SN_ESTIMATE_ORDER : SN_ESTIMATE_ANY_ORDER, err));
    s->out->bounded++;
    if (s->w->limit && e.memory + library_of(s) > s->w->limit) {
        s->out->too_big++;
        note_near(s, &(struct sn_branch){(double)e.memory, i, 0, 0});
        return SN_OK;
    }
    SN_TRY(family_add(s, v, err));
    return sn_heap_push(&s->heap, &(struct sn_branch){e.seconds, i, SN_BRANCH_ORDERS, 0}, err);
}

/* --- taking up -------------------------------------------------------------------------------- */

/* Experts that are shared out want context and data side by side, and tensor inside where its ranks
 * have tokens of their own. */
static bool order_is_valid(const struct search *s, const struct sn_layout_config *l)
{
    struct sn_err why;
    s->config->layout = *l;
    bool is_any = sn_config_fold(s->config) == 1 && (l->expert == 1 || l->context == 1);
    return is_any || sn_config_check_layout(s->config, s->w->ranks, &why) == SN_OK;
}

static enum sn_status take_orders(struct search *s, const struct sn_branch *n, struct sn_err *err)
{
    struct sn_layout_config l[SN_ALL_SEARCH_ORDERS];
    const struct sn_variant *v = &s->all.of[n->variant];
    bool both = v->expert > 1 || v->expert_tensor > 1 || v->size[SN_AXIS_TENSOR_X] > 1;
    int kept = 0, orders = order_is_named(s) ? 1 : both ? SN_ALL_SEARCH_ORDERS : SN_SEARCH_ORDERS;
    for (int k = 0; k < orders; k++) {
        struct sn_branch node = {0, n->variant, SN_BRANCH_EXACT, k};
        struct sn_estimate e;
        bool same = false;
        layout_of(&l[kept], s, &node);
        if (!order_is_valid(s, &l[kept]))
            continue;
        for (int j = 0; j < kept && !same; j++)
            SN_TRY(sn_estimate_same_order(&same, s->estimator, &l[j], &l[kept], err));
        if (same)
            continue;
        SN_TRY(sn_estimate(&e, s->estimator, &l[kept++], SN_ESTIMATE_PLAYED, err));
        node.bound = fmax(e.seconds, n->bound); /* both are bounds */
        SN_TRY(sn_heap_push(&s->heap, &node, err));
    }
    return SN_OK;
}

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

/* Rates of the layout at hand, for the order of its operations. */
static enum sn_status weigh(struct search *s, struct sn_err *err)
{
    const struct sn_search_want *w = s->w;
    if (!s->hides)
        return SN_OK;
    return sn_overlap_rates_of(&s->config->overlap_rates, s->config, w->machine, w->software, err);
}

static enum sn_status compile_as(struct search *s, struct sn_found *f, struct sn_err *err)
{
    struct sn_stages stages;
    struct sn_pricer pricer;
    struct sn_job_env env = {
        .config = s->config, .model = s->model, .ops = s->w->ops, .threads = s->w->threads};
    s->config->layout = f->layout;
    SN_TRY(sn_levels_choose(s->config, s->w->machine, err));
    SN_TRY(weigh(s, err));
    f->layout.compress.node = s->config->layout.compress.node;
    SN_TRY(sn_stages_create(&stages, &env, err));
    sn_pricer_init(&pricer, s->w->machine, s->w->software, stages.job[0]);
    enum sn_status st = sn_plan_make(&f->plan, &stages, &pricer, err);
    sn_stages_fini(&stages);
    return st;
}

struct compiled {
    struct search *s;
    struct sn_found *f;
};

static enum sn_status fits(void *compiled, int n, bool *good, struct sn_err *err)
{
    struct compiled *x = compiled;
    x->f->layout.zero_cache = n;
    SN_TRY(compile_as(x->s, x->f, err));
    *good = x->f->plan.memory.total <= x->s->w->limit;
    return SN_OK;
}

/* Keeping gathered weights of as many units as fit, where that is open. */
static enum sn_status compile_cached(struct search *s, struct sn_found *f, struct sn_err *err)
{
    struct compiled x = {s, f};
    struct sn_estimate e;
    int n;
    if (f->layout.zero_cache != SN_CACHE_AUTO)
        return compile_as(s, f, err);
    SN_TRY(sn_estimate(&e, s->estimator, &f->layout, SN_ESTIMATE_ORDER, err));
    SN_TRY(sn_cache_most(&n, e.zero_cache, fits, &x, err));
    if (f->layout.zero_cache == n) /* the last that was tried */
        return SN_OK;
    f->layout.zero_cache = n;
    return compile_as(s, f, err);
}

static enum sn_status compile(struct search *s, struct sn_found *f, struct sn_err *err)
{
    bool is_open = f->layout.expert_node == 0;
    SN_TRY(choose_hops(s, &f->layout, err));
    SN_TRY(compile_cached(s, f, err));
    if (!is_open || f->layout.expert_node <= 1 || !s->w->limit ||
        f->plan.memory.total <= s->w->limit)
        return SN_OK;
    f->layout.expert_node = 1; /* a transit less */
    return compile_as(s, f, err);
}

static enum sn_status take_exact(struct search *s, const struct sn_branch *n, struct sn_err *err)
{
    struct sn_found found = {.rest = 0};
    struct family *f = family_of(s, &s->all.of[n->variant]);
    layout_of(&found.layout, s, n);
    if (f->best.plan.step_time > 0 && f->best.plan.step_time <= n->bound)
        return SN_OK; /* its grid has a better one */
    clock_t begin = clock();
    SN_TRY(compile(s, &found, err));
    s->out->compile_seconds += (double)(clock() - begin) / CLOCKS_PER_SEC;
    s->out->exact++;
    if (s->w->limit && found.plan.memory.total > s->w->limit) {
        note_near(s, &(struct sn_branch){(double)found.plan.memory.total, n->variant, 0, n->order});
        return SN_OK;
    }
    if (f->best.plan.step_time == 0 || found.plan.step_time < f->best.plan.step_time)
        f->best = found;
    return SN_OK;
}

static enum sn_status take_all(struct search *s, struct sn_err *err)
{
    struct sn_branch n;
    double began = sn_clock();
    while (sn_heap_pop(&n, &s->heap)) {
        if (proven(s, n.bound) >= s->top)
            return SN_OK;
        s->out->stopped = s->w->seconds > 0 && sn_clock() - began > s->w->seconds;
        if (s->out->stopped)
            return SN_OK;
        const struct family *f = family_of(s, &s->all.of[n.variant]);
        if (f->best.plan.step_time > 0 && f->best.plan.step_time <= n.bound)
            continue;
        SN_TRY(n.level == SN_BRANCH_ORDERS ? take_orders(s, &n, err) : take_exact(s, &n, err));
    }
    return SN_OK;
}

/* --- what was found --------------------------------------------------------------------------- */

static enum sn_status collect(struct search *s, struct sn_err *err)
{
    struct sn_search *o = s->out;
    o->found = sn_alloc_n((size_t)s->top, sizeof(*o->found));
    if (!o->found)
        return sn_fail(err, SN_ENOMEM, "search: no memory for %d layouts", s->top);
    while (o->n < s->top) {
        struct family *best = NULL;
        for (int i = 0; i < s->families; i++) {
            struct family *f = &s->family[i];
            double t = f->best.plan.step_time;
            if (t > 0 && (!best || t < best->best.plan.step_time))
                best = f;
        }
        if (!best)
            break;
        best->best.rest = best->members - 1;
        o->found[o->n++] = best->best;
        best->best.plan.step_time = 0;
    }
    return SN_OK;
}

/* Codecs for a budget (codings.h), for a layout that was ranked without any. */
static enum sn_status choose_codecs(struct search *s, struct sn_found *f, struct sn_err *err)
{
    struct sn_losses table = {.n = 0};
    struct sn_codings codings;
    SN_TRY(sn_losses_load(&table, NULL, err));
    s->config->layout = f->layout;
    enum sn_status st =
        sn_codings_choose(&codings, s->config, s->w->machine, s->w->software, &table, err);
    sn_losses_fini(&table);
    SN_TRY(st);
    sn_codings_put(&f->layout, &codings);
    return compile_as(s, f, err);
}

static void sort(struct sn_search *o)
{
    for (int i = 1; i < o->n; i++)
        for (int k = i; k > 0 && o->found[k].plan.step_time < o->found[k - 1].plan.step_time; k--) {
            struct sn_found x = o->found[k];
            o->found[k] = o->found[k - 1];
            o->found[k - 1] = x;
        }
}

/* What was found gets its codecs, if they are to be chosen, and is ranked again with them. */
static enum sn_status finish_codecs(struct search *s, struct sn_err *err)
{
    struct sn_search *o = s->out;
    bool chooses = s->w->config->layout.compress.scheme == SN_SCHEME_AUTO;
    for (int i = 0; i < o->n; i++) {
        struct sn_found *f = &o->found[i];
        if (chooses)
            SN_TRY(choose_codecs(s, f, err));
        s->config->layout = f->layout;
        SN_TRY(weigh(s, err));
        struct sn_job_env env = {
            .config = s->config, .model = s->model, .ops = s->w->ops, .threads = s->w->threads};
        SN_TRY(sn_plan_without_codecs(&f->plan, &env, s->w->machine, s->w->software, err));
    }
    sort(o);
    return SN_OK;
}

/* The best of what a layout may be where messages are hidden; it as it is where nothing is gained. */
static enum sn_status hide(struct search *s, struct sn_found *f, struct sn_err *err)
{
    struct sn_hiding *h = sn_alloc_n(SN_HIDINGS, sizeof(*h));
    if (!h)
        return sn_fail(err, SN_ENOMEM, "search: no memory for %d layouts", (int)SN_HIDINGS);
    int n = sn_hidings_list(h, s->config, &f->layout, s->w->ranks), done = -1;
    struct sn_found best = *f;
    enum sn_status st = SN_OK;
    best.layout.overlap = SN_OVERLAP_NONE;
    best.layout.tensor_pieces = 1;
    for (int i = 0; i < n && st == SN_OK; i++) {
        struct sn_found x = {.layout = h[i].layout, .rest = f->rest};
        if (h[i].group == done)
            continue;
        if (x.layout.zero_cache > 0 && !(s->w->config->layout_named >> SN_KEY_ZERO_CACHE & 1u))
            x.layout.zero_cache = SN_CACHE_AUTO; /* other temporaries, other room */
        st = compile_cached(s, &x, err);
        s->out->exact++;
        if (st != SN_OK || (s->w->limit && x.plan.memory.total > s->w->limit))
            continue;
        done = h[i].group;
        if (x.plan.step_time < best.plan.step_time)
            best = x;
    }
    sn_free(h);
    if (st == SN_OK)
        *f = best;
    return st;
}

/* Layouts are ranked as if messages were waited for where they are posted; then what was found, some
 * more than asked for, is ranked by what can be hidden. */
static enum sn_status finish_hiding(struct search *s, struct sn_err *err)
{
    struct sn_search *o = s->out;
    if (s->w->config->layout.overlap == SN_OVERLAP_NONE)
        return SN_OK;
    s->hides = true;
    for (int i = 0; i < o->n; i++)
        SN_TRY(hide(s, &o->found[i], err));
    sort(o);
    o->n = o->n < s->w->top ? o->n : s->w->top;
    return SN_OK;
}

static enum sn_status collect_near(struct search *s, struct sn_err *err)
{
    for (int i = 0; s->out->n == 0 && i < s->n_near; i++) {
        struct sn_found *f = &s->out->near[i];
        *f = (struct sn_found){.rest = 0};
        layout_of(&f->layout, s, &s->near[i]);
        SN_TRY(compile(s, f, err));
        s->out->n_near++;
    }
    return SN_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

static enum sn_status run(struct search *s, struct sn_err *err)
{
    const struct sn_search_want *w = s->w;
    SN_TRY(sn_variants_list(&s->all, w->config, w->ranks, w->machine->devices, err));
    s->out->valid = s->all.n;
    if (s->all.n == 0)
        return sn_search_refuse(w->config, w->ranks, err);
    s->out->too_many = w->most > 0 && s->all.n > w->most;
    if (s->out->too_many)
        return SN_OK;
    SN_TRY(sn_model_create(&s->model, &w->config->model, &w->config->train, err));
    SN_TRY(sn_estimator_create(&s->estimator, w->config, w->machine, w->software, w->ops,
                               w->threads, err));
    sn_estimator_limit(s->estimator, w->limit, library_of(s));
    for (int64_t i = 0; i < s->all.n; i++)
        SN_TRY(bound_one(s, i, err));
    SN_TRY(take_all(s, err));
    SN_TRY(collect(s, err));
    SN_TRY(finish_hiding(s, err));
    SN_TRY(finish_codecs(s, err));
    return collect_near(s, err);
}

enum sn_status sn_search_run(struct sn_search *out, const struct sn_search_want *w,
                             struct sn_err *err)
{
    *out = (struct sn_search){0};
    struct search s = {.w = w, .out = out, .config = sn_alloc(sizeof(*s.config))};
    enum sn_status st = SN_OK;
    if (!s.config)
        st = sn_fail(err, SN_ENOMEM, "search: no memory");
    if (st == SN_OK) {
        *s.config = *w->config;
        s.config->overlap_rates = (struct sn_overlap_rates){0};
        bool hides = w->config->layout.overlap != SN_OVERLAP_NONE;
        s.top = hides && w->top < WIDER ? WIDER : w->top;
        st = run(&s, err);
    }
    sn_estimator_destroy(s.estimator);
    sn_model_destroy(s.model);
    sn_variants_fini(&s.all);
    sn_heap_fini(&s.heap);
    sn_free(s.family);
    sn_free(s.config);
    if (st != SN_OK)
        sn_search_fini(out);
    return st;
}

void sn_search_fini(struct sn_search *s)
{
    sn_free(s->found);
    *s = (struct sn_search){0};
}
