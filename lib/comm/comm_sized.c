/*
 * comm_sized.c - sized blocks: is a length one that a block can have? All that is read or written
 * of a block follows from its length, so this is asked first of each that arrives and of each own.
 */
#include "lib/comm/comm_engine.h"

bool sn_sized_fits(struct sn_engine *e, int slot, int rank, const void *block)
{
    const struct sn_transfer *t = &e->queue.slot[slot].op.transfer;
    char what[160];
    if (sn_transfer_travels(t, block) >= 0)
        return true;
    if (sn_engine_has_failed(e))
        return false;
    sn_engine_describe(e, slot, what, sizeof(what));
    (void)sn_fail(&e->error, SN_EFAIL,
                  "%s: %s: the length of a block of rank %d is none that fits into its %lld bytes; "
                  "it was overwritten, or nothing was encoded there",
                  e->ops.name, what, rank, (long long)t->n);
    atomic_store(&e->failed, true);
    return false;
}
