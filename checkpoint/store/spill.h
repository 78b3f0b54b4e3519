/*
 * spill.h - boxes of memory into files, block by block, hashed on the way; internal to checkpoint/.
 */
#ifndef SN_SPILL_H
#define SN_SPILL_H

#include "checkpoint/io/aio.h"
#include "checkpoint/store/store.h"

struct sn_spill_box {
    const struct sn_state_tensor *from;
    /* Where it goes: file, and offset of its first byte; row and stride if its rows lie apart. */
    struct sn_aio_request to;
    uint64_t *hashes; /* out: one for each SN_BLOCK_BYTES of it */
};

/* Bytes of staging for a save that is not given memory for all: enough to keep the disk busy. */
enum { SN_SPILL_RING = 4 << 20 };
/* How many blocks it has. */
int64_t sn_spill_blocks(const struct sn_state_tensor *t);

/* Write n boxes through the store's staging memory, and mark the phase as copied in between. The
 * files are not synced. */
enum sn_status sn_spill(struct sn_store *store, const struct sn_spill_box *boxes, int n,
                        struct sn_err *err);

#endif
