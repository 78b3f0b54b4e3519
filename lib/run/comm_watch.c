/*
 * comm_watch.c - numbers of communications, their records, and the sentence that names the rank for
 * which this one has waited too long.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/run/comm_engine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const double BEAT_S = 0.05;
enum { BEATS = 12 }; /* for so many beats others are looked at: less than rank 0 is waited for */

static bool is_p2p(const struct sn_comm_op *op)
{
    return op->kind == SN_COMM_TRANSFER &&
           (op->transfer.kind == SN_SEND || op->transfer.kind == SN_RECV);
}

/* What others see of it; NULL: nothing. */
static const char *kind_name(const struct sn_comm_op *op)
{
    switch (op->kind) {
    case SN_COMM_TRANSFER:
        return sn_collective_name(op->transfer.kind);
    case SN_COMM_BARRIER:
        return "barrier";
    case SN_COMM_BROADCAST:
        return "broadcast";
    case SN_COMM_GATHER:
        return "gather";
    case SN_COMM_AGREE:
        return "agreement";
    default:
        return NULL;
    }
}

static enum sn_group group_of(const struct sn_comm_op *op)
{
    return op->kind == SN_COMM_TRANSFER ? op->transfer.group : SN_GROUP_WORLD;
}

static const char *label_of(const struct sn_comm_op *op)
{
    return op->kind == SN_COMM_TRANSFER && op->transfer.label ? op->transfer.label : "";
}

void sn_engine_describe(struct sn_engine *e, int slot, char *text, size_t room)
{
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    const char *kind = kind_name(op), *label = label_of(op);
    if (!kind)
        (void)snprintf(text, room, "%s", op->kind == SN_COMM_START ? "start" : "set-up");
    else
        (void)snprintf(text, room, "%s %s %s%.60s%s(number %llu)", sn_group_name(group_of(op)),
                       kind, *label ? "'" : "", label, *label ? "' " : "",
                       (unsigned long long)e->watch.mark[slot].number);
}

void sn_watch_posted(struct sn_engine *e, int slot)
{
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    struct sn_engine_mark *m = &e->watch.mark[slot];
    const char *kind = kind_name(op);
    enum sn_group q = group_of(op);
    *m = (struct sn_engine_mark){0};
    if (!kind)
        return;
    m->number = is_p2p(op) ? ++e->group[q].p2p : ++e->group[q].number;
    if (!e->watch.ring)
        return;
    struct sn_ring_event event = {.number = m->number, .group = (int32_t)q, .peer = -1};
    event.bytes = op->kind == SN_COMM_TRANSFER
                      ? op->transfer.n * (int64_t)sn_dtype_size(op->transfer.dtype)
                      : op->n;
    if (is_p2p(op))
        event.peer = (int32_t)sn_engine_member(e, q, op->transfer.peer);
    (void)snprintf(event.kind, sizeof(event.kind), "%s", kind);
    (void)snprintf(event.label, sizeof(event.label), "%s", label_of(op));
    m->record = sn_ring_post(e->watch.ring, &event);
}

void sn_watch_begun(struct sn_engine *e, int slot)
{
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    if (!is_p2p(op))
        e->watch.current = kind_name(op) ? slot : -1;
    if (e->watch.timeout_s)
        e->watch.mark[slot].moved = sn_clock();
    if (e->watch.ring && e->watch.mark[slot].record)
        sn_ring_mark(e->watch.ring, e->watch.mark[slot].record, SN_RING_BEGUN);
}

void sn_watch_done(struct sn_engine *e, int slot)
{
    if (e->watch.current == slot)
        e->watch.current = -1;
    if (e->watch.ring && e->watch.mark[slot].record && !sn_engine_has_failed(e))
        sn_ring_mark(e->watch.ring, e->watch.mark[slot].record, SN_RING_DONE);
}

/* ---- who is behind -----------------------------------------------------------------------------
 */

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
static const char *last_seen(const struct sn_ring_view *v)
{
    const struct sn_ring_event *last = NULL;
    for (int i = 0; i < v->n; i++)
        if (v->event[i].state != SN_RING_POSTED && (!last || v->event[i].time >= last->time))
            last = &v->event[i];
    if (!last)
        return "the start";
    return last->label[0] ? last->label : last->kind;
}

