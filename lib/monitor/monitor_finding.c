#include "lib/monitor/monitor_inner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A kind of work stands out by so much beside all of them, and a core that was had for less than
 * this part of the time is worth a word. */
static const double stands_out = 1.08, had_enough = 0.9;

const char *sn_finding_name(enum sn_finding_kind k)
{
    static const char *const name[SN_NFINDINGS] = {
        [SN_FINDING_CORE] = "core",           [SN_FINDING_NODE] = "node",
        [SN_FINDING_HOST_LINK] = "host-link", [SN_FINDING_PAIR_LINK] = "link",
        [SN_FINDING_LEAF] = "switch",         [SN_FINDING_PATH] = "path",
        [SN_FINDING_LINKS] = "links"};
    return name[k];
}

/* --- words ------------------------------------------------------------------------------------ */

static void say_core(char *out, size_t room, const struct sn_finding *f)
{
    char where[32] = "", most[64] = "", had[80] = "";
    if (f->core >= 0)
        (void)snprintf(where, sizeof(where), ", core %d", f->core);
    if (f->work >= 0)
        (void)snprintf(most, sizeof(most), ", most in %s (%.2f)",
                       sn_work_name((enum sn_work)f->work), f->work_ratio);
    if (f->had < had_enough)
        (void)snprintf(had, sizeof(had), "; it had a core for %.0f %% of that time", 100 * f->had);
    (void)snprintf(out, room,
                   "rank %d (%s%s) computes %.2f times as long as the plan says beside its peers "
                   "since step %lld%s%s",
                   f->rank, f->host, where, f->ratio, (long long)f->since, most, had);
}

void sn_finding_say(char *out, size_t room, const struct sn_finding *f)
{
    char what[3 * SN_MONITOR_NAME];
    switch (f->kind) {
    case SN_FINDING_CORE:
        say_core(out, room, f);
        return;
    case SN_FINDING_NODE:
        (void)snprintf(out, room,
                       "all %d ranks of %s compute %.2f times as long as the plan says beside "
                       "their peers since step %lld",
                       f->members, f->host, f->ratio, (long long)f->since);
        return;
    case SN_FINDING_HOST_LINK:
        (void)snprintf(what, sizeof(what), "the link of %s takes", f->host);
        break;
    case SN_FINDING_PAIR_LINK:
        (void)snprintf(what, sizeof(what), "the link %s - %s takes", f->host, f->other);
        break;
    case SN_FINDING_LEAF:
        (void)snprintf(what, sizeof(what), "the links of switch %s take", f->host);
        break;
    case SN_FINDING_PATH:
        (void)snprintf(what, sizeof(what),
                       "the links between the %d ranks from %d (%s) to %d (%s) take", f->members,
                       f->rank, f->host, f->other_rank, f->other);
        break;
    default:
        (void)snprintf(what, sizeof(what), "all links take");
    }
    (void)snprintf(out, room, "%s %.2f times the planned time since step %lld", what, f->ratio,
                   (long long)f->since);
}

/* --- computing -------------------------------------------------------------------------------- */

/* What a kind of work takes in the last window, over the planned seconds; NAN: it has none. */
static double lately(const struct sn_monitored_rank *r, int work)
{
    double took[SN_DEPARTURE_WINDOW];
    for (int i = 0; i < SN_DEPARTURE_WINDOW; i++)
        took[i] = (double)r->took[i][work];
    return r->work[work] > 0 ? sn_lower_median(took, SN_DEPARTURE_WINDOW) / r->work[work] : NAN;
}

/* The kind of work in which a rank departs most from all that have some of it. */
static void find_work(struct sn_monitor *m, int rank, struct sn_finding *f)
{
    double most = f->ratio * stands_out;
    f->work = -1;
    for (int w = 0; w < SN_NWORKS; w++) {
        int n = 0;
        double mine = lately(&m->rank[rank], w);
        for (int r = 0; r < m->ranks; r++)
            if (isfinite(lately(&m->rank[r], w)))
                m->scratch[n++] = lately(&m->rank[r], w);
        double ratio = mine / sn_lower_median(m->scratch, n);
        if (!isfinite(ratio) || ratio < most)
            continue;
        most = f->work_ratio = ratio;
        f->work = w;
    }
}

