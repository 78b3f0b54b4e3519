/*
 * uses.h - which blocks of which pieces hold the wanted boxes: arithmetic, no files.
 */
#ifndef SN_USES_H
#define SN_USES_H

#include "checkpoint/store/reader.h"

/* A block with wanted values. */
struct sn_use {
    const struct sn_want *want;
    const struct sn_manifest_piece *piece;
    struct sn_box part; /* what the wanted box and the piece have in common */
    int64_t block;      /* of the piece */
};

/* All uses, in the order of the wants, then of the pieces, then of their bytes. */
struct sn_uses {
    const struct sn_want *wants;
    int64_t n;     /* may grow while walking: the walk goes on there */
    int64_t block; /* bytes, as in the manifest */
    /* where the walk is */
    int64_t want, at;
    int piece;
};

/* false behind the last one. */
bool sn_uses_next(struct sn_uses *u, struct sn_use *out);

/* Bytes of block k of a piece of that type. */
int64_t sn_block_bytes(const struct sn_manifest_piece *p, enum sn_dtype dtype, int64_t block,
                       int64_t k);

/* Copy the wanted values of a block, `bytes` from `data` on, into the box that begins at `out`,
 * whose rows are ld values apart. */
void sn_use_copy(const struct sn_use *u, int64_t block, const void *data, int64_t bytes, float *out,
                 int64_t ld);

#endif
