/*
 * comm_lanes.c - collectives in lanes, one for each axis: a step of each in turn, so that a large one
 * does not hold up those of other axes for longer than it works on one chunk.
 *
 * No lane waits for another: each has messages, staging memory and slots of the shared memory of its
 * own, so that what the verifier proves of queues that are apart (lib/verify/verify.h) holds here.
 */
#include "lib/comm/comm_engine.h"

#include <assert.h>

void sn_lanes_init(struct sn_engine *e)
{
    for (int a = 0; a < SN_NAXES; a++)
        e->lane[a].slot = e->lane[a].awaited = -1;
}

static const struct sn_transfer *transfer_of(const struct sn_engine *e, int slot)
{
    return &e->queue.slot[slot].op.transfer;
}

void sn_lanes_add(struct sn_engine *e, int slot)
{
    struct sn_comm_lane *l = &e->lane[sn_group_queue(transfer_of(e, slot)->group)];
    l->waiting[(l->first + l->n++) % SN_COMM_QUEUE_DEPTH] = slot;
    e->in_lanes++;
}

/* Lanes that ran at once in the same memory would give wrong sums without a word. */
static bool has_own_staging(const struct sn_engine *e, const struct sn_comm_lane *l)
{
    const void *mine = transfer_of(e, l->slot)->staging;
    for (int a = 0; a < SN_NAXES && mine; a++) {
        const struct sn_comm_lane *o = &e->lane[a];
        if (o != l && o->slot >= 0 && transfer_of(e, o->slot)->staging == mine)
            return false;
    }
    return true;
}

static void begin(struct sn_engine *e, struct sn_comm_lane *l)
{
    l->slot = l->waiting[l->first];
    l->first = (l->first + 1) % SN_COMM_QUEUE_DEPTH;
    l->n--;
    l->lead = 0;
    if (sn_engine_has_failed(e))
        return;
    assert(has_own_staging(e, l));
    sn_watch_begun(e, l->slot);
    l->by_shm = sn_shm_takes(e, transfer_of(e, l->slot));
    if (l->by_shm)
        sn_shm_begin(&l->shm, e, l->slot);
    else
        sn_collective_begin(&l->messages, e, l->slot);
}

static enum sn_comm_step step(struct sn_engine *e, struct sn_comm_lane *l)
{
    if (sn_engine_has_failed(e))
        return SN_STEP_DONE;
    enum sn_comm_step s = l->by_shm ? sn_shm_step(&l->shm) : sn_collective_step(&l->messages);
    if (!e->port->failed)
        return s;
    char what[160];
    sn_engine_describe(e, l->slot, what, sizeof(what));
    sn_engine_fail(e, what);
    return SN_STEP_DONE;
}

/* Who is last more often than not is what is left (Boyer and Moore's vote). */
static void vote(struct sn_comm_lane *l, int last)
{
    if (last < 0)
        return;
    if (l->lead == 0)
        l->latest = last;
    l->lead += l->latest == last ? 1 : -1;
}

static bool progress(struct sn_engine *e, struct sn_comm_lane *l)
{
    if (l->slot < 0 && l->n == 0)
        return false;
    if (l->slot < 0)
        begin(e, l);
    enum sn_comm_step s = step(e, l);
    if (s == SN_STEP_WAITS)
        return false;
    l->has_moved = true;
    if (!l->by_shm)
        vote(l, e->port->last);
    if (s == SN_STEP_DONE) {
        int slot = l->slot;
        l->slot = -1;
        e->in_lanes--;
        sn_watch_done(e, slot);
        if (transfer_of(e, slot)->times && l->lead > 0)
            transfer_of(e, slot)->times->last = l->latest;
        sn_comm_queue_done(&e->queue, slot);
    }
    return true;
}

/* The axes whose messages computing waits for most often come first (lib/layout/grid.h). */
bool sn_lanes_progress(struct sn_engine *e)
{
    bool has_moved = false;
    for (int a = 0; a < SN_NAXES && e->in_lanes; a++)
        has_moved = progress(e, &e->lane[a]) || has_moved;
    return has_moved;
}