/* A core is had for less than all of the time that operations take everywhere: by peers, of which the
 * upper half counts, as the lower one may be held up, too. */
static double had(struct sn_monitor *m, int rank)
{
    double mine[SN_DEPARTURE_WINDOW];
    for (int r = 0; r < m->ranks; r++) {
        memcpy(mine, m->rank[r].had, sizeof(mine));
        m->scratch[r] = sn_lower_median(mine, SN_DEPARTURE_WINDOW);
    }
    double own = m->scratch[rank];
    (void)sn_lower_median(m->scratch, m->ranks); /* puts them in order */
    double common = m->scratch[m->ranks / 2];
    return common > 0.5 ? fmin(own / common, 1) : 1;
}

static struct sn_finding core_of(struct sn_monitor *m, int rank)
{
    const struct sn_monitored_rank *r = &m->rank[rank];
    struct sn_finding f = {.kind = SN_FINDING_CORE,
                           .rank = rank,
                           .other_rank = -1,
                           .members = 1,
                           .core = r->core,
                           .ratio = sn_departure_ratio(&r->departure),
                           .since = r->departure.since,
                           .had = had(m, rank)};
    (void)snprintf(f.host, sizeof(f.host), "%s", m->host_name[r->host]);
    find_work(m, rank, &f);
    return f;
}

/* Do all ranks of a host depart, several of them, and not those of all hosts? */
static bool is_node(const struct sn_monitor *m, int host, struct sn_finding *f)
{
    int n = 0;
    for (int r = 0; r < m->ranks; r++) {
        if (m->rank[r].host != host)
            continue;
        if (!m->rank[r].departure.departs)
            return false;
        f->since =
            n == 0 || m->rank[r].departure.since < f->since ? m->rank[r].departure.since : f->since;
        m->scratch[n++] = sn_departure_ratio(&m->rank[r].departure);
    }
    f->members = n;
    f->ratio = sn_lower_median(m->scratch, n);
    return n > 1 && m->hosts > 1;
}

static void find_ranks(struct sn_monitor *m)
{
    for (int r = 0; r < m->ranks; r++) {
        const struct sn_monitored_rank *x = &m->rank[r];
        struct sn_finding f = {.kind = SN_FINDING_NODE, .rank = -1, .other_rank = -1, .core = -1};
        f.work = -1;
        f.had = 1;
        if (!x->departure.departs)
            continue;
        if (!is_node(m, x->host, &f)) {
            m->found[m->n_found++] = core_of(m, r);
            continue;
        }
        (void)snprintf(f.host, sizeof(f.host), "%s", m->host_name[x->host]);
        bool is_first = true;
        for (int i = 0; i < r; i++)
            is_first = is_first && m->rank[i].host != x->host;
        if (is_first)
            m->found[m->n_found++] = f;
    }
}

/* --- links ------------------------------------------------------------------------------------ */

static bool is_of(const struct sn_monitor *m, const struct sn_blamed *b, int path)
{
    const struct sn_slow_path *p = &m->slow[path];
    bool here = false, there = b->what != SN_BLAME_PAIR;
    for (int i = 0; i < p->n; i++) {
        here = here || p->host[i] == b->host ||
               (b->what == SN_BLAME_LEAF && m->leaf[p->host[i]] == b->leaf);
        there = there || p->host[i] == b->other;
    }
    return p->is_slow && (b->what == SN_BLAME_ALL ||
                          (b->what == SN_BLAME_PATH && path == b->path) || (here && there));
}

