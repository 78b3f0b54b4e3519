/*
 * history_flight.c - what the records of the ranks say of an attempt that stopped without a word.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/process.h"
#include "lib/program/program.h"
#include "slurm/history/history.h"
#include "slurm/supervisor/culprit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 4096 }; /* ranks whose records are read */

static void printable(char *to, size_t room, const char *from)
{
    (void)snprintf(to, room, "%.*s", (int)room - 1, from);
    for (char *c = to; *c; c++)
        if (*c < 0x20 || *c >= 0x7f)
            *c = '?';
}

/* Records of a whole job; false: nobody of it is alive here or may be elsewhere, and when all have
 * ended together, who was behind by chance means nothing. */
static bool read_all(struct sn_flight_view *v, const char *dir, int ranks)
{
    char folder[SN_HISTORY_PATH];
    bool alive = false;
    (void)snprintf(folder, sizeof(folder), "%s/ranks", dir);
    for (int i = 0; i < ranks; i++) {
        if (sn_flight_read(&v[i], folder, i, NULL) != SN_OK)
            v[i] = (struct sn_flight_view){.rank = i, .n = -1};
        else
            alive = alive || !v[i].is_here || v[i].is_alive;
    }
    return alive;
}

static void take_culprit(struct sn_history_attempt *a, const struct sn_culprit *c, const char *kind)
{
    struct sn_history_suspect *s = &a->suspect;
    printable(s->kind, sizeof(s->kind), kind);
    printable(s->host, sizeof(s->host), c->host);
    printable(s->axis, sizeof(s->axis), c->axis);
    printable(s->operation, sizeof(s->operation), c->operation);
    s->rank = c->rank;
    s->behind = (double)c->behind;
    s->seconds = c->seconds;
    a->n_suspects = 1;
}

/* A rank whose process somebody stopped: surer than who waits for whom. */
static bool find_stopped(struct sn_culprit *out, const struct sn_flight_view *v, int ranks)
{
    for (int i = 0; i < ranks; i++) {
        if (v[i].n < 0 || !v[i].is_here || !sn_process_is_stopped(v[i].pid))
            continue;
        *out = (struct sn_culprit){.rank = i};
        (void)snprintf(out->host, sizeof(out->host), "%s", v[i].host);
        return true;
    }
    return false;
}

enum sn_status sn_history_take_recorders(struct sn_history *h, const char *dir,
                                         const struct sn_config *c, struct sn_err *err)
{
    struct sn_history_attempt *a = h->n_attempts ? &h->attempt[h->n_attempts - 1] : NULL;
    struct sn_culprit culprit;
    struct sn_grid grid;
    int ranks = sn_config_ranks(c);
    bool wanted = a && !a->has_end && !a->record_ended && a->n_suspects == 0;
    if (!wanted || ranks < 2 || ranks > MOST || sn_job_grid(&grid, c, NULL) != SN_OK)
        return SN_OK;
    struct sn_flight_view *v = sn_alloc_n((size_t)ranks, sizeof(*v));
    if (!v)
        return sn_fail(err, SN_ENOMEM, "%s/ranks: no memory for %d records", dir, ranks);
    bool alive = read_all(v, dir, ranks), stopped = alive && find_stopped(&culprit, v, ranks);
    if (stopped || (alive && sn_culprit_find(&culprit, v, ranks, &grid, NULL, sn_clock())))
        take_culprit(a, &culprit, stopped ? "stopped" : sn_suspicion_name(culprit.kind));
    sn_free(v);
    return SN_OK;
}
