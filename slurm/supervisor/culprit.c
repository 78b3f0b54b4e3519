#include "slurm/supervisor/culprit.h"

#include "lib/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HOPS = 64 };

const char *sn_suspicion_name(enum sn_suspicion s)
{
    static const char *const name[] = {"none", "hang", "straggler", "silent"};
    return name[s];
}

/* ---- the flight recorders ------------------------------------------------------------------ */

static bool is_gone(const struct sn_flight_view *v)
{
    return v->n >= 0 && v->is_here && !v->is_alive;
}

/* The rank for which `rank` waits: the member of the group that is furthest behind, else one that
 * has posted the same and is held up in another collective; -1: none. *queue: that in which others
 * wait for `rank`, and then for the one that is found, or SN_FLIGHT_ANY. */
static int waits_for(const struct sn_flight_view *v, int ranks, const struct sn_grid *g, int rank,
                     int *queue)
{
    const struct sn_flight_event *w = v[rank].n > 0 ? sn_flight_waits_in(&v[rank], *queue) : NULL;
    int found = -1;
    if (!w || w->group < 0 || w->group >= SN_NGROUPS)
        return -1;
    *queue = SN_FLIGHT_ANY;
    if (w->peer >= 0)
        return w->peer < ranks ? w->peer : -1;
    enum sn_group q = (enum sn_group)w->group;
    for (int i = 0; i < sn_group_size(g, rank, q); i++) {
        int other = sn_group_member(g, rank, q, i);
        if (other == rank || other >= ranks || v[other].n < 0 || v[other].posted[q] >= w->number)
            continue;
        if (found < 0 || v[other].posted[q] < v[found].posted[q])
            found = other;
    }
    for (int i = 0; found < 0 && i < sn_group_size(g, rank, q); i++) {
        int other = sn_group_member(g, rank, q, i);
        if (other != rank && other < ranks && v[other].n > 0 &&
            sn_flight_is_held_up(&v[other], w->group, w->number)) {
            found = other;
            *queue = (int)sn_group_queue(q);
        }
    }
    return found;
}

/* What is looked at. */
struct scene {
    const struct sn_flight_view *v;
    int ranks;
    const struct sn_grid *g;
    const bool *still; /* NULL: not known */
    double now;
};

static bool is_still(const struct scene *s, int rank)
{
    return s->still && s->still[rank];
}

static bool waits(const struct sn_flight_view *v)
{
    return v->n > 0 && sn_flight_waits_in(v, SN_FLIGHT_ANY);
}

/* One who waits, and in which queue others wait for it, or SN_FLIGHT_ANY. */
struct link {
    int rank, queue;
};

/* The end of the chain from a rank; *last is who pointed at it. Whose record stands still is an
 * end, whatever it waited for. -1: a circle, or one who waits itself: a victim. */
static int end_of_chain(const struct scene *s, int rank, struct link *last)
{
    struct link at = {rank, SN_FLIGHT_ANY};
    *last = (struct link){-1, SN_FLIGHT_ANY};
    for (int i = 0; i < HOPS; i++) {
        struct link next = at;
        next.rank =
            is_still(s, at.rank) ? -1 : waits_for(s->v, s->ranks, s->g, at.rank, &next.queue);
        if (next.rank < 0)
            return is_still(s, at.rank) || !waits(&s->v[at.rank]) ? at.rank : -1;
        *last = at;
        at = next;
    }
    return -1;
}

/* What the one who waits says about it. */
static void describe(struct sn_culprit *out, const struct scene *s, int rank, struct link waiter)
{
    const struct sn_flight_view *v = s->v;
    const struct sn_flight_event *w =
        waiter.rank >= 0 ? sn_flight_waits_in(&v[waiter.rank], waiter.queue) : NULL;
    out->rank = rank;
    if (v[rank].n >= 0)
        (void)snprintf(out->host, sizeof(out->host), "%s", v[rank].host);
    if (v[rank].n > 0 && v[rank].is_here)
        out->seconds = s->now - sn_flight_last_time(&v[rank]);
    if (!w)
        return;
    (void)snprintf(out->axis, sizeof(out->axis), "%s", sn_group_name((enum sn_group)w->group));
    (void)snprintf(out->operation, sizeof(out->operation), "%s%s%s", w->kind,
                   w->label[0] ? " " : "", w->label);
    if (w->peer < 0 && v[rank].n >= 0)
        out->behind = (int64_t)(w->number - v[rank].posted[w->group]);
}

