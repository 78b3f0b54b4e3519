/*
 * snappy_none.c - stands where snappy is not. See parquet_inner.h.
 */
#include "lib/texts/parquet_inner.h"

enum sn_status sn_snappy_unpack(const char *in, size_t n, char *out, size_t len, bool *good,
                                const char *name, struct sn_err *err)
{
    (void)in;
    (void)n;
    (void)out;
    (void)len;
    *good = false;
    return sn_fail(err, SN_EINPUT,
                   "%s: is packed with snappy, and this build has no snappy; install libsnappy-dev "
                   "and make again, or write it with zstd",
                   name);
}
