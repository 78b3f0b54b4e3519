/*
 * comm_hang_report.c - the words that name the rank for which this one has waited too long.
 */
#include "lib/base/mem.h"
#include "lib/comm/comm_engine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    LOOKS = 12
}; /* for so many heartbeats others are looked at: less than rank 0 is waited for */

/* "tensor 1, data 0": the axes that the grid has. */
static void say_coordinates(const struct sn_engine *e, int rank, char *text, size_t room)
{
    size_t at = 0;
    text[0] = '\0';
    for (int a = 0; a < SN_NGRID_AXES && at < room; a++)
        if (e->grid.size[a] > 1)
            at += (size_t)snprintf(text + at, room - at, "%s%s %d", at ? ", " : "",
                                   sn_axis_name((enum sn_axis)a),
                                   sn_grid_coord(&e->grid, rank, (enum sn_axis)a));
}

/* The communication that it began or ended last. */
static const char *last_seen(const struct sn_flight_view *v)
{
    const struct sn_flight_event *last = NULL;
    for (int i = 0; i < v->n; i++)
        if (v->event[i].state != SN_FLIGHT_POSTED && (!last || v->event[i].time >= last->time))
            last = &v->event[i];
    if (!last)
        return "the start";
    return last->label[0] ? last->label : last->kind;
}

/* "rank 5 (tensor 1) <what>, last seen in 'l3.attn.qkv'; its process 123 is gone" */
static void accuse(const struct sn_engine *e, const struct sn_flight_view *v, const char *what,
                   char *text, size_t room)
{
    char where[96];
    say_coordinates(e, v->rank, where, sizeof(where));
    int n = snprintf(text, room, "rank %d (%s) %s, last seen in '%s'", v->rank, where, what,
                     last_seen(v));
    if (v->is_here && !v->is_alive && n > 0 && (size_t)n < room)
        (void)snprintf(text + n, room - (size_t)n, "; its process %d is gone", v->pid);
}

/* Who is late in a collective has done nothing since. Clocks of other hosts do not compare. */
static bool may_cause(const struct sn_flight_view *next, const struct sn_flight_view *v)
{
    return !next->is_here || !v->is_here || sn_flight_last_time(next) <= sn_flight_last_time(v);
}

/* Is a rank still in a collective of a queue that `v` has left? */
static bool is_late(const struct sn_flight_view *late, const struct sn_flight_view *v, int queue)
{
    const struct sn_flight_event *w = sn_flight_waits_in(late, queue);
    if (!w || w->peer >= 0)
        return false;
    const struct sn_flight_event *same = sn_flight_collective(v, w->group, w->number);
    return same && same->state == SN_FLIGHT_DONE;
}

/* All members have come to what `v` is in, yet it does not move: on one host, a rank that still
 * reads v's slot of the shared memory keeps it from being filled. */
static int step_to_holder(const struct sn_engine *e, struct sn_flight_view *v, int queue)
{
    struct sn_flight_view next;
    if (!e->group[SN_GROUP_WORLD].on_host)
        return -1; /* too many to read */
    for (int rank = 0; rank < e->base.size; rank++) {
        if (rank == v->rank ||
            sn_flight_read(&next, sn_flight_folder(e->watch.recorder), rank, NULL) != SN_OK ||
            !may_cause(&next, v) || !is_late(&next, v, queue))
            continue;
        *v = next;
        return rank;
    }
    return -1;
}

/* Records read again after a while in which this rank goes on with its heartbeats:
 * the others may be asking the same. */
static void wait_for_heartbeats(struct sn_engine *e)
{
    struct timespec moment = {.tv_nsec = (long)(1e9 * SN_WATCH_PERIOD_S)};
    for (int i = 0; i < LOOKS; i++) {
        (void)nanosleep(&moment, NULL); /* a shorter one is made up by the next */
        sn_flight_heartbeat(e->watch.recorder);
        sn_comm_queue_heartbeat(&e->queue); /* the compute thread sees that this one works */
    }
}

/* Of ranks that all wait, the first that has no heartbeat: it is stopped. Records of
 * other hosts may come late: there nobody is accused unless another one of another host is seen to
 * heartbeat. -1: none; else its record is in *out. */
