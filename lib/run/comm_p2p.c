/*
 * comm_p2p.c - sends and receives: begun as soon as the communication thread sees them, moved on
 * whenever it waits for something. All pieces of one are begun at once, so that those of the next
 * one cannot come between them.
 */
#include "lib/run/comm_engine.h"

#include <assert.h>

void sn_p2p_begin(struct sn_engine *e, int slot)
{
    const struct sn_transfer *t = &e->queue.slot[slot].op.transfer;
    int64_t bytes = t->n * (int64_t)sn_dtype_size(t->dtype);
    assert(t->tag >= 0 && t->tag <= INT16_MAX && t->peer >= 0 &&
           t->peer < e->group[t->group].size && t->peer != e->group[t->group].index);
    assert(bytes <= (int64_t)SN_PORT_P2P_PIECES * SN_PORT_PIECE_MAX);
    bool sends = t->kind == SN_SEND;
    char *data = sends ? (char *)(uintptr_t)t->in : t->out;
    for (int64_t at = 0; at < bytes; at += SN_PORT_PIECE_MAX) {
        struct sn_message m = {.batch = SN_PORT_P2P + slot,
                               .channel = (int)t->group,
                               .tag = t->tag,
                               .peer = sn_engine_member(e, t->group, t->peer),
                               .data = data + at};
        m.bytes = bytes - at < SN_PORT_PIECE_MAX ? bytes - at : SN_PORT_PIECE_MAX;
        (sends ? e->port->ops->send : e->port->ops->receive)(e->port, &m);
    }
    if (sends)
        sn_engine_count(e, t->group, bytes);
    e->flying[e->n_flying++] = slot;
    sn_watch_begun(e, slot);
}

bool sn_p2p_progress(struct sn_engine *e)
{
    int kept = 0, before = e->n_flying;
    for (int i = 0; i < before; i++) {
        int slot = e->flying[i];
        bool over = sn_engine_has_failed(e) || e->port->ops->test(e->port, SN_PORT_P2P + slot);
        if (e->port->failed) {
            char what[160];
            sn_engine_describe(e, slot, what, sizeof(what));
            sn_engine_fail(e, what);
        }
        if (!over) {
            e->flying[kept++] = slot;
            continue;
        }
        sn_watch_done(e, slot);
        sn_comm_queue_done(&e->queue, slot);
    }
    e->n_flying = kept;
    return kept < before;
}
