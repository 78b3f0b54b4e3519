/*
 * search_finish.c - of what was compiled the best, what is chosen for these alone, and what less memory costs.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/search/codings.h"
#include "lib/search/hiding.h"
#include "lib/search/search_inner.h"

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
    return search_compile_as(s, f, err);
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
        SN_TRY(search_weigh(s, err));
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
        st = search_compile_cached(s, &x, err);
        s->out->exact++;
        if (st != SN_OK || (s->limit && x.plan.memory.total > s->limit))
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

/* The fastest layout within less memory, and so on, each within what the one before needs less a fifth. */
static enum sn_status fall(struct search *s, struct sn_err *err)
{
    struct sn_search *o = s->out;
    s->limit = o->front[o->n_front - 1].plan.memory.total / 5 * 4;
    s->heap.n = 0;
    for (int i = 0; i < s->families; i++)
        s->family[i].best.plan.step_time = 0;
    sn_estimator_limit(s->estimator, s->limit, search_library_of(s));
    for (int64_t i = 0; i < s->bounded.n; i++) {
        struct sn_branch n = s->bounded.node[i];
        if (s->all.of[n.variant].zero_cache == SN_CACHE_AUTO) /* as many as fit now */
            SN_TRY(search_bound(&n, s, n.variant, err));
        if (n.memory <= s->limit)
            SN_TRY(sn_heap_push(&s->heap, &n, err));
    }
    SN_TRY(search_push_groups(s, err));
    SN_TRY(search_take_all(s, err));
    const struct sn_found *best = NULL;
    for (int i = 0; i < s->families && !o->stopped; i++) {
        const struct sn_found *f = &s->family[i].best;
        if (f->plan.step_time > 0 && (!best || f->plan.step_time < best->plan.step_time))
            best = f;
    }
    if (best)
        o->front[o->n_front++] = *best;
    return SN_OK;
}

/* What less memory costs in time: of layouts as they were ranked, so where nothing was chosen behind that. */
static enum sn_status find_front(struct search *s, struct sn_err *err)
{
    struct sn_search *o = s->out;
    const struct sn_layout_config *l = &s->w->config->layout;
    int64_t exact = o->exact, bounded = o->bounded, too_big = o->too_big;
    bool chooses = l->overlap != SN_OVERLAP_NONE || l->compress.scheme == SN_SCHEME_AUTO;
    if (!s->w->front || chooses || o->n == 0 || o->stopped)
        return SN_OK;
    o->front = sn_alloc_n(SN_SEARCH_FRONT, sizeof(*o->front));
    if (!o->front)
        return sn_fail(err, SN_ENOMEM, "search: no memory for %d layouts", (int)SN_SEARCH_FRONT);
    double began = sn_clock();
    o->front[o->n_front++] = o->found[0];
    s->top = 1;
    for (int n = 0; n < o->n_front && n + 1 < SN_SEARCH_FRONT; n++) {
        o->front_stopped = s->w->seconds > 0 && sn_clock() - began > s->w->seconds;
        if (!o->front_stopped)
            SN_TRY(fall(s, err));
        o->front_stopped = o->front_stopped || o->stopped;
        o->stopped = false;
    }
    o->exact = exact;
    o->bounded = bounded;
    o->too_big = too_big;
    return SN_OK;
}

static enum sn_status collect_near(struct search *s, struct sn_err *err)
{
    if (s->out->n == 0 && (s->n_near == 0 || !s->out->stopped))
        SN_TRY(search_bound_over(s, err));
    for (int i = 0; s->out->n == 0 && i < s->n_near; i++) {
        struct sn_found *f = &s->out->near[i];
        *f = (struct sn_found){.rest = 0};
        search_layout_of(&f->layout, s, &s->near[i]);
        SN_TRY(search_compile(s, f, err));
        s->out->n_near++;
    }
    return SN_OK;
}

enum sn_status search_finish(struct search *s, struct sn_err *err)
{
    SN_TRY(collect(s, err));
    SN_TRY(finish_hiding(s, err));
    SN_TRY(finish_codecs(s, err));
    SN_TRY(find_front(s, err));
    return collect_near(s, err);
}
