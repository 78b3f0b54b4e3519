/*
 * comm_watch.c - numbers of communications, their records, and the clock that looks at them.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/comm/comm_engine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

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
    case SN_COMM_POLL:
        return "agreement";
    default:
        return NULL;
    }
}

static const char *label_of(const struct sn_comm_op *op)
{
    bool has = op->kind == SN_COMM_TRANSFER || op->kind == SN_COMM_POLL;
    return has && op->transfer.label ? op->transfer.label : "";
}

void sn_engine_describe(struct sn_engine *e, int slot, char *text, size_t room)
{
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    const char *kind = kind_name(op), *label = label_of(op);
    if (!kind)
        (void)snprintf(text, room, "%s", op->kind == SN_COMM_START ? "start" : "set-up");
    else
        (void)snprintf(text, room, "%s %s %s%.60s%s(number %llu)",
                       sn_group_name(sn_watch_group(op)), kind, *label ? "'" : "", label,
                       *label ? "' " : "", (unsigned long long)e->watch.mark[slot].number);
}

void sn_watch_posted(struct sn_engine *e, int slot)
{
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    struct sn_engine_mark *m = &e->watch.mark[slot];
    const char *kind = kind_name(op);
    enum sn_group q = sn_watch_group(op);
    *m = (struct sn_engine_mark){0};
    if (!kind)
        return;
    m->number = sn_watch_is_p2p(op) ? ++e->group[q].p2p : ++e->group[q].number;
    if (!e->watch.recorder)
        return;
    struct sn_flight_event event = {.number = m->number, .group = (int32_t)q, .peer = -1};
    event.bytes = op->kind == SN_COMM_TRANSFER
                      ? op->transfer.n * (int64_t)sn_dtype_size(op->transfer.dtype)
                      : op->n;
    if (sn_watch_is_p2p(op))
        event.peer = (int32_t)sn_engine_member(e, q, op->transfer.peer);
    (void)snprintf(event.kind, sizeof(event.kind), "%s", kind);
    (void)snprintf(event.label, sizeof(event.label), "%s", label_of(op));
    m->record = sn_flight_post(e->watch.recorder, &event);
}

void sn_watch_begun(struct sn_engine *e, int slot)
{
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    if (op->kind != SN_COMM_TRANSFER)
        e->watch.current = kind_name(op) ? slot : -1;
    if (op->kind == SN_COMM_TRANSFER && op->transfer.times) {
        op->transfer.times->begin = sn_clock();
        op->transfer.times->last = -1;
    }
    if (e->watch.timeout_s)
        e->watch.mark[slot].moved = sn_awake_at(&e->watch.awake, sn_clock());
    if (e->watch.recorder && e->watch.mark[slot].record)
        sn_flight_mark(e->watch.recorder, e->watch.mark[slot].record, SN_FLIGHT_BEGUN);
}

void sn_watch_done(struct sn_engine *e, int slot)
{
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    if (op->kind == SN_COMM_TRANSFER && op->transfer.times)
        op->transfer.times->end = sn_clock();
    if (e->watch.current == slot)
        e->watch.current = -1;
    if (e->watch.recorder && e->watch.mark[slot].record && !sn_engine_has_failed(e))
        sn_flight_mark(e->watch.recorder, e->watch.mark[slot].record, SN_FLIGHT_DONE);
}

static void report(struct sn_engine *e, int slot)
{
    char what[160], who[400];
    sn_engine_describe(e, slot, what, sizeof(what));
    sn_watch_report_hang(e, slot, who, sizeof(who));
    if (e->watch.recorder)
        sn_flight_give_up(e->watch.recorder);
    (void)sn_fail(&e->error, SN_ELOST, "%s has waited %d s; %s", what, e->watch.timeout_s, who);
    atomic_store(&e->failed, true);
}

static void mark_awaited(struct sn_engine *e, int slot)
{
    struct sn_engine_mark *m = &e->watch.mark[slot];
    if (e->watch.recorder && m->record && !m->is_awaited)
        sn_flight_mark(e->watch.recorder, m->record, SN_FLIGHT_AWAITED);
    m->is_awaited = true;
}

static bool is_late(const struct sn_engine *e, int slot, double now)
{
    return e->watch.timeout_s && now - e->watch.mark[slot].moved > e->watch.timeout_s;
}

/* A send or receive under way: has somebody begun to wait for it, and for how long? */
static bool has_waited(struct sn_engine *e, int slot, double now)
{
    if (!sn_comm_queue_awaits(&e->queue, slot)) {
        e->watch.mark[slot].moved = now;
        return false;
    }
    mark_awaited(e, slot);
    return is_late(e, slot, now);
}

/* Does somebody wait for what is under way in a lane, or for one behind it? Not where all is waited
 * for: then no lane is meant. */
static bool is_lane_awaited(const struct sn_engine *e, const struct sn_comm_lane *l)
{
    int slot = sn_comm_queue_awaited(&e->queue);
    const struct sn_comm_op *op = slot < 0 ? NULL : &e->queue.slot[slot].op;
    return op && op->kind == SN_COMM_TRANSFER && !sn_watch_is_p2p(op) &&
           &e->lane[sn_group_queue(op->transfer.group)] == l;
}

/* The collective that has not moved for too long, before others one that is waited for; -1: none. */
static int late_in_lanes(struct sn_engine *e, double now)
{
    int late = -1;
    for (int a = 0; a < SN_NAXES; a++) {
        const struct sn_comm_lane *l = &e->lane[a];
        if (l->slot < 0)
            continue;
        bool is_awaited = is_lane_awaited(e, l);
        if (is_awaited)
            mark_awaited(e, l->slot);
        if (is_late(e, l->slot, now) && (late < 0 || is_awaited))
            late = l->slot;
    }
    return late;
}

/* Since the last look. */
static void note_moves(struct sn_engine *e, double now)
{
    struct sn_watch *w = &e->watch;
    if (w->has_moved && w->current >= 0)
        w->mark[w->current].moved = now;
    w->has_moved = false;
    for (int a = 0; a < SN_NAXES; a++) {
        struct sn_comm_lane *l = &e->lane[a];
        if (l->has_moved && l->slot >= 0)
            w->mark[l->slot].moved = now;
        l->has_moved = false;
    }
}

void sn_watch_look(struct sn_engine *e)
{
    struct sn_watch *w = &e->watch;
    if ((!w->timeout_s && !w->recorder) || sn_engine_has_failed(e))
        return;
    double now = sn_awake_look(&w->awake, sn_clock());
    note_moves(e, now);
    if (now < w->next_look)
        return;
    w->next_look = now + SN_WATCH_PERIOD_S;
    if (w->recorder)
        sn_flight_heartbeat(w->recorder);
    int late = w->current >= 0 && is_late(e, w->current, now) ? w->current : late_in_lanes(e, now);
    for (int i = 0; i < e->n_flying; i++)
        if (has_waited(e, e->flying[i], now) && late < 0)
            late = e->flying[i];
    if (late >= 0)
        report(e, late);
}