static bool has_given_up(const struct scene *s)
{
    for (int i = 0; i < s->ranks; i++)
        if (s->v[i].n >= 0 && s->v[i].heartbeats == SN_FLIGHT_GAVE_UP)
            return true;
    return false;
}

static bool find_gone(struct sn_culprit *out, const struct scene *s)
{
    for (int i = 0; i < s->ranks && !has_given_up(s); i++) {
        struct link waiter = {-1, SN_FLIGHT_ANY}, last;
        if (!is_gone(&s->v[i]))
            continue;
        for (int j = 0; j < s->ranks && waiter.rank < 0; j++)
            if (j != i && end_of_chain(s, j, &last) == i)
                waiter = last;
        out->kind = SN_SUSPECT_SILENT;
        describe(out, s, i, waiter);
        return true;
    }
    return false;
}

/* The rank at which most chains end, and one that points at it; -1: all ends are their own. With
 * `only_still`, of those that stand still. */
static int most_blamed(const struct scene *s, bool only_still, struct link *waiter)
{
    int *votes = sn_alloc_n((size_t)s->ranks, sizeof(*votes)), best = -1;
    for (int i = 0; votes && i < s->ranks; i++) {
        struct link last;
        int end = end_of_chain(s, i, &last);
        if (end < 0 || end == i || (only_still && !is_still(s, end)))
            continue;
        votes[end]++;
        if (best < 0 || votes[end] > votes[best]) {
            best = end;
            *waiter = last;
        }
    }
    sn_free(votes);
    return best;
}

static int first_still(const struct scene *s)
{
    for (int i = 0; i < s->ranks; i++)
        if (is_still(s, i))
            return i;
    return -1;
}

/* One who waits together with a rank, or for it; -1: none. */
static int find_waiter(const struct scene *s, int rank)
{
    for (int i = 0; i < s->ranks; i++) {
        const struct sn_flight_event *w =
            i != rank && s->v[i].n > 0 ? sn_flight_waits_in(&s->v[i], SN_FLIGHT_ANY) : NULL;
        if (!w || w->group < 0 || w->group >= SN_NGROUPS)
            continue;
        enum sn_group q = (enum sn_group)w->group;
        bool is_in = w->peer == rank;
        for (int k = 0; w->peer < 0 && !is_in && k < sn_group_size(s->g, i, q); k++)
            is_in = sn_group_member(s->g, i, q, k) == rank;
        if (is_in)
            return i;
    }
    return -1;
}

static bool is_whole_host(const struct scene *s, const char *host)
{
    for (int i = 0; i < s->ranks; i++)
        if (s->v[i].n >= 0 && strcmp(s->v[i].host, host) == 0 && !is_still(s, i))
            return false;
    return host[0] != '\0';
}

static bool all_wait(const struct scene *s)
{
    for (int i = 0; i < s->ranks; i++)
        if (!waits(&s->v[i]))
            return false;
    return true;
}

bool sn_culprit_find(struct sn_culprit *out, const struct sn_flight_view *v, int ranks,
                     const struct sn_grid *g, const bool *still, double now)
{
    struct scene s = {.v = v, .ranks = ranks, .g = g, .still = still, .now = now};
    struct sn_culprit found = {.rank = -1};
    struct link waiter = {-1, SN_FLIGHT_ANY};
    int first = first_still(&s), best;
    if (find_gone(&found, &s)) {
        *out = found;
        return true;
    }
    best = most_blamed(&s, first >= 0, &waiter);
    if (best < 0 && first >= 0) {
        best = first;
        waiter = (struct link){find_waiter(&s, first), SN_FLIGHT_ANY};
    }
    if (best >= 0) {
        found.kind = SN_SUSPECT_HANG;
        describe(&found, &s, best, waiter);
        found.is_still = is_still(&s, best);
        found.is_host = found.is_still && is_whole_host(&s, found.host);
    } else if (all_wait(&s)) {
        found.kind = SN_SUSPECT_SILENT; /* nobody is behind: a network, or a host */
    }
    if (found.kind == SN_SUSPECT_NONE)
        return false;
    *out = found;
    return true;
}