/* "rank 5 (tensor 1) <what>, last seen in 'l3.attn.qkv'; its process 123 is gone" */
static void accuse(const struct sn_engine *e, const struct sn_ring_view *v, const char *what,
                   char *text, size_t room)
{
    char where[96];
    say_coordinates(e, v->rank, where, sizeof(where));
    int n = snprintf(text, room, "rank %d (%s) %s, last seen in '%s'", v->rank, where, what,
                     last_seen(v));
    if (v->is_here && !v->is_alive && n > 0 && (size_t)n < room)
        (void)snprintf(text + n, room - (size_t)n, "; its process %d is gone", v->pid);
}

/* What a rank waits for: the collective that it is in, or its oldest open receive; NULL: nothing.
 */
static const struct sn_ring_event *waits_in(const struct sn_ring_view *v)
{
    const struct sn_ring_event *found = NULL;
    for (int i = 0; i < v->n && !found; i++)
        if (v->event[i].peer < 0 && v->event[i].state == SN_RING_BEGUN)
            found = &v->event[i];
    for (int i = 0; i < v->n && !found; i++)
        if (v->event[i].peer >= 0 && v->event[i].state != SN_RING_DONE &&
            !strcmp(v->event[i].kind, sn_collective_name(SN_RECV)))
            found = &v->event[i];
    return found;
}

static double last_time(const struct sn_ring_view *v)
{
    double last = 0;
    for (int i = 0; i < v->n; i++)
        last = v->event[i].time > last ? v->event[i].time : last;
    return last;
}

/* Who stops is still long before those who wait for it. Clocks of other hosts do not compare. */
static bool may_cause(const struct sn_ring_view *next, const struct sn_ring_view *v)
{
    return !next->is_here || !v->is_here || last_time(next) <= last_time(v);
}

/* Is a rank still in a collective that `v` has left? */
static bool is_late(const struct sn_ring_view *late, const struct sn_ring_view *v)
{
    const struct sn_ring_event *w = waits_in(late);
    if (!w || w->peer >= 0)
        return false;
    for (int i = 0; i < v->n; i++)
        if (v->event[i].group == w->group && v->event[i].peer < 0 &&
            v->event[i].number == w->number)
            return v->event[i].state == SN_RING_DONE;
    return false;
}

/* All members have come to what `v` is in, yet it does not move: on one host, a rank that still
 * reads v's slot of the window keeps it from being filled. */
static int step_to_holder(const struct sn_engine *e, struct sn_ring_view *v)
{
    struct sn_ring_view next;
    if (!e->group[SN_GROUP_WORLD].on_host)
        return -1; /* too many to read */
    for (int rank = 0; rank < e->base.size; rank++) {
        if (rank == v->rank ||
            sn_ring_read(&next, sn_ring_folder(e->watch.ring), rank, NULL) != SN_OK ||
            !may_cause(&next, v) || !is_late(&next, v))
            continue;
        *v = next;
        return rank;
    }
    return -1;
}

/* Records read again after a while in which this rank beats on: the others may be asking the same.
 */
static void wait_for_beats(struct sn_engine *e)
{
    struct timespec moment = {.tv_nsec = (long)(1e9 * BEAT_S)};
    for (int i = 0; i < BEATS; i++) {
        (void)nanosleep(&moment, NULL); /* a shorter one is made up by the next */
        sn_ring_beat(e->watch.ring);
        sn_comm_queue_beat(&e->queue); /* the compute thread sees that this one works */
    }
}

/* All members have come to what `rank` is in, and all wait in it, so all beat: one that does not is
 * stopped. Records of other hosts may come late: there nobody is accused unless another one of
 * another host is seen to beat. Replaces *v. */
