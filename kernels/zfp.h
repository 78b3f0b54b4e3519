/*
 * zfp.h - the one door to libzfp: fixed-rate streams of fp32 arrays of one dimension.
 *
 * kernels/zfp.c is the door; zfp_none.c stands in where the library's header is not found, and the
 * Makefile picks. A stream lies in whole words of 64 bits; what is written is what zfp_compress()
 * writes for the whole array, except for blocks of 4 that hold what is not finite (a block whose
 * first bit says "all zero" and whose other bits are all set, which the library never writes) or
 * nothing of 2^-98 or more (zeros: there the library would scale by an infinity).
 */
#ifndef SN_ZFP_H
#define SN_ZFP_H

#include <stdbool.h>
#include <stdint.h>

/* NULL, or the sentence that says that the library is not here. */
const char *sn_zfp_missing(void);

/* A place in a stream. */
struct sn_zfp {
    void *library;
    uint64_t *words;
    int64_t at, end; /* bits */
    int rate;
};

/* At the first of `words`, a multiple of 8 bytes. The library allocates a few words, which fini()
 * gives back; false: it could not. */
bool sn_zfp_init(struct sn_zfp *z, void *words, int64_t bytes, int rate);
void sn_zfp_fini(struct sn_zfp *z);
/* n values, a multiple of 4 in all calls but the last. */
void sn_zfp_put(struct sn_zfp *z, const float *x, int n);
/* After the last: what is left of the last word becomes zeros. */
void sn_zfp_end(struct sn_zfp *z);
/* The next n values; false: these bits are none that put() writes. */
bool sn_zfp_get(struct sn_zfp *z, float *y, int n);

/* The library's own calls for a whole array, which tests and benchmarks compare with: bytes written
 * or read, in words that may be shorter than 64 bits; 0 when it refuses. */
int64_t sn_zfp_compress(void *words, int64_t bytes, const float *x, int64_t n, int rate);
int64_t sn_zfp_decompress(const void *words, int64_t bytes, float *y, int64_t n, int rate);

#endif
