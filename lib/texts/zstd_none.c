/*
 * zstd_none.c - stands where libzstd is not. See unpack.h.
 */
#include "lib/texts/unpack.h"

enum sn_status sn_zstd_open(struct sn_unpacker *u, const char *name, struct sn_err *err)
{
    (void)u;
    return sn_fail(
        err, SN_EINPUT,
        "%s: is packed with zstd, and this build has no libzstd; install libzstd-dev and "
        "make again, or unpack it",
        name);
}
