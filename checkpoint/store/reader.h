/*
 * reader.h - one committed checkpoint, open for reading: any boxes of its tensors, in the order in
 * which they were asked for, each byte verified before it is used.
 *
 * What is wanted is known before the first read, so blocks are fetched ahead by threads into a
 * bounded cache; each block of a piece is read once as long as its users follow each other within
 * that memory.
 */
#ifndef SN_READER_H
#define SN_READER_H

#include "checkpoint/format/manifest.h"
#include "checkpoint/io/aio.h"

struct sn_reader {
    char *dir; /* for messages too */
    struct sn_manifest manifest;
    struct sn_progress *progress;  /* the caller's, set after the opening; NULL: nobody asks */
    struct sn_reader_files *files; /* open ones, and where their datasets are */
};

/* Check COMMIT against the manifest, read it, and see that every tensor is covered exactly once,
 * and that a directory named step-N is of step N. Damage is SN_EIO, an unknown format SN_EINPUT.
 * Shards are not touched. */
enum sn_status sn_manifest_load(struct sn_manifest *out, const char *step_dir, struct sn_err *err);
/* The same, to read from. */
enum sn_status sn_reader_open(struct sn_reader *out, const char *step_dir, struct sn_err *err);
void sn_reader_close(struct sn_reader *r);

/* Is the shard there, a plain file of the size that was saved? */
enum sn_status sn_reader_check_shard(struct sn_reader *r, int shard, struct sn_err *err);
/* A piece that will be located: its shard is checked, and when the first such piece of a shard is
 * located, all of them are, in one visit of HDF5. Without a hint, that is done for all pieces of
 * the shard. */
enum sn_status sn_reader_expect(struct sn_reader *r, const struct sn_manifest_tensor *t,
                                const struct sn_manifest_piece *p, struct sn_err *err);
/* Where a piece's bytes are, for a request (file, offset, row, stride; skip and bytes are left at 0
 * and the whole piece). Opens the shard and checks the dataset as sn_h5_locate does, and the file's
 * size against the manifest. The sentence names the shard and the tensor. Submit before another
 * piece is located: the file may be closed then. */
enum sn_status sn_reader_locate(struct sn_reader *r, const struct sn_manifest_tensor *t,
                                const struct sn_manifest_piece *p, struct sn_aio_request *out,
                                struct sn_err *err);
/* The same for the block: bytes and place of block k of the piece. */
enum sn_status sn_reader_locate_block(struct sn_reader *r, const struct sn_manifest_tensor *t,
                                      const struct sn_manifest_piece *p, int64_t k,
                                      struct sn_aio_request *out, struct sn_err *err);
/* The sentence for a block whose hash differs: shard, dataset, block and its rows. SN_EIO. */
enum sn_status sn_reader_bad_block(const struct sn_reader *r, const struct sn_manifest_tensor *t,
                                   const struct sn_manifest_piece *p, int64_t k,
                                   struct sn_err *err);

/* --- a feed of boxes -------------------------------------------------------------------------- */

/* A box that will be asked for. */
struct sn_want {
    const struct sn_manifest_tensor *tensor; /* of the reader's manifest */
    struct sn_box box;                       /* inside it; may be empty */
};

struct sn_feed;
/* `wants` stay the caller's until the feed is closed. `memory` bounds the bytes of the cache, where
 * it is more than sn_feed_least. The shards of all wants are checked; then reads begin at once. */
enum sn_status sn_feed_open(struct sn_feed **out, struct sn_reader *r, const struct sn_want *wants,
                            int64_t n, int64_t memory, struct sn_err *err);
/* What a feed of any boxes of this checkpoint takes at least: 4 of the largest block; before schema
 * 3, where a piece is one block, 2. */
int64_t sn_feed_least(const struct sn_reader *r);
/* The next box of the list, as fp32 (bf16 and fp16 are widened), rows ld values apart. After a
 * failure the feed can only be closed. */
enum sn_status sn_feed_next(struct sn_feed *f, float *out, int64_t ld, struct sn_err *err);
int64_t sn_feed_bytes_read(const struct sn_feed *f);
void sn_feed_close(struct sn_feed *f); /* NULL is allowed; waits for reads under way */

#endif
