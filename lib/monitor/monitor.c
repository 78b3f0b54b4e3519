#include "lib/monitor/monitor_inner.h"

#include "lib/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* By how much ranks of the same work may differ from the start, by the logarithm. Paths may by any:
 * what shares their links at the same time is not in their price. */
static const double core_spread = 0.18, link_spread = INFINITY;
enum { FEW = 3 }; /* of so many the median says something of each */

const char *sn_work_name(enum sn_work w)
{
    static const char *const name[SN_NWORKS] = {"forward", "backward", "weight gradients",
                                                "update"};
    return name[w];
}

/* --- start ------------------------------------------------------------------------------------ */

/* The number of a name among the first *n, to which it is added if it is new. */
static int number_of(char (*names)[SN_MONITOR_NAME], int *n, const char *name)
{
    for (int i = 0; i < *n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    (void)snprintf(names[*n], SN_MONITOR_NAME, "%s", name);
    return (*n)++;
}

static void take_plans(struct sn_monitor *m)
{
    for (int r = 0; r < m->ranks; r++) {
        const struct sn_monitor_plan *p = &m->plan[r];
        struct sn_monitored_rank *to = &m->rank[r];
        int hosts = m->hosts;
        *to = (struct sn_monitored_rank){.text = p->text, .core = -1};
        to->host = number_of(m->host_name, &m->hosts, p->host);
        if (m->hosts > hosts)
            m->leaf[to->host] = p->leaf[0] ? number_of(m->leaf_name, &m->leaves, p->leaf) : -1;
        memcpy(to->work, p->work, sizeof(to->work));
        for (int w = 0; w < SN_NWORKS; w++)
            to->planned += p->work[w];
        sn_departure_init(&to->departure, SN_MONITOR_CORE_TOLERANCE);
    }
}

static enum sn_status make_ranks(struct sn_monitor *m, const struct sn_monitor_plan *plans,
                                 struct sn_err *err)
{
    size_t n = (size_t)m->ranks;
    m->plan = sn_alloc_n(n, sizeof(*m->plan));
    m->rank = sn_alloc_n(n, sizeof(*m->rank));
    m->host_name = sn_alloc_n(n, sizeof(*m->host_name));
    m->leaf_name = sn_alloc_n(n, sizeof(*m->leaf_name));
    m->leaf = sn_alloc_n(n, sizeof(*m->leaf));
    if (!m->plan || !m->rank || !m->host_name || !m->leaf_name || !m->leaf)
        return sn_fail(err, SN_ENOMEM, "monitor: no memory for %d ranks", m->ranks);
    memcpy(m->plan, plans, n * sizeof(*plans));
    take_plans(m);
    return SN_OK;
}

/* Each rank and each path may depart. */
static enum sn_status make_room(struct sn_monitor *m, struct sn_err *err)
{
    size_t n = (size_t)m->ranks + (size_t)m->n_paths + 1;
    m->blamed = sn_alloc_n(n, sizeof(*m->blamed));
    m->scratch = sn_alloc_n(n, sizeof(*m->scratch));
    m->value = sn_alloc_n(n, sizeof(*m->value));
    m->found = sn_alloc_n(n, sizeof(*m->found));
    m->ended = sn_alloc_n(n, sizeof(*m->ended));
    m->before = sn_alloc_n(n, sizeof(*m->before));
    if (!m->blamed || !m->scratch || !m->value || !m->found || !m->ended || !m->before)
        return sn_fail(err, SN_ENOMEM, "monitor: no memory for %zu findings", n);
    return sn_localise_init(&m->room, m->n_paths, m->hosts, err);
}

enum sn_status sn_monitor_create(struct sn_monitor **out, const struct sn_monitor_plan *plans,
                                 int ranks, struct sn_err *err)
{
    struct sn_monitor *m = sn_alloc(sizeof(*m));
    if (!m)
        return sn_fail(err, SN_ENOMEM, "monitor: no memory");
    m->ranks = ranks;
    enum sn_status st = make_ranks(m, plans, err);
    if (st == SN_OK)
        st = sn_monitor_make_paths(m, err);
    if (st == SN_OK)
        st = make_room(m, err);
    if (st != SN_OK) {
        sn_monitor_destroy(m);
        return st;
    }
    *out = m;
    return SN_OK;
}

void sn_monitor_destroy(struct sn_monitor *m)
{
    if (!m)
        return;
    sn_free(m->plan);
    sn_free(m->rank);
    sn_free(m->host_name);
    sn_free(m->leaf_name);
    sn_free(m->leaf);
    sn_free(m->path);
    sn_free(m->slow);
    sn_free(m->member);
    sn_free(m->member_host);
    sn_free(m->member_sample);
    sn_free(m->votes);
    sn_free(m->blamed);
    sn_free(m->scratch);
    sn_free(m->value);
    sn_free(m->found);
    sn_free(m->ended);
    sn_free(m->before);
    sn_localise_fini(&m->room);
    sn_free(m);
}

/* --- clocks ----------------------------------------------------------------------------------- */

/* All ranks leave an agreement at the same time, but for what a message and a wake-up take: how much
 * that is shows in how a rank's moments scatter. */
static void set_clocks(struct sn_monitor *m, const struct sn_monitor_record *records)
{
    int at = (int)(m->steps % SN_DEPARTURE_WINDOW), others = 0;
    int n = m->steps < SN_DEPARTURE_WINDOW ? at + 1 : SN_DEPARTURE_WINDOW;
    double apart[SN_DEPARTURE_WINDOW];
    for (int r = 0; r < m->ranks; r++) {
        struct sn_monitored_rank *x = &m->rank[r];
        x->left[at] = records[r].left - records[0].left;
        memcpy(apart, x->left, sizeof(apart));
        double offset = sn_lower_median(apart, n);
        x->offset = x->host == m->rank[0].host ? 0 : offset;
        for (int i = 0; i < n; i++)
            apart[i] = fabs(apart[i] - offset);
        if (x->host != m->rank[0].host)
            m->scratch[others++] = 1.4826 * sn_lower_median(apart, n);
    }
    m->unsure = others ? sn_lower_median(m->scratch, others) : 0;
}

/* --- what all have in common ------------------------------------------------------------------ */

/* Departures of things that are alike, and what makes two of them peers. */
struct set {
    struct sn_monitor *m;
    int n;
    struct sn_departure *(*of)(struct sn_monitor *m, int i);
    uint64_t (*kind)(const struct sn_monitor *m, int i);
    double spread;
};

static struct sn_departure *departure_of_rank(struct sn_monitor *m, int i)
{
    return &m->rank[i].departure;
}

static struct sn_departure *departure_of_path(struct sn_monitor *m, int i)
{
    return &m->path[i].departure;
}

static uint64_t text_of(const struct sn_monitor *m, int i)
{
    return m->rank[i].text;
}

static uint64_t group_of(const struct sn_monitor *m, int i)
{
    return (uint64_t)m->path[i].path.group;
}

/* The median of a kind's bases, and of all scales, of those that have learned or can. */
static double peers_base(const struct set *s, uint64_t kind)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const struct sn_departure *d = s->of(s->m, i);
        if (s->kind(s->m, i) == kind && (d->is_learned || sn_departure_is_ready(d)))
            s->m->scratch[n++] = d->is_learned ? d->base : sn_departure_base(d);
    }
    return n < FEW ? NAN : sn_lower_median(s->m->scratch, n);
}