/* The median over the paths that it explains, from when the first departed; false: none has yet. */
static bool measure(struct sn_monitor *m, const struct sn_blamed *b, struct sn_finding *f)
{
    int n = 0;
    for (int i = 0; i < m->n_paths; i++) {
        const struct sn_departure *d = &m->path[i].departure;
        if (!is_of(m, b, i) || !d->departs)
            continue;
        f->since = n == 0 || d->since < f->since ? d->since : f->since;
        m->scratch[n++] = sn_departure_ratio(d);
    }
    f->ratio = sn_lower_median(m->scratch, n);
    return n > 0;
}

static void add_link(struct sn_monitor *m, const struct sn_blamed *b)
{
    static const enum sn_finding_kind kind[] = {[SN_BLAME_HOST] = SN_FINDING_HOST_LINK,
                                                [SN_BLAME_PAIR] = SN_FINDING_PAIR_LINK,
                                                [SN_BLAME_LEAF] = SN_FINDING_LEAF,
                                                [SN_BLAME_PATH] = SN_FINDING_PATH,
                                                [SN_BLAME_ALL] = SN_FINDING_LINKS};
    const struct sn_monitored_path *p = &m->path[b->path];
    struct sn_finding f = {.kind = kind[b->what], .rank = -1, .other_rank = -1, .core = -1};
    const char *host = "", *other = "";
    f.work = -1;
    f.had = 1;
    if (b->what == SN_BLAME_HOST || b->what == SN_BLAME_PAIR)
        host = m->host_name[b->host];
    if (b->what == SN_BLAME_PAIR)
        other = m->host_name[b->other];
    if (b->what == SN_BLAME_LEAF)
        host = m->leaf_name[b->leaf];
    if (b->what == SN_BLAME_PATH) {
        int last = p->first + p->n - 1;
        f.rank = m->member[p->first];
        f.other_rank = m->member[last];
        f.members = p->n;
        host = m->host_name[m->member_host[p->first]];
        other = m->host_name[m->member_host[last]];
    }
    (void)snprintf(f.host, sizeof(f.host), "%s", host);
    (void)snprintf(f.other, sizeof(f.other), "%s", other);
    if (measure(m, b, &f))
        m->found[m->n_found++] = f;
}

static void find_links(struct sn_monitor *m)
{
    bool departs = false;
    for (int i = 0; i < m->n_paths; i++)
        departs = departs || m->path[i].departure.departs;
    if (!departs)
        return;
    const struct sn_paths paths = {m->slow, m->n_paths, m->leaf, m->hosts};
    int n = sn_localise(m->blamed, &paths, &m->room);
    for (int i = 0; i < n; i++)
        add_link(m, &m->blamed[i]);
}

/* --- news ------------------------------------------------------------------------------------- */

static bool is_same(const struct sn_finding *a, const struct sn_finding *b)
{
    return a->kind == b->kind && a->rank == b->rank && a->other_rank == b->other_rank &&
           strcmp(a->host, b->host) == 0 && strcmp(a->other, b->other) == 0;
}

static bool is_among(const struct sn_finding *f, const struct sn_finding *list, int n)
{
    for (int i = 0; i < n; i++)
        if (is_same(f, &list[i]))
            return true;
    return false;
}

void sn_monitor_find(struct sn_monitor *m)
{
    int n = m->n_found;
    bool is_settled = m->steps > m->changed;
    memcpy(m->before, m->found, (size_t)n * sizeof(*m->found));
    m->n_found = m->n_ended = 0;
    find_ranks(m);
    if (is_settled)
        find_links(m);
    for (int i = 0; i < n && !is_settled; i++)
        if (m->before[i].kind >= SN_FINDING_HOST_LINK)
            m->found[m->n_found++] = m->before[i];
    for (int i = 0; i < m->n_found; i++)
        m->found[i].is_new = !is_among(&m->found[i], m->before, n);
    for (int i = 0; i < n; i++)
        if (!is_among(&m->before[i], m->found, m->n_found))
            m->ended[m->n_ended++] = m->before[i];
}