static int find_stopped(struct sn_engine *e, const int *ranks, int n, struct sn_flight_view *out)
{
    int found = -1;
    const char *folder = sn_flight_folder(e->watch.recorder);
    uint64_t *before = sn_alloc_n((size_t)n, sizeof(*before));
    struct sn_flight_view now, still;
    bool travels = false;
    for (int i = 0; before && i < n; i++)
        if (sn_flight_read(&now, folder, ranks[i], NULL) == SN_OK)
            before[i] = now.heartbeats;
    if (before)
        wait_for_heartbeats(e);
    for (int i = 0; before && i < n; i++) {
        if (ranks[i] == e->base.rank || sn_flight_read(&now, folder, ranks[i], NULL) != SN_OK)
            continue;
        travels = travels || (!now.is_here && now.heartbeats != before[i]);
        if (now.heartbeats == before[i] && now.heartbeats != SN_FLIGHT_GAVE_UP && found < 0) {
            found = ranks[i];
            still = now;
        }
    }
    sn_free(before);
    if (found < 0 || (!still.is_here && !travels))
        return -1;
    *out = still;
    return found;
}

/* All members have come to what `rank` is in, and all wait in it. Replaces *v. */
static int step_to_still(struct sn_engine *e, struct sn_flight_view *v, enum sn_group q)
{
    struct sn_flight_view next;
    int size = sn_group_size(&e->grid, v->rank, q), found = -1;
    int *ranks = sn_alloc_n((size_t)size, sizeof(*ranks));
    for (int i = 0; ranks && i < size; i++)
        ranks[i] = sn_group_member(&e->grid, v->rank, q, i);
    if (ranks)
        found = find_stopped(e, ranks, size, &next);
    sn_free(ranks);
    if (found < 0 || found == v->rank)
        return -1;
    *v = next;
    return found;
}

/* A member that has posted what `v` is in, and is itself in another collective before it. */
static int step_to_held_up(const struct sn_engine *e, struct sn_flight_view *v, int group,
                           uint64_t number)
{
    struct sn_flight_view next;
    enum sn_group q = (enum sn_group)group;
    for (int i = 0; i < sn_group_size(&e->grid, v->rank, q); i++) {
        int rank = sn_group_member(&e->grid, v->rank, q, i);
        if (rank == v->rank ||
            sn_flight_read(&next, sn_flight_folder(e->watch.recorder), rank, NULL) != SN_OK ||
            !sn_flight_is_held_up(&next, group, number))
            continue;
        *v = next;
        return rank;
    }
    return -1;
}

/* The rank that `v` waits for; -1: for none that is known. Overwrites *v with its record. *queue: that
 * in which others wait for v, and then for that rank, or SN_FLIGHT_ANY: until it posts something. */
static int step_to_cause(struct sn_engine *e, struct sn_flight_view *v, int *queue)
{
    const struct sn_flight_event *w = sn_flight_waits_in(v, *queue);
    struct sn_flight_view next;
    const char *folder = sn_flight_folder(e->watch.recorder);
    *queue = SN_FLIGHT_ANY;
    if (!w || w->group >= SN_NGROUPS)
        return -1;
    if (w->peer >= 0) {
        if (sn_flight_read(&next, folder, w->peer, NULL) != SN_OK)
            return -1;
        *v = next;
        return v->rank;
    }
    enum sn_group q = (enum sn_group)w->group;
    for (int i = 0; i < sn_group_size(&e->grid, v->rank, q); i++) {
        int rank = sn_group_member(&e->grid, v->rank, q, i);
        if (rank == v->rank || sn_flight_read(&next, folder, rank, NULL) != SN_OK ||
            next.posted[q] >= w->number)
            continue;
        *v = next;
        return rank;
    }
    *queue = (int)sn_group_queue(q);
    int found = step_to_held_up(e, v, w->group, w->number);
    if (found < 0)
        found = step_to_holder(e, v, *queue);
    return found >= 0 ? found : step_to_still(e, v, q);
}

