/*
 * gzip.c - the one file that knows zlib.
 */
#include "lib/base/mem.h"
#include "lib/texts/unpack.h"

#include <zlib.h>

struct gzip {
    z_stream z;
    int ended; /* the next byte begins another member */
};

static voidpf take(voidpf none, uInt n, uInt size)
{
    (void)none;
    return sn_alloc_n(n, size);
}

static void give(voidpf none, voidpf p)
{
    (void)none;
    sn_free(p);
}

static enum sn_unpacked step(void *state, const char *in, size_t *in_len, char *out,
                             size_t *out_len)
{
    struct gzip *g = state;
    if (g->ended && inflateReset(&g->z) != Z_OK)
        return SN_UNPACK_DAMAGED;
    g->ended = 0;
    g->z.next_in = (z_const Bytef *)in;
    g->z.avail_in = (uInt)*in_len;
    g->z.next_out = (Bytef *)out;
    g->z.avail_out = (uInt)*out_len;
    int rc = inflate(&g->z, Z_NO_FLUSH);
    *in_len -= g->z.avail_in;
    *out_len -= g->z.avail_out;
    g->ended = rc == Z_STREAM_END;
    if (rc == Z_OK || rc == Z_BUF_ERROR)
        return SN_UNPACK_MORE;
    return rc == Z_STREAM_END  ? SN_UNPACK_END
           : rc == Z_MEM_ERROR ? SN_UNPACK_NO_MEMORY
                               : SN_UNPACK_DAMAGED;
}

static void destroy(void *state)
{
    struct gzip *g = state;
    (void)inflateEnd(&g->z);
    sn_free(g);
}

enum sn_status sn_gzip_open(struct sn_unpacker *u, const char *name, struct sn_err *err)
{
    struct gzip *g = sn_alloc(sizeof(*g));
    if (g) {
        g->z.zalloc = take;
        g->z.zfree = give;
    }
    if (!g || inflateInit2(&g->z, 15 + 16) != Z_OK) { /* the largest window, with gzip's head */
        sn_free(g);
        return sn_fail(err, SN_ENOMEM, "%s: no memory to unpack it", name);
    }
    *u = (struct sn_unpacker){g, step, destroy};
    return SN_OK;
}
