/*
 * aio.h - reads and writes of large blocks by a few threads, past the page cache where the file
 * system allows it (O_DIRECT), and through it where not.
 *
 * Knows nothing of checkpoints. All functions but sn_aio_create and _destroy may be called from
 * several threads, each request by one.
 */
#ifndef SN_AIO_H
#define SN_AIO_H

#include "lib/base/err.h"
#include "lib/base/progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SN_AIO_ALIGN = 4096 };

/* One file, open up to twice: direct and cached. */
struct sn_aio_file;
/* For reading, or (`write`) for writing into a file that exists. */
enum sn_status sn_aio_open(struct sn_aio_file **out, const char *path, bool write,
                           struct sn_err *err);
uint64_t sn_aio_size(const struct sn_aio_file *f); /* when it was opened */
const char *sn_aio_path(const struct sn_aio_file *f);
/* fsync: what was written is on the disk. What the cache holds goes there in parts, each marked in
 * `p`, which may be NULL. */
enum sn_status sn_aio_sync(struct sn_aio_file *f, struct sn_progress *p, struct sn_err *err);
/* It stays until the last request under way has been waited for. NULL is allowed. */
void sn_aio_close(struct sn_aio_file *f);

/* One transfer, the caller's memory, untouched by the caller between submit and wait.
 *
 * Bytes of the file: `bytes` from `offset` on, when row is 0. Else they are cut into rows of `row`
 * bytes that begin `stride` bytes apart in the file; the first one begins at offset - skip, and the
 * transfer begins `skip` bytes into it (skip < row). */
struct sn_aio_request {
    struct sn_aio_file *file;
    bool is_write;
    uint64_t offset;
    size_t bytes;
    size_t row, stride, skip;
    /* Aligned to SN_AIO_ALIGN. Writing: the bytes. Reading: room for bytes + 2 SN_AIO_ALIGN. */
    char *buf;
    char *data; /* out, reading: where in buf the bytes are */
    /* out, may be NULL: sn_hash64 of the bytes, taken by the pool's thread: before a write, or
     * after a read that succeeded. */
    uint64_t *hash;
    /* the pool's own */
    struct sn_aio_request *next;
    int state, error;
};

struct sn_aio;
/* A pool of `threads` threads. */
enum sn_status sn_aio_create(struct sn_aio **out, int threads, struct sn_err *err);
/* Each request that is done is marked there from now on; NULL: nowhere. */
void sn_aio_set_progress(struct sn_aio *a, struct sn_progress *p);
void sn_aio_destroy(struct sn_aio *a); /* nothing may be under way; NULL is allowed */
void sn_aio_submit(struct sn_aio *a, struct sn_aio_request *r);
/* While held, requests queue up and none begins, so that the caller has the machine to itself. Let
 * go before waiting for one. */
void sn_aio_hold(struct sn_aio *a, bool hold);
bool sn_aio_is_done(struct sn_aio *a, const struct sn_aio_request *r);
/* Block until it is done; once for each request. A file that ends too early, a full disk, any
 * refusal: SN_EIO with the file's path and the reason. */
enum sn_status sn_aio_wait(struct sn_aio *a, struct sn_aio_request *r, struct sn_err *err);

#endif