static int step_to_still(struct sn_engine *e, struct sn_ring_view *v, enum sn_group q)
{
    int size = sn_group_size(&e->grid, v->rank, q), found = -1;
    const char *folder = sn_ring_folder(e->watch.ring);
    uint64_t *before = sn_alloc_n((size_t)size, sizeof(*before));
    struct sn_ring_view next, still;
    bool travels = false;
    for (int i = 0; before && i < size; i++)
        if (sn_ring_read(&next, folder, sn_group_member(&e->grid, v->rank, q, i), NULL) == SN_OK)
            before[i] = next.beats;
    if (before)
        wait_for_beats(e);
    for (int i = 0; before && i < size; i++) {
        int rank = sn_group_member(&e->grid, v->rank, q, i);
        if (rank == e->base.rank || sn_ring_read(&next, folder, rank, NULL) != SN_OK)
            continue;
        travels = travels || (!next.is_here && next.beats != before[i]);
        if (next.beats == before[i] && next.beats != SN_RING_GAVE_UP && found < 0) {
            found = rank;
            still = next;
        }
    }
    sn_free(before);
    if (found < 0 || found == v->rank || (!still.is_here && !travels))
        return -1;
    *v = still;
    return found;
}

/* The rank that `v` waits for; -1: for none that is known. Overwrites *v with its record. */
static int step_to_cause(struct sn_engine *e, struct sn_ring_view *v)
{
    const struct sn_ring_event *w = waits_in(v);
    struct sn_ring_view next;
    const char *folder = sn_ring_folder(e->watch.ring);
    if (!w || w->group >= SN_NGROUPS)
        return -1;
    if (w->peer >= 0) {
        if (sn_ring_read(&next, folder, w->peer, NULL) != SN_OK || !may_cause(&next, v))
            return -1;
        *v = next;
        return v->rank;
    }
    enum sn_group q = (enum sn_group)w->group;
    for (int i = 0; i < sn_group_size(&e->grid, v->rank, q); i++) {
        int rank = sn_group_member(&e->grid, v->rank, q, i);
        if (rank == v->rank || sn_ring_read(&next, folder, rank, NULL) != SN_OK ||
            next.posted[q] >= w->number || !may_cause(&next, v))
            continue;
        *v = next;
        return rank;
    }
    int holder = step_to_holder(e, v);
    return holder >= 0 ? holder : step_to_still(e, v, q);
}

/* Who is behind may itself wait for somebody: name the end of that chain, if it is another rank. */
static void accuse_cause(struct sn_engine *e, const struct sn_ring_view *first, char *text,
                         size_t room)
{
    enum { HOPS = 16 };
    struct sn_ring_view v = *first;
    size_t n = strlen(text);
    if (e->grid.size[0] < 1)
        return; /* no grid yet */
    for (int i = 0; i < HOPS; i++)
        if (step_to_cause(e, &v) < 0 || v.rank == e->base.rank)
            break;
    if (v.rank == first->rank || v.rank == e->base.rank || room - n < 64)
        return;
    n += (size_t)snprintf(text + n, room - n, "; it waits for ");
    accuse(e, &v, "in the end", text + n, room - n);
}

struct search {
    struct sn_ring_view worst; /* of the members that are behind, the one that is most */
    int behind, unknown;
};

static void look_at(struct search *s, const struct sn_engine *e, int rank, enum sn_group q,
                    uint64_t number)
{
    struct sn_ring_view v;
    if (sn_ring_read(&v, sn_ring_folder(e->watch.ring), rank, NULL) != SN_OK) {
        s->unknown++;
        return;
    }
    bool gone = v.is_here && !v.is_alive;
    if (v.posted[q] >= number && !gone)
        return;
    if (s->behind++ == 0 || v.posted[q] < s->worst.posted[q])
        s->worst = v;
}

/* Nobody is behind, but somebody still reads what an earlier collective left in this rank's slot.
 */
static bool find_holder(struct sn_engine *e, char *text, size_t room)
{
    char what[64];
    enum sn_group q = SN_GROUP_WORLD;
    int rank = sn_window_holder(e, &q);
    struct sn_ring_view v;
    if (rank < 0 || sn_ring_read(&v, sn_ring_folder(e->watch.ring), rank, NULL) != SN_OK)
        return false;
    (void)snprintf(what, sizeof(what), "still reads an earlier %s collective", sn_group_name(q));
    accuse(e, &v, what, text, room);
    accuse_cause(e, &v, text, room);
    return true;
}

