/*
 * writer.h - blocks on their way to files: filled by the caller, written behind its back.
 *
 * Staging is one arena, handed out in order and reused in order: with little memory the caller is
 * slowed to the disk's rate, with room for everything it runs at the rate of its own copying (an
 * asynchronous save is nothing else).
 */
#ifndef SN_WRITER_H
#define SN_WRITER_H

#include "checkpoint/io/aio.h"

struct sn_writer;

/* `arena` of `bytes` (at least 2 blocks of SN_BLOCK_BYTES) is the caller's, aligned to 4096, and
 * outlives the writer; at most `most` blocks are under way at once (records are allocated here,
 * none later). */
enum sn_status sn_writer_create(struct sn_writer **out, struct sn_aio *aio, void *arena,
                                size_t bytes, int64_t most, struct sn_err *err);
/* Waits for what is under way. NULL is allowed. */
void sn_writer_destroy(struct sn_writer *w);

/* Room for `bytes` (at most SN_BLOCK_BYTES), aligned to 4096; blocks while there is none. NULL: a
 * write has failed, sn_writer_drain says why. */
void *sn_writer_take(struct sn_writer *w, size_t bytes);
/* Write what was taken last. The request's file, offset, bytes and rows say where to, its hash,
 * when it is not NULL, where the hash of the block will be once it is written; its buf is what take
 * gave.
 */
void sn_writer_put(struct sn_writer *w, const struct sn_aio_request *where);
/* Block until all is written; the first failure. */
enum sn_status sn_writer_drain(struct sn_writer *w, struct sn_err *err);

#endif
