#include "lib/monitor/localise.h"

#include "lib/base/mem.h"

/* Of the votes, what the host needs that is blamed by them. */
static const double majority = 0.5;

struct search {
    const struct sn_slow_path *path;
    int n_paths;
    const int *leaf;
    int n_hosts;
    bool *is_open, *is_cleared;
    double *votes;
    bool has_found; /* something */
};

static bool touches(const struct sn_slow_path *p, int host)
{
    for (int i = 0; i < p->n; i++)
        if (p->host[i] == host)
            return true;
    return false;
}

/* Has it members at this switch, and others elsewhere? */
static bool leaves(const struct search *s, const struct sn_slow_path *p, int leaf)
{
    int inside = 0;
    for (int i = 0; i < p->n; i++)
        inside += s->leaf[p->host[i]] == leaf;
    return inside > 0 && inside < p->n;
}

static bool is_kind_slow(const struct search *s, int kind)
{
    for (int i = 0; i < s->n_paths; i++)
        if (s->path[i].is_slow && s->path[i].kind == kind)
            return true;
    return false;
}

static void clear_hosts(struct search *s)
{
    for (int i = 0; i < s->n_paths; i++)
        for (int m = 0; s->path[i].is_quiet && m < s->path[i].n; m++)
            if (is_kind_slow(s, s->path[i].kind))
                s->is_cleared[s->path[i].host[m]] = true;
}

static int explained(const struct search *s, int host)
{
    int n = 0;
    for (int i = 0; i < s->n_paths; i++)
        n += s->is_open[i] && touches(&s->path[i], host);
    return n;
}

static int count_open(const struct search *s, int *first)
{
    int n = 0;
    for (int i = s->n_paths - 1; i >= 0; i--)
        if (s->is_open[i]) {
            n++;
            *first = i;
        }
    return n;
}

/* The votes of open paths that a host is in, by host. */
static double sum_votes(struct search *s, int host)
{
    double sum = 0;
    for (int h = 0; h < s->n_hosts; h++)
        s->votes[h] = 0;
    for (int i = 0; i < s->n_paths; i++)
        for (int m = 0; s->is_open[i] && touches(&s->path[i], host) && m < s->path[i].n; m++) {
            s->votes[s->path[i].host[m]] += s->path[i].votes[m];
            sum += s->path[i].votes[m];
        }
    return sum;
}

static void close(struct search *s, int host)
{
    for (int i = 0; i < s->n_paths; i++)
        if (touches(&s->path[i], host))
            s->is_open[i] = false;
}

/* Do two hosts explain the same open paths? */
static bool explain_alike(const struct search *s, int a, int b)
{
    for (int i = 0; i < s->n_paths; i++)
        if (s->is_open[i] && touches(&s->path[i], a) != touches(&s->path[i], b))
            return false;
    return true;
}

/* A host explains most: is it the only one? `path` is one that it explains. */
static struct sn_blamed judge_host(struct search *s, int best, int path)
{
    struct sn_blamed b = {.what = SN_BLAME_HOST, .host = best, .other = -1, .leaf = -1};
    int n = 0, second = -1;
    b.path = path;
    for (int h = 0; h < s->n_hosts; h++)
        if (!s->is_cleared[h] && explain_alike(s, h, best)) {
            second = h != best ? h : second;
            n++;
        }
    if (n == 1)
        return b;
    double all = sum_votes(s, best);
    for (int h = 0; h < s->n_hosts && n > 2; h++)
        if (!s->is_cleared[h] && explain_alike(s, h, best) && s->votes[h] > majority * all) {
            b.host = h;
            return b;
        }
    b.what = n == 2 ? SN_BLAME_PAIR : SN_BLAME_PATH;
    b.other = n == 2 ? second : -1;
    return b;
}

static bool is_leaf_cleared(const struct search *s, int leaf)
{
    for (int i = 0; i < s->n_paths; i++)
        if (s->path[i].is_quiet && leaves(s, &s->path[i], leaf) && is_kind_slow(s, s->path[i].kind))
            return true;
    return false;
}

