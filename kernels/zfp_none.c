/*
 * zfp_none.c - stands where libzfp is not: zfp is refused with a sentence. See zfp.h.
 */
#include "kernels/zfp.h"

#include <stddef.h>

const char *sn_zfp_missing(void)
{
    return "this build has no libzfp; install libzfp-dev and make again, or take int8, which needs "
           "fewer bits for the same error";
}

bool sn_zfp_init(struct sn_zfp *z, void *words, int64_t bytes, int rate)
{
    (void)z, (void)words, (void)bytes, (void)rate;
    return false;
}

void sn_zfp_fini(struct sn_zfp *z)
{
    (void)z;
}

void sn_zfp_put(struct sn_zfp *z, const float *x, int n)
{
    (void)z, (void)x, (void)n;
}

void sn_zfp_end(struct sn_zfp *z)
{
    (void)z;
}

bool sn_zfp_get(struct sn_zfp *z, float *y, int n)
{
    (void)z, (void)y, (void)n;
    return false;
}

int64_t sn_zfp_compress(void *words, int64_t bytes, const float *x, int64_t n, int rate)
{
    (void)words, (void)bytes, (void)x, (void)n, (void)rate;
    return 0;
}

int64_t sn_zfp_decompress(const void *words, int64_t bytes, float *y, int64_t n, int rate)
{
    (void)words, (void)bytes, (void)y, (void)n, (void)rate;
    return 0;
}
