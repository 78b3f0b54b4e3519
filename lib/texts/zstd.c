/*
 * zstd.c - the one file that knows libzstd. Its own allocations go past lib/base/mem.h: the functions
 * that take others' are not in the shared library.
 */
#include "lib/texts/unpack.h"

#include <zstd.h>

static enum sn_unpacked step(void *state, const char *in, size_t *in_len, char *out,
                             size_t *out_len)
{
    ZSTD_inBuffer from = {in, *in_len, 0};
    ZSTD_outBuffer to = {out, *out_len, 0};
    size_t rc = ZSTD_decompressStream(state, &to, &from);
    *in_len = from.pos;
    *out_len = to.pos;
    if (ZSTD_isError(rc))
        return SN_UNPACK_DAMAGED;
    return rc == 0 ? SN_UNPACK_END : SN_UNPACK_MORE;
}

static void destroy(void *state)
{
    (void)ZSTD_freeDStream(state);
}

enum sn_status sn_zstd_open(struct sn_unpacker *u, const char *name, struct sn_err *err)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    if (!z)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to unpack it", name);
    *u = (struct sn_unpacker){z, step, destroy};
    return SN_OK;
}
