/*
 * gzip_none.c - stands where zlib is not. See unpack.h.
 */
#include "lib/texts/unpack.h"

enum sn_status sn_gzip_open(struct sn_unpacker *u, const char *name, struct sn_err *err)
{
    (void)u;
    return sn_fail(
        err, SN_EINPUT,
        "%s: is packed with gzip, and this build has no zlib; install zlib1g-dev and make "
        "again, or unpack it",
        name);
}