/* Nobody is behind, but somebody does not move. */
static bool find_still(struct sn_engine *e, enum sn_group q, char *text, size_t room)
{
    struct sn_ring_view v;
    if (e->grid.size[0] < 1 ||
        sn_ring_read(&v, sn_ring_folder(e->watch.ring), e->base.rank, NULL) != SN_OK ||
        step_to_still(e, &v, q) < 0)
        return false;
    accuse(e, &v, "has come to it and stands still", text, room);
    return true;
}

static void find_behind(struct sn_engine *e, int slot, char *text, size_t room)
{
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    enum sn_group q = group_of(op);
    uint64_t number = e->watch.mark[slot].number;
    int size = e->group[q].size ? e->group[q].size : e->base.size; /* the world, before a grid */
    struct search s = {.behind = 0};
    for (int i = 0; i < size; i++) {
        int rank = e->group[q].size ? sn_engine_member(e, q, i) : i;
        if (rank != e->base.rank)
            look_at(&s, e, rank, q, number);
    }
    char what[64];
    if (s.behind == 0 && (find_holder(e, text, room) || find_still(e, q, text, room)))
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
    accuse_cause(e, &s.worst, text, room);
    size_t n = strlen(text);
    if (s.behind > 1)
        (void)snprintf(text + n, room - n, "; %d more are behind", s.behind - 1);
}

/* Has the peer of a send or receive posted its side of it? If not, it may wait for somebody itself.
 */
static void find_peer(struct sn_engine *e, int slot, char *text, size_t room)
{
    const struct sn_transfer *t = &e->queue.slot[slot].op.transfer;
    int rank = sn_engine_member(e, t->group, t->peer);
    const char *other = sn_collective_name(t->kind == SN_SEND ? SN_RECV : SN_SEND);
    struct sn_ring_view v;
    struct sn_err why;
    if (sn_ring_read(&v, sn_ring_folder(e->watch.ring), rank, &why) != SN_OK) {
        (void)snprintf(text, room, "%.350s", why.text);
        return;
    }
    bool posted = false;
    for (int i = 0; i < v.n; i++)
        posted = posted || (v.event[i].peer == e->base.rank && v.event[i].group == (int)t->group &&
                            v.event[i].state != SN_RING_DONE && !strcmp(v.event[i].kind, other));
    char what[64];
    (void)snprintf(what, sizeof(what), posted ? "has a %s under way" : "has posted no %s", other);
    accuse(e, &v, what, text, room);
    accuse_cause(e, &v, text, room);
    accuse_cause(e, &v, text, room);
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

static void report(struct sn_engine *e, int slot)
{
    char what[160], who[400] = "who is behind is not recorded";
    sn_engine_describe(e, slot, what, sizeof(what));
    if (e->watch.ring && is_p2p(&e->queue.slot[slot].op))
        find_peer(e, slot, who, sizeof(who));
    else if (e->watch.ring)
        find_behind(e, slot, who, sizeof(who));
    else
        (void)find_silent(e, slot, who, sizeof(who));
    if (e->watch.ring)
        sn_ring_give_up(e->watch.ring);
    (void)sn_fail(&e->error, SN_ELOST, "%s has waited %d s; %s", what, e->watch.timeout_s, who);
    atomic_store(&e->failed, true);
}

void sn_watch_look(struct sn_engine *e)
{
    struct sn_watch *w = &e->watch;
    if (!w->timeout_s || sn_engine_has_failed(e))
        return;
    double now = sn_clock();
    if (w->has_moved && w->current >= 0)
        w->mark[w->current].moved = now;
    w->has_moved = false;
    if (now < w->next_look)
        return;
    w->next_look = now + BEAT_S;
    if (w->ring)
        sn_ring_beat(w->ring);
    if (w->current >= 0 && now - w->mark[w->current].moved > w->timeout_s) {
        report(e, w->current);
        return;
    }
    for (int i = 0; i < e->n_flying; i++) {
        struct sn_engine_mark *m = &w->mark[e->flying[i]];
        if (!sn_comm_queue_awaits(&e->queue, e->flying[i])) {
            m->moved = now;
        } else if (now - m->moved > w->timeout_s) {
            report(e, e->flying[i]);
            return;
        }
    }
}