static double peers_scale(const struct set *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const struct sn_departure *d = s->of(s->m, i);
        if (d->is_learned || sn_departure_is_ready(d))
            s->m->scratch[n++] = d->is_learned ? d->scale : sn_departure_scale(d);
    }
    return n < FEW ? 0 : sn_lower_median(s->m->scratch, n);
}

static void learn(const struct set *s)
{
    double scale = NAN, base = NAN;
    uint64_t kind = 0;
    for (int i = 0; i < s->n; i++) {
        struct sn_departure *d = s->of(s->m, i);
        if (!sn_departure_is_ready(d))
            continue;
        if (isnan(scale))
            scale = peers_scale(s);
        else if (s->kind(s->m, i) == kind) { /* as the one before: mostly they are */
            sn_departure_learn(d, base, s->spread, scale);
            continue;
        }
        kind = s->kind(s->m, i);
        base = peers_base(s, kind);
        sn_departure_learn(d, base, s->spread, scale);
    }
}

/* --- a step ----------------------------------------------------------------------------------- */

static void keep_work(struct sn_monitor *m, int r, const struct sn_monitor_record *x, double all)
{
    struct sn_monitored_rank *to = &m->rank[r];
    int at = (int)(m->steps % SN_DEPARTURE_WINDOW);
    memcpy(to->took[at], x->work, sizeof(x->work));
    to->had[at] = all > 0 ? x->ran / all : 1;
    to->core = x->core;
}

static void take_ranks(struct sn_monitor *m, const struct sn_monitor_record *records)
{
    int n = 0;
    for (int r = 0; r < m->ranks; r++) {
        double all = 0;
        for (int w = 0; w < SN_NWORKS; w++)
            all += (double)records[r].work[w];
        keep_work(m, r, &records[r], all);
        bool is_planned = m->rank[r].planned > 0 && all > 0;
        m->value[r] = is_planned ? log(all / m->rank[r].planned) : NAN;
        if (is_planned)
            m->scratch[n++] = m->value[r];
    }
    double common = sn_lower_median(m->scratch, n);
    for (int r = 0; r < m->ranks; r++)
        sn_departure_take(&m->rank[r].departure, m->value[r] - common, records[r].step);
    learn(&(struct set){m, m->ranks, departure_of_rank, text_of, core_spread});
}

/* Paths of one cause do not all depart in the same step: those that are about to are slow, too. */
static void settle(struct sn_monitor *m, int i)
{
    enum { ABOUT_TO = 3 };
    const struct sn_departure *d = &m->path[i].departure;
    int run = sn_departure_run(d);
    bool is_slow = d->departs || run >= ABOUT_TO;
    if (m->slow[i].is_slow != is_slow)
        m->changed = m->steps;
    m->slow[i].is_slow = is_slow;
    m->slow[i].is_quiet = !is_slow && run == 0;
}

static void take_paths(struct sn_monitor *m, const struct sn_monitor_record *records)
{
    sn_monitor_measure_paths(m, records);
    for (int i = 0; i < m->n_paths; i++)
        sn_departure_take(&m->path[i].departure, m->value[i], records[0].step);
    learn(&(struct set){m, m->n_paths, departure_of_path, group_of, link_spread});
    for (int i = 0; i < m->n_paths; i++)
        settle(m, i);
}

void sn_monitor_take(struct sn_monitor *m, const struct sn_monitor_record *records)
{
    set_clocks(m, records);
    take_ranks(m, records);
    take_paths(m, records);
    sn_monitor_find(m);
    m->steps++;
}

int sn_monitor_findings(const struct sn_monitor *m, const struct sn_finding **out)
{
    *out = m->found;
    return m->n_found;
}

int sn_monitor_ended(const struct sn_monitor *m, const struct sn_finding **out)
{
    *out = m->ended;
    return m->n_ended;
}
