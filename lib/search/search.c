#include "lib/search/search_inner.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/search/search_order.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { RESERVE = 64 << 20 }; /* bytes: texts come and go, what the system gave for them stays */
enum { WIDER = 6 }; /* grids that are ranked again where messages may be hidden, at least */

/* --- orders of axes --------------------------------------------------------------------------- */

static bool order_is_named(const struct search *s)
{
    return s->w->config->layout_named >> SN_KEY_AXIS_ORDER & 1u;
}

void search_layout_of(struct sn_layout_config *l, const struct search *s, const struct sn_branch *n)
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

static enum sn_status family_add(struct search *s, const struct sn_variant *v, int64_t members,
                                 struct sn_err *err)
{
    struct family *f = family_of(s, v);
    if (!f) {
        if (!sn_grow((void **)&s->family, s->families, &s->cap_families, sizeof(*s->family)))
            return sn_fail(err, SN_ENOMEM, "search: no memory for more than %d grids", s->families);
        f = &s->family[s->families++];
        *f = (struct family){.like = v};
    }
    f->members += members;
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

int64_t search_library_of(const struct search *s)
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

enum sn_status search_bound(struct sn_branch *out, struct search *s, int64_t i, struct sn_err *err)
{
    struct sn_layout_config l;
    struct sn_estimate e;
    sn_variant_expand(&l, &s->all.of[i], s->w->config);
    SN_TRY(sn_estimate(&e, s->estimator, &l,
                       order_is_named(s) ? SN_ESTIMATE_ORDER : SN_ESTIMATE_ANY_ORDER, err));
    *out = (struct sn_branch){e.seconds, i, SN_BRANCH_ORDERS, 0, e.memory + search_library_of(s)};
    return SN_OK;
}

static enum sn_status bound_one(struct search *s, int64_t i, struct sn_err *err)
{
    struct sn_branch n;
    SN_TRY(search_bound(&n, s, i, err));
    s->out->bounded++;
    if (s->limit && n.memory > s->limit) {
        s->out->too_big++;
        family_of(s, &s->all.of[i])->members--;
        note_near(s, &(struct sn_branch){(double)n.memory, i, 0, 0, 0});
        return SN_OK;
    }
    if (s->w->front)
        SN_TRY(sn_heap_push(&s->bounded, &n, err));
    return sn_heap_push(&s->heap, &n, err);
}

/* --- groups ----------------------------------------------------------------------------------- */

static bool same_group(const struct sn_variant *a, const struct sn_variant *b)
{
    return sn_variant_same_grid(a, b) && a->micro_batch == b->micro_batch &&
           a->virtual_stages == b->virtual_stages && a->schedule == b->schedule &&
           a->sequence_parallel == b->sequence_parallel && a->context_kind == b->context_kind;
}

/* `least`: a bound that is known of them all. */
static enum sn_status floor_group(struct search *s, int64_t first, int64_t n, double least,
                                  struct sn_err *err)
{
    struct sn_layout_config l;
    struct sn_estimate e;
    sn_variant_expand(&l, &s->all.of[first], s->w->config);
    SN_TRY(sn_estimate(&e, s->estimator, &l, SN_ESTIMATE_FLOOR, err));
    if (!sn_grow((void **)&s->group, s->groups, &s->cap_groups, sizeof(*s->group)))
        return sn_fail(err, SN_ENOMEM, "search: no memory for more than %d groups of layouts",
                       s->groups);
    s->group[s->groups++] = (struct group){first, n, fmax(e.seconds, least), true, false, false};
    return SN_OK;
}

static enum sn_status floor_groups(struct search *s, struct sn_err *err)
{
    for (int64_t i = 0, n; i < s->all.n; i += n) {
        for (n = 1; i + n < s->all.n && same_group(&s->all.of[i], &s->all.of[i + n]); n++)
            ;
        SN_TRY(family_add(s, &s->all.of[i], n, err));
        SN_TRY(floor_group(s, i, n, 0, err));
    }
    return SN_OK;
}

static enum sn_status push_group(struct search *s, int at, struct sn_err *err)
{
    const struct group *g = &s->group[at];
    struct sn_branch n = {g->bound, g->first, g->is_floor ? SN_BRANCH_FLOOR : SN_BRANCH_GROUP, at,
                          0};
    return g->is_open || g->is_over ? SN_OK : sn_heap_push(&s->heap, &n, err);
}

enum sn_status search_push_groups(struct search *s, struct sn_err *err)
{
    for (int i = 0; i < s->groups; i++)
        SN_TRY(push_group(s, i, err));
    return SN_OK;
}

/* What all of a group take, and whether what they keep fits, from a compiled layer: its floor is under all bounds that
 * are left. */
static enum sn_status bound_group(struct search *s, int at, struct sn_err *err)
{
    struct group *g = &s->group[at];
    struct sn_layout_config l;
    struct sn_estimate e;
    sn_variant_expand(&l, &s->all.of[g->first], s->w->config);
    SN_TRY(sn_estimate(&e, s->estimator, &l, SN_ESTIMATE_GROUP, err));
    g->is_floor = false;
    g->is_over = s->limit && e.memory > 0;
    g->bound = fmax(g->bound, e.seconds);
    s->out->too_big += g->is_over ? g->n : 0;
    family_of(s, &s->all.of[g->first])->members -= g->is_over ? g->n : 0;
    return push_group(s, at, err);
}

static enum sn_status bound_all(struct search *s, int64_t first, int64_t end, struct sn_err *err)
{
    for (int64_t i = first; i < end; i++)
        SN_TRY(bound_one(s, i, err));
    return SN_OK;
}

/* The members that compute as little again as any are looked at, those that compute more are groups of
 * their own. */
static enum sn_status open_group(struct search *s, int at, struct sn_err *err)
{
    double least = s->group[at].bound;
    s->group[at].is_open = true;
    int64_t first = s->group[at].first, end = first + s->group[at].n, n;
    for (int64_t i = first; i < end; i += n) {
        for (n = 1; i + n < end && s->all.of[i + n].recompute == s->all.of[i].recompute; n++)
            ;
        if (i == first) {
            SN_TRY(bound_all(s, i, i + n, err));
            continue;
        }
        SN_TRY(floor_group(s, i, n, least, err));
        SN_TRY(push_group(s, s->groups - 1, err));
    }
    return SN_OK;
}

enum sn_status search_bound_over(struct search *s, struct sn_err *err)
{
    for (int i = 0; i < s->groups; i++) {
        struct group g = s->group[i];
        if (!g.is_over)
            continue;
        s->group[i].is_over = false;
        s->out->too_big -= g.n;
        family_of(s, &s->all.of[g.first])->members += g.n;
        SN_TRY(bound_all(s, g.first, g.first + g.n, err));
    }
    return SN_OK;
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
        struct sn_branch node = {0, n->variant, SN_BRANCH_EXACT, k, 0};
        struct sn_estimate e;
        bool same = false;
        search_layout_of(&l[kept], s, &node);
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

static enum sn_status take_exact(struct search *s, const struct sn_branch *n, struct sn_err *err)
{
    struct sn_found found = {.rest = 0};
    struct family *f = family_of(s, &s->all.of[n->variant]);
    search_layout_of(&found.layout, s, n);
    if (f->best.plan.step_time > 0 && f->best.plan.step_time <= n->bound)
        return SN_OK; /* its grid has a better one */
    clock_t begin = clock();
    s->ranked = f;
    enum sn_status st = search_compile(s, &found, err);
    s->ranked = NULL;
    SN_TRY(st);
    s->out->compile_seconds += (double)(clock() - begin) / CLOCKS_PER_SEC;
    s->out->exact++;
    if (s->limit && found.plan.memory.total > s->limit) {
        note_near(s,
                  &(struct sn_branch){(double)found.plan.memory.total, n->variant, 0, n->order, 0});
        return SN_OK;
    }
    if (search_is_better(f, &found.plan))
        f->best = found;
    return SN_OK;
}

enum sn_status search_take_all(struct search *s, struct sn_err *err)
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
        SN_TRY(n.level == SN_BRANCH_FLOOR    ? bound_group(s, n.order, err)
               : n.level == SN_BRANCH_GROUP  ? open_group(s, n.order, err)
               : n.level == SN_BRANCH_ORDERS ? take_orders(s, &n, err)
                                             : take_exact(s, &n, err));
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
    sn_estimator_limit(s->estimator, w->limit, search_library_of(s));
    SN_TRY(floor_groups(s, err));
    SN_TRY(search_push_groups(s, err));
    SN_TRY(search_take_all(s, err));
    return search_finish(s, err);
}

enum sn_status sn_search_run(struct sn_search *out, const struct sn_search_want *w,
                             struct sn_err *err)
{
    *out = (struct sn_search){0};
    struct search s = {.w = w, .out = out, .config = sn_alloc(sizeof(*s.config))};
    void *reserve = sn_mem_reserve(RESERVE);
    enum sn_status st = SN_OK;
    if (!s.config || !reserve)
        st = sn_fail(err, SN_ENOMEM, "search: no memory");
    if (st == SN_OK) {
        *s.config = *w->config;
        s.config->overlap_rates = (struct sn_overlap_rates){0};
        bool hides = w->config->layout.overlap != SN_OVERLAP_NONE;
        s.limit = w->limit;
        s.top = hides && w->top < WIDER ? WIDER : w->top;
        st = run(&s, err);
    }
    sn_estimator_destroy(s.estimator);
    sn_model_destroy(s.model);
    sn_variants_fini(&s.all);
    sn_heap_fini(&s.heap);
    sn_heap_fini(&s.bounded);
    sn_free(s.family);
    sn_free(s.group);
    sn_free(s.config);
    sn_mem_release(reserve);
    if (st != SN_OK)
        sn_search_fini(out);
    return st;
}

void sn_search_fini(struct sn_search *s)
{
    sn_free(s->front);
    sn_free(s->found);
    *s = (struct sn_search){0};
}
