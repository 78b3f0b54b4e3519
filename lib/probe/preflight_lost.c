/*
 * preflight_lost.c - a rank did not answer: which one? From the records that all ranks keep.
 *
 * Whoever notices says so in its own record, and waits until the others have had the time to: who
 * says nothing, and has come least far, is the one for whom they wait.
 */
#include "lib/base/mem.h"
#include "lib/probe/preflight.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TIME_FOR_OTHERS = 4 /* seconds */ };

static bool has_noticed(const struct sn_flight_view *v)
{
    for (int i = 0; i < v->n; i++)
        if (strcmp(v->event[i].kind, "lost") == 0)
            return true;
    return false;
}

/* How far a rank has come, if it may be the one. */
static bool is_suspect(struct sn_preflight_rank *r, const char *folder, uint64_t *come)
{
    struct sn_flight_view v;
    if (sn_flight_read(&v, folder, (int)r->rank, NULL) != SN_OK)
        return false;
    (void)snprintf(r->host, sizeof(r->host), "%s", v.host);
    *come = v.is_here && !v.is_alive ? 0 : v.posted[SN_GROUP_WORLD];
    return !has_noticed(&v);
}

enum sn_status sn_preflight_lost(struct sn_preflight *out, struct sn_flight_recorder *recorder,
                                 int ranks, struct sn_err *err)
{
    struct sn_flight_event notice = {.group = SN_GROUP_WORLD, .peer = -1, .kind = "lost"};
    uint64_t least = UINT64_MAX, come;
    sn_preflight_fini(out);
    out->n = ranks;
    out->rank = sn_alloc_n((size_t)ranks, sizeof(*out->rank));
    uint64_t *at = sn_alloc_n((size_t)ranks, sizeof(*at));
    if (!out->rank || !at) {
        sn_free(at);
        return sn_fail(err, SN_ENOMEM, "preflight: no memory for %d ranks", ranks);
    }
    (void)sn_flight_post(recorder, &notice);
    (void)sleep(TIME_FOR_OTHERS);
    for (int i = 0; i < ranks; i++) {
        out->rank[i].rank = i;
        (void)snprintf(out->rank[i].host, sizeof(out->rank[i].host), "unknown host");
        at[i] = is_suspect(&out->rank[i], sn_flight_folder(recorder), &come) ? come : UINT64_MAX;
        least = at[i] < least ? at[i] : least;
    }
    for (int i = 0; i < ranks; i++)
        out->rank[i].lost = at[i] == least && least != UINT64_MAX;
    sn_free(at);
    SN_TRY(sn_preflight_number(out, err));
    SN_TRY(sn_preflight_judge(out, err));
    out->pass = false; /* also if nobody could be named */
    return SN_OK;
}
