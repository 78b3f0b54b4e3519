#include "lib/monitor/monitor_inner.h"

#include "lib/base/mem.h"

#include <math.h>
#include <stdlib.h>

/* What is left of a vote after a step. */
static const double memory_of_votes = 0.85;

/* A transfer that takes longer by less than so many times what moments of hosts are apart by is as
 * long as it was. */
static const double sure_enough = 3;

/* A rank on a path. */
struct entry {
    struct sn_path path;
    int rank, sample, n; /* the first, and how many */
};

static int order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->path.group != y->path.group)
        return x->path.group < y->path.group ? -1 : 1;
    if (x->path.from != y->path.from)
        return x->path.from < y->path.from ? -1 : 1;
    if (x->path.to != y->path.to)
        return x->path.to < y->path.to ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int collect(struct entry *out, const struct sn_monitor *m)
{
    int n = 0;
    for (int r = 0; r < m->ranks; r++) {
        const struct sn_monitor_plan *p = &m->plan[r];
        for (int i = 0; i < p->n; i++) {
            bool goes_on = i > 0 && sn_path_is(&p->sample[i].path, &p->sample[i - 1].path);
            if (!goes_on)
                out[n++] = (struct entry){.path = p->sample[i].path, .rank = r, .sample = i};
            out[n - 1].n++;
        }
    }
    qsort(out, (size_t)n, sizeof(*out), order);
    return n;
}

/* Entries of one path: do all watch the same, and is there a link between them? */
static bool is_watched(const struct sn_monitor *m, const struct entry *e, int n)
{
    bool is_remote = false;
    for (int i = 1; i < n; i++) {
        if (e[i].n != e[0].n)
            return false;
        is_remote = is_remote || m->rank[e[i].rank].host != m->rank[e[0].rank].host;
    }
    return is_remote && n == m->plan[e[0].rank].sample[e[0].sample].members;
}

static void add_path(struct sn_monitor *m, const struct entry *e, int n)
{
    struct sn_monitored_path *p = &m->path[m->n_paths];
    *p = (struct sn_monitored_path){
        .path = e[0].path, .first = m->n_members, .n = n, .samples = e[0].n};
    sn_departure_init(&p->departure, SN_MONITOR_LINK_TOLERANCE);
    for (int i = 0; i < n; i++, m->n_members++) {
        m->member[m->n_members] = e[i].rank;
        m->member_host[m->n_members] = m->rank[e[i].rank].host;
        m->member_sample[m->n_members] = e[i].sample;
    }
    m->slow[m->n_paths++] = (struct sn_slow_path){.kind = p->path.group,
                                                  .n = n,
                                                  .host = m->member_host + p->first,
                                                  .votes = m->votes + p->first};
}

static void group_entries(struct sn_monitor *m, const struct entry *e, int n)
{
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && sn_path_is(&e[end].path, &e[i].path); end++)
            continue;
        if (is_watched(m, e + i, end - i))
            add_path(m, e + i, end - i);
    }
}

enum sn_status sn_monitor_make_paths(struct sn_monitor *m, struct sn_err *err)
{
    size_t most = 1;
    for (int r = 0; r < m->ranks; r++)
        most += (size_t)m->plan[r].n;
    struct entry *e = sn_alloc_n(most, sizeof(*e));
    m->path = sn_alloc_n(most, sizeof(*m->path));
    m->slow = sn_alloc_n(most, sizeof(*m->slow));
    m->member = sn_alloc_n(most, sizeof(*m->member));
    m->member_host = sn_alloc_n(most, sizeof(*m->member_host));
    m->member_sample = sn_alloc_n(most, sizeof(*m->member_sample));
    m->votes = sn_alloc_n(most, sizeof(*m->votes));
    bool has_room =
        e && m->path && m->slow && m->member && m->member_host && m->member_sample && m->votes;
    if (has_room)
        group_entries(m, e, collect(e, m));
    sn_free(e);
    return has_room ? SN_OK : sn_fail(err, SN_ENOMEM, "monitor: no memory for paths");
}

/* --- a step ----------------------------------------------------------------------------------- */

static void vote(struct sn_monitor *m, const struct sn_monitored_path *p, int voter, int last)
{
    for (int i = p->first; i < p->first + p->n; i++)
        if (m->member[i] == last && m->member_host[i] != m->member_host[voter])
            m->votes[i] += 1;
}

/* Seconds of sample k of a path, when all were there; NAN: somebody has not measured it. */
static double took(struct sn_monitor *m, const struct sn_monitored_path *p, int k,
                   const struct sn_monitor_record *records)
{
    double begin = -INFINITY, end = -INFINITY;
    for (int i = p->first; i < p->first + p->n; i++) {
        const struct sn_monitor_record *r = &records[m->member[i]];
        int s = m->member_sample[i] + k;
        double zero = r->began - m->rank[m->member[i]].offset;
        if (r->sample[s].end <= 0)
            return NAN;
        begin = fmax(begin, zero + (double)r->sample[s].begin);
        end = fmax(end, zero + (double)r->sample[s].end);
        vote(m, p, i, r->sample[s].last);
    }
    return end - begin;
}

static double measure(struct sn_monitor *m, const struct sn_monitored_path *p,
                      const struct sn_monitor_record *records)
{
    double all = 0, planned = 0, unsure = 0;
    for (int i = p->first; i < p->first + p->n; i++)
        m->votes[i] *= memory_of_votes;
    for (int k = 0; k < p->samples; k++) {
        double seconds = took(m, p, k, records);
        int sample = m->member_sample[p->first] + k;
        if (!isfinite(seconds))
            continue;
        all += fmax(seconds, 1e-6); /* clocks may be off by more than it took */
        unsure += sure_enough * m->unsure;
        planned += (double)m->plan[m->member[p->first]].sample[sample].seconds;
    }
    if (planned <= 0)
        return NAN;
    double value = log(all / planned), base = p->departure.base;
    bool is_told = all - planned * exp(base) > unsure;
    return p->departure.is_learned && !is_told ? fmin(value, base) : value;
}

void sn_monitor_measure_paths(struct sn_monitor *m, const struct sn_monitor_record *records)
{
    for (int i = 0; i < m->n_paths; i++)
        m->value[i] = measure(m, &m->path[i], records);
}