void sn_culprit_say(char *out, size_t room, const struct sn_culprit *c)
{
    size_t at = 0;
    if (c->rank < 0 && c->host[0])
        at = (size_t)snprintf(out, room, "%s stands still", c->host);
    else if (c->rank < 0)
        at = (size_t)snprintf(out, room, "which rank is behind is not known");
    else if (c->is_host && c->host[0])
        at = (size_t)snprintf(out, room, "all ranks of %s stand still, rank %d among them", c->host,
                              c->rank);
    else
        at = (size_t)snprintf(out, room, "rank %d%s%s%s %s", c->rank, c->host[0] ? " (" : "",
                              c->host, c->host[0] ? ")" : "",
                              c->is_still ? "stands still" : "is behind");
    if (c->rank >= 0 && c->operation[0] && at < room)
        (void)snprintf(out + at, room - at, "; others wait for it in %s%s%s", c->axis,
                       c->axis[0] ? " " : "", c->operation);
}

/* ---- stragglers ------------------------------------------------------------------------------ */

/* The wait of a rank in a collective; negative: its record does not have the whole of it. */
static double wait_of(const struct sn_flight_view *v, int group, uint64_t number)
{
    const struct sn_flight_event *e = sn_flight_collective(v, group, number);
    return e && e->state == SN_FLIGHT_DONE ? e->time - e->came : -1;
}

/* Seconds between the first and the last event of a record. */
static double span_of(const struct sn_flight_view *v)
{
    double first = v->n > 0 ? v->event[0].came : 0;
    return sn_flight_last_time(v) - first;
}

/* Collective `e` of group `q`, of which `rank` is the first member: add what the last one to come
 * cost. */
static void add_cost(double *cost, const struct sn_flight_view *v, int ranks,
                     const struct sn_grid *g, int rank, const struct sn_flight_event *e)
{
    enum sn_group q = (enum sn_group)e->group;
    int size = sn_group_size(g, rank, q), last = -1;
    double least = INFINITY, second = INFINITY;
    for (int i = 0; i < size; i++) {
        int member = sn_group_member(g, rank, q, i);
        double wait = member < ranks ? wait_of(&v[member], e->group, e->number) : -1;
        if (wait < 0)
            return; /* not all have it */
        if (wait < least) {
            second = least;
            least = wait;
            last = member;
        } else if (wait < second) {
            second = wait;
        }
    }
    cost[last] += second - least; /* without it the second would have been the last */
}

bool sn_straggler_find(struct sn_culprit *out, const struct sn_flight_view *v, int ranks,
                       const struct sn_grid *g)
{
    double *cost = sn_alloc_n((size_t)ranks, sizeof(*cost));
    int worst = 0;
    for (int r = 0; cost && r < ranks; r++)
        for (int i = 0; i < v[r].n; i++) {
            const struct sn_flight_event *e = &v[r].event[i];
            if (e->peer < 0 && sn_group_is_even((enum sn_group)e->group) &&
                e->state == SN_FLIGHT_DONE && sn_group_size(g, r, (enum sn_group)e->group) > 1 &&
                sn_group_member(g, r, (enum sn_group)e->group, 0) == r)
                add_cost(cost, v, ranks, g, r, e);
        }
    for (int r = 1; cost && r < ranks; r++)
        worst = cost[r] > cost[worst] ? r : worst;
    double span = cost ? span_of(&v[worst]) : 0, share = span > 0 ? cost[worst] / span : 0;
    sn_free(cost);
    if (share < SN_STRAGGLER_LEAST)
        return false;
    *out = (struct sn_culprit){.kind = SN_SUSPECT_STRAGGLER, .rank = worst, .seconds = share};
    (void)snprintf(out->host, sizeof(out->host), "%s", v[worst].host);
    return true;
}
