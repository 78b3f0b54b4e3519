/*
 * unpack.h - packed streams: gzip (gzip.c) and zstd (zstd.c), each from a library that may be missing
 * (gzip_none.c, zstd_none.c).
 */
#ifndef SN_UNPACK_H
#define SN_UNPACK_H

#include "lib/base/err.h"

#include <stddef.h>

enum sn_unpacked { SN_UNPACK_MORE, SN_UNPACK_END, SN_UNPACK_DAMAGED, SN_UNPACK_NO_MEMORY };

struct sn_unpacker {
    void *state; /* NULL: none */
    /* Take bytes of `in` and give bytes to `out`: the lengths become what was taken and given. END:
     * a stream is complete; another may follow, as in files that were put together. */
    enum sn_unpacked (*step)(void *state, const char *in, size_t *in_len, char *out,
                             size_t *out_len);
    void (*destroy)(void *state);
};
/* SN_ENOMEM; SN_EINPUT names the library that the build has not. */
enum sn_status sn_gzip_open(struct sn_unpacker *u, const char *name, struct sn_err *err);
enum sn_status sn_zstd_open(struct sn_unpacker *u, const char *name, struct sn_err *err);

#endif