static bool is_among(const int *ranks, int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

/* Is the end of a chain one who waits too, as far as is known? All that it waits for have come, but
 * somebody behind them has not, of whom there is no record that tells: it is not to blame. */
static bool is_waiting_well(struct sn_engine *e, const struct sn_flight_view *v, const int *met,
                            int n_met)
{
    struct sn_flight_view still;
    if (!sn_flight_waits_in(v, SN_FLIGHT_ANY) || (v->is_here && !v->is_alive))
        return false;
    return find_stopped(e, met, n_met, &still) != v->rank;
}

/* Who is behind may itself wait for somebody: name the end of that chain, if it is another rank.
 * Where the chain comes back to where it was, all in it wait, and who has no heartbeat is its
 * end. `queue`: in which it is waited for, or SN_FLIGHT_ANY. */
static void accuse_cause(struct sn_engine *e, const struct sn_flight_view *first, int queue,
                         char *text, size_t room)
{
    enum { HOPS = 32 };
    int met[HOPS + 2] = {e->base.rank, first->rank}, n_met = 2;
    struct sn_flight_view v = *first;
    size_t n = strlen(text);
    if (e->grid.size[0] < 1)
        return; /* no grid yet */
    bool is_victim = true, is_circle = false;
    for (int i = 0; i < HOPS && step_to_cause(e, &v, &queue) >= 0; i++) {
        if (!is_among(met, n_met, v.rank)) {
            met[n_met++] = v.rank;
            continue;
        }
        is_victim = find_stopped(e, met, n_met, &v) < 0;
        if (is_victim)
            v = *first; /* a circle of ranks that all are well: nobody is its end */
        is_circle = true;
        break;
    }
    if (!is_circle)
        is_victim = is_waiting_well(e, &v, met, n_met);
    if (v.rank != first->rank && v.rank != e->base.rank && room - n >= 64) {
        n += (size_t)snprintf(text + n, room - n, "; it waits for ");
        accuse(e, &v, "in the end", text + n, room - n);
        n = strlen(text);
    }
    if (is_victim && room - n > sizeof(SN_FLIGHT_WAITS_ITSELF) + 2)
        (void)snprintf(text + n, room - n, ", %s", SN_FLIGHT_WAITS_ITSELF);
}

struct search {
    struct sn_flight_view worst; /* of the members that are behind, the one that is most */
    int behind, unknown;
};

static void look_at(struct search *s, const struct sn_engine *e, int rank, enum sn_group q,
                    uint64_t number)
{
    struct sn_flight_view v;
    if (sn_flight_read(&v, sn_flight_folder(e->watch.recorder), rank, NULL) != SN_OK) {
        s->unknown++;
        return;
    }
    bool gone = v.is_here && !v.is_alive;
    if (v.posted[q] >= number && !gone)
        return;
    if (s->behind++ == 0 || v.posted[q] < s->worst.posted[q])
        s->worst = v;
}

/* Nobody is behind, but somebody still reads what an earlier collective left in
 * this rank's slot. */
static bool find_holder(struct sn_engine *e, const struct sn_comm_lane *l, char *text, size_t room)
{
    char what[64];
    enum sn_group q = SN_GROUP_WORLD;
    int rank = sn_shm_holder(e, l, &q);
    struct sn_flight_view v;
    if (rank < 0 || sn_flight_read(&v, sn_flight_folder(e->watch.recorder), rank, NULL) != SN_OK)
        return false;
    (void)snprintf(what, sizeof(what), "still reads an earlier %s collective", sn_group_name(q));
    accuse(e, &v, what, text, room);
    accuse_cause(e, &v, (int)sn_group_queue(q), text, room);
    return true;
}

/* Nobody is behind, but somebody is not through with what it has posted before. */
static bool find_held_up(struct sn_engine *e, enum sn_group q, uint64_t number, char *text,
                         size_t room)
{
    struct sn_flight_view v;
    if (e->grid.size[0] < 1 ||
        sn_flight_read(&v, sn_flight_folder(e->watch.recorder), e->base.rank, NULL) != SN_OK ||
        step_to_held_up(e, &v, (int)q, number) < 0)
        return false;
    accuse(e, &v, "is still in an earlier one", text, room);
    accuse_cause(e, &v, (int)sn_group_queue(q), text, room);
    return true;
}

/* Nobody is behind, but somebody does not move. */
static bool find_still(struct sn_engine *e, enum sn_group q, char *text, size_t room)
{
    struct sn_flight_view v;
    if (e->grid.size[0] < 1 ||
        sn_flight_read(&v, sn_flight_folder(e->watch.recorder), e->base.rank, NULL) != SN_OK ||
        step_to_still(e, &v, q) < 0)
        return false;
    accuse(e, &v, "has come to it and stands still", text, room);
    return true;
}

static void find_behind(struct sn_engine *e, int slot, char *text, size_t room)
{
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    enum sn_group q = sn_watch_group(op);
    uint64_t number = e->watch.mark[slot].number;
    int size = e->group[q].size ? e->group[q].size : e->base.size; /* the world, before a grid */
    struct search s = {.behind = 0};
    for (int i = 0; i < size; i++) {
        int rank = e->group[q].size ? sn_engine_member(e, q, i) : i;
        if (rank != e->base.rank)
            look_at(&s, e, rank, q, number);
    }
    char what[64];
    if (s.behind == 0 &&
        (find_held_up(e, q, number, text, room) ||
         find_holder(e, &e->lane[sn_group_queue(q)], text, room) || find_still(e, q, text, room)))
        return;
    if (s.behind == 0) {
        (void)snprintf(text, room, "all others%s have come to it: a network or a host is slow%s",
                       s.unknown ? " of whom there is a record" : "",
                       s.unknown ? ", or a rank without a record is lost" : "");
        return;
    }
    if (s.worst.posted[q] < number)
        (void)snprintf(what, sizeof(what), "is behind at number %llu",
                       (unsigned long long)s.worst.posted[q]);
    else
        (void)snprintf(what, sizeof(what), "has come to it");
    accuse(e, &s.worst, what, text, room);
    accuse_cause(e, &s.worst, SN_FLIGHT_ANY, text, room);
    size_t n = strlen(text);
    if (s.behind > 1)
        (void)snprintf(text + n, room - n, "; %d more are behind", s.behind - 1);
}

/* Has the peer of a send or receive posted its side of it? If not, it may wait
 * for somebody itself. */
static void find_peer(struct sn_engine *e, int slot, char *text, size_t room)
{
    const struct sn_transfer *t = &e->queue.slot[slot].op.transfer;
    int rank = sn_engine_member(e, t->group, t->peer);
    const char *other = sn_collective_name(t->kind == SN_SEND ? SN_RECV : SN_SEND);
    struct sn_flight_view v;
    struct sn_err why;
    if (sn_flight_read(&v, sn_flight_folder(e->watch.recorder), rank, &why) != SN_OK) {
        (void)snprintf(text, room, "%.350s", why.text);
        return;
    }
    bool posted = false;
    for (int i = 0; i < v.n; i++)
        posted = posted || (v.event[i].peer == e->base.rank && v.event[i].group == (int)t->group &&
                            v.event[i].state != SN_FLIGHT_DONE && !strcmp(v.event[i].kind, other));
    char what[64];
    (void)snprintf(what, sizeof(what), posted ? "has a %s under way" : "has posted no %s", other);
    accuse(e, &v, what, text, room);
    accuse_cause(e, &v, SN_FLIGHT_ANY, text, room);
}

/* Without records: root of a gather knows from whom nothing has come, the others that root lets
 * them wait. False: nothing is known. */
static bool find_silent(const struct sn_engine *e, int slot, char *text, size_t room)
{
    enum { MOST_NAME = 100 };
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    const struct sn_port_ops *port = e->port->ops;
    bool is_root = op->kind == SN_COMM_GATHER && op->root == e->base.rank;
    bool is_told = op->kind == SN_COMM_BROADCAST && op->root != e->base.rank;
    int silent = 0, named = 0;
    size_t at = 0;
    for (int r = 0, i = 0; r < e->base.size; r++) {
        bool is_silent = is_root && r != op->root && port->is_open(e->port, SN_PORT_GATHER, i++);
        if (!is_silent && !(is_told && r == op->root))
            continue;
        const char *host = sn_hosts_name(e, r);
        if (++silent > named + 1 || room - at < MOST_NAME)
            continue;
        named++;
        at += (size_t)snprintf(text + at, room - at, "%sprocess %d%s%.64s", at ? ", " : "", r,
                               *host ? " on " : "", host);
    }
    if (silent > named)
        at += (size_t)snprintf(text + at, room - at, " and %d more", silent - named);
    if (silent)
        (void)snprintf(text + at, room - at, " %s not answered%s", silent > 1 ? "have" : "has",
                       is_told ? ", or waits for others" : "");
    return silent > 0;
}

void sn_watch_report_hang(struct sn_engine *e, int slot, char *text, size_t room)
{
    (void)snprintf(text, room, "who is behind is not recorded");
    if (e->watch.recorder && sn_watch_is_p2p(&e->queue.slot[slot].op))
        find_peer(e, slot, text, room);
    else if (e->watch.recorder)
        find_behind(e, slot, text, room);
    else
        (void)find_silent(e, slot, text, room);
}
