#include "slurm/supervisor/vigil.h"

#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

enum sn_status sn_vigil_init(struct sn_vigil *out, int ranks, struct sn_err *err)
{
    *out = (struct sn_vigil){.ranks = ranks};
    out->rank = sn_alloc_n((size_t)ranks + 1, sizeof(*out->rank));
    return out->rank ? SN_OK : sn_fail(err, SN_ENOMEM, "records: no memory for %d ranks", ranks);
}

void sn_vigil_fini(struct sn_vigil *w)
{
    sn_free(w->rank);
    *w = (struct sn_vigil){0};
}

/* Never 0. */
static uint64_t number_of(const struct sn_flight_view *v)
{
    uint64_t sum = v->heartbeats + 1;
    for (int i = 0; i < v->n; i++)
        sum = sum * 31 + v->event[i].id * 4 + (uint64_t)v->event[i].state;
    return sum ? sum : 1;
}

void sn_vigil_look(struct sn_vigil *w, double now)
{
    if (w->is_over)
        return;
    w->first = w->first > 0 ? w->first : now;
    w->last = now;
}

void sn_vigil_see(struct sn_vigil *w, int rank, const struct sn_flight_view *v)
{
    struct sn_vigil_rank *r = &w->rank[rank];
    uint64_t seen = number_of(v);
    w->is_over = w->is_over || v->heartbeats == SN_FLIGHT_GAVE_UP;
    if (w->is_over || seen == r->seen)
        return;
    r->changes += r->seen != 0; /* to find a record is not to see it move */
    r->seen = seen;
    r->changed = w->last;
    r->is_here = v->is_here;
    (void)snprintf(r->host, sizeof(r->host), "%s", v->host);
}

bool sn_host_is(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");
    return n == strcspn(b, ".") && n > 0 && strncmp(a, b, n) == 0;
}

/* Do records of other hosts than this one and `rank`'s reach us? */
static bool others_travel(const struct sn_vigil *w, int rank, double seconds)
{
    for (int i = 0; i < w->ranks; i++) {
        const struct sn_vigil_rank *r = &w->rank[i];
        if (r->changes > 0 && !r->is_here && w->last - r->changed < seconds &&
            strcmp(r->host, w->rank[rank].host) != 0)
            return true;
    }
    return false;
}

bool sn_vigil_is_silent(const struct sn_vigil *w, int rank, double seconds)
{
    const struct sn_vigil_rank *r = &w->rank[rank];
    if (r->seen == 0 || w->last - r->changed < seconds)
        return false;
    return r->is_here || r->changes > 1 || others_travel(w, rank, seconds);
}

bool sn_vigil_host_is_silent(const struct sn_vigil *w, const char *host, double seconds)
{
    bool found = false;
    for (int i = 0; i < w->ranks; i++) {
        if (w->rank[i].seen == 0 || !sn_host_is(w->rank[i].host, host))
            continue;
        if (!sn_vigil_is_silent(w, i, seconds))
            return false;
        found = true;
    }
    return found;
}
