/*
 * comm_p2p.c - sends and receives: begun as soon as the communication thread sees them, moved on
 * whenever it waits for something. All pieces of one are begun at once, so that those of the next
 * one cannot come between them.
 *
 * A sized block is two messages: its length, and what follows on a channel of its own. The sender
 * begins both at once. The receiver begins the second one when the length is there, and in the
 * order of posting among those of the same pair and tag: lengths match lengths, and bodies bodies,
 * in the order in which they were sent, however many are under way.
 */
#include "lib/base/clock.h"
#include "lib/comm/comm_engine.h"

#include <assert.h>

static const struct sn_transfer *transfer_of(const struct sn_engine *e, int slot)
{
    return &e->queue.slot[slot].op.transfer;
}

/* Bytes at .. end - 1 of what is sent or received. */
static void begin_pieces(struct sn_engine *e, int slot, int channel, int64_t at, int64_t end)
{
    const struct sn_transfer *t = transfer_of(e, slot);
    bool sends = t->kind == SN_SEND;
    char *data = sends ? (char *)(uintptr_t)t->in : t->out;
    for (; at < end; at += SN_PORT_PIECE_MAX) {
        struct sn_message m = {.batch = SN_PORT_P2P + slot,
                               .channel = channel,
                               .tag = t->tag,
                               .peer = sn_engine_member(e, t->group, t->peer),
                               .data = data + at};
        m.bytes = end - at < SN_PORT_PIECE_MAX ? end - at : SN_PORT_PIECE_MAX;
        (sends ? e->port->ops->send : e->port->ops->receive)(e->port, &m);
    }
}

/* Behind the length. */
static void begin_body(struct sn_engine *e, int slot)
{
    const struct sn_transfer *t = transfer_of(e, slot);
    bool sends = t->kind == SN_SEND;
    const void *block = sends ? t->in : t->out;
    int rank = sends ? e->base.rank : sn_engine_member(e, t->group, t->peer);
    if (sn_sized_fits(e, slot, rank, block))
        begin_pieces(e, slot, SN_PORT_BODY + (int)t->group, SN_COLLECTIVE_LENGTH,
                     sn_transfer_travels(t, block));
}

void sn_p2p_begin(struct sn_engine *e, int slot)
{
    const struct sn_transfer *t = transfer_of(e, slot);
    int64_t bytes = t->n * (int64_t)sn_dtype_size(t->dtype);
    bool sends = t->kind == SN_SEND;
    assert(t->tag >= 0 && t->tag <= INT16_MAX && t->peer >= 0 &&
           t->peer < e->group[t->group].size && t->peer != e->group[t->group].index);
    assert(bytes <= (int64_t)(SN_PORT_P2P_PIECES - 1) * SN_PORT_PIECE_MAX);
    begin_pieces(e, slot, (int)t->group, 0, t->sized ? SN_COLLECTIVE_LENGTH : bytes);
    if (t->sized && sends)
        begin_body(e, slot);
    if (sends && !sn_engine_has_failed(e))
        sn_engine_count(e, t->group, sn_transfer_travels(t, t->in));
    e->headless[slot] = t->sized && !sends;
    e->flying[e->n_flying++] = slot;
    sn_watch_begun(e, slot);
}

/* Does one of the first n under way, which were posted before, still wait for its length? */
static bool is_behind(const struct sn_engine *e, int slot, int n)
{
    const struct sn_transfer *t = transfer_of(e, slot);
    for (int i = 0; i < n; i++) {
        const struct sn_transfer *before = transfer_of(e, e->flying[i]);
        if (e->headless[e->flying[i]] && before->group == t->group && before->peer == t->peer &&
            before->tag == t->tag)
            return true;
    }
    return false;
}

/* A batch is complete: is that all? Otherwise, if it is this one's turn, the body begins. */
static bool goes_on(struct sn_engine *e, int slot, int n_before)
{
    if (!e->headless[slot] || is_behind(e, slot, n_before))
        return e->headless[slot];
    e->headless[slot] = false;
    e->watch.mark[slot].moved = sn_awake_at(&e->watch.awake, sn_clock());
    begin_body(e, slot);
    return !sn_engine_has_failed(e) && !e->port->ops->test(e->port, SN_PORT_P2P + slot);
}

bool sn_p2p_progress(struct sn_engine *e)
{
    int kept = 0, before = e->n_flying;
    bool has_moved = false;
    for (int i = 0; i < before; i++) {
        int slot = e->flying[i];
        bool was_headless = e->headless[slot];
        bool over = sn_engine_has_failed(e) ||
                    (e->port->ops->test(e->port, SN_PORT_P2P + slot) && !goes_on(e, slot, kept));
        if (e->port->failed) {
            char what[160];
            sn_engine_describe(e, slot, what, sizeof(what));
            sn_engine_fail(e, what);
        }
        has_moved |= over || was_headless != e->headless[slot];
        if (!over) {
            e->flying[kept++] = slot;
            continue;
        }
        e->headless[slot] = false;
        sn_watch_done(e, slot);
        sn_comm_queue_done(&e->queue, slot);
    }
    e->n_flying = kept;
    return has_moved;
}
