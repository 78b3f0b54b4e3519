/*
 * snappy.c - the one file that knows libsnappy.
 */
#include "lib/texts/parquet_inner.h"

#include <snappy-c.h>

enum sn_status sn_snappy_unpack(const char *in, size_t n, char *out, size_t len, bool *good,
                                const char *name, struct sn_err *err)
{
    size_t says = 0, room = len;
    (void)name;
    (void)err;
    *good = snappy_uncompressed_length(in, n, &says) == SNAPPY_OK && says == len &&
            snappy_uncompress(in, n, out, &room) == SNAPPY_OK && room == len;
    return SN_OK;
}