/* A switch that all open paths leave, two or more of them. */
static bool find_leaf(const struct search *s, int open, int *out)
{
    for (int h = 0; h < s->n_hosts; h++) {
        int n = 0, leaf = s->leaf[h];
        for (int i = 0; leaf >= 0 && i < s->n_paths; i++)
            n += s->is_open[i] && leaves(s, &s->path[i], leaf);
        if (leaf < 0 || n < open || n < 2 || is_leaf_cleared(s, leaf))
            continue;
        *out = leaf;
        return true;
    }
    return false;
}

static int best_host(const struct search *s)
{
    int best = -1, most = 0;
    for (int h = 0; h < s->n_hosts; h++)
        if (!s->is_cleared[h] && explained(s, h) > most) {
            most = explained(s, h);
            best = h;
        }
    return best;
}

static bool none_is_quiet(const struct search *s)
{
    for (int i = 0; i < s->n_paths; i++)
        if (s->path[i].is_quiet)
            return false;
    return s->n_paths > 1;
}

static struct sn_blamed blame_leaf(struct search *s, int leaf, int first)
{
    for (int i = 0; i < s->n_paths; i++)
        s->is_open[i] = s->is_open[i] && !leaves(s, &s->path[i], leaf);
    return (struct sn_blamed){SN_BLAME_LEAF, -1, -1, leaf, first};
}

/* Nothing explains the first open one, or all. */
static struct sn_blamed blame_paths(struct search *s, int first)
{
    bool is_all = none_is_quiet(s);
    for (int i = 0; i < s->n_paths; i++)
        s->is_open[i] = s->is_open[i] && !is_all && i != first;
    return (struct sn_blamed){is_all ? SN_BLAME_ALL : SN_BLAME_PATH, -1, -1, -1, first};
}

/* What explains the most that is open; it is open no more. */
static struct sn_blamed next(struct search *s, int open, int first)
{
    int leaf = -1, best = best_host(s);
    bool by_leaf = find_leaf(s, open, &leaf);
    bool explains_all = best >= 0 && explained(s, best) == open;
    if (best < 0 || (!explains_all && (by_leaf || (none_is_quiet(s) && !s->has_found))))
        return by_leaf ? blame_leaf(s, leaf, first) : blame_paths(s, first);
    int path = first;
    while (!s->is_open[path] || !touches(&s->path[path], best))
        path++;
    struct sn_blamed b = judge_host(s, best, path);
    if (b.what == SN_BLAME_PATH)
        return by_leaf ? blame_leaf(s, leaf, first) : blame_paths(s, path);
    close(s, b.host);
    return b;
}

enum sn_status sn_localise_init(struct sn_localise_room *out, int n_paths, int n_hosts,
                                struct sn_err *err)
{
    out->is_open = sn_alloc_n((size_t)n_paths + 1, sizeof(bool));
    out->is_cleared = sn_alloc_n((size_t)n_hosts + 1, sizeof(bool));
    out->votes = sn_alloc_n((size_t)n_hosts + 1, sizeof(double));
    return out->is_open && out->is_cleared && out->votes
               ? SN_OK
               : sn_fail(err, SN_ENOMEM, "monitor: no memory for %d paths", n_paths);
}

void sn_localise_fini(struct sn_localise_room *r)
{
    sn_free(r->is_open);
    sn_free(r->is_cleared);
    sn_free(r->votes);
}

int sn_localise(struct sn_blamed *out, const struct sn_paths *p, struct sn_localise_room *room)
{
    struct search s = {.path = p->path,
                       .n_paths = p->n_paths,
                       .leaf = p->leaf,
                       .n_hosts = p->n_hosts,
                       .is_open = room->is_open,
                       .is_cleared = room->is_cleared,
                       .votes = room->votes};
    int n = 0, open, first = 0;
    for (int h = 0; h < s.n_hosts; h++)
        s.is_cleared[h] = false;
    clear_hosts(&s);
    for (int i = 0; i < s.n_paths; i++)
        s.is_open[i] = s.path[i].is_slow;
    while ((open = count_open(&s, &first)) > 0) {
        out[n++] = next(&s, open, first);
        s.has_found = true;
    }
    return n;
}
